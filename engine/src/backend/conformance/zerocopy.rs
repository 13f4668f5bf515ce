//! Sends that the kernel is asked not to copy.

use std::io::{Read, Write};

use super::flows::two_thousand_sends;
use super::*;
use crate::backend::{SendFrom, ZeroCopyStats};

fn lending<B: Make>() -> B {
    B::make(&Setup {
        send: SendStyle::ZeroCopy,
        operations: 2000,
        ..setup(SCRATCH)
    })
}

/// Waits until the kernel has said of every send that it is done with it.
fn all_told(engine: &mut impl Backend) -> ZeroCopyStats {
    let until_ns = monotonic_ns() + PATIENCE_NS;
    loop {
        let stats = engine.stats().zerocopy.expect("it sends without copies");
        if stats.completed == Some(stats.sends) {
            return stats;
        }
        assert!(monotonic_ns() < until_ns, "{stats:?}");
        let until_ns = monotonic_ns() + 10_000_000;
        engine.wait(WaitFor::Event { until_ns }).unwrap();
        assert_eq!(engine.next(), None);
    }
}

pub(crate) fn lent_payload_arrives_and_is_counted<B: Make>() {
    let (ours, mut theirs) = tcp_pair();
    let mut engine = lending::<B>();
    assert_eq!(
        engine.stats().zerocopy.map(|stats| stats.sends),
        Some(0),
        "nothing was sent yet"
    );
    let slot = engine.add(ours).unwrap();
    engine.arm().unwrap();
    let reader = std::thread::spawn(move || {
        let mut bytes = vec![0; 1_000_000];
        theirs.read_exact(&mut bytes).unwrap();
        (bytes, theirs)
    });
    let from = SendFrom::Payload {
        offset: 1000,
        len: 1_000_000,
    };
    engine.send(slot, 41, from);
    let event = event_of(&mut engine, Kind::Send, slot);
    assert_eq!((event.token, event.result), (41, 1_000_000));
    let (bytes, _theirs) = reader.join().unwrap();
    assert!((0..1_000_000).all(|at| bytes[at] == ((at + 1000) % 251) as u8));
    let stats = all_told(&mut engine);
    // Over loopback the kernel copies for the receiver.
    assert!(
        stats.sends > 0 && stats.copied == stats.completed,
        "{stats:?}"
    );
}

pub(crate) fn many_small_lent_sends_lose_no_notice<B: Make>() {
    let (ours, mut theirs) = tcp_pair();
    let mut engine = lending::<B>();
    let slot = engine.add(ours).unwrap();
    engine.arm().unwrap();
    two_thousand_sends(&mut engine, slot, &mut theirs);
    // It waits for news, as a worker's sender does for the other side's end.
    engine.receive(slot);
    theirs.write_all(b"x").unwrap();
    assert_eq!(event_of(&mut engine, Kind::Receive, slot).result, 1);
    let stats = all_told(&mut engine);
    assert_eq!((stats.sends, engine.stats().overflows), (2000, 0));
}

pub(crate) fn lent_buffers_come_back_when_the_kernel_is_done<B: Make>() {
    let (ours, theirs) = udp_pair();
    let mut engine = lending::<B>();
    let slot = engine.add(ours).unwrap();
    engine.arm().unwrap();
    let mut got = [0; 2000];
    for round in 0..100_u32 {
        for index in 0..4 {
            let byte = (round * 4 + index) as u8;
            engine.send_buffer(index)[..1200].fill(byte);
            let len = 1200;
            engine.send(slot, index, SendFrom::Buffer { index, len });
        }
        let mut back = [false; 4];
        for _ in 0..4 {
            let event = event_of(&mut engine, Kind::Send, slot);
            assert_eq!(event.result, 1200);
            assert!(!std::mem::replace(&mut back[event.token as usize], true));
        }
        for index in 0..4 {
            assert_eq!(theirs.recv(&mut got).unwrap(), 1200);
            let byte = (round * 4 + index) as u8;
            assert!(
                got[..1200].iter().all(|had| *had == byte),
                "{round} {index}"
            );
        }
    }
    assert_eq!(all_told(&mut engine).sends, 400);
}

pub(crate) fn a_lent_send_to_nobody_is_an_error<B: Make>() {
    let (ours, theirs) = tcp_pair();
    let mut engine = lending::<B>();
    let slot = engine.add(ours).unwrap();
    drop(theirs);
    let whole = SendFrom::Payload {
        offset: 0,
        len: 1 << 20,
    };
    // The first may still go: the other side's reset comes in answer to it.
    let failed = (0..100).find_map(|token| {
        engine.send(slot, token, whole);
        let event = event_of(&mut engine, Kind::Send, slot);
        assert_eq!(event.token, token);
        (event.result < 0).then_some(-event.result)
    });
    let failed = failed.expect("nobody takes a hundred of them");
    assert!(
        [libc::EPIPE, libc::ECONNRESET].contains(&failed),
        "{failed}"
    );
}

pub(crate) fn cancelled_lent_sends_tell_the_bytes_that_went<B: Make>() {
    let (ours, mut theirs) = tcp_pair();
    let mut engine = lending::<B>();
    let slot = engine.add(ours).unwrap();
    engine.arm().unwrap();
    let each = 1 << 20;
    // More than both sockets' buffers hold, whatever the host's limits are.
    for token in 0..64 {
        let from = SendFrom::Payload {
            offset: 0,
            len: each,
        };
        engine.send(slot, token, from);
    }
    let (ended, mut went) = stalled(&mut engine);
    engine.send_cancel(slot);
    for _ in ended..64 {
        let event = event_of(&mut engine, Kind::Send, slot);
        went += u64::try_from(event.result).unwrap_or(0);
    }
    crate::sys::address::end_stream(engine.socket(slot)).unwrap();
    let arrived = std::io::copy(&mut theirs, &mut std::io::sink()).unwrap();
    assert_eq!(arrived, went);
}

/// Lets sends go on until none ends for a while. Gives how many did, and their bytes.
fn stalled(engine: &mut impl Backend) -> (u32, u64) {
    let mut told = (0, 0);
    let mut quiet_ns = monotonic_ns() + 50_000_000;
    while monotonic_ns() < quiet_ns {
        let until_ns = quiet_ns;
        engine.wait(WaitFor::Event { until_ns }).unwrap();
        while let Some(event) = engine.next() {
            told = (told.0 + 1, told.1 + u64::try_from(event.result).unwrap());
            quiet_ns = monotonic_ns() + 50_000_000;
        }
    }
    told
}

pub(crate) fn dropping_with_lent_sends_in_flight_returns<B: Make>() {
    let (tcp, mut theirs) = tcp_pair();
    let (udp, _sink) = udp_pair();
    let mut engine = lending::<B>();
    let (tcp, udp) = (engine.add(tcp).unwrap(), engine.add(udp).unwrap());
    engine.arm().unwrap();
    for token in 0..32 {
        let from = SendFrom::Payload {
            offset: 0,
            len: 1 << 20,
        };
        engine.send(tcp, token, from);
    }
    engine.send(udp, 99, SendFrom::Buffer { index: 0, len: 9 });
    engine.wait(WaitFor::Nothing).unwrap();
    let start = monotonic_ns();
    // Nobody reads: what the kernel still has to send is not waited for without end.
    drop(engine);
    assert!(monotonic_ns() - start < PATIENCE_NS);
    let mut bytes = vec![0; 1 << 20];
    theirs.read_exact(&mut bytes).unwrap();
    assert!(
        bytes
            .iter()
            .zip(0u32..)
            .all(|(byte, at)| *byte == (at % 251) as u8)
    );
}
