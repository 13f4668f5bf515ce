//! Operations and receive styles.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;

use super::*;
use crate::backend::SendFrom;

pub(crate) fn scratch_counts_a_stream_to_its_end<B: Make>() {
    let (ours, mut theirs) = tcp_pair();
    let mut engine = made::<B>(SCRATCH);
    let slot = engine.add(ours).unwrap();
    engine.arm().unwrap();
    engine.receive(slot);
    theirs.write_all(&[7; 300_000]).unwrap();
    let mut total = 0;
    while total < 300_000 {
        let event = event_of(&mut engine, Kind::Receive, slot);
        assert!(
            event.result > 0 && event.armed && event.buffer.is_none(),
            "{event:?}"
        );
        total += event.result;
    }
    drop(theirs);
    let end = event_of(&mut engine, Kind::Receive, slot);
    assert_eq!((total, end.result, end.armed), (300_000, 0, false));
    silence(&mut engine);
}

pub(crate) fn discard_counts_what_nobody_copies<B: Make>() {
    let (ours, mut theirs) = tcp_pair();
    let mut engine = made::<B>(DISCARD);
    let slot = engine.add(ours).unwrap();
    engine.receive(slot);
    theirs.write_all(&[7; 100_000]).unwrap();
    let mut total = 0;
    while total < 100_000 {
        total += event_of(&mut engine, Kind::Receive, slot).result;
    }
    assert_eq!(total, 100_000);
}

pub(crate) fn buffers_carry_the_bytes_in_order<B: Make>() {
    for style in [BUFFERS, MESSAGES] {
        let (ours, mut theirs) = tcp_pair();
        let mut engine = made::<B>(style);
        let slot = engine.add(ours).unwrap();
        engine.receive(slot);
        let sent: Vec<u8> = (0..50_000u32).map(|at| (at % 253) as u8).collect();
        theirs.write_all(&sent).unwrap();
        let mut received = Vec::new();
        while received.len() < sent.len() {
            let event = event_of(&mut engine, Kind::Receive, slot);
            assert_eq!(engine.data(&event).len(), event.result as usize);
            received.extend_from_slice(engine.data(&event));
            engine.recycle(&event);
        }
        assert!(received == sent, "{style:?}");
        drop(theirs);
        let end = event_of(&mut engine, Kind::Receive, slot);
        assert_eq!((end.result, end.armed), (0, false), "{style:?}");
    }
}

pub(crate) fn datagrams_keep_their_bounds_and_bring_control_messages<B: Make>() {
    let (ours, theirs) = udp_pair();
    crate::sys::socket::set_receive_timestamps(ours.as_fd(), true).unwrap();
    let mut engine = made::<B>(MESSAGES);
    let slot = engine.add(ours).unwrap();
    engine.receive(slot);
    let before = crate::sys::clock::realtime_ns();
    for datagram in [&b"one"[..], b"", b"three", &[9; 5000]] {
        theirs.send(datagram).unwrap();
    }
    let lens = [3, 0, 5, 4096].map(|expected| {
        let event = event_of(&mut engine, Kind::Receive, slot);
        assert!(event.armed, "{event:?}");
        let control = engine.control(&event);
        let age = control.received_realtime_ns.unwrap() as i64 - before as i64;
        assert!((0..PATIENCE_NS as i64).contains(&age), "{age} ns");
        assert_eq!(
            (control.segment_bytes, control.truncated),
            (0, expected == 4096)
        );
        assert_eq!(engine.data(&event).len(), event.result as usize);
        engine.recycle(&event);
        event.result
    });
    assert_eq!(lens, [3, 0, 5, 4096]);
}

