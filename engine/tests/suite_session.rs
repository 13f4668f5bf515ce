//! Ports, sessions, start and stop: two processes over loopback, without privilege.

mod support;

use std::collections::HashSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant};

use ringperf::control::crew::FlowKey;
use ringperf::control::hello::{Reply, UdpRequest, Verdict};
use ringperf::control::wire::{Message, PROTOCOL, encode};
use ringperf::record::{HostFacts, Run};
use ringperf::traffic::udp::Phase;
use support::process::{RINGPERF, Running};
use support::relay::{Harm, IsData, Relay, Script, of_phase};
use support::session::{STANDING, Server, code, document, vacant_address, wait_for_intervals};

const SHORT: [&str; 6] = [
    "--duration",
    "200ms",
    "--warmup",
    "100ms",
    "--interval",
    "100ms",
];
const LONG: [&str; 6] = ["--duration", "60s", "--warmup", "0s", "--interval", "100ms"];
/// Every kind but crr; at a rate, so that datagrams arrive on a busy machine too.
const ALL_KINDS: [&str; 6] = [
    "--proto",
    "tcp,udp",
    "--test",
    "stream,reverse,bidir,rr",
    "--rate",
    "200",
];

fn json(server: &Server, arguments: &[&str]) -> Run {
    let ended = server
        .client(&[arguments, &SHORT, &["--json", "-"]].concat())
        .ended(STANDING);
    assert_eq!(code(&ended), 0, "{ended:?}");
    document(&ended)
}

/// The server's ports as the client's flows see them.
fn data_ports(run: &Run) -> HashSet<u16> {
    let samples = run.cases.iter().flat_map(|case| &case.samples);
    let flows = samples.flat_map(|sample| &sample.flows);
    flows
        .map(|flow| {
            let (client, server) = (flow.client.as_ref(), flow.server.as_ref());
            let (client, server) = (client.expect("its view"), server.expect("its view"));
            assert_eq!(client.local, server.peer, "both saw the same flow");
            assert_eq!(client.peer, server.local, "both saw the same flow");
            client
                .peer
                .parse::<SocketAddr>()
                .expect("an address")
                .port()
        })
        .collect()
}

#[test]
fn one_port_carries_everything() {
    let server = Server::start(&["--one-off"]);
    let port = server.address.port();
    let run = json(&server, &ALL_KINDS);
    assert_eq!(run.cases.len(), 8);
    assert_eq!(data_ports(&run), HashSet::from([port]));
    // A session is a whole plan, and one was to be served.
    let ended = server.running.ended(STANDING);
    assert_eq!(code(&ended), 0, "{ended:?}");
    assert_eq!(ended.stderr.matches("session 1: 127.0.0.1").count(), 1);
}

#[test]
fn data_may_have_a_port_of_its_own() {
    // The first port of the range is taken, so that the second is used.
    let (taken, free) = neighbours();
    let range = format!("{}-{free}", taken.local_addr().expect("bound").port());
    let server = Server::start(&["--data-port", &range]);
    let run = json(&server, &ALL_KINDS);
    assert_eq!(data_ports(&run), HashSet::from([free]));
    let run = json(&server, &["--test", "crr"]);
    assert!(run.complete);
}

/// A port that is taken and the number after it, which is free.
fn neighbours() -> (TcpListener, u16) {
    for _ in 0..100 {
        let taken = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let next = taken.local_addr().expect("bound").port() + 1;
        let free = TcpListener::bind(("127.0.0.1", next)).is_ok()
            && UdpSocket::bind(("127.0.0.1", next)).is_ok();
        if free {
            return (taken, next);
        }
    }
    panic!("no two neighbouring ports are free");
}

