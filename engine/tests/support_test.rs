//! Tests of what the other integration tests rely on.

mod support;

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ringperf::measure::histogram::Recorded;
use ringperf::traffic::schedule::Schedule;
use ringperf::traffic::udp::{Header, Phase, Tracker};
use support::alloc::{self, Counting};
use support::netns::{Namespace, Veth, can_make_namespaces};
use support::process::Running;
use support::relay::{Did, Harm, Relay, Script, of_phase};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const LOOPBACK: &str = "127.0.0.1:0";

fn udp() -> UdpSocket {
    let socket = UdpSocket::bind(LOOPBACK).expect("loopback");
    socket
        .set_read_timeout(Some(Duration::from_millis(400)))
        .expect("a time-out");
    socket
}

fn datagram(phase: Phase, sequence: u64) -> [u8; 32] {
    let mut bytes = [0; 32];
    Header {
        session: 7,
        flow: 1,
        phase,
        sequence,
        stamp_ns: 0,
    }
    .encode(&mut bytes);
    bytes
}

fn relay_to(server: &UdpSocket, script: Script) -> Relay {
    let server = server.local_addr().expect("bound");
    let listen = LOOPBACK.parse().expect("an address");
    Relay::start(listen, server, script, of_phase(Phase::Window)).expect("a relay")
}

/// What a receiving thread and the sender tell each other.
#[derive(Default)]
struct Progress {
    arrived: AtomicU64,
    all_sent: AtomicBool,
}

/// Sends `count` numbered datagrams of the window through a relay, so few at a time that no
/// socket drops one; what arrived, in order.
fn through(harm: Harm, count: u64) -> (Vec<u64>, Did) {
    let server = udp();
    let relay = relay_to(
        &server,
        Script {
            to_server: harm,
            ..Script::default()
        },
    );
    let progress = Arc::new(Progress::default());
    let receiving = {
        let progress = progress.clone();
        std::thread::spawn(move || until_silence(&server, &progress))
    };
    let client = udp();
    client.connect(relay.address()).expect("loopback");
    let until = Instant::now() + Duration::from_secs(20);
    for sequence in 0..count {
        client
            .send(&datagram(Phase::Window, sequence))
            .expect("taken");
        let settled = || {
            let did = relay.did().to_server;
            let arrived = progress.arrived.load(Ordering::SeqCst);
            (arrived + did.dropped).saturating_sub(did.duplicated)
        };
        // Fewer on the way than the smallest of socket buffers holds, more than a script holds.
        while settled() + 60 < sequence {
            assert!(
                Instant::now() < until,
                "datagrams do not arrive: {:?}",
                relay.did()
            );
            std::thread::sleep(Duration::from_micros(100));
        }
    }
    progress.all_sent.store(true, Ordering::SeqCst);
    (receiving.join().expect("no panic"), relay.did())
}

/// The sequence numbers that arrive until, after the last was sent, nothing does for a time-out.
fn until_silence(server: &UdpSocket, progress: &Progress) -> Vec<u64> {
    let mut arrived = Vec::new();
    let mut bytes = [0; 64];
    let mut last_round = false;
    loop {
        match server.recv(&mut bytes) {
            Ok(len) => {
                arrived.push(
                    Header::decode(&bytes[..len])
                        .expect("as it was sent")
                        .sequence,
                );
                progress.arrived.fetch_add(1, Ordering::SeqCst);
            }
            Err(_) if last_round => return arrived,
            Err(_) => last_round = progress.all_sent.load(Ordering::SeqCst),
        }
    }
}

#[test]
fn a_relay_without_a_script_changes_nothing() {
    let (arrived, did) = through(Harm::default(), 500);
    assert_eq!(arrived, (0..500).collect::<Vec<_>>());
    assert_eq!((did.to_server.data, did.to_server.dropped), (500, 0));
    assert_eq!((did.to_server.duplicated, did.to_server.held), (0, 0));
}

