//! ringperf against everyone, in like mode: every case that the goals name, over loopback and
//! veth.

mod case;
mod contest;
mod markdown;
mod ours;
mod programs;
mod told;
mod tools;
mod watch;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::stage::{Path, Stage};
use super::{BELOW, NOT_MEASURED, build};
use crate::{print, say};
use case::{Proto, ROWS, Row};
use contest::Contestant;
use programs::Programs;
use told::{Played, Verdict};
use tools::Setting;

/// The congestion control that the goals are for, and the one that may stand beside it.
const CONGESTION: &str = "cubic";
const BESIDE: &str = "bbr";

/// What the comparison with peers may be told.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "With peers")]
pub struct Options {
    /// Only cases whose name has this in it, such as `tcp rr` or `x500`; may be repeated
    #[arg(long, value_name = "TEXT")]
    case: Vec<String>,
    /// A directory with peers; what is there comes before what is on the path
    #[arg(long, value_name = "DIR")]
    peers: Option<PathBuf>,
    /// The ringperf to measure [default: this tree's, built for it]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Seconds of every run
    #[arg(long, value_name = "S", default_value_t = 2)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=60))]
    seconds: u32,
    /// Only over loopback, or only over veth
    #[arg(long, value_enum)]
    path: Option<Path>,
    /// A second block of the TCP cases under bbr, beside the goals
    #[arg(long)]
    with_bbr: bool,
    /// Write BENCHMARKS.md
    #[arg(long)]
    markdown: bool,
}

impl Options {
    fn takes(&self, row: &Row) -> bool {
        let name = row.case.to_string();
        self.case.is_empty() || self.case.iter().any(|text| name.contains(text.as_str()))
    }
}

/// Runs every row that is wanted.
///
/// # Errors
///
/// Where ringperf does not build, the namespaces cannot be made, or the user interrupts.
pub fn compare(root: &std::path::Path, rounds: u32, options: &Options) -> Result<u8> {
    let program = match &options.program {
        Some(program) => program
            .canonicalize()
            .with_context(|| program.display().to_string())?,
        None => build(root)?,
    };
    let program = program.to_str().context("the path is not text")?;
    let programs = Programs::new(options.peers.as_deref());
    let bench = Bench {
        rounds,
        options,
        program,
        programs: &programs,
    };
    print(&format!(
        "peers here: {}",
        tools::found(&programs).join(", ")
    ))?;
    let mut all = Vec::new();
    let mut controls = vec![CONGESTION];
    controls.extend(options.with_bbr.then_some(BESIDE));
    for congestion in controls {
        for path in [Path::Loopback, Path::Veth] {
            if options.path.is_none_or(|only| only == path) {
                bench.block(path, congestion, &mut all)?;
            }
        }
    }
    if options.markdown {
        let text = markdown::page(&bench.facts(), &all);
        let file = root.join("BENCHMARKS.md");
        std::fs::write(&file, text).with_context(|| file.display().to_string())?;
        say(&format!("written: {}", file.display()));
    }
    let count = |verdict: Verdict| all.iter().filter(|one| one.verdict() == verdict).count();
    let [met, below, missing] = [Verdict::Met, Verdict::Below, Verdict::NotMeasured].map(count);
    print(&format!(
        "{met} rows reached, {below} below, {missing} not measured"
    ))?;
    Ok(code(below, missing))
}

/// What was not measured outweighs what is below: the rest is not known.
fn code(below: usize, missing: usize) -> u8 {
    match (below, missing) {
        (0, 0) => 0,
        (_, 0) => BELOW,
        (_, _) => NOT_MEASURED,
    }
}

struct Bench<'a> {
    rounds: u32,
    options: &'a Options,
    program: &'a str,
    programs: &'a Programs,
}

impl Bench<'_> {
    /// Every wanted row on one path under one congestion control.
    fn block(&self, path: Path, congestion: &'static str, all: &mut Vec<Played>) -> Result<()> {
        let is_goal = congestion == CONGESTION;
        let stage = Stage::new(path, congestion)?;
        for row in ROWS.iter().filter(|row| self.options.takes(row)) {
            // A datagram has no congestion control.
            if is_goal || row.case.proto == Proto::Tcp {
                let played = self.row(&stage, row, is_goal)?;
                for line in played.lines() {
                    print(&line)?;
                }
                all.push(played);
            }
        }
        Ok(())
    }

    fn row(&self, stage: &Stage, row: &Row, is_goal: bool) -> Result<Played> {
        let setting = Setting {
            case: &row.case,
            address: stage.address(),
            seconds: self.options.seconds,
            programs: self.programs,
        };
        let peers = tools::calls(&setting);
        let absent = missing(row, |label| peers.iter().any(|call| call.label == label));
        let mut played = Played {
            row: *row,
            place: format!("{}, {}", stage.path().name(), stage.congestion()),
            least: is_goal.then_some(row.least[usize::from(stage.path() == Path::Veth)]),
            contestants: Vec::new(),
            missing: absent
                .iter()
                .map(|name| format!("{name} is not here"))
                .collect(),
        };
        if !absent.is_empty() {
            return Ok(played);
        }
        let own = ours::calls(&setting, self.program);
        played.contestants = own.into_iter().chain(peers).map(Contestant::new).collect();
        let all = &mut played.contestants;
        let told = contest::play(
            stage,
            row,
            all,
            self.rounds,
            self.options.seconds,
            &progress,
        );
        progress("");
        told?;
        let ran = |label: &str| {
            let runs = all.iter().filter(|one| one.call.label == label);
            runs.into_iter().any(|one| one.outcome.is_ok())
        };
        played.missing = missing(row, ran);
        if !ran(ours::HEADLINE) {
            played.missing.push(ours::HEADLINE.to_string());
        }
        for name in &mut played.missing {
            name.push_str(" failed");
        }
        Ok(played)
    }

    fn facts(&self) -> markdown::Facts {
        markdown::Facts::read(
            self.rounds,
            self.options.seconds,
            tools::found(self.programs),
            self.programs.says_with(self.program, &["--version"]),
        )
    }
}

/// Of the peers that a row names, those without one.
fn missing(row: &Row, has: impl Fn(&str) -> bool) -> Vec<String> {
    row.needs
        .iter()
        .filter(|any| !any.iter().any(|label| has(label)))
        .map(|any| any.join(" or "))
        .collect()
}

/// A line that the next one takes the place of, for a person watching; nothing in a pipe.
fn progress(text: &str) {
    let mut stderr = std::io::stderr().lock();
    if stderr.is_terminal() {
        // One that cannot be shown is no reason to stop.
        let _ = write!(stderr, "\r\x1b[K{text}");
        let _ = stderr.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_misses_what_none_of_a_list_is_here() {
        let many = ROWS[9];
        assert_eq!(
            missing(&many, |label| label == "uperf"),
            Vec::<String>::new()
        );
        assert_eq!(missing(&many, |_| false), ["neper or uperf"]);
        let stream = ROWS[0];
        assert_eq!(
            missing(&stream, |label| label != "qperf" && label != "iperf"),
            ["iperf", "qperf"]
        );
    }

    #[test]
    fn nothing_passes_by_absence() {
        assert_eq!(code(0, 0), 0);
        assert_eq!(code(2, 0), BELOW);
        assert_eq!(code(0, 1), NOT_MEASURED);
        assert_eq!(code(2, 1), NOT_MEASURED);
    }
}
