//! Where the time of each transaction went, from stamps that the kernel's programs leave in
//! memory that this process has too.
//!
//! A flow of request-response has one message under way. Each program writes when the newest
//! message passed it into the record of the flow's side. When a transaction has ended its worker
//! reads the records, so that the stages are those of the very transaction that was timed, and
//! they cannot but belong together. Nothing here allocates or writes what another thread reads,
//! but for one word a batch ([`Journeys::handed`], [`Journeys::answering`]).

mod chain;
mod fold;
mod report;
mod stage;
mod tail;

use std::sync::Arc;

use ringperf_ebpf::layout::{RECORD_WORDS, WORKER_HANDED, WORKER_WORDS, WORKERS_MAX};

use crate::sys::clock::monotonic_ns;
use crate::sys::shared::SharedWords;
pub use chain::Known;
use chain::{Chain, Record};
pub use fold::Sums;
pub use report::{JourneyReport, report};
use stage::{Stage, Step, Way};

/// What one worker sees of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum View {
    /// It asks, and both sides' stamps are in its memory.
    Whole,
    /// It asks; the other side is another process or host.
    Client,
    /// It answers; the other side is another process or host.
    Server,
    /// It answers, and the asking worker sees everything.
    Nothing,
}

impl View {
    /// Whether the stage can be seen from here.
    pub(super) fn has(self, stage: Stage) -> bool {
        match self {
            View::Whole => stage != Stage::ELSEWHERE,
            View::Client => stage.side() == "client" || stage == Stage::ELSEWHERE,
            View::Server => stage.side() == "server",
            View::Nothing => false,
        }
    }
}

/// The memory that the programs write.
#[derive(Debug)]
pub struct Stamps {
    /// Two records for each flow: the client's, then the server's.
    pub records: SharedWords,
    /// The workers: the client's, then from the middle on the server's.
    pub workers: SharedWords,
    /// The stamps that are written.
    pub known: Known,
}

/// Flows that have a record: following one costs a tenth of a busy worker's time, and a part of
/// many says as much.
const FOLLOWED: u64 = 16;

/// Whether a flow of so many is one of those followed: all of a few, else a part that is spread
/// evenly over them, and over the workers.
pub fn is_followed(flow: u32, flows: u32) -> bool {
    // The golden ratio's multiples fall evenly wherever they are cut.
    let spread = u64::from(flow.wrapping_mul(0x9e37_79b1));
    spread * u64::from(flows) < FOLLOWED << 32
}

/// Number of the record of a flow's side.
pub fn record_number(flow: u32, server: bool) -> u64 {
    u64::from(flow) * 2 + u64::from(server)
}

/// Number of a worker.
pub fn worker_number(worker: u32, server: bool) -> u32 {
    worker + if server { WORKERS_MAX / 2 } else { 0 }
}

impl Stamps {
    fn record(&self, flow: u32, server: bool) -> Record {
        let first = record_number(flow, server) as usize * RECORD_WORDS;
        std::array::from_fn(|word| self.records.load(first + word))
    }
}

/// The transactions of one worker.
#[derive(Debug)]
pub struct Journeys {
    stamps: Arc<Stamps>,
    view: View,
    udp: bool,
    /// Flows of the case.
    flows: u32,
    /// Each answer is sent by a call of its own.
    at_once: bool,
    /// Word of the worker's batches.
    slot: usize,
    sums: Sums,
    /// Of an answering worker, by its own number of the flow: the stamps of the request that is
    /// being answered.
    requests: Vec<Option<Record>>,
}

impl Journeys {
    /// For a worker with so many of the case's flows.
    pub fn new(
        stamps: Arc<Stamps>,
        view: View,
        udp: bool,
        worker: u32,
        (flows, of): (usize, u32),
    ) -> Journeys {
        let server = matches!(view, View::Server | View::Nothing);
        Journeys {
            slot: worker_number(worker, server) as usize * WORKER_WORDS + WORKER_HANDED,
            stamps,
            view,
            udp,
            flows: of,
            at_once: false,
            sums: Sums::new(),
            requests: vec![None; flows],
        }
    }

    /// For an engine that sends each answer by a call of its own, which is then its batch.
    #[must_use]
    pub fn sending_at_once(mut self, at_once: bool) -> Journeys {
        self.at_once = at_once;
        self
    }

    fn answers(&self) -> bool {
        matches!(self.view, View::Server | View::Nothing)
    }

    /// An answering worker gives a batch to its kernel.
    #[inline]
    pub fn handed(&self, now_ns: u64) {
        if self.answers() && !self.at_once {
            self.stamps.workers.store(self.slot, now_ns);
        }
    }

    /// An answering worker is about to send an answer, maybe within a batch.
    #[inline]
    pub fn answering(&self) {
        if self.answers() && self.at_once {
            self.stamps.workers.store(self.slot, monotonic_ns());
        }
    }

    /// A transaction that this worker asked for has ended.
    pub fn done(&mut self, flow: u32, start_ns: u64, now_ns: u64) {
        if !is_followed(flow, self.flows) {
            return;
        }
        let own = self.stamps.record(flow, false);
        let mut chain = Chain::new(self.stamps.known, self.udp, Some(start_ns), now_ns);
        chain.sent(&own, Way::Request);
        if self.view == View::Whole {
            let other = self.stamps.record(flow, true);
            chain.arrived(&other, Stage::of(Way::Request, Step::Wire));
            chain.received(&other, Way::Request);
            chain.answered(&other);
            chain.sent(&other, Way::Response);
            chain.arrived(&own, Stage::of(Way::Response, Step::Wire));
        } else {
            chain.arrived(&own, Stage::ELSEWHERE);
        }
        chain.received(&own, Way::Response);
        chain.point(Some(now_ns), Stage::COMPLETION);
        let total = now_ns.saturating_sub(start_ns);
        self.sums.add(flow, start_ns, total, chain.parts());
    }

    /// A request came to this worker, on its `f`-th flow: the answer before it is long gone.
    pub fn asked(&mut self, f: usize, flow: u32, now_ns: u64) {
        if self.view != View::Server || !is_followed(flow, self.flows) {
            return;
        }
        let record = self.stamps.record(flow, true);
        let Some(before) = self.requests.get_mut(f).and_then(|r| r.replace(record)) else {
            return;
        };
        let mut chain = Chain::new(self.stamps.known, self.udp, None, now_ns);
        let Some(start) = chain.begin(&before) else {
            return;
        };
        chain.received(&before, Way::Request);
        chain.answered(&record);
        chain.sent(&record, Way::Response);
        if let Some(end) = chain.last() {
            self.sums.add(flow, start, end - start, chain.parts());
        }
    }

    /// What the transactions add up to; none where this worker was to see nothing.
    pub fn into_sums(self) -> Option<Sums> {
        (self.view != View::Nothing).then_some(self.sums)
    }
}

#[cfg(test)]
mod tests;
