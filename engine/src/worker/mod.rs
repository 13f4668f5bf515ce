//! The data plane: pinned threads, each with its own engine, flows and recorder.
//!
//! A worker is made waiting, is given its flows over a channel, arms itself, and then runs one
//! loop until it is told to stop. Between start and stop it neither allocates, locks, logs, nor
//! writes to a cache line that another thread reads, but for one batch an interval.
//!
//! | file | what |
//! |---|---|
//! | `thread` | spawn, pin, commands in, notes out |
//! | `signals` | start and stop, seen by the loop |
//! | `policy` | what the engine chooses by itself from the case |
//! | `flow` | one flow's state and counts |
//! | `cycle` | the loop |
//! | `stream`, `datagram`, `ask`, `answer`, `connection` | what each kind of flow does |
//! | `drive` | a worker on the caller's thread, for instruction counts |
//! | `outcome` | what a worker leaves behind |

mod answer;
mod ask;
mod connection;
mod cycle;
mod datagram;
mod drain;
mod drive;
mod flow;
mod outcome;
mod policy;
mod signals;
mod stream;
mod thread;

pub use cycle::Span;
pub use drive::drive;
pub use flow::Role;
pub use outcome::{FlowOutcome, GroupOutcome, WorkerOutcome};
pub use policy::Choices;
pub use signals::Signals;
pub use thread::{Adopted, Command, EngineKind, Failure, Note, WorkerHandle, WorkerPlan, spawn};
