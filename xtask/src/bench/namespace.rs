//! Network namespaces of this process's own.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tempfile::TempDir;

use crate::exec::{Background, Show, run};

/// Longest that a command about the namespace itself may take.
const LIMIT: Duration = Duration::from_secs(10);

/// Longest that a server may take until it listens.
const LISTENS: Duration = Duration::from_secs(5);

/// Where a server listens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Listens {
    /// On a TCP port.
    Tcp(u16),
    /// On a UDP port.
    Udp(u16),
}

/// A namespace, removed when dropped.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    /// Where commands run: some tools leave their logs where they are.
    scratch: TempDir,
}

impl Namespace {
    /// Makes one whose loopback routes use the given congestion control. The sysctl is no way:
    /// a namespace may be refused to write it, and a route overrides it for both tools alike.
    ///
    /// # Errors
    ///
    /// Where `ip` fails: without root, or without that congestion control.
    pub fn new(purpose: &str, congestion: &str) -> Result<Namespace> {
        let namespace = Namespace {
            name: format!("ringperf-{purpose}-{}", std::process::id()),
            scratch: tempfile::tempdir()?,
        };
        ip(&format!("netns add {}", namespace.name))?;
        namespace.ip("link set lo up")?;
        // The host's route is the more specific one and would win over the network's.
        for route in ["127.0.0.0/8", "127.0.0.1/32"] {
            let change = format!("route change local {route} dev lo table local");
            namespace.ip(&format!("{change} congctl {congestion}"))?;
        }
        Ok(namespace)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `ip` inside.
    ///
    /// # Errors
    ///
    /// Where it fails.
    pub fn ip(&self, arguments: &str) -> Result<()> {
        ip(&format!("-n {} {arguments}", self.name))
    }

    /// A command that runs inside.
    pub fn command(&self, words: &str) -> Command {
        let mut command = Command::new("ip");
        command
            .current_dir(self.scratch.path())
            .args(["netns", "exec", &self.name])
            .args(words.split(' '));
        command
    }

    /// Starts a server inside and waits until it listens.
    ///
    /// # Errors
    ///
    /// Where it ends or does not listen in time.
    pub fn server(&self, words: &str, at: Listens) -> Result<Background> {
        let mut server = Background::start(self.command(words))?;
        let deadline = Instant::now() + LISTENS;
        while !self.listens(at)? {
            if server.has_ended() || Instant::now() > deadline {
                bail!("`{words}` does not listen: {at:?}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    fn listens(&self, at: Listens) -> Result<bool> {
        let (port, question) = match at {
            Listens::Tcp(port) => (port, "ss -Hltn"),
            Listens::Udp(port) => (port, "ss -Hlun"),
        };
        let listing = run(self.command(question), LIMIT, Show::No)?;
        let end = format!(":{port}");
        let local = |line: &str| line.split_whitespace().nth(3).map(str::to_string);
        Ok(listing
            .stdout
            .lines()
            .filter_map(local)
            .any(|address| address.ends_with(&end)))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // Not by `run`, which refuses to go on after an interrupt.
        let _ = Command::new("ip")
            .args(["netns", "del", &self.name])
            .output();
    }
}

fn ip(arguments: &str) -> Result<()> {
    let mut command = Command::new("ip");
    command.args(arguments.split(' '));
    let finished = run(command, LIMIT, Show::No)?;
    if !finished.success {
        bail!("ip {arguments}: {}", finished.stderr.trim());
    }
    Ok(())
}
