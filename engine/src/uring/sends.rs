//! The table of sends in flight, with a list of them for each socket.

use super::slots::Slots;
use crate::backend::Slot;

/// End of a list; no private buffer.
pub(super) const NONE: u32 = u32::MAX;

/// A send in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outgoing {
    pub(super) slot: Slot,
    /// The worker's token.
    pub(super) token: u32,
    /// Where in the payload, or in a private buffer, it starts.
    pub(super) start: *const u8,
    /// Bytes to send, and sent so far.
    pub(super) len: u32,
    pub(super) sent: u32,
    /// The private buffer that it keeps busy.
    pub(super) buffer: u32,
    pub(super) cancelled: bool,
    /// Completions by which the kernel is yet to say that it is done with the private buffer.
    pub(super) notices: u32,
    /// What it came to, where only such notices are awaited.
    pub(super) outcome: Option<i32>,
    /// The kernel refused to go without a copy.
    pub(super) plain: bool,
    /// It was tried again without asking whether the kernel copied.
    pub(super) unasked: bool,
    next: u32,
    previous: u32,
}

impl Outgoing {
    pub(super) fn new(
        slot: Slot,
        token: u32,
        start: *const u8,
        len: u32,
        buffer: u32,
    ) -> Outgoing {
        let (next, previous) = (NONE, NONE);
        Outgoing {
            slot,
            token,
            start,
            len,
            sent: 0,
            buffer,
            cancelled: false,
            notices: 0,
            outcome: None,
            plain: false,
            unasked: false,
            next,
            previous,
        }
    }
}

/// Sends by index. Its size is set when it is made.
#[derive(Debug)]
pub(super) struct Sends {
    entries: Vec<Outgoing>,
    free: Vec<u32>,
}

impl Sends {
    pub(super) fn new(count: u32) -> Sends {
        let empty = Outgoing::new(NONE, 0, std::ptr::null(), 0, NONE);
        Sends {
            entries: vec![empty; count as usize],
            free: (0..count).rev().collect(),
        }
    }

    /// Takes a send in, at the head of its socket's list.
    pub(super) fn insert(&mut self, slots: &mut Slots, mut send: Outgoing) -> u32 {
        let index = self.free.pop();
        let index = index.expect("more sends in flight than Setup::operations");
        let head = &mut slots.get_mut(send.slot).first_send;
        send.next = *head;
        if *head != NONE {
            self.entries[*head as usize].previous = index;
        }
        *head = index;
        self.entries[index as usize] = send;
        index
    }

    /// Takes a send out.
    pub(super) fn remove(&mut self, slots: &mut Slots, index: u32) -> Outgoing {
        let send = self.entries[index as usize];
        match send.previous {
            NONE => slots.get_mut(send.slot).first_send = send.next,
            previous => self.entries[previous as usize].next = send.next,
        }
        if send.next != NONE {
            self.entries[send.next as usize].previous = send.previous;
        }
        self.entries[index as usize].slot = NONE;
        self.free.push(index);
        send
    }

    pub(super) fn get(&self, index: u32) -> &Outgoing {
        &self.entries[index as usize]
    }

    pub(super) fn get_mut(&mut self, index: u32) -> &mut Outgoing {
        &mut self.entries[index as usize]
    }

    /// The send after this one in its socket's list.
    pub(super) fn next(&self, index: u32) -> u32 {
        self.entries[index as usize].next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uring::slots::Role;

    fn listed(slots: &Slots, sends: &Sends, slot: Slot) -> Vec<u32> {
        let mut tokens = Vec::new();
        let mut at = slots.get(slot).first_send;
        while at != NONE {
            tokens.push(sends.get(at).token);
            at = sends.next(at);
        }
        tokens
    }

    #[test]
    fn lists_survive_removal_anywhere() {
        let file = || std::fs::File::open("/dev/null").unwrap().into();
        let mut slots = Slots::new(2);
        let one = slots.insert(file(), Role::Stream).unwrap();
        let two = slots.insert(file(), Role::Stream).unwrap();
        let mut sends = Sends::new(8);
        let add = |sends: &mut Sends, slots: &mut Slots, slot, token| {
            sends.insert(slots, Outgoing::new(slot, token, std::ptr::null(), 1, NONE))
        };
        let of_one: Vec<u32> = (0..4)
            .map(|t| add(&mut sends, &mut slots, one, t))
            .collect();
        add(&mut sends, &mut slots, two, 9);
        assert_eq!(listed(&slots, &sends, one), [3, 2, 1, 0]);
        assert_eq!(sends.remove(&mut slots, of_one[1]).token, 1);
        sends.remove(&mut slots, of_one[3]);
        sends.remove(&mut slots, of_one[0]);
        assert_eq!(listed(&slots, &sends, one), [2]);
        sends.remove(&mut slots, of_one[2]);
        assert!(listed(&slots, &sends, one).is_empty());
        assert_eq!(listed(&slots, &sends, two), [9]);
    }
}