pub(crate) fn merged_datagrams_tell_their_size<B: Make>() {
    let (ours, theirs) = udp_pair();
    crate::sys::socket::set_udp_gro(ours.as_fd(), true).unwrap();
    crate::sys::socket::set_udp_segment(theirs.as_fd(), 100).unwrap();
    let mut engine = made::<B>(MESSAGES);
    let slot = engine.add(ours).unwrap();
    engine.receive(slot);
    theirs.send(&[1; 1000]).unwrap();
    let event = event_of(&mut engine, Kind::Receive, slot);
    assert_eq!(
        (event.result, engine.control(&event).segment_bytes),
        (1000, 100)
    );
}

pub(crate) fn empty_datagrams_do_not_end_a_plain_receive<B: Make>() {
    for style in [SCRATCH, BUFFERS] {
        let (ours, theirs) = udp_pair();
        let mut engine = made::<B>(style);
        let slot = engine.add(ours).unwrap();
        engine.receive(slot);
        for datagram in [&b""[..], b"xy"] {
            theirs.send(datagram).unwrap();
            let event = event_of(&mut engine, Kind::Receive, slot);
            assert_eq!(
                (event.result, event.armed),
                (datagram.len() as i32, true),
                "{style:?}"
            );
            engine.recycle(&event);
        }
    }
}

pub(crate) fn sends_go_whole_from_payload_and_buffers<B: Make>() {
    let (ours, mut theirs) = tcp_pair();
    let mut engine = made::<B>(SCRATCH);
    let slot = engine.add(ours).unwrap();
    engine.arm().unwrap();
    engine.send(
        slot,
        41,
        SendFrom::Payload {
            offset: 1000,
            len: 1_000_000,
        },
    );
    let reader = std::thread::spawn(move || {
        let mut bytes = vec![0; 1_000_003];
        theirs.read_exact(&mut bytes).unwrap();
        bytes
    });
    let event = event_of(&mut engine, Kind::Send, slot);
    assert_eq!((event.token, event.result), (41, 1_000_000));
    engine.send_buffer(2)[..3].copy_from_slice(b"abc");
    engine.send(slot, 42, SendFrom::Buffer { index: 2, len: 3 });
    let event = event_of(&mut engine, Kind::Send, slot);
    assert_eq!((event.token, event.result), (42, 3));
    engine.send_buffer(2)[0] = b'x';
    let bytes = reader.join().unwrap();
    assert!((0..1_000_000).all(|at| bytes[at] == ((at + 1000) % 251) as u8));
    assert_eq!(&bytes[1_000_000..], b"abc");
}

pub(crate) fn a_busy_buffer_is_not_lent_out<B: Make>() {
    let (ours, _theirs) = tcp_pair();
    let mut engine = made::<B>(SCRATCH);
    let slot = engine.add(ours).unwrap();
    engine.send(slot, 0, SendFrom::Buffer { index: 1, len: 1 });
    engine.send_buffer(1);
}

pub(crate) fn a_send_to_nobody_is_an_error_and_no_signal<B: Make>() {
    let (ours, theirs) = unix_pair();
    let mut engine = made::<B>(SCRATCH);
    let slot = engine.add(ours).unwrap();
    drop(theirs);
    engine.send(slot, 5, SendFrom::Payload { offset: 0, len: 10 });
    let event = event_of(&mut engine, Kind::Send, slot);
    assert_eq!((event.token, event.result), (5, -libc::EPIPE));
}

pub(crate) fn datagrams_are_sent_as_such<B: Make>() {
    let (ours, theirs) = udp_pair();
    let mut engine = made::<B>(SCRATCH);
    let slot = engine.add(ours).unwrap();
    for len in [1, 1200, 0] {
        engine.send(slot, len, SendFrom::Payload { offset: 0, len });
    }
    engine.wait(WaitFor::Nothing).unwrap();
    let mut bytes = [0; 2000];
    for len in [1, 1200, 0] {
        assert_eq!(theirs.recv(&mut bytes).unwrap(), len);
    }
}

