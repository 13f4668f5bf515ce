//! Cancelling, closing, running out, and ending with operations in flight.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;

use super::*;
use crate::backend::SendFrom;

/// Fills a connection until a send hangs. Gives the bytes that went whole.
fn hang(engine: &mut impl Backend, slot: Slot) -> u64 {
    let mut whole = 0;
    for token in 0..32 {
        engine.send(
            slot,
            token,
            SendFrom::Payload {
                offset: 0,
                len: 1 << 20,
            },
        );
        let until_ns = monotonic_ns() + 50_000_000;
        engine.wait(WaitFor::Event { until_ns }).unwrap();
        match engine.next() {
            Some(event) => whole += u64::try_from(event.result).unwrap(),
            None => return whole,
        }
    }
    panic!("32 MiB fit into the buffers of a connection that nobody reads");
}

pub(crate) fn a_cancelled_send_tells_the_bytes_that_went<B: Make>() {
    let (ours, mut theirs) = tcp_pair();
    let mut engine = made::<B>(SCRATCH);
    let slot = engine.add(ours).unwrap();
    let mut sent = hang(&mut engine, slot);
    engine.send_cancel(slot);
    let event = event_of(&mut engine, Kind::Send, slot);
    assert!(event.result < 1 << 20, "{event:?}");
    sent += u64::try_from(event.result.max(0)).unwrap();
    engine.close(slot);
    event_of(&mut engine, Kind::Close, slot);
    let mut received = Vec::new();
    theirs.read_to_end(&mut received).unwrap();
    assert_eq!(received.len() as u64, sent);
}

pub(crate) fn closing_ends_everything_and_frees_the_slot_last<B: Make>() {
    let (ours, mut theirs) = tcp_pair();
    let mut setup = setup(BUFFERS);
    setup.sockets = 1;
    let mut engine = B::make(&setup);
    let slot = engine.add(ours).unwrap();
    assert!(engine.add(unix_pair().0).is_err());
    engine.receive(slot);
    let mut sent = hang(&mut engine, slot);
    engine.close(slot);
    let event = event(&mut engine);
    assert_eq!((event.kind, event.slot), (Kind::Send, slot));
    sent += u64::try_from(event.result.max(0)).unwrap();
    let event = super::event(&mut engine);
    assert_eq!(
        (event.kind, event.slot, event.result),
        (Kind::Close, slot, 0)
    );
    let mut received = Vec::new();
    theirs.read_to_end(&mut received).unwrap();
    assert_eq!(received.len() as u64, sent);
    let (ours, mut theirs) = tcp_pair();
    assert_eq!(engine.add(ours).unwrap(), slot);
    engine.receive(slot);
    theirs.write_all(b"new").unwrap();
    let event = event_of(&mut engine, Kind::Receive, slot);
    assert_eq!(engine.data(&event), b"new");
}

pub(crate) fn a_stopped_receive_can_start_again<B: Make>() {
    for style in [SCRATCH, BUFFERS] {
        let (ours, mut theirs) = tcp_pair();
        let mut engine = made::<B>(style);
        let slot = engine.add(ours).unwrap();
        engine.receive(slot);
        silence(&mut engine);
        engine.receive_stop(slot);
        let event = event_of(&mut engine, Kind::Receive, slot);
        assert_eq!((event.result, event.armed), (-libc::ECANCELED, false));
        theirs.write_all(b"kept").unwrap();
        silence(&mut engine);
        engine.receive(slot);
        assert_eq!(event_of(&mut engine, Kind::Receive, slot).result, 4);
        // Stopping and starting at once loses nothing and says nothing.
        engine.receive_stop(slot);
        engine.receive(slot);
        silence(&mut engine);
        theirs.write_all(b"more").unwrap();
        assert_eq!(event_of(&mut engine, Kind::Receive, slot).result, 4);
    }
}

