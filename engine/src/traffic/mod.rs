//! What a flow does next: pure state machines, without sockets, rings or clocks.

pub mod schedule;
pub mod udp;
