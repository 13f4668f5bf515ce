//! The two engines under the same traffic: either of them on either side, and what happens where
//! io_uring is refused. Loopback, without privilege.

mod support;

use std::io::Write as _;
use std::process::Command;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use ringperf::record::{EngineReport, Run};
use support::process::{RINGPERF, Running};
use support::seccomp;
use support::session::Server;
use support::sound::{assert_in_order, assert_sound, document, finding, only};

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

/// Every way to send without copies, with every byte checked: what went, what of it the kernel
/// told, and that over loopback it was in vain.
#[test]
fn zero_copy_is_counted_and_what_was_copied_is_told() {
    let _alone = alone();
    for (how, engine) in [
        ("send", "io_uring"),
        ("msg", "sockets"),
        ("file", "sockets"),
    ] {
        for proto in ["tcp", "udp"] {
            if (how, proto) == ("file", "udp") {
                continue;
            }
            let tests = ["--proto", proto, "--test", "stream,reverse,bidir"];
            let size = [
                "--size",
                "20000",
                "--flows",
                "2",
                "--verify",
                "--bitrate",
                "400M",
            ];
            let run = ended(&mut client(None, &[&tests, &size, &["--zerocopy", how]]));
            assert_sound(&run, 3);
            assert_in_order(&run);
            for case in &run.cases {
                let name = &case.case.name;
                assert!(name.ends_with(&format!("zerocopy={how} verify")), "{name}");
                let sample = &case.samples[0];
                for (client, report) in [
                    (true, &sample.engine.client),
                    (false, &sample.engine.server),
                ] {
                    let report = report.as_ref().expect("it ran");
                    let sends = case.case.streams_from(client);
                    assert_eq!(report.zerocopy.is_some(), sends, "{name}");
                    if let Some(zerocopy) = report.zerocopy {
                        assert_eq!(report.name, engine, "{name}");
                        assert!(zerocopy.sends > 0, "{name}: {zerocopy:?}");
                        assert_eq!(zerocopy.copied, zerocopy.completed, "{name}");
                        assert!(
                            zerocopy.completed <= Some(zerocopy.sends),
                            "{name}: {zerocopy:?}"
                        );
                    }
                }
                let told = finding(sample, "zerocopy-in-vain").is_some();
                assert_eq!(told, how != "file", "{name}");
            }
        }
    }
}

/// Unpaced, at many sends in flight, with segments, and to an exact end.
#[test]
fn zero_copy_reconciles_at_full_speed() {
    let _alone = alone();
    for how in ["send", "msg", "file"] {
        let sizes = ["--size", "64,128K", "--flows", "1,3"];
        assert_sound(
            &ended(&mut client(None, &[&sizes, &["--zerocopy", how]])),
            4,
        );
        let mut command = Command::new(RINGPERF);
        command.args([
            "run", "--json", "-", "--bytes", "10000019", "--size", "3000",
        ]);
        let run = ended(command.args(["--flows", "3", "--zerocopy", how]));
        assert_sound(&run, 1);
        let terms = &run.cases[0].samples[0].groups[0].figures.reconciliation;
        assert_eq!((terms.sent, terms.received), (10_000_019, 10_000_019));
    }
    for how in ["send", "msg"] {
        let segments = [
            "-u",
            "--size",
            "1000",
            "--gso",
            "8",
            "--gro",
            "--zerocopy",
            how,
        ];
        assert_sound(&ended(&mut client(None, &[&segments])), 1);
        let plain = [
            "-u",
            "--size",
            "64,1400",
            "--flows",
            "1,3",
            "--zerocopy",
            how,
        ];
        assert_sound(&ended(&mut client(None, &[&plain])), 4);
    }
}