#[test]
fn a_busy_server_says_with_whom_what_and_for_how_long() {
    let server = Server::start(&[]);
    let first = server.client(&[&LONG[..], &["--size", "4K"]].concat());
    wait_for_intervals(&first, 12);
    let ended = server.client(&["--json", "-"]).ended(STANDING);
    assert_eq!(code(&ended), 4, "{ended:?}");
    let run = document(&ended);
    let error = run.error.expect("an error");
    assert_eq!(
        (error.exit_code, error.code.as_str(), run.cases.len()),
        (4, "busy", 0)
    );
    let text = &error.text;
    let needed = [
        "busy with 127.0.0.1:",
        "tcp stream 4K",
        " s;",
        "--max-sessions",
    ];
    assert!(needed.iter().all(|needed| text.contains(needed)), "{text}");
    let seconds = text
        .split(" for ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next());
    let seconds: u64 = seconds.and_then(|s| s.parse().ok()).expect("a number");
    assert!((1..60).contains(&seconds), "{text}");
    first.signal("INT");
    assert_eq!(code(&first.ended(STANDING)), 130);
    server.serves_the_next();
}

#[test]
fn as_many_sessions_as_allowed_at_once() {
    let server = Server::start(&["--max-sessions", "2"]);
    let paced = ["--proto", "udp", "--bitrate", "1M"];
    let first = server.client(&[&paced[..], &LONG].concat());
    wait_for_intervals(&first, 4);
    let second = json(&server, &["--test", "rr", "--flows", "3"]);
    assert!(second.complete);
    let counts = &second.cases[0].samples[0].groups[0].figures.reconciliation;
    assert!(counts.reconciled, "{counts:?}");
    let third = server.client(&[&paced[..], &LONG].concat());
    wait_for_intervals(&third, 4);
    let ended = server.client(&[]).ended(STANDING);
    assert!(
        code(&ended) == 4 && ended.stderr.contains(" and "),
        "{ended:?}"
    );
    for client in [first, third] {
        client.signal("INT");
        let ended = client.ended(STANDING);
        assert_eq!(code(&ended), 130, "{ended:?}");
    }
}

#[test]
fn limits_refuse_by_name_before_traffic() {
    let cases: [(&[&str], &[&str]); 5] = [
        (&["--max-duration", "5s"], &["--duration", "6s"]),
        (&["--max-flows", "3"], &["--flows", "2", "--test", "bidir"]),
        (&["--max-bitrate", "1M"], &["--bitrate", "2M"]),
        (&["--max-bitrate", "1M"], &["--proto", "udp"]),
        (&["--allow", "10.0.0.0/8,127.1.0.0/16"], &["--test", "rr"]),
    ];
    for (limit, asked) in cases {
        let server = Server::start(limit);
        let ended = server
            .client(&[asked, &["--json", "-"]].concat())
            .ended(STANDING);
        assert_eq!(code(&ended), 4, "{limit:?}: {ended:?}");
        let run = document(&ended);
        assert!(
            run.cases.iter().all(|case| case.samples.is_empty()),
            "no traffic"
        );
        let of_case = run.cases.first().and_then(|case| case.error.as_ref());
        let error = run.error.as_ref().or(of_case).expect("an error");
        assert!(error.text.contains(limit[0]), "{limit:?}: {error:?}");
        assert!(ended.stderr.contains(limit[0]), "{limit:?}: {ended:?}");
        if limit[0] != "--allow" {
            let within = ["--duration", "100ms", "--warmup", "0s", "--bitrate", "1M"];
            assert_eq!(code(&server.client(&within).ended(STANDING)), 0);
        }
    }
}

/// A case that is refused does not keep the others from running.
#[test]
fn a_refused_case_is_one_of_many() {
    let server = Server::start(&["--max-flows", "2"]);
    let asked = ["--flows", "1,3,2", "--json", "-"];
    let ended = server
        .client(&[&asked[..], &SHORT].concat())
        .ended(STANDING);
    assert_eq!(code(&ended), 4, "{ended:?}");
    let run = document(&ended);
    let ran: Vec<_> = run
        .cases
        .iter()
        .map(|case| (case.samples.len(), case.error.is_some()))
        .collect();
    assert_eq!(ran, [(1, false), (0, true), (1, false)]);
    assert!(!run.complete);
}

/// An amount that a time limit ends: what was moved until then is kept.
#[test]
fn an_amount_ends_at_the_time_limit() {
    let server = Server::start(&["--max-duration", "1s"]);
    let asked = [
        "--test",
        "rr",
        "--transactions",
        "1G",
        "--interval",
        "100ms",
        "--json",
        "-",
    ];
    let ended = server.client(&asked).ended(STANDING);
    assert_eq!(code(&ended), 4, "{ended:?}");
    let run = document(&ended);
    let sample = &run.cases[0].samples[0];
    let error = sample.error.as_ref().expect("why it ended");
    assert!(error.text.contains("--max-duration"), "{error:?}");
    let transactions = sample.groups[0].figures.transactions.expect("of rr");
    assert!(
        !sample.complete && transactions.done > 0,
        "{transactions:?}"
    );
}

#[test]
fn one_session_and_no_more() {
    let server = Server::start(&["--one-off"]);
    let first = server.client(&LONG);
    wait_for_intervals(&first, 4);
    let ended = server.client(&[]).ended(STANDING);
    assert!(
        code(&ended) == 4 && ended.stderr.contains("--one-off"),
        "{ended:?}"
    );
    first.signal("KILL");
    let ended = server.running.ended(STANDING);
    assert_eq!(code(&ended), 4, "its only session was lost: {ended:?}");
    assert!(ended.stderr.contains("the client was lost"), "{ended:?}");
}

#[test]
fn waiting_for_a_server() {
    let address = vacant_address();
    let start = |wait| {
        let arguments = [
            "-vv",
            "run",
            &address.to_string(),
            "--wait-for-server",
            wait,
        ];
        Running::start(Command::new(RINGPERF).args(arguments).args(SHORT))
    };
    let waits = start("60s");
    waits.wait_for_stderr("trying again", STANDING);
    let mut command = Command::new(RINGPERF);
    let (ip, port) = (address.ip().to_string(), address.port().to_string());
    let server = Server::of(command.args(["serve", "--bind", &ip, "--port", &port]));
    let ended = waits.ended(STANDING);
    assert_eq!(code(&ended), 0, "{ended:?}");
    drop(server);

    let from = Instant::now();
    let ended = start("1s").ended(STANDING);
    assert_eq!(code(&ended), 4, "{ended:?}");
    assert!(
        from.elapsed() >= Duration::from_secs(1),
        "{:?}",
        from.elapsed()
    );
}

fn hello() -> Vec<u8> {
    encode(&Message::Hello {
        protocol: PROTOCOL,
        version: "0.0.1".to_string(),
        run: "x".to_string(),
        peer_timeout_ns: 60_000_000_000,
        boot: String::new(),
        host: Box::new(HostFacts::default()),
    })
    .expect("small")
}

/// Reads until the other side closes; how long that took.
fn closed_after(stream: &mut TcpStream) -> Duration {
    let from = Instant::now();
    stream.set_read_timeout(Some(STANDING)).expect("a time-out");
    let mut bytes = [0; 4096];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return from.elapsed(),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return from.elapsed(),
            Err(error) => panic!("still open: {error}"),
        }
    }
}

