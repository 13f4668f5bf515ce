//! What one worker counts and times, without allocation, lock or shared cache line.
//!
//! Counts go into plain integers of the worker. Once an interval a [`Batch`] with the histograms
//! of that interval goes to the control thread through a wait-free ring, and an empty one comes
//! back. A batch that cannot be handed over stays and grows: nothing is lost.

use rtrb::{Consumer, Producer, RingBuffer};

use super::histogram::Recorded;
use crate::record::Counters;

/// Most intervals kept where the sample's length is not known beforehand. Their memory is
/// untouched until used.
const OPEN_ENDED_INTERVALS: usize = 1 << 20;

/// Batches that travel between a worker and the control thread.
const BATCHES: usize = 4;

/// One interval of one group: sent bytes and messages, received bytes and messages, transactions
/// that started in it and are done, transactions completed in it.
type Cell = [u64; 6];

/// What an interval of a group has counted.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counted {
    /// Payload.
    pub counters: Counters,
    /// Transactions that started in it and are done.
    pub transactions: u64,
    /// Transactions completed in it.
    pub completed: u64,
}

impl Counted {
    /// Adds what another worker or another interval has counted.
    pub fn add(&mut self, other: &Counted) {
        self.counters.add(&other.counters);
        self.transactions = self.transactions.saturating_add(other.transactions);
        self.completed = self.completed.saturating_add(other.completed);
    }
}

/// The instants that separate warm-up, window and after, CLOCK_MONOTONIC nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Marks {
    /// Traffic began.
    pub start_ns: u64,
    /// The window begins.
    pub t0_ns: u64,
    /// The window ends; `u64::MAX` where a count ends the sample.
    pub t1_ns: u64,
}

/// What a recorder has to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecorderPlan {
    /// Groups of the case.
    pub groups: usize,
    /// Warm-up, nanoseconds.
    pub warmup_ns: u64,
    /// Length of the window; none where a count ends the sample.
    pub duration_ns: Option<u64>,
    /// Interval, nanoseconds.
    pub interval_ns: u64,
    /// Latencies are recorded (asking side).
    pub latency: bool,
    /// Connect times are recorded (crr).
    pub connect: bool,
    /// Lags behind a schedule are recorded (open loop).
    pub lag: bool,
}

/// The part of a batch that belongs to one group.
#[derive(Debug)]
pub struct BatchGroup {
    /// What the intervals that just ended have counted so far; in the warm-up, which has no
    /// account of its own, what was added to the lifetime's.
    pub counted: Counted,
    /// Counts since the beginning.
    pub lifetime: Counters,
    /// Latencies recorded since the last batch.
    pub latency: Option<Recorded>,
    /// Connect times since the last batch.
    pub connect: Option<Recorded>,
    /// Lags since the last batch.
    pub lag: Option<Recorded>,
}

/// What goes to the control thread once an interval.
#[derive(Debug)]
pub struct Batch {
    /// Number of the interval that just ended, negative in the warm-up.
    pub index: i64,
    /// Number of the first interval that it tells of: an earlier one where the worker was held up
    /// while others ended.
    pub first: i64,
    /// One per group.
    pub groups: Vec<BatchGroup>,
}

impl Batch {
    fn new(plan: &RecorderPlan) -> Box<Batch> {
        let group = || BatchGroup {
            counted: Counted::default(),
            lifetime: Counters::default(),
            latency: plan.latency.then(Recorded::new),
            connect: plan.connect.then(Recorded::new),
            lag: plan.lag.then(Recorded::new),
        };
        Box::new(Batch {
            index: 0,
            first: 0,
            groups: (0..plan.groups).map(|_| group()).collect(),
        })
    }

    /// Empties the histograms, for the way back.
    pub fn clear(&mut self) {
        for group in &mut self.groups {
            let all = [&mut group.latency, &mut group.connect, &mut group.lag];
            all.into_iter().flatten().for_each(Recorded::clear);
        }
    }
}

/// The control thread's end of a recorder.
#[derive(Debug)]
pub struct BatchReader {
    full: Consumer<Box<Batch>>,
    empty: Producer<Box<Batch>>,
}

