//! A whole session through a relay that drops, copies and holds back datagrams by a script: what
//! is reported is what the relay did.

mod support;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ringperf::record::{Run, Sample, UdpReport};
use ringperf::traffic::udp::{HEADER_BYTES, Phase};
use support::process::{Running, ringperf};
use support::relay::{Did, Harm, IsData, Relay, Script, of_phase};
use support::sound::{assert_sample, assert_sound, document, figures, finding, only};

const PATIENCE: Duration = Duration::from_secs(60);

/// A server with a relay in front of it. The relay has the server's port on another address, so
/// that the client finds it where the server says its data port is.
struct Through {
    relay: Relay,
    _server: Running,
}

impl Through {
    fn new(script: Script, is_data: IsData) -> Through {
        // The relay's port may be taken at its address although it is free at the server's.
        for _ in 0..10 {
            let server = ringperf(&["serve", "--bind", "127.0.0.1", "--port", "0"]);
            let address = served_on(&server);
            let listen = SocketAddr::from(([127, 0, 0, 2], address.port()));
            if let Ok(relay) = Relay::start(listen, address, script, is_data.clone()) {
                return Through {
                    relay,
                    _server: server,
                };
            }
        }
        panic!("no port that is free at 127.0.0.1 and 127.0.0.2");
    }

    fn client(&self, arguments: &[&str]) -> Running {
        let host = self.relay.address().to_string();
        ringperf(&[&["run", &host, "--quiet"], arguments].concat())
    }

    fn run(&self, arguments: &[&str], exit_code: i32) -> Run {
        let json = [arguments, &["--json", "-", "--interval", "100ms"]].concat();
        document(self.client(&json), PATIENCE, exit_code)
    }
}

fn served_on(server: &Running) -> SocketAddr {
    server.wait_for_stdout("\n", Duration::from_secs(10));
    let line = server.stdout();
    let address = line.trim_end().rsplit(' ').next().expect("a word");
    address
        .parse()
        .unwrap_or_else(|_| panic!("no address: {line:?}"))
}

fn to_server(harm: Harm) -> Script {
    Script {
        to_server: harm,
        ..Script::default()
    }
}

fn to_client(harm: Harm) -> Script {
    Script {
        to_client: harm,
        ..Script::default()
    }
}

/// Datagrams of one size, and where they have room for a header of one phase: a hello has another
/// size and no phase.
fn data(phase: Phase, bytes: usize) -> IsData {
    let of_phase = of_phase(phase);
    Arc::new(move |payload| payload.len() == bytes && (bytes < HEADER_BYTES || of_phase(payload)))
}

/// As [`data`], of the window.
fn window(bytes: usize) -> IsData {
    data(Phase::Window, bytes)
}

/// Larger receive buffers where this user may have them: nothing but the relay is to lose.
fn roomy() -> &'static [&'static str] {
    if nix::unistd::geteuid().is_root() {
        &["--rcvbuf", "4M"]
    } else {
        &[]
    }
}

fn report(sample: &Sample) -> &UdpReport {
    figures(sample).udp.as_ref().expect("a UDP case")
}

/// What a script makes of the numbers from 0 to `count - 1`: those that are lost, copied, and
/// late by how many places, computed from the order of arrival alone.
struct Model {
    lost: u64,
    duplicated: u64,
    reordered: u64,
    extent_max: u64,
}

fn model(harm: Harm, count: u64) -> Model {
    let every = |n: u64, at: u64| n != 0 && at.is_multiple_of(n);
    let mut arrivals = Vec::new();
    let mut held: Vec<(u64, u64)> = Vec::new();
    for at in 1..=count {
        let sequence = at - 1;
        if every(harm.drop_every, at) {
        } else if every(harm.hold_every, at) {
            held.push((sequence, at + harm.hold_by));
        } else {
            let copies = if every(harm.duplicate_every, at) {
                2
            } else {
                1
            };
            arrivals.extend(std::iter::repeat_n(sequence, copies));
        }
        while held.first().is_some_and(|(_, until)| *until <= at) {
            arrivals.push(held.remove(0).0);
        }
    }
    arrivals.extend(held.into_iter().map(|(sequence, _)| sequence));
    measure(&arrivals, count)
}

