//! Why the control plane could not do its work.

use std::io;

use super::wire::Refusal;

/// An error of the shells, for people.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The server's port cannot be had.
    #[error("cannot listen on {address}: {source}; {remedy}")]
    Listen {
        /// Address and port.
        address: String,
        /// The kernel's answer.
        source: io::Error,
        /// What to do.
        remedy: &'static str,
    },
    /// Nobody answers, or the name means nothing.
    #[error("cannot reach {server}: {cause}")]
    Unreachable {
        /// As typed, with the port.
        server: String,
        /// Each address and what it said.
        cause: String,
    },
    /// The other side or this side's limits said no.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The user stopped while a connection was being made.
    #[error("interrupted before the server was reached")]
    Interrupted,
}

impl ControlError {
    /// As a refusal, with exit code and identifier.
    pub fn refusal(&self) -> Refusal {
        match self {
            ControlError::Listen { source, .. } => {
                let missing = source.kind() == io::ErrorKind::AddrNotAvailable;
                Refusal::new(if missing { 2 } else { 5 }, "listen", self.to_string())
            }
            ControlError::Unreachable { .. } => Refusal::new(4, "unreachable", self.to_string()),
            ControlError::Refused(refusal) => refusal.clone(),
            ControlError::Interrupted => Refusal::new(4, "interrupted", self.to_string()),
        }
    }
}
