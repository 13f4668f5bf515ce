//! ringperf beside the tools that people use today: same CPUs, same congestion control, same
//! namespace, alternated, so that the machine's drift falls on both.

pub mod instr;
mod namespace;
mod numbers;
mod peers;
mod smoke;
mod stage;
mod tools;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::exec::{Show, run as run_command};
use crate::say;

/// Which comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Kind {
    /// A few minutes: TCP streams against iperf3, TCP request-response against sockperf.
    Smoke,
    /// Every case against every peer that is here, over loopback and veth.
    Peers,
    /// Instructions of the engine's own code per message, transaction and datagram, under
    /// valgrind. Needs no root.
    Instr,
}

/// What can be typed after `bench`.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Which comparison.
    #[arg(value_enum)]
    kind: Kind,
    /// Rounds; each runs every tool once.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    #[command(flatten)]
    peers: peers::Options,
}

/// Exit code where a figure is below what is asked.
const BELOW: u8 = 1;

/// Exit code where something could not be measured.
const NOT_MEASURED: u8 = 3;

/// Longest that the release build may take.
const BUILD: Duration = Duration::from_secs(20 * 60);

/// Runs a comparison: 0 where every figure is met, 1 where one is not, 3 where something could
/// not be measured.
///
/// # Errors
///
/// Without root, where ringperf does not build, or where a tool fails.
pub fn run(root: &Path, arguments: &Arguments) -> Result<u8> {
    if arguments.kind == Kind::Instr {
        return instr::check(root);
    }
    if !nix::unistd::geteuid().is_root() {
        bail!("a benchmark needs root: it makes network namespaces of its own");
    }
    let _alone = lock()?;
    match arguments.kind {
        Kind::Smoke => smoke::compare(root, arguments.rounds),
        Kind::Peers => peers::compare(root, arguments.rounds, &arguments.peers),
        Kind::Instr => instr::check(root),
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
        while file.try_lock().is_err() {
            if crate::exec::interrupted() {
                bail!("interrupted");
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }
    Ok(file)
}

/// Builds what is measured.
fn build(root: &Path) -> Result<PathBuf> {
    let mut command = Command::new(env!("CARGO"));
    command
        .current_dir(root)
        .args(["build", "--locked", "--release", "--bin", "ringperf"]);
    if !run_command(command, BUILD, Show::Yes)?.success {
        bail!("ringperf does not build");
    }
    Ok(target(root).join("release/ringperf"))
}

/// Where cargo puts what it builds.
fn target(root: &Path) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    root.join(target)
}
