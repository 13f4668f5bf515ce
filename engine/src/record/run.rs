//! The whole result of a plan.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SCHEMA;
use super::host::HostFacts;
use super::kernel::KernelReport;
use super::side::{
    CpuReport, EngineReport, Finding, FlowReport, Interval, TcpReport, Transactions, UdpReport,
};
use crate::plan::{Case, Direction, Traffic};

/// An error, for people and for programs.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Eq, Debug)]
pub struct ErrorReport {
    /// Exit code that the process ends with.
    pub exit_code: u8,
    /// Stable identifier, kebab-case.
    pub code: String,
    /// What happened, where, and what to do about it.
    pub text: String,
}

/// The tool that made the document.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Eq, Debug, Default)]
pub struct Tool {
    /// `ringperf`.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The command line as typed.
    pub command: Vec<String>,
}

/// A value of each side.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Debug)]
#[schemars(rename = "SidesOf{T}")]
pub struct Sides<T> {
    /// The client's.
    pub client: Option<T>,
    /// The server's.
    pub server: Option<T>,
}

impl<T> Default for Sides<T> {
    fn default() -> Self {
        Sides {
            client: None,
            server: None,
        }
    }
}

/// Bytes and messages of one direction.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Amount {
    /// Payload bytes.
    pub bytes: u64,
    /// Messages: sends, datagrams, requests or responses; none for a TCP stream's receiver.
    pub messages: Option<u64>,
}

/// Percentiles of a histogram, nanoseconds, with the histogram itself.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Debug, Default)]
pub struct Latency {
    /// Values recorded.
    pub count: u64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub stdev: f64,
    /// Smallest.
    pub min: u64,
    /// Median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// 99.99th percentile.
    pub p9999: u64,
    /// Largest.
    pub max: u64,
    /// Names of the percentiles above that fall among censored or lost transactions: those
    /// values are lower bounds, printed as `>= x` or as lost.
    pub lower_bounds: Vec<String>,
    /// Transactions without an answer, which rank above every value.
    pub unanswered: u64,
    /// Base64 of the HDR V2 encoding, 3 digits, 1 ns to 1 h.
    pub histogram: String,
}

/// Whether the lifetime's counts add up: sent = received + lost + in flight.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Eq, Debug, Default)]
pub struct Reconciliation {
    /// Whether they do.
    pub reconciled: bool,
    /// Unit of the terms: bytes (TCP), datagrams (UDP) or transactions.
    pub unit: String,
    /// Sent, or started.
    pub sent: u64,
    /// Received, or done.
    pub received: u64,
    /// Lost, or failed; null where no count says it (datagrams too small for a header), since
    /// it is never computed as a remainder.
    pub lost: Option<u64>,
    /// In flight.
    pub in_flight: u64,
    /// What does not add up, where it does not.
    pub reason: Option<String>,
}

/// The figures of a group.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Debug, Default)]
pub struct Figures {
    /// What the sender handed to its kernel in its window.
    pub sent: Amount,
    /// What the receiver counted in its window: the throughput.
    pub received: Amount,
    /// Received payload bits per second; for request-response both directions together. Of a
    /// window below a millisecond it means little, and a finding says so.
    pub throughput_bps: f64,
    /// Sent payload bits per second of the sender's window, beside the throughput and never
    /// instead of it; for request-response both directions together.
    #[serde(default)]
    pub sent_bps: f64,
    /// Request-response only.
    pub transactions: Option<Transactions>,
    /// Request-response only: from the start (open loop: the intended start) to the whole answer.
    pub latency_ns: Option<Latency>,
    /// crr only: time to connect.
    pub connect_ns: Option<Latency>,
    /// Open loop only: how far sends lag behind their schedule.
    pub lag_ns: Option<Latency>,
    /// Offered rate (open loop), messages or transactions per second.
    pub offered_per_second: Option<f64>,
    /// Achieved rate (open loop): messages sent, or transactions completed, inside the window per
    /// second, whenever they were due.
    pub achieved_per_second: Option<f64>,
    /// UDP only.
    pub udp: Option<UdpReport>,
    /// TCP only.
    pub tcp: Option<Sides<TcpReport>>,
    /// Whether the lifetime's counts add up.
    pub reconciliation: Reconciliation,
    /// Jain's fairness index over the flows' window rates.
    pub fairness: Option<f64>,
    /// Slowest and fastest flow, payload bits (streams) or transactions per second.
    pub flow_spread: Option<(f64, f64)>,
    /// How the flows' rates are distributed, in the unit of `flow_spread`; two flows or more.
    #[serde(default)]
    pub flow_distribution: Option<FlowDistribution>,
}

/// The distribution of the flows' rates, payload bits (streams) or transactions per second. It
/// covers every flow, also those that `flows` leaves out.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, PartialEq, Debug, Default)]
pub struct FlowDistribution {
    /// Flows counted.
    pub count: u64,
    /// Slowest.
    pub min: f64,
    /// 10th percentile, by rank.
    pub p10: f64,
    /// Median, by rank.
    pub p50: f64,
    /// 90th percentile, by rank.
    pub p90: f64,
    /// Fastest.
    pub max: f64,
    /// Mean.
    pub mean: f64,
}

