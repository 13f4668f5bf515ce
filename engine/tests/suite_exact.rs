//! Every exactness that the figures promise, by the real command over loopback: either both sides
//! in one process, or two processes. Loss, reordering and two hosts have tests of their own.

mod support;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage, bind, listen, socket,
};
use serde_json::Value;
use support::process::{Ended, RINGPERF, Running, ringperf};

/// Longest time that any command here may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Short enough for many, long enough for a window of two intervals.
const SHORT: [&str; 6] = [
    "--duration",
    "200ms",
    "--warmup",
    "100ms",
    "--interval",
    "100ms",
];

/// One load at a time: the machine may be small.
fn alone() -> MutexGuard<'static, ()> {
    static LOAD: Mutex<()> = Mutex::new(());
    LOAD.lock().unwrap_or_else(|broken| broken.into_inner())
}

/// A document's text as a value; panics with the diagnostics where there is none.
fn parsed(ended: &Ended) -> Value {
    serde_json::from_str(&ended.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}\n{}", ended.stdout, ended.stderr))
}

/// The document of a command that must succeed.
fn document(arguments: &[&str]) -> Value {
    let ended = end(arguments);
    assert_eq!(
        ended.status.code(),
        Some(0),
        "{arguments:?}: {}\n{}",
        ended.stderr,
        ended.stdout
    );
    parsed(&ended)
}

fn end(arguments: &[&str]) -> Ended {
    let mut all = vec!["run", "--quiet", "--json", "-"];
    all.extend(arguments);
    ringperf(&all).ended(PATIENCE)
}

/// The one sample of a document.
fn sample(document: &Value) -> &Value {
    let cases = document["cases"].as_array().expect("cases");
    assert_eq!(cases.len(), 1);
    let samples = cases[0]["samples"].as_array().expect("samples");
    assert_eq!(samples.len(), 1);
    &samples[0]
}

/// The one sample of a run with both sides in one process, whose counts add up.
fn local(arguments: &[&str]) -> Value {
    let sample = sample(&document(arguments)).clone();
    reconciles(&sample, arguments);
    sample
}

/// The samples of a run of several cases with both sides in one process, whose counts add up,
/// each with its case.
fn cases(arguments: &[&str]) -> Vec<(Value, Value)> {
    let document = document(arguments);
    let cases = document["cases"].as_array().expect("cases");
    let of_case = |case: &Value| {
        let samples = case["samples"].as_array().expect("samples");
        assert_eq!(samples.len(), 1, "{case}");
        reconciles(&samples[0], arguments);
        (case["case"].clone(), samples[0].clone())
    };
    cases.iter().map(of_case).collect()
}

/// As [`local`], with a short window.
fn short(arguments: &[&str]) -> Value {
    local(&[&SHORT, arguments].concat())
}

fn reconciles(sample: &Value, arguments: &[&str]) {
    for group in sample["groups"].as_array().expect("groups") {
        let reconciliation = &group["reconciliation"];
        assert_eq!(
            reconciliation["reconciled"], true,
            "{arguments:?}: {reconciliation}"
        );
    }
    assert_eq!(sample["complete"], true, "{arguments:?}: {sample}");
    intervals_add_up(sample, arguments);
    transactions_add_up(sample, arguments);
}

/// Of each side and group the intervals are numbered from the mark, follow each other without a
/// gap, and hold what the window holds.
fn intervals_add_up(sample: &Value, arguments: &[&str]) {
    let groups = sample["groups"].as_array().expect("groups");
    for (index, group) in groups.iter().enumerate() {
        let client_sends = group["direction"] == "client_to_server";
        for side in ["client", "server"] {
            let own: Vec<&Value> = sample["intervals"][side]
                .as_array()
                .expect("intervals")
                .iter()
                .filter(|interval| number(&interval["group"]) == index as u64)
                .collect();
            for (at, interval) in own.iter().enumerate() {
                assert_eq!(number(&interval["index"]), at as u64, "{arguments:?}");
            }
            let sum = |field: &str| -> u64 { own.iter().map(|i| number(&i[field])).sum() };
            if group["traffic"] == "stream" {
                let sends = client_sends == (side == "client");
                let (field, amount) = match sends {
                    true => ("sent_bytes", &group["sent"]),
                    false => ("received_bytes", &group["received"]),
                };
                assert_eq!(
                    sum(field),
                    number(&amount["bytes"]),
                    "{arguments:?}: {side} {field}"
                );
            } else if side == "client" {
                for (of_interval, of_window) in
                    [("transactions", "done"), ("completed", "completed")]
                {
                    assert_eq!(
                        sum(of_interval),
                        number(&group["transactions"][of_window]),
                        "{arguments:?}"
                    );
                }
            }
        }
    }
}

/// started = done + failed + in flight, each counted for itself; the lifetime's are held against
/// each other by the reconciliation.
fn transactions_add_up(sample: &Value, arguments: &[&str]) {
    for group in sample["groups"].as_array().expect("groups") {
        let counted = &group["transactions"];
        if counted.is_null() {
            continue;
        }
        let of = |name: &str| number(&counted[name]);
        assert_eq!(
            of("started"),
            of("done") + of("failed") + of("in_flight"),
            "{arguments:?}: {counted}"
        );
        let terms = &group["reconciliation"];
        let of = |name: &str| number(&terms[name]);
        assert_eq!(
            of("sent"),
            of("received") + of("lost") + of("in_flight"),
            "{arguments:?}: {terms}"
        );
    }
}

fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("no count: {value}"))
}

fn real(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("no figure: {value}"))
}

fn codes(sample: &Value) -> Vec<&str> {
    sample["findings"]
        .as_array()
        .expect("findings")
        .iter()
        .filter_map(|finding| finding["code"].as_str())
        .collect()
}

/// A server in a process of its own, on a port that the kernel chose.
struct Server {
    running: Running,
    port: u16,
}

impl Server {
    fn start(arguments: &[&str]) -> Server {
        let mut all = vec!["serve", "--bind", "127.0.0.1", "--port", "0"];
        all.extend(arguments);
        let running = ringperf(&all);
        running.wait_for_stdout("\n", PATIENCE);
        let line = running.stdout();
        let port = line.trim().rsplit(':').next().and_then(|p| p.parse().ok());
        let port = port.unwrap_or_else(|| panic!("no port in {line:?}"));
        Server { running, port }
    }

    fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

/// Whether the figure is as near to the wanted one as the part says; if not, how far it is.
fn near(figure: f64, wanted: f64, part: f64, what: &str) -> Result<(), String> {
    let off = (figure - wanted).abs() / wanted;
    match off <= part {
        true => Ok(()),
        false => Err(format!("{what}: {figure} instead of {wanted}")),
    }
}

/// What holds on a machine with time for it is given more than one chance, since this one may be
/// busy with something else.
fn given_time(attempt: impl Fn() -> Result<(), String>) {
    let mut last = String::new();
    for _ in 0..5 {
        match attempt() {
            Ok(()) => return,
            Err(text) => last = text,
        }
    }
    panic!("five times in a row, the last time: {last}");
}

// ---- think time

#[test]
fn think_time_is_never_shorter_and_sets_the_rate() {
    let _alone = alone();
    for proto in ["tcp", "udp"] {
        let got = local(&[
            "--proto",
            proto,
            "--test",
            "rr",
            "--flows",
            "3",
            "--think",
            "10ms",
            "--duration",
            "1s",
            "--warmup",
            "100ms",
        ]);
        let least = number(&got["latency_ns"]["min"]);
        // Recorded values are rounded down to three digits.
        assert!(least >= 9_990_000, "{proto}: answered after {least} ns");
        let done = number(&got["transactions"]["done"]);
        // 100 a second of each of three flows; a busy machine answers later, never earlier.
        assert!(done <= 303, "{proto}: {done} transactions");
        assert!(done >= 60, "{proto}: {done} transactions");
        let median = number(&got["latency_ns"]["p50"]);
        assert!(median < 60_000_000, "{proto}: {median}");
    }
}

// ---- exact amounts

/// Payload received and sent of every group.
fn amounts(sample: &Value) -> Vec<(u64, u64)> {
    let groups = sample["groups"].as_array().expect("groups").iter();
    groups
        .map(|group| {
            let bytes = |side: &str| number(&group[side]["bytes"]);
            (bytes("received"), bytes("sent"))
        })
        .collect()
}

#[test]
fn bytes_are_exact_whatever_the_flows_and_the_size() {
    let _alone = alone();
    // Not divisible by the flows, smaller than a message, fewer bytes than flows, one message
    // that is larger than everything.
    let streams = [
        ("1000003", "3", "1000", 1_000_003),
        ("3", "8", "1", 3),
        ("5", "1", "1M", 5),
        ("10M", "7", "16K", 10 << 20),
        ("20000001", "2", "8M", 20_000_001),
    ];
    for (bytes, flows, size, wanted) in streams {
        let arguments = [
            "--test",
            "stream,reverse,bidir",
            "--bytes",
            bytes,
            "--flows",
            flows,
            "--size",
            size,
        ];
        let all = cases(&arguments);
        assert_eq!(all.len(), 3);
        for (case, got) in all {
            for amount in amounts(&got) {
                assert_eq!(amount, (wanted, wanted), "{}: {arguments:?}", case["name"]);
            }
        }
    }
}

#[test]
fn udp_bytes_are_exact_down_to_the_last_short_datagram() {
    let _alone = alone();
    // The last of 100 010 would have ten bytes, too few for a header: the one before gives some.
    for (bytes, flows, size) in [
        ("100010", "3", "1000"),
        ("30", "1", "1000"),
        ("4801", "2", "48"),
    ] {
        let arguments = [
            "--proto",
            "udp",
            "--test",
            "stream,reverse,bidir",
            "--bytes",
            bytes,
            "--flows",
            flows,
            "--size",
            size,
            "--bitrate",
            "20M",
        ];
        let wanted: u64 = bytes.parse().expect("a number");
        for (case, got) in cases(&arguments) {
            for amount in amounts(&got) {
                assert_eq!(amount, (wanted, wanted), "{}: {arguments:?}", case["name"]);
            }
            for group in got["groups"].as_array().expect("groups") {
                assert_eq!(number(&group["udp"]["lost"]), 0, "{arguments:?}");
            }
        }
    }
    let refused = end(&[
        "--proto", "udp", "--bytes", "1010", "--size", "1000", "--flows", "101",
    ]);
    assert_eq!(refused.status.code(), Some(2), "{}", refused.stderr);
}

#[test]
fn messages_and_transactions_are_exact() {
    let _alone = alone();
    for (proto, tests) in [("tcp", "rr,crr"), ("udp", "rr")] {
        for count in ["1", "1000"] {
            let arguments = [
                "--proto",
                proto,
                "--test",
                tests,
                "--transactions",
                count,
                "--flows",
                "1,3,5",
            ];
            let wanted: u64 = count.parse().expect("a number");
            for (case, got) in cases(&arguments) {
                let counted = &got["transactions"];
                let name = &case["name"];
                assert_eq!(number(&counted["started"]), wanted, "{name}: {counted}");
                assert_eq!(number(&counted["done"]), wanted, "{name}: {counted}");
                assert_eq!(number(&got["latency_ns"]["count"]), wanted, "{name}");
            }
        }
    }
    for proto in ["tcp", "udp"] {
        let arguments = [
            "--proto",
            proto,
            "--test",
            "stream,reverse,bidir",
            "--transactions",
            "1000",
            "--flows",
            "3",
            "--size",
            "100",
            "--rate",
            "20K/total",
        ];
        for (case, got) in cases(&arguments) {
            for group in got["groups"].as_array().expect("groups") {
                let (sent, received) = (&group["sent"], &group["received"]);
                assert_eq!(number(&sent["messages"]), 1000, "{}", case["name"]);
                assert_eq!(number(&received["bytes"]), 100_000, "{}", case["name"]);
                match proto {
                    "udp" => assert_eq!(number(&received["messages"]), 1000, "{received}"),
                    _ => assert!(received["messages"].is_null(), "{received}"),
                }
            }
        }
    }
}

#[test]
fn an_exact_amount_waits_for_a_slow_receiver() {
    let _alone = alone();
    // 4 MB at 16 Mbit/s of the kernel's pacing: the sender is done with its part after a moment,
    // and what it left in its socket's buffer goes out over seconds.
    let got = local(&["--bytes", "4000000", "--pacing", "16M", "--size", "128K"]);
    assert_eq!(amounts(&got), [(4_000_000, 4_000_000)]);
    assert!(real(&got["duration_s"]) > 1.5, "{}", got["duration_s"]);
}

// ---- verification

/// A proxy for TCP that flips one bit of the data connections' payload towards the server.
struct Corrupting {
    address: SocketAddr,
    flipped: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl Corrupting {
    /// Bytes of a flow that are left alone: its hello.
    const HELLO: usize = 4096;

    fn start(server: u16) -> Corrupting {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        listener.set_nonblocking(true).expect("an option");
        let address = listener.local_addr().expect("bound");
        let flipped = Arc::new(AtomicU64::new(0));
        let stop = Arc::new(AtomicBool::new(false));
        let (count, over) = (flipped.clone(), stop.clone());
        std::thread::spawn(move || {
            let mut number = 0;
            while !over.load(Ordering::SeqCst) {
                let Ok((client, _)) = listener.accept() else {
                    std::thread::sleep(Duration::from_millis(2));
                    continue;
                };
                client.set_nonblocking(false).expect("an option");
                let server = TcpStream::connect(("127.0.0.1", server)).expect("the server");
                // The first connection is the control connection.
                let harm = (number > 0).then(|| count.clone());
                number += 1;
                relay(&client, &server, harm);
                relay(&server, &client, None);
            }
        });
        Corrupting {
            address,
            flipped,
            stop,
        }
    }
}

impl Drop for Corrupting {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
    }
}

fn relay(from: &TcpStream, to: &TcpStream, harm: Option<Arc<AtomicU64>>) {
    let mut from = from.try_clone().expect("a descriptor");
    let mut to = to.try_clone().expect("a descriptor");
    std::thread::spawn(move || {
        let mut buffer = vec![0; 64 * 1024];
        let (mut passed, mut done) = (0, false);
        while let Ok(len @ 1..) = from.read(&mut buffer) {
            if let (Some(count), false, true) = (&harm, done, passed >= Corrupting::HELLO) {
                buffer[len / 2] ^= 0x10;
                count.fetch_add(1, Ordering::SeqCst);
                done = true;
            }
            passed += len;
            if to.write_all(&buffer[..len]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    });
}

#[test]
fn verification_finds_nothing_where_nothing_is_wrong() {
    let _alone = alone();
    let kinds: [&[&str]; 3] = [
        &["--proto", "tcp", "--test", "stream,reverse,bidir,rr,crr"],
        &[
            "--proto",
            "udp",
            "--test",
            "stream,bidir",
            "--bitrate",
            "20M",
        ],
        &["--proto", "udp", "--test", "rr"],
    ];
    for kinds in kinds {
        let all = [&SHORT, kinds, &["--verify", "--size", "1000"][..]].concat();
        for (case, got) in cases(&all) {
            let name = &case["name"];
            assert!(!codes(&got).contains(&"corrupt-payload"), "{name}: {got}");
            assert!(number(&got["groups"][0]["received"]["bytes"]) > 0, "{name}");
        }
    }
}

#[test]
fn verification_finds_what_is_wrong() {
    let _alone = alone();
    let server = Server::start(&[]);
    for test in ["stream", "rr"] {
        for (verify, found) in [(true, true), (false, false)] {
            let proxy = Corrupting::start(server.port);
            let host = proxy.address.to_string();
            let mut arguments = vec![
                host.as_str(),
                "--test",
                test,
                "--size",
                "1000",
                "--flows",
                "3",
                // By a count, so that each flow carries what is to be harmed, however busy the
                // machine.
                "--transactions",
                "600",
            ];
            arguments.extend(verify.then_some("--verify"));
            let ended = end(&arguments);
            let document = parsed(&ended);
            let got = sample(&document);
            assert_eq!(proxy.flipped.load(Ordering::SeqCst), 3, "{test}");
            assert_eq!(
                codes(got).contains(&"corrupt-payload"),
                found,
                "{test}: {got}"
            );
            assert_eq!(
                ended.status.code(),
                Some(if found { 4 } else { 0 }),
                "{test}"
            );
            if found {
                let text = got["findings"].to_string();
                assert!(text.contains("3 bytes arrived other"), "{test}: {text}");
            }
        }
    }
}

// ---- intervals

#[test]
fn intervals_are_exact_and_the_last_takes_the_rest() {
    let _alone = alone();
    for (duration, interval, lengths) in [
        ("300ms", "100ms", vec![0.1, 0.1, 0.1]),
        ("450ms", "200ms", vec![0.2, 0.2, 0.05]),
        ("250ms", "1s", vec![0.25]),
    ] {
        for (proto, tests) in [("tcp", "stream,bidir"), ("udp", "rr")] {
            let arguments = [
                "--proto",
                proto,
                "--test",
                tests,
                "--size",
                "1000",
                "--duration",
                duration,
                "--interval",
                interval,
                "--warmup",
                "130ms",
            ];
            given_time(|| {
                let idle = cases(&arguments)
                    .iter()
                    .map(|(_, got)| idle_intervals(got, &lengths))
                    .sum::<usize>();
                match idle {
                    0 => Ok(()),
                    idle => Err(format!("nothing in {idle} intervals")),
                }
            });
        }
    }
}

/// Both sides have intervals of these lengths, one after the other; in how many nothing moved.
fn idle_intervals(got: &Value, lengths: &[f64]) -> usize {
    let mut idle = 0;
    let groups = got["groups"].as_array().expect("groups").len();
    for side in ["client", "server"] {
        let all = got["intervals"][side].as_array().expect("intervals");
        assert_eq!(all.len(), lengths.len() * groups, "{all:?}");
        for (at, interval) in all.iter().enumerate() {
            let length = lengths[at / groups];
            let start: f64 = lengths[..at / groups].iter().sum();
            assert!(
                (real(&interval["length_s"]) - length).abs() < 1e-9,
                "{interval}"
            );
            assert!(
                (real(&interval["start_s"]) - start).abs() < 1e-9,
                "{interval}"
            );
            let moved = number(&interval["sent_bytes"]) + number(&interval["received_bytes"]);
            idle += usize::from(moved == 0);
        }
    }
    let sum: f64 = lengths.iter().sum();
    assert!(
        (real(&got["duration_s"]) - sum).abs() < 1e-9,
        "{}",
        got["duration_s"]
    );
    idle
}

#[test]
fn live_lines_and_objects_tell_of_warm_up_and_window() {
    let _alone = alone();
    let arguments = [
        "run",
        "--duration",
        "300ms",
        "--warmup",
        "200ms",
        "--interval",
        "100ms",
        "--rate",
        "1000/total",
        "--size",
        "1000",
    ];
    let ended = ringperf(&arguments).ended(PATIENCE);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let lines: Vec<&str> = ended
        .stderr
        .lines()
        .filter(|l| l.starts_with('['))
        .collect();
    let warm: Vec<&&str> = lines.iter().filter(|l| l.contains("warm-up")).collect();
    assert!(!warm.is_empty(), "{lines:?}");
    assert!(lines.iter().any(|l| l.starts_with("[  0.1s]")), "{lines:?}");
    // What moves in the warm-up is shown, though it does not count.
    assert!(
        warm.iter().all(|l| !l.contains(" 0 bit/s received")),
        "{warm:?}"
    );

    let streamed = [&arguments[..], &["--json-stream"]].concat();
    let ended = ringperf(&streamed).ended(PATIENCE);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let objects: Vec<Value> = ended
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line is an object"))
        .collect();
    let (last, before) = objects.split_last().expect("objects");
    assert!(last["cases"].is_array(), "{last}");
    assert!(before.iter().all(|o| o["type"] == "interval"), "{before:?}");
    assert!(before.iter().any(|o| o["side"] == "server"), "{before:?}");
}

// ---- open loop

#[test]
fn an_open_loop_keeps_its_rate_and_skips_nothing() {
    let _alone = alone();
    for (proto, tests) in [("tcp", "rr,crr"), ("udp", "rr")] {
        let arguments = [
            "--proto",
            proto,
            "--test",
            tests,
            "--rate",
            "1000/total",
            "--flows",
            "3",
            "--duration",
            "1s",
            "--warmup",
            "200ms",
        ];
        given_time(|| {
            for (case, got) in cases(&arguments) {
                let name = &case["name"];
                let counted = &got["transactions"];
                // Events k/1000 s after the start that lie in [0.2, 1.2): a thousand, whatever
                // the machine does meanwhile.
                let all = number(&counted["started"]) + unsent(counted);
                assert_eq!(all, 1000, "{name}: {counted}");
                assert_eq!(real(&got["offered_per_second"]), 1000.0, "{name}");
                assert!(
                    number(&got["lag_ns"]["count"]) >= 1000 - unsent(counted),
                    "{name}"
                );
                near(real(&got["achieved_per_second"]), 1000.0, 0.001, "achieved")?;
            }
            Ok(())
        });
    }
}

/// Due requests that were never sent.
fn unsent(counted: &Value) -> u64 {
    number(&counted["censored"]) - number(&counted["in_flight"])
}

/// A server whose process stands still for `stall` at the end of every `period`.
fn stalling<T>(server: &Server, stall: Duration, period: Duration, work: impl FnOnce() -> T) -> T {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut next = Instant::now() + period - stall;
            while !over.load(Ordering::SeqCst) {
                if Instant::now() < next {
                    std::thread::sleep(Duration::from_millis(2));
                    continue;
                }
                server.running.signal("STOP");
                std::thread::sleep(stall);
                server.running.signal("CONT");
                next += period;
            }
            server.running.signal("CONT");
        });
        let result = work();
        over.store(true, Ordering::SeqCst);
        result
    })
}

