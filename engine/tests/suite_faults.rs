//! When things go wrong: each fault, and what the user gets. Two processes over loopback, without
//! privilege.

mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use ringperf::control::wire::{Message, PROTOCOL, encode};
use ringperf::plan::Traffic;
use ringperf::record::{HostFacts, Run, Sample, Severity};
use support::process::{Ended, RINGPERF, Running, ringperf};
use support::seccomp::{self, Denied};
use support::session::{
    STANDING, Scratch, Server, code, document, one_document, vacant_address, wait_for_intervals,
};

/// A sample that nothing but a fault ends, told of every 100 ms.
const ENDLESS: [&str; 8] = [
    "--duration",
    "60s",
    "--warmup",
    "100ms",
    "--interval",
    "100ms",
    "--json",
    "-",
];

/// How late a busy machine may make what is due within a bound.
const SLACK: Duration = Duration::from_secs(2);

/// The kinds of traffic whose faults are tested one by one.
const KINDS: [&[&str]; 6] = [
    &["--test", "stream"],
    &["--test", "reverse"],
    &["--test", "bidir"],
    &["--test", "rr"],
    &["--proto", "udp", "--bitrate", "100M"],
    &["--proto", "udp", "--test", "rr"],
];

fn under_way(server: &Server, kind: &[&str], rest: &[&str]) -> Running {
    let client = server.client(&[kind, &ENDLESS, rest].concat());
    wait_for_intervals(&client, 4);
    client
}

/// Waits for the end; panics where it takes longer than `within` and what a busy machine adds.
fn ends_within(running: Running, within: Duration) -> Ended {
    let from = Instant::now();
    let ended = running.ended(STANDING);
    let took = from.elapsed();
    assert!(took <= within + SLACK, "took {took:?}: {ended:?}");
    ended
}

/// Lines on stderr that say what went wrong.
fn error_lines(ended: &Ended) -> Vec<&str> {
    ended
        .stderr
        .lines()
        .filter(|line| line.contains("ERROR") || line.starts_with("error"))
        .collect()
}

/// The one line that says what went wrong.
fn error_line(ended: &Ended) -> &str {
    let [line] = error_lines(ended)[..] else {
        panic!("not one line of error: {ended:?}")
    };
    line
}

fn only_sample(run: &Run) -> &Sample {
    let [case] = run.cases.as_slice() else {
        panic!("not one case: {run:?}")
    };
    let [sample] = case.samples.as_slice() else {
        panic!("not one sample: {case:?}")
    };
    sample
}

/// The counts of an unfinished sample: there is something of every group, by the side that counts.
fn something_was_measured(run: &Run) {
    let sample = only_sample(run);
    assert!(!run.complete && !sample.complete, "marked incomplete");
    assert!(sample.duration_s > 0.1, "{} s", sample.duration_s);
    for group in &sample.groups {
        assert!(group.figures.received.bytes > 0, "received: {group:?}");
        assert!(group.figures.sent.bytes > 0, "sent: {group:?}");
        assert!(group.figures.throughput_bps > 0.0, "{group:?}");
        if group.traffic != Traffic::Stream {
            let transactions = group.figures.transactions.expect("of rr");
            assert!(transactions.done > 0, "{transactions:?}");
            assert!(group.figures.latency_ns.is_some(), "{group:?}");
        }
    }
    let intervals = &sample.intervals;
    assert!(
        intervals.client.len() >= 3 && intervals.server.len() >= 3,
        "{intervals:?}"
    );
    assert!(
        sample
            .findings
            .iter()
            .any(|f| f.code == "sample-incomplete" && f.severity == Severity::Error)
    );
}

#[test]
fn nobody_listens() {
    let address = vacant_address().to_string();
    let ended = ends_within(ringperf(&["run", &address]), Duration::from_secs(5));
    assert_eq!(code(&ended), 4);
    let line = error_line(&ended);
    assert!(
        line.contains(&address) && line.contains("Connection refused"),
        "{line}"
    );
    let ended = ringperf(&["run", &address, "--json", "-"]).ended(STANDING);
    let run = document(&ended);
    let error = run.error.expect("said in the document");
    assert_eq!((code(&ended), error.exit_code), (4, 4));
    assert!(!run.complete && run.cases.is_empty() && error.text.contains(&address));
}

