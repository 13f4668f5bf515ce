//! The meaning of a plan: plain data, valid once `plan::check` has passed it.
//!
//! A [`Case`] crosses the wire in the control protocol's offer and stands in every result, so its
//! fields are part of the result's schema.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Tuning;

/// Transport protocol.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[serde(rename_all = "lowercase")]
pub enum Proto {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// Kind of test, as typed by the user.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[serde(rename_all = "lowercase")]
pub enum Test {
    /// Bulk data, client to server.
    Stream,
    /// Bulk data, server to client.
    Reverse,
    /// Bulk data both ways at once, on separate flows.
    Bidir,
    /// Request and response on kept connections.
    Rr,
    /// Connect, one transaction, close.
    Crr,
}

/// What the flows of one group do.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[serde(rename_all = "lowercase")]
pub enum Traffic {
    /// Bulk data in one direction.
    Stream,
    /// Request and response.
    Rr,
    /// Connect, request and response, close.
    Crr,
}

/// Which side sends (streams) or asks (request-response).
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// The client sends or asks.
    ClientToServer,
    /// The server sends.
    ServerToClient,
}

/// One kind of traffic within a case; `bidir` has two, every other test one.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct GroupPlan {
    /// What the flows do.
    pub traffic: Traffic,
    /// Who sends or asks.
    pub direction: Direction,
}

/// Address family of the flows.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Family {
    /// Whatever the name resolves to first.
    #[serde(rename = "any")]
    Any,
    /// IPv4 only.
    #[serde(rename = "4")]
    V4,
    /// IPv6 only.
    #[serde(rename = "6")]
    V6,
}

/// How traffic is offered.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, PartialEq, Debug)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Load {
    /// A fixed number outstanding (the depth), as fast as that goes.
    Closed,
    /// Open loop: messages or transactions per second, in total over all flows of a group.
    Rate {
        /// Messages or transactions per second over all flows of a group.
        per_second: f64,
    },
    /// Open loop: payload bits per second, in total over all flows of a group (streams only).
    Bitrate {
        /// Payload bits per second over all flows of a group.
        bits_per_second: u64,
    },
}

/// What ends a sample.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Limit {
    /// The measured window's length.
    Duration {
        /// Nanoseconds.
        ns: u64,
    },
    /// Exactly so many payload bytes in total over the flows of each group, no warm-up.
    Bytes {
        /// Payload bytes.
        bytes: u64,
    },
    /// Exactly so many messages (streams) or transactions in total per group, no warm-up.
    Transactions {
        /// Messages or transactions.
        count: u64,
    },
}

/// How a worker waits for completions.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
#[serde(rename_all = "lowercase")]
pub enum Wait {
    /// Sleeps in the kernel.
    #[default]
    Sleep,
    /// Polls without sleeping; burns the CPU on purpose.
    Spin,
    /// Sleeps when idle, spins when the next completion is nearer than a wake-up.
    Adaptive,
}

/// By which engine a side's workers drive their sockets.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// io_uring, unless this host refuses it; plain calls for transactions one after the other.
    #[default]
    Auto,
    /// io_uring or none.
    IoUring,
    /// Plain system calls and epoll.
    Sockets,
}

/// What of the kernel is watched during the measured samples.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
#[serde(rename_all = "lowercase")]
pub enum ProbeUse {
    /// Programs on slow paths only (drops, retransmissions, resets), where they are permitted.
    #[default]
    Auto,
    /// Also the stages of every packet's way; the figures are those of a probed sample.
    On,
    /// Nothing.
    Off,
    /// Nothing but the sample with the stages that `auto` adds.
    Only,
}

impl ProbeUse {
    /// Whether the stages are watched in the sample itself.
    pub fn wants_stages(self) -> bool {
        matches!(self, ProbeUse::On | ProbeUse::Only)
    }
}

/// What the receiver does with the payload.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
#[serde(rename_all = "lowercase")]
pub enum Receive {
    /// Copies it to user space, as an application does.
    #[default]
    Copy,
    /// Lets the kernel throw it away (MSG_TRUNC, TCP only).
    Discard,
}

/// How a stream's bytes are sent without a copy by the kernel.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[serde(rename_all = "lowercase")]
pub enum ZeroCopy {
    /// IORING_OP_SEND_ZC, by the io_uring engine.
    Send,
    /// MSG_ZEROCOPY, by the sockets engine.
    Msg,
    /// sendfile(2) from a sealed file in memory, by the sockets engine (TCP only).
    File,
}

/// How a TCP connection ends.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
#[serde(rename_all = "lowercase")]
pub enum CloseKind {
    /// Orderly, with FIN (and TIME_WAIT).
    #[default]
    Fin,
    /// Abortive, with RST (SO_LINGER 0).
    Rst,
}

/// Source ports of the client's flows.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
#[serde(rename_all = "lowercase", tag = "kind")]
pub enum SourcePorts {
    /// The kernel's ephemeral choice, new for each sample.
    #[default]
    Fresh,
    /// The same ports in every sample: the first sample's choice is kept.
    Fixed,
    /// Ports from an inclusive range, one per flow in order.
    Range {
        /// First port.
        first: u16,
        /// Last port.
        last: u16,
    },
}

