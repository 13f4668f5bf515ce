//! The io_uring engine: one ring per worker, made and used on the worker's thread.
//!
//! [`Ring`] implements [`crate::backend::Backend`] and knows nothing of what an operation means.
//! What differs between kernels is found by trying, never by version: the set-up flags by a
//! ladder from richest to poorest, receive flags on a socket pair, the opcodes by asking.

mod core;
mod error;
mod group;
mod input;
mod memory;
mod output;
mod probe;
mod ring;
mod sends;
mod slots;
mod token;
mod zerocopy;

#[cfg(test)]
mod tests;

pub use error::{Refusal, RingError};
pub use probe::available;
pub use ring::Ring;
