//! From the stamps of one transaction to its stages.
//!
//! Each stage lies between two stamps of its own. A stamp that is missing, older than one before
//! it on the way or younger than the end belongs to another message, or to none: the stages on
//! both sides of it are then missing. Stages never overlap, so that they cannot add up to more
//! than the whole.

use ringperf_ebpf::layout::{PACED_BY_QUEUE, RECORD_WORDS, Stamp};

use super::stage::{STAGES, Stage, Step, Way};

/// The stage has no two stamps.
pub(super) const MISSING: u32 = u32::MAX;
/// The message did not pass it.
pub(super) const BYPASSED: u32 = u32::MAX - 1;

/// Nanoseconds of each stage, or one of the two numbers above.
pub(super) type Parts = [u32; STAGES];

/// One side's stamps of a flow.
pub(super) type Record = [u64; RECORD_WORDS];

/// The stamps that are written at all: those whose program is attached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Known(u32);

impl Known {
    /// These stamps, and the one that the worker writes.
    pub fn of(stamps: impl IntoIterator<Item = Stamp>) -> Known {
        let handed = 1 << Stamp::Handed as usize;
        Known(
            stamps
                .into_iter()
                .fold(handed, |all, s| all | 1 << s as usize),
        )
    }

    fn has(self, stamp: Stamp) -> bool {
        self.0 & 1 << stamp as usize != 0
    }

    fn get(self, record: &Record, stamp: Stamp) -> Option<u64> {
        Some(record[stamp as usize]).filter(|at| *at != 0 && self.has(stamp))
    }
}

/// A way through the stamps of a transaction.
pub(super) struct Chain {
    known: Known,
    udp: bool,
    parts: Parts,
    last: Option<u64>,
    floor: u64,
    end: u64,
    /// The answer was sent by a call of its own: there was no batch to hand over.
    at_once: bool,
}

impl Chain {
    /// Begins at `start` (none: with the first point), and nothing is later than `end`.
    pub(super) fn new(known: Known, udp: bool, start: Option<u64>, end: u64) -> Chain {
        Chain {
            known,
            udp,
            parts: [MISSING; STAGES],
            last: start,
            floor: start.unwrap_or(0),
            end,
            at_once: false,
        }
    }

    /// The stages that were passed.
    pub(super) fn parts(&self) -> &Parts {
        &self.parts
    }

    /// The stage from the point before to this one.
    pub(super) fn point(&mut self, at: Option<u64>, stage: Stage) {
        let valid = at.filter(|at| (self.floor..=self.end).contains(at));
        if let (Some(from), Some(to)) = (self.last, valid) {
            let time = u32::try_from(to - from).unwrap_or(u32::MAX);
            self.parts[stage.index()] = time.min(BYPASSED - 1);
        }
        self.floor = valid.unwrap_or(self.floor);
        self.last = valid;
    }

    fn skip(&mut self, way: Way, step: Step) {
        self.parts[Stage::of(way, step).index()] = BYPASSED;
    }

    /// Where the chain begins with a record's first stamp.
    pub(super) fn begin(&mut self, record: &Record) -> Option<u64> {
        let at = self.known.get(record, Stamp::Arrived);
        self.last = at.filter(|at| *at <= self.end);
        self.floor = self.last.unwrap_or(0);
        self.last
    }

    /// The arrival of a message at its receiver.
    pub(super) fn arrived(&mut self, record: &Record, stage: Stage) {
        self.point(self.known.get(record, Stamp::Arrived), stage);
    }

    /// The last point, where it is known.
    pub(super) fn last(&self) -> Option<u64> {
        self.last
    }

    fn submitted(&mut self, at: Option<u64>, way: Way) {
        self.point(at, Stage::of(way, Step::Submit));
        if std::mem::take(&mut self.at_once) {
            self.skip(way, Step::Submit);
        }
    }

    /// The sender's half.
    pub(super) fn sent(&mut self, record: &Record, way: Way) {
        let queued = self.known.get(record, Stamp::Queued);
        let driven = self.known.get(record, Stamp::Driven);
        let stage = |step| Stage::of(way, step);
        let departs = record[Stamp::Paced as usize];
        if self.udp {
            self.submitted(queued, way);
            self.skip(way, Step::Stack);
            let by_queue = departs == PACED_BY_QUEUE;
            let (taken, other) = match by_queue {
                true => (Step::Paced, Step::Queue),
                false => (Step::Queue, Step::Paced),
            };
            self.point(driven, stage(taken));
            return self.skip(way, other);
        }
        let sent = self.known.get(record, Stamp::Sent);
        self.submitted(sent, way);
        match (sent, queued) {
            (Some(sent), Some(queued)) if departs > sent && departs <= queued => {
                self.point(Some(departs), stage(Step::Paced));
                self.point(Some(queued), stage(Step::Stack));
            }
            (_, Some(queued)) if departs > queued => {
                self.point(Some(queued), stage(Step::Stack));
                let until = driven.map(|driven| driven.min(departs));
                self.point(until, stage(Step::Paced));
            }
            _ => {
                self.skip(way, Step::Paced);
                self.point(queued, stage(Step::Stack));
            }
        }
        self.point(driven, stage(Step::Queue));
    }

    /// The receiver's half, behind the point of its arrival.
    pub(super) fn received(&mut self, record: &Record, way: Way) {
        let stage = |step| Stage::of(way, step);
        let ready = self.known.get(record, Stamp::Ready);
        let copied = self.known.get(record, Stamp::Copied);
        self.point(ready, stage(Step::Receive));
        let Some(running) = self.known.get(record, Stamp::Running) else {
            // Without knowing when it ran there is no telling what the time until the copy was.
            self.point(None, stage(Step::SocketQueue));
            return self.point(copied, stage(Step::Copy));
        };
        if running <= ready.unwrap_or(self.floor) {
            self.skip(way, Step::WakeUp);
            self.skip(way, Step::RunQueue);
            self.skip(way, Step::Copy);
            return self.point(copied, stage(Step::SocketQueue));
        }
        self.woken(record, way, ready);
        self.point(copied, stage(Step::Copy));
    }

    /// From the socket's queue to the running worker, which did not run meanwhile.
    fn woken(&mut self, record: &Record, way: Way, ready: Option<u64>) {
        let stage = |step| Stage::of(way, step);
        let running = self.known.get(record, Stamp::Running);
        let runnable = self.known.get(record, Stamp::Runnable);
        let gave_way = runnable.is_some_and(|at| at & 1 == 1);
        let runnable = runnable.map(|at| at & !1);
        let (taken, other) = match gave_way {
            true => (Step::SocketQueue, Step::WakeUp),
            false => (Step::WakeUp, Step::SocketQueue),
        };
        self.skip(way, other);
        if runnable.is_some() && runnable <= ready {
            // It waited for its turn already, for another message.
            self.skip(way, taken);
        } else {
            let before = runnable.filter(|at| Some(*at) <= running);
            self.point(before, stage(taken));
        }
        self.point(running, stage(Step::RunQueue));
    }

    /// The server's own time, and how its answer came to the socket.
    pub(super) fn answered(&mut self, record: &Record) {
        let handed = self.known.get(record, Stamp::Handed);
        let next = match self.udp {
            true => Stamp::Queued,
            false => Stamp::Sent,
        };
        let next = self.known.get(record, next);
        let within = handed.filter(|at| *at >= self.floor && next.is_none_or(|next| *at <= next));
        // An engine that sends each answer by a call of its own has no batch to hand over.
        self.at_once = within.is_none();
        self.point(within.or(next), Stage::APPLICATION);
    }
}
