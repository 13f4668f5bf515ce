//! Messages of the control connection and their framing.
//!
//! ```text
//! client                                   server
//!   Hello        ------------------------->          session begins
//!                <------------------------- Welcome | Refused
//!   Offer        ------------------------->          one sample of one case
//!                <------------------------- Accepted | Refused
//!   flows open, each with a hello of its own
//!                <------------------------- Ready    every flow is there, workers wait
//!   Start        ------------------------->
//!   Progress     <------------------------> Progress  every interval, never waited for
//!                <------------------------- WindowDone
//!   Stop         ------------------------->          senders stop, receivers drain
//!                <------------------------- Results ... (chunks)
//!                                           once after each Accepted, whatever ended the sample
//!   Offer | Bye  ------------------------->
//!   Heartbeat    <------------------------> Heartbeat every second
//!   Failed       <------------------------> Failed    the sample or the session ends
//! ```
//!
//! A frame is a 4-byte big-endian length and so many bytes of JSON. The length is bounded by
//! [`MAX_FRAME`]; memory grows with what has arrived, not with what the length claims.

use serde::{Deserialize, Serialize};

pub use super::frame::{Decoder, WireError, encode};
use crate::plan::Case;
use crate::record::{HostFacts, Progress};

/// Version of the protocol; both sides must have the same.
pub const PROTOCOL: u32 = 1;

/// Most bytes of one frame's body.
pub const MAX_FRAME: usize = 256 * 1024;

/// Why something was refused, for people and for the exit code.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{text}")]
pub struct Refusal {
    /// Exit code of DESIGN.md that the client ends with.
    pub exit_code: u8,
    /// Stable identifier, kebab-case.
    pub code: String,
    /// What happened, where, and what to do about it.
    pub text: String,
}

impl Refusal {
    /// A refusal with the given exit code.
    pub fn new(exit_code: u8, code: &str, text: impl Into<String>) -> Refusal {
        Refusal {
            exit_code,
            code: code.to_string(),
            text: text.into(),
        }
    }
}

/// One sample of one case, as the client wants it run.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
pub struct Offer {
    /// Number of the case in the plan, from 0.
    pub case_index: u32,
    /// Number of the sample, from 1.
    pub sample: u32,
    /// The case, with its sizes resolved.
    pub case: Case,
    /// CPUs for the workers of the side that reads this; empty lets it choose.
    pub cpus: Vec<u32>,
    /// CPUs that the other side's workers use where both sides share this machine's CPUs.
    pub avoid_cpus: Vec<u32>,
    /// Session cookie that UDP headers carry (the low 32 bits) and hellos prove.
    pub cookie: u64,
}

/// A message of the control connection.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum Message {
    /// Client to server: a session is wanted.
    Hello {
        /// [`PROTOCOL`].
        protocol: u32,
        /// Version of ringperf.
        version: String,
        /// UUID of the run.
        run: String,
        /// How long nothing may arrive, nanoseconds.
        peer_timeout_ns: u64,
        /// Boot identifier of the client's kernel; where the server's is the same, both share
        /// the machine's CPUs. Empty where unknown.
        #[serde(default)]
        boot: String,
        /// Facts of the client's host.
        host: Box<HostFacts>,
    },
    /// Server to client: the session is granted.
    Welcome {
        /// [`PROTOCOL`].
        protocol: u32,
        /// Version of ringperf.
        version: String,
        /// Port of the data connections; 0 is the one that the client reached the server by,
        /// which a path that translates ports knows by another number than the server.
        data_port: u16,
        /// Facts of the server's host.
        host: Box<HostFacts>,
    },
    /// Server to client: no, and why. Ends the session before `Welcome`, the sample after it.
    Refused(Refusal),
    /// Client to server: one sample.
    Offer(Box<Offer>),
    /// Server to client: workers are waiting for their flows; open them with this cookie.
    Accepted {
        /// Secret of this sample's flows.
        cookie: u64,
        /// The server's workers share the client's CPUs (same machine) and chose these.
        cpus: Vec<u32>,
    },
    /// Server to client: every flow is there.
    Ready,
    /// Client to server: traffic begins.
    Start,
    /// One interval's counts of the side that sends it.
    Progress(Box<Progress>),
    /// Server to client: the server's window ended or its limit was reached.
    WindowDone,
    /// Client to server: senders stop, receivers drain.
    Stop,
    /// A piece of the JSON of a `SideReport`, in order.
    Results {
        /// Piece number, from 0.
        piece: u32,
        /// No more pieces follow.
        last: bool,
        /// Part of the JSON text.
        text: String,
    },
    /// The sample, or before `Welcome` the session, ends for this reason.
    Failed(Refusal),
    /// Still here.
    Heartbeat,
    /// The session ends.
    Bye,
}
