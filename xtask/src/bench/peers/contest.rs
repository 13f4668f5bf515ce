//! One row: every tool once a round, who goes first in turn.

use std::sync::mpsc::channel;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::super::stage::Stage;
use super::case::{Case, Job, Mode, Proto, Row};
use super::tools::{Basis, Call, Figure};
use super::watch::{Pair, Window, watch};
use crate::exec::{Finished, Show, interrupted, run_watched};

/// Longest that a client may take beyond its traffic: one peer waits for several seconds.
const SLACK: Duration = Duration::from_secs(15);

/// When the kernel's counts are taken: after this long and this share of the traffic, until this
/// share of it.
const SETTLED_S: f64 = 0.2;
const FROM: f64 = 0.2;
const TO: f64 = 0.8;

/// One run of one tool.
#[derive(Clone, PartialEq, Debug)]
pub struct Reading {
    /// What the tool says.
    pub figure: Figure,
    /// What was seen from outside.
    pub window: Window,
}

impl Reading {
    /// The rate that is compared: what arrived. Of a tool that counts what it sends, small
    /// messages are as the kernel counted them, datagrams its own count times the share that the
    /// kernel saw arrive. What large messages leave in buffers is nothing beside their rate.
    pub fn rate(&self, case: &Case) -> f64 {
        let window = &self.window;
        match (self.figure.basis, case.proto) {
            (Basis::Received, _) => self.figure.rate,
            (Basis::Sent, Proto::Tcp) if case.is_bulk() => self.figure.rate,
            (Basis::Sent, Proto::Tcp) => self.kernel_rate(case),
            (Basis::Sent, Proto::Udp) => {
                let arrived = window.datagrams_in / window.datagrams_out.max(1.0);
                self.figure.rate * arrived.min(1.0)
            }
        }
    }

    /// What the kernel counted, in the case's operations. Merged datagrams count as one.
    pub fn kernel_rate(&self, case: &Case) -> f64 {
        match case.proto {
            Proto::Udp => self.window.datagrams_in,
            Proto::Tcp => self.window.payload_in / f64::from(case.size),
        }
    }

    /// CPU seconds of both sides per operation: by the kernel's count of the same time where it
    /// counts operations, else by the tool's rate.
    pub fn cpu(&self, case: &Case) -> f64 {
        let counts = case.job == Job::Stream && case.mode != Mode::Offload;
        let rate = match counts {
            true => self.kernel_rate(case),
            false => self.rate(case),
        };
        self.window.cpu() / rate
    }
}

/// A tool in a row.
#[derive(Clone, Debug)]
pub struct Contestant {
    /// Its call.
    pub call: Call,
    /// A reading per round, or why it has none.
    pub outcome: Result<Vec<Reading>, String>,
}

impl Contestant {
    /// One that has not run yet.
    pub fn new(call: Call) -> Contestant {
        Contestant {
            call,
            outcome: Ok(Vec::new()),
        }
    }

    /// Its readings; none where it failed.
    pub fn readings(&self) -> &[Reading] {
        self.outcome.as_deref().unwrap_or_default()
    }
}