#[test]
fn a_name_that_does_not_resolve() {
    let ended = ends_within(
        ringperf(&["run", "nowhere.invalid", "--json", "-"]),
        Duration::from_secs(5),
    );
    assert_eq!(code(&ended), 4);
    let line = error_line(&ended);
    assert!(line.contains("nowhere.invalid:5301"), "{line}");
    assert!(
        line.contains("does not resolve") || line.contains("name server"),
        "{line}"
    );
    assert_eq!(document(&ended).error.expect("an error").exit_code, 4);
}

/// A listener that accepts and stays silent is no server either.
#[test]
fn somebody_else_listens() {
    let mute = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = mute.local_addr().expect("bound").to_string();
    let ended = ends_within(ringperf(&["run", &address]), Duration::from_secs(5));
    assert_eq!(code(&ended), 4);
    assert!(error_line(&ended).contains("said nothing"), "{ended:?}");
}

#[test]
fn the_server_is_killed_in_a_sample() {
    for kind in KINDS {
        let server = Server::start(&[]);
        let kept = Scratch::new("server-killed");
        let client = under_way(&server, kind, &["--output", kept.text()]);
        server.running.signal("KILL");
        let ended = ends_within(client, Duration::from_secs(2));
        assert_eq!(code(&ended), 4, "{kind:?}: {ended:?}");
        let run = document(&ended);
        something_was_measured(&run);
        let sample = only_sample(&run);
        let error = sample.error.as_ref().expect("why it ended");
        assert_eq!(error.exit_code, 4, "{error:?}");
        assert_eq!(run.error.as_ref(), Some(error), "the run's own as well");
        // The server said them before it died.
        let of_server = &sample.intervals.server;
        let counted = of_server
            .iter()
            .map(|interval| interval.counters.received_bytes + interval.counters.sent_bytes);
        assert!(counted.sum::<u64>() > 0, "{kind:?}: {of_server:?}");
        assert!(!error_lines(&ended).is_empty(), "{ended:?}");
        assert_eq!(kept.only_run(), run);
    }
}

/// The table has what was measured too.
#[test]
fn the_table_of_a_sample_whose_server_died() {
    let server = Server::start(&[]);
    let client = server.client(&["--duration", "60s", "--warmup", "0s", "--interval", "100ms"]);
    wait_for_intervals(&client, 4);
    server.running.signal("KILL");
    let ended = ends_within(client, Duration::from_secs(2));
    assert_eq!(code(&ended), 4);
    assert!(
        ended.stdout.contains("bit/s") && ended.stdout.contains("incomplete"),
        "{}",
        ended.stdout
    );
}

#[test]
fn the_client_is_killed() {
    let server = Server::start(&[]);
    for kind in KINDS {
        let client = under_way(&server, kind, &[]);
        client.signal("KILL");
        let killed = Instant::now();
        drop(client);
        served_within(&server, killed, Duration::from_secs(2));
    }
}