/// Where no more memory may be locked the kernel has to copy, which is counted, and nothing else
/// changes.
#[test]
fn zero_copy_goes_on_where_no_memory_may_be_locked() {
    let _alone = alone();
    // Root may lock anything; a capability less, and it is like everybody.
    let as_everybody = match nix::unistd::geteuid().is_root() {
        true => "setpriv --bounding-set -ipc_lock --inh-caps -ipc_lock",
        false => "",
    };
    let known = Command::new("setpriv").arg("--version").output().is_ok();
    if !as_everybody.is_empty() && !known {
        let _ = writeln!(std::io::stderr(), "SKIP: setpriv is not installed");
        return;
    }
    for how in ["send", "msg"] {
        for proto in ["tcp", "udp"] {
            // Rings of a few entries fit, and a few sends of this size.
            let shell = format!("ulimit -l 300; exec {as_everybody} \"$0\" \"$@\"");
            let mut command = Command::new("sh");
            command.args(["-c", &shell, RINGPERF, "run"]).args(SHORT);
            command.args(["--proto", proto, "--size", "60000", "--zerocopy", how]);
            let run = ended(command.args(["--server-engine", "sockets"]));
            assert_sound(&run, 1);
            assert_in_order(&run);
            let engine = run.cases[0].samples[0].engine.client.as_ref();
            let zerocopy = engine.and_then(|engine| engine.zerocopy).expect("it sends");
            assert!(zerocopy.sends > 10, "{how} {proto}: {zerocopy:?}");
            assert!(zerocopy.completed <= Some(zerocopy.sends), "{zerocopy:?}");
            assert_eq!(zerocopy.copied, zerocopy.completed, "{how} {proto}");
        }
    }
}

const GIVEN: [&str; 8] = [
    "--min-wait",
    "50",
    "--receive-buffers",
    "64x16K",
    "--fixed-files",
    "off",
    "--ring-flags",
    "coop",
];
const GIVEN_NAME: &str = "min-wait=50us receive-buffers=64x16K fixed-files=off ring-flags=coop";

/// Every choice of the engine can be given, is in force, stands in the result and in the case's
/// name, and changes nothing of what is counted.
#[test]
fn every_choice_can_be_given_and_is_recorded() {
    let _alone = alone();
    let stream = [
        "--low-water",
        "128K",
        "--flows",
        "2",
        "--engine",
        "io_uring",
    ];
    let run = ended(&mut client(None, &[&stream, &GIVEN]));
    assert_sound(&run, 1);
    let (_, sample) = only(&run);
    let name = &run.cases[0].case.name;
    let low = GIVEN_NAME.replace(" receive", " low-water=128K receive");
    assert!(name.contains(&low), "{name}");
    for (sends, engine) in [
        (true, &sample.engine.client),
        (false, &sample.engine.server),
    ] {
        let engine = engine.as_ref().expect("it ran");
        let has = |feature: &str| engine.features.iter().any(|name| name == feature);
        assert!(has("coop_taskrun") && !has("defer_taskrun"), "{engine:?}");
        assert!(!has("fixed_files"), "{engine:?}");
        assert_eq!(engine.receive_buffers, Some((64, 16_384)));
        let told = finding(sample, "no-min-wait").is_some();
        assert_eq!(engine.min_wait_us, (!told).then_some(50));
        let low_water = (!sends).then_some(128 << 10);
        assert_eq!(engine.receive_low_water, low_water);
    }
}

/// Whatever is received, and how: the same counts.
#[test]
fn given_choices_change_no_count() {
    let _alone = alone();
    for kind in [
        &["-u", "--bitrate", "50M", "--size", "1000"][..],
        &["--test", "rr", "--flows", "20", "--size", "1000"],
        &["--test", "crr", "--flows", "8"],
    ] {
        let run = ended(&mut client(None, &[kind, &GIVEN]));
        assert_sound(&run, 1);
        assert!(run.cases[0].case.name.contains(GIVEN_NAME));
    }
    let off = ["--min-wait", "off", "--low-water", "off", "--flows", "20"];
    let run = ended(&mut client(None, &[&off]));
    assert_sound(&run, 1);
    let server = only(&run).1.engine.server.as_ref().expect("it ran");
    assert_eq!((server.min_wait_us, server.receive_low_water), (None, None));
    // Where an engine has none, it is told.
    let sides = [
        "--flows",
        "2",
        "--client-engine",
        "sockets",
        "--min-wait",
        "50",
    ];
    let run = ended(&mut client(None, &[&sides]));
    let told = finding(only(&run).1, "no-min-wait").expect("plain calls have none");
    assert!(told.text.contains("client"), "{}", told.text);
}