/// Runs all rounds. A tool that fails once is out of the row.
///
/// # Errors
///
/// Where the user interrupts.
pub fn play(
    stage: &Stage,
    row: &Row,
    contestants: &mut [Contestant],
    rounds: u32,
    seconds: u32,
    told: &dyn Fn(&str),
) -> Result<()> {
    for round in 0..rounds {
        let mut order: Vec<usize> = (0..contestants.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for index in order {
            let contestant = &mut contestants[index];
            let Ok(readings) = &mut contestant.outcome else {
                continue;
            };
            let label = contestant.call.label;
            told(&format!("{}, round {}: {label}", row.case, round + 1));
            match once(stage, &contestant.call, &row.case, seconds) {
                Ok(reading) => readings.push(reading),
                Err(error) if interrupted() => return Err(error),
                Err(error) => contestant.outcome = Err(format!("{error:#}")),
            }
        }
    }
    Ok(())
}

/// Runs one tool once.
fn once(stage: &Stage, call: &Call, case: &Case, seconds: u32) -> Result<Reading> {
    if interrupted() {
        bail!("interrupted");
    }
    let server = stage.server().server(&call.server, call.listens)?;
    let length = f64::from(seconds);
    let from = Duration::from_secs_f64(call.lead_s + SETTLED_S + FROM * length);
    let to = Duration::from_secs_f64(call.lead_s + TO * length);
    let (started, group) = channel();
    let (running, over) = channel::<()>();
    let (finished, window) = std::thread::scope(|scope| {
        let server = server.id();
        let watcher = scope.spawn(move || {
            let client = group.recv().context("the client did not start")?;
            let pair = Pair {
                stage,
                client,
                server,
                flows: case.flows,
            };
            watch(&pair, from, to.max(from), &over)
        });
        let limit = Duration::from_secs_f64(call.lead_s + length) + SLACK;
        let command = stage.client().command(&call.client);
        let finished = run_watched(command, limit, Show::No, |id| {
            // A watcher that is gone says why itself.
            let _ = started.send(id);
        });
        drop((started, running));
        (finished, watcher.join())
    });
    server.end_at_once();
    let finished = finished?;
    if !finished.success {
        bail!("it failed: {}", reason(&finished));
    }
    let window = window.map_err(|_| anyhow::anyhow!("the watcher panicked"))??;
    accept(stage, case, &window)?;
    let figure = (call.read)(&finished.stdout, case)
        .with_context(|| format!("`{}`", last_line(&finished.stderr)))?;
    Ok(Reading { figure, window })
}

/// Refuses a run with another congestion control, and one in which nothing moved while it was
/// looked at.
fn accept(stage: &Stage, case: &Case, window: &Window) -> Result<()> {
    let expected = stage.congestion();
    let found: Vec<&str> = window.congestion.iter().map(String::as_str).collect();
    if case.proto == Proto::Tcp && found != [expected] {
        bail!("its connections ran {found:?}, not {expected}");
    }
    let moved = match case.proto {
        Proto::Tcp => window.payload_in,
        Proto::Udp => window.datagrams_in,
    };
    if moved <= 0.0 {
        bail!("the kernel saw no traffic while it was looked at");
    }
    Ok(())
}

/// What a tool says of its failure: the texts of a document, else its last line.
fn reason(finished: &Finished) -> String {
    let document: Option<Value> = serde_json::from_str(&finished.stdout).ok();
    let mut texts = Vec::new();
    if let Some(document) = &document {
        errors(document, &mut texts);
    }
    let said = match last_line(&finished.stderr) {
        "" => last_line(&finished.stdout),
        line => line,
    };
    match texts.is_empty() {
        true => said.to_string(),
        false => texts.join("; "),
    }
}

/// The text of everything in a document that is named an error, or is one by its severity.
fn errors(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::Array(all) => all.iter().for_each(|one| errors(one, texts)),
        Value::Object(fields) => {
            let text = |of: Option<&Value>| of.and_then(Value::as_str).map(str::to_string);
            if fields
                .get("severity")
                .is_some_and(|severity| severity == "error")
            {
                texts.extend(text(fields.get("text")));
            }
            texts.extend(text(fields.get("error")));
            fields.values().for_each(|one| errors(one, texts));
        }
        _ => {}
    }
    texts.dedup();
}

fn last_line(text: &str) -> &str {
    text.trim().lines().next_back().unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::super::case::ROWS;
    use super::*;

    fn reading(basis: Basis, window: Window) -> Reading {
        let figure = Figure {
            rate: 1000.0,
            basis,
            latency_us: None,
        };
        Reading { figure, window }
    }

    #[test]
    fn one_that_counts_sends_is_compared_on_receives() {
        let window = Window {
            datagrams_in: 900.0,
            datagrams_out: 1200.0,
            payload_in: 64.0 * 800.0,
            client_cpu: 0.5,
            server_cpu: 0.3,
            softirq_cpu: 0.1,
            ..Window::default()
        };
        let datagrams = ROWS[12].case;
        assert_eq!(datagrams.to_string(), "udp stream 64 x1");
        assert_eq!(reading(Basis::Sent, window.clone()).rate(&datagrams), 750.0);
        assert_eq!(
            reading(Basis::Received, window.clone()).rate(&datagrams),
            1000.0
        );
        let sent = reading(Basis::Sent, window);
        assert_eq!(sent.rate(&ROWS[0].case), 800.0);
        assert_eq!(sent.rate(&ROWS[2].case), 1000.0);
        assert!((sent.cpu(&datagrams) - 0.9 / 900.0).abs() < 1e-12);
    }

    #[test]
    fn a_document_says_why_it_failed() {
        let finished = |stdout: &str, stderr: &str| Finished {
            stdout: stdout.to_string(),
            stderr: stderr.to_string(),
            ..Finished::default()
        };
        let document = "{\"cases\": [{\"error\": null, \"samples\": [{\"findings\": [\
                        {\"severity\": \"error\", \"text\": \"they differ\"},\
                        {\"severity\": \"info\", \"text\": \"unpaced\"}]}]}],\
                        \"error\": \"no data\"}";
        assert_eq!(reason(&finished(document, "noise")), "no data; they differ");
        assert_eq!(reason(&finished("a\nb\n", "")), "b");
        assert_eq!(reason(&finished("a", "refused\n")), "refused");
    }

    #[test]
    fn the_last_line_is_what_matters() {
        assert_eq!(last_line("a\nerror: b\n\n"), "error: b");
        assert_eq!(last_line(""), "");
    }
}
