//! What is typed against what comes of it.

mod rules;
mod usage;

use std::ffi::OsString;

use proptest::prelude::*;
use proptest::sample::select;

use super::dispatch::{Asked, asked};
use super::failure;
use crate::plan::{JsonTarget, Load, Proto, RunInvocation, ServeOptions, Test};
use crate::record::Run;
use crate::record::exit;

/// What was asked, standard output, standard error.
fn type_words(words: &[&str]) -> (Asked, String, String) {
    let mut args = vec![OsString::from("ringperf")];
    args.extend(words.iter().map(OsString::from));
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let asked = asked(&args, &mut out, &mut err);
    (
        asked,
        String::from_utf8(out).unwrap(),
        String::from_utf8(err).unwrap(),
    )
}

fn type_line(line: &str) -> (Asked, String, String) {
    type_words(&line.split_whitespace().collect::<Vec<_>>())
}

fn run(line: &str) -> RunInvocation {
    match type_line(line) {
        (Asked::Run(invocation), ..) => *invocation,
        (_, _, err) => panic!("{line}: {err}"),
    }
}

fn serve(line: &str) -> ServeOptions {
    match type_line(line) {
        (Asked::Serve(options), ..) => options,
        (_, _, err) => panic!("{line}: {err}"),
    }
}

/// The lines on stderr of something that is refused with exit code 2.
fn refused(line: &str) -> Vec<String> {
    let (asked, out, err) = type_line(line);
    assert!(
        matches!(asked, Asked::Nothing(exit::USAGE)),
        "{line} is not refused"
    );
    assert_eq!(out, "", "{line}");
    err.lines().map(str::to_string).collect()
}

#[test]
fn a_matrix_of_any_size_ends_at_once() {
    let numbers: Vec<String> = (1..=2000).map(|n| n.to_string()).collect();
    let list = numbers.join(",");
    let flags = ["--flows", "--workers", "--depth", "--rate", "--size"];
    let mut words = vec!["run", "h", "--workers", "1"];
    words.truncate(2);
    for flag in flags {
        words.extend([flag, &list]);
    }
    let (asked, _, err) = type_words(&words);
    assert!(matches!(asked, Asked::Nothing(exit::USAGE)));
    assert!(err.contains("more than 10000 points"), "{err}");
}

#[test]
fn iperf3s_letters_work() {
    let letters = run("run h -P 4 -t 5 -R -u -b 10M -l 1K -i 2 -p 9 -B 10.0.0.1 -O 3");
    let words = run(
        "run h --flows 4 --duration 5s --test reverse --proto udp --bitrate 10M --size 1024 \
         --interval 2s --port 9 --bind 10.0.0.1 --warmup 3s",
    );
    assert_eq!((&letters.plan, &letters.host), (&words.plan, &words.host));
    assert_eq!(
        letters.plan.cases[0].load,
        Load::Bitrate {
            bits_per_second: 10_000_000
        }
    );
    let letters = run("run h -C cubic -M 1000 -J");
    assert_eq!(
        letters.plan,
        run("run h --congestion cubic --mss 1000").plan
    );
    assert_eq!(letters.json, Some(JsonTarget::Stdout));
    assert!(serve("serve -1 -p 7 -B ::1").one_off);
    let (_, out, err) = type_line("run h -b 1G");
    assert_eq!((out.as_str(), err.lines().count()), ("", 1), "{err}");
    assert!(err.contains("iperf3's is per stream"), "{err}");
    assert_eq!(type_line("run h --bitrate 1G").2, "");
}

#[test]
fn flags_reach_the_invocation() {
    let asked = run(
        "run [::1]:5302 --proto tcp,udp --test rr --family 6 --json out.json --json-stream \
         --output runs --quiet --wait-for-server 30s --client-cpus 0 --server-cpus 1 \
         --peer-timeout 15s --samples 3 --title t --client-wait spin --timeout 2s",
    );
    assert_eq!(asked.host.as_ref().unwrap().to_string(), "[::1]:5302");
    assert_eq!(asked.json, Some(JsonTarget::Path("out.json".into())));
    assert!(asked.json_stream && asked.quiet);
    assert_eq!(asked.output_dir, Some("runs".into()));
    assert_eq!(asked.wait_for_server_ns, Some(30_000_000_000));
    assert_eq!(
        (asked.plan.client_cpus, asked.plan.server_cpus),
        (vec![0], vec![1])
    );
    assert_eq!(
        (asked.plan.samples, asked.plan.peer_timeout_ns),
        (3, 15_000_000_000)
    );
    assert_eq!(asked.plan.title.as_deref(), Some("t"));
    let kinds: Vec<_> = asked
        .plan
        .cases
        .iter()
        .map(|case| (case.proto, case.test))
        .collect();
    assert_eq!(kinds, [(Proto::Tcp, Test::Rr), (Proto::Udp, Test::Rr)]);
    assert_eq!(&asked.command[..2], ["ringperf", "run"]);
    assert_eq!(run("run").plan.cases.len(), 4);

    let served = serve(
        "serve --bind 127.0.0.1,::1 --port 0 --data-port 6000-6010 --cpus 1,3 --max-sessions 4 \
         --max-duration 1m --max-flows 100 --max-bitrate 10G --allow 10.0.0.0/8,fd00::/8",
    );
    assert_eq!(
        (served.bind.len(), served.port, served.max_sessions),
        (2, 0, 4)
    );
    assert_eq!(served.data_ports.map(|ports| ports.len()), Some(11));
    assert_eq!(served.max_duration_ns, Some(60_000_000_000));
    assert_eq!(
        (served.max_flows, served.max_bitrate_bps),
        (Some(100), Some(10_000_000_000))
    );
    assert!(served.allow[1].contains("fd12::1".parse().unwrap()));
    assert_eq!(
        (serve("serve").port, serve("serve").max_sessions),
        (5301, 1)
    );
}

