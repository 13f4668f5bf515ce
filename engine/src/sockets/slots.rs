//! The table of sockets: what each slot holds, what the worker wants of it, what is known of it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::sends::Queue;
use crate::backend::Slot;
use crate::sys::epoll::{EDGE, ENDING, EXCLUSIVE, Interest, READABLE, WRITABLE};

/// Datagrams that are asked for at first; one more than is likely there tells that it was all.
pub(super) const LEAST_BATCH: usize = 2;

/// What a socket is used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    /// A connection, whose sends go whole.
    Stream,
    /// A socket whose messages have bounds.
    Datagram,
    /// A listening socket.
    Listener,
    /// An eventfd.
    Waker,
}

/// A slot of the table.
///
/// `readable` and `writable` are what is known: a call may be worth trying. They are cleared when
/// a call shows that there is nothing left, and set when epoll tells of a change.
#[derive(Debug)]
pub(super) struct Entry {
    /// None while the slot is free, and while its `Close` event is not delivered.
    pub(super) socket: Option<OwnedFd>,
    pub(super) role: Role,
    generation: u32,
    /// The worker wants news of this socket.
    pub(super) wanted: bool,
    /// The worker wants none any more and is to be told that it was cancelled.
    pub(super) stopping: bool,
    pub(super) connecting: bool,
    pub(super) closing: bool,
    pub(super) readable: bool,
    pub(super) writable: bool,
    /// An end or an error is on its way: having read all bytes is not having seen everything.
    pub(super) ending: bool,
    /// What epoll watches it for; 0 where it does not.
    pub(super) watched: Interest,
    /// Its receives wait for a while where that is asked for: see `Sockets::prepare_to_block`.
    pub(super) blocks: bool,
    /// Datagrams to ask for at once.
    pub(super) batch: usize,
    /// Its sends.
    pub(super) sends: Queue,
    /// Its sends that went and whose private buffers the kernel still needs.
    pub(super) lent: Queue,
    /// Number of the next send with MSG_ZEROCOPY, and how many have had no notice.
    pub(super) next_number: u32,
    pub(super) owed: u32,
    // Which of the engine's lists it is in; these outlive the socket.
    pub(super) in_work: bool,
    pub(super) in_unwatched: bool,
    pub(super) in_starved: bool,
}

impl Entry {
    fn free() -> Entry {
        Entry {
            socket: None,
            role: Role::Stream,
            generation: 0,
            wanted: false,
            stopping: false,
            connecting: false,
            closing: false,
            readable: true,
            writable: true,
            ending: false,
            watched: 0,
            blocks: false,
            batch: LEAST_BATCH,
            sends: Queue::EMPTY,
            lent: Queue::EMPTY,
            next_number: 0,
            owed: 0,
            in_work: false,
            in_unwatched: false,
            in_starved: false,
        }
    }

    /// Makes it as new; what lists it is in, and whose turn it is, stay.
    fn reset(&mut self, role: Role) {
        *self = Entry {
            role,
            generation: self.generation,
            in_work: self.in_work,
            in_unwatched: self.in_unwatched,
            in_starved: self.in_starved,
            ..Entry::free()
        };
    }

    /// Whether a call on this socket may do something.
    pub(super) fn has_work(&self) -> bool {
        let output = !self.sends.is_empty() && self.writable;
        let any = self.stopping || self.has_input() || output;
        any && self.socket.is_some() && !self.connecting
    }

    /// Whether a receive or accept may bring something.
    pub(super) fn has_input(&self) -> bool {
        self.wanted && self.readable && !self.in_starved && !self.connecting
    }

    /// What epoll has to watch this socket for.
    pub(super) fn interest(&self) -> Interest {
        match self.role {
            Role::Stream => READABLE | WRITABLE | ENDING | EDGE,
            // Each datagram that leaves would tell of room: asked for only where there is none.
            Role::Datagram if self.writable => READABLE | EDGE,
            Role::Datagram => READABLE | WRITABLE | EDGE,
            Role::Listener => READABLE | EDGE | EXCLUSIVE,
            Role::Waker => READABLE | EDGE,
        }
    }
}

/// Sockets by slot. Its size is set when it is made.
#[derive(Debug)]
pub(super) struct Slots {
    entries: Vec<Entry>,
    free: Vec<Slot>,
}

impl Slots {
    pub(super) fn new(count: u32) -> Slots {
        Slots {
            entries: (0..count).map(|_| Entry::free()).collect(),
            free: (0..count).rev().collect(),
        }
    }

    pub(super) fn count(&self) -> u32 {
        self.entries.len() as u32
    }

    /// Puts a socket into a free slot; gives it back where there is none.
    pub(super) fn insert(&mut self, socket: OwnedFd, role: Role) -> Result<Slot, OwnedFd> {
        let Some(slot) = self.free.pop() else {
            return Err(socket);
        };
        let entry = &mut self.entries[slot as usize];
        entry.reset(role);
        entry.socket = Some(socket);
        Ok(slot)
    }

    /// Frees a slot. What epoll says of its socket is stale from here on.
    pub(super) fn remove(&mut self, slot: Slot) {
        let entry = &mut self.entries[slot as usize];
        entry.generation = entry.generation.wrapping_add(1);
        entry.reset(Role::Stream);
        self.free.push(slot);
    }

    pub(super) fn get(&self, slot: Slot) -> &Entry {
        &self.entries[slot as usize]
    }

    pub(super) fn get_mut(&mut self, slot: Slot) -> &mut Entry {
        &mut self.entries[slot as usize]
    }

    /// The socket in a slot that the worker has not closed.
    pub(super) fn socket(&self, slot: Slot) -> BorrowedFd<'_> {
        let socket = self.entries[slot as usize].socket.as_ref();
        socket
            .unwrap_or_else(|| panic!("slot {slot} has no socket"))
            .as_fd()
    }

    /// By what epoll names what is in a slot now: the generation above the slot.
    pub(super) fn token(&self, slot: Slot) -> u64 {
        u64::from(self.get(slot).generation) << 32 | u64::from(slot)
    }

    /// The slot that a token names, if it is not stale.
    pub(super) fn of_token(&self, token: u64) -> Option<Slot> {
        let slot = token as u32;
        let entry = self.entries.get(slot as usize)?;
        let current = u64::from(entry.generation) == token >> 32 && entry.socket.is_some();
        current.then_some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reuse_makes_older_tokens_stale() {
        let socket = || std::fs::File::open("/dev/null").unwrap().into();
        let mut slots = Slots::new(1);
        let slot = slots.insert(socket(), Role::Stream).unwrap();
        let old = slots.token(slot);
        assert_eq!(slots.of_token(old), Some(slot));
        slots.get_mut(slot).in_work = true;
        assert!(slots.insert(socket(), Role::Stream).is_err());
        slots.remove(slot);
        assert_eq!(slots.of_token(old), None);
        let again = slots.insert(socket(), Role::Datagram).unwrap();
        assert_eq!((again, slots.of_token(old)), (slot, None));
        // Lists are not searched when a slot is freed: whoever is in one stays in it.
        assert!(slots.get(again).in_work);
        let new = slots.token(again);
        assert_eq!(slots.of_token(new), Some(again));
    }
}