#[test]
fn a_server_that_stalls_shows_in_the_percentiles() {
    let _alone = alone();
    let server = Server::start(&[]);
    let (stall, period) = (Duration::from_millis(300), Duration::from_secs(3));
    let host = server.host();
    let arguments = [
        host.as_str(),
        "--test",
        "rr",
        "--rate",
        "1000/total",
        "--flows",
        "2",
        "--depth",
        "4",
        "--duration",
        "6s",
        "--warmup",
        "1s",
    ];
    let document = stalling(&server, stall, period, || document(&arguments));
    let got = sample(&document);
    reconciles(got, &arguments);
    let counted = &got["transactions"];
    assert_eq!(
        number(&counted["started"]) + unsent(counted),
        6000,
        "{counted}"
    );
    // A tenth of the requests meets the stall, evenly over its length: the slowest hundredth
    // waited longer than S - T/100. The closed loop would have shown eight slow requests a stall.
    let p99 = number(&got["latency_ns"]["p99"]) as f64 / 1e6;
    let theory = stall.as_secs_f64() * 1e3 - period.as_secs_f64() * 10.0;
    assert!(p99 > theory * 0.85, "p99 of {p99} ms, by theory {theory}");
    assert!(p99 < theory * 2.0, "p99 of {p99} ms, by theory {theory}");
    let p50 = number(&got["latency_ns"]["p50"]) as f64 / 1e6;
    assert!(p50 < theory / 2.0, "p50 of {p50} ms");
    // No interval has more than its schedule and the backlog of a stall.
    for interval in got["intervals"]["client"].as_array().expect("intervals") {
        assert!(number(&interval["transactions"]) <= 1001, "{interval}");
    }
}

