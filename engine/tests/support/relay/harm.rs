//! What the script does to one direction of one client's datagrams.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A datagram that is held back goes on after this long, whether or not it was overtaken by as
/// many as the script says.
const HOLD_AT_MOST: Duration = Duration::from_millis(100);

/// What is done to the nth data datagram, counted from 1. Where several apply, the first of
/// dropping, holding and duplicating is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Harm {
    /// Drop every nth; 0 is none.
    pub drop_every: u64,
    /// Send every nth twice; 0 is none.
    pub duplicate_every: u64,
    /// Hold back every nth; 0 is none.
    pub hold_every: u64,
    /// Let a held one go on once so many more data datagrams have come.
    pub hold_by: u64,
}

/// What was done in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Data datagrams that came.
    pub data: u64,
    /// Other datagrams, all sent on.
    pub untouched: u64,
    /// Data datagrams dropped.
    pub dropped: u64,
    /// Data datagrams sent a second time.
    pub duplicated: u64,
    /// Data datagrams held back.
    pub held: u64,
    /// Of those, overtaken by a later one before they went on.
    pub overtaken: u64,
    /// Of all that were to be sent on, those that the kernel did not take.
    pub refused: u64,
}

/// The counts of one direction over all clients.
#[derive(Default)]
pub(super) struct Tally {
    data: AtomicU64,
    untouched: AtomicU64,
    dropped: AtomicU64,
    duplicated: AtomicU64,
    held: AtomicU64,
    overtaken: AtomicU64,
    refused: AtomicU64,
}

impl Tally {
    pub(super) fn counts(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
        Counts {
            data: read(&self.data),
            untouched: read(&self.untouched),
            dropped: read(&self.dropped),
            duplicated: read(&self.duplicated),
            held: read(&self.held),
            overtaken: read(&self.overtaken),
            refused: read(&self.refused),
        }
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::SeqCst);
}

struct Held {
    payload: Vec<u8>,
    /// Goes on once this many data datagrams have come.
    until_seen: u64,
    until: Instant,
    /// Data datagrams that had gone on directly when this one was held.
    passed: u64,
}

/// One direction of one client.
pub(super) struct Lane {
    harm: Harm,
    tally: Arc<Tally>,
    seen: u64,
    passed: u64,
    held: VecDeque<Held>,
}

impl Lane {
    pub(super) fn new(harm: Harm, tally: Arc<Tally>) -> Lane {
        Lane {
            harm,
            tally,
            seen: 0,
            passed: 0,
            held: VecDeque::new(),
        }
    }

    /// A datagram came. `send` says whether the kernel took what it was given.
    pub(super) fn pass(
        &mut self,
        payload: &[u8],
        data: bool,
        mut send: impl FnMut(&[u8]) -> bool,
    ) {
        if !data {
            count(&self.tally.untouched);
            return self.forward(payload, &mut send);
        }
        count(&self.tally.data);
        self.seen += 1;
        let every = |n: u64| n != 0 && self.seen.is_multiple_of(n);
        if every(self.harm.drop_every) {
            count(&self.tally.dropped);
        } else if every(self.harm.hold_every) {
            count(&self.tally.held);
            self.held.push_back(Held {
                payload: payload.to_vec(),
                until_seen: self.seen + self.harm.hold_by,
                until: Instant::now() + HOLD_AT_MOST,
                passed: self.passed,
            });
        } else {
            if every(self.harm.duplicate_every) {
                count(&self.tally.duplicated);
                self.forward(payload, &mut send);
            }
            self.passed += 1;
            self.forward(payload, &mut send);
        }
        let seen = self.seen;
        self.release(|held| held.until_seen <= seen, send);
    }

    /// Lets go what was held for too long.
    pub(super) fn tick(&mut self, send: impl FnMut(&[u8]) -> bool) {
        if !self.held.is_empty() {
            let now = Instant::now();
            self.release(|held| held.until <= now, send);
        }
    }

    fn release(&mut self, go: impl Fn(&Held) -> bool, mut send: impl FnMut(&[u8]) -> bool) {
        while let Some(held) = self.held.pop_front_if(|held| go(held)) {
            if self.passed > held.passed {
                count(&self.tally.overtaken);
            }
            self.forward(&held.payload, &mut send);
        }
    }

    fn forward(&self, payload: &[u8], send: &mut impl FnMut(&[u8]) -> bool) {
        if !send(payload) {
            count(&self.tally.refused);
        }
    }
}
