//! What leaves: sends, connects, cancellations, closes.
#![expect(unsafe_code, reason = "entries carry raw pointers")]

use std::net::SocketAddr;
use std::os::fd::IntoRawFd;

use io_uring::{opcode, squeue, types};

use super::core::entry_on;
use super::ring::Ring;
use super::sends::{NONE, Outgoing};
use super::slots::Role;
use super::token::{Op, Token};
use crate::backend::{Event, Kind, SendFrom, Slot};

/// Token of a quiet send on kernels that complete every send.
const QUIET: u32 = u32::MAX;

impl Ring {
    pub(super) fn start_send(&mut self, slot: Slot, token: u32, from: SendFrom) {
        let entry = self.slots.get_mut(slot);
        assert!(
            !entry.closing,
            "a send on slot {slot}, which is being closed"
        );
        entry.pending += 1;
        let (start, len, buffer) = match from {
            SendFrom::Payload { offset, len } => (self.memory.payload(offset, len), len, NONE),
            SendFrom::Buffer { index, len } => {
                let start = self.memory.private(index, len).cast_const();
                let busy = &mut self.busy[index as usize];
                assert!(!*busy, "private buffer {index} is being sent already");
                *busy = true;
                (start, len, index)
            }
        };
        let send = Outgoing::new(slot, token, start, len, buffer);
        let index = self.sends.insert(&mut self.slots, send);
        self.push_send(index);
    }

    /// A send of the shared payload whose success is not reported: the worker knows from the
    /// answer that it went, and a completion less is a wake-up less.
    pub(super) fn start_quiet_send(&mut self, slot: Slot, from: SendFrom) {
        let SendFrom::Payload { offset, len } = from else {
            panic!("a private buffer needs the event of its send");
        };
        if self.slots.get(slot).closing {
            return;
        }
        if !self.core.params().is_feature_skip_cqe_on_success() {
            // Before 5.17: an event that the worker does not ask for is better than none that it
            // needs.
            return self.start_send(slot, QUIET, from);
        }
        let start = self.memory.payload(offset, len);
        let flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
        let token = self.slots.token(Op::Quiet, slot);
        let entry = entry_on!(self.slots.target(slot), fd => {
            opcode::Send::new(fd, start, len).flags(flags).build()
        });
        let entry = entry
            .flags(squeue::Flags::SKIP_SUCCESS)
            .user_data(token.encode());
        // SAFETY: the range is in the payload, which never changes and is freed only once
        // everything is cancelled.
        unsafe { self.core.push_quiet(&entry) };
    }

    /// A quiet send failed or was cut short.
    pub(super) fn quiet_failed(&mut self, slot: Slot, result: i32) -> Option<Event> {
        let closing = self.slots.get(slot).closing;
        let event = Event {
            kind: Kind::Send,
            slot,
            token: 0,
            result,
            buffer: None,
            armed: false,
        };
        (!closing).then_some(event)
    }

    /// Queues what is left of a send.
    fn push_send(&mut self, index: u32) {
        let send = self.sends.get(index);
        let (slot, len) = (send.slot, send.len - send.sent);
        let start = send.start.wrapping_add(send.sent as usize);
        // Without MSG_WAITALL a full socket buffer cuts sends short, and each rest costs a round.
        let whole = match self.slots.get(slot).role {
            Role::Stream => libc::MSG_WAITALL,
            _ => 0,
        };
        let flags = libc::MSG_NOSIGNAL | whole;
        let token = Token {
            index,
            ..self.slots.token(self.op(send), slot)
        };
        let target = self.slots.target(slot);
        let entry = match self.zerocopy.as_ref().filter(|_| !send.plain) {
            Some(zerocopy) => entry_on!(target, fd => opcode::SendZc::new(fd, start, len)
                .flags(flags).zc_flags(zerocopy.flags()).build()),
            None => entry_on!(target, fd => {
                opcode::Send::new(fd, start, len).flags(flags).build()
            }),
        };
        // SAFETY: the range is in `memory`, which outlives the ring. Nothing writes to it: the
        // payload never changes, and a private buffer is marked busy until the send ends.
        unsafe { self.core.push(&entry.user_data(token.encode())) };
    }

    /// The operation of a send.
    fn op(&self, send: &Outgoing) -> Op {
        match send.buffer == NONE && self.zerocopy.is_some() {
            true => Op::Lend,
            false => Op::Send,
        }
    }

    /// A completion of a send. Where `noticed`, another one will say that the kernel is done with
    /// the bytes.
    pub(super) fn sent(&mut self, index: u32, result: i32, noticed: bool) -> Option<Event> {
        self.sends.get_mut(index).notices += u32::from(noticed);
        if self.again_otherwise(index, result, noticed) {
            self.push_send(index);
            return None;
        }
        let send = self.sends.get_mut(index);
        let slot = send.slot;
        send.sent += result.max(0) as u32;
        // Before 5.19 MSG_WAITALL does not hold, and a signal cuts short at any time.
        let cut_short = result == -libc::EINTR || (result > 0 && send.sent < send.len);
        let stream = self.slots.get(slot).role == Role::Stream;
        if cut_short && stream && !send.cancelled {
            self.push_send(index);
            return None;
        }
        if send.buffer != NONE && send.notices > 0 {
            send.outcome = Some(result);
            return None;
        }
        self.end_send(index, result)
    }