#[test]
fn what_is_due_and_unanswered_at_the_stop_is_censored() {
    let _alone = alone();
    let server = Server::start(&[]);
    let host = server.host();
    let arguments = [
        host.as_str(),
        "--test",
        "rr",
        "--rate",
        "1000/total",
        "--flows",
        "2",
        "--depth",
        "4",
        "--duration",
        "2s",
        "--warmup",
        "0",
    ];
    // Stands still from some time within the window until after the client's stop.
    let all = [&["run", "--quiet", "--json", "-"], &arguments[..]].concat();
    let client = ringperf(&all);
    let begun = Instant::now();
    let mut stopped = false;
    let mut client = Some(client);
    let ended = loop {
        std::thread::sleep(Duration::from_millis(5));
        let running = client.as_mut().expect("until it ends");
        if let Some(ended) = running.wait(Duration::from_millis(5)) {
            break ended;
        }
        // The baseline of the CPU figures takes a second before the window.
        if !stopped && begun.elapsed() > Duration::from_millis(2200) {
            server.running.signal("STOP");
            stopped = true;
        }
        // The client gives the other side's window two seconds, then drains.
        if begun.elapsed() > Duration::from_millis(7000) {
            server.running.signal("CONT");
        }
        assert!(begun.elapsed() < PATIENCE, "the client does not end");
    };
    drop(client.take());
    let document = parsed(&ended);
    let got = sample(&document);
    let counted = &got["transactions"];
    let of = |name: &str| number(&counted[name]);
    assert!(of("censored") > 100, "{counted}");
    assert_eq!(
        of("censored") + of("done"),
        2000,
        "due less answered: {counted}"
    );
    assert_eq!(of("in_flight") + of("done"), of("started"), "{counted}");
    // Two flows of depth 4: no more is ever outstanding.
    assert!(of("in_flight") <= 8, "{counted}");
    let latency = &got["latency_ns"];
    assert_eq!(number(&latency["count"]), 2000, "{latency}");
    let bounds = latency["lower_bounds"].as_array().expect("bounds");
    assert!(
        bounds.contains(&"p99".into()) && bounds.contains(&"max".into()),
        "{bounds:?}"
    );
}