/// A next client is served, and no later than `within` after `since`.
fn served_within(server: &Server, since: Instant, within: Duration) {
    loop {
        let next = ["--test", "rr", "--duration", "100ms", "--warmup", "0s"];
        let asked = Instant::now();
        let ended = server.client(&next).ended(STANDING);
        if code(&ended) == 0 {
            return;
        }
        assert!(ended.stderr.contains("busy"), "{ended:?}");
        let passed = asked - since;
        assert!(passed <= within + SLACK, "still busy after {passed:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// SIGSTOP keeps its connections: no reset, no end, just silence.
#[test]
fn the_server_falls_silent() {
    // None of them fills the path, with a schedule or without.
    let kinds: [&[&str]; 4] = [
        &["--test", "rr"],
        &["--test", "rr", "--rate", "1000", "--depth", "4"],
        &["--test", "crr"],
        &["--proto", "udp", "--test", "rr"],
    ];
    for kind in kinds {
        let server = Server::start(&[]);
        let kept = Scratch::new("silent");
        let rest = ["--peer-timeout", "2s", "--output", kept.text()];
        let client = under_way(&server, kind, &rest);
        server.running.signal("STOP");
        let ended = ends_within(client, Duration::from_secs(2));
        server.running.signal("CONT");
        let awake = Instant::now();
        assert_eq!(code(&ended), 4);
        let run = document(&ended);
        something_was_measured(&run);
        let error = only_sample(&run).error.clone().expect("why it ended");
        assert!(error.text.contains("nothing arrived"), "{error:?}");
        assert_eq!(run.error, Some(error));
        assert_eq!(kept.only_run(), run);
        // While crr lasts, the next client's connection would be a transaction.
        if !kind.contains(&"crr") {
            served_within(&server, awake, Duration::from_secs(2));
        }
    }
}

#[test]
fn the_client_falls_silent() {
    let server = Server::start(&[]);
    let client = under_way(&server, &["--test", "rr"], &["--peer-timeout", "2s"]);
    client.signal("STOP");
    let silent = Instant::now();
    served_within(&server, silent, Duration::from_secs(3));
    client.signal("CONT");
    let ended = client.ended(STANDING);
    assert_eq!(code(&ended), 4, "{ended:?}");
    something_was_measured(&document(&ended));
}

/// A process that stands still for two seconds of a sample: who did, and which intervals show it.
#[test]
fn a_process_that_stood_still_is_named() {
    for (side, kind) in [("client", "rr"), ("server", "stream")] {
        let server = Server::start(&[]);
        let asked = [
            "--test",
            kind,
            "--duration",
            "6s",
            "--warmup",
            "0s",
            "--json-stream",
        ];
        let client = server.client(&asked);
        let begun = |line: &str| line.contains("\"type\":\"interval\"");
        let until = Instant::now() + STANDING;
        while !client.stdout().lines().any(begun) {
            assert!(Instant::now() < until, "{}", client.stderr());
            std::thread::sleep(Duration::from_millis(5));
        }
        let stopped = if side == "client" {
            &client
        } else {
            &server.running
        };
        stopped.signal("STOP");
        std::thread::sleep(Duration::from_millis(2200));
        stopped.signal("CONT");
        let ended = client.ended(STANDING);
        assert_eq!(code(&ended), 0, "{ended:?}");
        let (told, last) = ended.stdout.trim_end().rsplit_once('\n').expect("lines");
        let run = one_document(last);
        let findings = &only_sample(&run).findings;
        let text = |code: &str| {
            let found = findings.iter().find(|finding| finding.code == code);
            let found = found.unwrap_or_else(|| panic!("no {code}: {findings:?}"));
            found.text.clone()
        };
        assert!(text("stalled").contains("interval"), "{findings:?}");
        let whose = format!("the {side}'s process did not run for");
        assert!(text("process-stalled").contains(&whose), "{findings:?}");
        no_row_is_empty(told, side);
    }
}

/// Intervals that passed while nobody could tell of them are one row, as long as they were.
fn no_row_is_empty(told: &str, side: &str) {
    let mut seconds = 0.0;
    for line in told.lines() {
        let row: serde_json::Value = serde_json::from_str(line).expect("an object");
        if row["side"] != side {
            continue;
        }
        let group = &row["groups"][0];
        let of = |name: &str| group[name].as_f64().expect("a number");
        assert_eq!(of("start_s"), seconds, "{told}");
        seconds += of("length_s");
        assert!(of("received_bytes") > 0.0, "{row}");
    }
    assert!(seconds >= 5.0, "{told}");
}

#[test]
fn a_signal_stops_both_sides() {
    let server = Server::start(&[]);
    for (signal, exit) in [("INT", 130), ("TERM", 143)] {
        for kind in KINDS {
            let kept = Scratch::new("signal");
            let client = under_way(&server, kind, &["--output", kept.text()]);
            client.signal(signal);
            let ended = ends_within(client, Duration::from_secs(2));
            assert_eq!(code(&ended), exit, "{kind:?}: {ended:?}");
            let run = document(&ended);
            something_was_measured(&run);
            let error = run.error.as_ref().expect("said in the document");
            assert_eq!(i32::from(error.exit_code), exit, "{error:?}");
            assert_eq!(error.code, "interrupted");
            for group in &only_sample(&run).groups {
                let counts = &group.figures.reconciliation;
                assert!(counts.reconciled, "{kind:?}: {counts:?}");
            }
            assert_eq!(kept.only_run(), run);
            server.serves_the_next();
        }
    }
}

/// Every stage before traffic ends by a signal just as well.
#[test]
fn a_signal_before_any_traffic() {
    let mute = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = mute.local_addr().expect("bound").to_string();
    let stages: [&[&str]; 2] = [&[], &["--wait-for-server", "60s"]];
    for (stage, rest) in stages.into_iter().enumerate() {
        let vacant = vacant_address().to_string();
        let host = if stage == 0 { &address } else { &vacant };
        let client = Running::start(
            Command::new(RINGPERF)
                .args(["-vv", "run", host, "--json", "-"])
                .args(rest),
        );
        if stage == 0 {
            let (_kept, _) = mute.accept().expect("it connects");
            client.signal("INT");
            let ended = ends_within(client, Duration::from_secs(1));
            interrupted_before_traffic(&ended);
        } else {
            client.wait_for_stderr("trying again", STANDING);
            client.signal("INT");
            interrupted_before_traffic(&ends_within(client, Duration::from_secs(1)));
        }
    }
}

fn interrupted_before_traffic(ended: &Ended) {
    assert_eq!(code(ended), 130, "{ended:?}");
    let run = document(ended);
    let error = run.error.expect("said in the document");
    assert_eq!((error.exit_code, run.complete), (130, false), "{error:?}");
}

#[test]
fn a_signal_ends_the_server_and_the_client_keeps_everything() {
    for kind in KINDS {
        let mut server = Server::start(&[]);
        let kept = Scratch::new("server-stopped");
        let client = under_way(&server, kind, &["--output", kept.text()]);
        server.running.signal("INT");
        let ended = ends_within(client, Duration::from_secs(2));
        assert_eq!(code(&ended), 4, "{kind:?}: {ended:?}");
        let run = document(&ended);
        something_was_measured(&run);
        let error = only_sample(&run).error.clone().expect("why it ended");
        assert!(error.text.contains("told to stop"), "{error:?}");
        assert_eq!(kept.only_run(), run);
        let server = server.running.wait(STANDING).expect("it ends");
        assert_eq!(code(&server), 130, "{server:?}");
    }
}

#[test]
fn a_waiting_server_ends_at_once_by_a_signal() {
    for (signal, exit) in [("INT", 130), ("TERM", 143)] {
        let server = Server::start(&[]);
        server.running.signal(signal);
        let ended = ends_within(server.running, Duration::from_secs(1));
        assert_eq!(code(&ended), exit);
    }
}

/// Scanners, browsers and slow lorises on the port while a session measures.
#[test]
fn strangers_do_not_harm_a_session() {
    let kinds: [&[&str]; 3] = [
        &["--test", "rr"],
        &["--test", "crr"],
        &["--proto", "udp", "--bitrate", "10M"],
    ];
    let server = Server::start(&["-vv"]);
    for kind in kinds {
        let case = [
            "--duration",
            "2500ms",
            "--warmup",
            "100ms",
            "--interval",
            "100ms",
        ];
        let client = server.client(&[kind, &case, &["--json", "-"]].concat());
        wait_for_intervals(&client, 4);
        let strangers = stranger_connections(&server);
        let ended = client.ended(STANDING);
        drop(strangers);
        assert_eq!(code(&ended), 0, "{kind:?}: {ended:?}");
        let run = document(&ended);
        let counts = &only_sample(&run).groups[0].figures.reconciliation;
        assert!(run.complete && counts.reconciled, "{kind:?}: {counts:?}");
    }
    let log = server.running.stderr();
    assert!(log.contains("refused 127.0.0.9"), "{log}");
    assert!(log.contains("no valid hello within 2 s"), "{log}");
    let loud = |line: &&str| line.contains("127.0.0.9") && !line.contains("DEBUG");
    assert_eq!(log.lines().find(loud), None, "at debug level only");
    server.serves_the_next();
}

/// What strangers do, from an address that is not the client's: during crr a connection from the
/// client's address is a transaction. The connections that say nothing stay.
fn stranger_connections(server: &Server) -> Vec<TcpStream> {
    let first_words: [&[u8]; 7] = [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x00\x00\x00\x02{}",
        b"\x00\x00\x00\x04nope",
        b"",
        b"G",
    ];
    let mut kept = Vec::new();
    for words in first_words {
        for _ in 0..10 {
            let mut stream = from_elsewhere(server);
            // It may have been dropped already.
            let _ = stream.write_all(words);
            if words.len() < 2 {
                kept.push(stream);
            }
        }
    }
    kept
}

fn from_elsewhere(server: &Server) -> TcpStream {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, connect, socket};
    use std::os::fd::AsRawFd;
    let flags = SockFlag::SOCK_CLOEXEC;
    let fd = socket(AddressFamily::Inet, SockType::Stream, flags, None).expect("a socket");
    bind(fd.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 9, 0)).expect("all of 127/8 is local");
    let port = server.address.port();
    connect(fd.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, port)).expect("the server listens");
    TcpStream::from(fd)
}

