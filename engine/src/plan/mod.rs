//! What one invocation does: typed text ([`Spec`]) becomes checked meaning ([`Plan`]).
//!
//! No I/O beyond reading the text it is given. Every cross-field rule lives in [`check`].

pub mod address;
pub mod case;
pub mod check;
mod expand;
pub mod invocation;
mod matrix;
mod name;
pub mod spec;
#[cfg(test)]
mod tests;
pub mod tuning;
mod words;
mod zerocopy;

pub use address::{DEFAULT_PORT, HostPort, TypedHost};
pub use case::{
    Case, CloseKind, Direction, Engine, Family, GroupPlan, Limit, Load, Options, Plan, ProbeUse,
    Proto, Receive, SourcePorts, Test, Traffic, Wait, ZeroCopy,
};
pub use check::PlanError;
pub use invocation::{JsonTarget, RunInvocation, ServeOptions};
pub use spec::{SizeSpec, Spec};
pub use tuning::{ReceiveBuffers, RingFlags, Tuning};

/// Most payload bytes of a UDP datagram.
pub const MAX_UDP_BYTES: u64 = 65_507;

/// Bytes of the header that UDP datagrams carry where they are large enough.
pub const UDP_HEADER_BYTES: u64 = 24;

/// Most bytes of a message.
pub const MAX_MESSAGE_BYTES: u64 = 64 << 20;

/// Size of a TCP stream's messages unless told otherwise, bytes.
pub const DEFAULT_STREAM_BYTES: u64 = 128 << 10;

/// After this long a UDP request counts as lost unless told otherwise, nanoseconds.
pub const DEFAULT_TIMEOUT_NS: u64 = 1_000_000_000;

/// How long nothing may arrive from the other side unless told otherwise, nanoseconds.
pub const DEFAULT_PEER_TIMEOUT_NS: u64 = 5_000_000_000;