#[test]
fn an_idle_session_ends() {
    let server = Server::start(&[]);
    let mut stream = TcpStream::connect(server.address).expect("it listens");
    stream.write_all(&hello()).expect("it reads");
    let ended = server.client(&[]).ended(STANDING);
    assert!(ended.stderr.contains("busy"), "it has a session: {ended:?}");
    let took = closed_after(&mut stream);
    assert!(
        took > Duration::from_secs(4) && took < Duration::from_secs(14),
        "{took:?}"
    );
    server.serves_the_next();
}

#[test]
fn a_connection_without_a_hello_takes_no_session() {
    let server = Server::start(&[]);
    let mut silent = TcpStream::connect(server.address).expect("it listens");
    let mut slow = TcpStream::connect(server.address).expect("it listens");
    slow.write_all(&hello()[..9]).expect("it reads");
    server.serves_the_next();
    for stream in [&mut silent, &mut slow] {
        let took = closed_after(stream);
        assert!(took < Duration::from_secs(5), "{took:?}");
    }
}

#[test]
fn a_port_that_is_taken() {
    let server = Server::start(&[]);
    let port = server.address.port().to_string();
    let mut command = Command::new(RINGPERF);
    command.args(["serve", "--bind", "127.0.0.1", "--port", &port]);
    let ended = Running::start(&mut command).ended(STANDING);
    assert_eq!(code(&ended), 5, "{ended:?}");
    assert!(
        ended.stderr.contains(&server.host()) && ended.stderr.contains("in use"),
        "{ended:?}"
    );
}

