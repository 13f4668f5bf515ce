//! What a running pair of client and server does, seen from outside and in the same way for every
//! tool: CPU time, what the kernel counted, and the congestion control of their sockets.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::super::stage::{Path, Stage};
use crate::exec::{Show, run};

/// Longest that `ss` may take.
const LIMIT: Duration = Duration::from_secs(10);

/// Longest until traffic begins.
const BEGINS: Duration = Duration::from_secs(8);

/// How often the packets are looked at, and how many at most come before the traffic: in all
/// and for each flow.
const LOOK: Duration = Duration::from_millis(20);
const PREPARES: f64 = 150.0;
const CONNECTS: f64 = 10.0;

/// A process that is gone has no counts.
const ENDED: &str = "it ended before it was to be looked at";

/// Bytes of the headers of a TCP segment over IPv4 with time stamps.
const HEADERS: f64 = 52.0;

/// CPU time and counts between two instants of a run.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Window {
    /// Seconds between the instants.
    pub seconds: f64,
    /// CPU seconds per second of the client's processes, kernel time included.
    pub client_cpu: f64,
    /// The same of the server's.
    pub server_cpu: f64,
    /// The same of the kernel's own threads for packets.
    pub softirq_cpu: f64,
    /// Datagrams that sockets received, per second.
    pub datagrams_in: f64,
    /// Datagrams that sockets sent, per second.
    pub datagrams_out: f64,
    /// Datagrams that found no room in a socket's buffer, per second.
    pub datagrams_dropped: f64,
    /// TCP payload that arrived, bytes per second: octets less a header per packet.
    pub payload_in: f64,
    /// Congestion controls of all connections.
    pub congestion: BTreeSet<String>,
}

impl Window {
    /// CPU seconds per second of both sides and the kernel's threads.
    pub fn cpu(&self) -> f64 {
        self.client_cpu + self.server_cpu + self.softirq_cpu
    }
}

/// A pair that runs.
#[derive(Debug)]
pub struct Pair<'a> {
    /// Where.
    pub stage: &'a Stage,
    /// Process group of the client.
    pub client: u32,
    /// Process group of the server.
    pub server: u32,
    /// Flows of the case.
    pub flows: u32,
}

/// Watches between two times from the begin of the traffic. `over` ends it early.
///
/// # Errors
///
/// Where no traffic begins, the client ended before the second time, or the kernel's counts
/// cannot be read.
pub fn watch(pair: &Pair, from: Duration, to: Duration, over: &Receiver<()>) -> Result<Window> {
    await_traffic(pair, over)?;
    let began = Instant::now();
    let mut congestion = congestion(pair.stage.client().command(QUESTION))?;
    if pair.stage.path() == Path::Veth {
        congestion.extend(self::congestion(pair.stage.server().command(QUESTION))?);
    }
    pause(over, from.saturating_sub(began.elapsed()))?;
    let first = Counts::read(pair)?;
    pause(over, to.saturating_sub(began.elapsed()))?;
    let second = Counts::read(pair)?;
    let mut window = first.until(&second);
    window.congestion = congestion;
    Ok(window)
}

/// Tools take from some milliseconds to seconds until they send. The packets with which they
/// agree on a test and connect are not the test.
fn await_traffic(pair: &Pair, over: &Receiver<()>) -> Result<()> {
    let deadline = Instant::now() + BEGINS;
    let first = packets(pair)?;
    while packets(pair)? - first < PREPARES + CONNECTS * f64::from(pair.flows) {
        if Instant::now() > deadline {
            bail!("no traffic began");
        }
        pause(over, LOOK)?;
    }
    Ok(())
}

fn packets(pair: &Pair) -> Result<f64> {
    let text = fs::read_to_string(format!("/proc/{}/net/snmp", pair.server)).context(ENDED)?;
    table(&text)
        .remove("Ip.InReceives")
        .context("the kernel counts no packets")
}

