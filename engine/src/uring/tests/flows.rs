//! Operations and receive styles.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;

use super::*;
use crate::backend::SendFrom;

#[test]
fn scratch_counts_a_stream_to_its_end() {
    let (ours, mut theirs) = tcp_pair();
    let mut ring = ring(SCRATCH);
    let slot = ring.add(ours).unwrap();
    ring.arm().unwrap();
    ring.receive(slot);
    theirs.write_all(&[7; 300_000]).unwrap();
    let mut total = 0;
    while total < 300_000 {
        let event = event_of(&mut ring, Kind::Receive, slot);
        assert!(
            event.result > 0 && event.armed && event.buffer.is_none(),
            "{event:?}"
        );
        total += event.result;
    }
    drop(theirs);
    let end = event_of(&mut ring, Kind::Receive, slot);
    assert_eq!((total, end.result, end.armed), (300_000, 0, false));
    silence(&mut ring);
}

#[test]
fn discard_counts_what_nobody_copies() {
    let (ours, mut theirs) = tcp_pair();
    let mut ring = ring(DISCARD);
    let slot = ring.add(ours).unwrap();
    ring.receive(slot);
    theirs.write_all(&[7; 100_000]).unwrap();
    let mut total = 0;
    while total < 100_000 {
        total += event_of(&mut ring, Kind::Receive, slot).result;
    }
    assert_eq!(total, 100_000);
}

#[test]
fn buffers_carry_the_bytes_in_order() {
    for style in [BUFFERS, MESSAGES] {
        let (ours, mut theirs) = tcp_pair();
        let mut ring = ring(style);
        let slot = ring.add(ours).unwrap();
        ring.receive(slot);
        let sent: Vec<u8> = (0..50_000u32).map(|at| (at % 253) as u8).collect();
        theirs.write_all(&sent).unwrap();
        let mut received = Vec::new();
        while received.len() < sent.len() {
            let event = event_of(&mut ring, Kind::Receive, slot);
            assert_eq!(ring.data(&event).len(), event.result as usize);
            received.extend_from_slice(ring.data(&event));
            ring.recycle(&event);
        }
        assert!(received == sent, "{style:?}");
        drop(theirs);
        let end = event_of(&mut ring, Kind::Receive, slot);
        assert_eq!((end.result, end.armed), (0, false), "{style:?}");
    }
}

#[test]
fn datagrams_keep_their_bounds_and_bring_control_messages() {
    let (ours, theirs) = udp_pair();
    crate::sys::socket::set_receive_timestamps(ours.as_fd(), true).unwrap();
    let mut ring = ring(MESSAGES);
    let slot = ring.add(ours).unwrap();
    ring.receive(slot);
    let before = crate::sys::clock::realtime_ns();
    for datagram in [&b"one"[..], b"", b"three", &[9; 5000]] {
        theirs.send(datagram).unwrap();
    }
    let lens = [3, 0, 5, 4096].map(|expected| {
        let event = event_of(&mut ring, Kind::Receive, slot);
        assert!(event.armed, "{event:?}");
        let control = ring.control(&event);
        let age = control.received_realtime_ns.unwrap() as i64 - before as i64;
        assert!((0..PATIENCE_NS as i64).contains(&age), "{age} ns");
        assert_eq!(
            (control.segment_bytes, control.truncated),
            (0, expected == 4096)
        );
        assert_eq!(ring.data(&event).len(), event.result as usize);
        ring.recycle(&event);
        event.result
    });
    assert_eq!(lens, [3, 0, 5, 4096]);
}

#[test]
fn merged_datagrams_tell_their_size() {
    let (ours, theirs) = udp_pair();
    crate::sys::socket::set_udp_gro(ours.as_fd(), true).unwrap();
    crate::sys::socket::set_udp_segment(theirs.as_fd(), 100).unwrap();
    let mut ring = ring(MESSAGES);
    let slot = ring.add(ours).unwrap();
    ring.receive(slot);
    theirs.send(&[1; 1000]).unwrap();
    let event = event_of(&mut ring, Kind::Receive, slot);
    assert_eq!(
        (event.result, ring.control(&event).segment_bytes),
        (1000, 100)
    );
}

#[test]
fn empty_datagrams_do_not_end_a_plain_receive() {
    for style in [SCRATCH, BUFFERS] {
        let (ours, theirs) = udp_pair();
        let mut ring = ring(style);
        let slot = ring.add(ours).unwrap();
        ring.receive(slot);
        for datagram in [&b""[..], b"xy"] {
            theirs.send(datagram).unwrap();
            let event = event_of(&mut ring, Kind::Receive, slot);
            assert_eq!(
                (event.result, event.armed),
                (datagram.len() as i32, true),
                "{style:?}"
            );
            ring.recycle(&event);
        }
    }
}

