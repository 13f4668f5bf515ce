//! The stage programs of one side. Where both sides are in this process they share one set, so
//! that each event costs once and a transaction's stamps lie in one memory.

use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::control::crew::{FlowKey, Side};
use crate::control::wire::Offer;
use crate::kernel::{Place, ProbeRequest, ProbeSet, Probes, Snapshot};
use crate::measure::journey::{self, Known, Stamps, Sums, View};
use crate::plan::{Case, Proto, Traffic};
use crate::record::KernelReport;

/// A set of programs with its mapped memory.
struct Set {
    probes: Mutex<Probes>,
    stamps: Option<Arc<Stamps>>,
}

/// The set that both sides of the sample share: case, sample, and the set while it is in use.
static SHARED: Mutex<Option<(u32, u32, Weak<Set>)>> = Mutex::new(None);

/// One side's part in the stage programs.
pub(super) struct StageWitness {
    set: Arc<Set>,
    view: View,
    server: bool,
    udp: bool,
    flows: u32,
    last: Snapshot,
    intervals: Vec<Snapshot>,
}

impl StageWitness {
    /// Loads the programs, or takes part in those that the other side has loaded.
    pub(super) fn load(side: Side, offer: &Offer, both: bool) -> StageWitness {
        let server = side == Side::Server;
        let set = match both {
            true => shared(offer),
            false => Arc::new(Set::load(&offer.case)),
        };
        let view = match (both, server) {
            (true, false) => View::Whole,
            (true, true) => View::Nothing,
            (false, false) => View::Client,
            (false, true) => View::Server,
        };
        StageWitness {
            set,
            view,
            server,
            udp: offer.case.proto == Proto::Udp,
            flows: offer.case.flows,
            last: Snapshot::default(),
            intervals: Vec::new(),
        }
    }

    fn probes(&self) -> MutexGuard<'_, Probes> {
        self.set.probes()
    }

    /// Looks at the programs.
    pub(super) fn with<T>(&self, look: impl FnOnce(&Probes) -> T) -> T {
        look(&self.probes())
    }

    pub(super) fn stamps(&self) -> Option<(Arc<Stamps>, View)> {
        let stamps = self.set.stamps.as_ref()?;
        Some((Arc::clone(stamps), self.view))
    }

    pub(super) fn follow(&self, socket: BorrowedFd<'_>, key: FlowKey, worker: u32) {
        let recorded = self.set.stamps.is_some();
        if recorded && !journey::is_followed(key.flow, self.flows) {
            return;
        }
        let record = journey::record_number(key.flow, self.server);
        let place = Place {
            record: recorded.then_some(record),
            worker: journey::worker_number(worker, self.server),
        };
        if let Err(error) = self.probes().place(socket, place) {
            log::debug!("flow {} has no stages: {error}", key.flow);
        }
    }

    pub(super) fn follow_worker(&self, worker: u32, thread: u32) {
        let number = journey::worker_number(worker, self.server);
        match self.probes().follow_thread(thread, number) {
            Ok(true) => {}
            Ok(false) => log::info!("worker {worker}: another thread has its place: no run queue"),
            Err(error) => log::debug!("worker {worker} is not followed: {error}"),
        }
    }

    pub(super) fn follow_port(&self, port: u16) {
        if let Err(error) = self.probes().follow_port(port) {
            log::debug!("port {port} has no stages: {error}");
        }
    }

    pub(super) fn meter_begin(&self) {
        self.probes().meter_begin();
    }

    pub(super) fn meter_end(&self) {
        self.probes().meter_end();
    }

    pub(super) fn begin(&mut self) {
        self.take();
        self.intervals.clear();
    }

    /// What was counted since the last time.
    pub(super) fn take(&mut self) {
        match self.with(Probes::read) {
            Ok(now) => {
                self.intervals.push(now.since(&self.last));
                self.last = now;
            }
            Err(error) => log::debug!("the stage probes cannot be read now: {error}"),
        }
    }

    pub(super) fn add_to(&self, report: &mut KernelReport) {
        self.with(|probes| probes.add_stages(report, &self.intervals, self.server));
    }

    pub(super) fn add_journeys(&self, report: &mut KernelReport, all: &[Sums], start_ns: u64) {
        let Some((first, rest)) = all.split_first() else {
            return;
        };
        let mut sums = first.clone();
        rest.iter().for_each(|more| sums.merge(more));
        let mut journeys = journey::report(&sums, self.view, self.udp, start_ns);
        let followed = (0..self.flows).filter(|flow| journey::is_followed(*flow, self.flows));
        journeys.total.flows = followed.count() as u64;
        report.stages.extend(journeys.stages);
        report.budget = journeys.budget;
        report.budget_total = Some(journeys.total);
        report.tail = journeys.tail;
        report.slow = journeys.slow;
    }
}

impl Set {
    fn load(case: &Case) -> Set {
        let probes = Probes::load(ProbeRequest {
            set: ProbeSet::Stages {
                records: records(case),
            },
            cost: true,
            without: case.options.probes_without.clone(),
        });
        let stamped = probes.stamps().unwrap_or_else(|error| {
            log::info!("no budget: {error}");
            None
        });
        Set {
            probes: Mutex::new(probes),
            stamps: stamped.map(|stamped| {
                Arc::new(Stamps {
                    records: stamped.records,
                    workers: stamped.workers,
                    known: Known::of(stamped.known),
                })
            }),
        }
    }

    fn probes(&self) -> MutexGuard<'_, Probes> {
        self.probes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The set of this sample: whoever comes first loads it.
fn shared(offer: &Offer) -> Arc<Set> {
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((case, sample, set)) = &*shared
        && (*case, *sample) == (offer.case_index, offer.sample)
        && let Some(set) = set.upgrade()
    {
        return set;
    }
    let set = Arc::new(Set::load(&offer.case));
    *shared = Some((offer.case_index, offer.sample, Arc::downgrade(&set)));
    set
}

/// Records: two for each flow of request-response with one message under way, else none, since
/// the newest message's stamps would be those of any.
fn records(case: &Case) -> u32 {
    let single = case.depth.unwrap_or(1) == 1;
    let rr = case
        .groups
        .first()
        .is_some_and(|g| g.traffic == Traffic::Rr);
    if single && rr { case.flows * 2 } else { 0 }
}