    /// A send is over, and so is the use of its private buffer.
    pub(super) fn end_send(&mut self, index: u32, result: i32) -> Option<Event> {
        let send = self.sends.remove(&mut self.slots, index);
        let slot = send.slot;
        if send.buffer != NONE {
            self.busy[send.buffer as usize] = false;
        }
        self.slots.get_mut(slot).pending -= 1;
        self.close_if_idle(slot);
        let result = if send.sent > 0 {
            send.sent as i32
        } else {
            result
        };
        let token = send.token;
        if token == QUIET && send.sent == send.len {
            return None;
        }
        Some(Event {
            kind: Kind::Send,
            slot,
            token,
            result,
            buffer: None,
            armed: false,
        })
    }

    pub(super) fn cancel_sends(&mut self, slot: Slot) {
        let mut index = self.slots.get(slot).first_send;
        while index != NONE {
            let send = self.sends.get_mut(index);
            if !std::mem::replace(&mut send.cancelled, true) {
                let op = self.op(self.sends.get(index));
                let token = Token {
                    index,
                    ..self.slots.token(op, slot)
                };
                self.cancel(token);
            }
            index = self.sends.next(index);
        }
    }

    /// Cancels the operation that brings news of this socket, if it is in the kernel.
    pub(super) fn cancel_input(&mut self, slot: Slot) {
        let entry = self.slots.get(slot);
        if entry.running {
            let token = self.slots.token(entry.role.input(), slot);
            self.cancel(token);
        }
    }

    fn cancel(&mut self, what: Token) {
        let token = Token {
            op: Op::Cancel,
            ..what
        };
        let entry = opcode::AsyncCancel::new(what.encode()).build();
        // SAFETY: it points to nothing.
        unsafe { self.core.push(&entry.user_data(token.encode())) };
    }

    pub(super) fn start_connect(&mut self, slot: Slot, to: SocketAddr) {
        let entry = self.slots.get_mut(slot);
        assert!(
            !entry.closing && !entry.connecting,
            "slot {slot} cannot connect now"
        );
        entry.connecting = true;
        entry.pending += 1;
        // SAFETY: no other connect of this slot runs, as just asserted.
        let (address, len) = unsafe { self.memory.address(slot, to) };
        let token = self.slots.token(Op::Connect, slot);
        let entry = entry_on!(self.slots.target(slot), fd => {
            opcode::Connect::new(fd, address, len).build()
        });
        // SAFETY: the address is in `memory` and stays as it is until this connect has ended.
        unsafe { self.core.push(&entry.user_data(token.encode())) };
    }

    /// A completion of a connect.
    pub(super) fn connected(&mut self, slot: Slot, result: i32) -> Option<Event> {
        let entry = self.slots.get_mut(slot);
        entry.connecting = false;
        entry.pending -= 1;
        let closing = entry.closing;
        self.close_if_idle(slot);
        let event = Event {
            kind: Kind::Connect,
            slot,
            token: 0,
            result,
            buffer: None,
            armed: false,
        };
        (!closing).then_some(event)
    }

    pub(super) fn start_close(&mut self, slot: Slot) {
        let entry = self.slots.get_mut(slot);
        assert!(
            entry.socket.is_some() && !entry.closing,
            "slot {slot} is closed already"
        );
        entry.wanted = false;
        entry.closing = true;
        if entry.connecting {
            let token = self.slots.token(Op::Connect, slot);
            self.cancel(token);
        }
        self.cancel_input(slot);
        self.cancel_sends(slot);
        self.close_if_idle(slot);
    }

    /// Closes a socket that is to be closed once the kernel does nothing more with it.
    pub(super) fn close_if_idle(&mut self, slot: Slot) {
        let entry = self.slots.get_mut(slot);
        if !entry.closing || entry.pending > 0 {
            return;
        }
        let Some(socket) = entry.socket.take() else {
            return;
        };
        if std::mem::replace(&mut entry.fixed, false) {
            // The table's reference would keep the socket open. An entry of ours can be emptied
            // at any time; were it not, the socket would stay open until the ring ends.
            let emptied = self.core.submitter().register_files_update(slot, &[-1]);
            debug_assert!(emptied.is_ok(), "emptying file {slot}: {emptied:?}");
        }
        let token = self.slots.token(Op::Close, slot);
        let entry = opcode::Close::new(types::Fd(socket.into_raw_fd())).build();
        // SAFETY: it points to nothing, and the descriptor is the operation's from here on.
        unsafe { self.core.push(&entry.user_data(token.encode())) };
    }

    /// A completion of a close.
    pub(super) fn closed(&mut self, slot: Slot, result: i32) -> Option<Event> {
        self.slots.remove(slot);
        Some(Event {
            kind: Kind::Close,
            slot,
            token: 0,
            result,
            buffer: None,
            armed: false,
        })
    }
}