#[test]
fn sends_go_whole_from_payload_and_buffers() {
    let (ours, mut theirs) = tcp_pair();
    let mut ring = ring(SCRATCH);
    let slot = ring.add(ours).unwrap();
    ring.arm().unwrap();
    ring.send(
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
    let event = event_of(&mut ring, Kind::Send, slot);
    assert_eq!((event.token, event.result), (41, 1_000_000));
    ring.send_buffer(2)[..3].copy_from_slice(b"abc");
    ring.send(slot, 42, SendFrom::Buffer { index: 2, len: 3 });
    let event = event_of(&mut ring, Kind::Send, slot);
    assert_eq!((event.token, event.result), (42, 3));
    ring.send_buffer(2)[0] = b'x';
    let bytes = reader.join().unwrap();
    assert!((0..1_000_000).all(|at| bytes[at] == ((at + 1000) % 251) as u8));
    assert_eq!(&bytes[1_000_000..], b"abc");
}

#[test]
#[should_panic(expected = "is being sent")]
fn a_busy_buffer_is_not_lent_out() {
    let (ours, _theirs) = tcp_pair();
    let mut ring = ring(SCRATCH);
    let slot = ring.add(ours).unwrap();
    ring.send(slot, 0, SendFrom::Buffer { index: 1, len: 1 });
    ring.send_buffer(1);
}

#[test]
fn a_send_to_nobody_is_an_error_and_no_signal() {
    let (ours, theirs) = unix_pair();
    let mut ring = ring(SCRATCH);
    let slot = ring.add(ours).unwrap();
    drop(theirs);
    ring.send(slot, 5, SendFrom::Payload { offset: 0, len: 10 });
    let event = event_of(&mut ring, Kind::Send, slot);
    assert_eq!((event.token, event.result), (5, -libc::EPIPE));
}

#[test]
fn datagrams_are_sent_as_such() {
    let (ours, theirs) = udp_pair();
    let mut ring = ring(SCRATCH);
    let slot = ring.add(ours).unwrap();
    for len in [1, 1200, 0] {
        ring.send(slot, len, SendFrom::Payload { offset: 0, len });
    }
    ring.wait(WaitFor::Nothing).unwrap();
    let mut bytes = [0; 2000];
    for len in [1, 1200, 0] {
        assert_eq!(theirs.recv(&mut bytes).unwrap(), len);
    }
}

#[test]
fn more_operations_than_queue_entries() {
    let (ours, mut theirs) = tcp_pair();
    let setup = Setup {
        operations: 2000,
        ..setup(SCRATCH)
    };
    let mut ring = Ring::new(&setup).unwrap();
    let slot = ring.add(ours).unwrap();
    for token in 0..2000 {
        ring.send(slot, token, SendFrom::Payload { offset: 0, len: 10 });
    }
    let mut done = vec![false; 2000];
    for _ in 0..2000 {
        let event = event_of(&mut ring, Kind::Send, slot);
        assert_eq!(event.result, 10);
        assert!(!std::mem::replace(&mut done[event.token as usize], true));
    }
    theirs.read_exact(&mut [0; 20_000]).unwrap();
    assert_eq!(ring.stats().overflows, 0);
}

#[test]
fn connects_and_names_refusals() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let listener = TcpListener::bind(address).unwrap();
        let to = listener.local_addr().unwrap();
        let mut ring = ring(SCRATCH);
        ring.arm().unwrap();
        let slot = ring.add(unconnected(to)).unwrap();
        ring.connect(slot, to);
        assert_eq!(event_of(&mut ring, Kind::Connect, slot).result, 0);
        let (mut theirs, _) = listener.accept().unwrap();
        ring.receive(slot);
        theirs.write_all(b"hi").unwrap();
        assert_eq!(event_of(&mut ring, Kind::Receive, slot).result, 2);
        drop(listener);
        let slot = ring.add(unconnected(to)).unwrap();
        ring.connect(slot, to);
        assert_eq!(
            event_of(&mut ring, Kind::Connect, slot).result,
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

#[test]
fn a_non_blocking_socket_waits_all_the_same() {
    let (ours, mut theirs) = tcp_pair();
    crate::sys::socket::set_nonblocking(ours.as_fd(), true).unwrap();
    let mut ring = ring(SCRATCH);
    let slot = ring.add(ours).unwrap();
    ring.receive(slot);
    silence(&mut ring);
    theirs.write_all(b"late").unwrap();
    assert_eq!(event_of(&mut ring, Kind::Receive, slot).result, 4);
}

#[test]
fn accepts_until_closed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    let mut ring = ring(BUFFERS);
    let slot = ring.add_listener(listener.into()).unwrap();
    ring.arm().unwrap();
    ring.accept(slot);
    for _ in 0..5 {
        let mut theirs = TcpStream::connect(to).unwrap();
        let event = event(&mut ring);
        assert_eq!(
            (event.kind, event.token, event.result),
            (Kind::Accept, slot, 0)
        );
        assert!(event.armed && event.slot != slot);
        ring.receive(event.slot);
        theirs.write_all(b"abc").unwrap();
        let received = event_of(&mut ring, Kind::Receive, event.slot);
        assert_eq!(ring.data(&received), b"abc");
        ring.recycle(&received);
        ring.close(event.slot);
        event_of(&mut ring, Kind::Close, event.slot);
        assert_eq!(theirs.read(&mut [0; 1]).unwrap(), 0);
    }
    ring.close(slot);
    event_of(&mut ring, Kind::Close, slot);
    assert!(TcpStream::connect(to).is_err());
}

#[test]
fn a_connection_without_a_slot_is_dropped_and_told() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    let mut ring = Ring::new(&Setup {
        sockets: 1,
        ..setup(SCRATCH)
    })
    .unwrap();
    let slot = ring.add_listener(listener.into()).unwrap();
    ring.accept(slot);
    let mut theirs = TcpStream::connect(to).unwrap();
    let event = event(&mut ring);
    assert_eq!(
        (event.kind, event.slot, event.result),
        (Kind::Accept, slot, -libc::ENFILE)
    );
    assert_eq!(theirs.read(&mut [0; 1]).unwrap(), 0);
}

