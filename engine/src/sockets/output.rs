//! What leaves: sends, connects, closes.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use super::engine::{QUANTUM, Sockets, cost, errno};
use super::sends::Outgoing;
use super::slots::Role;
use super::zerocopy::is_exhausted;
use crate::backend::{Event, Kind, SendFrom, Slot};
use crate::sys::memory::Bytes;
use crate::sys::socket::{set_nonblocking, take_error};
use crate::sys::transfer;

/// Datagrams in one sendmmsg.
pub(super) const SEND_BATCH: usize = 64;

/// The memory that sends are from.
pub(super) struct Memory {
    pub(super) payload: Bytes,
    pub(super) private: Bytes,
    pub(super) private_len: usize,
}

impl Memory {
    /// The bytes of a send that are still to go. Panics where they are not inside.
    pub(super) fn rest(&self, send: &Outgoing) -> &[u8] {
        let whole = match send.from {
            SendFrom::Payload { offset, len } => {
                &self.payload[offset as usize..offset as usize + len as usize]
            }
            SendFrom::Buffer { index, len } => {
                let from = index as usize * self.private_len;
                &self.private[from..from + self.private_len][..len as usize]
            }
        };
        &whole[send.sent as usize..]
    }
}

impl Sockets {
    pub(super) fn queue_send(&mut self, slot: Slot, token: u32, from: SendFrom) {
        assert!(
            !self.slots.get(slot).closing,
            "a send on slot {slot}, which is being closed"
        );
        if let SendFrom::Buffer { index, .. } = from {
            let busy = &mut self.busy[index as usize];
            assert!(!*busy, "private buffer {index} is being sent already");
            *busy = true;
        }
        let send = Outgoing::new(slot, Some(token), from);
        self.sends.push(&mut self.slots, send);
        self.note_work(slot);
    }

    /// Sends at once what can go: nobody waits for its event, and the other side waits for it.
    pub(super) fn send_now(&mut self, slot: Slot, from: SendFrom) {
        assert!(
            matches!(from, SendFrom::Payload { .. }),
            "a private buffer needs the event of its send"
        );
        let entry = self.slots.get(slot);
        if entry.closing {
            return;
        }
        let first = entry.sends.is_empty();
        let mut send = Outgoing::new(slot, None, from);
        if first && entry.writable && !entry.connecting {
            match self.try_send(&send) {
                Ok(sent) if sent == send.len() => return,
                Ok(sent) => send.sent = sent,
                Err(error) if is_full(&error) => {}
                Err(error) => return self.sent(&send, -errno(&error)),
            }
            self.full(slot);
        }
        self.sends.push(&mut self.slots, send);
        self.note_work(slot);
    }

    fn try_send(&mut self, send: &Outgoing) -> io::Result<u32> {
        // Who waits for no event of a send may not know that it is lent.
        let lendable = send.token.is_some() && matches!(send.from, SendFrom::Payload { .. });
        loop {
            self.enters += 1;
            let sent = match lendable && self.zerocopy.is_on() {
                true => self.send_lent(send),
                false => transfer::send(self.slots.socket(send.slot), self.memory.rest(send)),
            };
            match sent {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                sent => return sent.map(|sent| sent as u32),
            }
        }
    }

    /// There is no room; epoll will tell when there is.
    fn full(&mut self, slot: Slot) {
        self.slots.get_mut(slot).writable = false;
        self.note_unwatched(slot);
    }

    /// Sends of a socket's queue what there is room for, and some of it only where it is long.
    pub(super) fn push_out(&mut self, slot: Slot) {
        let mut left = QUANTUM;
        while left > 0 && self.slots.get(slot).writable {
            let spent = match self.slots.get(slot).role {
                Role::Datagram => self.push_datagrams(slot),
                _ => self.push_bytes(slot),
            };
            if spent == 0 {
                return;
            }
            left = left.saturating_sub(spent);
            self.budget = self.budget.saturating_sub(spent);
        }
    }

    /// Continues the first send of a stream's queue. Gives what that cost.
    fn push_bytes(&mut self, slot: Slot) -> u32 {
        let Some(send) = self.sends.first_mut(&self.slots, slot).map(|send| *send) else {
            return 0;
        };
        let result = match self.try_send(&send) {
            Ok(sent) => {
                let first = self.sends.first_mut(&self.slots, slot);
                let first = first.expect("it is still the first");
                first.sent += sent;
                if first.sent < first.len() {
                    // A call that is cut short found the socket full: no need to try again.
                    self.full(slot);
                    return cost(sent as usize);
                }
                first.sent as i32
            }
            Err(error) if is_full(&error) => {
                self.full(slot);
                return 1;
            }
            Err(error) => -errno(&error),
        };
        if let Some(send) = self.sends.pop(&mut self.slots, slot) {
            self.sent(&send, result);
        }
        cost(result.max(0) as usize)
    }

