//! The outstanding transactions of one worker's flows, and what became of them.
//!
//! Memory for `flows x depth` slots is taken once. A stream's answers come in order, so its
//! slots are a queue; a datagram's answer names its request by a tag, so its slots are searched.

/// One outstanding transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    /// When it began (open loop: was meant to begin), nanoseconds.
    pub start_ns: u64,
    /// When it was in fact sent, nanoseconds.
    pub sent_ns: u64,
    /// Number of the request within its flow.
    pub sequence: u64,
    busy: bool,
}

const FREE: Slot = Slot {
    start_ns: 0,
    sent_ns: 0,
    sequence: 0,
    busy: false,
};

/// Outstanding transactions of all flows of a worker.
#[derive(Debug)]
pub struct Outstanding {
    slots: Vec<Slot>,
    heads: Vec<Head>,
    depth: usize,
}

#[derive(Clone, Copy, Default, Debug)]
struct Head {
    first: u32,
    used: u32,
    next_sequence: u64,
}

impl Outstanding {
    /// Room for `depth` transactions on each of `flows` flows.
    pub fn new(flows: usize, depth: u32) -> Outstanding {
        let depth = depth.max(1) as usize;
        Outstanding {
            slots: vec![FREE; flows * depth],
            heads: vec![Head::default(); flows],
            depth,
        }
    }

    /// Whether the flow can have one more outstanding.
    pub fn has_room(&self, flow: usize) -> bool {
        (self.heads[flow].used as usize) < self.depth
    }

    /// Transactions outstanding on the flow.
    pub fn used(&self, flow: usize) -> u32 {
        self.heads[flow].used
    }

    /// The next request's number within its flow.
    pub fn next_sequence(&self, flow: usize) -> u64 {
        self.heads[flow].next_sequence
    }

    /// Begins a transaction on a flow that has room; returns its sequence number.
    pub fn begin(&mut self, flow: usize, start_ns: u64, sent_ns: u64) -> u64 {
        let depth = self.depth;
        let head = &mut self.heads[flow];
        let sequence = head.next_sequence;
        head.next_sequence += 1;
        let own = &mut self.slots[flow * depth..(flow + 1) * depth];
        // The slot behind the queue's end is free unless an answer out of order freed another.
        let behind = (head.first + head.used) as usize % depth;
        let index = if own[behind].busy {
            own.iter().position(|slot| !slot.busy).unwrap_or(behind)
        } else {
            behind
        };
        own[index] = Slot {
            start_ns,
            sent_ns,
            sequence,
            busy: true,
        };
        head.used += 1;
        sequence
    }

    /// Ends the oldest transaction of a stream flow.
    pub fn end_oldest(&mut self, flow: usize) -> Option<Slot> {
        let head = &mut self.heads[flow];
        if head.used == 0 {
            return None;
        }
        let slot = &mut self.slots[flow * self.depth + head.first as usize];
        let ended = *slot;
        slot.busy = false;
        head.first = (head.first + 1) % self.depth as u32;
        head.used -= 1;
        Some(ended)
    }

    /// Ends the transaction of a datagram flow whose sequence number, cut to `mask`, is `tag`.
    pub fn end_tagged(&mut self, flow: usize, tag: u64, mask: u64) -> Option<Slot> {
        let own = &mut self.slots[flow * self.depth..(flow + 1) * self.depth];
        let slot = own
            .iter_mut()
            .find(|s| s.busy && s.sequence & mask == tag)?;
        let ended = *slot;
        slot.busy = false;
        self.heads[flow].used -= 1;
        Some(ended)
    }

    /// Ends the first transaction found on the flow that was sent before `before_ns`.
    pub fn end_expired(&mut self, flow: usize, before_ns: u64) -> Option<Slot> {
        let own = &mut self.slots[flow * self.depth..(flow + 1) * self.depth];
        let slot = own.iter_mut().find(|s| s.busy && s.sent_ns < before_ns)?;
        let ended = *slot;
        slot.busy = false;
        self.heads[flow].used -= 1;
        Some(ended)
    }

    /// When the oldest outstanding transaction of any flow was sent.
    pub fn oldest_sent_ns(&self) -> Option<u64> {
        self.slots
            .iter()
            .filter(|s| s.busy)
            .map(|s| s.sent_ns)
            .min()
    }

    /// Slots occupied, of all flows: counted, not derived.
    pub fn in_flight(&self) -> u64 {
        self.slots.iter().filter(|s| s.busy).count() as u64
    }

    /// Every outstanding transaction with its flow.
    pub fn outstanding(&self) -> impl Iterator<Item = (usize, Slot)> + '_ {
        let depth = self.depth;
        self.slots
            .iter()
            .enumerate()
            .filter(|(_, s)| s.busy)
            .map(move |(i, s)| (i / depth, *s))
    }
}

/// How many requests a run of received bytes completes.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Assembly {
    partial: u64,
}

impl Assembly {
    /// Adds received bytes; returns how many messages of `size` bytes are now complete.
    pub fn take(&mut self, bytes: u64, size: u64) -> u64 {
        self.partial += bytes;
        if self.partial < size {
            return 0;
        }
        let complete = self.partial / size;
        self.partial %= size;
        complete
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_stream_ends_its_transactions_in_order() {
        let mut out = Outstanding::new(2, 2);
        out.begin(1, 10, 10);
        out.begin(1, 20, 20);
        assert!(!out.has_room(1) && out.has_room(0));
        assert_eq!(out.end_oldest(1).unwrap().start_ns, 10);
        out.begin(1, 30, 30);
        assert_eq!(out.end_oldest(1).unwrap().start_ns, 20);
        assert_eq!(out.end_oldest(1).unwrap().start_ns, 30);
        assert_eq!(out.end_oldest(1), None);
    }

    #[test]
    fn a_late_answer_matches_no_newer_request() {
        let mut out = Outstanding::new(1, 1);
        out.begin(0, 0, 0);
        assert!(out.end_expired(0, 100).is_some());
        out.begin(0, 200, 200);
        assert_eq!(out.end_tagged(0, 0, 0xff), None);
        assert_eq!(out.end_tagged(0, 1, 0xff).unwrap().start_ns, 200);
    }

    proptest! {
        #[test]
        fn assembly_counts_as_division_does(parts in prop::collection::vec(0u64..5000, 0..50),
                                            size in 1u64..3000) {
            let mut assembly = Assembly::default();
            let complete: u64 = parts.iter().map(|p| assembly.take(*p, size)).sum();
            prop_assert_eq!(complete, parts.iter().sum::<u64>() / size);
        }

        #[test]
        fn slots_are_never_lost(steps in prop::collection::vec((0usize..3, 0u8..4), 0..300)) {
            let mut out = Outstanding::new(3, 4);
            let (mut begun, mut ended) = (0u64, 0u64);
            for (i, (flow, step)) in steps.into_iter().enumerate() {
                match step {
                    0 | 1 if out.has_room(flow) => {
                        out.begin(flow, i as u64, i as u64);
                        begun += 1;
                    }
                    2 => {
                        let tag = out.next_sequence(flow).wrapping_sub(2) & 0xff;
                        ended += u64::from(out.end_tagged(flow, tag, 0xff).is_some());
                    }
                    3 => ended += u64::from(out.end_expired(flow, i as u64 / 2).is_some()),
                    _ => {}
                }
                prop_assert_eq!(out.in_flight(), begun - ended);
                let used: u32 = (0..3).map(|f| out.used(f)).sum();
                prop_assert_eq!(u64::from(used), begun - ended);
            }
        }
    }
}