#[test]
fn with_json_an_error_is_one_document() {
    for (line, code) in [
        ("run h -J --gso 4", "plan"),
        ("run h --gso 4 --json -", "plan"),
        ("run h --json-stream --gso 4", "plan"),
        ("run h --json=- --no-such-flag", "usage"),
        ("run h -uJ --size 12Q", "usage"),
        ("run h --json", "usage"),
        ("run h -J --json x", "usage"),
    ] {
        let (asked, out, err) = type_line(line);
        assert!(matches!(asked, Asked::Nothing(exit::USAGE)), "{line}");
        let document: Run = serde_json::from_str(&out).unwrap();
        let error = document.error.unwrap();
        assert_eq!((error.exit_code, error.code.as_str()), (2, code), "{line}");
        assert_eq!(error.text, err.trim_end(), "{line}");
        assert_eq!(document.schema, crate::record::SCHEMA);
        assert_eq!(document.tool.command[1..].join(" "), line);
        assert_eq!((document.uuid.len(), document.started.len()), (36, 24));
        assert!(!document.complete);
    }
    for line in [
        "run h --gso 4",
        "run h --no-such-flag",
        "run h -l J --gso 4",
    ] {
        assert_eq!(type_line(line).1, "", "{line}");
    }
}

#[test]
fn a_document_for_a_file_goes_there() {
    let name = format!("ringperf-usage-{}.json", std::process::id());
    let path = std::env::temp_dir().join(name);
    let (_, out, _) = type_words(&["run", "h", "--gso", "4", "--json", path.to_str().unwrap()]);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(out, "");
    assert_eq!(
        serde_json::from_str::<Run>(&text)
            .unwrap()
            .error
            .unwrap()
            .code,
        "plan"
    );
    let (asked, _, err) = type_line("run h --gso 4 --json /no/such/directory/x.json");
    assert!(matches!(asked, Asked::Nothing(exit::USAGE)));
    assert!(err.contains("cannot save the result as /no/such"), "{err}");
}

#[test]
fn the_target_read_from_raw_arguments_is_the_parsed_one() {
    for line in [
        "run h",
        "run h -J",
        "run h -uJ",
        "run h -RquJ",
        "run h --json x",
        "run h --json=x",
        "run h --json -",
        "run h --title=J -l 64 -B ::1",
        "run h -l4 -i1 -P4",
    ] {
        let mut args = vec![OsString::from("ringperf")];
        args.extend(line.split_whitespace().map(OsString::from));
        assert_eq!(failure::json_target(&args), run(line).json, "{line}");
    }
}

#[test]
fn help_and_version_are_results() {
    for (line, part) in [
        ("--help", "Usage: ringperf"),
        ("run --help", "--wait-for-server"),
        ("serve -h", "--max-bitrate"),
        ("--version", env!("CARGO_PKG_VERSION")),
    ] {
        let (asked, out, err) = type_line(line);
        assert!(matches!(asked, Asked::Nothing(exit::OK)), "{line}");
        assert!(out.contains(part) && err.is_empty(), "{line}: {out}{err}");
    }
    let (asked, out, err) = type_line("");
    assert!(matches!(asked, Asked::Nothing(exit::USAGE)) && out.is_empty());
    assert!(err.contains("Usage: ringperf"), "{err}");
}

/// Flags with values that may or may not fit; `--json` with a path is left out, since a refused
/// command writes its document there.
const WORDS: &[&str] = &[
    "run",
    "serve",
    "h",
    "[::1]:5301",
    "-J",
    "--json=-",
    "-u",
    "-R",
    "-1",
    "-v",
    "-q",
    "--",
    "--proto",
    "--test",
    "--size",
    "--flows",
    "--workers",
    "--depth",
    "--rate",
    "--bitrate",
    "--family",
    "--duration",
    "--bytes",
    "--transactions",
    "--warmup",
    "--samples",
    "--interval",
    "--cpus",
    "--server-cpus",
    "--bind",
    "--device",
    "--congestion",
    "--mss",
    "--window",
    "--source-ports",
    "--gso",
    "--gro",
    "--verify",
    "--think",
    "--timeout",
    "--coalesce",
    "-b",
    "tcp,udp",
    "rr,crr",
    "stream",
    "bidir",
    "0",
    "1",
    "64/1K",
    "1000/flow",
    "10G",
    "1-65535",
    "4294967295",
    "18446744073709551615",
    "99999999999999999999",
    "0-8191",
    "5ms",
    "on",
    "rst",
];

proptest! {
    #[test]
    fn any_arguments_end_in_a_plan_or_an_error(
        words in proptest::collection::vec(
            prop_oneof![9 => select(WORDS).prop_map(str::to_string), 1 => "[^-].{0,12}"], 0..14,
        ),
        command in select(&["run", "serve"][..]),
    ) {
        let mut line = vec![command];
        line.extend(words.iter().map(String::as_str));
        let (asked, out, err) = type_words(&line);
        if let Asked::Nothing(code) = asked {
            prop_assert!(code == exit::USAGE || code == exit::OK);
            prop_assert!(!err.is_empty() || !out.is_empty());
            if code == exit::USAGE && !out.is_empty() {
                prop_assert!(serde_json::from_str::<Run>(&out).is_ok(), "{}", out);
            }
        }
    }
}
