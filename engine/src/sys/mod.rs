//! The kernel's interface in safe wrappers: clocks, socket options, control messages, TCP_INFO,
//! affinity, limits, memory. No policy: nothing here decides what a value should be.

pub mod address;
pub mod affinity;
pub mod clock;
pub mod cmsg;
pub mod epoll;
pub mod eventfd;
pub mod limits;
pub mod memory;
pub mod open;
mod option;
pub mod queue;
pub mod rusage;
pub mod shared;
pub mod socket;
pub mod stdio;
pub mod tcp_info;
pub mod transfer;
pub mod zerocopy;
