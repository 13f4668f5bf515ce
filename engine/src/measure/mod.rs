//! Allocation-free recording of what was counted and timed.

pub mod cpu;
pub mod histogram;
pub mod journey;
pub mod netstat;
pub mod recorder;
pub mod tcp;
