//! Cancelling, closing, running out, and ending with operations in flight.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;

use super::*;
use crate::backend::SendFrom;

/// Fills a connection until a send hangs. Gives the bytes that went whole.
fn hang(ring: &mut Ring, slot: Slot) -> u64 {
    let mut whole = 0;
    for token in 0..32 {
        ring.send(
            slot,
            token,
            SendFrom::Payload {
                offset: 0,
                len: 1 << 20,
            },
        );
        let until_ns = monotonic_ns() + 50_000_000;
        ring.wait(WaitFor::Event { until_ns }).unwrap();
        match ring.next() {
            Some(event) => whole += u64::try_from(event.result).unwrap(),
            None => return whole,
        }
    }
    panic!("32 MiB fit into the buffers of a connection that nobody reads");
}

#[test]
fn a_cancelled_send_tells_the_bytes_that_went() {
    let (ours, mut theirs) = tcp_pair();
    let mut ring = ring(SCRATCH);
    let slot = ring.add(ours).unwrap();
    let mut sent = hang(&mut ring, slot);
    ring.send_cancel(slot);
    let event = event_of(&mut ring, Kind::Send, slot);
    assert!(event.result < 1 << 20, "{event:?}");
    sent += u64::try_from(event.result.max(0)).unwrap();
    ring.close(slot);
    event_of(&mut ring, Kind::Close, slot);
    let mut received = Vec::new();
    theirs.read_to_end(&mut received).unwrap();
    assert_eq!(received.len() as u64, sent);
}

#[test]
fn closing_ends_everything_and_frees_the_slot_last() {
    let (ours, mut theirs) = tcp_pair();
    let mut setup = setup(BUFFERS);
    setup.sockets = 1;
    let mut ring = Ring::new(&setup).unwrap();
    let slot = ring.add(ours).unwrap();
    assert!(ring.add(unix_pair().0).is_err());
    ring.receive(slot);
    let mut sent = hang(&mut ring, slot);
    ring.close(slot);
    let event = event(&mut ring);
    assert_eq!((event.kind, event.slot), (Kind::Send, slot));
    sent += u64::try_from(event.result.max(0)).unwrap();
    let event = super::event(&mut ring);
    assert_eq!(
        (event.kind, event.slot, event.result),
        (Kind::Close, slot, 0)
    );
    let mut received = Vec::new();
    theirs.read_to_end(&mut received).unwrap();
    assert_eq!(received.len() as u64, sent);
    let (ours, mut theirs) = tcp_pair();
    assert_eq!(ring.add(ours).unwrap(), slot);
    ring.receive(slot);
    theirs.write_all(b"new").unwrap();
    let event = event_of(&mut ring, Kind::Receive, slot);
    assert_eq!(ring.data(&event), b"new");
}

#[test]
fn a_stopped_receive_can_start_again() {
    for style in [SCRATCH, BUFFERS] {
        let (ours, mut theirs) = tcp_pair();
        let mut ring = ring(style);
        let slot = ring.add(ours).unwrap();
        ring.receive(slot);
        silence(&mut ring);
        ring.receive_stop(slot);
        let event = event_of(&mut ring, Kind::Receive, slot);
        assert_eq!((event.result, event.armed), (-libc::ECANCELED, false));
        theirs.write_all(b"kept").unwrap();
        silence(&mut ring);
        ring.receive(slot);
        assert_eq!(event_of(&mut ring, Kind::Receive, slot).result, 4);
        // Stopping and starting at once loses nothing and says nothing.
        ring.receive_stop(slot);
        ring.receive(slot);
        silence(&mut ring);
        theirs.write_all(b"more").unwrap();
        assert_eq!(event_of(&mut ring, Kind::Receive, slot).result, 4);
    }
}

