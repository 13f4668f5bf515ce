//! The table of sends that are not done, with a queue of them for each socket.

use super::slots::Slots;
use crate::backend::{SendFrom, Slot};

/// End of a queue.
pub(super) const NONE: u32 = u32::MAX;

/// Both ends of a queue in the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Queue {
    pub(super) first: u32,
    pub(super) last: u32,
}

impl Queue {
    pub(super) const EMPTY: Queue = Queue {
        first: NONE,
        last: NONE,
    };

    pub(super) fn is_empty(self) -> bool {
        self.first == NONE
    }
}

/// A send that is not done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outgoing {
    pub(super) slot: Slot,
    /// The worker's token; none where it wants to hear of a failure only.
    pub(super) token: Option<u32>,
    pub(super) from: SendFrom,
    /// Bytes that went.
    pub(super) sent: u32,
    /// The number that the socket gave it, where it was sent with MSG_ZEROCOPY.
    pub(super) number: u32,
    next: u32,
}

impl Outgoing {
    pub(super) fn new(slot: Slot, token: Option<u32>, from: SendFrom) -> Outgoing {
        Outgoing {
            slot,
            token,
            from,
            sent: 0,
            number: 0,
            next: NONE,
        }
    }

    /// Bytes to send in all.
    pub(super) fn len(&self) -> u32 {
        match self.from {
            SendFrom::Payload { len, .. } | SendFrom::Buffer { len, .. } => len,
        }
    }
}

/// Sends by index. Its size is set when it is made.
pub(super) struct Sends {
    entries: Vec<Outgoing>,
    free: Vec<u32>,
}

impl Sends {
    pub(super) fn new(count: u32) -> Sends {
        let empty = Outgoing::new(NONE, None, SendFrom::Payload { offset: 0, len: 0 });
        Sends {
            entries: vec![empty; count as usize],
            free: (0..count).rev().collect(),
        }
    }

    /// Whether there is none at all.
    pub(super) fn is_empty(&self) -> bool {
        self.free.len() == self.entries.len()
    }

    /// Puts a send at the end of its socket's queue.
    pub(super) fn push(&mut self, slots: &mut Slots, send: Outgoing) {
        self.append(&mut slots.get_mut(send.slot).sends, send);
    }

    fn append(&mut self, queue: &mut Queue, send: Outgoing) {
        let index = self.free.pop();
        let index = index.expect("more sends in flight than Setup::operations");
        match queue.last {
            NONE => queue.first = index,
            last => self.entries[last as usize].next = index,
        }
        queue.last = index;
        self.entries[index as usize] = Outgoing { next: NONE, ..send };
    }

    /// Takes the first send of a socket's queue out.
    pub(super) fn pop(&mut self, slots: &mut Slots, slot: Slot) -> Option<Outgoing> {
        self.take(&mut slots.get_mut(slot).sends, |_| true)
    }

    /// Puts a send that went at the end of its socket's queue of those whose buffers are lent. Its
    /// place in the table has just become free.
    pub(super) fn lend(&mut self, slots: &mut Slots, send: Outgoing) {
        self.append(&mut slots.get_mut(send.slot).lent, send);
    }

    /// Takes the first send that is wanted out of a socket's queue of those lent.
    pub(super) fn take_lent(
        &mut self,
        slots: &mut Slots,
        slot: Slot,
        wanted: impl Fn(&Outgoing) -> bool,
    ) -> Option<Outgoing> {
        self.take(&mut slots.get_mut(slot).lent, wanted)
    }

    fn take(&mut self, queue: &mut Queue, wanted: impl Fn(&Outgoing) -> bool) -> Option<Outgoing> {
        let (mut before, mut at) = (NONE, queue.first);
        while at != NONE && !wanted(&self.entries[at as usize]) {
            (before, at) = (at, self.entries[at as usize].next);
        }
        let send = *self.entries.get(at as usize)?;
        match before {
            NONE => queue.first = send.next,
            before => self.entries[before as usize].next = send.next,
        }
        if send.next == NONE {
            queue.last = before;
        }
        self.free.push(at);
        Some(send)
    }

    /// The first send of a socket's queue.
    pub(super) fn first_mut(&mut self, slots: &Slots, slot: Slot) -> Option<&mut Outgoing> {
        self.entries.get_mut(slots.get(slot).sends.first as usize)
    }

    /// A socket's queue, in order.
    pub(super) fn queue(&self, first: u32) -> impl Iterator<Item = &Outgoing> {
        let mut at = first;
        std::iter::from_fn(move || {
            let send = self.entries.get(at as usize)?;
            at = send.next;
            Some(send)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sockets::slots::Role;

    #[test]
    fn lent_sends_come_back_in_any_order() {
        let file = || std::fs::File::open("/dev/null").unwrap().into();
        let mut slots = Slots::new(1);
        let slot = slots.insert(file(), Role::Datagram).unwrap();
        let mut sends = Sends::new(4);
        let from = SendFrom::Buffer { index: 0, len: 1 };
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1]] {
            for number in 0..4 {
                let send = Outgoing::new(slot, Some(number), from);
                sends.lend(&mut slots, Outgoing { number, ..send });
            }
            for number in order {
                let wanted = |send: &Outgoing| send.number == number;
                let taken = sends.take_lent(&mut slots, slot, wanted);
                assert_eq!(taken.unwrap().token, Some(number), "{order:?}");
                assert!(sends.take_lent(&mut slots, slot, wanted).is_none());
            }
            assert!(sends.is_empty());
            assert_eq!(slots.get(slot).lent, Queue::EMPTY);
        }
    }

    #[test]
    fn queues_keep_their_order_apart() {
        let file = || std::fs::File::open("/dev/null").unwrap().into();
        let mut slots = Slots::new(2);
        let one = slots.insert(file(), Role::Stream).unwrap();
        let two = slots.insert(file(), Role::Stream).unwrap();
        let mut sends = Sends::new(6);
        let from = SendFrom::Payload { offset: 0, len: 1 };
        for round in 0..3 {
            for token in 0..3 {
                for slot in [one, two] {
                    let token = Some(token + slot * 10);
                    sends.push(&mut slots, Outgoing::new(slot, token, from));
                }
            }
            for slot in [two, one] {
                let first = slots.get(slot).sends.first;
                let queued: Vec<_> = sends.queue(first).map(|s| s.token.unwrap()).collect();
                assert_eq!(queued, [0, 1, 2].map(|t| t + slot * 10), "{round}");
                let popped =
                    [(); 4].map(|()| sends.pop(&mut slots, slot).map(|s| s.token.unwrap()));
                assert_eq!(
                    popped[..3],
                    queued.iter().map(|t| Some(*t)).collect::<Vec<_>>()
                );
                assert_eq!(popped[3], None);
            }
            assert!(sends.is_empty());
        }
    }
}
