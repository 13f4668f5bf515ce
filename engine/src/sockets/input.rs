//! What arrives: bytes, datagrams, connections, wake-ups.

use std::io;

use super::buffers::Receiver;
use super::engine::{QUANTUM, Sockets, cost, errno};
use super::slots::{LEAST_BATCH, Role};
use crate::backend::{Control, Event, Kind, Slot};
use crate::sys::transfer::{self, Patience};

/// Datagrams in one recvmmsg.
pub(super) const RECEIVE_BATCH: usize = 64;
/// What accepting a connection counts against the budget: a socket is made.
const ACCEPT_COST: u32 = 4;

/// What a receive call came to.
enum Got {
    /// A stream's bytes, or its end; the buffer that they are in.
    Bytes(usize, Option<u16>),
    /// Datagrams, of so many asked for.
    Datagrams(usize, usize),
    /// No buffer is free.
    NoBuffer,
    Failed(io::Error),
}

impl Sockets {
    /// Takes some of what has arrived on a socket.
    pub(super) fn take_in(&mut self, slot: Slot) {
        match self.slots.get(slot).role {
            Role::Stream | Role::Datagram => {
                let mut left = QUANTUM;
                while left > 0 && self.slots.get(slot).has_input() {
                    let spent = self.receive_once(slot, Patience::None);
                    left = left.saturating_sub(spent);
                    self.budget = self.budget.saturating_sub(spent);
                }
            }
            Role::Listener => self.accept_some(slot),
            Role::Waker => self.woken(slot),
        }
    }

    /// One call that receives. Gives what it cost.
    pub(super) fn receive_once(&mut self, slot: Slot, patience: Patience) -> u32 {
        match self.call(slot, patience) {
            Got::Bytes(len, buffer) => {
                self.tell_received(slot, len as i32, buffer, len > 0);
                cost(len)
            }
            Got::Datagrams(count, asked) => {
                self.after_batch(slot, count, asked);
                count as u32
            }
            Got::NoBuffer => {
                self.starve(slot);
                1
            }
            Got::Failed(error) => {
                self.receive_failed(slot, &error);
                1
            }
        }
    }

    fn call(&mut self, slot: Slot, patience: Patience) -> Got {
        self.enters += 1;
        let socket = self.slots.socket(slot);
        let entry = self.slots.get(slot);
        let stream = entry.role == Role::Stream;
        let (got, room) = match &mut self.receiver {
            Receiver::One { memory, discard } => {
                let got = match discard {
                    true => transfer::discard(socket, memory, patience),
                    false => transfer::receive(socket, memory, patience),
                };
                (got.map(|len| (len, None)), memory.len())
            }
            Receiver::Many(buffers) if stream => {
                let room = buffers.len;
                let Some((_, memory)) = buffers.room() else {
                    return Got::NoBuffer;
                };
                let got = transfer::receive(socket, memory, patience);
                let last = buffers.free.len() - 1;
                let got = got.map(|len| match len {
                    0 => (0, None),
                    _ => (len, Some(buffers.take(last, len, Control::default()))),
                });
                (got, room)
            }
            Receiver::Many(_) => return self.call_batch(slot, patience),
        };
        match got {
            Ok((len, buffer)) if stream => {
                let entry = self.slots.get_mut(slot);
                // Less than there was room for is all that there is, unless the end comes next.
                let drained = len < room && !entry.ending;
                entry.readable &= !drained;
                if drained {
                    self.note_unwatched(slot);
                }
                Got::Bytes(len, buffer)
            }
            Ok((len, _)) => {
                self.tell_received(slot, len as i32, None, true);
                Got::Datagrams(1, 1)
            }
            Err(error) => Got::Failed(error),
        }
    }

    fn call_batch(&mut self, slot: Slot, patience: Patience) -> Got {
        let Receiver::Many(buffers) = &mut self.receiver else {
            unreachable!("the caller looked");
        };
        let asked = self.slots.get(slot).batch.min(buffers.free.len());
        if asked == 0 {
            return Got::NoBuffer;
        }
        let first = buffers.free.len() - asked;
        let (room, ids) = ((buffers.stride, buffers.len), &buffers.free[first..]);
        let socket = self.slots.socket(slot);
        let batch = &mut self.receive_batch;
        let count = match batch.receive(socket, &mut buffers.memory, room, ids, patience) {
            Ok(count) => count,
            Err(error) => return Got::Failed(error),
        };
        for at in 0..count {
            let Receiver::Many(buffers) = &mut self.receiver else {
                unreachable!("it was one a moment ago");
            };
            let datagram = self.receive_batch.datagram(at);
            let control = Control {
                received_realtime_ns: datagram.with.realtime_ns,
                segment_bytes: datagram.with.segment_bytes,
                truncated: datagram.truncated && self.control,
            };
            let buffer = buffers.take(first, datagram.len, control);
            self.tell_received(slot, datagram.len as i32, Some(buffer), true);
        }
        Got::Datagrams(count, asked)
    }