#[test]
fn running_out_of_buffers_is_counted_and_survived() {
    let (ours, mut theirs) = tcp_pair();
    let mut ring = ring(ReceiveStyle::Ring { count: 2, len: 100 });
    let slot = ring.add(ours).unwrap();
    ring.receive(slot);
    let sent: Vec<u8> = (0..2000u32).map(|at| at as u8).collect();
    theirs.write_all(&sent).unwrap();
    let held = [(); 2].map(|()| event_of(&mut ring, Kind::Receive, slot));
    silence(&mut ring);
    assert!(ring.stats().buffers_exhausted > 0);
    let mut received = Vec::new();
    for event in held {
        received.extend_from_slice(ring.data(&event));
        ring.recycle(&event);
    }
    while received.len() < sent.len() {
        let event = event_of(&mut ring, Kind::Receive, slot);
        assert!(event.armed);
        received.extend_from_slice(ring.data(&event));
        ring.recycle(&event);
    }
    assert_eq!(received, sent);
}

#[test]
fn waiting_without_buffers_does_not_spin() {
    let (ours, mut theirs) = tcp_pair();
    let mut ring = ring(ReceiveStyle::Ring { count: 1, len: 10 });
    let slot = ring.add(ours).unwrap();
    ring.receive(slot);
    theirs.write_all(&[1; 100]).unwrap();
    let _held = event_of(&mut ring, Kind::Receive, slot);
    silence(&mut ring);
    let before = ring.stats().enters;
    silence(&mut ring);
    assert!(ring.stats().enters - before < 5);
}

#[test]
fn few_buffers_go_round_among_many_sockets() {
    const FLOWS: usize = 200;
    let setup = Setup {
        sockets: 2 * FLOWS as u32,
        operations: 1000,
        ..setup(SCRATCH)
    };
    let receive = ReceiveStyle::Ring { count: 2, len: 64 };
    let mut ring = Ring::new(&Setup { receive, ..setup }).unwrap();
    let mut left = std::collections::BTreeMap::new();
    for _ in 0..FLOWS {
        let (one, two) = unix_pair();
        let (one, two) = (ring.add(one).unwrap(), ring.add(two.into()).unwrap());
        ring.receive(two);
        for token in 0..5 {
            ring.send(
                one,
                token,
                SendFrom::Payload {
                    offset: 0,
                    len: 100,
                },
            );
        }
        left.insert(two, 500);
    }
    while !left.is_empty() {
        let event = event(&mut ring);
        ring.recycle(&event);
        if event.kind == Kind::Receive {
            let bytes = left.get_mut(&event.slot).expect("no more than was sent");
            *bytes -= event.result;
            if *bytes == 0 {
                left.remove(&event.slot);
            }
        }
    }
    assert!(ring.stats().buffers_exhausted > 0);
}

#[test]
#[should_panic(expected = "given back already")]
fn a_buffer_is_given_back_once() {
    let (ours, mut theirs) = tcp_pair();
    let mut ring = ring(BUFFERS);
    let slot = ring.add(ours).unwrap();
    ring.receive(slot);
    theirs.write_all(b"x").unwrap();
    let event = event_of(&mut ring, Kind::Receive, slot);
    ring.recycle(&event);
    ring.recycle(&event);
}

#[test]
fn dropping_with_operations_in_flight_closes_the_sockets() {
    for style in [SCRATCH, BUFFERS, MESSAGES, DISCARD] {
        let (ours, mut theirs) = tcp_pair();
        let mut ring = ring(style);
        let slot = ring.add(ours).unwrap();
        ring.arm().unwrap();
        ring.receive(slot);
        let _went = hang(&mut ring, slot);
        let start = monotonic_ns();
        drop(ring);
        assert!(
            monotonic_ns() - start < 900_000_000,
            "{style:?}: dropping took the whole bound"
        );
        theirs.read_to_end(&mut Vec::new()).unwrap();
    }
}

#[test]
fn dropping_returns_every_descriptor() {
    // The ring's own, the sockets', and that of a connection nobody asked about.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    let raw = listener.as_raw_fd();
    let mut ring = ring(BUFFERS);
    let slot = ring.add_listener(listener.into()).unwrap();
    ring.accept(slot);
    ring.wait(WaitFor::Nothing).unwrap();
    let mut theirs = std::net::TcpStream::connect(to).unwrap();
    ring.wait(WaitFor::Nothing).unwrap();
    drop(ring);
    assert_eq!(theirs.read(&mut [0; 1]).unwrap_or(0), 0);
    assert!(
        std::net::TcpStream::connect(to).is_err(),
        "descriptor {raw} is still listening"
    );
}