impl BatchReader {
    /// The next batch, if one has come.
    pub fn take(&mut self) -> Option<Box<Batch>> {
        self.full.pop().ok()
    }

    /// Gives a batch back to the worker.
    pub fn give_back(&mut self, mut batch: Box<Batch>) {
        batch.clear();
        // The ring has room for every batch there is; were it full, the batch is simply freed.
        let _ = self.empty.push(batch);
    }
}

/// What a recorder leaves behind.
#[derive(Debug)]
pub struct Remains {
    /// The last, unsent batch.
    pub rest: Box<Batch>,
    /// The marks in force at the end.
    pub marks: Option<Marks>,
    /// Intervals of the window, by index then group.
    pub intervals: Vec<Vec<Counted>>,
    /// Per group, counts since the beginning.
    pub lifetime: Vec<Counters>,
}

/// Counts and times of one worker.
#[derive(Debug)]
pub struct Recorder {
    plan: RecorderPlan,
    marks: Option<Marks>,
    cells: Vec<Cell>,
    current: (u64, u64, usize),
    next_flush_ns: u64,
    /// Number of the first interval that no batch has told of.
    untold: i64,
    lifetime: Vec<Counters>,
    flushed: Vec<Counters>,
    batch: Box<Batch>,
    full: Producer<Box<Batch>>,
    empty: Consumer<Box<Batch>>,
}

impl Recorder {
    /// A recorder and the control thread's end of it. All memory is taken here.
    pub fn new(plan: RecorderPlan) -> (Recorder, BatchReader) {
        let (full_in, full_out) = RingBuffer::new(BATCHES + 1);
        let (mut empty_in, empty_out) = RingBuffer::new(BATCHES + 1);
        for _ in 1..BATCHES {
            let _ = empty_in.push(Batch::new(&plan));
        }
        let intervals = plan.duration_ns.map_or(OPEN_ENDED_INTERVALS, |d| {
            (d.div_ceil(plan.interval_ns.max(1)) as usize).max(1)
        });
        let recorder = Recorder {
            plan,
            marks: None,
            cells: vec![[0; 6]; intervals * plan.groups],
            current: (u64::MAX, 0, 0),
            next_flush_ns: u64::MAX,
            untold: 0,
            lifetime: vec![Counters::default(); plan.groups],
            flushed: vec![Counters::default(); plan.groups],
            batch: Batch::new(&plan),
            full: full_in,
            empty: empty_out,
        };
        (
            recorder,
            BatchReader {
                full: full_out,
                empty: empty_in,
            },
        )
    }

    /// Traffic begins; from here on the marks are known.
    pub fn start(&mut self, start_ns: u64) -> Marks {
        let t0_ns = start_ns + self.plan.warmup_ns;
        let t1_ns = self.plan.duration_ns.map_or(u64::MAX, |d| t0_ns + d);
        let marks = Marks {
            start_ns,
            t0_ns,
            t1_ns,
        };
        self.marks = Some(marks);
        let whole = self.plan.warmup_ns / self.plan.interval_ns * self.plan.interval_ns;
        self.next_flush_ns = t0_ns - whole;
        if self.next_flush_ns <= start_ns {
            self.next_flush_ns += self.plan.interval_ns;
        }
        self.untold = self.ending(self.next_flush_ns, marks.t0_ns);
        marks
    }

    /// Ends the window now, where it has not ended yet.
    pub fn close_window(&mut self, now_ns: u64) {
        if let Some(marks) = &mut self.marks {
            marks.t1_ns = marks.t1_ns.min(now_ns.max(marks.t0_ns));
        }
        self.current = (u64::MAX, 0, 0);
    }

    /// The marks, once traffic has begun.
    pub fn marks(&self) -> Option<Marks> {
        self.marks
    }

    /// Whether an instant lies in the window. Where a count ends the sample, everything does.
    pub fn in_window(&self, at_ns: u64) -> bool {
        match self.marks {
            Some(marks) => {
                (at_ns >= marks.t0_ns || self.plan.duration_ns.is_none()) && at_ns < marks.t1_ns
            }
            None => self.plan.duration_ns.is_none(),
        }
    }

