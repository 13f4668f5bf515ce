//! ringperf in the comparison: how it is called for a case, and what its document says.

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::super::namespace::Listens;
use super::case::{Case, Job, Mode, Proto};
use super::tools::{Basis, CLIENT_CPU, Call, Figure, SERVER_CPU, Setting};

const PORT: u16 = 5301;

/// Traffic before the window, seconds.
const WARMUP_S: f64 = 0.5;

/// Most segments of one send that the kernel cuts, and most bytes of a datagram.
const MOST_SEGMENTS: u32 = 128;
const MOST_BYTES: u32 = 65_507;

/// The row's headline: what the engine chooses by itself from the case.
pub const HEADLINE: &str = "ringperf";

/// Label and flags of a way to run ringperf.
type Variant = (&'static str, &'static str);

/// What every plain TCP stream is shown with beside the headline.
const STREAMS: [Variant; 2] = [
    ("ringperf --depth 1", " --depth 1"),
    ("ringperf --as-application", " --as-application"),
];

const ENGINES: [Variant; 2] = [
    ("ringperf --engine io_uring", " --engine io_uring"),
    ("ringperf --engine sockets", " --engine sockets"),
];

/// Every way in which ringperf runs a case, the headline first. The engines are told apart where
/// the program has two.
pub fn calls(setting: &Setting, program: &str) -> Vec<Call> {
    let case = setting.case;
    let mut variants = vec![(HEADLINE, "")];
    if case.proto == Proto::Tcp && case.job == Job::Stream && case.mode == Mode::Plain {
        variants.extend(STREAMS);
    }
    if has_engines(setting, program) {
        variants.extend(ENGINES);
    }
    let base = format!(
        "{program} run {}:{PORT} --quiet --json - --duration {}s --warmup {WARMUP_S}s \
         --client-cpus {CLIENT_CPU} --server-cpus {SERVER_CPU}{}",
        setting.address,
        setting.seconds,
        flags(case)
    );
    variants
        .into_iter()
        .map(|(label, more)| Call {
            label,
            server: format!("taskset -c {SERVER_CPU} {program} serve --port {PORT}"),
            listens: Listens::Tcp(PORT),
            client: format!("taskset -c {CLIENT_CPU} {base}{more}"),
            lead_s: WARMUP_S,
            read,
        })
        .collect()
}

fn has_engines(setting: &Setting, program: &str) -> bool {
    setting
        .programs
        .says_with(program, &["run", "--help"])
        .contains("--engine")
}

fn flags(case: &Case) -> String {
    let proto = match case.proto {
        Proto::Tcp => "tcp",
        Proto::Udp => "udp",
    };
    let test = match case.job {
        Job::Stream => "stream",
        Job::Rr => "rr",
        Job::Crr => "crr",
    };
    let mode = match case.mode {
        Mode::Plain => String::new(),
        Mode::Busy => " --wait spin".to_string(),
        Mode::Discard => " --receive discard".to_string(),
        Mode::Offload => {
            let segments = (MOST_BYTES / case.size).min(MOST_SEGMENTS);
            format!(" --gso {segments} --gro")
        }
    };
    format!(
        " --proto {proto} --test {test} --size {} --flows {}{mode}",
        case.size, case.flows
    )
}

fn read(text: &str, case: &Case) -> Result<Figure> {
    let document: Value = serde_json::from_str(text).context("it did not print one document")?;
    let sample = document
        .pointer("/cases/0/samples/0")
        .context("its document has no sample")?;
    let findings = sample.pointer("/findings").and_then(Value::as_array);
    let error = findings
        .into_iter()
        .flatten()
        .find(|finding| finding["severity"] == "error");
    if let Some(error) = error {
        bail!("its run has an error: {}", error["text"]);
    }
    let number = |pointer: &str| {
        let value = sample.pointer(pointer).and_then(Value::as_f64);
        value
            .filter(|value| *value > 0.0)
            .with_context(|| format!("no figure at {pointer}"))
    };
    let rate = match case.job {
        Job::Stream => number("/throughput_bps")? / 8.0 / f64::from(case.size),
        Job::Rr | Job::Crr => number("/transactions/per_second")?,
    };
    let us = |pointer: &str| number(pointer).ok().map(|ns| ns / 1e3);
    let both = us("/latency_ns/p50").zip(us("/latency_ns/p99"));
    Ok(Figure {
        rate,
        basis: Basis::Received,
        latency_us: both.map(|(median, tail)| [median, tail]),
    })
}

#[cfg(test)]
mod tests {
    use super::super::case::ROWS;
    use super::*;

    #[test]
    fn flags_are_those_of_the_case() {
        let all: Vec<String> = ROWS.iter().map(|row| flags(&row.case)).collect();
        let has = |text: &str| all.iter().any(|flags| flags == text);
        assert!(has(" --proto tcp --test stream --size 64 --flows 1"));
        assert!(has(
            " --proto tcp --test stream --size 131072 --flows 1 --receive discard"
        ));
        assert!(has(
            " --proto tcp --test rr --size 14 --flows 1 --wait spin"
        ));
        assert!(has(
            " --proto udp --test stream --size 64 --flows 1 --gso 128 --gro"
        ));
        assert!(has(
            " --proto udp --test stream --size 1472 --flows 1 --gso 44 --gro"
        ));
        assert!(has(" --proto tcp --test crr --size 1 --flows 64"));
    }

    #[test]
    fn the_document_gives_rates_and_tails() {
        let document = |findings: &str| {
            format!(
                "{{\"cases\": [{{\"samples\": [{{\"throughput_bps\": 1024.0, \
                 \"transactions\": {{\"per_second\": 20.5}}, \
                 \"latency_ns\": {{\"p50\": 1000, \"p99\": 2500}}, \
                 \"findings\": [{findings}]}}]}}]}}"
            )
        };
        let stream = read(&document(""), &ROWS[0].case).unwrap();
        assert_eq!(stream.rate, 2.0);
        let rr = read(&document(""), &ROWS[7].case).unwrap();
        assert_eq!((rr.rate, rr.latency_us), (20.5, Some([1.0, 2.5])));
        let warning = "{\"severity\": \"warning\", \"text\": \"drops\"}";
        assert!(read(&document(warning), &ROWS[0].case).is_ok());
        let error = "{\"severity\": \"error\", \"text\": \"counts do not add up\"}";
        let said = read(&document(error), &ROWS[0].case).unwrap_err();
        assert!(said.to_string().contains("add up"));
        assert!(read("{}", &ROWS[0].case).is_err());
    }
}
