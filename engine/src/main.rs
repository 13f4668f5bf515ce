//! The `ringperf` command.

fn main() {}
