//! The table of sockets: what each slot holds and what the kernel still does with it.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use super::core::Target;
use super::sends::NONE;
use super::token::{GENERATIONS, Op, Token};
use crate::backend::Slot;

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

impl Role {
    /// The operation by which news of this socket arrives.
    pub(super) fn input(self) -> Op {
        match self {
            Role::Stream | Role::Datagram => Op::Receive,
            Role::Listener => Op::Accept,
            Role::Waker => Op::Wake,
        }
    }
}

/// A slot of the table.
#[derive(Debug)]
pub(super) struct Entry {
    /// None while the slot is free, and while its close is under way.
    pub(super) socket: Option<OwnedFd>,
    pub(super) role: Role,
    /// In the ring's table of files, under the slot's number.
    pub(super) fixed: bool,
    generation: u32,
    /// Operations on this socket that have not had their last completion.
    pub(super) pending: u32,
    /// The worker wants news of this socket...
    pub(super) wanted: bool,
    /// ...and an operation is in the kernel to get it.
    pub(super) running: bool,
    pub(super) connecting: bool,
    pub(super) closing: bool,
    /// The last receive filled its buffer, so that there is likely more.
    pub(super) filled: bool,
    /// Head of the list of this socket's sends.
    pub(super) first_send: u32,
}

impl Entry {
    fn free() -> Entry {
        Entry {
            socket: None,
            role: Role::Stream,
            fixed: false,
            generation: 0,
            pending: 0,
            wanted: false,
            running: false,
            connecting: false,
            closing: false,
            filled: false,
            first_send: NONE,
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
        let entries = (0..count).map(|_| Entry::free()).collect();
        Slots {
            entries,
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
        *entry = Entry {
            generation: entry.generation,
            role,
            ..Entry::free()
        };
        entry.socket = Some(socket);
        Ok(slot)
    }

    /// Frees a slot. Completions of what was in it are stale from here on.
    pub(super) fn remove(&mut self, slot: Slot) {
        let entry = &mut self.entries[slot as usize];
        let generation = (entry.generation + 1) % GENERATIONS;
        *entry = Entry {
            generation,
            ..Entry::free()
        };
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
        std::os::fd::AsFd::as_fd(socket.unwrap_or_else(|| panic!("slot {slot} has no socket")))
    }

    /// How an operation names the socket in a slot.
    pub(super) fn target(&self, slot: Slot) -> Target {
        if self.get(slot).fixed {
            Target::Fixed(slot)
        } else {
            Target::Plain(self.socket(slot).as_raw_fd())
        }
    }

    /// The token of an operation on what is in a slot now.
    pub(super) fn token(&self, op: Op, slot: Slot) -> Token {
        Token {
            op,
            generation: self.get(slot).generation,
            index: slot,
        }
    }

    /// Whether an operation belongs to what is in the slot now.
    pub(super) fn is_current(&self, slot: Slot, generation: u32) -> bool {
        self.entries
            .get(slot as usize)
            .is_some_and(|entry| entry.generation == generation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket() -> OwnedFd {
        std::fs::File::open("/dev/null").unwrap().into()
    }

    #[test]
    fn reuse_makes_older_tokens_stale() {
        let mut slots = Slots::new(1);
        let slot = slots.insert(socket(), Role::Stream).unwrap();
        let old = slots.token(Op::Receive, slot);
        assert!(slots.is_current(old.index, old.generation));
        slots.remove(slot);
        assert!(!slots.is_current(old.index, old.generation));
        let again = slots.insert(socket(), Role::Datagram).unwrap();
        assert_eq!(again, slot);
        assert!(!slots.is_current(old.index, old.generation));
        let new = slots.token(Op::Receive, again);
        assert!(slots.is_current(new.index, new.generation));
    }

    #[test]
    fn a_full_table_gives_the_socket_back() {
        let mut slots = Slots::new(1);
        slots.insert(socket(), Role::Stream).unwrap();
        assert!(slots.insert(socket(), Role::Stream).is_err());
    }
}
