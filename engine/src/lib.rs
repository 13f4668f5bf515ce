//! ringperf: TCP and UDP load from pinned io_uring workers, with honest numbers.
//!
//! The rooms and what each may import are in ARCHITECTURE.md; `cargo xtask tidy` checks them.

pub mod backend;
pub mod cli;
pub mod control;
pub mod host;
pub mod kernel;
pub mod measure;
pub mod plan;
pub mod record;
pub mod report;
pub mod run;
pub mod sockets;
pub mod store;
pub mod sys;
pub mod traffic;
pub mod units;
pub mod uring;
pub mod worker;