/// What an overloaded warm-up leaves behind is served first. The window says what was done in it,
/// and that nothing of its own was.
#[test]
fn a_backlog_of_the_warm_up_hides_nothing() {
    let _alone = alone();
    let arguments = [
        "--test",
        "rr",
        "--rate",
        "1000/total",
        "--think",
        "10ms",
        "--duration",
        "1s",
        "--warmup",
        "500ms",
        "--interval",
        "250ms",
    ];
    given_time(|| {
        let got = local(&arguments);
        let counted = &got["transactions"];
        let of = |name: &str| number(&counted[name]);
        // A hundred a second are served; of the 500 of the warm-up 150 by the window's end.
        assert_eq!((of("started"), of("done")), (0, 0), "{counted}");
        assert_eq!(of("censored"), 1000, "{counted}");
        assert_eq!(number(&got["latency_ns"]["count"]), 1000, "{got}");
        assert!(of("completed") <= 101, "{counted}");
        assert_eq!(real(&counted["per_second"]), of("completed") as f64);
        assert_eq!(got["achieved_per_second"], counted["per_second"]);
        let of_client = got["intervals"]["client"].as_array().expect("intervals");
        let received = of_client.iter().map(|i| number(&i["received_messages"]));
        assert_eq!(received.sum::<u64>(), of("completed"), "{got}");
        let bounds = got["latency_ns"]["lower_bounds"].as_array();
        assert!(bounds.expect("bounds").contains(&"p50".into()), "{got}");
        let text = got["findings"].to_string();
        assert!(codes(&got).contains(&"achieved-below-offered"), "{text}");
        assert!(text.contains("were due before it"), "{text}");
        near(
            real(&counted["per_second"]),
            100.0,
            0.5,
            "completed per second",
        )
    });
}

/// Of a window in which hardly anything was due nobody can say that the schedule was not kept.
#[test]
fn a_slow_schedule_is_kept_by_a_short_window() {
    let _alone = alone();
    for proto in ["tcp", "udp"] {
        let got = short(&["--proto", proto, "--test", "rr", "--rate", "1"]);
        assert!(!codes(&got).contains(&"achieved-below-offered"), "{got}");
    }
}

/// Each direction of an exact bidirectional case has a window of its own.
#[test]
fn the_direction_that_ends_first_has_its_own_window() {
    let _alone = alone();
    let server = Server::start(&[]);
    let host = server.host();
    let arguments = [
        host.as_str(),
        "--test",
        "bidir",
        "--bytes",
        "4M",
        "--rate",
        "1000",
        "--size",
        "4K",
        "--interval",
        "100ms",
    ];
    let document = document(&arguments);
    let got = sample(&document);
    for (index, group) in got["groups"].as_array().expect("two").iter().enumerate() {
        assert_eq!(number(&group["received"]["bytes"]), 4 << 20, "{group}");
        let side = ["server", "client"][index];
        let seconds: f64 = got["intervals"][side]
            .as_array()
            .expect("intervals")
            .iter()
            .filter(|interval| number(&interval["group"]) == index as u64)
            .map(|interval| real(&interval["length_s"]))
            .sum();
        let rate = f64::from(4_u32 << 20) * 8.0 / seconds;
        let told = real(&group["throughput_bps"]);
        assert!((told / rate - 1.0).abs() < 1e-6, "{told} and {rate}");
    }
}

/// A window of microseconds has exact counts and no rate that means anything.
#[test]
fn a_window_says_that_it_is_short() {
    let _alone = alone();
    for bytes in ["1", "64M"] {
        let got = local(&["--test", "stream", "--bytes", bytes]);
        let short = real(&got["duration_s"]) < 1e-3;
        assert_eq!(codes(&got).contains(&"window-too-short"), short, "{got}");
    }
}

#[test]
fn paced_streams_keep_their_rate() {
    let _alone = alone();
    for proto in ["tcp", "udp"] {
        for load in [
            ["--bitrate", "8M"],
            ["--rate", "1000/total"],
            ["--rate", "250/flow"],
        ] {
            let rest = [
                "--proto",
                proto,
                "--test",
                "stream,bidir",
                "--size",
                "1000",
                "--flows",
                "4",
                "--duration",
                "1s",
                "--warmup",
                "200ms",
            ];
            // Otherwise up to a delayed acknowledgement of each flow is still to arrive.
            let nodelay: &[&str] = if proto == "tcp" {
                &["--nodelay", "on"]
            } else {
                &[]
            };
            let arguments = [&load[..], &rest, nodelay].concat();
            given_time(|| cases(&arguments).iter().try_for_each(|(_, got)| paced(got)));
        }
    }
}

/// A thousand messages of a thousand bytes a second, but for what the sender was late by its own
/// account: another load on this machine took its CPU.
fn paced(got: &Value) -> Result<(), String> {
    for group in got["groups"].as_array().expect("groups") {
        let late = real(&group["lag_ns"]["max"]) / 1e9;
        let part = 0.005 + 2.0 * late;
        near(real(&group["offered_per_second"]), 1000.0, 1e-9, "offered")?;
        near(
            real(&group["achieved_per_second"]),
            1000.0,
            part,
            "achieved",
        )?;
        near(real(&group["throughput_bps"]), 8e6, part, "throughput")?;
    }
    Ok(())
}

