//! The result: serde types, versioned and self-describing, mergeable without loss.
//!
//! No I/O and no formatting for people. A [`Run`] is all that `report` needs.

pub mod host;
pub mod kernel;
pub mod progress;
pub mod run;
pub mod side;

pub use host::HostFacts;
pub use kernel::{
    CostReport, CounterReport, DropReport, KernelReport, OursAndSystem, ProgramCost,
    RetransmitReport, Unavailable, UnavailableStatus,
};
pub use progress::Progress;
pub use run::{CaseResult, ErrorReport, Figures, Group, Reconciliation, Run, Sample, Sides};
pub use side::{
    Counters, CpuReport, EngineReport, Finding, FlowReport, GroupReport, Interval, Severity,
    SideReport, TcpReport, Transactions, UdpFlow, UdpReport,
};

/// Name and version of the document's schema.
pub const SCHEMA: &str = "ringperf.result/1";