/// By the definitions, number by number: RFC 4737 for the reordered and their extent.
fn measure(arrivals: &[u64], count: u64) -> Model {
    let mut first_copies: Vec<u64> = Vec::new();
    let mut seen = BTreeSet::new();
    let mut measured = Model {
        lost: 0,
        duplicated: 0,
        reordered: 0,
        extent_max: 0,
    };
    for &sequence in arrivals {
        if !seen.insert(sequence) {
            measured.duplicated += 1;
            continue;
        }
        let passed = first_copies.iter().position(|before| *before > sequence);
        if let Some(passed) = passed {
            measured.reordered += 1;
            let extent = (first_copies.len() - passed) as u64;
            measured.extent_max = measured.extent_max.max(extent);
        }
        first_copies.push(sequence);
    }
    measured.lost = count - seen.len() as u64;
    measured
}

/// The report of one flow from the client to the server against what the relay did.
fn assert_stream(sample: &Sample, did: Did, harm: Harm) {
    let (udp, did) = (report(sample), did.to_server);
    let sent = figures(sample).sent.messages.expect("datagrams");
    assert_eq!(did.refused, 0, "the relay lost some itself: {did:?}");
    assert_eq!(did.data, sent, "datagrams of the window at the relay");
    assert_eq!(udp.lost, Some(did.dropped), "{udp:?} {did:?}");
    assert_eq!(udp.duplicated, Some(did.duplicated), "{udp:?} {did:?}");
    assert_eq!(udp.reordered, Some(did.overtaken), "{udp:?} {did:?}");
    assert_eq!(udp.late, Some(0), "{udp:?}");
    // The last of a sample are held until time is up: whether anything passed them depends.
    let model = model(harm, sent);
    assert_eq!(udp.lost, Some(model.lost));
    assert_eq!(udp.duplicated, Some(model.duplicated));
    let reordered = udp.reordered.unwrap_or(0);
    let most_held = harm
        .hold_by
        .checked_div(harm.hold_every)
        .map_or(0, |held| held + 1);
    assert!(model.reordered.abs_diff(reordered) <= most_held, "{udp:?}");
    assert_eq!(udp.reorder_extent_max, Some(model.extent_max), "{udp:?}");
    let received = figures(sample).received.messages.expect("datagrams");
    assert_eq!(received + did.dropped, sent, "copies are no goodput");
}

/// About 250 of each, all at once, and each alone.
#[test]
fn lost_duplicated_and_reordered_are_what_the_relay_did() {
    let harms = [
        Harm {
            drop_every: 10,
            ..Harm::default()
        },
        Harm {
            duplicate_every: 10,
            ..Harm::default()
        },
        Harm {
            hold_every: 10,
            hold_by: 7,
            ..Harm::default()
        },
        Harm {
            drop_every: 10,
            duplicate_every: 9,
            hold_every: 7,
            hold_by: 23,
        },
    ];
    for harm in harms {
        let through = Through::new(to_server(harm), window(100));
        let paced = [
            "--proto",
            "udp",
            "--size",
            "100",
            "--rate",
            "2500",
            "--duration",
            "1s",
        ];
        let run = through.run(&[&paced[..], &["--warmup", "100ms"], roomy()].concat(), 0);
        assert_sound(&run, 1);
        let (_, sample) = only(&run);
        let sent = figures(sample).sent.messages.expect("datagrams");
        assert!((2400..=2600).contains(&sent), "{sent} at 2500/s");
        assert_stream(sample, through.relay.did(), harm);
        let udp = report(sample);
        assert!(
            udp.jitter_ns.is_some() && udp.jitter_missing.is_none(),
            "{udp:?}"
        );
    }
}