fn pause(over: &Receiver<()>, length: Duration) -> Result<()> {
    match over.recv_timeout(length) {
        Err(RecvTimeoutError::Timeout) => Ok(()),
        _ => bail!(ENDED),
    }
}

/// Established connections with their details.
const QUESTION: &str = "ss -Htin state established";

fn congestion(question: std::process::Command) -> Result<BTreeSet<String>> {
    Ok(controls(&run(question, LIMIT, Show::No)?.stdout))
}

/// The first word of each line of details is the congestion control.
fn controls(listing: &str) -> BTreeSet<String> {
    listing
        .lines()
        .filter(|line| line.starts_with([' ', '\t']))
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_string)
        .collect()
}

/// Counts at one instant.
struct Counts {
    at: Instant,
    client_ns: f64,
    server_ns: f64,
    softirq_ns: f64,
    sent: BTreeMap<String, f64>,
    received: BTreeMap<String, f64>,
}

impl Counts {
    fn read(pair: &Pair) -> Result<Counts> {
        let read = |pid: u32, file: &str| {
            fs::read_to_string(format!("/proc/{pid}/net/{file}")).context(ENDED)
        };
        let mut received = table(&read(pair.server, "snmp")?);
        received.extend(table(&read(pair.server, "netstat")?));
        let tasks = Tasks::read();
        Ok(Counts {
            at: Instant::now(),
            client_ns: tasks.of_group(pair.client),
            server_ns: tasks.of_group(pair.server),
            softirq_ns: tasks.softirq,
            sent: table(&read(pair.client, "snmp")?),
            received,
        })
    }

    fn until(&self, later: &Counts) -> Window {
        let seconds = later.at.duration_since(self.at).as_secs_f64();
        let cpu = |from: f64, to: f64| (to - from).max(0.0) / 1e9 / seconds;
        let rate = |from: &BTreeMap<String, f64>, to: &BTreeMap<String, f64>, name: &str| {
            let at = |map: &BTreeMap<String, f64>| map.get(name).copied().unwrap_or(0.0);
            (at(to) - at(from)) / seconds
        };
        let received = |name: &str| rate(&self.received, &later.received, name);
        Window {
            seconds,
            client_cpu: cpu(self.client_ns, later.client_ns),
            server_cpu: cpu(self.server_ns, later.server_ns),
            softirq_cpu: cpu(self.softirq_ns, later.softirq_ns),
            datagrams_in: received("Udp.InDatagrams"),
            datagrams_out: rate(&self.sent, &later.sent, "Udp.OutDatagrams"),
            datagrams_dropped: received("Udp.RcvbufErrors"),
            payload_in: received("IpExt.InOctets") - HEADERS * received("Ip.InReceives"),
            congestion: BTreeSet::new(),
        }
    }
}

/// The pairs of lines of `/proc/net/snmp` and `netstat`: names, then values.
fn table(text: &str) -> BTreeMap<String, f64> {
    let lines: Vec<&str> = text.lines().collect();
    let mut all = BTreeMap::new();
    for pair in lines.chunks_exact(2) {
        let Some((group, names)) = pair[0].split_once(':') else {
            continue;
        };
        let values = pair[1].split_once(':').map_or("", |(_, values)| values);
        for (name, value) in names.split_whitespace().zip(values.split_whitespace()) {
            if let Ok(value) = value.parse() {
                all.insert(format!("{group}.{name}"), value);
            }
        }
    }
    all
}

/// Run time of every process that there is, in nanoseconds as the scheduler has it.
struct Tasks {
    groups: BTreeMap<u32, f64>,
    softirq: f64,
}