#[test]
fn many_paced_flows_share_few_buffers_evenly() {
    let _alone = alone();
    let arguments = [
        "--proto",
        "udp",
        "--rate",
        "20/flow",
        "--size",
        "100",
        "--flows",
        "500",
        "--duration",
        "1s",
        "--warmup",
        "200ms",
    ];
    given_time(|| {
        let got = local(&arguments);
        for flow in got["flows"].as_array().expect("flows") {
            let sent = number(&flow["client"]["window"]["sent_messages"]);
            if !(19..=21).contains(&sent) {
                return Err(flow.to_string());
            }
        }
        near(
            real(&got["achieved_per_second"]),
            10_000.0,
            0.005,
            "achieved",
        )
    });
    let got = short(&["--proto", "udp", "--test", "rr", "--flows", "1000"]);
    let idle = |flow: &&Value| number(&flow["client"]["transactions"]) == 0;
    let flows = got["flows"].as_array().expect("flows");
    assert_eq!(
        flows.iter().filter(idle).count(),
        0,
        "flows without a transaction"
    );
}

#[test]
fn coalesced_messages_are_counted_and_paced_one_by_one() {
    let _alone = alone();
    let arguments = [
        "--coalesce",
        "16",
        "--size",
        "100",
        "--rate",
        "8000/total",
        "--flows",
        "2",
        "--duration",
        "1s",
        "--warmup",
        "200ms",
        "--test",
        "stream",
        "--nodelay",
        "on",
    ];
    given_time(|| {
        let got = local(&arguments);
        // But for what the sender was late by its own account.
        let part = 0.005 + 2.0 * real(&got["lag_ns"]["max"]) / 1e9;
        near(real(&got["achieved_per_second"]), 8000.0, part, "achieved")?;
        near(real(&got["throughput_bps"]), 6.4e6, part, "throughput")
    });
    let got = local(&[
        "--coalesce",
        "16",
        "--size",
        "100",
        "--transactions",
        "1003",
    ]);
    assert_eq!(number(&got["sent"]["messages"]), 1003);
    assert_eq!(amounts(&got), [(100_300, 100_300)]);
}

// ---- connect, request, close

#[test]
fn crr_has_two_histograms_and_both_ways_to_close() {
    let _alone = alone();
    for close in ["fin", "rst"] {
        let got = short(&["--test", "crr", "--flows", "3", "--close", close]);
        let done = number(&got["transactions"]["done"]);
        assert!(done > 0, "{got}");
        let (connect, whole) = (&got["connect_ns"], &got["latency_ns"]);
        assert_eq!(number(&whole["count"]), done);
        assert!(number(&connect["count"]) >= done, "{connect}");
        assert!(
            number(&connect["p50"]) < number(&whole["p50"]),
            "{connect} {whole}"
        );
        assert_eq!(got["flows"].as_array().map(Vec::len), Some(3));
    }
}

#[test]
fn exhausted_ports_are_a_finding() {
    let _alone = alone();
    // A hundred ports a flow: each rests for a while before its next connection.
    let range = free_ports(300);
    let first: u16 = range
        .split('-')
        .next()
        .and_then(|p| p.parse().ok())
        .expect("a port");
    let arguments = [
        "--test",
        "crr",
        "--flows",
        "3",
        "--close",
        "fin",
        "--source-ports",
        &range,
    ];
    let got = short(&arguments);
    assert!(!codes(&got).contains(&"ports-exhausted"), "{got}");
    // One of the second flow's ports is somebody else's.
    let held = TcpListener::bind(("0.0.0.0", first + 4)).expect("a free port");
    let got = short(&arguments);
    assert!(codes(&got).contains(&"ports-exhausted"), "{got}");
    assert!(
        number(&got["reconciliation"]["lost"]) > 0,
        "{}",
        got["reconciliation"]
    );
    assert!(number(&got["transactions"]["done"]) > 0, "{got}");
    drop(held);
    let fixed = end(&["--test", "crr", "--source-ports", "fixed"]);
    assert_eq!(fixed.status.code(), Some(2), "{}", fixed.stderr);
}

#[test]
fn retransmitted_connects_are_a_finding() {
    let _alone = alone();
    let server = Server::start(&[]);
    // A way to the server on which the control connection and the first flow get through, and
    // then nobody accepts any more: the queue takes two connections, and the others' SYNs drop.
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let flags = SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Inet, SockType::Stream, flags, None).expect("a socket");
    bind(socket.as_raw_fd(), &SockaddrStorage::from(address)).expect("loopback");
    listen(&socket, Backlog::new(1).expect("a length")).expect("a listener");
    let listener = TcpListener::from(socket);
    let host = listener.local_addr().expect("bound").to_string();
    let port = server.port;
    let relaying = std::thread::spawn(move || {
        for _ in 0..2 {
            let (client, _) = listener.accept().expect("a connection");
            let server = TcpStream::connect(("127.0.0.1", port)).expect("the server");
            relay(&client, &server, None);
            relay(&server, &client, None);
        }
        listener
    });
    let arguments = [
        &host,
        "--test",
        "crr",
        "--flows",
        "8",
        "--duration",
        "1500ms",
        "--warmup",
        "0",
    ];
    let ended = end(&arguments);
    // Nothing was answered, which fails a run.
    assert_eq!(ended.status.code(), Some(4), "{}", ended.stderr);
    let document = parsed(&ended);
    relaying.join().expect("it relays");
    let got = sample(&document);
    reconciles(got, &arguments);
    assert!(codes(got).contains(&"syn-retransmits"), "{:?}", codes(got));
    let counted = &got["transactions"];
    assert_eq!(number(&counted["in_flight"]), 8, "{counted}");
    assert_eq!(number(&counted["started"]), 8, "{counted}");
}

/// A range of ports below the ephemeral ones that nobody listens on, another at each call.
fn free_ports(count: u16) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let offset =
        std::process::id() as u64 * 64 + NEXT.fetch_add(u64::from(count), Ordering::SeqCst);
    let first = 10_000 + (offset % 22_000) as u16;
    format!("{first}-{}", first + count - 1)
}

// ---- sizes, depths and options

