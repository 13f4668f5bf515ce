//! What every engine does the same, as tests over real sockets.

pub(crate) mod flows;
pub(crate) mod lifetimes;
pub(crate) mod zerocopy;

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use super::{Backend, Event, Kind, ReceiveStyle, RingFlags, SendStyle, Setup, Slot, WaitFor};
use crate::sys::clock::monotonic_ns;

/// Longest that any test waits for anything.
pub(crate) const PATIENCE_NS: u64 = 5_000_000_000;

pub(crate) fn setup(receive: ReceiveStyle) -> Setup {
    Setup {
        sockets: 16,
        operations: 64,
        payload: (0..1 << 20).map(|at: u32| (at % 251) as u8).collect(),
        send_buffers: 4,
        send_buffer_len: 4096,
        send: SendStyle::Copy,
        receive,
        min_wait_us: None,
        min_wait_batch: 1,
        fixed_files: true,
        ring_flags: RingFlags::Defer,
        busy_poll_us: None,
        huge_pages: false,
    }
}

/// An engine that a test can make.
pub(crate) trait Make: Backend + Sized {
    /// Makes one.
    fn make(setup: &Setup) -> Self;
}

fn made<B: Make>(receive: ReceiveStyle) -> B {
    B::make(&setup(receive))
}

pub(crate) const SCRATCH: ReceiveStyle = ReceiveStyle::Scratch { len: 1 << 16 };
pub(crate) const BUFFERS: ReceiveStyle = ReceiveStyle::Ring {
    count: 8,
    len: 4096,
};
pub(crate) const MESSAGES: ReceiveStyle = ReceiveStyle::RingWithControl {
    count: 8,
    len: 4096,
};
pub(crate) const DISCARD: ReceiveStyle = ReceiveStyle::Discard { len: 1 << 20 };

/// The next event, waiting for it. Panics where none comes.
pub(crate) fn event(engine: &mut impl Backend) -> Event {
    let until_ns = monotonic_ns() + PATIENCE_NS;
    loop {
        if let Some(event) = engine.next() {
            return event;
        }
        assert!(monotonic_ns() < until_ns, "no event in time");
        engine.wait(WaitFor::Event { until_ns }).unwrap();
    }
}

/// The next event of a kind on a slot; others are recycled.
pub(crate) fn event_of(engine: &mut impl Backend, kind: Kind, slot: Slot) -> Event {
    loop {
        let event = event(engine);
        if event.kind == kind && event.slot == slot {
            return event;
        }
        engine.recycle(&event);
    }
}

/// Nothing comes for a while.
pub(crate) fn silence(engine: &mut impl Backend) {
    let until_ns = monotonic_ns() + 20_000_000;
    while monotonic_ns() < until_ns {
        engine.wait(WaitFor::Event { until_ns }).unwrap();
        assert_eq!(engine.next(), None);
    }
}

pub(crate) fn unix_pair() -> (OwnedFd, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    (ours.into(), theirs)
}

pub(crate) fn tcp_pair() -> (OwnedFd, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let theirs = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (listener.accept().unwrap().0.into(), theirs)
}

pub(crate) fn udp_pair() -> (OwnedFd, UdpSocket) {
    let (ours, theirs) = (
        UdpSocket::bind("[::1]:0").unwrap(),
        UdpSocket::bind("[::1]:0").unwrap(),
    );
    ours.connect(theirs.local_addr().unwrap()).unwrap();
    theirs.connect(ours.local_addr().unwrap()).unwrap();
    (ours.into(), theirs)
}

/// Has an engine pass every test here.
macro_rules! conformance {
    ($engine:ty) => {
        $crate::backend::conformance::tests! {
            $engine,
            flows:
                scratch_counts_a_stream_to_its_end, discard_counts_what_nobody_copies,
                buffers_carry_the_bytes_in_order,
                datagrams_keep_their_bounds_and_bring_control_messages,
                merged_datagrams_tell_their_size, empty_datagrams_do_not_end_a_plain_receive,
                sends_go_whole_from_payload_and_buffers,
                a_send_to_nobody_is_an_error_and_no_signal, datagrams_are_sent_as_such,
                more_operations_than_queue_entries, connects_and_names_refusals,
                a_non_blocking_socket_waits_all_the_same, accepts_until_closed,
                a_connection_without_a_slot_is_dropped_and_told,
                another_thread_wakes_it_again_and_again, waits_end_in_time,
                a_minimum_wait_gathers_completions, udp_learns_that_nobody_listens;
            lifetimes:
                a_cancelled_send_tells_the_bytes_that_went,
                closing_ends_everything_and_frees_the_slot_last,
                a_stopped_receive_can_start_again,
                running_out_of_buffers_is_counted_and_survived,
                waiting_without_buffers_does_not_spin, few_buffers_go_round_among_many_sockets,
                dropping_with_operations_in_flight_closes_the_sockets,
                dropping_returns_every_descriptor;
            zerocopy:
                lent_payload_arrives_and_is_counted, many_small_lent_sends_lose_no_notice,
                lent_buffers_come_back_when_the_kernel_is_done,
                a_lent_send_to_nobody_is_an_error, cancelled_lent_sends_tell_the_bytes_that_went,
                dropping_with_lent_sends_in_flight_returns;
        }

        #[test]
        #[should_panic(expected = "is being sent")]
        fn a_busy_buffer_is_not_lent_out() {
            $crate::backend::conformance::flows::a_busy_buffer_is_not_lent_out::<$engine>();
        }

        #[test]
        #[should_panic(expected = "given back already")]
        fn a_buffer_is_given_back_once() {
            $crate::backend::conformance::lifetimes::a_buffer_is_given_back_once::<$engine>();
        }
    };
}
pub(crate) use conformance;

macro_rules! tests {
    ($engine:ty, $($module:ident: $($name:ident),+;)+) => {
        $($(
            #[test]
            fn $name() {
                $crate::backend::conformance::$module::$name::<$engine>();
            }
        )+)+
    };
}
pub(crate) use tests;
