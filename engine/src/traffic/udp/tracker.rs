//! What became of the datagrams of one flow, from what arrived of them.

use super::header::Phase;
use super::jumps::Jumps;

/// Sequence numbers per flow and phase that are kept to tell a reordered datagram from a
/// duplicate. What arrives from further back is late.
pub const WINDOW: u64 = 64 * 1024;

const WORD_BITS: u64 = u64::BITS as u64;
const WORDS: usize = (WINDOW / WORD_BITS) as usize;

/// What an arrival was.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Arrival {
    /// The first of its number, and no higher number came before it.
    Fresh,
    /// The first of its number, after a higher one (RFC 4737: reordered).
    Reordered,
    /// Its number came before.
    Duplicate,
    /// From before the [`WINDOW`]: whether its number came before is no longer known.
    Late,
}

/// The account of a flow, with an entry per phase (see [`Phase::index`]).
///
/// Of each phase, every sequence number below `highest` is in exactly one of `received` and
/// `gaps`. So, where the sender sent the numbers from 0 to `sent - 1`:
///
/// ```text
/// sent = received + gaps + (sent - highest)
/// ```
///
/// and `gaps + (sent - highest)`, a count plus the tail that never came, is what was lost. A late
/// arrival changes neither term: its number was settled as received or as a gap when it left the
/// window, which is why `late` is a count of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Account {
    /// One more than the highest sequence number that arrived; 0 where none did.
    pub highest: [u64; 3],
    /// Distinct sequence numbers that arrived, late ones apart.
    pub received: [u64; 3],
    /// Sequence numbers below the highest that did not arrive in time.
    pub gaps: [u64; 3],
    /// Arrivals of a number that had come before.
    pub duplicated: [u64; 3],
    /// Of `received`, those that came after a higher number.
    pub reordered: [u64; 3],
    /// Arrivals from before the window of numbers kept.
    pub late: [u64; 3],
    /// Largest reordering extent among the reordered datagrams of the window (RFC 4737 section
    /// 4.2.2): first copies that arrived since the first with a higher number, itself included.
    pub extent_max: u64,
}

/// Follows the sequence numbers of one receiving flow. Nothing allocates after
/// [`Tracker::new`], and an arrival costs O(1), amortised over the numbers that were skipped.
pub struct Tracker {
    spaces: [Space; 3],
    /// Jumps of the window's phase, whose extent is reported.
    jumps: Jumps,
    extent_max: u64,
}

impl Default for Tracker {
    fn default() -> Self {
        Tracker::new()
    }
}

impl Tracker {
    /// No datagram yet. About 1 MB of address space, of which little is touched while little is
    /// lost.
    pub fn new() -> Tracker {
        Tracker {
            spaces: [Space::new(), Space::new(), Space::new()],
            jumps: Jumps::new(WINDOW as usize),
            extent_max: 0,
        }
    }

    /// A datagram of this flow arrived.
    ///
    /// `u64::MAX` is not a sequence number, since the count of numbers up to it could not be
    /// stated: it counts as late.
    pub fn arrived(&mut self, phase: Phase, sequence: u64) -> Arrival {
        let space = &mut self.spaces[phase.index()];
        let expected = space.next;
        let arrival = space.arrived(sequence);
        if phase == Phase::Window {
            match arrival {
                Arrival::Fresh if sequence > expected => {
                    self.jumps.push(sequence, space.received, space.low());
                }
                Arrival::Reordered => {
                    let extent = self.jumps.extent(sequence, space.received);
                    self.extent_max = self.extent_max.max(extent);
                }
                Arrival::Fresh | Arrival::Duplicate | Arrival::Late => {}
            }
        }
        arrival
    }

    /// The account so far; gaps that may still be filled count as gaps.
    pub fn account(&self) -> Account {
        let each = |field: fn(&Space) -> u64| [0, 1, 2].map(|phase| field(&self.spaces[phase]));
        Account {
            highest: each(|space| space.next),
            received: each(|space| space.received),
            gaps: each(|space| space.settled_gaps + space.open_gaps()),
            duplicated: each(|space| space.duplicated),
            reordered: each(|space| space.reordered),
            late: each(|space| space.late),
            extent_max: self.extent_max,
        }
    }
}

/// The sequence numbers of one phase.
struct Space {
    /// The next expected number: one more than the highest seen.
    next: u64,
    received: u64,
    duplicated: u64,
    reordered: u64,
    late: u64,
    /// Numbers that had not arrived when they left the window.
    settled_gaps: u64,
    /// A bit for each number of the window, at the number modulo [`WINDOW`]; set where it came.
    /// Bits of numbers not yet in the window are 0.
    arrived: Vec<u64>,
}

impl Space {
    fn new() -> Space {
        Space {
            next: 0,
            received: 0,
            duplicated: 0,
            reordered: 0,
            late: 0,
            settled_gaps: 0,
            // Zeroed by the kernel, page by page, when first touched.
            arrived: vec![0; WORDS],
        }
    }

    /// Lowest number of the window.
    fn low(&self) -> u64 {
        self.next.saturating_sub(WINDOW)
    }

    fn arrived(&mut self, sequence: u64) -> Arrival {
        if sequence < self.low() || sequence == u64::MAX {
            self.late += 1;
            return Arrival::Late;
        }
        if sequence < self.next {
            let (word, bit) = place(sequence);
            if self.arrived[word] & bit != 0 {
                self.duplicated += 1;
                return Arrival::Duplicate;
            }
            self.arrived[word] |= bit;
            self.received += 1;
            self.reordered += 1;
            return Arrival::Reordered;
        }
        self.slide_to(sequence + 1);
        let (word, bit) = place(sequence);
        self.arrived[word] |= bit;
        self.received += 1;
        Arrival::Fresh
    }

    /// Moves the window up so that `next` is its end, and settles the numbers that leave it. The
    /// work is bounded by the size of the window, however far it moves.
    fn slide_to(&mut self, next: u64) {
        let old_low = self.low();
        let entering = next - self.next;
        let first = self.next % WINDOW;
        self.next = next;
        let leaving = self.low() - old_low;
        // Each entering number takes the place of the one that leaves.
        let came = self.take(first, entering.min(WINDOW));
        self.settled_gaps += leaving - came;
    }

    /// Clears so many places from `first` on, around the end; how many were set.
    fn take(&mut self, first: u64, count: u64) -> u64 {
        let (mut at, mut left, mut set) = (first, count, 0);
        while left > 0 {
            let offset = at % WORD_BITS;
            let here = left.min(WORD_BITS - offset);
            let mask = (u64::MAX >> (WORD_BITS - here)) << offset;
            let word = &mut self.arrived[(at / WORD_BITS) as usize];
            set += u64::from((*word & mask).count_ones());
            *word &= !mask;
            at = (at + here) % WINDOW;
            left -= here;
        }
        set
    }

    /// Numbers of the window that have not arrived.
    fn open_gaps(&self) -> u64 {
        let mut left = self.next - self.low();
        let mut missing = 0;
        for word in &self.arrived {
            let here = left.min(WORD_BITS);
            if here == 0 {
                break;
            }
            // Until the window is full its numbers are the first places; then it is all of them.
            let mask = u64::MAX >> (WORD_BITS - here);
            missing += u64::from((!word & mask).count_ones());
            left -= here;
        }
        missing
    }
}

/// Word and bit of a number.
fn place(sequence: u64) -> (usize, u64) {
    let at = sequence % WINDOW;
    ((at / WORD_BITS) as usize, 1 << (at % WORD_BITS))
}