#[test]
fn any_size_goes() {
    let _alone = alone();
    let tcp = [
        "--test",
        "stream,rr",
        "--transactions",
        "2",
        "--size",
        "1,2,1000,64M,1/1M",
    ];
    let uneven = tcp.map(|word| if word == "stream,rr" { "rr" } else { word });
    let even = tcp.map(|word| word.trim_end_matches(",1/1M"));
    for (case, got) in cases(&even).into_iter().chain(cases(&uneven)) {
        let once = number(&case["request_bytes"]) + number(&case["response_bytes"]);
        assert_eq!(amounts(&got), [(2 * once, 2 * once)], "{}", case["name"]);
    }
    let udp = [
        "--proto",
        "udp",
        "--test",
        "stream,rr",
        "--transactions",
        "3",
        "--size",
        "1,23,24,1000,65507",
        "--rate",
        "100/total",
    ];
    for (case, got) in cases(&udp) {
        let (request, name) = (number(&case["request_bytes"]), &case["name"]);
        let once = request + number(&case["response_bytes"]);
        assert_eq!(amounts(&got), [(3 * once, 3 * once)], "{name}");
        let full = request >= 24;
        if case["test"] == "stream" {
            assert_eq!(
                got["udp"]["mode"],
                if full { "full" } else { "counts" },
                "{name}"
            );
            for figure in ["lost", "reordered", "duplicated", "late"] {
                assert_eq!(got["udp"][figure].is_null(), !full, "{name}: {figure}");
            }
        }
    }
}

#[test]
fn depth_is_what_may_be_outstanding() {
    let _alone = alone();
    for proto in ["tcp", "udp"] {
        // By Little's law: 4 outstanding of 10 ms each are 400 a second.
        let got = local(&[
            "--proto",
            proto,
            "--test",
            "rr",
            "--depth",
            "4",
            "--think",
            "10ms",
            "--duration",
            "1s",
            "--warmup",
            "100ms",
        ]);
        let done = number(&got["transactions"]["done"]);
        assert!((100..=404).contains(&done), "{proto}: {done}");
    }
    // Far more in flight than the rings have entries.
    let got = local(&[
        "--test", "stream", "--size", "100", "--depth", "1000", "--flows", "40", "--bytes", "5M",
    ]);
    assert_eq!(number(&got["engine"]["client"]["depth"]), 1000);
    assert_eq!(amounts(&got), [(5 << 20, 5 << 20)]);
    let refused = end(&["--test", "stream", "--depth", "65536", "--flows", "100"]);
    assert_eq!(refused.status.code(), Some(2), "{}", refused.stderr);
}

#[test]
fn every_option_drives_traffic_whose_counts_add_up() {
    let _alone = alone();
    let range = free_ports(8);
    let all: [&[&str]; 16] = [
        &["--test", "stream,bidir,rr", "--receive", "discard"],
        &["--test", "stream,rr", "--wait", "spin"],
        &["--test", "stream,rr", "--wait", "adaptive"],
        &["--test", "stream,rr", "--as-application"],
        &["--test", "rr", "--as-application", "--flows", "20"],
        &["--test", "stream,rr", "--nodelay", "on"],
        &["--test", "stream,rr", "--nodelay", "off"],
        &["--test", "stream,rr", "--mss", "500"],
        &["--test", "stream,rr", "--window", "64K"],
        &["--test", "stream,rr", "--dscp", "46"],
        &["--test", "stream", "--source-ports", &range, "--flows", "4"],
        &["--test", "stream", "--source-ports", "fixed"],
        &["--test", "stream,rr", "--depth", "3,16", "--flows", "2,20"],
        &["--test", "rr", "--size", "100K/1", "--depth", "4"],
        &[
            "--proto", "udp", "--test", "rr", "--wait", "spin", "--depth", "8",
        ],
        &["--proto", "udp", "--test", "rr", "--as-application"],
    ];
    for options in all {
        for (case, got) in cases(&[&SHORT, options].concat()) {
            let moved = number(&got["groups"][0]["received"]["bytes"]);
            assert!(moved > 0, "{}: {options:?}", case["name"]);
        }
    }
}

/// The command without privileges: as it is, or where the tests run as root as another user.
fn unprivileged(arguments: &[&str]) -> Ended {
    if !nix::unistd::geteuid().is_root() {
        return ringperf(arguments).ended(PATIENCE);
    }
    // Where another user may read it.
    let copy = std::env::temp_dir().join(format!("ringperf-{}", std::process::id()));
    std::fs::copy(RINGPERF, &copy).expect("room for a copy");
    let mut command = Command::new(&copy);
    let ended = Running::start(command.args(arguments).uid(65_534).gid(65_534)).ended(PATIENCE);
    std::fs::remove_file(&copy).expect("our copy");
    ended
}

#[test]
fn busy_polling_without_privilege_is_refused_by_name() {
    let _alone = alone();
    let traffic = [&["run", "--quiet", "--test", "rr"][..], &SHORT].concat();
    let ended = unprivileged(&traffic);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let ended = unprivileged(&[&traffic[..], &["--busy-poll", "50"]].concat());
    if ended.status.code() == Some(0) {
        let _ = writeln!(std::io::stderr(), "SKIP: this kernel lets anybody poll");
        return;
    }
    assert_eq!(ended.status.code(), Some(5), "{}", ended.stderr);
    for word in ["--busy-poll", "CAP_NET_ADMIN"] {
        assert!(ended.stderr.contains(word), "{word}: {}", ended.stderr);
    }
}

#[test]
fn an_mss_is_in_force() {
    let _alone = alone();
    let got = short(&["--mss", "500", "--flows", "2"]);
    for side in ["client", "server"] {
        // Less the time stamp option.
        let mss = number(&got["tcp"][side]["mss_send"]);
        assert!((400..=500).contains(&mss), "{side}: {mss}");
    }
}

#[test]
fn pacing_by_the_kernel_limits_the_rate() {
    let _alone = alone();
    let got = local(&[
        "--pacing",
        "40M",
        "--flows",
        "2",
        "--duration",
        "2s",
        "--warmup",
        "500ms",
    ]);
    let rate = real(&got["throughput_bps"]);
    // Pacing counts headers too, and lets a burst go first; a busy machine may be slower.
    assert!(rate < 2.0 * 40e6 * 1.1, "{rate}");
    assert!(rate > 2.0 * 40e6 * 0.5, "{rate}");
}

#[test]
fn source_ports_are_those_asked_for() {
    let _alone = alone();
    let range = free_ports(4);
    let first: u16 = range
        .split('-')
        .next()
        .and_then(|p| p.parse().ok())
        .expect("a port");
    for proto in ["tcp", "udp"] {
        let rate = ["--rate", "100/total", "--size", "100"];
        let got = short(
            &[
                &["--proto", proto, "--source-ports", &range, "--flows", "4"],
                &rate[..],
            ]
            .concat(),
        );
        for (at, flow) in got["flows"].as_array().expect("flows").iter().enumerate() {
            let wanted = format!(":{}", first + at as u16);
            let (own, seen) = (&flow["client"]["local"], &flow["server"]["peer"]);
            assert!(own.as_str().is_some_and(|a| a.ends_with(&wanted)), "{flow}");
            assert_eq!(own, seen, "{flow}");
        }
    }
}