/// Every second connection goes to the other of two servers, as behind a balancer.
#[test]
fn two_servers_behind_one_address() {
    let servers = [Server::start(&[]), Server::start(&[])];
    let behind = servers.each_ref().map(|server| server.address);
    let balancer = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = balancer.local_addr().expect("bound").to_string();
    // Ends with the test's process; every copy ends with its connection.
    std::thread::spawn(move || {
        for (client, server) in balancer.incoming().zip(behind.into_iter().cycle()) {
            let client = client.expect("accepted");
            let server = TcpStream::connect(server).expect("it listens");
            for (from, to) in [(&client, &server), (&server, &client)] {
                let mut from = from.try_clone().expect("cloned");
                let mut to = to.try_clone().expect("cloned");
                std::thread::spawn(move || {
                    // Either end may leave first.
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(std::net::Shutdown::Write);
                });
            }
        }
    });
    let mut command = Command::new(RINGPERF);
    command.args(["run", &address, "--json", "-"]).args(SHORT);
    let ended = Running::start(&mut command).ended(STANDING);
    assert_eq!(code(&ended), 4, "{ended:?}");
    assert!(ended.stderr.contains("reached another server"), "{ended:?}");
    let run = document(&ended);
    assert!(run.cases[0].samples.is_empty(), "no traffic");
    servers[0].serves_the_next();
}

/// The relay has another port than the server, and so does every flow beyond it.
#[test]
fn a_path_that_translates_says_so() {
    let server = Server::start(&[]);
    let listen = "127.0.0.1:0".parse().expect("an address");
    let script = Script::default();
    let relay = Relay::start(listen, server.address, script, of_phase(Phase::Window));
    let relay = relay.expect("a relay");
    let host = relay.address().to_string();
    let mut command = Command::new(RINGPERF);
    command
        .args(["run", &host, "--test", "rr", "--proto", "tcp,udp"])
        .args(SHORT);
    let ended = Running::start(command.args(["--json", "-"])).ended(STANDING);
    assert_eq!(code(&ended), 0, "{ended:?}");
    for case in document(&ended).cases {
        let findings = &case.samples[0].findings;
        let said = findings
            .iter()
            .find(|finding| finding.code == "path-translated");
        let text = &said.unwrap_or_else(|| panic!("{findings:?}")).text;
        assert!(
            text.contains(&host) && text.contains(&server.host()),
            "{text}"
        );
    }
    let direct = json(&server, &["--test", "rr"]);
    let findings = &direct.cases[0].samples[0].findings;
    assert!(
        findings
            .iter()
            .all(|finding| finding.code != "path-translated")
    );
}

/// Datagrams of this size; those that open flows have others.
fn of_size(bytes: usize) -> IsData {
    std::sync::Arc::new(move |payload| payload.len() == bytes)
}