#[test]
fn the_warm_up_is_harmed_and_the_window_knows_nothing_of_it() {
    let harm = Harm {
        drop_every: 3,
        duplicate_every: 4,
        hold_every: 5,
        hold_by: 2,
    };
    let through = Through::new(to_server(harm), data(Phase::WarmUp, 100));
    let paced = [
        "--proto",
        "udp",
        "--size",
        "100",
        "--rate",
        "2500",
        "--duration",
        "300ms",
    ];
    let run = through.run(&[&paced[..], &["--warmup", "300ms"], roomy()].concat(), 0);
    assert_sound(&run, 1);
    let (_, sample) = only(&run);
    let (udp, did) = (report(sample), through.relay.did().to_server);
    assert!(did.dropped > 200, "{did:?}");
    let window = (
        udp.lost,
        udp.duplicated,
        udp.reordered,
        udp.reorder_extent_max,
    );
    assert_eq!(window, (Some(0), Some(0), Some(0), Some(0)));
    // The lifetime has it.
    assert_eq!(figures(sample).reconciliation.lost, Some(did.dropped));
}

#[test]
fn several_flows_towards_the_client_add_up() {
    let harm = Harm {
        drop_every: 10,
        duplicate_every: 9,
        hold_every: 7,
        hold_by: 3,
    };
    let through = Through::new(to_client(harm), window(60));
    let reverse = [
        "--proto", "udp", "--test", "reverse", "--flows", "4", "--size", "60",
    ];
    let paced = [
        "--rate",
        "3000/total",
        "--duration",
        "600ms",
        "--warmup",
        "100ms",
    ];
    let run = through.run(&[&reverse[..], &paced, roomy()].concat(), 0);
    assert_sound(&run, 1);
    let (_, sample) = only(&run);
    let (udp, did) = (report(sample), through.relay.did().to_client);
    assert_eq!(
        (did.data, did.refused),
        (figures(sample).sent.messages.unwrap_or(0), 0)
    );
    let expected = (did.dropped, did.duplicated, did.overtaken);
    let got = (udp.lost, udp.duplicated, udp.reordered);
    assert_eq!(got, (Some(expected.0), Some(expected.1), Some(expected.2)));
    assert!(
        did.dropped > 100 && did.duplicated > 100 && did.overtaken > 100,
        "{did:?}"
    );
}

#[test]
fn tcp_passes_and_the_head_says_that_the_path_translates() {
    let through = Through::new(Script::default(), window(100));
    let run = through.run(&["--test", "stream,reverse,bidir", "--bytes", "3000000"], 0);
    let kinds = ["--test", "rr,crr", "--flows", "3", "--transactions", "300"];
    let transactions = through.run(&kinds, 0);
    for run in [&run, &transactions] {
        assert!(run.complete, "{:?}", run.error);
        for case in &run.cases {
            assert_sample(&case.case, &case.samples[0]);
            let found = finding(&case.samples[0], "path-translated");
            let text = &found.unwrap_or_else(|| panic!("{}", case.case.name)).text;
            assert!(text.contains("127.0.0.2"), "{text}");
        }
    }
    let table = through.client(&["--transactions", "10", "--size", "100"]);
    let ended = table.ended(PATIENCE);
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    assert!(ended.stdout.contains("translates"), "{}", ended.stdout);
}

#[test]
fn jitter_needs_a_pace_and_a_stamp_for_each_datagram() {
    let through = Through::new(Script::default(), window(100));
    let base = ["--proto", "udp", "--duration", "200ms", "--warmup", "0s"];
    for (more, why) in [
        (&["--size", "100", "--rate", "1000"][..], None),
        (
            &["--size", "100", "--depth", "1", "--flows", "1"],
            Some("not paced"),
        ),
        (&["--size", "20", "--rate", "1000"], Some("too small")),
        (
            &["--size", "100", "--rate", "1000", "--gso", "4"],
            Some("--gso"),
        ),
        (&["--size", "100", "--rate", "1000", "--gro"], Some("--gro")),
    ] {
        let run = through.run(&[&base[..], more].concat(), 0);
        let udp = report(only(&run).1);
        match (why, &udp.jitter_ns, &udp.jitter_missing) {
            (None, Some(jitter), None) => assert!(*jitter > 0.0 && *jitter < 1e8, "{jitter}"),
            (Some(why), None, Some(text)) => assert!(text.contains(why), "{why}: {text}"),
            _ => panic!("{more:?}: {udp:?}"),
        }
    }
}

