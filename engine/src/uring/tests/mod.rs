//! Every operation and receive style over real sockets.

mod flows;
mod kernels;
mod lifetimes;
mod refusal;

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use super::Ring;
use crate::backend::{Backend, Event, Kind, ReceiveStyle, Setup, Slot, WaitFor};
use crate::sys::clock::monotonic_ns;

/// Longest that any test waits for anything.
const PATIENCE_NS: u64 = 5_000_000_000;

fn setup(receive: ReceiveStyle) -> Setup {
    Setup {
        sockets: 16,
        operations: 64,
        payload: (0..1 << 20).map(|at: u32| (at % 251) as u8).collect(),
        send_buffers: 4,
        send_buffer_len: 4096,
        receive,
        min_wait_us: None,
        min_wait_batch: 1,
    }
}

fn ring(receive: ReceiveStyle) -> Ring {
    Ring::new(&setup(receive)).expect("io_uring is available")
}

const SCRATCH: ReceiveStyle = ReceiveStyle::Scratch { len: 1 << 16 };
const BUFFERS: ReceiveStyle = ReceiveStyle::Ring {
    count: 8,
    len: 4096,
};
const MESSAGES: ReceiveStyle = ReceiveStyle::RingWithControl {
    count: 8,
    len: 4096,
};
const DISCARD: ReceiveStyle = ReceiveStyle::Discard { len: 1 << 20 };

/// The next event, waiting for it. Panics where none comes.
fn event(ring: &mut Ring) -> Event {
    let until_ns = monotonic_ns() + PATIENCE_NS;
    loop {
        if let Some(event) = ring.next() {
            return event;
        }
        assert!(monotonic_ns() < until_ns, "no event in time");
        ring.wait(WaitFor::Event { until_ns }).unwrap();
    }
}

/// The next event of a kind on a slot; others are recycled.
fn event_of(ring: &mut Ring, kind: Kind, slot: Slot) -> Event {
    loop {
        let event = event(ring);
        if event.kind == kind && event.slot == slot {
            return event;
        }
        ring.recycle(&event);
    }
}

/// Nothing comes for a while.
fn silence(ring: &mut Ring) {
    let until_ns = monotonic_ns() + 20_000_000;
    while monotonic_ns() < until_ns {
        ring.wait(WaitFor::Event { until_ns }).unwrap();
        assert_eq!(ring.next(), None);
    }
}

fn unix_pair() -> (OwnedFd, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    (ours.into(), theirs)
}

fn tcp_pair() -> (OwnedFd, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let theirs = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (listener.accept().unwrap().0.into(), theirs)
}

fn udp_pair() -> (OwnedFd, UdpSocket) {
    let (ours, theirs) = (
        UdpSocket::bind("[::1]:0").unwrap(),
        UdpSocket::bind("[::1]:0").unwrap(),
    );
    ours.connect(theirs.local_addr().unwrap()).unwrap();
    theirs.connect(ours.local_addr().unwrap()).unwrap();
    (ours.into(), theirs)
}