pub(crate) fn running_out_of_buffers_is_counted_and_survived<B: Make>() {
    let (ours, mut theirs) = tcp_pair();
    let mut engine = made::<B>(ReceiveStyle::Ring { count: 2, len: 100 });
    let slot = engine.add(ours).unwrap();
    engine.receive(slot);
    let sent: Vec<u8> = (0..2000u32).map(|at| at as u8).collect();
    theirs.write_all(&sent).unwrap();
    let held = [(); 2].map(|()| event_of(&mut engine, Kind::Receive, slot));
    silence(&mut engine);
    assert!(engine.stats().buffers_exhausted > 0);
    let mut received = Vec::new();
    for event in held {
        received.extend_from_slice(engine.data(&event));
        engine.recycle(&event);
    }
    while received.len() < sent.len() {
        let event = event_of(&mut engine, Kind::Receive, slot);
        assert!(event.armed);
        received.extend_from_slice(engine.data(&event));
        engine.recycle(&event);
    }
    assert_eq!(received, sent);
}

pub(crate) fn waiting_without_buffers_does_not_spin<B: Make>() {
    let (ours, mut theirs) = tcp_pair();
    let mut engine = made::<B>(ReceiveStyle::Ring { count: 1, len: 10 });
    let slot = engine.add(ours).unwrap();
    engine.receive(slot);
    theirs.write_all(&[1; 100]).unwrap();
    let _held = event_of(&mut engine, Kind::Receive, slot);
    silence(&mut engine);
    let before = engine.stats().enters;
    silence(&mut engine);
    assert!(engine.stats().enters - before < 5);
}

pub(crate) fn few_buffers_go_round_among_many_sockets<B: Make>() {
    const FLOWS: usize = 200;
    let setup = Setup {
        sockets: 2 * FLOWS as u32,
        operations: 1000,
        ..setup(SCRATCH)
    };
    let receive = ReceiveStyle::Ring { count: 2, len: 64 };
    let mut engine = B::make(&Setup { receive, ..setup });
    let mut left = std::collections::BTreeMap::new();
    for _ in 0..FLOWS {
        let (one, two) = unix_pair();
        let (one, two) = (engine.add(one).unwrap(), engine.add(two.into()).unwrap());
        engine.receive(two);
        for token in 0..5 {
            engine.send(
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
        let event = event(&mut engine);
        engine.recycle(&event);
        if event.kind == Kind::Receive {
            let bytes = left.get_mut(&event.slot).expect("no more than was sent");
            *bytes -= event.result;
            if *bytes == 0 {
                left.remove(&event.slot);
            }
        }
    }
}

pub(crate) fn a_buffer_is_given_back_once<B: Make>() {
    let (ours, mut theirs) = tcp_pair();
    let mut engine = made::<B>(BUFFERS);
    let slot = engine.add(ours).unwrap();
    engine.receive(slot);
    theirs.write_all(b"x").unwrap();
    let event = event_of(&mut engine, Kind::Receive, slot);
    engine.recycle(&event);
    engine.recycle(&event);
}

pub(crate) fn dropping_with_operations_in_flight_closes_the_sockets<B: Make>() {
    for style in [SCRATCH, BUFFERS, MESSAGES, DISCARD] {
        let (ours, mut theirs) = tcp_pair();
        let mut engine = made::<B>(style);
        let slot = engine.add(ours).unwrap();
        engine.arm().unwrap();
        engine.receive(slot);
        let _went = hang(&mut engine, slot);
        let start = monotonic_ns();
        drop(engine);
        assert!(
            monotonic_ns() - start < 900_000_000,
            "{style:?}: dropping took the whole bound"
        );
        theirs.read_to_end(&mut Vec::new()).unwrap();
    }
}

pub(crate) fn dropping_returns_every_descriptor<B: Make>() {
    // The engine's own, the sockets', and that of a connection nobody asked about.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    let raw = listener.as_raw_fd();
    let mut engine = made::<B>(BUFFERS);
    let slot = engine.add_listener(listener.into()).unwrap();
    engine.accept(slot);
    engine.wait(WaitFor::Nothing).unwrap();
    let mut theirs = std::net::TcpStream::connect(to).unwrap();
    engine.wait(WaitFor::Nothing).unwrap();
    drop(engine);
    assert_eq!(theirs.read(&mut [0; 1]).unwrap_or(0), 0);
    assert!(
        std::net::TcpStream::connect(to).is_err(),
        "descriptor {raw} is still listening"
    );
}