impl Tasks {
    fn read() -> Tasks {
        let mut tasks = Tasks {
            groups: BTreeMap::new(),
            softirq: 0.0,
        };
        let Ok(all) = fs::read_dir("/proc") else {
            return tasks;
        };
        for process in all.flatten() {
            // Those that end meanwhile are nobody's that is measured.
            let Ok(stat) = fs::read_to_string(process.path().join("stat")) else {
                continue;
            };
            let Some((name, group)) = name_and_group(&stat) else {
                continue;
            };
            let ran = ran(&process.path());
            if name.starts_with("ksoftirqd/") {
                tasks.softirq += ran;
            } else {
                *tasks.groups.entry(group).or_default() += ran;
            }
        }
        tasks
    }

    fn of_group(&self, group: u32) -> f64 {
        self.groups.get(&group).copied().unwrap_or(0.0)
    }
}

fn name_and_group(stat: &str) -> Option<(&str, u32)> {
    let (_, rest) = stat.split_once('(')?;
    let (name, rest) = rest.rsplit_once(')')?;
    let group = rest.split_whitespace().nth(2)?.parse().ok()?;
    Some((name, group))
}

/// Nanoseconds that the threads of a process ran.
fn ran(process: &std::path::Path) -> f64 {
    let Ok(threads) = fs::read_dir(process.join("task")) else {
        return 0.0;
    };
    threads
        .flatten()
        .filter_map(|thread| fs::read_to_string(thread.path().join("schedstat")).ok())
        .filter_map(|text| text.split_whitespace().next()?.parse::<f64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn congestion_controls_are_the_first_words_of_the_details() {
        let listing = "0      0      127.0.0.1:5201  127.0.0.1:46652 users:((\"x\"))\n\
            \t cubic wscale:10,10 rto:204 rtt:0.02/0.01 mss:32768 cwnd:10\n\
            0      12     127.0.0.1:46652 127.0.0.1:5201\n\
            \t bbr wscale:10,10 rto:204 bbr:(bw:1bps,mrtt:0.1)\n";
        let found: Vec<String> = controls(listing).into_iter().collect();
        assert_eq!(found, ["bbr", "cubic"]);
        assert!(controls("").is_empty());
    }

    #[test]
    fn the_kernels_tables_are_pairs_of_lines() {
        let text = "Ip: Forwarding InReceives\nIp: 1 250\n\
            Udp: InDatagrams NoPorts RcvbufErrors\nUdp: 41 0 7\n";
        let found = table(text);
        assert_eq!(found.get("Ip.InReceives"), Some(&250.0));
        assert_eq!(found.get("Udp.RcvbufErrors"), Some(&7.0));
        assert_eq!(found.len(), 5);
    }

    #[test]
    fn a_process_is_known_by_its_group_whatever_its_name() {
        let stat = "812 (a) b (c)) S 1 811 810 0 -1 4194560 0 0";
        assert_eq!(name_and_group(stat), Some(("a) b (c)", 811)));
        assert_eq!(name_and_group("812"), None);
    }

    #[test]
    fn this_process_has_run() {
        let spin = Instant::now();
        while spin.elapsed() < Duration::from_millis(20) {}
        assert!(ran(std::path::Path::new("/proc/self")) > 1e6);
        assert_eq!(ran(std::path::Path::new("/proc/no-such")), 0.0);
    }

    #[test]
    fn rates_are_of_the_time_between() {
        let counts = |after_s: u64, client_ns: f64, octets: f64, packets: f64| Counts {
            at: Instant::now() + Duration::from_secs(after_s),
            client_ns,
            server_ns: 0.0,
            softirq_ns: 0.0,
            sent: BTreeMap::new(),
            received: [("IpExt.InOctets", octets), ("Ip.InReceives", packets)]
                .map(|(name, value)| (name.to_string(), value))
                .into(),
        };
        let window = counts(0, 1e9, 1000.0, 10.0).until(&counts(2, 2e9, 3120.0, 12.0));
        assert!((window.seconds - 2.0).abs() < 0.01);
        assert!((window.cpu() - 0.5).abs() < 0.01);
        assert!((window.payload_in - 1008.0).abs() < 10.0);
    }
}