    /// Asks for as many datagrams next time as are likely there.
    fn after_batch(&mut self, slot: Slot, count: usize, asked: usize) {
        let single = matches!(self.receiver, Receiver::One { .. });
        let entry = self.slots.get_mut(slot);
        if count == asked {
            entry.batch = (entry.batch * 2).min(RECEIVE_BATCH);
            return;
        }
        if count < asked / 2 {
            entry.batch = (entry.batch / 2).max(LEAST_BATCH);
        }
        if !single && !entry.ending {
            entry.readable = false;
            self.note_unwatched(slot);
        }
    }

    fn receive_failed(&mut self, slot: Slot, error: &io::Error) {
        match error.kind() {
            io::ErrorKind::WouldBlock => {
                let entry = self.slots.get_mut(slot);
                (entry.readable, entry.ending) = (false, false);
                self.note_unwatched(slot);
            }
            io::ErrorKind::Interrupted => {}
            _ => self.tell_received(slot, -errno(error), None, false),
        }
    }

    fn tell_received(&mut self, slot: Slot, result: i32, buffer: Option<u16>, goes_on: bool) {
        if !goes_on {
            self.want(slot, false);
        }
        self.tell(Event {
            kind: Kind::Receive,
            slot,
            token: 0,
            result,
            buffer,
            armed: goes_on,
        });
    }

    /// The socket's turn comes again once a buffer is free.
    fn starve(&mut self, slot: Slot) {
        if !std::mem::replace(&mut self.slots.get_mut(slot).in_starved, true) {
            self.starved.push_back(slot);
        }
    }

    /// Gives those that lacked a buffer their turn, where there is one now.
    pub(super) fn feed(&mut self) {
        let Receiver::Many(buffers) = &self.receiver else {
            return;
        };
        if self.starved.is_empty() {
            return;
        }
        if buffers.free.is_empty() {
            // The worker has them all: it is not that a turn was too long.
            if !std::mem::replace(&mut self.counted, true) {
                self.buffers_exhausted += 1;
            }
            return;
        }
        self.counted = false;
        while let Some(slot) = self.starved.pop_front() {
            self.slots.get_mut(slot).in_starved = false;
            self.note_work(slot);
        }
    }

    fn accept_some(&mut self, listener: Slot) {
        let mut left = QUANTUM;
        while left > 0 && self.slots.get(listener).has_input() {
            self.enters += 1;
            left = left.saturating_sub(ACCEPT_COST);
            self.budget = self.budget.saturating_sub(ACCEPT_COST);
            let event = Event {
                kind: Kind::Accept,
                slot: listener,
                token: listener,
                result: 0,
                buffer: None,
                armed: true,
            };
            match transfer::accept(self.slots.socket(listener)) {
                Ok(socket) => match self.slots.insert(socket, Role::Stream) {
                    Ok(slot) => self.tell(Event { slot, ..event }),
                    Err(_no_room) => self.tell(Event {
                        result: -libc::ENFILE,
                        ..event
                    }),
                },
                Err(error) => match error.raw_os_error().unwrap_or(libc::EIO) {
                    libc::EAGAIN => {
                        self.slots.get_mut(listener).readable = false;
                        self.note_unwatched(listener);
                    }
                    libc::ECONNABORTED | libc::EINTR => {}
                    errno => {
                        self.want(listener, false);
                        self.tell(Event {
                            result: -errno,
                            armed: false,
                            ..event
                        });
                    }
                },
            }
        }
    }

    fn woken(&mut self, slot: Slot) {
        self.enters += 1;
        self.budget = self.budget.saturating_sub(1);
        // Empties it. Where there is nothing to read nobody has woken us.
        let count = nix::unistd::read(self.slots.socket(slot), &mut [0; 8]);
        self.slots.get_mut(slot).readable = false;
        self.note_unwatched(slot);
        if count.is_ok() {
            self.tell(Event {
                kind: Kind::Wake,
                slot,
                token: 0,
                result: 0,
                buffer: None,
                armed: true,
            });
        }
    }
}
