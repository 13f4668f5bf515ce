//! The kernel's testimony of one sample on one side: probes and counters around the window.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::control::crew::{FlowKey, Side};
use crate::control::wire::{Offer, Refusal};
use crate::kernel::counters::Reading;
use crate::kernel::{FlowTag, ProbeRequest, Probes, Snapshot};
use crate::measure::journey::{Stamps, Sums, View};
use crate::plan::ProbeUse;
use crate::record::KernelReport;

use super::factory::name_of;
use super::stages::StageWitness;

/// Probes that follow a crew's flows.
pub(super) struct Witness {
    probes: Probes,
    stages: Option<StageWitness>,
    /// The programs' time is counted in the warm-up alone.
    warm: bool,
    before: Option<Reading>,
    intervals: Vec<Snapshot>,
    report: Option<KernelReport>,
}

impl Witness {
    /// Loads what the plan asks for; none where it asks for nothing. Without the privilege the
    /// sample goes on and the report says what is missing, unless the plan insists. `both` says
    /// that the other side is in this process too.
    pub(super) fn load(side: Side, offer: &Offer, both: bool) -> Result<Option<Witness>, Refusal> {
        let options = &offer.case.options;
        if options.probes == ProbeUse::Off {
            return Ok(None);
        }
        let insists = options.probes.wants_stages();
        let request = ProbeRequest {
            cost: true,
            without: options.probes_without.clone(),
            ..ProbeRequest::default()
        };
        let probes = Probes::load(request);
        let stages = insists.then(|| StageWitness::load(side, offer, both));
        let missing = |probes: &Probes| match probes.attached().is_empty() {
            true => probes.unavailable().first().cloned(),
            false => None,
        };
        let core = missing(&probes).or_else(|| stages.as_ref()?.with(|p| missing(p)));
        if let (true, Some(missing)) = (insists, core) {
            let side = name_of(side);
            let text = format!("--probes on, on the {side}: {}", missing.text);
            return Err(Refusal::new(5, "probes-unavailable", text));
        }
        Ok(Some(Witness {
            probes,
            stages,
            warm: false,
            before: None,
            intervals: Vec::new(),
            report: None,
        }))
    }

    /// The stamps that the workers are to read; none without stage probes or records.
    pub(super) fn stamps(&self) -> Option<(Arc<Stamps>, View)> {
        self.stages.as_ref()?.stamps()
    }

    /// Follows a flow's socket.
    pub(super) fn follow(&mut self, socket: BorrowedFd<'_>, key: FlowKey, worker: u32) {
        let tag = FlowTag {
            group: key.group,
            flow: key.flow,
        };
        if let Err(error) = self.probes.follow(socket, tag) {
            log::debug!("flow {} is not followed by the probes: {error}", key.flow);
        }
        if let Some(stages) = &self.stages {
            stages.follow(socket, key, worker);
        }
    }

    /// Follows a worker's thread.
    pub(super) fn follow_worker(&mut self, worker: u32, thread: Option<u32>) {
        let Some(thread) = thread else { return };
        if let Err(error) = self.probes.follow_thread(thread, worker) {
            log::debug!("worker {worker} is not followed: {error}");
        }
        if let Some(stages) = &self.stages {
            stages.follow_worker(worker, thread);
        }
    }

    /// Follows the connections that come and go on a port (crr).
    pub(super) fn follow_port(&mut self, port: u16) {
        if let Err(error) = self.probes.follow_port(port) {
            log::debug!("port {port} is not followed by the probes: {error}");
        }
        if let Some(stages) = &self.stages {
            stages.follow_port(port);
        }
    }

    /// Traffic begins; `at_once` says that its window does too, without a warm-up. Counting what
    /// the stage programs cost would add as much again, so it ends with the warm-up.
    pub(super) fn traffic(&mut self, at_once: bool) {
        self.warm = !at_once && self.stages.is_some();
        self.probes.meter_begin();
        if let Some(stages) = &self.stages {
            stages.meter_begin();
        }
    }

    fn meter_end(&mut self) {
        self.probes.meter_end();
        if let Some(stages) = &self.stages {
            stages.meter_end();
        }
    }

    /// The window begins.
    pub(super) fn begin(&mut self) {
        match self.warm {
            true => self.meter_end(),
            false => self.probes.meter_begin(),
        }
        self.take();
        self.intervals.clear();
        if let Some(stages) = &mut self.stages {
            stages.begin();
        }
        self.before = Some(Reading::of_this_host());
    }

    /// An interval of the window ended.
    pub(super) fn interval(&mut self) {
        if self.before.is_some() && self.report.is_none() {
            self.take();
        }
    }

    fn take(&mut self) {
        match self.probes.snapshot() {
            Ok(snapshot) => self.intervals.push(snapshot),
            Err(error) => log::debug!("the probes cannot be read now: {error}"),
        }
        if let Some(stages) = &mut self.stages {
            stages.take();
        }
    }

    /// The window ended.
    pub(super) fn end(&mut self) {
        let Some(before) = self.before.take() else {
            return;
        };
        self.meter_end();
        self.take();
        let counters = before.moved(&Reading::of_this_host());
        let mut report = self.probes.report(&self.intervals, counters);
        report.findings.extend(self.probes.unwatched());
        if let Some(stages) = &self.stages {
            report.findings.extend(stages.with(Probes::unwatched));
            stages.add_to(&mut report);
        }
        self.report = Some(report);
    }

    /// What was seen, with what the workers' transactions add up to since `start_ns`; none where
    /// the window never began.
    pub(super) fn report(self, journeys: &[Sums], start_ns: u64) -> Option<KernelReport> {
        let mut report = self.report?;
        if let Some(stages) = &self.stages {
            stages.add_journeys(&mut report, journeys, start_ns);
        }
        Some(report)
    }
}
