//! The kernel ABI in safe wrappers. One of the two rooms with `unsafe`.

pub mod flow_socket;