/// Many small sends at once: each has its event, once, and all arrives.
pub(super) fn two_thousand_sends(engine: &mut impl Backend, slot: Slot, theirs: &mut TcpStream) {
    for token in 0..2000 {
        engine.send(slot, token, SendFrom::Payload { offset: 0, len: 10 });
    }
    let mut done = vec![false; 2000];
    for _ in 0..2000 {
        let event = event_of(engine, Kind::Send, slot);
        assert_eq!(event.result, 10);
        assert!(!std::mem::replace(&mut done[event.token as usize], true));
    }
    theirs.read_exact(&mut [0; 20_000]).unwrap();
}

pub(crate) fn more_operations_than_queue_entries<B: Make>() {
    let (ours, mut theirs) = tcp_pair();
    let setup = Setup {
        operations: 2000,
        ..setup(SCRATCH)
    };
    let mut engine = B::make(&setup);
    let slot = engine.add(ours).unwrap();
    two_thousand_sends(&mut engine, slot, &mut theirs);
    assert_eq!(engine.stats().overflows, 0);
}

pub(crate) fn connects_and_names_refusals<B: Make>() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let listener = TcpListener::bind(address).unwrap();
        let to = listener.local_addr().unwrap();
        let mut engine = made::<B>(SCRATCH);
        engine.arm().unwrap();
        let slot = engine.add(unconnected(to)).unwrap();
        engine.connect(slot, to);
        assert_eq!(event_of(&mut engine, Kind::Connect, slot).result, 0);
        let (mut theirs, _) = listener.accept().unwrap();
        engine.receive(slot);
        theirs.write_all(b"hi").unwrap();
        assert_eq!(event_of(&mut engine, Kind::Receive, slot).result, 2);
        drop(listener);
        let slot = engine.add(unconnected(to)).unwrap();
        engine.connect(slot, to);
        assert_eq!(
            event_of(&mut engine, Kind::Connect, slot).result,
            -libc::ECONNREFUSED
        );
    }
}

fn unconnected(to: SocketAddr) -> OwnedFd {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
    let family = if to.is_ipv4() {
        AddressFamily::Inet
    } else {
        AddressFamily::Inet6
    };
    // Non-blocking on purpose: sockets from an asynchronous runtime are.
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    socket(family, SockType::Stream, flags, None).unwrap()
}

pub(crate) fn a_non_blocking_socket_waits_all_the_same<B: Make>() {
    let (ours, mut theirs) = tcp_pair();
    crate::sys::socket::set_nonblocking(ours.as_fd(), true).unwrap();
    let mut engine = made::<B>(SCRATCH);
    let slot = engine.add(ours).unwrap();
    engine.receive(slot);
    silence(&mut engine);
    theirs.write_all(b"late").unwrap();
    assert_eq!(event_of(&mut engine, Kind::Receive, slot).result, 4);
}

pub(crate) fn accepts_until_closed<B: Make>() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    let mut engine = made::<B>(BUFFERS);
    let slot = engine.add_listener(listener.into()).unwrap();
    engine.arm().unwrap();
    engine.accept(slot);
    for _ in 0..5 {
        let mut theirs = TcpStream::connect(to).unwrap();
        let event = event(&mut engine);
        assert_eq!(
            (event.kind, event.token, event.result),
            (Kind::Accept, slot, 0)
        );
        assert!(event.armed && event.slot != slot);
        engine.receive(event.slot);
        theirs.write_all(b"abc").unwrap();
        let received = event_of(&mut engine, Kind::Receive, event.slot);
        assert_eq!(engine.data(&received), b"abc");
        engine.recycle(&received);
        engine.close(event.slot);
        event_of(&mut engine, Kind::Close, event.slot);
        assert_eq!(theirs.read(&mut [0; 1]).unwrap(), 0);
    }
    engine.close(slot);
    event_of(&mut engine, Kind::Close, slot);
    assert!(TcpStream::connect(to).is_err());
}