#[test]
fn datagrams_too_small_for_a_header_are_counted_and_nothing_more() {
    let harm = Harm {
        drop_every: 10,
        ..Harm::default()
    };
    let through = Through::new(to_server(harm), window(23));
    let exact = [
        "--proto",
        "udp",
        "--size",
        "23",
        "--rate",
        "2000",
        "--transactions",
        "1000",
    ];
    let run = through.run(&[&exact[..], roomy()].concat(), 0);
    let (case, sample) = only(&run);
    assert_sample(case, sample);
    let (udp, did) = (report(sample), through.relay.did().to_server);
    assert_eq!(
        (udp.mode.as_str(), udp.lost, udp.late),
        ("counts", None, None)
    );
    assert_eq!(
        (udp.reordered, udp.duplicated, udp.jitter_ns),
        (None, None, None)
    );
    assert!(udp.loss_missing.is_some());
    assert_eq!(figures(sample).sent.messages, Some(1000));
    assert_eq!((did.data, did.dropped), (1000, 100));
    assert_eq!(figures(sample).received.messages, Some(900));
    assert_eq!(figures(sample).received.bytes, 900 * 23);
}

/// Exactly as many transactions fail as datagrams were dropped, but for answers that were late
/// because this machine was busy, which are counted as such.
#[test]
fn a_lost_request_or_answer_is_a_failed_transaction() {
    let harm = Harm {
        drop_every: 20,
        ..Harm::default()
    };
    let both = Script {
        to_server: harm,
        to_client: harm,
    };
    for (size, is_data) in [("64", window(64)), ("1", window(1))] {
        let through = Through::new(both, is_data);
        let rr = [
            "--proto",
            "udp",
            "--test",
            "rr",
            "--size",
            size,
            "--transactions",
            "800",
        ];
        let more = ["--depth", "8", "--flows", "2", "--timeout", "250ms"];
        let run = through.run(&[&rr[..], &more].concat(), 0);
        let (case, sample) = only(&run);
        assert_sample(case, sample);
        let t = figures(sample).transactions.expect("transactions");
        let did = through.relay.did();
        let dropped = did.to_server.dropped + did.to_client.dropped;
        assert_eq!(did.to_server.data, 800, "{size}: {did:?}");
        assert!(dropped >= 70, "{size}: {did:?}");
        assert_eq!(t.started, 800, "{size}: {t:?}");
        assert_eq!(t.failed, dropped + t.late, "{size}: {t:?} {did:?}");
        assert_eq!(t.done + t.failed, 800, "{size}: {t:?}");
        let latency = figures(sample).latency_ns.as_ref().expect("answers");
        assert_eq!(latency.unanswered, t.failed, "{size}");
        // About one in ten is lost: the 99th percentile is among them, the median is not.
        for (name, among) in [
            ("p50", false),
            ("p99", true),
            ("p9999", true),
            ("max", true),
        ] {
            let bound = latency.lower_bounds.iter().any(|bound| bound == name);
            assert_eq!(bound, among, "{size}: {name} in {:?}", latency.lower_bounds);
        }
    }
}

#[test]
fn a_percentile_among_the_lost_prints_as_lost() {
    let harm = Harm {
        drop_every: 10,
        ..Harm::default()
    };
    let through = Through::new(to_server(harm), window(64));
    let rr = [
        "--proto",
        "udp",
        "--test",
        "rr",
        "--size",
        "64",
        "--transactions",
        "200",
    ];
    let ended = through
        .client(&[&rr[..], &["--depth", "8", "--timeout", "200ms"]].concat())
        .ended(PATIENCE);
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    let row = |line: &&str| line.starts_with("udp rr 64/64");
    let rows: Vec<&str> = ended.stdout.lines().filter(row).collect();
    // One in ten: the median is a figure, the 99th percentile is none.
    let words: Vec<&str> = rows.iter().flat_map(|row| row.split_whitespace()).collect();
    let lost = words.iter().filter(|word| **word == "lost").count();
    assert_eq!(lost, 3, "p99, p99.9 and max: {}", ended.stdout);
}