/// A server that speaks to one client as told, then falls silent with the connection open.
fn fake_server(speak: impl FnOnce(&mut TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("bound").to_string();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        read_frame(&mut stream);
        speak(&mut stream);
        // Until the client leaves.
        let mut rest = [0; 4096];
        while matches!(stream.read(&mut rest), Ok(1..)) {}
    });
    address
}

fn read_frame(stream: &mut TcpStream) -> serde_json::Value {
    let mut length = [0; 4];
    stream.read_exact(&mut length).expect("a frame");
    let mut body = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut body).expect("its body");
    serde_json::from_slice(&body).expect("JSON")
}

fn welcome(protocol: u32, version: &str, data_port: u16) -> Vec<u8> {
    encode(&Message::Welcome {
        protocol,
        version: version.to_string(),
        data_port,
        host: Box::new(HostFacts::default()),
    })
    .expect("small")
}

#[test]
fn versions_that_differ_are_both_named() {
    let address = fake_server(|stream| {
        // The client may have left before.
        let _ = stream.write_all(&welcome(99, "9.9.9", 1));
    });
    let ended = ends_within(
        ringperf(&["run", &address, "--json", "-"]),
        Duration::from_secs(1),
    );
    assert_eq!(code(&ended), 4);
    let line = error_line(&ended);
    let own = format!(
        "ringperf {} (protocol {PROTOCOL})",
        env!("CARGO_PKG_VERSION")
    );
    assert!(
        line.contains(&own) && line.contains("ringperf 9.9.9 (protocol 99)"),
        "{line}"
    );
    assert_eq!(document(&ended).error.expect("an error").code, "version");

    let server = Server::start(&[]);
    let mut stream = TcpStream::connect(server.address).expect("it listens");
    let hello = br#"{"type":"hello","protocol":99,"version":"9.9.9"}"#;
    let frame = [&(hello.len() as u32).to_be_bytes()[..], hello].concat();
    stream.write_all(&frame).expect("it reads");
    let answer = read_frame(&mut stream);
    assert_eq!(answer["type"], "refused");
    let text = answer["text"].as_str().expect("a text");
    assert!(
        text.contains(&own) && text.contains("ringperf 9.9.9 (protocol 99)"),
        "{text}"
    );
    drop(stream);
    server.serves_the_next();
}

