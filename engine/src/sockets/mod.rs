//! The engine of plain system calls: sends and receives that do not wait, batches of datagrams,
//! epoll.
//!
//! It serves where io_uring is forbidden, it is what io_uring is measured against, and it wins
//! where there is nothing to batch: one flow.
//!
//! | file | what |
//! |---|---|
//! | `engine` | the engine as a [`crate::backend::Backend`], and how it waits |
//! | `input`, `output` | what arrives, what leaves |
//! | `buffers` | receive memory |
//! | `zerocopy` | sends from our memory, their notices, sendfile |
//! | `slots`, `sends` | the tables of sockets and of sends |

mod buffers;
mod engine;
mod input;
mod output;
mod sends;
mod slots;
mod zerocopy;

#[cfg(test)]
mod tests;

pub use engine::Sockets;
