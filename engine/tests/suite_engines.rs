//! The two engines under the same traffic: either of them on either side, and what happens where
//! io_uring is refused. Loopback, without privilege.

mod support;

use std::process::Command;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use ringperf::record::{EngineReport, Run};
use support::process::{RINGPERF, Running};
use support::seccomp;
use support::session::Server;
use support::sound::{assert_in_order, assert_sound, document, finding};

/// Longest time that any command here may take.
const PATIENCE: Duration = Duration::from_secs(90);

/// Every kind of traffic, as few commands, each with how many cases it has.
const KINDS: [(&[&str], usize); 3] = [
    (
        &["--test", "stream,reverse,bidir,rr,crr", "--flows", "3"],
        5,
    ),
    (
        &[
            "--proto",
            "udp",
            "--test",
            "stream,reverse,bidir",
            "--bitrate",
            "50M",
            "--size",
            "1000",
            "--flows",
            "3",
        ],
        3,
    ),
    (
        &[
            "--proto", "udp", "--test", "rr", "--flows", "3", "--depth", "2",
        ],
        1,
    ),
];

const SHORT: [&str; 9] = [
    "--quiet",
    "--json",
    "-",
    "--duration",
    "300ms",
    "--warmup",
    "50ms",
    "--interval",
    "100ms",
];

/// One load at a time: the machine may be small.
fn alone() -> MutexGuard<'static, ()> {
    static LOAD: Mutex<()> = Mutex::new(());
    LOAD.lock().unwrap_or_else(|broken| broken.into_inner())
}

/// Name and reason of an engine.
type Expected<'a> = (&'a str, &'a str);

fn check(run: &Run, cases: usize, client: Expected<'_>, server: Expected<'_>) {
    assert_sound(run, cases);
    assert_in_order(run);
    for case in &run.cases {
        for sample in &case.samples {
            let engine = |engine: &Option<EngineReport>| {
                let engine = engine.as_ref().expect("it ran");
                assert!(engine.enters > 0 && engine.completions > 0, "{engine:?}");
                assert_eq!(engine.buffers_exhausted, 0, "{}", case.case.name);
                (engine.name.clone(), engine.reason.clone())
            };
            let got = (engine(&sample.engine.client), engine(&sample.engine.server));
            let text = |(name, reason): Expected<'_>| (name.to_string(), reason.to_string());
            assert_eq!(got, (text(client), text(server)), "{}", case.case.name);
            let refused = [client, server]
                .iter()
                .any(|(_, why)| why.contains("refused"));
            let told = finding(sample, "engine-fallback").is_some();
            assert_eq!(told, refused, "{}", case.case.name);
        }
    }
}

const ASKED: Expected<'static> = ("sockets", "asked for");
const ASKED_RING: Expected<'static> = ("io_uring", "asked for");
const PLAIN: Expected<'static> = ("sockets", "one transaction at a time a worker");
const AVAILABLE: Expected<'static> = ("io_uring", "io_uring is available");
const REFUSED: Expected<'static> = ("sockets", "io_uring is refused: seccomp (EPERM)");

fn client(host: Option<&str>, arguments: &[&[&str]]) -> Command {
    let mut command = Command::new(RINGPERF);
    command
        .arg("run")
        .args(host)
        .args(SHORT)
        .args(arguments.concat());
    command
}

fn ended(command: &mut Command) -> Run {
    document(Running::start(command), PATIENCE, 0)
}

#[test]
fn sockets_on_both_sides() {
    let _alone = alone();
    for (kind, cases) in KINDS {
        let run = ended(&mut client(None, &[kind, &["--engine", "sockets"]]));
        check(&run, cases, ASKED, ASKED);
        assert!(
            run.cases
                .iter()
                .all(|case| case.case.name.ends_with(" sockets"))
        );
    }
}

#[test]
fn sockets_on_one_side() {
    let _alone = alone();
    for (kind, cases) in KINDS {
        let run = ended(&mut client(None, &[kind, &["--client-engine", "sockets"]]));
        check(&run, cases, ASKED, AVAILABLE);
        let run = ended(&mut client(None, &[kind, &["--server-engine", "sockets"]]));
        check(&run, cases, AVAILABLE, ASKED);
        assert!(
            run.cases
                .iter()
                .all(|case| case.case.name.ends_with(" server-sockets"))
        );
    }
}