#[test]
fn a_relay_drops_duplicates_and_holds_back_by_number() {
    let drop = Harm {
        drop_every: 5,
        ..Harm::default()
    };
    assert_eq!(through(drop, 11).0, [0, 1, 2, 3, 5, 6, 7, 8, 10]);
    let duplicate = Harm {
        duplicate_every: 3,
        ..Harm::default()
    };
    assert_eq!(through(duplicate, 7).0, [0, 1, 2, 2, 3, 4, 5, 5, 6]);
    let hold = Harm {
        hold_every: 4,
        hold_by: 2,
        ..Harm::default()
    };
    let (arrived, did) = through(hold, 8);
    // The last is held for want of others and goes on by itself, overtaken by none.
    assert_eq!(arrived, [0, 1, 2, 4, 5, 3, 6, 7]);
    assert_eq!((did.to_server.held, did.to_server.overtaken), (2, 1));
}

#[test]
fn what_a_relay_did_is_what_the_receiver_concludes() {
    let count = 5_000;
    let harm = Harm {
        drop_every: 7,
        duplicate_every: 11,
        hold_every: 13,
        hold_by: 5,
    };
    let (arrived, did) = through(harm, count);
    let mut tracker = Tracker::new();
    for sequence in arrived {
        tracker.arrived(Phase::Window, sequence);
    }
    let (account, did) = (tracker.account(), did.to_server);
    assert_eq!((did.data, did.refused), (count, 0));
    assert!(
        did.dropped > 700 && did.duplicated > 300 && did.overtaken > 300,
        "{did:?}"
    );
    assert_eq!(account.gaps[1] + (count - account.highest[1]), did.dropped);
    assert_eq!(account.duplicated[1], did.duplicated);
    assert_eq!(account.reordered[1], did.overtaken);
    assert_eq!(account.received[1], count - did.dropped);
    assert!(
        (3..=5).contains(&account.extent_max),
        "{}",
        account.extent_max
    );
}

#[test]
fn a_relay_passes_answers_and_leaves_other_datagrams_alone() {
    let server = udp();
    let all = Harm {
        drop_every: 1,
        ..Harm::default()
    };
    let relay = relay_to(
        &server,
        Script {
            to_client: all,
            ..Script::default()
        },
    );
    let client = udp();
    client.send_to(b"hello", relay.address()).expect("taken");
    let mut bytes = [0; 64];
    let (len, from) = server.recv_from(&mut bytes).expect("the hello");
    assert_eq!(&bytes[..len], b"hello");
    server.send_to(b"welcome", from).expect("taken");
    server
        .send_to(&datagram(Phase::WarmUp, 0), from)
        .expect("taken");
    server
        .send_to(&datagram(Phase::Window, 0), from)
        .expect("taken");
    server
        .send_to(&datagram(Phase::After, 0), from)
        .expect("taken");
    let mut answers = Vec::new();
    while let Ok((len, from)) = client.recv_from(&mut bytes) {
        assert_eq!(
            from,
            relay.address(),
            "answers come from where the request went"
        );
        answers.push(bytes[..len].to_vec());
    }
    assert_eq!(answers[0], b"welcome");
    assert_eq!(answers[1], datagram(Phase::WarmUp, 0));
    assert_eq!(answers[2], datagram(Phase::After, 0));
    assert_eq!(answers.len(), 3);
    let did = relay.did();
    assert_eq!((did.to_client.untouched, did.to_client.dropped), (3, 1));
    assert_eq!(did.to_server.untouched, 1);
}

#[test]
fn a_relay_keeps_clients_apart() {
    let server = udp();
    let harm = Harm {
        drop_every: 2,
        ..Harm::default()
    };
    let relay = relay_to(
        &server,
        Script {
            to_server: harm,
            ..Script::default()
        },
    );
    let clients = [udp(), udp()];
    for client in &clients {
        // The first of each passes, whatever the other sent.
        client
            .send_to(&datagram(Phase::Window, 0), relay.address())
            .expect("taken");
        let mut bytes = [0; 64];
        let (_, from) = server
            .recv_from(&mut bytes)
            .expect("the first of this client");
        server.send_to(b"for you", from).expect("taken");
        assert_eq!(client.recv(&mut bytes).expect("its own answer"), 7);
    }
}

