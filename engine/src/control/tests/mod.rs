//! Both shells against each other over loopback, without a data plane.

pub(super) mod case;