/// Options of a case that are not dimensions of the matrix. They apply to both sides unless the
/// field's name says which.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Eq, Debug, Default)]
#[serde(default)]
pub struct Options {
    /// TCP_NODELAY.
    pub nodelay: bool,
    /// TCP maximum segment size, bytes.
    pub mss: Option<u32>,
    /// SO_SNDBUF and SO_RCVBUF, bytes; none leaves the kernel's autotuning on.
    pub window: Option<u64>,
    /// SO_RCVBUFFORCE, bytes (needs CAP_NET_ADMIN).
    pub rcvbuf: Option<u64>,
    /// SO_MAX_PACING_RATE per flow, bits per second.
    pub pacing: Option<u64>,
    /// TCP congestion control by name.
    pub congestion: Option<String>,
    /// DSCP code point, 0 to 63.
    pub dscp: Option<u8>,
    /// How connections end.
    pub close: CloseKind,
    /// What the receiver does with the payload.
    pub receive: Receive,
    /// Messages coalesced into one send operation.
    pub coalesce: Option<u32>,
    /// How streams are sent without copies; none lets the kernel copy.
    pub zerocopy: Option<ZeroCopy>,
    /// UDP segments per send operation (UDP_SEGMENT).
    pub gso: Option<u32>,
    /// UDP_GRO on the receiver.
    pub gro: bool,
    /// Whether UDP datagrams larger than the path's MTU may be fragmented.
    pub fragment: bool,
    /// How the client's workers wait.
    pub client_wait: Wait,
    /// How the server's workers wait.
    pub server_wait: Wait,
    /// What drives the client's sockets.
    pub client_engine: Engine,
    /// What drives the server's sockets.
    pub server_engine: Engine,
    /// SO_BUSY_POLL on the client, microseconds.
    pub client_busy_poll: Option<u32>,
    /// SO_BUSY_POLL on the server, microseconds.
    pub server_busy_poll: Option<u32>,
    /// The server answers this long after a request is complete, nanoseconds.
    pub think_ns: u64,
    /// Fill the payload with a pattern and check it at the receiver.
    pub verify: bool,
    /// After this long a UDP request counts as lost, nanoseconds.
    pub timeout_ns: u64,
    /// Plain buffers and a wake-up per arrival: the engine chooses nothing by itself.
    pub as_application: bool,
    /// What of the engine's own choices is given.
    pub tuning: Tuning,
    /// What of the kernel is watched.
    pub probes: ProbeUse,
    /// A tracepoint that the probes leave alone, to see what is lost without it.
    pub probes_without: Option<String>,
    /// Source ports of the client's flows.
    pub source_ports: SourcePorts,
    /// Source address of the client's flows.
    pub bind: Option<std::net::IpAddr>,
    /// SO_BINDTODEVICE of the client's flows.
    pub device: Option<String>,
}

/// One point of the matrix.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Debug)]
pub struct Case {
    /// Unique name within the plan, made of every dimension and every option that changes what
    /// the traffic is.
    pub name: String,
    /// Transport.
    pub proto: Proto,
    /// Kind of test.
    pub test: Test,
    /// The groups of traffic, in document order.
    pub groups: Vec<GroupPlan>,
    /// Message (streams) or request (rr, crr) size, bytes. 0 until the path MTU is known where
    /// `size_from_path_mtu` is set.
    pub request_bytes: u64,
    /// Response size, bytes; 0 for streams.
    pub response_bytes: u64,
    /// Take the UDP message size from the path MTU less headers.
    pub size_from_path_mtu: bool,
    /// Flows per direction.
    pub flows: u32,
    /// Client workers.
    pub workers: u32,
    /// Server workers.
    pub server_workers: u32,
    /// Requests outstanding (rr, crr) or sends in flight (streams) per flow; none is the engine's
    /// choice for streams and 1 for rr and crr.
    pub depth: Option<u32>,
    /// How traffic is offered.
    pub load: Load,
    /// Address family.
    pub family: Family,
    /// What ends a sample.
    pub limit: Limit,
    /// Uncounted time at the start, nanoseconds.
    pub warmup_ns: u64,
    /// Interval of the reports, nanoseconds.
    pub interval_ns: u64,
    /// Everything that is not a dimension.
    pub options: Options,
}

impl Case {
    /// The length of the window, where it is fixed.
    pub fn duration_ns(&self) -> Option<u64> {
        match self.limit {
            Limit::Duration { ns } => Some(ns),
            Limit::Bytes { .. } | Limit::Transactions { .. } => None,
        }
    }

    /// Flows of all groups together.
    pub fn total_flows(&self) -> u32 {
        self.flows * self.groups.len() as u32
    }
}

/// Everything one invocation does: every rule checked.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Debug)]
pub struct Plan {
    /// The points of the matrix, in order.
    pub cases: Vec<Case>,
    /// Timed repetitions of each case.
    pub samples: u32,
    /// Free text of the user.
    pub title: Option<String>,
    /// CPUs of the client's workers; empty takes the allowed ones.
    pub client_cpus: Vec<u32>,
    /// CPUs of the server's workers; empty lets the server choose.
    pub server_cpus: Vec<u32>,
    /// How long nothing at all may arrive from the other side, nanoseconds.
    pub peer_timeout_ns: u64,
    /// What the plan changed of what was typed, one sentence each, for the run's findings.
    #[serde(default)]
    pub notes: Vec<String>,
}