#[test]
fn a_relay_passes_tcp_both_ways_with_its_ends() {
    let listener = TcpListener::bind(LOOPBACK).expect("loopback");
    let server = listener.local_addr().expect("bound");
    let echo = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().expect("the relay");
        let mut bytes = Vec::new();
        socket
            .read_to_end(&mut bytes)
            .expect("all of it, then the end");
        socket.write_all(&bytes).expect("the client is there");
        bytes.len()
    });
    let listen = LOOPBACK.parse().expect("an address");
    let none = Arc::new(|_: &[u8]| false);
    let relay = Relay::start(listen, server, Script::default(), none).expect("a relay");
    let mut client = TcpStream::connect(relay.address()).expect("the relay listens");
    let sent: Vec<u8> = (0..1_000_000u32).map(|i| i as u8).collect();
    client.write_all(&sent).expect("taken");
    client.shutdown(Shutdown::Write).expect("open until now");
    let mut back = Vec::new();
    client
        .read_to_end(&mut back)
        .expect("the echo, then the end");
    assert!(back == sent, "{} bytes came back changed", back.len());
    assert_eq!(echo.join().expect("no panic"), sent.len());
}

#[test]
fn dropping_a_relay_ends_its_connections() {
    let listener = TcpListener::bind(LOOPBACK).expect("loopback");
    let server = listener.local_addr().expect("bound");
    let listen = LOOPBACK.parse().expect("an address");
    let none = Arc::new(|_: &[u8]| false);
    let relay = Relay::start(listen, server, Script::default(), none).expect("a relay");
    let mut client = TcpStream::connect(relay.address()).expect("the relay listens");
    let _server = listener.accept().expect("through the relay");
    drop(relay);
    client
        .set_read_timeout(Some(Duration::from_secs(5)))
        .expect("a time-out");
    assert_eq!(client.read(&mut [0; 8]).expect("an end, not a time-out"), 0);
}

#[test]
fn allocations_of_this_thread_are_counted() {
    let (_, nothing) = alloc::count_here(|| std::hint::black_box(1 + 1));
    assert_eq!((nothing.allocations, nothing.frees), (0, 0));
    let (kept, counts) = alloc::count_here(|| {
        drop(std::hint::black_box(vec![1u8; 100]));
        std::hint::black_box(Box::new(5))
    });
    assert_eq!((*kept, counts.allocations, counts.frees), (5, 2, 1));
}

#[test]
fn allocations_of_threads_are_counted_by_the_beginning_of_their_name() {
    let work = |name: &str, boxes: u64| {
        let allocate = move || {
            for i in 0..boxes {
                drop(std::hint::black_box(Box::new(i)));
            }
        };
        let thread = std::thread::Builder::new()
            .name(name.to_string())
            .spawn(allocate);
        thread.expect("a thread").join().expect("no panic");
    };
    let watch = alloc::watch_threads("rp-counted");
    work("rp-other", 5_000);
    assert_eq!(watch.so_far().allocations, 0);
    work("rp-counted-3", 1_000);
    let counts = watch.end();
    // A few more are the standard library's, which names a thread before it starts its work.
    assert!((1_000..1_100).contains(&counts.allocations), "{counts:?}");
    assert!((1_000..1_100).contains(&counts.frees), "{counts:?}");
}

#[test]
fn following_sequence_numbers_does_not_allocate() {
    let mut tracker = Tracker::new();
    let (_, counts) = alloc::count_here(|| {
        for sequence in (0..400_000u64).filter(|sequence| sequence % 2 == 0 || sequence % 7 == 0) {
            tracker.arrived(Phase::Window, sequence ^ 6);
        }
    });
    assert_eq!((counts.allocations, counts.frees), (0, 0));
    let account = tracker.account();
    assert!(
        account.reordered[1] > 1_000 && account.gaps[1] > 1_000,
        "{account:?}"
    );
}