/// A server that turns hostile after its welcome, in every way that ends with a clear error.
#[test]
fn hostile_words_after_the_welcome() {
    let framed = |body: &str| [&(body.len() as u32).to_be_bytes(), body.as_bytes()].concat();
    let words = [
        b"\xff\xff\xff\xff".to_vec(),
        framed("nope"),
        framed(r#"{"type":"start"}"#),
        framed(r#"{"type":"bye"}"#),
        framed(r#"{"type":"accepted","cookie":-1,"cpus":[]}"#),
        framed(r#"{"type":"results","piece":7,"last":true,"text":"{{{{{{{"}"#),
    ];
    for word in words {
        let said = word.clone();
        let address = fake_server(move |stream| {
            let _ = stream.write_all(&welcome(PROTOCOL, "0.0.1", 1));
            read_frame(stream);
            let _ = stream.write_all(&said);
        });
        let client = ringperf(&["run", &address, "--json", "-", "--peer-timeout", "2s"]);
        let ended = ends_within(client, Duration::from_secs(4));
        let word = String::from_utf8_lossy(&word);
        assert_eq!(code(&ended), 4, "{word}: {ended:?}");
        assert!(!ended.stderr.contains("panicked"), "{word}: {ended:?}");
        let run = document(&ended);
        assert!(!run.complete, "{word}");
        assert!(!error_lines(&ended).is_empty(), "{word}: {ended:?}");
    }
}

/// A client that turns hostile after its welcome is dropped, and the next one served.
#[test]
fn a_hostile_client_is_dropped() {
    let server = Server::start(&[]);
    let hello = encode(&Message::Hello {
        protocol: PROTOCOL,
        version: "0.0.1".to_string(),
        run: "x".to_string(),
        peer_timeout_ns: 2_000_000_000,
        boot: String::new(),
        host: Box::new(HostFacts::default()),
    })
    .expect("small");
    let words: [&[u8]; 4] = [
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x04nope",
        b"\x00\x00\x00\x10{\"type\":\"ready\"}",
        b"",
    ];
    for word in words {
        let mut stream = TcpStream::connect(server.address).expect("it listens");
        stream.write_all(&hello).expect("it reads");
        assert_eq!(read_frame(&mut stream)["type"], "welcome");
        stream.write_all(word).expect("it reads");
        if word.is_empty() {
            drop(stream);
        } else {
            // The server closes: this end does not have to.
            stream.set_read_timeout(Some(STANDING)).expect("a time-out");
            let mut rest = Vec::new();
            let ended = stream.read_to_end(&mut rest);
            assert!(
                ended.is_ok() || ended.is_err_and(|e| e.kind() != std::io::ErrorKind::WouldBlock)
            );
        }
        served_within(&server, Instant::now(), Duration::from_secs(1));
    }
}

fn refused_by_seccomp(errno: i32, name: &str) {
    let denied = seccomp::io_uring(errno);
    let strict = ["--engine", "io_uring", "--duration", "300ms", "--json", "-"];
    // More than one flow: for a single one `auto` takes plain calls by itself.
    let any = [
        "--test",
        "stream,rr",
        "--flows",
        "2",
        "--duration",
        "300ms",
        "--json",
        "-",
    ];
    let filtered = |arguments: &[&str]| {
        let mut command = Command::new(RINGPERF);
        seccomp::deny(command.args(arguments), &denied);
        command
    };

    let server = Server::start(&[]);
    let host = server.host();
    let client = |case: &[&str]| {
        let mut command = filtered(&[&["run", &host], case].concat());
        Running::start(&mut command).ended(STANDING)
    };
    blocked(&client(&strict), "client", name);
    fallen_back(&client(&any), "client", name);
    server.serves_the_next();

    // The refusal comes over a working connection, and the server goes on.
    let mut command = filtered(&["serve", "--bind", "127.0.0.1", "--port", "0"]);
    let server = Server::of(&mut command);
    blocked(&server.client(&strict).ended(STANDING), "server", name);
    fallen_back(&server.client(&any).ended(STANDING), "server", name);
    let log = server.running.stderr();
    assert!(log.contains("without io_uring"), "{log}");

    let mut command = filtered(&[&["run"], &strict[..]].concat());
    let ended = Running::start(&mut command).ended(STANDING);
    assert_eq!(code(&ended), 5, "{ended:?}");
    assert!(error_lines(&ended)[0].contains(name), "{ended:?}");
}

/// The other engine did the work, and the result says so, whose and why.
fn fallen_back(ended: &Ended, side: &str, name: &str) {
    assert_eq!(code(ended), 0, "{ended:?}");
    assert!(!ended.stderr.contains("panicked"), "{ended:?}");
    let run = document(ended);
    assert!(run.complete && run.cases.len() == 2);
    for case in &run.cases {
        let sample = &case.samples[0];
        let counts = &sample.groups[0].figures.reconciliation;
        assert!(counts.reconciled, "{counts:?}");
        let said = sample.findings.iter().find(|f| f.code == "engine-fallback");
        let text = &said.unwrap_or_else(|| panic!("{:?}", sample.findings)).text;
        for needed in [&format!("on the {side}"), name, "seccomp", "Remedy"] {
            assert!(text.contains(needed), "{needed}: {text}");
        }
    }
}

fn blocked(ended: &Ended, side: &str, name: &str) {
    assert_eq!(code(ended), 5, "{ended:?}");
    let line = error_line(ended);
    for needed in [&format!("on the {side}"), name, "seccomp", "Remedy"] {
        assert!(line.contains(needed), "{needed}: {line}");
    }
    let run = document(ended);
    let error = run.cases[0].error.as_ref().expect("the case did not run");
    assert_eq!((error.exit_code, run.complete), (5, false));
    assert!(!ended.stderr.contains("panicked"), "{ended:?}");
}

#[test]
fn io_uring_blocked_with_eperm() {
    refused_by_seccomp(libc::EPERM, "EPERM");
}

#[test]
fn io_uring_blocked_with_enosys() {
    refused_by_seccomp(libc::ENOSYS, "ENOSYS");
}

/// A kernel that has io_uring and cannot be asked what it knows is older than 5.6.
#[test]
fn io_uring_of_an_old_kernel() {
    // The operation, and the same over a registered ring's number.
    let probes = [8, 8 | 1 << 31].map(|operation| Denied {
        call: libc::SYS_io_uring_register,
        only: Some((1, operation)),
        errno: libc::EINVAL,
    });
    let server = Server::start(&[]);
    let mut command = Command::new(RINGPERF);
    command.args(["run", &server.host(), "--engine", "io_uring", "--json", "-"]);
    let ended = Running::start(seccomp::deny(&mut command, &probes)).ended(STANDING);
    assert_eq!(code(&ended), 5, "{ended:?}");
    let line = error_line(&ended);
    for needed in ["on the client", "too old", "5.11"] {
        assert!(line.contains(needed), "{needed}: {line}");
    }
    document(&ended);
    server.serves_the_next();
}

#[test]
fn more_flows_than_descriptors() {
    let server = Server::start(&[]);
    let shell = |command: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("ulimit -n 100; exec {RINGPERF} {command}")]);
        shell
    };
    let flows = "--flows 200 --duration 300ms --json -";
    let client = shell(&format!("run {} {flows}", server.host())).output();
    let client = client.expect("a shell");
    let limited = Server::of(&mut shell("serve --bind 127.0.0.1 --port 0"));
    let flows: Vec<&str> = flows.split(' ').collect();
    let ended = limited.client(&flows).ended(STANDING);
    let stderr = String::from_utf8_lossy(&client.stderr).into_owned();
    let stdout = String::from_utf8_lossy(&client.stdout).into_owned();
    let ends = [
        (client.status.code(), stderr, stdout, "client"),
        (ended.status.code(), ended.stderr, ended.stdout, "server"),
    ];
    for (code, stderr, stdout, side) in ends {
        assert_eq!(code, Some(5), "{stderr}");
        let run = support::session::one_document(&stdout);
        let error = run.cases[0].error.as_ref().expect("the case did not run");
        assert_eq!(run.error.as_ref(), Some(error), "the run's own as well");
        assert!(run.cases[0].samples.is_empty(), "no traffic");
        for needed in [
            "descriptors",
            "the limit is 100",
            "needs 2",
            "ulimit -n",
            side,
        ] {
            assert!(error.text.contains(needed), "{needed}: {error:?}");
        }
    }
    server.serves_the_next();
    limited.serves_the_next();
}

#[test]
fn cpus_that_cannot_be_used() {
    let server = Server::start(&[]);
    let allowed = allowed_cpus();
    for (side, flag) in [("client", "--client-cpus"), ("server", "--server-cpus")] {
        let case = [flag, "4000", "--duration", "300ms", "--json", "-"];
        let ended = server.client(&case).ended(STANDING);
        assert_eq!(code(&ended), 2, "{ended:?}");
        let text = run_error(&document(&ended));
        assert!(text.contains("4000") && text.contains(side), "{text}");
    }
    let Some((first, second)) = allowed.first().zip(allowed.get(1)) else {
        return;
    };
    // The client may run on one CPU and is told to use another.
    let (only, other) = (first.to_string(), second.to_string());
    let mut command = Command::new("taskset");
    command.args(["-c", &only, RINGPERF, "run", &server.host()]);
    command.args([
        "--client-cpus",
        &other,
        "--duration",
        "300ms",
        "--json",
        "-",
    ]);
    let ended = Running::start(&mut command).ended(STANDING);
    assert_eq!(code(&ended), 5, "{ended:?}");
    let text = run_error(&document(&ended));
    assert!(
        text.contains(&format!("CPU {other}")) && text.contains("may not be used"),
        "{text}"
    );
    server.serves_the_next();
}

fn allowed_cpus() -> Vec<usize> {
    let set = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)).expect("readable");
    (0..nix::sched::CpuSet::count())
        .filter(|cpu| set.is_set(*cpu).unwrap_or(false))
        .collect()
}

