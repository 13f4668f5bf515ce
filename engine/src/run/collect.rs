//! Gathers the workers' batches: histograms are merged, intervals become progress.

use std::collections::BTreeMap;

use crate::measure::histogram::{self, Recorded};
use crate::measure::recorder::{Batch, BatchReader, Counted};
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
    counted: Counted,
    latency: Option<Recorded>,
}

/// What the workers told of the intervals up to one.
#[derive(Clone)]
struct Row {
    /// The first of them.
    first: i64,
    groups: Vec<Sum>,
}

impl Row {
    fn absorb(&mut self, earlier: Row) {
        self.first = self.first.min(earlier.first);
        for (sum, other) in self.groups.iter_mut().zip(earlier.groups) {
            sum.counted.add(&other.counted);
            merge(&mut sum.latency, &other.latency);
        }
    }
}

/// Batches of all workers of one side.
pub(super) struct Collector {
    interval_ns: u64,
    warmup_ns: u64,
    pub(super) histograms: Vec<GroupHistograms>,
    pending: BTreeMap<i64, Row>,
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
        let row = self.pending.entry(batch.index).or_insert_with(|| Row {
            first: batch.first,
            groups: vec![Sum::default(); groups],
        });
        row.first = row.first.min(batch.first);
        for (g, group) in batch.groups.iter().enumerate() {
            let whole = &mut self.histograms[g];
            merge(&mut whole.latency, &group.latency);
            merge(&mut whole.connect, &group.connect);
            merge(&mut whole.lag, &group.lag);
            let sum = &mut row.groups[g];
            sum.counted.add(&group.counted);
            merge(&mut sum.latency, &group.latency);
            self.lifetime[worker][g] = group.lifetime;
        }
    }

    /// The intervals that every worker has ended. Where a worker was held up and tells of several
    /// at once, they are one row, as long as all of them together.
    pub(super) fn progress(&mut self) -> Vec<Progress> {
        let ended = self.last_index.iter().copied().min().unwrap_or(i64::MIN);
        let mut news = Vec::new();
        while let Some((&first, _)) = self.pending.first_key_value() {
            let last = self.joined_with(first);
            if last > ended {
                break;
            }
            let later = self.pending.split_off(&(last + 1));
            let told = std::mem::replace(&mut self.pending, later);
            let whole = told.into_values().reduce(|earlier, mut row| {
                row.absorb(earlier);
                row
            });
            if let Some(row) = whole {
                news.push(self.news(last, &row));
            }
        }
        news
    }

    /// The last of the rows that tell of the interval `index`, or of what they tell of too.
    fn joined_with(&self, index: i64) -> i64 {
        let rows = self.pending.range(index..);
        rows.fold(
            index,
            |last, (key, row)| {
                if row.first <= last { *key } else { last }
            },
        )
    }

    /// Begin and length of intervals, seconds from the mark. The first of a warm-up that is no
    /// multiple of the interval is shorter.
    fn bounds(&self, first: i64, last: i64) -> (f64, f64) {
        let interval_ns = self.interval_ns as i64;
        let end_ns = last.saturating_add(1).saturating_mul(interval_ns);
        let start_ns = first.saturating_mul(interval_ns);
        let start_ns = start_ns.max(-(self.warmup_ns as i64));
        (start_ns as f64 / 1e9, (end_ns - start_ns) as f64 / 1e9)
    }

    fn news(&self, index: i64, row: &Row) -> Progress {
        let sums = &row.groups;
        let (start_s, length_s) = self.bounds(row.first, index);
        let interval = |(g, sum): (usize, &Sum)| Interval {
            index: index.max(0) as u64,
            group: g as u32,
            start_s,
            length_s,
            counters: sum.counted.counters,
            transactions: sum.counted.transactions,
            completed: sum.counted.completed,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::recorder::{Recorder, RecorderPlan};
    use crate::plan::{Proto, Test};
    use crate::record::canned::case;

    const STEP: u64 = 100;

    fn recorder() -> (Recorder, BatchReader) {
        let (mut recorder, reader) = Recorder::new(RecorderPlan {
            groups: 1,
            warmup_ns: 0,
            duration_ns: Some(6 * STEP),
            interval_ns: STEP,
            latency: false,
            connect: false,
            lag: false,
        });
        recorder.start(1000);
        (recorder, reader)
    }

    fn collector(workers: usize) -> Collector {
        let mut case = case("collected", Proto::Tcp, Test::Stream, (1, 0), 1);
        (case.interval_ns, case.warmup_ns) = (STEP, 0);
        Collector::new(workers, &case)
    }

    /// Number, length in intervals and bytes of each row.
    fn rows(news: &[Progress]) -> Vec<(i64, u64, u64)> {
        let row = |p: &Progress| {
            let interval = &p.groups[0];
            let steps = (interval.length_s * 1e9 / STEP as f64).round() as u64;
            (p.index, steps, interval.counters.received_bytes)
        };
        news.iter().map(row).collect()
    }

    #[test]
    fn intervals_that_nobody_told_of_in_time_are_one_row() {
        let (mut recorder, mut reader) = recorder();
        let mut collector = collector(1);
        recorder.received(0, 1010, 1, 0);
        recorder.tick(1100);
        recorder.received(0, 1120, 2, 0);
        // Three intervals pass while the thread is held up.
        recorder.received(0, 1420, 4, 0);
        recorder.tick(1430);
        recorder.received(0, 1430, 8, 0);
        // It comes back behind the window's end.
        recorder.tick(1950);
        collector.drain(0, &mut reader);
        let told = rows(&collector.progress());
        assert_eq!(told, [(0, 1, 1), (3, 3, 2), (5, 2, 12)]);
    }

    #[test]
    fn a_worker_that_was_held_up_joins_the_rows_of_the_others() {
        let (mut quick, mut of_quick) = recorder();
        let (mut slow, mut of_slow) = recorder();
        let mut collector = collector(2);
        for at in [1100, 1200, 1300, 1400] {
            quick.received(0, at - 50, 1, 0);
            quick.tick(at);
            collector.drain(0, &mut of_quick);
        }
        slow.tick(1100);
        collector.drain(1, &mut of_slow);
        assert_eq!(rows(&collector.progress()), [(0, 1, 1)]);
        slow.received(0, 1290, 10, 0);
        slow.tick(1310);
        collector.drain(1, &mut of_slow);
        assert_eq!(rows(&collector.progress()), [(2, 2, 12)]);
        slow.tick(1400);
        collector.drain(1, &mut of_slow);
        assert_eq!(rows(&collector.progress()), [(3, 1, 1)]);
    }
}
