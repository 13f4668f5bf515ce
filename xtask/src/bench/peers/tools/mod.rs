//! The peers: how each is called for a case, and how what it prints is read. One file per peer.

mod iperf;
mod iperf3;
mod neper;
mod netperf;
mod nuttcp;
mod qperf;
mod sockperf;
mod uperf;

use anyhow::{Context, Result};
use serde_json::Value;

use super::super::namespace::Listens;
use super::case::Case;
use super::programs::{Programs, version};

/// CPU of every client and of every server.
pub const CLIENT_CPU: u32 = 0;
/// The server's.
pub const SERVER_CPU: u32 = 1;

/// What a tool counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Basis {
    /// What arrived, or whole transactions.
    Received,
    /// What was sent; the kernel's count of what arrived takes its place.
    Sent,
}

/// What a tool says.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Figure {
    /// Messages, datagrams or transactions per second.
    pub rate: f64,
    /// What the rate is of.
    pub basis: Basis,
    /// Median and 99th percentile of the round trip, microseconds.
    pub latency_us: Option<[f64; 2]>,
}

impl Figure {
    /// A figure of what arrived.
    pub fn received(rate: f64) -> Figure {
        Figure {
            rate,
            basis: Basis::Received,
            latency_us: None,
        }
    }
}

/// Reads what a client printed.
pub type Read = fn(&str, &Case) -> Result<Figure>;

/// A way to run one tool.
#[derive(Clone, Debug)]
pub struct Call {
    /// The tool and what sets this call apart from its others.
    pub label: &'static str,
    /// Command line of the server.
    pub server: String,
    /// Where that listens when it is ready.
    pub listens: Listens,
    /// Command line of the client.
    pub client: String,
    /// Seconds of traffic that it does not count.
    pub lead_s: f64,
    /// How to read the client's output.
    pub read: Read,
}

/// What a call is made for.
#[derive(Clone, Copy, Debug)]
pub struct Setting<'a> {
    /// The case.
    pub case: &'a Case,
    /// The server's address.
    pub address: &'a str,
    /// Length of a run.
    pub seconds: u32,
    /// What is here.
    pub programs: &'a Programs,
}

/// A peer.
#[derive(Clone, Copy, Debug)]
struct Peer {
    name: &'static str,
    /// Its main program, and what makes that say its version.
    program: [&'static str; 2],
    calls: fn(&Setting) -> Vec<Call>,
}

const PEERS: [Peer; 8] = [
    iperf3::PEER,
    iperf::PEER,
    sockperf::PEER,
    qperf::PEER,
    nuttcp::PEER,
    netperf::PEER,
    neper::PEER,
    uperf::PEER,
];

/// Every way in which the peers that are here drive a case.
pub fn calls(setting: &Setting) -> Vec<Call> {
    PEERS
        .iter()
        .flat_map(|peer| (peer.calls)(setting))
        .collect()
}

/// Name, version and place of every peer that is here.
pub fn found(programs: &Programs) -> Vec<String> {
    let mut lines = Vec::new();
    for peer in PEERS {
        let [program, argument] = peer.program;
        let Some(path) = programs.find(program) else {
            continue;
        };
        let said = version(&programs.says(&path, argument));
        let said = said.unwrap_or_else(|| "of unknown version".to_string());
        lines.push(format!("{} {said}", peer.name));
    }
    lines
}

/// A command line on the client's CPU.
fn client(words: &str) -> String {
    format!("taskset -c {CLIENT_CPU} {words}")
}

/// A command line on the server's CPU.
fn server(words: &str) -> String {
    format!("taskset -c {SERVER_CPU} {words}")
}

fn json(text: &str) -> Result<Value> {
    // Warnings may stand before the document.
    let start = text.find('{').unwrap_or(0);
    serde_json::from_str(&text[start..]).context("it did not print one JSON document")
}

/// A positive number of a JSON document.
fn number(document: &Value, pointer: &str) -> Result<f64> {
    let value = document.pointer(pointer).and_then(Value::as_f64);
    value
        .filter(|value| *value > 0.0)
        .with_context(|| format!("no figure at {pointer}"))
}

/// The positive number after a word: `word=12.5`, `word = 12.5`.
fn after(text: &str, word: &str) -> Result<f64> {
    optional_after(text, word)
        .filter(|value| *value > 0.0)
        .with_context(|| format!("it printed no `{word}`"))
}

/// The number after a word, of the first place where the word stands by itself.
fn optional_after(text: &str, word: &str) -> Option<f64> {
    let is_part = |before: Option<char>| before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    text.match_indices(word)
        .filter(|(at, _)| !is_part(text[..*at].chars().next_back()))
        .find_map(|(at, _)| {
            let rest = text[at + word.len()..].trim_start();
            let rest = rest.strip_prefix('=')?.trim_start();
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '-');
            rest[..end.unwrap_or(rest.len())].parse().ok()
        })
}

#[cfg(test)]
mod tests {
    use super::super::case::{Job, Mode, Proto};
    use super::*;

    /// A case to read outputs for.
    pub fn case(proto: Proto, job: Job, size: u32) -> Case {
        Case {
            proto,
            job,
            size,
            flows: 1,
            mode: Mode::Plain,
        }
    }

    #[test]
    fn numbers_follow_whole_words() {
        let text = "max_rate=7 rate = 12.5 /s\nrate=3";
        assert_eq!(after(text, "rate").unwrap(), 12.5);
        assert_eq!(optional_after(text, "ate"), None);
        assert!(after("rate=0", "rate").is_err());
        assert!(after("rate", "rate").is_err());
    }

    #[test]
    fn every_label_that_a_row_needs_is_some_peers() {
        let sources = [
            include_str!("iperf3.rs"),
            include_str!("iperf.rs"),
            include_str!("sockperf.rs"),
            include_str!("qperf.rs"),
            include_str!("nuttcp.rs"),
            include_str!("netperf.rs"),
            include_str!("neper.rs"),
            include_str!("uperf.rs"),
        ]
        .concat();
        for row in super::super::case::ROWS {
            for any in row.needs {
                let known = |label: &&&str| sources.contains(&format!("\"{label}\""));
                assert!(any.iter().any(|label| known(&label)), "{any:?}");
            }
        }
    }
}
