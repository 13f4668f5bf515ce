//! What the kernel said of one sample, on one side.

use ringperf_ebpf::bucket::{highest, lowest};
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
    /// Times that it ran while it was counted.
    pub runs: u64,
    /// Time that it ran meanwhile, summed over the CPUs, nanoseconds.
    pub time_ns: u64,
    /// How long it was counted, nanoseconds: the window, or for the stages the warm-up, since the
    /// counting itself costs as much as a program.
    pub counted_ns: u64,
}

/// What the probes cost.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Eq, Debug, Default)]
#[serde(default)]
pub struct CostReport {
    /// Each program that ran.
    pub programs: Vec<ProgramCost>,
    /// Time of all programs for each second of traffic, summed over the CPUs, nanoseconds.
    pub time_ns_per_s: u64,
    /// Why the kernel did not count.
    pub missing: Option<String>,
}

/// A stretch of a message's way through the kernel, measured between two stamps of its own.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Debug, Default)]
#[serde(default)]
pub struct StageReport {
    /// Of streams and of several messages under way: `submit` (socket to device queue), `queue`
    /// (queueing discipline), `wire` (driver to receive path, same host only), `receive` (receive
    /// path to the socket's queue), `wait` (from there until a read has returned it). Where a
    /// packet passes several devices, `queue` and `wire` count at each. Of request-response with
    /// one message under way: as in `budget`.
    pub stage: String,
    /// Where it was spent: `client`, `server` or `between`.
    pub side: String,
    /// `request` or `response`; empty for both or neither.
    pub message: String,
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

impl StageReport {
    /// The figures of a histogram in the programs' buckets, with the sum of its values and their
    /// number, nanoseconds; none where nothing was counted. The stage itself is left to the
    /// caller.
    pub fn of_buckets(counted: u64, sum_ns: u64, buckets: &[u64]) -> Option<StageReport> {
        let filled = || (buckets.iter().enumerate()).filter(|(_, count)| **count > 0);
        let last = filled().next_back()?.0;
        // The programs count a value and its bucket one after the other: a reading in between
        // sees only one of them.
        let total: u64 = buckets.iter().sum();
        let percentile = |percent: u64| {
            let rank = (u128::from(total) * u128::from(percent)).div_ceil(100);
            let mut below = 0u128;
            let reached = filled().find(|(_, count)| {
                below += u128::from(**count);
                below >= rank
            });
            highest(reached.map_or(last, |(index, _)| index))
        };
        Some(StageReport {
            count: total,
            mean_ns: sum_ns as f64 / counted.max(1) as f64,
            p50_ns: percentile(50),
            p90_ns: percentile(90),
            p99_ns: percentile(99),
            max_ns: highest(last),
            buckets: filled()
                .map(|(index, count)| (lowest(index), *count))
                .collect(),
            ..StageReport::default()
        })
    }
}

/// How much of a stage was seen.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[serde(rename_all = "kebab-case")]
pub enum BudgetStatus {
    /// At least 99 % of the messages that had to pass it were seen.
    #[default]
    Measured,
    /// Fewer were: its time is a lower bound.
    Partial,
    /// None was, for want of a program: its time is part of the unattributed rest.
    Unattributed,
    /// No message had to pass it.
    Bypassed,
}

/// A stage's part of the mean transaction, between two stamps of its own.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Debug, Default)]
#[serde(default)]
pub struct BudgetLine {
    /// `submit` (from the worker's decision to the socket; UDP: to the device's queue), `stack`
    /// (TCP: from there to the device's queue), `paced` (held back until the time of departure
    /// that pacing set), `queue` (queueing discipline), `wire` (driver to the other side's receive
    /// path on the same host), `receive` (to the socket's queue), then either `socket-queue`
    /// (until the running worker copied it) or `wake-up` (until the sleeping worker was woken),
    /// `run-queue` (until it ran) and `copy` (until it had copied); `application` (from the copied
    /// request to the answer given to the kernel), `completion` (from the copied answer until the
    /// worker has it). Two processes or hosts: `network`, the round trip less the time inside the
    /// client less that inside the server, both directions together.
    pub stage: String,
    /// Where it is spent: `client`, `server` or `between`.
    pub side: String,
    /// `request` or `response`; empty for both or neither.
    pub message: String,
    /// How much of it was seen.
    pub status: BudgetStatus,
    /// Held back on purpose (pacing): no fault of a queue.
    pub on_purpose: bool,
    /// Messages that passed it with both stamps.
    pub seen: u64,
    /// Messages that did not have to pass it.
    pub bypassed: u64,
    /// Its part of the mean transaction, nanoseconds.
    pub mean_ns: f64,
    /// Its part of the slowest transactions' mean, nanoseconds. Two processes or hosts: the
    /// server's is not known transaction by transaction.
    pub tail_ns: Option<f64>,
}

/// What a budget adds up to.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Debug, Default)]
#[serde(default)]
pub struct BudgetTotal {
    /// Flows that were followed: all of a few, an even part of many, since following costs.
    pub flows: u64,
    /// Transactions of these flows, those that started in the window.
    pub transactions: u64,
    /// Their mean, nanoseconds: of the asking side the measured round trip, of the answering side
    /// the time inside it.
    pub mean_ns: f64,
    /// What of it lies in no stage, nanoseconds.
    pub unattributed_ns: f64,
}

/// A stage that delays slow transactions.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Debug, Default)]
#[serde(default)]
pub struct TailContributor {
    /// Stage, as in `budget`.
    pub stage: String,
    /// Where it is spent: `client`, `server` or `between`.
    pub side: String,
    /// `request` or `response`; empty for both or neither.
    pub message: String,
    /// Its share of the slowest transactions' time.
    pub tail_share: f64,
    /// Its share of all transactions' time.
    pub mean_share: f64,
    /// Share of the slowest transactions of which it is the main delay: the stage that is the
    /// farthest above its mean.
    pub main_delay_share: f64,
}

/// The slowest hundredth of the transactions, each as a whole.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Debug, Default)]
#[serde(default)]
pub struct TailReport {
    /// From here on a transaction is one of them, nanoseconds.
    pub threshold_ns: u64,
    /// How many were kept; at most 1000 a second of each worker are.
    pub transactions: u64,
    /// Their mean, nanoseconds: the tail's column of the budget adds up to it, with the rest.
    pub mean_ns: f64,
    /// What of their mean lies in no stage, nanoseconds.
    pub unattributed_ns: f64,
    /// Two processes or hosts: what of their mean was spent in the network and inside the server,
    /// nanoseconds, which are not told apart transaction by transaction.
    pub network_and_server_ns: Option<f64>,
    /// Slow transactions that were not kept.
    pub overflow: u64,
    /// Names the stage that holds more than half of the tail and more than twice its share of the
    /// mean, or says that there is none; and the main delays beside it.
    pub sentence: String,
    /// Stages that hold half of the tail, or are the main delay of a tenth of it.
    pub contributors: Vec<TailContributor>,
}

/// A stage of one slow transaction.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Eq, Debug, Default)]
#[serde(default)]
pub struct SlowPart {
    /// Stage, as in `budget`.
    pub stage: String,
    /// Where it was spent: `client`, `server` or `between`.
    pub side: String,
    /// `request` or `response`; empty for both or neither.
    pub message: String,
    /// Nanoseconds.
    pub ns: u64,
}

/// One slow transaction.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Eq, Debug, Default)]
#[serde(default)]
pub struct SlowTransaction {
    /// Flow number.
    pub flow: u32,
    /// When it started, nanoseconds after the traffic did.
    pub at_ns: u64,
    /// How long it took, nanoseconds.
    pub total_ns: u64,
    /// Its stages, in the order of the way.
    pub parts: Vec<SlowPart>,
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
    /// Where the mean transaction went, in the order of the way: request-response with one message
    /// under way, with the stage probes. The asking side has the whole.
    pub budget: Vec<BudgetLine>,
    /// What the budget adds up to.
    pub budget_total: Option<BudgetTotal>,
    /// The slowest transactions.
    pub tail: Option<TailReport>,
    /// The very slowest of them, each with its stages.
    pub slow: Vec<SlowTransaction>,
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
    /// Requests of the workers that went to threads of io_uring's own.
    pub ring_handed_off: OursAndSystem,
    /// Completions that found the queue of an io_uring full.
    pub ring_overflows: OursAndSystem,
    /// Times that work which an io_uring had put off was run; only with the stage probes. Where
    /// both sides are in one process, those of both.
    pub ring_task_work_runs: OursAndSystem,
    /// The kernel's own counters that moved.
    pub counters: Vec<CounterReport>,
    /// What the probes cost, where that was asked for.
    pub cost: Option<CostReport>,
    /// What is not there, and why.
    pub unavailable: Vec<Unavailable>,
    /// What a reader must know.
    pub findings: Vec<Finding>,
}
