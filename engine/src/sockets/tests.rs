//! What only this engine has; the rest is the conformance of all engines.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::Sockets;
use super::engine::{BUDGET, QUANTUM};
use crate::backend::conformance::{
    BUFFERS, Make, SCRATCH, conformance, event, event_of, setup, tcp_pair, udp_pair,
};
use crate::backend::{Backend, Kind, ReceiveStyle, SendFrom, SendStyle, Setup, Slot, WaitFor};
use crate::sys::clock::monotonic_ns;
use crate::sys::eventfd;

impl Make for Sockets {
    fn make(setup: &Setup) -> Sockets {
        Sockets::new(setup).expect("epoll is available")
    }
}

conformance!(Sockets);

/// Writes a byte and takes it in, so many times.
fn ping(engine: &mut Sockets, slot: Slot, theirs: &mut TcpStream, times: u32, wait: WaitFor) {
    for _ in 0..times {
        theirs.write_all(b"x").unwrap();
        let event = loop {
            if let Some(event) = engine.next() {
                break event;
            }
            engine.wait(wait).unwrap();
        };
        assert_eq!(
            (event.kind, event.slot, event.result),
            (Kind::Receive, slot, 1)
        );
        engine.recycle(&event);
    }
}

fn with_waker(receive: ReceiveStyle) -> (Sockets, Slot, TcpStream, Slot, eventfd::Waker) {
    let (ours, theirs) = tcp_pair();
    theirs.set_nodelay(true).unwrap();
    let mut engine = Sockets::make(&setup(receive));
    let slot = engine.add(ours).unwrap();
    let (waker, woken) = eventfd::pair().unwrap();
    let woken = engine.add_waker(woken).unwrap();
    engine.receive(slot);
    (engine, slot, theirs, woken, waker)
}

#[test]
fn the_only_socket_is_read_without_epoll() {
    let (mut engine, slot, mut theirs, woken, waker) = with_waker(SCRATCH);
    for _ in 0..1000 {
        engine.wait(WaitFor::Nothing).unwrap();
    }
    ping(&mut engine, slot, &mut theirs, 500, WaitFor::Nothing);
    assert_eq!(engine.slots.get(slot).watched, 0);
    // Wakers are looked at all the same.
    waker.wake().unwrap();
    for _ in 0..1000 {
        engine.wait(WaitFor::Nothing).unwrap();
    }
    assert_eq!(event(&mut engine).slot, woken);
    assert_eq!(engine.next(), None);
}

#[test]
fn a_receive_that_waits_does_not_miss_wake_ups_or_deadlines() {
    for receive in [SCRATCH, BUFFERS] {
        let (mut engine, slot, mut theirs, woken, waker) = with_waker(receive);
        let waits = |engine: &Sockets| {
            let features = engine.stats().features;
            features.iter().any(|name| name == "waiting_receive")
        };
        let far = WaitFor::Event { until_ns: u64::MAX };
        // With a deadline that is near it never waits by itself.
        for _ in 0..30 {
            let until_ns = monotonic_ns() + 10_000_000;
            ping(
                &mut engine,
                slot,
                &mut theirs,
                1,
                WaitFor::Event { until_ns },
            );
        }
        assert!(!waits(&engine));
        ping(&mut engine, slot, &mut theirs, 30, far);
        assert!(waits(&engine));
        let waker = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(5));
            waker.wake().unwrap();
            waker
        });
        let event = event(&mut engine);
        assert_eq!((event.kind, event.slot), (Kind::Wake, woken));
        waker.join().unwrap();
        ping(&mut engine, slot, &mut theirs, 30, far);
        let start = monotonic_ns();
        engine
            .wait(WaitFor::Event {
                until_ns: start + 5_000_000,
            })
            .unwrap();
        assert!(monotonic_ns() - start >= 4_900_000);
        assert_eq!(engine.next(), None);
        // It goes on as before, and sees the end.
        ping(&mut engine, slot, &mut theirs, 30, far);
        drop(theirs);
        let end = event_of(&mut engine, Kind::Receive, slot);
        assert_eq!((end.result, end.armed), (0, false));
    }
}

#[test]
fn a_wait_does_so_much_and_no_more() {
    let (ours, mut theirs) = tcp_pair();
    let operations = 5000;
    let mut engine = Sockets::make(&Setup {
        operations,
        ..setup(SCRATCH)
    });
    let slot = engine.add(ours).unwrap();
    for token in 0..operations {
        engine.send(slot, token, SendFrom::Payload { offset: 0, len: 1 });
    }
    let mut next = 0;
    while next < operations {
        engine.wait(WaitFor::Nothing).unwrap();
        let before = next;
        while let Some(event) = engine.next() {
            assert_eq!((event.token, event.result), (next, 1));
            next += 1;
        }
        assert!(next - before <= BUDGET + QUANTUM, "{}", next - before);
    }
    theirs
        .read_exact(&mut vec![0; operations as usize])
        .unwrap();
}

#[test]
fn nobody_is_left_out() {
    let (busy, their_busy) = udp_pair();
    let (quiet, mut their_quiet) = tcp_pair();
    let mut engine = Sockets::make(&setup(SCRATCH));
    let (busy, quiet) = (engine.add(busy).unwrap(), engine.add(quiet).unwrap());
    engine.receive(quiet);
    engine.wait(WaitFor::Nothing).unwrap();
    their_quiet.write_all(b"x").unwrap();
    let send = |engine: &mut Sockets| {
        engine.send(busy, 0, SendFrom::Payload { offset: 0, len: 10 });
    };
    for _ in 0..32 {
        send(&mut engine);
    }
    // The sends never end; what arrives is told all the same.
    for _ in 0..100 {
        engine.wait(WaitFor::Event { until_ns: u64::MAX }).unwrap();
        while let Some(event) = engine.next() {
            match event.kind {
                Kind::Send => send(&mut engine),
                _ => {
                    assert_eq!((event.kind, event.slot), (Kind::Receive, quiet));
                    drop(their_busy);
                    return;
                }
            }
        }
    }
    panic!("the receive never had its turn");
}

