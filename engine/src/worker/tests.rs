//! A receiver of datagrams around its stop, and what a worker chooses by itself.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use super::*;
use crate::backend::ReceiveStyle;
use crate::plan::{Case, Limit, Proto, Test};
use crate::record::canned::case;
use crate::sys::clock::monotonic_ns;
use crate::traffic::udp::{HEADER_BYTES, Header, Phase};
use crate::uring;

const SESSION: u32 = 7;
const PATIENCE: Duration = Duration::from_secs(10);

/// A worker that receives one flow of datagrams, and the other end of the flow.
struct Receiver {
    worker: WorkerHandle,
    sender: UdpSocket,
    sent: u64,
}

impl Receiver {
    /// Armed and started.
    fn start(engine: EngineKind) -> Receiver {
        let [own, sender] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").expect("loopback"));
        own.connect(sender.local_addr().expect("bound"))
            .expect("loopback");
        sender
            .connect(own.local_addr().expect("bound"))
            .expect("loopback");
        let case = Case {
            limit: Limit::Duration { ns: 50_000_000 },
            warmup_ns: 0,
            ..case("udp stream", Proto::Udp, Test::Stream, (100, 0), 1)
        };
        let plan = WorkerPlan {
            index: 0,
            workers: 1,
            cpu: None,
            client: false,
            yields: false,
            engine,
            case,
            session: SESSION,
        };
        let worker = spawn(plan).expect("a thread");
        let flow = Adopted {
            group: 0,
            flow: 0,
            socket: own.into(),
        };
        worker
            .commands
            .send(Command::Adopt(flow))
            .expect("it lives");
        worker.commands.send(Command::Arm).expect("it lives");
        let armed = worker.notes.recv_timeout(PATIENCE);
        assert!(matches!(armed, Ok(Note::Armed)), "{armed:?}");
        worker.signals.start(monotonic_ns());
        Receiver {
            worker,
            sender,
            sent: 0,
        }
    }

    /// Sends the next datagram of the window.
    fn send(&mut self) {
        let header = Header {
            session: SESSION,
            flow: 0,
            phase: Phase::Window,
            sequence: self.sent,
            stamp_ns: 0,
        };
        let mut datagram = [0; 100];
        header.encode(&mut datagram[..HEADER_BYTES]);
        // Once the worker is gone, nobody is there to receive it.
        let _ = self.sender.send(&datagram);
        self.sent += 1;
    }

    /// Stops the worker and waits for its end; every so often `then` may send. Gives how long
    /// that took.
    fn drain(
        &mut self,
        every: Duration,
        mut then: impl FnMut(&mut Receiver, Duration),
    ) -> Duration {
        let stopped = Instant::now();
        self.worker.signals.stop();
        let mut next = every;
        while !self.worker.is_finished() {
            assert!(stopped.elapsed() < PATIENCE, "it does not end");
            if stopped.elapsed() >= next {
                then(self, next);
                next += every;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        stopped.elapsed()
    }

    /// Datagrams received, by the sequence account.
    fn received(self) -> u64 {
        let (outcome, _) = self.worker.join();
        let outcome = outcome.expect("it ran");
        outcome.flows[0].account.expect("it received").received[Phase::Window.index()]
    }
}

fn engines() -> impl Iterator<Item = EngineKind> {
    let ring = uring::available().is_ok().then_some(EngineKind::IoUring);
    [EngineKind::Sockets].into_iter().chain(ring)
}

/// What holds on a machine with time for it is given more than one chance.
fn given_time(attempt: impl Fn() -> Result<(), String>) {
    let mut last = Ok(());
    for _ in 0..5 {
        last = attempt();
        if last.is_ok() {
            return;
        }
    }
    panic!("five times in a row: {last:?}");
}

fn within(took: Duration, from_ms: u64, to_ms: u64) -> Result<(), String> {
    let range = Duration::from_millis(from_ms)..Duration::from_millis(to_ms);
    match range.contains(&took) {
        true => Ok(()),
        false => Err(format!("{took:?} is not within {range:?}")),
    }
}

#[test]
fn the_drain_of_datagrams_ends_after_200_ms_of_silence() {
    for engine in engines() {
        given_time(|| {
            let mut receiver = Receiver::start(engine);
            (0..3).for_each(|_| receiver.send());
            let took = receiver.drain(PATIENCE, |_, _| {});
            assert_eq!(receiver.received(), 3);
            within(took, 199, 350)
        });
    }
}

/// A datagram within the silence counts, and the silence begins anew.
#[test]
fn what_comes_within_the_silence_counts_and_prolongs_it() {
    for engine in engines() {
        given_time(|| {
            let mut receiver = Receiver::start(engine);
            receiver.send();
            let first = Duration::from_millis(150);
            let took = receiver.drain(first, |receiver, at| {
                if at == first {
                    receiver.send();
                }
            });
            let received = receiver.received();
            match received {
                2 => within(took, 349, 500),
                _ => Err(format!("{received} received, after {took:?}")),
            }
        });
    }
}

/// However long it goes on, a second after the stop it is over.
#[test]
fn the_drain_of_datagrams_ends_after_a_second_at_most() {
    for engine in engines() {
        given_time(|| {
            let mut receiver = Receiver::start(engine);
            let every = Duration::from_millis(20);
            let took = receiver.drain(every, |receiver, _| receiver.send());
            let (sent, received) = (receiver.sent, receiver.received());
            // The last one may have come after the end.
            assert!(
                received <= sent && received + 2 >= sent,
                "{received} of {sent}"
            );
            within(took, 999, 1150)
        });
    }
}

/// The choices for a server that receives.
fn choices(case: &Case, flows: usize) -> Choices {
    Choices::of(case, false, &vec![Role::StreamReceive; flows])
}

#[test]
fn as_an_application_nothing_is_chosen() {
    let own = case("tcp stream", Proto::Tcp, Test::Stream, (64, 0), 100);
    let mut plain = own.clone();
    plain.options.as_application = true;
    let (own, applications) = (choices(&own, 100), choices(&plain, 100));
    assert!(
        own.low_water && own.min_wait_us.is_some() && own.depth > 1,
        "{own:?}"
    );
    assert!(matches!(own.receive, ReceiveStyle::Ring { .. }), "{own:?}");
    assert!(
        !applications.low_water && applications.min_wait_us.is_none(),
        "{applications:?}"
    );
    assert_eq!(applications.depth, 1);
    assert!(
        matches!(applications.receive, ReceiveStyle::Scratch { .. }),
        "{applications:?}"
    );
}