pub(crate) fn a_connection_without_a_slot_is_dropped_and_told<B: Make>() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    let mut engine = B::make(&Setup {
        sockets: 1,
        ..setup(SCRATCH)
    });
    let slot = engine.add_listener(listener.into()).unwrap();
    engine.accept(slot);
    let mut theirs = TcpStream::connect(to).unwrap();
    let event = event(&mut engine);
    assert_eq!(
        (event.kind, event.slot, event.result),
        (Kind::Accept, slot, -libc::ENFILE)
    );
    assert_eq!(theirs.read(&mut [0; 1]).unwrap(), 0);
}

pub(crate) fn another_thread_wakes_it_again_and_again<B: Make>() {
    let (waker, handle) = crate::sys::eventfd::pair().unwrap();
    let mut engine = made::<B>(SCRATCH);
    let slot = engine.add_waker(handle).unwrap();
    silence(&mut engine);
    for _ in 0..3 {
        let waker = waker.clone();
        std::thread::spawn(move || waker.wake().unwrap())
            .join()
            .unwrap();
        let event = event(&mut engine);
        assert_eq!(
            (event.kind, event.slot, event.armed),
            (Kind::Wake, slot, true)
        );
        silence(&mut engine);
    }
}

pub(crate) fn waits_end_in_time<B: Make>() {
    let mut engine = made::<B>(SCRATCH);
    let start = monotonic_ns();
    engine
        .wait(WaitFor::Event {
            until_ns: start + 30_000_000,
        })
        .unwrap();
    let waited = monotonic_ns() - start;
    assert!((29_000_000..3_000_000_000).contains(&waited), "{waited} ns");
    engine.wait(WaitFor::Event { until_ns: start }).unwrap();
    engine.wait(WaitFor::Nothing).unwrap();
    assert_eq!(engine.next(), None);
    assert_eq!(engine.stats().enters, 3);
}

pub(crate) fn a_minimum_wait_gathers_completions<B: Make>() {
    let mut setup = setup(BUFFERS);
    (setup.min_wait_us, setup.min_wait_batch) = (Some(200_000), 4);
    let mut engine = B::make(&setup);
    if !engine
        .stats()
        .features
        .iter()
        .any(|name| name == "min_wait")
    {
        return;
    }
    let (ours, theirs) = udp_pair();
    let slot = engine.add(ours).unwrap();
    engine.receive(slot);
    let sender = std::thread::spawn(move || {
        for _ in 0..4 {
            std::thread::sleep(std::time::Duration::from_millis(5));
            theirs.send(b"x").unwrap();
        }
        theirs
    });
    engine
        .wait(WaitFor::Event {
            until_ns: monotonic_ns() + PATIENCE_NS,
        })
        .unwrap();
    let gathered = std::iter::from_fn(|| engine.next()).count();
    let theirs = sender.join().unwrap();
    assert_eq!(gathered, 4);
    // One alone is not kept for longer than the minimum wait.
    theirs.send(b"x").unwrap();
    let start = monotonic_ns();
    engine.wait(WaitFor::Event { until_ns: u64::MAX }).unwrap();
    assert!(monotonic_ns() - start < 2_000_000_000);
    assert_eq!(std::iter::from_fn(|| engine.next()).count(), 1);
    // A time-out below the minimum wait is kept all the same.
    let start = monotonic_ns();
    engine
        .wait(WaitFor::Event {
            until_ns: start + 10_000_000,
        })
        .unwrap();
    assert!(monotonic_ns() - start < 150_000_000);
}

pub(crate) fn udp_learns_that_nobody_listens<B: Make>() {
    let gone = UdpSocket::bind("127.0.0.1:0").unwrap();
    let ours = UdpSocket::bind("127.0.0.1:0").unwrap();
    ours.connect(gone.local_addr().unwrap()).unwrap();
    drop(gone);
    let mut engine = made::<B>(BUFFERS);
    let slot = engine.add(ours.into()).unwrap();
    engine.receive(slot);
    engine.send(slot, 0, SendFrom::Payload { offset: 0, len: 1 });
    let event = event_of(&mut engine, Kind::Receive, slot);
    assert_eq!((event.result, event.armed), (-libc::ECONNREFUSED, false));
}
