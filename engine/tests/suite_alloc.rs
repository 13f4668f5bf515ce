//! Between start and stop a worker does not touch the allocator, whatever it drives.

mod support;

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use ringperf::measure::journey::{Known, Stamps, View};
use ringperf::plan::{
    Case, Direction, Engine, Family, GroupPlan, Limit, Load, Options, Proto, Test, Traffic,
    ZeroCopy,
};
use ringperf::sys::clock::monotonic_ns;
use ringperf::sys::shared::SharedWords;
use ringperf::worker::{Adopted, Command, EngineKind, Note, WorkerHandle, WorkerPlan, spawn};
use ringperf_ebpf::layout::{RECORD_WORDS, Stamp, WORKER_WORDS, WORKERS_MAX};
use support::alloc::{self, Counting, Counts};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const MS: u64 = 1_000_000;

/// One watch at a time in a process.
fn alone() -> MutexGuard<'static, ()> {
    static WATCH: Mutex<()> = Mutex::new(());
    WATCH.lock().unwrap_or_else(|broken| broken.into_inner())
}

fn case(proto: Proto, test: Test, flows: u32) -> Case {
    let traffic = match test {
        Test::Rr => Traffic::Rr,
        Test::Crr => Traffic::Crr,
        _ => Traffic::Stream,
    };
    let group = |direction| GroupPlan { traffic, direction };
    let up = group(Direction::ClientToServer);
    let down = group(Direction::ServerToClient);
    Case {
        name: "allocation".to_string(),
        proto,
        test,
        groups: match test {
            Test::Bidir => vec![up, down],
            Test::Reverse => vec![down],
            _ => vec![up],
        },
        request_bytes: 1000,
        response_bytes: if traffic == Traffic::Stream { 0 } else { 1000 },
        size_from_path_mtu: false,
        flows,
        workers: 1,
        server_workers: 1,
        depth: None,
        load: Load::Closed,
        family: Family::V4,
        limit: Limit::Duration { ns: 10_000 * MS },
        warmup_ns: 50 * MS,
        interval_ns: 100 * MS,
        options: Options {
            timeout_ns: 50 * MS,
            ..Options::default()
        },
    }
}

fn stream() -> (OwnedFd, OwnedFd) {
    let listener = TcpListener::bind((LOOPBACK, 0)).expect("loopback");
    let address = listener.local_addr().expect("bound");
    let client = TcpStream::connect(address).expect("loopback");
    let (server, _) = listener.accept().expect("connected");
    (client.into(), server.into())
}

fn datagrams() -> (OwnedFd, OwnedFd) {
    let bound = || UdpSocket::bind((LOOPBACK, 0)).expect("loopback");
    let (client, server) = (bound(), bound());
    let address = |socket: &UdpSocket| socket.local_addr().expect("bound");
    client.connect(address(&server)).expect("loopback");
    server.connect(address(&client)).expect("loopback");
    (client.into(), server.into())
}

/// A worker of one side, without flows yet.
fn worker(case: &Case, client: bool, engine: EngineKind) -> WorkerHandle {
    let plan = WorkerPlan {
        index: u32::from(!client),
        workers: 1,
        cpu: None,
        client,
        yields: false,
        engine,
        case: case.clone(),
        session: 7,
    };
    spawn(plan).expect("a thread")
}

fn tell(worker: &WorkerHandle, command: Command) {
    worker.commands.send(command).expect("it listens");
}

fn give_flows(case: &Case, client: &WorkerHandle, server: &WorkerHandle) {
    for group in 0..case.groups.len() as u32 {
        for flow in 0..case.flows {
            let (own, other) = match case.proto {
                Proto::Tcp => stream(),
                Proto::Udp => datagrams(),
            };
            for (worker, socket) in [(client, own), (server, other)] {
                let adopted = Adopted {
                    group,
                    flow,
                    socket,
                };
                tell(worker, Command::Adopt(adopted));
            }
        }
    }
}

fn give_listener(client: &WorkerHandle, server: &WorkerHandle) {
    let listener = TcpListener::bind((LOOPBACK, 0)).expect("loopback");
    let address = listener.local_addr().expect("bound");
    tell(server, Command::Listener(listener.into(), LOOPBACK));
    tell(client, Command::Target(address));
}