    /// Sends several datagrams by one call. Gives what that cost.
    fn push_datagrams(&mut self, slot: Slot) -> u32 {
        let queue = self.slots.get(slot).sends;
        if queue.is_empty() {
            return 0;
        }
        let mut lent = self.zerocopy.has_notices();
        let mut went = self.send_datagrams(slot, lent);
        if lent && is_exhausted(&went) {
            // Notices that are there make room for more; this time the kernel copies.
            self.read_notices(slot);
            (lent, went) = (false, self.send_datagrams(slot, false));
            self.zerocopy
                .copied(went.as_ref().map_or(0, |went| *went as u64));
        }
        let (went, failed) = match went {
            Ok(went) => (went, None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return 1,
            Err(error) if is_full(&error) => {
                self.full(slot);
                // The interest of a datagram socket depends on whether there is room.
                self.watch_again(slot);
                return 1;
            }
            Err(error) => (0, Some(errno(&error))),
        };
        for _ in 0..went {
            match self.sends.pop(&mut self.slots, slot) {
                Some(send) if lent => self.lend(send),
                Some(send) => self.sent(&send, send.len() as i32),
                None => {}
            }
        }
        if lent && went > 0 {
            self.read_notices(slot);
            self.note_unwatched(slot);
        }
        if let Some(errno) = failed
            && let Some(send) = self.sends.pop(&mut self.slots, slot)
        {
            self.sent(&send, -errno);
        }
        went.max(1) as u32
    }

    /// One call that sends datagrams of a socket's queue.
    fn send_datagrams(&mut self, slot: Slot, zerocopy: bool) -> io::Result<usize> {
        self.enters += 1;
        let (sends, memory) = (&self.sends, &self.memory);
        let first = self.slots.get(slot).sends.first;
        let datagrams = sends.queue(first).map(|send| memory.rest(send));
        let socket = self.slots.socket(slot);
        self.send_batch.send(socket, datagrams, zerocopy)
    }

    /// A send is over. `result` is all of its bytes, or what stopped it.
    pub(super) fn sent(&mut self, send: &Outgoing, result: i32) {
        if let SendFrom::Buffer { index, .. } = send.from {
            self.busy[index as usize] = false;
        }
        if send.token.is_none() && (result >= 0 || self.slots.get(send.slot).closing) {
            return;
        }
        let result = match (result, send.sent) {
            (..0, 1..) => send.sent as i32,
            _ => result,
        };
        self.tell(Event {
            kind: Kind::Send,
            slot: send.slot,
            token: send.token.unwrap_or(0),
            result,
            buffer: None,
            armed: false,
        });
    }

    pub(super) fn cancel_sends(&mut self, slot: Slot) {
        while let Some(send) = self.sends.pop(&mut self.slots, slot) {
            self.sent(&send, -libc::ECANCELED);
        }
    }

    pub(super) fn start_connect(&mut self, slot: Slot, to: SocketAddr) {
        let entry = self.slots.get(slot);
        assert!(
            !entry.closing && !entry.connecting,
            "slot {slot} cannot connect now"
        );
        self.enters += 2;
        let socket = self.slots.socket(slot);
        let begun = set_nonblocking(socket, true).and_then(|()| transfer::connect(socket, to));
        match begun {
            Ok(true) => self.connected(slot, 0),
            Ok(false) => {
                let entry = self.slots.get_mut(slot);
                entry.connecting = true;
                // Nothing can be there yet: epoll will tell.
                (entry.readable, entry.writable) = (false, false);
                self.connecting += 1;
                self.note_unwatched(slot);
            }
            Err(error) => self.connected(slot, -errno(&error)),
        }
    }

    /// Epoll tells of a change on a socket that connects.
    pub(super) fn connect_ended(&mut self, slot: Slot) {
        self.enters += 1;
        let result = match take_error(self.slots.socket(slot).as_fd()) {
            Ok(None) => 0,
            Ok(Some(error)) | Err(error) => -errno(&error),
        };
        self.slots.get_mut(slot).connecting = false;
        self.connecting -= 1;
        self.connected(slot, result);
    }

    fn connected(&mut self, slot: Slot, result: i32) {
        self.tell(Event {
            kind: Kind::Connect,
            slot,
            token: 0,
            result,
            buffer: None,
            armed: false,
        });
    }

    pub(super) fn start_close(&mut self, slot: Slot) {
        let entry = self.slots.get_mut(slot);
        assert!(
            entry.socket.is_some() && !entry.closing,
            "slot {slot} is closed already"
        );
        entry.closing = true;
        entry.stopping = false;
        if std::mem::replace(&mut entry.connecting, false) {
            self.connecting -= 1;
        }
        self.want(slot, false);
        self.cancel_sends(slot);
        self.end_lent(slot);
        self.unwatch_shared(slot);
        self.enters += 1;
        drop(self.slots.get_mut(slot).socket.take());
        self.tell(Event {
            kind: Kind::Close,
            slot,
            token: 0,
            result: 0,
            buffer: None,
            armed: false,
        });
    }
}

fn is_full(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}
