//! The io_uring engine. The other room with `unsafe`.