/// One flow has ways of its own: it is read without epoll, and a receive that waits by itself. So
/// `auto` takes plain calls for it, whatever the host permits.
#[test]
fn one_flow_in_every_way_to_wait() {
    let _alone = alone();
    for proto in ["tcp", "udp"] {
        for wait in ["sleep", "spin", "adaptive"] {
            for (engine, expected) in [("auto", PLAIN), ("io_uring", ASKED_RING)] {
                let kind = ["--proto", proto, "--test", "rr", "--wait", wait];
                let run = ended(&mut client(None, &[&kind, &["--engine", engine]]));
                check(&run, 1, expected, expected);
                let sample = &run.cases[0].samples[0];
                let figures = sample.figures.as_ref().expect("one group");
                let count = figures.transactions.as_ref().expect("they are counted");
                assert!(
                    count.done > 0 && count.failed == 0,
                    "{proto} {wait} {engine}: {count:?}"
                );
            }
        }
    }
}

#[test]
fn many_flows_and_verified_payload() {
    let _alone = alone();
    let sockets = ["--engine", "sockets", "--verify"];
    let run = ended(&mut client(
        None,
        &[&["--test", "rr", "--flows", "100"], &sockets],
    ));
    check(&run, 1, ASKED, ASKED);
    // Paced, so that what is sent can be checked and read in time on any machine.
    let streams = ["--test", "stream,bidir", "--flows", "20", "--size", "5000"];
    let streams = [&streams[..], &["--bitrate", "200M"]].concat();
    check(
        &ended(&mut client(None, &[&streams, &sockets])),
        2,
        ASKED,
        ASKED,
    );
    let merged = ["--proto", "udp", "--gso", "8", "--gro", "--size", "1000"];
    let load = ["--bitrate", "100M", "--engine", "sockets"];
    check(
        &ended(&mut client(None, &[&merged, &load])),
        1,
        ASKED,
        ASKED,
    );
}

/// Exactly what was asked for, whole, by either engine.
#[test]
fn limits_are_exact() {
    let _alone = alone();
    let limited = ["--bytes", "1000003", "--size", "1000", "--flows", "3"];
    let mut command = Command::new(RINGPERF);
    command.args(["run", "--json", "-", "--engine", "sockets"]);
    let run = ended(command.args(limited));
    assert_sound(&run, 1);
    let group = &run.cases[0].samples[0].groups[0];
    let terms = &group.figures.reconciliation;
    assert_eq!((terms.sent, terms.received), (1_000_003, 1_000_003));
}

/// io_uring is refused to the client, to the server, or to both: a whole matrix runs.
#[test]
fn where_io_uring_is_refused_sockets_take_its_place() {
    let _alone = alone();
    let denied = seccomp::io_uring(libc::EPERM);
    for (at_client, at_server) in [(true, false), (false, true), (true, true)] {
        let mut serve = Command::new(RINGPERF);
        serve.args(["serve", "--bind", "127.0.0.1", "--port", "0"]);
        if at_server {
            seccomp::deny(&mut serve, &denied);
        }
        let server = Server::of(&mut serve);
        for (kind, cases) in KINDS {
            let mut command = client(Some(&server.host()), &[kind]);
            if at_client {
                seccomp::deny(&mut command, &denied);
            }
            let expected = |refused| if refused { REFUSED } else { AVAILABLE };
            let run = ended(&mut command);
            check(&run, cases, expected(at_client), expected(at_server));
        }
    }
}

/// Requests and answers too small for a header, each shorter or longer than the other: whatever
/// lay in a buffer before, the number is found again.
#[test]
fn small_datagrams_name_their_requests_with_either_engine() {
    let _alone = alone();
    for engines in [
        ["sockets", "sockets"],
        ["sockets", "io_uring"],
        ["io_uring", "sockets"],
    ] {
        let rr = [
            "--proto",
            "udp",
            "--test",
            "rr",
            "--size",
            "1,14,14/100,100/14",
        ];
        let sides = ["--client-engine", engines[0], "--server-engine", engines[1]];
        let run = ended(&mut client(None, &[&rr, &sides]));
        assert_sound(&run, 4);
        for case in &run.cases {
            let transactions = case.samples[0].groups[0]
                .figures
                .transactions
                .expect("of rr");
            assert!(
                transactions.done > 0,
                "{}: {transactions:?}",
                case.case.name
            );
        }
    }
}
