//! What arrives: receives, accepts, wake-ups.
#![expect(
    unsafe_code,
    reason = "entries carry raw pointers, and accept yields a raw descriptor"
)]

use std::os::fd::{FromRawFd, OwnedFd};

use io_uring::{cqueue, opcode, squeue};

use super::core::{Target, entry_on};
use super::group::GROUP;
use super::memory::Receiver;
use super::ring::Ring;
use super::slots::Role;
use super::token::Op;
use crate::backend::{Event, Kind, Slot};

/// IORING_RECVSEND_POLL_FIRST, since 5.19: wait for data before trying to read any. It saves the
/// attempt where nothing is there, and makes the receive low-water mark count.
const POLL_FIRST: u16 = 1;

impl Ring {
    /// Queues the operation that brings news of this socket.
    pub(super) fn start_input(&mut self, slot: Slot) {
        let entry = self.slots.get_mut(slot);
        debug_assert!(
            !entry.running,
            "slot {slot} has its input operation already"
        );
        entry.running = true;
        entry.pending += 1;
        let op = entry.role.input();
        let target = self.slots.target(slot);
        let entry = match op {
            Op::Accept => self.accept_entry(target),
            Op::Wake => entry_on!(target, fd => {
                opcode::PollAdd::new(fd, libc::POLLIN as u32).build()
            }),
            _ => self.receive_entry(slot, target),
        };
        let entry = entry.user_data(self.slots.token(op, slot).encode());
        // SAFETY: what it points to is in `memory`, which outlives the ring and which nothing
        // else touches: the scratch buffer is never read, group buffers in the kernel's hands and
        // headers of a running receive are not accessed.
        unsafe { self.core.push(&entry) };
    }

    fn accept_entry(&self, target: Target) -> squeue::Entry {
        let flags = libc::SOCK_CLOEXEC;
        entry_on!(target, fd => if self.multishot_accept {
            opcode::AcceptMulti::new(fd).flags(flags).build()
        } else {
            let (address, len) = (std::ptr::null_mut(), std::ptr::null_mut());
            opcode::Accept::new(fd, address, len).flags(flags).build()
        })
    }

    fn receive_entry(&mut self, slot: Slot, target: Target) -> squeue::Entry {
        let select = squeue::Flags::BUFFER_SELECT;
        let (modern, control) = (self.modern, self.control);
        let filled = self.slots.get(slot).filled;
        match &self.memory.receiver {
            Receiver::Scratch { memory, len, flags } => {
                // After a full buffer there is likely more, and reading is not in vain.
                let first = if modern && !filled { POLL_FIRST } else { 0 };
                entry_on!(target, fd => opcode::Recv::new(fd, memory.as_ptr(), *len)
                    .flags(*flags).ioprio(first).build())
            }
            Receiver::Group(_) if modern && control => {
                let message = self.memory.message();
                entry_on!(target, fd => opcode::RecvMsgMulti::new(fd, message, GROUP).build())
            }
            Receiver::Group(_) if modern => {
                entry_on!(target, fd => opcode::RecvMulti::new(fd, GROUP).build())
            }
            Receiver::Group(group) if control => {
                let len = group.payload_len();
                // SAFETY: `start_input` is called only while no receive of this slot runs.
                let message = unsafe { self.memory.single_message(slot, len) };
                entry_on!(target, fd => opcode::RecvMsg::new(fd, message)
                    .buf_group(GROUP).build().flags(select))
            }
            Receiver::Group(group) => {
                let (none, len) = (std::ptr::null_mut(), group.payload_len());
                entry_on!(target, fd => opcode::Recv::new(fd, none, len)
                    .buf_group(GROUP).build().flags(select))
            }
        }
    }