/// One group of traffic of a sample.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Debug)]
pub struct Group {
    /// What the flows do.
    pub traffic: Traffic,
    /// Who sends or asks.
    pub direction: Direction,
    /// Its figures.
    #[serde(flatten)]
    pub figures: Figures,
}

/// One timed repetition of a case.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Debug)]
pub struct Sample {
    /// From 1.
    pub number: u32,
    /// Wall-clock start, RFC 3339, UTC.
    pub started: String,
    /// Whether it ran to its planned end and both sides' results are in.
    pub complete: bool,
    /// Window by the receiver's clock, seconds.
    pub duration_s: f64,
    /// Every group.
    pub groups: Vec<Group>,
    /// With one group, that group's figures as the sample's own.
    #[serde(flatten)]
    pub figures: Option<Figures>,
    /// CPU used on each side.
    pub cpu: Sides<CpuReport>,
    /// What the kernel said on each side: drops, retransmissions, counters, stages. Null where
    /// nothing was asked of it.
    pub kernel: Sides<KernelReport>,
    /// The engine of each side.
    pub engine: Sides<EngineReport>,
    /// Flows of each side.
    pub flows: Vec<SampleFlow>,
    /// Intervals of each side, by its own clock; never added to each other.
    pub intervals: SideIntervals,
    /// What a reader must know.
    pub findings: Vec<Finding>,
    /// What ended it early.
    pub error: Option<ErrorReport>,
}

/// One flow as each side saw it.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Debug, Default)]
pub struct SampleFlow {
    /// Group of traffic.
    pub group: u32,
    /// Flow number within the group.
    pub flow: u32,
    /// As the client saw it.
    pub client: Option<FlowReport>,
    /// As the server saw it.
    pub server: Option<FlowReport>,
}

/// Intervals of both sides.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Debug, Default)]
pub struct SideIntervals {
    /// The client's.
    pub client: Vec<Interval>,
    /// The server's.
    pub server: Vec<Interval>,
}

/// A sample with the stage probes beside the samples without.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Debug)]
pub struct ProbedSample {
    /// The sample.
    pub sample: Sample,
    /// How its rate (transactions, or received payload bits, per second) differs from the mean of
    /// the samples without: -0.1 is a tenth less.
    pub rate_change: Option<f64>,
    /// How much its median latency is above theirs, nanoseconds.
    pub p50_change_ns: Option<f64>,
}

/// One case with its samples.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Debug)]
pub struct CaseResult {
    /// What was asked for (with what the session resolved, such as the path MTU's size).
    pub case: Case,
    /// The repetitions that ran, also partly.
    pub samples: Vec<Sample>,
    /// With `--probes auto`, where permitted: a further, shorter sample with the stage probes,
    /// which is none of the case's figures.
    #[serde(default)]
    pub probed: Option<Box<ProbedSample>>,
    /// What kept the case from running.
    pub error: Option<ErrorReport>,
}

impl Tool {
    /// This build, with the command line as typed.
    pub fn this(command: Vec<String>) -> Tool {
        Tool {
            name: "ringperf".to_string(),
            version: env!("CARGO_PKG_VERSION").to_string(),
            command,
        }
    }
}

/// The result of a plan.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Debug)]
pub struct Run {
    /// Name and version of this document's schema.
    pub schema: String,
    /// Identity of the run.
    pub uuid: String,
    /// Wall-clock start, RFC 3339, UTC.
    pub started: String,
    /// The tool.
    pub tool: Tool,
    /// Free text of the user.
    pub title: Option<String>,
    /// Whether every case and sample ran to its planned end.
    pub complete: bool,
    /// The client's host.
    pub client: Option<HostFacts>,
    /// The server's host.
    pub server: Option<HostFacts>,
    /// The cases, in order.
    pub cases: Vec<CaseResult>,
    /// Findings about the run as a whole.
    pub findings: Vec<Finding>,
    /// What ended the run early.
    pub error: Option<ErrorReport>,
}

impl Run {
    /// A run that has just begun, with an identity of its own. It counts as complete once the
    /// caller says so, so that a run written early is marked incomplete.
    pub fn new(
        command: Vec<String>,
        title: Option<String>,
        started: std::time::SystemTime,
    ) -> Run {
        Run {
            schema: SCHEMA.to_string(),
            uuid: uuid::Uuid::new_v4().to_string(),
            started: crate::units::rfc3339(started),
            tool: Tool::this(command),
            title,
            complete: false,
            client: None,
            server: None,
            cases: Vec::new(),
            findings: Vec::new(),
            error: None,
        }
    }

    /// A run that ended before any traffic, such as by a usage error.
    pub fn failed(
        command: Vec<String>,
        started: std::time::SystemTime,
        error: ErrorReport,
    ) -> Run {
        Run {
            error: Some(error),
            ..Run::new(command, None, started)
        }
    }
}
