//! BENCHMARKS.md: the rows as tables, with the machine's facts above them.

use std::fmt::Write;
use std::fs;
use std::process::Command;
use std::time::Duration;

use super::ours::HEADLINE;
use super::told::{Played, Verdict, cells};
use crate::exec::{Show, run};

/// Longest that a command about the machine may take.
const LIMIT: Duration = Duration::from_secs(5);

/// What has to be known of the machine and the run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Facts {
    /// Day of the run.
    pub date: String,
    /// Kernel.
    pub kernel: String,
    /// Model and number of CPUs.
    pub cpus: String,
    /// What the machine runs on.
    pub hypervisor: String,
    /// Versions of ringperf and of the peers.
    pub versions: Vec<String>,
    /// Rounds.
    pub rounds: u32,
    /// Seconds of each run.
    pub seconds: u32,
}

impl Facts {
    /// Reads them.
    pub fn read(rounds: u32, seconds: u32, peers: Vec<String>, own: String) -> Facts {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let mut versions = vec![own.trim().to_string()];
        versions.extend(peers);
        Facts {
            date: said("date", "-u +%F"),
            kernel: kernel.trim().to_string(),
            cpus: cpus(&cpuinfo),
            hypervisor: hypervisor(&cpuinfo, &said("systemd-detect-virt", "--vm")),
            versions,
            rounds,
            seconds,
        }
    }
}

fn said(program: &str, arguments: &str) -> String {
    let mut command = Command::new(program);
    command.args(arguments.split(' '));
    run(command, LIMIT, Show::No)
        .map(|finished| finished.stdout.trim().to_string())
        .unwrap_or_default()
}

fn cpus(cpuinfo: &str) -> String {
    let models: Vec<&str> = cpuinfo
        .lines()
        .filter(|line| line.starts_with("model name"))
        .filter_map(|line| Some(line.split_once(':')?.1.trim()))
        .collect();
    match models.first() {
        Some(model) => format!("{} x {model}", models.len()),
        None => "not known".to_string(),
    }
}

fn hypervisor(cpuinfo: &str, detected: &str) -> String {
    let is_virtual = cpuinfo
        .lines()
        .any(|line| line.starts_with("flags") && line.split(' ').any(|flag| flag == "hypervisor"));
    match (detected, is_virtual) {
        ("" | "none", true) => "a virtual machine, its hypervisor not known".to_string(),
        ("" | "none", false) => "none found".to_string(),
        (name, _) => format!("a virtual machine on {name}"),
    }
}

const INTRODUCTION: &str = "\
# Benchmarks

Written by `cargo xtask bench peers --markdown`; `benches/README.md` says how it is kept fair.

**These ratios are of loopback and veth on the virtual machine named below. Nothing here was
measured on a NIC, and small-packet line rate is out of reach of sockets.** Read the ratios, not
the rates.
";

/// The page.
pub fn page(facts: &Facts, rows: &[Played]) -> String {
    let mut text = INTRODUCTION.to_string();
    let mut line = |content: &str| {
        text.push_str(content);
        text.push('\n');
    };
    line("\n| fact | value |\n|---|---|");
    let length = format!("{} s, {} rounds, alternated", facts.seconds, facts.rounds);
    for (name, value) in [
        ("date", facts.date.as_str()),
        ("kernel", &facts.kernel),
        ("CPUs", &facts.cpus),
        ("hypervisor", &facts.hypervisor),
        ("client and server", "pinned to CPU 0 and CPU 1, all tools"),
        (
            "congestion control",
            "named beside each case; set by the routes, seen on every connection with ss",
        ),
        ("each run", &length),
        ("versions", &facts.versions.join(", ")),
    ] {
        line(&format!("| {name} | {value} |"));
    }
    line(
        "\n## Summary\n\nThe ratio is the median of ours by the best peer's of the same round.\n",
    );
    line("| where | case | compared | verdict |\n|---|---|---|---|");
    for row in rows {
        let verdict = match row.verdict() {
            Verdict::Met => "reached",
            Verdict::Below => "below",
            Verdict::NotMeasured => "not measured",
            Verdict::Beside => "beside the goals",
        };
        line(&format!(
            "| {} | {} | {} | {verdict} |",
            row.place,
            row.row.case,
            row.summary()
        ));
    }
    line("\n## Rows\n");
    line(EXPLANATION);
    for row in rows.iter().filter(|row| !row.contestants.is_empty()) {
        text.push_str(&table(row));
    }
    text
}

const EXPLANATION: &str = "\
`ringperf` alone is what the engine chooses by itself, at its own depth; `--depth 1` and
`--as-application` are rows of their own. Rates are medians with their range. CPU time is of both
sides, the kernel's work for them included; CPUs are client, server and the kernel's own threads
for packets. A tool that counts what it sends is compared on what the kernel counted as received.";

fn table(row: &Played) -> String {
    let case = row.row.case;
    // Writing to a string cannot fail.
    let mut text = String::new();
    let _ = writeln!(text, "\n### {}, {case}\n", row.place);
    let _ = writeln!(
        text,
        "| tool | {} | CPU | CPUs | kernel | latency |",
        case.unit().0
    );
    text.push_str("|---|---|---|---|---|---|\n");
    for one in &row.contestants {
        let label = match one.call.label {
            HEADLINE => "**ringperf**".to_string(),
            other => other.to_string(),
        };
        let _ = match &one.outcome {
            Ok(readings) => {
                writeln!(text, "| {label} | {} |", cells(&case, readings).join(" | "))
            }
            Err(why) => writeln!(text, "| {label} | failed: {} |||||", in_a_cell(why)),
        };
    }
    text
}

fn in_a_cell(text: &str) -> String {
    text.replace('\n', " ").replace('|', "/")
}

#[cfg(test)]
mod tests {
    use super::super::case::ROWS;
    use super::*;

    #[test]
    fn the_page_says_where_it_was_measured_and_what_was_not() {
        let facts = Facts {
            date: "2030-01-02".to_string(),
            kernel: "6.18.1".to_string(),
            cpus: "2 x Processor".to_string(),
            hypervisor: "a virtual machine on kvm".to_string(),
            versions: vec!["ringperf 0.1.0".to_string(), "qperf 0.4.11".to_string()],
            rounds: 5,
            seconds: 2,
        };
        let row = Played {
            row: ROWS[0],
            place: "lo, cubic".to_string(),
            least: Some(1.7),
            contestants: Vec::new(),
            missing: vec!["qperf is not here".to_string()],
        };
        let page = page(&facts, &[row]);
        for expected in [
            "Nothing here was\nmeasured on a NIC",
            "| date | 2030-01-02 |",
            "| hypervisor | a virtual machine on kvm |",
            "| versions | ringperf 0.1.0, qperf 0.4.11 |",
            "| lo, cubic | tcp stream 64 x1 | not measured: qperf is not here | not measured |",
        ] {
            assert!(page.contains(expected), "{expected}\n{page}");
        }
    }

    #[test]
    fn the_machine_is_named_from_what_it_says() {
        let cpuinfo = "processor : 0\nmodel name : A B\nflags : fpu hypervisor\n\
                       model name : A B\n";
        assert_eq!(cpus(cpuinfo), "2 x A B");
        assert_eq!(hypervisor(cpuinfo, "kvm"), "a virtual machine on kvm");
        assert!(hypervisor(cpuinfo, "none").contains("not known"));
        assert_eq!(hypervisor("flags : fpu", ""), "none found");
        assert_eq!(cpus(""), "not known");
        assert_eq!(in_a_cell("a\nb|c"), "a b/c");
    }
}
