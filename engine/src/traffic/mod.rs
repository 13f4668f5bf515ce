//! What a flow does next: pure state machines, without sockets, rings or clocks.

pub mod budget;
pub mod schedule;
pub mod tag;
pub mod transactions;
pub mod udp;
