//! Everything that must hold before a change lands.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::bench::instr;
use crate::exec::{Show, on_path, run};
use crate::suites::{Count, Tests, run_suite};
use crate::{kernels, print, say, tidy as rules};

/// Longest that one step may take, building included.
const LIMIT: Duration = Duration::from_secs(25 * 60);

/// What to do about a step that needs more than is here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Strictness {
    /// Leave it out and say so.
    WhatIsHere,
    /// Fail.
    Everything,
}

/// Runs every step, whatever the ones before it gave, and sums up. The last line of output counts
/// the tests.
///
/// # Errors
///
/// Where the user interrupts or the tree cannot be read; a failing step is in the exit code.
pub fn check(root: &Path, strictness: Strictness) -> Result<u8> {
    let mut failed: Vec<&str> = Vec::new();
    for (name, arguments) in [
        ("fmt", "fmt --all -- --check"),
        (
            "clippy",
            "clippy --locked --workspace --all-targets -- -D warnings",
        ),
    ] {
        say(&format!("== {name}"));
        if !cargo(root, arguments)? {
            failed.push(name);
        }
    }
    say("== tidy");
    if tidy(root)? != 0 {
        failed.push("tidy");
    }
    say("== deny");
    if !deny(root, strictness)? {
        failed.push("deny");
    }
    say("== ebpf");
    if !ebpf(strictness) {
        failed.push("ebpf");
    }
    let mut count = Count::default();
    for (suite, name) in Tests::ALL
        .into_iter()
        .zip(["unit tests", "suite", "privileged suite"])
    {
        say(&format!("== {name}"));
        if suite == Tests::Privileged && !nix::unistd::geteuid().is_root() {
            if strictness == Strictness::Everything {
                failed.push(name);
            }
            say("left out: it needs root (cargo xtask test privileged)");
            continue;
        }
        let one = run_suite(root, suite)?;
        if one.failed > 0 {
            failed.push(name);
        }
        count.add(one);
    }
    say("== instructions");
    if !instructions(root, strictness)? {
        failed.push("instructions");
    }
    say("== kernels");
    if strictness == Strictness::WhatIsHere {
        say("left out: it boots other kernels (cargo xtask kernels)");
    } else if !kernels::check(root)? {
        failed.push("kernels");
    }
    match failed.is_empty() {
        true => say("== everything holds"),
        false => say(&format!("== failed: {}", failed.join(", "))),
    }
    print(&count.to_string())?;
    Ok(u8::from(!failed.is_empty()))
}

/// Prints every breach of the rules of the house; 1 where there is one.
///
/// # Errors
///
/// Where the tree cannot be read.
pub fn tidy(root: &Path) -> Result<u8> {
    let problems = rules::check(&rules::tree(root)?);
    for problem in &problems {
        say(&problem.to_string());
    }
    Ok(u8::from(!problems.is_empty()))
}

/// Instruction counts under their ceilings. They need an optimised build and a minute of
/// valgrind, so that only the strict check takes them.
fn instructions(root: &Path, strictness: Strictness) -> Result<bool> {
    if strictness == Strictness::WhatIsHere {
        say("left out: it needs an optimised build (cargo xtask bench instr)");
        return Ok(true);
    }
    if !instr::is_possible() {
        say("left out: valgrind is not on the path");
        return Ok(true);
    }
    Ok(instr::check(root)? == 0)
}

fn cargo(root: &Path, arguments: &str) -> Result<bool> {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(root).args(arguments.split(' '));
    Ok(run(command, LIMIT, Show::Yes)?.success)
}

/// Licences, banned packages and sources of everything that goes into the program.
fn deny(root: &Path, strictness: Strictness) -> Result<bool> {
    let Some(program) = cargo_deny(root) else {
        say("left out: cargo-deny is neither on the path nor in target/tools (.ci/run brings it)");
        return Ok(strictness == Strictness::WhatIsHere);
    };
    let mut command = Command::new(program);
    command
        .current_dir(root)
        .args(["--locked", "check", "licenses", "bans", "sources"]);
    Ok(run(command, LIMIT, Show::Yes)?.success)
}

/// Whether the committed object of the kernel programs is what their source gives.
fn ebpf(strictness: Strictness) -> bool {
    if !on_path(crate::ebpf::CLANG) {
        say("left out: clang-14 is not here (apt-get install clang-14 llvm-14 libbpf-dev)");
        return strictness == Strictness::WhatIsHere;
    }
    match crate::ebpf::run(true) {
        Ok(()) => true,
        Err(error) => {
            say(&format!("{error:#}"));
            false
        }
    }
}

fn cargo_deny(root: &Path) -> Option<PathBuf> {
    let own = root.join("target/tools/bin/cargo-deny");
    match own.is_file() {
        true => Some(own),
        false => on_path("cargo-deny").then(|| PathBuf::from("cargo-deny")),
    }
}
