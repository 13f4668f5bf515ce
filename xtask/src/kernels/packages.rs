//! Debian's kernels, from the mirror that this machine uses, without touching its packages.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::expected::Kernel;
use crate::exec::{Finished, Show, run};

/// Longest that one call of apt may take.
const LIMIT: Duration = Duration::from_secs(180);

/// A private state of apt with the lists of the suites.
#[derive(Debug)]
pub struct Archive {
    folder: PathBuf,
}

impl Archive {
    /// Fetches the lists of packages of the kernels' suites.
    ///
    /// # Errors
    ///
    /// Where this machine has no mirror of Debian or it does not answer.
    pub fn open(scratch: &Path, kernels: &[&Kernel]) -> Result<Archive> {
        let folder = scratch.join("apt");
        for part in ["state/lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(folder.join(part))?;
        }
        let mirror = mirror()?;
        let suites: BTreeSet<&str> = kernels.iter().map(|k| k.suite.as_str()).collect();
        let sources: String = suites
            .into_iter()
            .map(|suite| format!("deb {mirror} {suite} main\n"))
            .collect();
        fs::write(folder.join("sources.list"), sources)?;
        let archive = Archive { folder };
        archive.apt("apt-get", &["-q", "update"])?;
        Ok(archive)
    }

    /// The newest image of a kernel, unpacked.
    ///
    /// # Errors
    ///
    /// Where the suite no longer has it, or it cannot be fetched or unpacked.
    pub fn image(&mut self, kernel: &Kernel) -> Result<PathBuf> {
        let pattern = format!(
            r"^linux-(image|binary)-{}[-.].*cloud-amd64(-unsigned)?$",
            kernel.version.replace('.', r"\.")
        );
        let found = self.apt("apt-cache", &["search", "--names-only", &pattern])?;
        let Some(package) = newest(&found.stdout) else {
            bail!("{} has no kernel {} any more", kernel.suite, kernel.version);
        };
        let folder = self.folder.join(&kernel.version);
        fs::create_dir_all(&folder)?;
        self.apt_in(&folder, "apt-get", &["-q", "download", package])?;
        let archive = file_in(&folder, |name| name.ends_with(".deb"))?;
        let mut unpack = Command::new("dpkg-deb");
        unpack.arg("-x").args([&archive, &folder]);
        succeeded(run(unpack, LIMIT, Show::No)?, "dpkg-deb")?;
        let within = |part: &str| file_in(&folder.join(part), |name| name.starts_with("vmlinuz"));
        let boot = within("boot");
        // From 7.x on it lies with its modules.
        boot.or_else(|_| {
            let modules = file_in(&folder.join("usr/lib/modules"), |_| true)?;
            file_in(&modules, |name| name.starts_with("vmlinuz"))
        })
    }

    fn apt(&self, command: &str, arguments: &[&str]) -> Result<Finished> {
        self.apt_in(&self.folder, command, arguments)
    }

    fn apt_in(&self, folder: &Path, command: &str, arguments: &[&str]) -> Result<Finished> {
        let own = |part: &str| self.folder.join(part).display().to_string();
        let mut apt = Command::new(command);
        apt.current_dir(folder)
            .env("LC_ALL", "C")
            .args(["-o", &format!("Dir::State={}", own("state"))])
            .args(["-o", &format!("Dir::Cache={}", own("cache"))])
            .args([
                "-o",
                &format!("Dir::Etc::sourcelist={}", own("sources.list")),
            ])
            .args(["-o", "Dir::Etc::sourceparts=-"])
            .args([
                "-o",
                "Acquire::Languages=none",
                "-o",
                "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false",
            ])
            .args(arguments);
        succeeded(run(apt, LIMIT, Show::No)?, command)
    }
}

fn succeeded(finished: Finished, what: &str) -> Result<Finished> {
    if !finished.success {
        let last = finished.stderr.lines().last().unwrap_or("no reason given");
        bail!("{what}: {last}");
    }
    Ok(finished)
}

/// Where this machine gets Debian itself from.
fn mirror() -> Result<String> {
    let mut targets = Command::new("apt-get");
    targets.args([
        "indextargets",
        "--format",
        "$(REPO_URI) $(RELEASE)",
        "Created-By: Packages",
    ]);
    let found = succeeded(run(targets, LIMIT, Show::No)?, "apt-get")?;
    first_mirror(&found.stdout).context("apt knows no mirror of Debian here (apt-get update)")
}

/// The first that has a release itself, not updates or security fixes to one.
fn first_mirror(targets: &str) -> Option<String> {
    targets.lines().find_map(|line| {
        let (mirror, release) = line.split_once(' ')?;
        (!release.contains('-')).then(|| mirror.to_string())
    })
}

/// The newest package of lines such as `linux-image-6.1.0-50-cloud-amd64 - Linux 6.1 ...`. From
/// 7.x on the image itself is in `linux-binary`, and `linux-image` only asks for it.
fn newest(found: &str) -> Option<&str> {
    let names = || found.lines().filter_map(|line| line.split(' ').next());
    let binary = names().filter(|name| name.starts_with("linux-binary"));
    binary
        .max_by(|a, b| by_numbers(a, b))
        .or_else(|| names().max_by(|a, b| by_numbers(a, b)))
}

/// Orders names by the numbers in them, then as text.
fn by_numbers(a: &str, b: &str) -> Ordering {
    numbers(a).cmp(&numbers(b)).then_with(|| a.cmp(b))
}

fn numbers(text: &str) -> Vec<u64> {
    let parts = text.split(|c: char| !c.is_ascii_digit());
    parts.filter_map(|part| part.parse().ok()).collect()
}

fn file_in(folder: &Path, fits: impl Fn(&str) -> bool) -> Result<PathBuf> {
    for entry in fs::read_dir(folder).with_context(|| format!("{}", folder.display()))? {
        let entry = entry?;
        if fits(&entry.file_name().to_string_lossy()) {
            return Ok(entry.path());
        }
    }
    bail!("{} lacks what the package should have", folder.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_is_by_number() {
        let found = "linux-image-6.18.5+deb13-cloud-amd64 - Linux\n\
                     linux-image-6.18.15+deb13-cloud-amd64 - Linux\n\
                     linux-image-6.18.9+deb13-cloud-amd64 - Linux\n";
        assert_eq!(newest(found), Some("linux-image-6.18.15+deb13-cloud-amd64"));
        assert_eq!(newest(""), None);
        let split = "linux-image-7.3.4+deb13-cloud-amd64 - Linux\n\
                     linux-binary-7.3.3+deb13-cloud-amd64 - Linux\n";
        assert_eq!(newest(split), Some("linux-binary-7.3.3+deb13-cloud-amd64"));
    }

    #[test]
    fn a_mirror_of_updates_alone_is_none() {
        let targets =
            "a:/updates/ bookworm-updates\nb:/fixes/ bookworm-security\nc:/debian/ bookworm\n";
        assert_eq!(first_mirror(targets).as_deref(), Some("c:/debian/"));
        assert_eq!(first_mirror("a:/updates/ bookworm-updates\n"), None);
    }
}