    /// Counts sent payload at the instant; whether that is in the window.
    #[inline]
    pub fn sent(&mut self, group: usize, at_ns: u64, bytes: u64, messages: u64) -> bool {
        self.sent_life(group, bytes, messages);
        let inside = self.in_window(at_ns);
        if inside {
            self.sent_in_window(group, at_ns, bytes, messages);
        }
        inside
    }

    /// Counts received payload at the instant.
    #[inline]
    pub fn received(&mut self, group: usize, at_ns: u64, bytes: u64, messages: u64) {
        self.received_life(group, bytes, messages);
        if self.in_window(at_ns) {
            self.received_in_window(group, at_ns, bytes, messages);
        }
    }

    /// Counts received payload for the lifetime only.
    #[inline]
    pub fn received_life(&mut self, group: usize, bytes: u64, messages: u64) {
        let life = &mut self.lifetime[group];
        life.received_bytes += bytes;
        life.received_messages += messages;
    }

    /// Counts sent payload for the lifetime only.
    #[inline]
    pub fn sent_life(&mut self, group: usize, bytes: u64, messages: u64) {
        let life = &mut self.lifetime[group];
        life.sent_bytes += bytes;
        life.sent_messages += messages;
    }

    /// Counts payload that is the window's, in the interval of the instant or, where the instant
    /// lies outside of the window, in the nearest.
    #[inline]
    pub fn received_in_window(&mut self, group: usize, at_ns: u64, bytes: u64, messages: u64) {
        let cell = self.cell(group, at_ns);
        cell[2] += bytes;
        cell[3] += messages;
    }

    /// As [`Recorder::received_in_window`], for sent payload.
    #[inline]
    pub fn sent_in_window(&mut self, group: usize, at_ns: u64, bytes: u64, messages: u64) {
        let cell = self.cell(group, at_ns);
        cell[0] += bytes;
        cell[1] += messages;
    }

    /// A transaction has its whole answer of so many bytes now; whether that is in the window.
    #[inline]
    pub fn completed(&mut self, group: usize, now_ns: u64, bytes: u64) -> bool {
        self.received_life(group, bytes, 1);
        let inside = self.in_window(now_ns);
        if inside {
            let cell = self.cell(group, now_ns);
            cell[2] += bytes;
            cell[3] += 1;
            cell[5] += 1;
        }
        inside
    }

    /// A transaction of the window is done: counted in the interval in which it started.
    #[inline]
    pub fn done(&mut self, group: usize, start_ns: u64, latency_ns: u64) {
        self.cell(group, start_ns)[4] += 1;
        self.latency(group, latency_ns);
    }

    /// Records a latency.
    #[inline]
    pub fn latency(&mut self, group: usize, latency_ns: u64) {
        if let Some(latency) = &mut self.batch.groups[group].latency {
            latency.record(latency_ns);
        }
    }

    /// Records a latency that several transactions have.
    pub fn latencies(&mut self, group: usize, latency_ns: u64, times: u64) {
        if let Some(latency) = &mut self.batch.groups[group].latency {
            latency.record_many(latency_ns, times);
        }
    }

    /// Records a connect time.
    #[inline]
    pub fn connect(&mut self, group: usize, ns: u64) {
        if let Some(connect) = &mut self.batch.groups[group].connect {
            connect.record(ns);
        }
    }

    /// Records how far a send was behind its schedule.
    #[inline]
    pub fn lag(&mut self, group: usize, ns: u64) {
        if let Some(lag) = &mut self.batch.groups[group].lag {
            lag.record(ns);
        }
    }

    /// When [`Recorder::tick`] has something to do.
    pub fn next_tick_ns(&self) -> u64 {
        self.next_flush_ns
    }

    /// Hands over the interval's batch where an interval has ended.
    #[inline]
    pub fn tick(&mut self, now_ns: u64) {
        if now_ns >= self.next_flush_ns {
            self.flush(now_ns);
        }
    }

