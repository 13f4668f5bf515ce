//! The protocol between client and server.
//!
//! [`wire`] is the messages and their framing, without I/O; the shells around it carry them.
//! [`crew`] is what the shells ask of the data plane, which the `run` room implements.

pub mod crew;
pub mod wire;
