//! The user side of the kernel probes: load, attach one by one, read, and name what was read.
//!
//! Every part is optional: without the privilege or the kernel feature the run goes on, and the
//! report says which part is missing and why. The programs and the layout of their maps are in the
//! `ringperf-ebpf` package.

mod attach;
mod btf;
pub mod counters;
mod error;
mod maps;
mod meter;
mod names;
mod probes;
mod report;
mod snapshot;
mod stages;
mod symbols;

pub use error::KernelError;
pub use maps::{FlowTag, Place};
pub use names::Names;
pub use probes::{ProbeRequest, ProbeSet, Probes, Stamped};
pub use snapshot::Snapshot;
pub use symbols::places;
