//! Gathers the workers' batches: histograms are merged, intervals become progress.

use std::collections::BTreeMap;

use crate::measure::histogram::{self, Recorded};
use crate::measure::recorder::{Batch, BatchReader};
use crate::plan::Case;
use crate::record::{Counters, Interval, Progress};

/// The histograms of one group over the window.
#[derive(Default)]
pub(super) struct GroupHistograms {
    pub(super) latency: Option<Recorded>,
    pub(super) connect: Option<Recorded>,
    pub(super) lag: Option<Recorded>,
}

#[derive(Clone, Default)]
struct Sum {
    counters: Counters,
    transactions: u64,
    latency: Option<Recorded>,
}

/// Batches of all workers of one side.
pub(super) struct Collector {
    interval_ns: u64,
    warmup_ns: u64,
    pub(super) histograms: Vec<GroupHistograms>,
    pending: BTreeMap<i64, Vec<Sum>>,
    last_index: Vec<i64>,
    lifetime: Vec<Vec<Counters>>,
}

impl Collector {
    pub(super) fn new(workers: usize, case: &Case) -> Collector {
        let groups = case.groups.len();
        Collector {
            interval_ns: case.interval_ns,
            warmup_ns: case.warmup_ns,
            histograms: (0..groups).map(|_| GroupHistograms::default()).collect(),
            pending: BTreeMap::new(),
            last_index: vec![i64::MIN; workers],
            lifetime: vec![vec![Counters::default(); groups]; workers],
        }
    }

    /// Takes what a worker has handed over.
    pub(super) fn drain(&mut self, worker: usize, reader: &mut BatchReader) {
        while let Some(batch) = reader.take() {
            self.add(worker, &batch);
            self.last_index[worker] = batch.index;
            reader.give_back(batch);
        }
    }

    /// Takes a batch's histograms, and its counts for the live view.
    pub(super) fn add(&mut self, worker: usize, batch: &Batch) {
        let groups = self.histograms.len();
        let sums = self
            .pending
            .entry(batch.index)
            .or_insert_with(|| vec![Sum::default(); groups]);
        for (g, group) in batch.groups.iter().enumerate() {
            let whole = &mut self.histograms[g];
            merge(&mut whole.latency, &group.latency);
            merge(&mut whole.connect, &group.connect);
            merge(&mut whole.lag, &group.lag);
            let sum = &mut sums[g];
            sum.counters.add(&group.counters);
            sum.transactions += group.transactions;
            merge(&mut sum.latency, &group.latency);
            self.lifetime[worker][g] = group.lifetime;
        }
    }

    /// The intervals that every worker has ended.
    pub(super) fn progress(&mut self) -> Vec<Progress> {
        let ended = self.last_index.iter().copied().min().unwrap_or(i64::MIN);
        let mut news = Vec::new();
        while let Some(entry) = self.pending.first_entry() {
            if *entry.key() > ended {
                break;
            }
            let (index, sums) = entry.remove_entry();
            news.push(self.news(index, &sums));
        }
        news
    }

    /// Begin and length of an interval, seconds from the mark. The first of a warm-up that is no
    /// multiple of the interval is shorter.
    fn bounds(&self, index: i64) -> (f64, f64) {
        let start_ns = index.saturating_mul(self.interval_ns as i64);
        let warmup_ns = self.warmup_ns as i64;
        let cut_ns = (-warmup_ns - start_ns).max(0);
        let (start_ns, length_ns) = (start_ns + cut_ns, self.interval_ns as i64 - cut_ns);
        (start_ns as f64 / 1e9, length_ns as f64 / 1e9)
    }

    fn news(&self, index: i64, sums: &[Sum]) -> Progress {
        let (start_s, length_s) = self.bounds(index);
        let interval = |(g, sum): (usize, &Sum)| Interval {
            index: index.max(0) as u64,
            group: g as u32,
            start_s,
            length_s,
            counters: sum.counters,
            transactions: sum.transactions,
        };
        let lifetime: Vec<Counters> = (0..sums.len())
            .map(|g| {
                let mut sum = Counters::default();
                self.lifetime.iter().for_each(|worker| sum.add(&worker[g]));
                sum
            })
            .collect();
        Progress {
            index,
            groups: sums.iter().enumerate().map(interval).collect(),
            latency: sums.iter().map(|sum| text(&sum.latency)).collect(),
            received_total: lifetime.iter().map(|c| c.received_bytes).sum(),
            lifetime,
        }
    }
}

/// The text of a histogram that has values.
pub(super) fn text(recorded: &Option<Recorded>) -> Option<String> {
    let recorded = recorded.as_ref().filter(|r| !r.histogram().is_empty())?;
    match histogram::encode(recorded.histogram()) {
        Ok(text) => Some(text),
        Err(error) => {
            log::error!("a histogram could not be written: {error}");
            None
        }
    }
}

fn merge(to: &mut Option<Recorded>, from: &Option<Recorded>) {
    let Some(from) = from else { return };
    if from.histogram().is_empty() && from.out_of_range() == 0 && to.is_some() {
        return;
    }
    to.get_or_insert_with(Recorded::new).merge(from);
}
