//! The outstanding transactions of one worker's flows, and what became of them.
//!
//! Memory for `flows x depth` slots is taken once. A stream's answers come in order, so its
//! slots are a queue; a datagram's answer names its request by a tag, so its slots are searched.
//!
//! A datagram's answer that comes after its request was given up is late, and one that comes again
//! is a copy. Where the whole number is in the answer, a bit for each of the last numbers tells
//! which. Where the number is cut, the requests given up last are remembered, and no newer one
//! bears the tag of any of them.

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
    /// Cut numbers: the requests given up last, so many per flow; not busy where the answer came.
    given_up: Vec<Slot>,
    kept: usize,
    /// Requests given up that had to make room for newer ones, their answer still missing.
    forgotten: u64,
    /// Whole numbers: a bit for each of the last [`NUMBERS`] of each flow, set once answered.
    answered: Vec<u64>,
    /// The bits of a number that an answer carries.
    mask: u64,
}

/// Numbers per flow of which it is known whether they were answered.
const NUMBERS: u64 = 64 * 1024;
const WORDS: usize = (NUMBERS / 64) as usize;

/// Fewest requests given up that are remembered per flow, where the tag has room for as many.
const GIVEN_UP: usize = 256;

#[derive(Clone, Copy, Default, Debug)]
struct Head {
    first: u32,
    used: u32,
    next_sequence: u64,
    /// Requests given up so far.
    given_up: u64,
}

impl Outstanding {
    /// Room for `depth` transactions on each of `flows` flows.
    pub fn new(flows: usize, depth: u32) -> Outstanding {
        Outstanding::keeping(flows, depth, 0, u64::MAX)
    }

    /// As [`Outstanding::new`], for datagrams whose answers carry the bits `mask` of the number
    /// of their request. Of its values at least twice as many as `depth` are needed.
    pub fn named(flows: usize, depth: u32, mask: u64) -> Outstanding {
        if mask == u64::MAX {
            return Outstanding {
                answered: vec![0; flows * WORDS],
                ..Outstanding::new(flows, depth)
            };
        }
        // Every value that is neither outstanding nor kept for the next request.
        let spare = usize::try_from(mask).unwrap_or(usize::MAX);
        let spare = spare.saturating_sub(depth as usize);
        let kept = GIVEN_UP.max(4 * depth as usize).min(spare);
        Outstanding::keeping(flows, depth, kept, mask)
    }