#[test]
fn the_schedule_and_the_histograms_do_not_allocate() {
    let mut schedule = Schedule::new(12_345.6, 9, &[8, 2, 5]);
    let (mut interval, mut window) = (Recorded::new(), Recorded::new());
    let (_, counts) = alloc::count_here(|| {
        schedule.start(1_000);
        for _ in 0..100_000 {
            let due = schedule.next_due().expect("there are flows");
            let (own, intended) = schedule.pop_due(due).expect("it is due");
            interval.record(intended << own);
        }
        window.merge(&interval);
        interval.clear();
    });
    assert_eq!((counts.allocations, counts.frees), (0, 0));
    assert_eq!(window.histogram().len() + window.out_of_range(), 100_000);
}

#[test]
fn a_process_is_watched_and_killed_on_drop() {
    let mut shell = std::process::Command::new("sh");
    let running = Running::start(shell.args(["-c", "echo ready; exec sleep 60"]));
    running.wait_for_stdout("ready", Duration::from_secs(5));
    let proc = format!("/proc/{}", running.pid());
    assert!(std::path::Path::new(&proc).exists());
    drop(running);
    assert!(!std::path::Path::new(&proc).exists());

    let mut shell = std::process::Command::new("sh");
    let ended = Running::start(shell.args(["-c", "echo out; echo err >&2; exit 3"]));
    let ended = ended.ended(Duration::from_secs(5));
    assert_eq!(
        (ended.status.code(), &*ended.stdout, &*ended.stderr),
        (Some(3), "out\n", "err\n")
    );

    let running = Running::start(std::process::Command::new("sleep").arg("60"));
    running.signal("TERM");
    assert_eq!(running.ended(Duration::from_secs(5)).status.code(), None);
}

#[test]
fn a_veth_pair_carries_both_families_and_leaves_nothing_behind() {
    if !can_make_namespaces("a_veth_pair_carries_both_families_and_leaves_nothing_behind") {
        return;
    }
    let veth = Veth::new();
    for v6 in [false, true] {
        let address = SocketAddr::new(Veth::server_address(v6), 4_000);
        let listener = {
            let _there = veth.server.enter();
            TcpListener::bind(address).expect("the server's own address")
        };
        let begun = Instant::now();
        {
            let _there = veth.client.enter();
            TcpStream::connect_timeout(&address, Duration::from_secs(2)).expect("at once");
        }
        let (_, peer) = listener.accept().expect("the client");
        let expected: IpAddr = if v6 {
            Veth::CLIENT6.into()
        } else {
            Veth::CLIENT4.into()
        };
        assert_eq!(peer.ip(), expected);
        // A lost first packet would cost a second.
        assert!(
            begun.elapsed() < Duration::from_millis(900),
            "addresses are usable at once"
        );
    }
    assert!(
        veth.client
            .run("ip", &["addr"])
            .contains(&Veth::CLIENT4.to_string())
    );
    let names = [
        veth.client.name().to_string(),
        veth.server.name().to_string(),
    ];
    drop(veth);
    for name in names {
        assert!(!std::path::Path::new("/run/netns").join(name).exists());
    }
}

#[test]
fn a_namespace_goes_away_by_a_panic_and_the_thread_comes_home() {
    if !can_make_namespaces("a_namespace_goes_away_by_a_panic_and_the_thread_comes_home") {
        return;
    }
    let here = || std::fs::read_link("/proc/thread-self/ns/net").expect("a namespace");
    let home = here();
    let mut name = String::new();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let namespace = Namespace::new("panic");
        name = namespace.name().to_string();
        let _there = namespace.enter();
        assert_ne!(here(), home);
        std::panic::resume_unwind(Box::new("as a failing test would"));
    }));
    assert!(panicked.is_err());
    assert_eq!(here(), home);
    assert!(!std::path::Path::new("/run/netns").join(&name).exists());
}

#[test]
fn the_command_under_test_runs_in_a_namespace() {
    if !can_make_namespaces("the_command_under_test_runs_in_a_namespace") {
        return;
    }
    let namespace = Namespace::new("command");
    let ended = namespace
        .ringperf(&["--version"])
        .ended(Duration::from_secs(10));
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
}