/// What a run says first about why it failed.
fn run_error(run: &Run) -> String {
    let of_cases = run.cases.iter().filter_map(|case| case.error.as_ref());
    let first = run.error.iter().chain(of_cases).next();
    first
        .unwrap_or_else(|| panic!("no error: {run:?}"))
        .text
        .clone()
}

#[test]
fn devices_that_cannot_be_used() {
    let server = Server::start(&[]);
    let ended = server
        .client(&["--device", "nosuch0", "--json", "-"])
        .ended(STANDING);
    assert_eq!(code(&ended), 2, "{ended:?}");
    let text = run_error(&document(&ended));
    assert!(
        text.contains("--device nosuch0") && text.contains("ip link"),
        "{text}"
    );

    let denied = Denied {
        call: libc::SYS_setsockopt,
        only: Some((2, libc::SO_BINDTODEVICE as u32)),
        errno: libc::EPERM,
    };
    let mut command = Command::new(RINGPERF);
    command.args(["run", &server.host(), "--device", "lo", "--json", "-"]);
    let ended = Running::start(seccomp::deny(&mut command, &[denied])).ended(STANDING);
    assert_eq!(code(&ended), 5, "{ended:?}");
    let text = run_error(&document(&ended));
    assert!(
        text.contains("--device lo") && text.contains("CAP_NET"),
        "{text}"
    );
    server.serves_the_next();
}

