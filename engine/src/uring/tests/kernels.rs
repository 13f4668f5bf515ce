//! What older kernels lack, taken away by hand.

use std::io::Write;

use super::*;
use crate::backend::SendFrom;
use crate::uring::core::LADDER;
use crate::uring::memory::Receiver;

#[test]
fn this_kernel_is_found_out() {
    assert!(crate::uring::available().is_ok());
    let features = ring(BUFFERS).stats().features;
    // The tests need not run on a kernel that has them; where it has, they are in force.
    if features.iter().any(|name| name == "no_sqarray") {
        for name in [
            "defer_taskrun",
            "buffer_ring",
            "receive_multishot",
            "fixed_files",
        ] {
            assert!(
                features.iter().any(|have| have == name),
                "{name} not in {features:?}"
            );
        }
    }
}

#[test]
fn accept_works_without_multishot() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    let mut ring = ring(SCRATCH);
    ring.multishot_accept = false;
    let slot = ring.add_listener(listener.into()).unwrap();
    ring.accept(slot);
    for _ in 0..3 {
        let _theirs = std::net::TcpStream::connect(to).unwrap();
        let event = event(&mut ring);
        assert_eq!(
            (event.kind, event.result, event.armed),
            (Kind::Accept, 0, true)
        );
    }
}

#[test]
fn single_receives_do_the_same() {
    for style in [SCRATCH, BUFFERS] {
        let (ours, mut theirs) = tcp_pair();
        let mut ring = ring(style);
        ring.modern = false;
        let slot = ring.add(ours).unwrap();
        ring.receive(slot);
        for _ in 0..20 {
            theirs.write_all(b"abc").unwrap();
            let event = event_of(&mut ring, Kind::Receive, slot);
            assert_eq!((event.result, event.armed), (3, true));
            assert!(event.buffer.is_none() || ring.data(&event) == b"abc");
            ring.recycle(&event);
        }
        drop(theirs);
        let end = event_of(&mut ring, Kind::Receive, slot);
        assert_eq!((end.result, end.armed), (0, false));
    }
}

#[test]
fn single_messages_bring_their_control_data() {
    use std::os::fd::AsFd;
    let (ours, theirs) = udp_pair();
    crate::sys::socket::set_receive_timestamps(ours.as_fd(), true).unwrap();
    let mut ring = ring(MESSAGES);
    ring.modern = false;
    ring.memory.use_singles(16).unwrap();
    let slot = ring.add(ours).unwrap();
    ring.receive(slot);
    for (len, truncated) in [(10, false), (0, false), (5000, true), (20, false)] {
        theirs.send(&vec![5; len]).unwrap();
        let event = event_of(&mut ring, Kind::Receive, slot);
        let control = ring.control(&event);
        assert_eq!(ring.data(&event), vec![5; len.min(4096)]);
        // An empty datagram takes no buffer, so that there is nothing to remember it by.
        assert!(event.armed && control.received_realtime_ns.is_some() == (len > 0));
        assert_eq!(control.truncated, truncated, "{len}");
        ring.recycle(&event);
    }
}

#[test]
fn every_set_of_flags_moves_bytes() {
    for rung in &LADDER {
        let mut ring = Ring::with_flags(std::slice::from_ref(rung), &setup(BUFFERS)).unwrap();
        let (one, two) = unix_pair();
        let (one, two) = (ring.add(one).unwrap(), ring.add(two.into()).unwrap());
        ring.arm().unwrap();
        ring.receive(two);
        for token in 0..20 {
            ring.send(
                one,
                token,
                SendFrom::Payload {
                    offset: 0,
                    len: 100,
                },
            );
            let received = event_of(&mut ring, Kind::Receive, two);
            assert_eq!(received.result, 100, "{rung:?}");
            ring.recycle(&received);
        }
        ring.close(one);
        assert_eq!(
            event_of(&mut ring, Kind::Receive, two).result,
            0,
            "{rung:?}"
        );
    }
}

#[test]
fn buffers_given_one_by_one_do_the_same() {
    let (ours, mut theirs) = tcp_pair();
    let mut ring = ring(BUFFERS);
    ring.modern = false;
    let ring_core = &ring.core;
    let Receiver::Group(group) = &mut ring.memory.receiver else {
        panic!("buffers were asked for")
    };
    group.one_by_one(ring_core.submitter());
    let slot = ring.add(ours).unwrap();
    ring.receive(slot);
    let sent: Vec<u8> = (0..200_000u32).map(|at| (at % 249) as u8).collect();
    let expected = sent.clone();
    let writer = std::thread::spawn(move || theirs.write_all(&sent));
    let mut received = Vec::new();
    while received.len() < expected.len() {
        let event = event_of(&mut ring, Kind::Receive, slot);
        received.extend_from_slice(ring.data(&event));
        ring.recycle(&event);
    }
    writer.join().unwrap().unwrap();
    assert!(received == expected);
}
