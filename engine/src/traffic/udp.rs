//! UDP framing and loss accounting: what a datagram says and what a receiver concludes from it.

mod header;
mod jitter;
mod jumps;
mod tracker;

pub use header::{HEADER_BYTES, Header, MAX_FLOW, Phase};
pub use jitter::Jitter;
pub use tracker::{Account, Arrival, Tracker, WINDOW};

#[cfg(test)]
mod tests;