/// A value beyond what the host has is a usage error; what the host cannot do now is the host's.
#[test]
fn addresses_and_ports_that_cannot_be_had() {
    let server = Server::start(&[]);
    let (port, vacant) = (server.address.port().to_string(), "0");
    for (asked, expected, remedy) in [
        (
            ["serve", "--bind", "192.0.2.9", "--port", vacant],
            2,
            "an address of this host",
        ),
        (
            ["serve", "--bind", "127.0.0.1", "--port", &port],
            5,
            "another program has the port",
        ),
    ] {
        let ended = ends_within(ringperf(&asked), Duration::from_secs(1));
        assert_eq!(code(&ended), expected, "{ended:?}");
        assert!(error_line(&ended).contains(remedy), "{ended:?}");
    }
    let ended = server
        .client(&["--bind", "192.0.2.9", "--json", "-"])
        .ended(STANDING);
    assert_eq!(code(&ended), 2, "{ended:?}");
    let text = run_error(&document(&ended));
    assert!(text.contains("--bind"), "{text}");
}

/// What one option needs is not said of another.
#[test]
fn an_option_without_its_privilege_names_what_it_needs() {
    let server = Server::start(&[]);
    let denied = Denied {
        call: libc::SYS_setsockopt,
        only: Some((2, libc::SO_RCVBUFFORCE as u32)),
        errno: libc::EPERM,
    };
    let mut command = Command::new(RINGPERF);
    command.args(["run", &server.host(), "--rcvbuf", "1M", "--json", "-"]);
    let ended = Running::start(seccomp::deny(&mut command, &[denied])).ended(STANDING);
    assert_eq!(code(&ended), 5, "{ended:?}");
    let text = run_error(&document(&ended));
    assert!(
        text.contains("--rcvbuf") && text.contains("CAP_NET_ADMIN") && !text.contains("device"),
        "{text}"
    );
}

