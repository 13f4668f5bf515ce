//! Adding up the transactions of one worker, and keeping the slow ones.

use ringperf_ebpf::bucket::{BUCKETS, bucket, lowest};

use super::chain::{BYPASSED, MISSING, Parts};
use super::stage::STAGES;

/// Slow transactions that a worker keeps in one second, and at once.
const SLOW_A_SECOND: u32 = 1000;
const SLOW_KEPT: usize = 8192;
/// Transactions between two looks at the 99th percentile.
const RENEW: u64 = 256;
const SECOND_NS: u64 = 1_000_000_000;

/// Times of one stage.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Times {
    /// Messages that passed it with both stamps.
    pub seen: u64,
    /// Messages that did not have to pass it.
    pub bypassed: u64,
    /// Nanoseconds of those seen.
    pub sum_ns: u64,
    /// Those seen by [`bucket`].
    pub buckets: Vec<u64>,
}

impl Times {
    fn new() -> Times {
        Times {
            seen: 0,
            bypassed: 0,
            sum_ns: 0,
            buckets: vec![0; BUCKETS],
        }
    }

    fn add(&mut self, ns: u64) {
        self.seen += 1;
        self.sum_ns += ns;
        self.buckets[bucket(ns)] += 1;
    }

    fn merge(&mut self, other: &Times) {
        self.seen += other.seen;
        self.bypassed += other.bypassed;
        self.sum_ns += other.sum_ns;
        for (sum, more) in self.buckets.iter_mut().zip(&other.buckets) {
            *sum += more;
        }
    }

    /// Where the slowest hundredth begins, nanoseconds; where that is among the many, what is
    /// slower than they.
    pub(super) fn p99(&self) -> u64 {
        let hundredth = self.seen.div_ceil(100);
        let mut above = 0;
        for index in (0..BUCKETS).rev() {
            let here = self.buckets[index];
            if above + here >= hundredth && here > 0 {
                let many = above > 0 && above + here > 2 * hundredth;
                return lowest(if many { index + 1 } else { index });
            }
            above += here;
        }
        0
    }
}

/// A slow transaction, whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Slow {
    pub(super) flow: u32,
    pub(super) start_ns: u64,
    pub(super) total_ns: u64,
    pub(super) parts: Parts,
}

/// What the transactions of one worker, or of several, add up to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sums {
    /// The whole transaction.
    pub(super) total: Times,
    /// Each stage.
    pub(super) stages: Vec<Times>,
    pub(super) slow: Vec<Slow>,
    /// Slow transactions that were not kept.
    pub(super) overflow: u64,
    threshold_ns: u64,
    second: u64,
    in_second: u32,
}

impl Sums {
    /// Nothing yet. Everything that is needed later is allocated here.
    pub(super) fn new() -> Sums {
        Sums {
            total: Times::new(),
            stages: (0..STAGES).map(|_| Times::new()).collect(),
            slow: Vec::with_capacity(SLOW_KEPT),
            overflow: 0,
            threshold_ns: 0,
            second: 0,
            in_second: 0,
        }
    }

    /// Counts a transaction.
    pub(super) fn add(&mut self, flow: u32, start_ns: u64, total_ns: u64, parts: &Parts) {
        for (stage, ns) in self.stages.iter_mut().zip(parts) {
            match *ns {
                MISSING => {}
                BYPASSED => stage.bypassed += 1,
                ns => stage.add(u64::from(ns)),
            }
        }
        if total_ns >= self.threshold_ns {
            self.keep(Slow {
                flow,
                start_ns,
                total_ns,
                parts: *parts,
            });
        }
        self.total.add(total_ns);
        if self.total.seen.is_multiple_of(RENEW) {
            self.threshold_ns = self.total.p99();
        }
    }

    fn keep(&mut self, slow: Slow) {
        let second = slow.start_ns / SECOND_NS;
        if second != self.second {
            (self.second, self.in_second) = (second, 0);
        }
        if self.slow.len() == SLOW_KEPT {
            // What was slow once need not be by now.
            let threshold = self.threshold_ns;
            self.slow.retain(|slow| slow.total_ns >= threshold);
        }
        if self.in_second >= SLOW_A_SECOND || self.slow.len() == SLOW_KEPT {
            self.overflow += 1;
            return;
        }
        self.in_second += 1;
        self.slow.push(slow);
    }

    /// Adds another worker's.
    pub fn merge(&mut self, other: &Sums) {
        self.total.merge(&other.total);
        for (stage, more) in self.stages.iter_mut().zip(&other.stages) {
            stage.merge(more);
        }
        self.slow.extend_from_slice(&other.slow);
        self.overflow += other.overflow;
    }

    /// Nanoseconds of the transactions that lie in no stage.
    pub(super) fn unattributed_ns(&self) -> u64 {
        let attributed = self.stages.iter().map(|stage| stage.sum_ns).sum();
        self.total.sum_ns.saturating_sub(attributed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(slow_one_in: u64) -> Sums {
        let mut sums = Sums::new();
        for n in 0..100_000u64 {
            let slow = n % slow_one_in == 0;
            let total = if slow { 1_000_000 } else { 5_000 };
            sums.add(0, n * 100_000, total, &[MISSING; STAGES]);
        }
        sums
    }

    #[test]
    fn the_threshold_follows_the_slowest_hundredth() {
        for one_in in [50, 200] {
            let sums = sums(one_in);
            assert!(sums.threshold_ns > 5_000, "{one_in}: {}", sums.threshold_ns);
            let slow = sums.slow.iter().filter(|s| s.total_ns == 1_000_000);
            assert_eq!(slow.count() as u64, 100_000 / one_in);
            // Before there was a threshold everything was kept.
            assert!(sums.slow.len() as u64 <= 100_000 / one_in + 2 * RENEW);
            assert_eq!(sums.overflow, 0);
        }
    }

    #[test]
    fn no_more_than_a_thousand_a_second_are_kept() {
        let mut sums = Sums::new();
        for n in 0..3000 {
            sums.add(0, n, 1000 << (n / 100), &[MISSING; STAGES]);
        }
        assert_eq!(sums.slow.len(), 1000);
        assert!(sums.overflow > 0 && sums.overflow <= 2000);
    }
}
