//! Checks, tests and benchmarks of ringperf: `cargo xtask`.

mod bench;
mod check;
mod ebpf;
mod exec;
mod kernels;
mod suites;
mod tidy;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use suites::{Count, Tests};

#[derive(Parser)]
#[command(
    about = "Checks, tests and benchmarks of ringperf",
    disable_help_subcommand = true
)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Formatting, lints, rules of the house, licences, and every test that this user may run.
    Check,
    /// The same, where nothing may be left out: root and cargo-deny are required. Ends with a
    /// line of what passed, failed and was skipped.
    Ci,
    /// The rules of ARCHITECTURE.md.
    Tidy,
    /// One suite of tests, or all.
    Test {
        /// Which; all without it.
        suite: Option<Tests>,
    },
    /// Builds the object of the kernel programs anew.
    Ebpf {
        /// Only compare the committed one with what the source gives.
        #[arg(long)]
        check: bool,
    },
    /// Boots other kernels under QEMU and looks whether the program and its probes work there.
    Kernels(kernels::Arguments),
    /// ringperf beside other tools on this machine, as root; instruction counts.
    Bench(bench::Arguments),
}

fn main() -> ExitCode {
    match task(&Arguments::parse().task) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            say(&format!("xtask: {error:#}"));
            ExitCode::from(if exec::interrupted() { 130 } else { 4 })
        }
    }
}

/// Does a task and gives its exit code.
fn task(task: &Task) -> Result<u8> {
    exec::watch_signals()?;
    let root = root();
    match task {
        Task::Check => check::check(&root, check::Strictness::WhatIsHere),
        Task::Ci => check::check(&root, check::Strictness::Everything),
        Task::Tidy => check::tidy(&root),
        Task::Test { suite } => {
            let mut count = Count::default();
            for one in Tests::ALL
                .iter()
                .filter(|one| suite.is_none_or(|suite| suite == **one))
            {
                count.add(suites::run_suite(&root, *one)?);
            }
            print(&count.to_string())?;
            Ok(u8::from(count.failed > 0))
        }
        Task::Ebpf { check } => ebpf::run(*check).map(|()| 0),
        Task::Kernels(arguments) => kernels::run_asked(&root, arguments),
        Task::Bench(arguments) => bench::run(&root, arguments),
    }
}

/// The top of the tree.
fn root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package).to_path_buf()
}

/// A line of result.
fn print(line: &str) -> Result<()> {
    writeln!(std::io::stdout().lock(), "{line}")?;
    Ok(())
}

/// A line for the person watching; one that cannot be shown is no reason to stop.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