    fn keeping(flows: usize, depth: u32, kept: usize, mask: u64) -> Outstanding {
        let depth = depth.max(1) as usize;
        Outstanding {
            slots: vec![FREE; flows * depth],
            heads: vec![Head::default(); flows],
            depth,
            given_up: vec![FREE; flows * kept],
            kept,
            forgotten: 0,
            answered: Vec::new(),
            mask,
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
        let sequence = self.next_number(flow);
        self.answer(flow, sequence, false);
        let head = &mut self.heads[flow];
        head.next_sequence = sequence + 1;
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

    /// The next number whose tag no answer that may still come bears.
    fn next_number(&self, flow: usize) -> u64 {
        let next = self.heads[flow].next_sequence;
        if self.mask == u64::MAX {
            return next;
        }
        let borne = |tag: u64| {
            let own = &self.slots[flow * self.depth..(flow + 1) * self.depth];
            let filled = self.heads[flow].given_up.min(self.kept as u64) as usize;
            let late = &self.given_up[flow * self.kept..][..filled];
            own.iter()
                .chain(late)
                .any(|slot| slot.busy && slot.sequence & self.mask == tag)
        };
        // There are more tags than can be borne at once.
        (next..)
            .find(|sequence| !borne(sequence & self.mask))
            .unwrap_or(next)
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
        self.answer(flow, ended.sequence, true);
        Some(ended)
    }

    /// Ends the first transaction found on the flow that was sent before `before_ns`.
    pub fn end_expired(&mut self, flow: usize, before_ns: u64) -> Option<Slot> {
        let own = &mut self.slots[flow * self.depth..(flow + 1) * self.depth];
        let slot = own.iter_mut().find(|s| s.busy && s.sent_ns < before_ns)?;
        let ended = *slot;
        slot.busy = false;
        let head = &mut self.heads[flow];
        head.used -= 1;
        if self.kept > 0 {
            let oldest = (head.given_up % self.kept as u64) as usize;
            head.given_up += 1;
            let place = &mut self.given_up[flow * self.kept + oldest];
            self.forgotten += u64::from(place.busy);
            *place = ended;
        }
        Some(ended)
    }

    /// Requests given up that are remembered no more and were not answered until then. Numbers
    /// that are cut come round: an answer that comes after all may be taken for a newer one's.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// An answer came that [`Outstanding::end_tagged`] knows no request for. The number of the
    /// request, where it had been given up and this is its first answer; none for a copy.
    pub fn late(&mut self, flow: usize, tag: u64) -> Option<u64> {
        if self.mask != u64::MAX {
            let late = &mut self.given_up[flow * self.kept..(flow + 1) * self.kept];
            let slot = late
                .iter_mut()
                .find(|s| s.busy && s.sequence & self.mask == tag)?;
            slot.busy = false;
            return Some(slot.sequence);
        }
        let next = self.heads[flow].next_sequence;
        if tag >= next {
            return None;
        }
        // From before the numbers that are known: a copy would have come sooner.
        (next - tag > NUMBERS || self.answer(flow, tag, true)).then_some(tag)
    }

    /// Notes whether a number is answered; whether that is news.
    fn answer(&mut self, flow: usize, sequence: u64, answered: bool) -> bool {
        let at = sequence % NUMBERS;
        let word = self.answered.get_mut(flow * WORDS + (at / 64) as usize);
        let Some(word) = word else { return false };
        let (bit, before) = (1_u64 << (at % 64), *word);
        *word = if answered {
            before | bit
        } else {
            before & !bit
        };
        *word != before
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
    /// Bytes of the message that is not complete yet.
    pub fn partial(&self) -> u64 {
        self.partial
    }

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

    #[test]
    fn an_answer_is_late_once_and_then_a_copy() {
        for mask in [u64::MAX, 0xff] {
            let mut out = Outstanding::named(2, 1, mask);
            let first = out.begin(1, 10, 10);
            assert!(out.end_expired(1, 100).is_some());
            assert_eq!(out.end_tagged(1, first, mask), None);
            assert_eq!(
                (out.late(0, first), out.late(1, first)),
                (None, Some(first))
            );
            assert_eq!(out.late(1, first), None);
            let second = out.begin(1, 10, 10);
            assert!(out.end_tagged(1, second, mask).is_some());
            assert_eq!((out.late(1, second), out.late(1, second + 1)), (None, None));
        }
    }

    #[test]
    fn any_number_given_up_at_once_is_late_when_answered() {
        let mut out = Outstanding::named(1, 100, u64::MAX);
        let late = NUMBERS - 100;
        for _ in 0..late / 100 {
            for _ in 0..100 {
                out.begin(0, 0, 0);
            }
            while out.end_expired(0, 1).is_some() {}
        }
        let answered = (0..late).filter(|sequence| out.late(0, *sequence).is_some());
        assert_eq!(answered.count() as u64, late / 100 * 100);
        for _ in 0..NUMBERS {
            let sequence = out.begin(0, 0, 0);
            assert!(out.end_tagged(0, sequence, u64::MAX).is_some());
            assert_eq!(out.late(0, sequence), None);
        }
    }

    #[test]
    fn no_request_bears_the_tag_of_one_that_was_given_up() {
        let depth = 4;
        let mut out = Outstanding::named(1, depth, 0xff);
        for _ in 0..200 {
            out.begin(0, 0, 0);
            assert!(out.end_expired(0, 1).is_some());
        }
        // 56 tags are left, and go round.
        for _ in 0..1000 {
            let sequence = out.begin(0, 5, 5);
            assert!(sequence & 0xff >= 200, "tag {}", sequence & 0xff);
            assert!(out.end_tagged(0, sequence & 0xff, 0xff).is_some());
        }
        // Where every tag was given up once, the one given up first goes first.
        for _ in 0..10_000 {
            let sequence = out.begin(0, 6, 6);
            let given_up = out.late(0, sequence & 0xff);
            assert_eq!(given_up, None, "an answer could be taken for another's");
            assert!(out.end_expired(0, 7).is_some());
        }
        let remembered = 0xff - u64::from(depth);
        assert_eq!(out.forgotten(), 10_200 - remembered);
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
