//! The tools under comparison: how each is called and where its figure stands.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::namespace::{Listens, Namespace};
use crate::exec::{Finished, Show, run};

/// CPU of every client and of every server.
const CLIENT_CPU: u32 = 0;
const SERVER_CPU: u32 = 1;

/// Seconds of every measurement, and the longest that one may take in all.
const SECONDS: u32 = 3;
const LIMIT: Duration = Duration::from_secs(20);

const IPERF_PORT: u16 = 5201;
const SOCKPERF_PORT: u16 = 11111;

/// Congestion control of every connection.
pub const CONGESTION: &str = "cubic";

/// ringperf, client and server in one process.
///
/// # Errors
///
/// Where it fails or its document lacks the figure.
pub fn ringperf(inside: &Namespace, program: &Path, case: &str, figure: &str) -> Result<f64> {
    let words = format!(
        "{} run {case} --duration {SECONDS}s --warmup 0.5s --cpus {CLIENT_CPU} \
         --server-cpus {SERVER_CPU} --congestion {CONGESTION} --json -",
        program.display()
    );
    let document = json(&done(inside, &words)?)?;
    let sample = format!("/cases/0/samples/0{figure}");
    let congestion = "/cases/0/samples/0/tcp/client/congestion";
    same_congestion("ringperf", document.pointer(congestion))?;
    number(&document, &sample)
}

/// iperf3: bits per second that the receiver counted.
///
/// # Errors
///
/// Where it fails or its document lacks the figure.
pub fn iperf3(inside: &Namespace, size: &str) -> Result<f64> {
    let server = format!("iperf3 -s -1 -p {IPERF_PORT}");
    let _server = inside.server(&server, Listens::Tcp(IPERF_PORT))?;
    let words = format!(
        "iperf3 -c 127.0.0.1 -p {IPERF_PORT} -l {size} -t {SECONDS} -J \
         -C {CONGESTION} -A {CLIENT_CPU},{SERVER_CPU}"
    );
    let document = json(&done(inside, &words)?)?;
    same_congestion("iperf3", document.pointer("/end/sender_tcp_congestion"))?;
    number(&document, "/end/sum_received/bits_per_second")
}

/// sockperf, both ends asleep between messages: transactions per second.
///
/// # Errors
///
/// Where it fails or does not say how many messages it received in what time.
pub fn sockperf(inside: &Namespace) -> Result<f64> {
    let server =
        format!("taskset -c {SERVER_CPU} sockperf server --tcp -i 127.0.0.1 -p {SOCKPERF_PORT}");
    let _server = inside.server(&server, Listens::Tcp(SOCKPERF_PORT))?;
    let client = format!(
        "taskset -c {CLIENT_CPU} sockperf ping-pong --tcp -i 127.0.0.1 -p {SOCKPERF_PORT} \
         -t {SECONDS} -m 14"
    );
    rate_of_sockperf(&done(inside, &client)?.stdout)
}

fn done(inside: &Namespace, words: &str) -> Result<Finished> {
    let finished = run(inside.command(words), LIMIT, Show::No)?;
    if !finished.success {
        let code = finished
            .code
            .map_or("a signal".to_string(), |code| format!("code {code}"));
        let said = [finished.stdout.trim(), finished.stderr.trim()].join("\n");
        bail!("`{words}` ended with {code}:\n{}", said.trim());
    }
    Ok(finished)
}

fn json(finished: &Finished) -> Result<Value> {
    serde_json::from_str(&finished.stdout).context("standard output is not one JSON document")
}

fn number(document: &Value, pointer: &str) -> Result<f64> {
    let value = document.pointer(pointer).and_then(Value::as_f64);
    value
        .filter(|value| *value > 0.0)
        .with_context(|| format!("no figure at {pointer}"))
}

/// A ratio between two congestion controls would say nothing.
fn same_congestion(tool: &str, found: Option<&Value>) -> Result<()> {
    match found.and_then(Value::as_str) {
        Some(CONGESTION) => Ok(()),
        other => bail!("{tool} ran with congestion control {other:?}, not {CONGESTION}"),
    }
}

/// The messages that came back over the time that counted, as its summary states them.
fn rate_of_sockperf(text: &str) -> Result<f64> {
    let line = text
        .lines()
        .find(|line| line.contains("[Valid Duration]"))
        .context("sockperf prints no valid duration")?;
    let after = |word: &str| -> Option<f64> {
        let rest = line.split_once(word)?.1;
        let digits = rest
            .split(|c: char| !c.is_ascii_digit() && c != '.')
            .next()?;
        digits.parse().ok()
    };
    let seconds = after("RunTime=").filter(|seconds| *seconds > 0.0);
    let messages = after("ReceivedMessages=");
    let (seconds, messages) = seconds.zip(messages).context("sockperf prints no rate")?;
    Ok(messages / seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockperfs_rate_is_of_its_valid_duration() {
        let text = "sockperf: [Total Run] RunTime=1.000 sec; Warm up time=400 msec; \
                    SentMessages=16066; ReceivedMessages=16065\n\
                    sockperf: [Valid Duration] RunTime=0.550 sec; SentMessages=8622; \
                    ReceivedMessages=8622\n";
        assert_eq!(rate_of_sockperf(text).unwrap(), 8622.0 / 0.550);
        assert!(rate_of_sockperf("sockperf: ERROR").is_err());
    }

    #[test]
    fn a_figure_must_be_there_and_positive() {
        let document = serde_json::json!({"a": [{"b": 2.5, "c": 0}]});
        assert_eq!(number(&document, "/a/0/b").unwrap(), 2.5);
        assert!(number(&document, "/a/0/c").is_err());
        assert!(number(&document, "/a/1/b").is_err());
    }

    #[test]
    fn another_congestion_control_is_refused() {
        assert!(same_congestion("x", Some(&Value::from(CONGESTION))).is_ok());
        assert!(same_congestion("x", Some(&Value::from("bbr"))).is_err());
        assert!(same_congestion("x", None).is_err());
    }
}