    /// A completion of a receive.
    pub(super) fn received(&mut self, slot: Slot, result: i32, flags: u32) -> Option<Event> {
        let ended = !cqueue::more(flags);
        let (len, buffer) = self.take(slot, result, cqueue::buffer_select(flags));
        let entry = self.slots.get_mut(slot);
        let datagram = entry.role == Role::Datagram;
        let goes_on = len > 0 || (len == 0 && datagram);
        let starved = result == -libc::ENOBUFS;
        // A cancellation that `receive` has overtaken, or a signal.
        let again = starved || matches!(-result, libc::ECANCELED | libc::EINTR);
        if !goes_on && !again {
            entry.wanted = false;
        }
        if ended {
            entry.running = false;
            entry.pending -= 1;
            let wanted = entry.wanted && !entry.closing;
            if starved {
                self.buffers_exhausted += 1;
                self.starved.push_back(slot);
            } else if wanted {
                self.start_input(slot);
            }
        }
        let entry = self.slots.get(slot);
        let armed = entry.wanted && !entry.closing;
        let silent = if entry.closing {
            len <= 0
        } else {
            starved || (again && armed)
        };
        self.close_if_idle(slot);
        if silent {
            if let Some(id) = buffer {
                self.group().give_back(id);
            }
            return None;
        }
        Some(Event {
            kind: Kind::Receive,
            slot,
            token: 0,
            result: len,
            buffer,
            armed,
        })
    }

    /// Takes over the buffer of a receive. Gives the payload's length, or the error.
    fn take(&mut self, slot: Slot, result: i32, id: Option<u16>) -> (i32, Option<u16>) {
        let control = self.control;
        let memory = &mut *self.memory;
        // SAFETY: this receive has just ended, and the next is not queued yet.
        let single = (control && !self.modern).then(|| unsafe { memory.single_control(slot) });
        let Receiver::Group(group) = &mut memory.receiver else {
            let Receiver::Scratch { len, .. } = &memory.receiver else {
                unreachable!()
            };
            self.slots.get_mut(slot).filled = result >= 0 && result as u32 >= *len;
            return (result, None);
        };
        let Some(id) = id else { return (result, None) };
        if result < 0 || !control {
            group.take(id, result.max(0) as u32);
            return (result, Some(id));
        }
        match single {
            Some(control) => group.take_single(id, result as u32, control),
            None => return (group.take_message(id) as i32, Some(id)),
        }
        (result, Some(id))
    }

    /// A completion of an accept.
    pub(super) fn accepted(&mut self, listener: Slot, result: i32, flags: u32) -> Option<Event> {
        // SAFETY: a result that is not negative is a new descriptor, which is ours alone.
        let socket = (result >= 0).then(|| unsafe { OwnedFd::from_raw_fd(result) });
        let entry = self.slots.get_mut(listener);
        let closing = entry.closing;
        // Before 5.19 there is no multishot form, which only an attempt shows.
        let no_multishot = result == -libc::EINVAL && self.multishot_accept;
        let passing = matches!(-result, libc::ECONNABORTED | libc::EINTR | libc::ECANCELED);
        if result < 0 && !no_multishot && !passing {
            entry.wanted = false;
        }
        if !cqueue::more(flags) {
            entry.running = false;
            entry.pending -= 1;
            self.multishot_accept &= !no_multishot;
            if self.slots.get(listener).wanted && !closing {
                self.start_input(listener);
            }
        }
        self.close_if_idle(listener);
        // Where the listener is being closed, dropping the connection is what its end does too.
        if closing || no_multishot || passing {
            return None;
        }
        let armed = self.slots.get(listener).wanted;
        let event = Event {
            kind: Kind::Accept,
            slot: listener,
            token: listener,
            result,
            buffer: None,
            armed,
        };
        match socket.map(|socket| self.slots.insert(socket, Role::Stream)) {
            Some(Ok(slot)) => Some(Event {
                slot,
                result: 0,
                ..event
            }),
            Some(Err(_no_room)) => Some(Event {
                result: -libc::ENFILE,
                ..event
            }),
            None => Some(event),
        }
    }

    /// A completion of a poll on a waker.
    pub(super) fn woken(&mut self, slot: Slot, result: i32) -> Option<Event> {
        let entry = self.slots.get_mut(slot);
        entry.running = false;
        entry.pending -= 1;
        if entry.closing {
            self.close_if_idle(slot);
            return None;
        }
        if result < 0 && result != -libc::EINTR {
            entry.wanted = false;
        } else {
            let mut count = [0; 8];
            // Empties it. Where somebody else did, there is nothing to read, which is as well.
            let _ = nix::unistd::read(self.slots.socket(slot), &mut count);
            self.start_input(slot);
        }
        let armed = self.slots.get(slot).wanted;
        let result = result.min(0);
        Some(Event {
            kind: Kind::Wake,
            slot,
            token: 0,
            result,
            buffer: None,
            armed,
        })
    }
}
