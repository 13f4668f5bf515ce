//! Drives a worker for so many operations with an engine in memory: `instr CASE OPERATIONS`.
//! `cargo xtask bench instr` runs it under valgrind and compares what it counts with
//! `benches/instr/ceilings.txt`.

mod memory;

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use memory::{Memory, Other};
use ringperf::plan::{
    Case, Direction, Family, GroupPlan, Limit, Load, Options, Proto, Test, Traffic,
};
use ringperf::sys::clock::monotonic_ns;
use ringperf::worker::{Adopted, EngineKind, Signals, WorkerPlan, drive};

/// Longer than any run: the number of operations ends it.
const FOREVER_NS: u64 = 3_600_000_000_000;

const SESSION: u32 = 0x1234_5678;

/// What a case is about: transport, traffic, the client's side or the server's, bytes of a
/// message, and the other side.
type Kind = (Proto, Traffic, bool, u32, Other);

fn kind(name: &str) -> Option<Kind> {
    use Proto::{Tcp, Udp};
    use Traffic::{Rr, Stream};
    Some(match name {
        "tcp-stream-send" => (Tcp, Stream, true, 64, Other::Takes),
        "tcp-stream-receive" => (Tcp, Stream, false, 64, Other::Streams(64 * 1024)),
        "tcp-rr-ask" => (Tcp, Rr, true, 1, Other::Answers(1)),
        "tcp-rr-answer" => (Tcp, Rr, false, 1, Other::Asks(1)),
        "udp-stream-send" => (Udp, Stream, true, 64, Other::Takes),
        "udp-stream-receive" => (Udp, Stream, false, 64, Other::Datagrams(64)),
        _ => return None,
    })
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    // cargo adds a flag of its own when it runs a benchmark itself.
    let [name, operations] = words.as_slice() else {
        return Ok(());
    };
    let kind = kind(name).with_context(|| format!("no case `{name}`"))?;
    let operations: u64 = operations.parse().context("how many operations")?;
    let done = run(kind, operations)?;
    if done < operations {
        bail!("{done} of {operations} operations were counted");
    }
    Ok(())
}

/// Returns what the worker counted.
fn run((proto, traffic, client, bytes, other): Kind, operations: u64) -> Result<u64> {
    let (socket, _other_end) = pair(proto)?;
    let (signals, woken) = Signals::new()?;
    let signals = Arc::new(signals);
    let plan = WorkerPlan {
        index: 0,
        workers: 1,
        cpu: None,
        client,
        yields: false,
        engine: EngineKind::IoUring,
        case: case(proto, traffic, bytes),
        session: SESSION,
    };
    let flow = Adopted {
        group: 0,
        flow: 0,
        socket,
    };
    signals.start(monotonic_ns());
    let stop = Arc::clone(&signals);
    let outcome = drive(&plan, vec![flow], (signals, woken), |setup| {
        Ok(Memory::new(setup, other, operations, SESSION, stop))
    })?;
    let outcome = outcome.context("the sockets could not be set up")?;
    let flow = outcome.flows.first().context("no flow")?;
    Ok(match other {
        Other::Takes | Other::Answers(_) => flow.lifetime.sent_messages,
        Other::Asks(_) | Other::Datagrams(_) => flow.lifetime.received_messages,
        Other::Streams(arrival) => flow.lifetime.received_bytes / u64::from(arrival),
    })
}

/// Connected sockets, for the options that a worker asks of its own.
fn pair(proto: Proto) -> Result<(OwnedFd, OwnedFd)> {
    Ok(match proto {
        Proto::Tcp => {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            let socket = TcpStream::connect(listener.local_addr()?)?;
            (socket.into(), listener.accept()?.0.into())
        }
        Proto::Udp => {
            let [one, two] = [
                UdpSocket::bind("127.0.0.1:0")?,
                UdpSocket::bind("127.0.0.1:0")?,
            ];
            one.connect(two.local_addr()?)?;
            two.connect(one.local_addr()?)?;
            (one.into(), two.into())
        }
    })
}

fn case(proto: Proto, traffic: Traffic, bytes: u32) -> Case {
    let transactions = traffic != Traffic::Stream;
    Case {
        name: "instructions".to_string(),
        proto,
        test: if transactions { Test::Rr } else { Test::Stream },
        groups: vec![GroupPlan {
            traffic,
            direction: Direction::ClientToServer,
        }],
        request_bytes: u64::from(bytes),
        response_bytes: if transactions { u64::from(bytes) } else { 0 },
        size_from_path_mtu: false,
        flows: 1,
        workers: 1,
        server_workers: 1,
        depth: None,
        load: Load::Closed,
        family: Family::Any,
        limit: Limit::Duration { ns: FOREVER_NS },
        warmup_ns: 0,
        interval_ns: FOREVER_NS,
        options: Options {
            timeout_ns: FOREVER_NS,
            ..Options::default()
        },
    }
}
