//! What the kernel said of one sample, on one side.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::side::Finding;

/// A number of our flows beside that of the whole system, which includes it.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[serde(default)]
pub struct OursAndSystem {
    /// On our flows.
    pub ours: u64,
    /// On the whole system, ours included.
    pub system: u64,
}

/// Packets that the kernel threw away for one reason at one place.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Eq, Debug, Default)]
#[serde(default)]
pub struct DropReport {
    /// Reason by its name in the running kernel, without `SKB_DROP_REASON_`; its number in
    /// hexadecimal where the kernel does not name it; `none` on kernels before 5.17.
    pub reason: String,
    /// Function that threw it away; `hidden` without the right to read kernel addresses.
    pub place: String,
    /// Segments on the wire (a packet of GSO or GRO counts as what it carries) of our flows.
    pub ours: u64,
    /// The same on the whole system, ours included.
    pub system: u64,
    /// Segments of our flows in each interval of the window.
    pub per_interval: Vec<u64>,
}

/// Segments retransmitted by one flow for one cause.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Eq, Debug, Default)]
#[serde(default)]
pub struct RetransmitReport {
    /// Whether it is our traffic.
    pub ours: bool,
    /// Group of traffic, where the socket is known as one of a flow.
    pub group: Option<u32>,
    /// Flow number within its group, where the socket is known as one of a flow.
    pub flow: Option<u32>,
    /// `SYN`, `SYN-ACK`, or the state of congestion control at that time by its name in the
    /// running kernel, without `TCP_CA_`: `Loss` is a time-out, `Recovery` a fast retransmission,
    /// `Open` and `Disorder` mostly a probe of the tail.
    pub cause: String,
    /// Segments on the wire.
    pub segments: u64,
}

/// A counter of the kernel that moved within the window.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Eq, Debug, Default)]
#[serde(default)]
pub struct CounterReport {
    /// Where it stands: `snmp.Tcp`, `netstat.TcpExt`, `softnet`, `qdisc.<device>.<kind>.<handle>`,
    /// `nic.<device>`, `interrupt`, `softirq`, `conntrack`, `xfrm`,
    /// `listener.<address>`.
    pub source: String,
    /// Its name there.
    pub name: String,
    /// How far it moved, in its own unit; summed over the CPUs.
    pub delta: i64,
    /// How far it moved on each CPU, by number of the column or row; empty where the kernel does
    /// not tell.
    pub per_cpu: Vec<i64>,
}

/// What one probe program used of the CPU.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Eq, Debug, Default)]
#[serde(default)]
pub struct ProgramCost {
    /// Program.
    pub program: String,
    /// Times that it ran.
    pub runs: u64,
    /// Time that it ran, summed over the CPUs, nanoseconds.
    pub time_ns: u64,
}

/// What the probes cost.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Eq, Debug, Default)]
#[serde(default)]
pub struct CostReport {
    /// Each program that ran.
    pub programs: Vec<ProgramCost>,
    /// Time of all programs, summed over the CPUs, nanoseconds.
    pub time_ns: u64,
    /// Why the kernel did not count.
    pub missing: Option<String>,
}

/// A stretch of a message's way through the kernel, measured between two stamps of its own.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Debug, Default)]
#[serde(default)]
pub struct StageReport {
    /// `submit` (socket to device queue), `queue` (queueing discipline), `wire` (driver to receive
    /// path, same host only), `receive` (receive path to the socket's queue), `wait` (from there
    /// until a read has returned it). Where a packet passes several devices, `queue` and `wire`
    /// count at each.
    pub stage: String,
    /// `tcp` or `udp`.
    pub transport: String,
    /// Times that it was passed on sockets of ours.
    pub count: u64,
    /// Mean, nanoseconds.
    pub mean_ns: f64,
    /// Median, nanoseconds: the upper end of its bucket, which is at most an eighth too high. So
    /// are the ones below.
    pub p50_ns: u64,
    /// 90th percentile, nanoseconds.
    pub p90_ns: u64,
    /// 99th percentile, nanoseconds. Those of several stages do not add up.
    pub p99_ns: u64,
    /// Largest, nanoseconds.
    pub max_ns: u64,
    /// Lowest value and count of each bucket that is not empty.
    pub buckets: Vec<(u64, u64)>,
}

/// Why a part of the probes is not there.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum UnavailableStatus {
    /// The process lacks the privilege.
    NotPermitted,
    /// This kernel does not have it.
    NotSupported {
        /// First kernel that does.
        since: String,
    },
    /// It should have worked and did not.
    Failed,
}

/// A part of the probes that is not there.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Eq, Debug)]
pub struct Unavailable {
    /// Tracepoint, or `all` where the object as a whole could not be loaded.
    pub program: String,
    /// Why.
    pub status: UnavailableStatus,
    /// What happened, for a person.
    pub text: String,
}

/// What the kernel said of one sample, on one side. All counts are of the window.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Debug, Default)]
#[serde(default)]
pub struct KernelReport {
    /// Programs that were attached.
    pub attached: Vec<String>,
    /// Where the time went, in the order of the way; only with the stage probes.
    pub stages: Vec<StageReport>,
    /// Times that data became ready without a known arrival: merged into the packet before it, or
    /// read at once. They are missing in `receive`.
    pub stages_receive_missed: u64,
    /// Datagrams that waited behind so many others that their time is not known. They are missing
    /// in `wait`.
    pub stages_wait_missed: u64,
    /// Packets that the kernel threw away, most of ours first.
    pub drops: Vec<DropReport>,
    /// Segments thrown away that found the table of reasons and places full.
    pub drops_unlisted: OursAndSystem,
    /// Segments thrown away on the system that could not be told ours or not, since they had no
    /// socket of ours and were not TCP or UDP over IP.
    pub drops_unparsed: u64,
    /// Segments retransmitted.
    pub retransmits: Vec<RetransmitReport>,
    /// Segments retransmitted that found the table of flows and causes full.
    pub retransmits_unlisted: OursAndSystem,
    /// TCP resets sent. Kernels before 6.10 do not tell those for ports that nobody listens on.
    pub resets_sent: OursAndSystem,
    /// TCP resets received.
    pub resets_received: OursAndSystem,
    /// Packets that found a receive queue full.
    pub receive_queue_full: OursAndSystem,
    /// Datagrams that a UDP socket refused.
    pub udp_queue_fail: OursAndSystem,
    /// Handshakes that a listener dropped, its queue being full for the most part: of our
    /// listeners, beside the whole network namespace (not the system). From `counters`, since the
    /// kernel ignores a SYN without a word that a probe could hear.
    pub listen_drops: OursAndSystem,
    /// The kernel's own counters that moved.
    pub counters: Vec<CounterReport>,
    /// What the probes cost, where that was asked for.
    pub cost: Option<CostReport>,
    /// What is not there, and why.
    pub unavailable: Vec<Unavailable>,
    /// What a reader must know.
    pub findings: Vec<Finding>,
}