fn armed(worker: &WorkerHandle) {
    tell(worker, Command::Arm);
    match worker.notes.recv_timeout(Duration::from_secs(10)) {
        Ok(Note::Armed) => {}
        other => panic!("not armed: {other:?}"),
    }
}

/// What the workers counted and what they did to the allocator while they ran.
struct Watched {
    counts: Counts,
    moved: u64,
    failed: u64,
    lasted: Duration,
}

/// Runs both workers for some intervals, and takes their batches as the control thread does.
fn watch(client: WorkerHandle, server: WorkerHandle) -> Watched {
    let mut workers = [client, server];
    workers.iter().for_each(armed);
    // Saying that it is armed is the last that a worker may allocate for.
    std::thread::sleep(Duration::from_millis(50));
    let watch = alloc::watch_threads("worker-");
    let start = monotonic_ns();
    workers
        .iter()
        .for_each(|worker| worker.signals.start(start));
    // Long enough for the warm-up, the mark and some intervals; longer on a busy machine.
    let begun = Instant::now();
    let least = begun + Duration::from_millis(400);
    let most = least + Duration::from_secs(20);
    let mut batches = 0;
    while Instant::now() < least || batches < 6 && Instant::now() < most {
        for worker in &mut workers {
            while let Some(batch) = worker.batches.take() {
                batches += 1;
                worker.batches.give_back(batch);
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let counts = watch.so_far();
    workers.iter().for_each(|worker| worker.signals.stop());
    drop(watch);
    // Both are waited for before anything is asserted: one that goes on would be counted in the
    // next test.
    let outcomes = workers
        .map(|worker| worker.join().0)
        .map(|outcome| outcome.expect("it ran"));
    assert!(batches >= 6, "{batches} batches of two workers");
    let lasted = begun.elapsed();
    let flows = || outcomes.iter().flat_map(|outcome| &outcome.flows);
    let totals = outcomes.iter().flat_map(|outcome| &outcome.groups);
    Watched {
        counts,
        lasted,
        moved: flows().map(|flow| flow.lifetime.received_bytes).sum(),
        failed: totals.map(|group| group.totals.lifetime.failed).sum(),
    }
}

const ENGINES: [EngineKind; 2] = [EngineKind::IoUring, EngineKind::Sockets];

fn check(what: &str, case: &Case) {
    for engine in ENGINES {
        check_with(&format!("{what} by {engine:?}"), case, engine);
    }
}

fn check_with(what: &str, case: &Case, engine: EngineKind) {
    let (client, server) = (worker(case, true, engine), worker(case, false, engine));
    if case.test == Test::Crr {
        give_listener(&client, &server);
    } else {
        give_flows(case, &client, &server);
    }
    let watched = watch(client, server);
    assert!(watched.moved > 0, "{what}: nothing moved");
    assert_eq!(watched.counts, Counts::default(), "{what}");
}

#[test]
fn no_kind_of_traffic_allocates() {
    let _alone = alone();
    let kinds = [
        (Proto::Tcp, Test::Stream),
        (Proto::Tcp, Test::Bidir),
        (Proto::Tcp, Test::Rr),
        (Proto::Tcp, Test::Crr),
        (Proto::Udp, Test::Stream),
        (Proto::Udp, Test::Bidir),
        (Proto::Udp, Test::Rr),
    ];
    for (proto, test) in kinds {
        for flows in [1, 40] {
            check(
                &format!("{proto:?} {test:?} x{flows}"),
                &case(proto, test, flows),
            );
        }
    }
}

#[test]
fn neither_schedules_nor_options_allocate() {
    let _alone = alone();
    let kinds = [
        (Proto::Tcp, Test::Stream),
        (Proto::Tcp, Test::Rr),
        (Proto::Tcp, Test::Crr),
        (Proto::Udp, Test::Stream),
        (Proto::Udp, Test::Rr),
    ];
    for (proto, test) in kinds {
        let mut paced = case(proto, test, 30);
        paced.load = Load::Rate { per_second: 3000.0 };
        check(&format!("{proto:?} {test:?} paced"), &paced);
        let mut thorough = case(proto, test, 30);
        thorough.options.verify = true;
        thorough.depth = (test == Test::Rr).then_some(8);
        thorough.options.think_ns = if test == Test::Rr { 3 * MS } else { 0 };
        thorough.options.congestion = (proto == Proto::Tcp).then(|| "cubic".to_string());
        check(&format!("{proto:?} {test:?} thorough"), &thorough);
    }
}

/// With stage probes each transaction's stamps are read and folded, and the slow ones kept.
#[test]
fn stages_do_not_allocate() {
    let _alone = alone();
    for proto in [Proto::Tcp, Proto::Udp] {
        for (asks, answers) in [(View::Whole, View::Nothing), (View::Client, View::Server)] {
            let case = case(proto, Test::Rr, 10);
            let words = |words| SharedWords::anonymous(words).expect("memory");
            let stamps = Arc::new(Stamps {
                records: words(2 * case.flows as usize * RECORD_WORDS),
                workers: words(WORKERS_MAX as usize * WORKER_WORDS),
                known: Known::of(Stamp::ALL.map(|(stamp, _)| stamp)),
            });
            // As the kernel's programs would leave them.
            for word in 0..2 * case.flows as usize * RECORD_WORDS {
                stamps.records.store(word, monotonic_ns());
            }
            for engine in ENGINES {
                let (client, server) = (worker(&case, true, engine), worker(&case, false, engine));
                tell(&client, Command::Stamps(Arc::clone(&stamps), asks));
                tell(&server, Command::Stamps(Arc::clone(&stamps), answers));
                give_flows(&case, &client, &server);
                let watched = watch(client, server);
                assert!(watched.moved > 0, "{proto:?} {asks:?} by {engine:?}");
                let what = format!("{proto:?} {asks:?} by {engine:?}");
                assert_eq!(watched.counts, Counts::default(), "{what}");
            }
        }
    }
}

#[test]
fn sends_without_copies_do_not_allocate() {
    let _alone = alone();
    let ways = [
        (Proto::Tcp, ZeroCopy::Send),
        (Proto::Tcp, ZeroCopy::Msg),
        (Proto::Tcp, ZeroCopy::File),
        (Proto::Udp, ZeroCopy::Send),
        (Proto::Udp, ZeroCopy::Msg),
    ];
    for (proto, how) in ways {
        let engine = match how.engine() {
            Engine::IoUring => EngineKind::IoUring,
            _ => EngineKind::Sockets,
        };
        for flows in [1, 20] {
            let mut case = case(proto, Test::Stream, flows);
            case.options.zerocopy = Some(how);
            check_with(&format!("{proto:?} {how} x{flows}"), &case, engine);
        }
    }
}

#[test]
fn failures_do_not_allocate() {
    let _alone = alone();
    for engine in ENGINES {
        unanswered(engine);
        refused(engine);
    }
}

fn unanswered(engine: EngineKind) {
    // Requests that nobody answers: they time out and are asked again.
    let silent = case(Proto::Udp, Test::Rr, 20);
    let (client, other) = (
        worker(&silent, true, engine),
        worker(&silent, false, engine),
    );
    let mut sinks = Vec::new();
    for flow in 0..silent.flows {
        let (socket, sink) = datagrams();
        sinks.push(sink);
        tell(
            &client,
            Command::Adopt(Adopted {
                group: 0,
                flow,
                socket,
            }),
        );
    }
    let watched = watch(client, other);
    assert!(watched.failed >= 20, "{} timed out", watched.failed);
    assert_eq!(watched.counts, Counts::default(), "time-outs by {engine:?}");
}

fn refused(engine: EngineKind) {
    // Connections that nobody accepts.
    let refused = case(Proto::Tcp, Test::Crr, 20);
    let (client, other) = (
        worker(&refused, true, engine),
        worker(&refused, false, engine),
    );
    let nobody = TcpListener::bind((LOOPBACK, 0)).expect("loopback");
    let address: SocketAddr = nobody.local_addr().expect("bound");
    drop(nobody);
    tell(&client, Command::Target(address));
    let watched = watch(client, other);
    assert!(watched.failed > 20, "{} refused", watched.failed);
    // A pause of a millisecond follows each.
    let most = 20 * (watched.lasted.as_millis() as u64 + 20);
    assert!(watched.failed <= most, "{} refused", watched.failed);
    assert_eq!(
        watched.counts,
        Counts::default(),
        "refused connections by {engine:?}"
    );
}
