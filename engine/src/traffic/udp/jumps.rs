//! When each gap was made, for the reordering extent.

/// An arrival that skipped sequence numbers.
#[derive(Clone, Copy)]
struct Jump {
    /// Sequence number that arrived.
    sequence: u64,
    /// Its place in the order of arrival.
    arrival: u64,
}

/// The jumps whose gaps may still be filled, in order of sequence number and of arrival.
///
/// RFC 4737 section 4.2 asks, for a reordered packet, which was the first to arrive of those with
/// a higher sequence number. The first to pass a number is the one that jumped over it, so the
/// jumps are all that has to be kept.
pub(super) struct Jumps {
    /// Live records from `head` on, and dead ones before it. Its capacity is for the worst case,
    /// every other number missing, but is used only as far as `limit`, so that memory is touched
    /// in proportion to the live records.
    records: Vec<Jump>,
    head: usize,
    /// Length at which the dead records are removed, or else the limit is raised.
    limit: usize,
    capacity: usize,
}

/// Limit at first.
const FIRST_LIMIT: usize = 512;

impl Jumps {
    /// Room for all jumps of a window of so many sequence numbers.
    ///
    /// Live jumps are at least two numbers apart, so there are `window / 2 + 1` of them at most.
    /// Twice that and a little leaves, when all is full, enough dead ones to pay for removal.
    pub(super) fn new(window: usize) -> Jumps {
        let capacity = window + 64;
        Jumps {
            records: Vec::with_capacity(capacity),
            head: 0,
            limit: FIRST_LIMIT.min(capacity),
            capacity,
        }
    }

    /// An arrival skipped numbers. `low` is the lowest number that may still be filled.
    pub(super) fn push(&mut self, sequence: u64, arrival: u64, low: u64) {
        self.forget_below(low);
        if self.records.len() == self.limit {
            if self.head * 2 >= self.limit {
                self.records.drain(..self.head);
                self.head = 0;
            } else {
                self.limit = (self.limit * 2).min(self.capacity);
            }
        }
        self.records.push(Jump { sequence, arrival });
    }

    /// The number `sequence` filled a gap that is within the window, as arrival number `arrival`:
    /// how many arrivals after the first higher number that is.
    pub(super) fn extent(&self, sequence: u64, arrival: u64) -> u64 {
        let live = &self.records[self.head..];
        let at = live.partition_point(|jump| jump.sequence <= sequence);
        live.get(at).map_or(0, |jump| arrival - jump.arrival)
    }

    /// Drops jumps whose gaps lie wholly below `low`.
    fn forget_below(&mut self, low: u64) {
        while self
            .records
            .get(self.head)
            .is_some_and(|jump| jump.sequence <= low)
        {
            self.head += 1;
        }
        if self.head == self.records.len() {
            self.records.clear();
            self.head = 0;
        }
    }
}