/// Every datagram of the window lost: the sample ends in time, and every loss is counted.
#[test]
fn udp_rr_without_a_single_answer() {
    let server = Server::start(&[]);
    let listen = "127.0.0.1:0".parse().expect("an address");
    for to_client in [false, true] {
        let all = Harm {
            drop_every: 1,
            ..Harm::default()
        };
        let script = match to_client {
            true => Script {
                to_client: all,
                ..Script::default()
            },
            false => Script {
                to_server: all,
                ..Script::default()
            },
        };
        let relay = Relay::start(listen, server.address, script, of_size(100));
        let relay = relay.expect("a relay");
        let host = relay.address().to_string();
        let mut command = Command::new(RINGPERF);
        command.args([
            "run", &host, "--proto", "udp", "--test", "rr", "--size", "100",
        ]);
        command.args([
            "--timeout",
            "50ms",
            "--duration",
            "1s",
            "--warmup",
            "0s",
            "--json",
            "-",
        ]);
        let ended = Running::start(&mut command).ended(STANDING);
        assert_eq!(code(&ended), 4, "{ended:?}");
        assert!(ended.stderr.contains("was answered"), "{ended:?}");
        let run = document(&ended);
        let [sample] = run.cases[0].samples.as_slice() else {
            panic!("it ran: {ended:?}")
        };
        let group = &sample.groups[0].figures;
        let counts = group.transactions.expect("of rr");
        assert_eq!(counts.done, 0, "{counts:?}");
        assert!(counts.failed >= 10, "one in 50 ms: {counts:?}");
        assert_eq!(
            counts.started,
            counts.failed + counts.in_flight,
            "{counts:?}"
        );
        assert!(
            group.reconciliation.reconciled,
            "{:?}",
            group.reconciliation
        );
    }
}

/// Nothing that a made-up address could have asked for is larger than the question, and none of
/// it is traffic.
#[test]
fn no_reflection() {
    let server = Server::start(&[]);
    let attacker = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    attacker.connect(server.address).expect("loopback");
    attacker
        .set_read_timeout(Some(Duration::from_millis(500)))
        .expect("a time-out");
    let key = FlowKey { group: 0, flow: 0 };
    let ask = |nonce| {
        UdpRequest {
            cookie: 1,
            key,
            nonce,
        }
        .encode()
    };
    let asked = [
        &ask(None)[..],
        &ask(Some(3)),
        b"",
        b"x",
        &[0xff; 96],
        &[0x52; 1400],
    ];
    for question in asked {
        attacker.send(question).expect("sent");
        let (mut answered, mut answers) = (0, Vec::new());
        let mut bytes = [0; 65_536];
        while let Ok(length) = attacker.recv(&mut bytes) {
            answered += length;
            answers.extend(Reply::decode(&bytes[..length]).map(|reply| reply.verdict));
        }
        assert!(
            answered <= question.len(),
            "{answered} for {}",
            question.len()
        );
        let nonce_only = |verdict: &Verdict| matches!(verdict, Verdict::Nonce(_));
        assert!(answers.iter().all(nonce_only), "{answers:?}");
    }
    server.serves_the_next();
}

/// What a connection that broke off still waited for is not the answer of the next one: none
/// comes sooner than the think time after its own request.
#[test]
fn a_think_time_ends_with_its_connection() {
    const THINK: Duration = Duration::from_millis(500);
    let server = Server::start(&[]);
    let crr = ["--test", "crr", "--think", "500ms", "--duration", "60s"];
    let client = server.client(&[&crr[..], &["--warmup", "0s", "--interval", "100ms"]].concat());
    wait_for_intervals(&client, 2);
    let ask = || {
        let mut stream = TcpStream::connect(server.address).expect("a transaction's connection");
        stream.write_all(&[0]).expect("a request");
        (stream, Instant::now())
    };
    drop(ask());
    // Long enough for the first answer to come in the time of the second.
    std::thread::sleep(THINK / 2);
    let (mut stream, asked) = ask();
    stream.set_read_timeout(Some(STANDING)).expect("an option");
    let answered = stream.read(&mut [0; 8]).expect("an answer");
    assert_eq!(answered, 1, "the response's byte");
    assert!(asked.elapsed() >= THINK, "after {:?}", asked.elapsed());
    client.signal("INT");
    assert_eq!(code(&client.ended(STANDING)), 130);
}
