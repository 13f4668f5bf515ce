//! An engine in memory: every send succeeds at once, and what arrives is made up.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use ringperf::backend::{
    Backend, Control, EngineStats, Event, Kind, SendFrom, Setup, Slot, WaitFor,
};
use ringperf::traffic::udp::{Header, Phase};
use ringperf::worker::Signals;

/// What the other side does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Other {
    /// Takes what is sent.
    Takes,
    /// Answers every message with so many bytes.
    Answers(u32),
    /// Asks with so many bytes, and again after each answer.
    Asks(u32),
    /// Sends a stream, so many bytes an arrival.
    Streams(u32),
    /// Sends datagrams of so many bytes, several a wait.
    Datagrams(u32),
}

/// Datagrams that arrive in one wait.
const BATCH: u64 = 32;

/// The only flow's slot.
const FLOW: Slot = 0;

/// The engine. Its functions are not inlined, so that what they cost can be told apart.
pub struct Memory {
    other: Other,
    /// Operations after which it ends the worker.
    limit: u64,
    /// Operations so far: sends that ended or arrivals, whichever the case is about.
    done: u64,
    signals: Arc<Signals>,
    sockets: Vec<OwnedFd>,
    /// What completes with the next wait, and what completed with the last.
    queued: VecDeque<Event>,
    events: VecDeque<Event>,
    buffers: Vec<Vec<u8>>,
    arrival: Vec<u8>,
    sequence: u64,
    session: u32,
    asked: bool,
}

impl Memory {
    /// One that ends the worker after `limit` operations.
    pub fn new(
        setup: &Setup,
        other: Other,
        limit: u64,
        session: u32,
        signals: Arc<Signals>,
    ) -> Memory {
        let bytes = match other {
            Other::Takes => 0,
            Other::Answers(bytes)
            | Other::Asks(bytes)
            | Other::Streams(bytes)
            | Other::Datagrams(bytes) => bytes,
        };
        let buffer = vec![0; setup.send_buffer_len as usize];
        Memory {
            other,
            limit,
            done: 0,
            signals,
            sockets: Vec::new(),
            queued: VecDeque::with_capacity(setup.operations as usize + BATCH as usize),
            events: VecDeque::with_capacity(setup.operations as usize + BATCH as usize),
            buffers: vec![buffer; setup.send_buffers as usize],
            arrival: vec![0; bytes as usize],
            sequence: 0,
            session,
            asked: false,
        }
    }

    fn count(&mut self) {
        self.done += 1;
        if self.done == self.limit {
            self.signals.abort();
        }
    }

    fn arrive(&mut self, buffer: Option<u16>) {
        self.queued.push_back(Event {
            kind: Kind::Receive,
            slot: FLOW,
            token: 0,
            result: self.arrival.len() as i32,
            buffer,
            armed: true,
        });
    }

    fn add(&mut self, socket: OwnedFd) -> Slot {
        self.sockets.push(socket);
        self.sockets.len() as Slot - 1
    }
}

impl Backend for Memory {
    #[inline(never)]
    fn add(&mut self, socket: OwnedFd) -> io::Result<Slot> {
        Ok(self.add(socket))
    }

    #[inline(never)]
    fn add_listener(&mut self, socket: OwnedFd) -> io::Result<Slot> {
        Ok(self.add(socket))
    }

    #[inline(never)]
    fn add_waker(&mut self, eventfd: OwnedFd) -> io::Result<Slot> {
        Ok(self.add(eventfd))
    }

    #[inline(never)]
    fn socket(&self, slot: Slot) -> BorrowedFd<'_> {
        self.sockets[slot as usize].as_fd()
    }

    #[inline(never)]
    fn arm(&mut self) -> io::Result<()> {
        Ok(())
    }

    #[inline(never)]
    fn receive(&mut self, _slot: Slot) {}

    #[inline(never)]
    fn receive_stop(&mut self, _slot: Slot) {}

    #[inline(never)]
    fn send(&mut self, slot: Slot, token: u32, from: SendFrom) {
        let (SendFrom::Payload { len, .. } | SendFrom::Buffer { len, .. }) = from;
        self.queued.push_back(Event {
            kind: Kind::Send,
            slot,
            token,
            result: len as i32,
            buffer: None,
            armed: false,
        });
    }

    #[inline(never)]
    fn send_quiet(&mut self, _slot: Slot, _from: SendFrom) {
        if matches!(self.other, Other::Answers(_) | Other::Asks(_)) {
            self.arrive(Some(0));
        }
    }

    #[inline(never)]
    fn send_cancel(&mut self, _slot: Slot) {}

    #[inline(never)]
    fn connect(&mut self, _slot: Slot, _to: SocketAddr) {}

    #[inline(never)]
    fn accept(&mut self, _listener: Slot) {}

    #[inline(never)]
    fn close(&mut self, _slot: Slot) {}

    #[inline(never)]
    fn take(&mut self, _slot: Slot) -> Option<OwnedFd> {
        None
    }

    #[inline(never)]
    fn send_buffer(&mut self, index: u32) -> &mut [u8] {
        &mut self.buffers[index as usize]
    }

    #[inline(never)]
    fn wait(&mut self, _wait: WaitFor) -> io::Result<()> {
        match self.other {
            Other::Takes | Other::Answers(_) => {}
            Other::Asks(_) if self.asked => {}
            Other::Asks(_) | Other::Streams(_) => {
                self.asked = true;
                self.arrive(Some(0));
            }
            Other::Datagrams(_) => (0..BATCH).for_each(|_| self.arrive(Some(0))),
        }
        std::mem::swap(&mut self.queued, &mut self.events);
        Ok(())
    }

    #[inline(never)]
    fn next(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        let counts = match self.other {
            Other::Takes => event.kind == Kind::Send,
            _ => event.kind == Kind::Receive,
        };
        if counts {
            self.count();
        }
        if matches!(self.other, Other::Datagrams(_)) {
            let header = Header {
                session: self.session,
                flow: 0,
                phase: Phase::Window,
                sequence: self.sequence,
                stamp_ns: self.sequence,
            };
            header.encode(&mut self.arrival);
            self.sequence += 1;
        }
        Some(event)
    }

    #[inline(never)]
    fn data(&self, _event: &Event) -> &[u8] {
        &self.arrival
    }

    #[inline(never)]
    fn control(&self, _event: &Event) -> Control {
        Control::default()
    }

    #[inline(never)]
    fn recycle(&mut self, _event: &Event) {}

    #[inline(never)]
    fn stats(&self) -> EngineStats {
        EngineStats {
            name: "memory",
            ..EngineStats::default()
        }
    }
}
