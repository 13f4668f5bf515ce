//! Both shells against each other over loopback, without a data plane.

pub(super) mod case;
mod fake;
mod faults;
mod harness;
mod limits;
mod samples;
mod strangers;