#[test]
fn another_thread_wakes_it_again_and_again() {
    let (waker, handle) = crate::sys::eventfd::pair().unwrap();
    let mut ring = ring(SCRATCH);
    let slot = ring.add_waker(handle).unwrap();
    silence(&mut ring);
    for _ in 0..3 {
        let waker = waker.clone();
        std::thread::spawn(move || waker.wake().unwrap())
            .join()
            .unwrap();
        let event = event(&mut ring);
        assert_eq!(
            (event.kind, event.slot, event.armed),
            (Kind::Wake, slot, true)
        );
        silence(&mut ring);
    }
}

#[test]
fn waits_end_in_time() {
    let mut ring = ring(SCRATCH);
    let start = monotonic_ns();
    ring.wait(WaitFor::Event {
        until_ns: start + 30_000_000,
    })
    .unwrap();
    let waited = monotonic_ns() - start;
    assert!((29_000_000..3_000_000_000).contains(&waited), "{waited} ns");
    ring.wait(WaitFor::Event { until_ns: start }).unwrap();
    ring.wait(WaitFor::Nothing).unwrap();
    assert_eq!(ring.next(), None);
    assert_eq!(ring.stats().enters, 3);
}

#[test]
fn a_minimum_wait_gathers_completions() {
    let mut setup = setup(BUFFERS);
    (setup.min_wait_us, setup.min_wait_batch) = (Some(200_000), 4);
    let mut ring = Ring::new(&setup).unwrap();
    if !ring.stats().features.iter().any(|name| name == "min_wait") {
        return;
    }
    let (ours, theirs) = udp_pair();
    let slot = ring.add(ours).unwrap();
    ring.receive(slot);
    let sender = std::thread::spawn(move || {
        for _ in 0..4 {
            std::thread::sleep(std::time::Duration::from_millis(5));
            theirs.send(b"x").unwrap();
        }
        theirs
    });
    ring.wait(WaitFor::Event {
        until_ns: monotonic_ns() + PATIENCE_NS,
    })
    .unwrap();
    let gathered = std::iter::from_fn(|| ring.next()).count();
    let theirs = sender.join().unwrap();
    assert_eq!(gathered, 4);
    // One alone is not kept for longer than the minimum wait.
    theirs.send(b"x").unwrap();
    let start = monotonic_ns();
    ring.wait(WaitFor::Event { until_ns: u64::MAX }).unwrap();
    assert!(monotonic_ns() - start < 2_000_000_000);
    assert_eq!(std::iter::from_fn(|| ring.next()).count(), 1);
    // A time-out below the minimum wait is kept all the same.
    let start = monotonic_ns();
    ring.wait(WaitFor::Event {
        until_ns: start + 10_000_000,
    })
    .unwrap();
    assert!(monotonic_ns() - start < 150_000_000);
}

#[test]
fn udp_learns_that_nobody_listens() {
    let gone = UdpSocket::bind("127.0.0.1:0").unwrap();
    let ours = UdpSocket::bind("127.0.0.1:0").unwrap();
    ours.connect(gone.local_addr().unwrap()).unwrap();
    drop(gone);
    let mut ring = ring(BUFFERS);
    let slot = ring.add(ours.into()).unwrap();
    ring.receive(slot);
    ring.send(slot, 0, SendFrom::Payload { offset: 0, len: 1 });
    let event = event_of(&mut ring, Kind::Receive, slot);
    assert_eq!((event.result, event.armed), (-libc::ECONNREFUSED, false));
}