#[test]
fn request_response_without_any_answer_ends_in_time_and_fails() {
    let harm = Harm {
        drop_every: 1,
        ..Harm::default()
    };
    let scripts = [to_server(harm), to_client(harm)];
    for (script, size) in scripts.into_iter().zip(["64", "1"]) {
        let is_data = window(size.parse().expect("a number"));
        let through = Through::new(script, is_data);
        let rr = [
            "--proto", "udp", "--test", "rr", "--size", size, "--depth", "4",
        ];
        let more = [
            "--duration",
            "1s",
            "--warmup",
            "100ms",
            "--timeout",
            "100ms",
        ];
        let arguments = [&rr[..], &more, &["--json", "-"]].concat();
        let ended = through.client(&arguments).ended(PATIENCE);
        // A second for the idle baseline and one for the drain, the rest for a busy machine.
        assert!(ended.took < Duration::from_secs(10), "{:?}", ended.took);
        let run = support::sound::document_of(&ended, 4);
        let (_, sample) = only(&run);
        assert!(sample.complete, "{:#?}", sample.findings);
        let text = &finding(sample, "no-answers").expect("a clear error").text;
        assert!(text.contains("100ms") && text.contains("client"), "{text}");
        let t = figures(sample).transactions.expect("transactions");
        assert!(t.failed >= 12, "{t:?}");
        assert_eq!(
            (t.done, t.late, t.started),
            (0, 0, t.failed + t.in_flight),
            "{t:?}"
        );
        let did = through.relay.did();
        let dropped = did.to_server.dropped + did.to_client.dropped;
        let terms = &figures(sample).reconciliation;
        assert!(terms.reconciled, "{terms:?}");
        assert_eq!(
            (terms.sent, terms.lost),
            (dropped, Some(dropped)),
            "{terms:?} {did:?}"
        );
        let latency = figures(sample)
            .latency_ns
            .as_ref()
            .expect("all of them lost");
        assert_eq!((latency.count, latency.unanswered), (0, t.failed));
    }
}

/// Every other answer is kept beyond its time-out, and comes while newer requests are out. Its
/// header names its own request, so that it can never be taken for another's answer.
#[test]
fn a_late_answer_is_late_and_matches_no_newer_request() {
    late_answers("64", window(64), (2, 224), ("8000", "1ms", 1_005_000));
}

/// The same with datagrams of one byte, whose numbers come round: late answers are fewer here than
/// the numbers that can be kept from reuse meanwhile.
#[test]
fn a_late_answer_of_one_byte_is_late_too() {
    late_answers("1", window(1), (20, 300), ("8000", "2ms", 2_010_000));
}

fn late_answers(
    size: &str,
    is_data: IsData,
    (hold_every, hold_by): (u64, u64),
    (transactions, timeout, latest_ns): (&str, &str, u64),
) {
    let harm = Harm {
        hold_every,
        hold_by,
        ..Harm::default()
    };
    let through = Through::new(to_client(harm), is_data);
    let rr = [
        "--proto", "udp", "--test", "rr", "--size", size, "--depth", "64",
    ];
    let more = ["--transactions", transactions, "--timeout", timeout];
    let run = through.run(&[&rr[..], &more].concat(), 0);
    let (case, sample) = only(&run);
    assert_sample(case, sample);
    let t = figures(sample).transactions.expect("transactions");
    let did = through.relay.did().to_client;
    assert!(did.held >= 8000 / hold_every * 9 / 10, "{size}: {did:?}");
    assert_eq!(t.started, 8000, "{size}: {t:?}");
    assert!(t.late >= did.held / 2, "{size}: {t:?} {did:?}");
    assert!(t.done <= did.data - did.held, "{size}: {t:?} {did:?}");
    let missing = t.failed.checked_sub(t.late).expect("none is late twice");
    if size == "64" {
        // Those that the relay holds when the sample ends come after it. Where numbers come
        // round, those of requests that were given up cannot all be kept from reuse.
        let held_at_once = harm.hold_by / harm.hold_every + 1;
        assert!(missing <= held_at_once, "{size}: {missing} of {t:?}");
    }
    let latency = figures(sample).latency_ns.as_ref();
    let max = latency.expect("some in time").max;
    assert!(max <= latest_ns, "{size}: taken after its time: {max}");
}

#[test]
fn the_model_of_the_relay_is_the_definition() {
    let order = measure(&[0, 1, 4, 3, 3, 6, 2, 7, 7], 9);
    assert_eq!((order.lost, order.duplicated, order.reordered), (2, 2, 2));
    // 2 came after 4, 3 and 6.
    assert_eq!(order.extent_max, 3);
}
