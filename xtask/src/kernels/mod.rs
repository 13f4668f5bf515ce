//! The program on other kernels: Debian's, booted under QEMU, with traffic over `lo` and every
//! probe attached. What each kernel must show stands in `ebpf/expected.toml`.

mod expected;
mod guest;
mod packages;
mod verdict;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::exec::{Show, on_path, run};
use crate::say;

use expected::Kernel;
use packages::Archive;

/// What this needs beside cargo: package and its command.
const NEEDS: [(&str, &str); 5] = [
    ("qemu-system-x86", "qemu-system-x86_64"),
    ("busybox-static", "busybox"),
    ("cpio", "cpio"),
    ("dpkg", "dpkg-deb"),
    ("apt", "apt-get"),
];

/// Longest that building the program may take.
const BUILD: Duration = Duration::from_secs(20 * 60);

/// Which kernels.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Versions such as 6.1; those of every check without any.
    versions: Vec<String>,
    /// Every kernel that ebpf/expected.toml knows.
    #[arg(long, conflicts_with = "versions")]
    all: bool,
    /// Keep what each machine printed in this directory.
    #[arg(long, value_name = "DIR")]
    keep: Option<std::path::PathBuf>,
}

/// Boots the kernels asked for. 0 where each shows what it must, 1 where one does not, 3 where
/// one could not be had.
///
/// # Errors
///
/// Where a version is unknown, a tool is missing, or the program does not build.
pub fn run_asked(root: &Path, arguments: &Arguments) -> Result<u8> {
    let missing = missing();
    ensure!(missing.is_empty(), "{}", remedy(&missing));
    let all = expected::read(root)?;
    let chosen = expected::choose(&all, &arguments.versions, arguments.all)?;
    let outcome = boot_each(root, &chosen, arguments.keep.as_deref())?;
    Ok(match outcome {
        Outcome { failed: 1.., .. } => 1,
        Outcome { absent: 1.., .. } => 3,
        Outcome { .. } => 0,
    })
}

/// The kernels of every check. True unless one does not show what it must: where they cannot be
/// had, a notice says so.
///
/// # Errors
///
/// Where the program does not build or the user interrupts.
pub fn check(root: &Path) -> Result<bool> {
    let missing = missing();
    if !missing.is_empty() {
        say(&format!(
            "NOTICE: no other kernel was tried: {}",
            remedy(&missing)
        ));
        return Ok(true);
    }
    let all = expected::read(root)?;
    let chosen = expected::choose(&all, &[], false)?;
    Ok(boot_each(root, &chosen, None)?.failed == 0)
}

/// How many kernels did not pass, and why.
#[derive(Default, Debug)]
struct Outcome {
    failed: u32,
    absent: u32,
}

fn boot_each(root: &Path, kernels: &[&Kernel], keep: Option<&Path>) -> Result<Outcome> {
    let program = build(root)?;
    let scratch = tempfile::tempdir()?;
    let disk = guest::disk(scratch.path(), &program)?;
    let mut outcome = Outcome::default();
    let mut archive = match Archive::open(scratch.path(), kernels) {
        Ok(archive) => archive,
        Err(error) => {
            outcome.absent = u32::try_from(kernels.len())?;
            say(&format!("NOTICE: no other kernel was tried: {error:#}"));
            return Ok(outcome);
        }
    };
    for kernel in kernels {
        let image = match archive.image(kernel) {
            Ok(image) => image,
            Err(error) => {
                outcome.absent += 1;
                say(&format!(
                    "NOTICE: {} was not tried: {error:#}",
                    kernel.version
                ));
                continue;
            }
        };
        let began = Instant::now();
        let problems = match guest::boot(kernel, &image, &disk) {
            Ok(printed) => {
                if let Some(folder) = keep {
                    std::fs::create_dir_all(folder)?;
                    std::fs::write(folder.join(format!("{}.txt", kernel.version)), &printed)?;
                }
                verdict::problems(kernel, &printed)
            }
            Err(error) if crate::exec::interrupted() => return Err(error),
            Err(error) => vec![format!("{error:#}")],
        };
        let took = began.elapsed().as_secs();
        if problems.is_empty() {
            say(&format!("kernel {}: ok, {took} s", kernel.version));
            continue;
        }
        outcome.failed += 1;
        say(&format!("kernel {}: failed, {took} s", kernel.version));
        for problem in problems {
            say(&format!("  {problem}"));
        }
    }
    Ok(outcome)
}

fn missing() -> Vec<&'static str> {
    let absent = NEEDS.iter().filter(|(_, command)| !on_path(command));
    absent.map(|(package, _)| *package).collect()
}

fn remedy(missing: &[&str]) -> String {
    format!("missing here (apt-get install {})", missing.join(" "))
}

/// The program as the tests have it: what it needs of this system goes with it.
fn build(root: &Path) -> Result<std::path::PathBuf> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .current_dir(root)
        .args(["build", "--locked", "--bin", "ringperf"]);
    ensure!(run(cargo, BUILD, Show::Yes)?.success, "it does not build");
    Ok(root.join("target/debug/ringperf"))
}