#[test]
fn impossible_combinations_come_all_at_once() {
    let asked = [
        "run",
        "127.0.0.1",
        "--proto",
        "udp,tcp",
        "--test",
        "crr,rr",
        "--gso",
        "4",
        "--bytes",
        "1M",
        "--transactions",
        "5",
        "--rate",
        "5",
        "--bitrate",
        "5M",
        "--json",
        "-",
    ];
    let ended = ends_within(ringperf(&asked), Duration::from_secs(1));
    assert_eq!(code(&ended), 2, "{ended:?}");
    let run = document(&ended);
    let error = run.error.expect("an error");
    assert_eq!((error.exit_code, run.cases.len()), (2, 0));
    let groups: [&[&str]; 4] = [
        &["crr", "udp"],
        &["--gso"],
        &["--bytes", "--transactions"],
        &["--rate", "--bitrate"],
    ];
    for flags in groups {
        let named = |line: &str| flags.iter().all(|flag| line.contains(flag));
        assert!(error.text.lines().any(named), "{flags:?}: {}", error.text);
        assert!(
            ended.stderr.lines().any(named),
            "{flags:?}: {}",
            ended.stderr
        );
    }
}

#[test]
fn what_the_command_line_does_not_know() {
    for asked in [
        &["run", "--nosuch", "--json", "-"][..],
        &["run", "--size", "many", "--json", "-"],
        &["run", "h", "--json-stream", "--flows", "0"],
    ] {
        let ended = ends_within(ringperf(asked), Duration::from_secs(1));
        assert_eq!(code(&ended), 2, "{ended:?}");
        assert_eq!(document(&ended).error.expect("an error").exit_code, 2);
        assert!(!ended.stderr.is_empty());
    }
}
