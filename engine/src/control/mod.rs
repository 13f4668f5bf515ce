//! The protocol between client and server.
//!
//! [`wire`] is the messages, [`frame`] and [`results`] their framing, [`hello`] the first bytes of
//! the flows, [`session`] the state machines: all without I/O. [`server`] and [`client`] are the
//! shells that carry them; [`runtime`] is the one place that knows on which runtime.
//! [`crew`] is what the shells ask of the data plane, which the `run` room implements.

pub mod client;
pub mod crew;
pub mod error;
mod flows;
pub mod frame;
mod handshake;
pub mod hello;
mod link;
pub mod results;
pub mod runtime;
pub mod server;
pub mod session;
pub mod stop;
pub mod wire;

#[cfg(test)]
mod tests;

pub use client::{Client, ConnectConfig, SampleOutcome, SampleRequest};
pub use error::ControlError;
pub use server::{ServeConfig, ServeOutcome, serve};
pub use stop::{Stop, StopHandle};