#[test]
fn workers_run_where_they_are_pinned() {
    let _alone = alone();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let (first, last) = ("0".to_string(), (cpus - 1).to_string());
    let server = Server::start(&[]);
    let host = server.host();
    let arguments = [host.as_str(), "--cpus", &last, "--server-cpus", &first];
    let arguments = [&arguments[..], &SHORT].concat();
    let arguments: Vec<&str> = arguments
        .iter()
        .map(|word| {
            if *word == "--cpus" {
                "--client-cpus"
            } else {
                word
            }
        })
        .collect();
    let document = document(&arguments);
    let got = sample(&document);
    for (side, wanted) in [("client", &last), ("server", &first)] {
        let wanted: u64 = wanted.parse().expect("a number");
        let ran = &got["engine"][side]["worker_cpus"];
        assert_eq!(*ran, serde_json::json!([wanted]), "{side}");
    }
    let nowhere = end(&["--client-cpus", "4000"]);
    assert!(
        matches!(nowhere.status.code(), Some(2 | 5)),
        "{}",
        nowhere.stderr
    );
}

// ---- groups

#[test]
fn one_group_is_the_sample_and_two_are_two() {
    let _alone = alone();
    let got = short(&["--test", "bidir", "--flows", "3"]);
    let groups = got["groups"].as_array().expect("groups");
    let directions: Vec<&Value> = groups.iter().map(|group| &group["direction"]).collect();
    assert_eq!(directions, ["client_to_server", "server_to_client"]);
    assert!(
        got.get("throughput_bps").is_none_or(Value::is_null),
        "{got}"
    );
    assert_eq!(got["flows"].as_array().map(Vec::len), Some(6));

    let got = short(&["--test", "rr"]);
    let [group] = &got["groups"].as_array().expect("groups")[..] else {
        panic!("{got}");
    };
    let group = group.as_object().expect("an object");
    let own = got.as_object().expect("an object");
    let mut compared = 0;
    for (name, value) in group.iter().filter(|(name, _)| own.contains_key(*name)) {
        assert_eq!(own[name], *value, "{name}");
        compared += 1;
    }
    assert!(compared >= 10, "{compared} fields in common");
}

// ---- scale

#[test]
fn ten_thousand_flows() {
    let _alone = alone();
    let server = Server::start(&[]);
    let host = server.host();
    for arguments in [
        &["--proto", "tcp", "--test", "rr"][..],
        &["--proto", "udp", "--test", "rr", "--timeout", "10s"],
        &[
            "--proto",
            "udp",
            "--test",
            "stream",
            "--size",
            "100",
            "--rate",
            "10K/total",
        ],
    ] {
        let all = [
            &[host.as_str(), "--flows", "10000"],
            arguments,
            &["--duration", "2s", "--warmup", "500ms"],
        ]
        .concat();
        let begun = Instant::now();
        let document = document(&all);
        let got = sample(&document);
        reconciles(got, &all);
        assert!(begun.elapsed() < Duration::from_secs(40), "{all:?}");
        let spread = &got["flow_distribution"];
        assert_eq!(number(&spread["count"]), 10_000, "{all:?}");
        assert_eq!(got["flows"].as_array().map(Vec::len), Some(40), "{all:?}");
        assert!(real(&spread["min"]) > 0.0, "{all:?}: {spread}");
    }
}

// ---- CPU

#[test]
fn cpu_figures_say_how_they_came_about() {
    let _alone = alone();
    let brief = short(&["--test", "stream"]);
    for side in ["client", "server"] {
        let cpu = &brief["cpu"][side];
        assert!(cpu["total_s"].is_null(), "{cpu}");
        assert!(
            cpu["missing"].as_str().is_some_and(|t| t.contains("ticks")),
            "{cpu}"
        );
    }
    let stop = Arc::new(AtomicBool::new(false));
    let over = stop.clone();
    // Begins after the idle baseline, which would take it off.
    let busy = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(1500));
        while !over.load(Ordering::SeqCst) {
            std::hint::spin_loop();
        }
    });
    let long = local(&["--test", "rr", "--duration", "2s", "--warmup", "600ms"]);
    stop.store(true, Ordering::SeqCst);
    busy.join().expect("it ends");
    let machine = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    for side in ["client", "server"] {
        let cpu = &long["cpu"][side];
        let of = |name: &str| real(&cpu[name]);
        let parts = of("user_s") + of("system_s") + of("softirq_s") + of("irq_s");
        assert!((of("total_s") - parts).abs() < 1e-6, "{cpu}");
        assert!(of("total_s") <= machine * of("window_s") * 1.05, "{cpu}");
        assert!(
            of("foreign_s") > 0.2 * of("window_s"),
            "the busy loop is foreign: {cpu}"
        );
        let own = of("worker_user_s") + of("worker_system_s");
        assert!(own > 0.0 && own < 3.0, "{cpu}");
        assert!(
            ["tick", "precise"].contains(&cpu["method"].as_str().unwrap_or("")),
            "{cpu}"
        );
    }
    let spinning = short(&["--wait", "spin", "--test", "rr"]);
    assert_eq!(spinning["cpu"]["client"]["spinning"], true);
    assert!(spinning["cpu"]["client"]["worker_user_s"].is_null());
}

/// A schedule that no machine can keep ends in time, and everything that was due is counted.
#[test]
fn a_schedule_beyond_any_machine_ends_in_time() {
    let _alone = alone();
    for rate in ["5M", "1T"] {
        let begun = Instant::now();
        let got = short(&["--test", "rr", "--rate", rate, "--flows", "3"]);
        assert!(
            begun.elapsed() < Duration::from_secs(10),
            "{rate}: {:?}",
            begun.elapsed()
        );
        let counted = &got["transactions"];
        assert!(number(&counted["censored"]) > 100_000, "{rate}: {counted}");
    }
}

/// A size from the path MTU leaves room for the segments of a send.
#[test]
fn segments_of_a_path_mtu_fit_one_send() {
    let _alone = alone();
    let got = short(&["--proto", "udp", "--gso", "64"]);
    assert!(number(&got["sent"]["messages"]) > 0, "{got}");
}
