//! What can go wrong once the probes are loaded.

use aya::maps::MapError;

/// A map of the probes could not be read or written. The run goes on without.
#[derive(thiserror::Error, Debug)]
pub enum KernelError {
    /// The object has no such map, or of another shape.
    #[error("the probes' object has no map `{name}` of the expected shape: {text}")]
    Layout {
        /// Map.
        name: &'static str,
        /// What the loader says.
        text: String,
    },
    /// The kernel refused an access.
    #[error("cannot use the probes' map `{name}`: {}", causes(source))]
    Map {
        /// Map.
        name: &'static str,
        /// What the kernel says.
        source: MapError,
    },
    /// The address of a socket is not known.
    #[error("cannot tell the port of a followed socket: {0}")]
    Socket(#[from] nix::errno::Errno),
    /// The network namespace of this thread is not known.
    #[error("cannot tell this thread's network namespace: {0}")]
    Namespace(std::io::Error),
    /// A map of the programs cannot be mapped into memory.
    #[error("cannot map the probes' records into memory: {0}")]
    Mapping(std::io::Error),
}

/// An error with its causes on one line.
pub(super) fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(&format!(": {error}"));
        source = error.source();
    }
    text
}