    /// Number of the interval that ends at an instant.
    fn ending(&self, at_ns: u64, t0_ns: u64) -> i64 {
        (at_ns as i64 - t0_ns as i64) / self.plan.interval_ns as i64 - 1
    }

    fn flush(&mut self, now_ns: u64) {
        let Some(marks) = self.marks else { return };
        let interval = self.plan.interval_ns;
        self.next_flush_ns += (now_ns - self.next_flush_ns) / interval * interval;
        let index = self.ending(self.next_flush_ns, marks.t0_ns);
        self.next_flush_ns += interval;
        // Where this thread was held up beyond the window's end, the window's last comes first.
        let last = (self.cells.len() / self.plan.groups) as i64 - 1;
        let first = self.untold.min(index);
        self.fill(
            first,
            if first <= last {
                index.min(last)
            } else {
                index
            },
        );
        self.untold = index + 1;
        if let Ok(fresh) = self.empty.pop() {
            let full = std::mem::replace(&mut self.batch, fresh);
            if let Err(rtrb::PushError::Full(back)) = self.full.push(full) {
                self.batch = back;
            }
        }
    }

    /// Fills the batch with what the intervals from one to another have counted.
    fn fill(&mut self, first: i64, index: i64) {
        (self.batch.first, self.batch.index) = (first, index);
        let groups = self.plan.groups;
        let rows = self.cells.len() / groups;
        let bound = |index: i64| usize::try_from(index).map_or(0, |at| at.min(rows));
        let told = bound(first)..bound(index.saturating_add(1));
        for (g, group) in self.batch.groups.iter_mut().enumerate() {
            group.lifetime = self.lifetime[g];
            group.counted = Counted::default();
            for row in told.clone() {
                group.counted.add(&split(&self.cells[row * groups + g]));
            }
            if index < 0 {
                let counters = self.lifetime[g].since(&self.flushed[g]);
                let done = if self.plan.latency {
                    counters.received_messages
                } else {
                    0
                };
                group.counted = Counted {
                    counters,
                    transactions: done,
                    completed: done,
                };
            }
            self.flushed[g] = self.lifetime[g];
        }
    }

    /// Ends recording.
    pub fn finish(mut self) -> Remains {
        self.fill(i64::MAX, i64::MAX);
        let groups = self.plan.groups;
        let used = match self.marks {
            Some(m) if m.t1_ns != u64::MAX => {
                (m.t1_ns - m.t0_ns).div_ceil(self.plan.interval_ns.max(1)) as usize
            }
            _ => self
                .cells
                .iter()
                .rposition(|c| *c != [0; 6])
                .map_or(0, |i| i / groups + 1),
        };
        let rows = self.cells.chunks(groups).take(used);
        Remains {
            intervals: rows.map(|row| row.iter().map(split).collect()).collect(),
            rest: self.batch,
            marks: self.marks,
            lifetime: self.lifetime,
        }
    }

    #[inline]
    fn cell(&mut self, group: usize, at_ns: u64) -> &mut Cell {
        let (low, high, row) = self.current;
        let row = if at_ns >= low && at_ns < high {
            row
        } else {
            self.locate(at_ns)
        };
        &mut self.cells[row + group]
    }

    /// Finds the row of the interval that holds the instant and remembers its bounds.
    fn locate(&mut self, at_ns: u64) -> usize {
        let Some(marks) = self.marks else { return 0 };
        let interval = self.plan.interval_ns;
        let inside = at_ns.clamp(marks.t0_ns, marks.t1_ns.saturating_sub(1).max(marks.t0_ns));
        let last = self.cells.len() / self.plan.groups - 1;
        let index = (((inside - marks.t0_ns) / interval) as usize).min(last);
        let low = marks.t0_ns + index as u64 * interval;
        let row = index * self.plan.groups;
        if inside == at_ns {
            self.current = (low, (low + interval).min(marks.t1_ns), row);
        }
        row
    }
}

fn split(cell: &Cell) -> Counted {
    Counted {
        counters: Counters {
            sent_bytes: cell[0],
            sent_messages: cell[1],
            received_bytes: cell[2],
            received_messages: cell[3],
        },
        transactions: cell[4],
        completed: cell[5],
    }
}
