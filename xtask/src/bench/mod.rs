//! ringperf beside the tools that people use today: same CPUs, same congestion control, same
//! namespace, alternated, so that the machine's drift falls on both.

mod namespace;
mod numbers;
mod smoke;
mod tools;

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::say;

/// Which comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Kind {
    /// A few minutes: TCP streams against iperf3, TCP request-response against sockperf.
    Smoke,
}

/// Exit code where a figure is below what is asked.
const BELOW: u8 = 1;

/// Exit code where something could not be measured.
const NOT_MEASURED: u8 = 3;

/// Runs a comparison: 0 where every ratio is met, 1 where one is below, 3 where a tool is missing.
///
/// # Errors
///
/// Without root, where ringperf does not build, or where a tool fails.
pub fn run(root: &Path, kind: Kind, rounds: u32) -> Result<u8> {
    if !nix::unistd::geteuid().is_root() {
        bail!("a benchmark needs root: it makes a network namespace of its own");
    }
    let _alone = lock()?;
    match kind {
        Kind::Smoke => smoke::compare(root, rounds),
    }
}

/// Waits until no other benchmark runs on this machine.
fn lock() -> Result<File> {
    let path = std::env::temp_dir().join("ringperf-bench.lock");
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .with_context(|| path.display().to_string())?;
    if file.try_lock().is_err() {
        say("waiting for another benchmark on this machine to end");
        file.lock()?;
    }
    Ok(file)
}