#[test]
fn datagrams_go_and_come_in_batches() {
    const COUNT: u32 = 256;
    let (ours, theirs) = udp_pair();
    let mut engine = Sockets::make(&Setup {
        operations: COUNT,
        ..setup(ReceiveStyle::Ring {
            count: 512,
            len: 2048,
        })
    });
    let (one, two) = (
        engine.add(ours).unwrap(),
        engine.add(theirs.into()).unwrap(),
    );
    engine.receive(two);
    for at in 0..COUNT {
        engine.send(
            one,
            at,
            SendFrom::Payload {
                offset: at,
                len: 100,
            },
        );
    }
    let mut arrived = 0;
    while arrived < COUNT {
        let event = event(&mut engine);
        if event.kind == Kind::Receive {
            assert_eq!(engine.data(&event)[0], (arrived % 251) as u8);
            arrived += 1;
        }
        engine.recycle(&event);
    }
    let calls = engine.stats().enters;
    assert!(
        calls <= u64::from(COUNT / 8),
        "{calls} calls for {COUNT} datagrams both ways"
    );
}

#[test]
fn sends_keep_their_order_through_a_full_socket() {
    let (ours, mut theirs) = tcp_pair();
    let mut engine = Sockets::make(&setup(SCRATCH));
    let slot = engine.add(ours).unwrap();
    const LEN: u32 = 1 << 19;
    for token in 0..32 {
        let from = SendFrom::Payload {
            offset: token * 1000,
            len: LEN,
        };
        match token % 4 {
            // Those that have no event stand in line with the others.
            3 => engine.send_quiet(slot, from),
            _ => engine.send(slot, token, from),
        }
    }
    let reader = std::thread::spawn(move || {
        let mut bytes = vec![0; LEN as usize * 32];
        theirs.read_exact(&mut bytes).unwrap();
        bytes
    });
    for token in (0..32).filter(|token| token % 4 != 3) {
        let event = event_of(&mut engine, Kind::Send, slot);
        assert_eq!((event.token, event.result), (token, LEN as i32));
    }
    // The last has no event; it goes while the engine waits.
    while !engine.sends.is_empty() {
        let until_ns = monotonic_ns() + 100_000_000;
        engine.wait(WaitFor::Event { until_ns }).unwrap();
        assert_eq!(engine.next(), None);
    }
    let bytes = reader.join().unwrap();
    for (token, part) in bytes.chunks(LEN as usize).enumerate() {
        let right = part
            .iter()
            .zip(token * 1000..)
            .all(|(byte, at)| *byte == (at % 251) as u8);
        assert!(right, "send {token}");
    }
}

/// A receive that filled all that it was given leaves something behind that nobody tells of,
/// also where it is the first that did without epoll, and the next wait is of another kind.
#[test]
fn what_a_full_receive_leaves_behind_is_not_forgotten() {
    const LEN: usize = 4;
    let far = WaitFor::Event { until_ns: u64::MAX };
    let receive = ReceiveStyle::Scratch { len: LEN as u32 };
    let polled = (250..260).map(|polls| (1, polls, WaitFor::Nothing));
    for (pings, polls, wait) in (1..20).map(|pings| (pings, 0, far)).chain(polled) {
        let (mut engine, slot, mut theirs, ..) = with_waker(receive);
        // Epoll watches it.
        engine
            .wait(WaitFor::Event {
                until_ns: monotonic_ns(),
            })
            .unwrap();
        ping(&mut engine, slot, &mut theirs, pings, far);
        for _ in 0..polls {
            engine.wait(WaitFor::Nothing).unwrap();
        }
        theirs.write_all(&[7; 2 * LEN]).unwrap();
        let mut left = 2 * LEN as i32;
        let (mut how, end) = (wait, monotonic_ns() + 2_000_000_000);
        while left > 0 {
            engine.wait(how).unwrap();
            while let Some(event) = engine.next() {
                left -= event.result;
                how = WaitFor::Event {
                    until_ns: monotonic_ns() + 10_000_000,
                };
            }
            let what = format!("{left} left after {pings} and {polls}");
            assert!(monotonic_ns() < end, "{what}");
        }
        assert_eq!(left, 0);
    }
}

#[test]
fn a_file_in_memory_is_sent_whole_and_in_order() {
    let (ours, mut theirs) = tcp_pair();
    let mut engine = Sockets::make(&Setup {
        send: SendStyle::File,
        ..setup(SCRATCH)
    });
    let slot = engine.add(ours).unwrap();
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        theirs.read_to_end(&mut bytes).unwrap();
        bytes
    });
    let ranges = [(0, 1 << 20), (7, 1), (1000, 500_000), (3, 0)];
    for (token, (offset, len)) in ranges.into_iter().enumerate() {
        engine.send(slot, token as u32, SendFrom::Payload { offset, len });
        let event = event_of(&mut engine, Kind::Send, slot);
        assert_eq!((event.token, event.result), (token as u32, len as i32));
    }
    let stats = engine.stats().zerocopy.unwrap();
    assert!(stats.sends >= 3, "{stats:?}");
    assert_eq!((stats.completed, stats.copied), (None, None));
    engine.close(slot);
    event_of(&mut engine, Kind::Close, slot);
    let expected = ranges
        .into_iter()
        .flat_map(|(offset, len)| offset..offset + len);
    let expected: Vec<u8> = expected.map(|at| (at % 251) as u8).collect();
    assert!(reader.join().unwrap() == expected);
}
