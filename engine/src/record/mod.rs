//! The result: serde types, versioned and self-describing, mergeable without loss.
//!
//! No I/O and no formatting for people. A [`Run`] is all that `report` needs.

#[cfg(test)]
pub mod canned;
pub mod exit;
pub mod host;
pub mod kernel;
pub mod progress;
pub mod read;
pub mod run;
pub mod side;

pub use host::{HostFacts, NicFacts};
pub use kernel::{
    BudgetLine, BudgetStatus, BudgetTotal, CostReport, CounterReport, DropReport, KernelReport,
    OursAndSystem, ProgramCost, RetransmitReport, SlowPart, SlowTransaction, StageReport,
    TailContributor, TailReport, Unavailable, UnavailableStatus,
};
pub use progress::Progress;
pub use read::{ReadError, read};
pub use run::{
    Amount, CaseResult, ErrorReport, Figures, FlowDistribution, Group, Latency, ProbedSample,
    Reconciliation, Run, Sample, SampleFlow, SideIntervals, Sides, Tool,
};
pub use side::{
    BusyPollReport, Counters, CpuReport, CpuTime, EngineReport, Finding, FlowReport, GroupReport,
    Interval, Severity, SideReport, TcpReport, Transactions, UdpFlow, UdpReport, WorkerTime,
    ZeroCopyReport,
};

/// Name and version of the document's schema.
pub const SCHEMA: &str = "ringperf.result/1";