/// Where each worker's time went adds up to its sample, and only who may spin does.
#[test]
fn the_time_of_every_worker_is_told() {
    let _alone = alone();
    for engine in ["io_uring", "sockets"] {
        for wait in ["sleep", "spin", "adaptive"] {
            let kind = ["--test", "rr", "--flows", "2", "--workers", "2"];
            let how = ["--engine", engine, "--wait", wait];
            let run = ended(&mut client(None, &[&kind, &how]));
            assert_sound(&run, 1);
            let sides = &only(&run).1.engine;
            for side in [&sides.client, &sides.server] {
                let workers = &side.as_ref().expect("it ran").workers;
                let numbers: Vec<u32> = workers.iter().map(|time| time.worker).collect();
                assert_eq!(numbers, [0, 1], "{engine} {wait}");
                for time in workers {
                    let parts = [time.spun_s, time.worked_s, time.slept_s];
                    assert!(parts.iter().all(|part| *part >= 0.0), "{time:?}");
                    // The warm-up and the window at least; the drain may take its second.
                    let all: f64 = parts.iter().sum();
                    assert!((0.33..10.0).contains(&all), "{engine} {wait}: {time:?}");
                    assert!(time.worked_s > 0.0, "{engine} {wait}: {time:?}");
                    assert!(wait != "sleep" || time.spun_s == 0.0, "{engine}: {time:?}");
                    assert!(wait != "spin" || time.spun_s > 0.0, "{engine}: {time:?}");
                }
            }
        }
    }
}

/// Busy polling is taken by the ring too where the kernel knows it, and on a device that cannot
/// be polled it is told that it was in vain.
#[test]
fn busy_polling_says_what_it_came_to() {
    let _alone = alone();
    for engine in ["io_uring", "sockets"] {
        let kind = ["--test", "rr", "--flows", "2", "--busy-poll", "50"];
        let mut command = client(None, &[&kind, &["--engine", engine]]);
        let done = Running::start(&mut command).ended(PATIENCE);
        if done.status.code() == Some(5) && done.stderr.contains("CAP_NET_ADMIN") {
            let _ = writeln!(std::io::stderr(), "SKIP: busy polling needs CAP_NET_ADMIN");
            return;
        }
        let run = support::sound::document_of(&done, 0);
        assert_sound(&run, 1);
        let sample = only(&run).1;
        for side in [&sample.engine.client, &sample.engine.server] {
            let side = side.as_ref().expect("it ran");
            let poll = side.busy_poll.expect("it was asked for");
            let registered = side.features.iter().any(|name| name == "napi_busy_poll");
            assert_eq!((poll.us, poll.ring), (50, registered), "{engine}");
            assert!(engine == "io_uring" || !poll.ring);
            assert_eq!(poll.polled_flows, 0, "loopback has no queue to poll");
        }
        let told: Vec<_> = sample
            .findings
            .iter()
            .filter(|finding| finding.code == "busy-poll-in-vain")
            .collect();
        assert_eq!(told.len(), 2, "{told:?}");
    }
}

/// Huge pages are in force where the host has any, with either engine, and told where not.
#[test]
fn huge_pages_are_in_force_or_missed() {
    let _alone = alone();
    for engine in ["io_uring", "sockets"] {
        let huge = [
            "--huge-pages",
            "--flows",
            "2",
            "--verify",
            "--bitrate",
            "200M",
        ];
        for proto in ["tcp", "udp"] {
            let kind = ["--proto", proto, "--size", "1000", "--engine", engine];
            let run = ended(&mut client(None, &[&huge, &kind]));
            assert_sound(&run, 1);
            let sample = only(&run).1;
            let server = sample.engine.server.as_ref().expect("it ran");
            let has = |name: &str| server.features.iter().any(|have| have == name);
            let in_force = has("hugetlb") || has("transparent_huge_pages");
            assert_eq!(
                finding(sample, "no-huge-pages").is_none(),
                in_force,
                "{server:?}"
            );
        }
    }
}
