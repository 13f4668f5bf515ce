//! The workers of one side for one sample, as the control shells see them.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use crate::control::crew::{Crew, CrewEvent, FLOW_FAILED, FlowKey, Side};
use crate::control::wire::{Offer, Refusal};
use crate::measure::cpu::CpuMonitor;
use crate::measure::netstat::NetCounters;
use crate::plan::Test;
use crate::record::{Finding, Severity, SideReport};
use crate::sys::clock::monotonic_ns;
use crate::worker::{Adopted, Command, Note, WorkerHandle};

use super::collect::Collector;
use super::factory::on;
use super::options;
use super::side::{self, Ending};
use super::witness::Witness;

/// A crew is polled every few hundredths of a second. Where that took so long, nanoseconds, its
/// whole process was held up, or its CPUs were taken.
const HELD_UP_NS: u64 = 200_000_000;

/// Where the crew is in its sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Gathering,
    Arming(usize),
    Armed,
    Running,
    Stopping,
    Stopped,
}

/// A side's workers.
pub(super) struct DataCrew {
    side: Side,
    offer: Offer,
    workers: Vec<WorkerHandle>,
    cpus: Vec<u32>,
    engine_reason: String,
    collector: Collector,
    stage: Stage,
    start_ns: u64,
    window_done: bool,
    cpu: Option<CpuMonitor>,
    cpu_began: bool,
    cpu_report: Option<crate::record::CpuReport>,
    net_before: Option<NetCounters>,
    findings: Vec<Finding>,
    failed: bool,
    witness: Option<Witness>,
    pulse: Pulse,
}

/// When the crew was polled, and how long it was not.
#[derive(Default)]
struct Pulse {
    last_ns: Option<u64>,
    times: u64,
    longest_ns: u64,
    at_ns: u64,
}

impl Pulse {
    /// The crew is looked at now.
    fn begins(&mut self, now_ns: u64) {
        let gap = self.last_ns.map_or(0, |last| now_ns.saturating_sub(last));
        if gap >= HELD_UP_NS {
            self.times += 1;
            if gap > self.longest_ns {
                (self.longest_ns, self.at_ns) = (gap, now_ns - gap);
            }
        }
    }

    /// It has been looked at; what that took is no gap.
    fn ends(&mut self, now_ns: u64) {
        self.last_ns = Some(now_ns);
    }

    fn finding(&self, side: &str, t0_ns: u64) -> Option<Finding> {
        let longest = self.longest_ns as f64 / 1e9;
        let at = (self.at_ns as f64 - t0_ns as f64) / 1e9;
        let text = format!(
            "the {side}'s process did not run for {longest:.2} s, from {at:.1} s of its window \
             on ({} such gaps in the sample): it was stopped, or its CPUs were taken",
            self.times
        );
        (self.times > 0).then(|| Finding::new(Severity::Warning, "process-stalled", text))
    }
}

impl DataCrew {
    pub(super) fn new(
        side: Side,
        offer: &Offer,
        (workers, cpus): (Vec<WorkerHandle>, Vec<u32>),
        engine_reason: String,
        cpu: Option<CpuMonitor>,
        findings: Vec<Finding>,
    ) -> DataCrew {
        DataCrew {
            collector: Collector::new(workers.len(), &offer.case),
            side,
            offer: offer.clone(),
            workers,
            cpus,
            engine_reason,
            stage: Stage::Gathering,
            start_ns: 0,
            window_done: false,
            cpu,
            cpu_began: false,
            cpu_report: None,
            net_before: None,
            findings,
            failed: false,
            witness: None,
            pulse: Pulse::default(),
        }
    }

    /// Has the kernel watched too.
    pub(super) fn with_witness(mut self, witness: Option<Witness>) -> DataCrew {
        self.witness = witness;
        self
    }

    fn order(&self, worker: usize, command: Command) -> Result<(), Refusal> {
        self.workers[worker].commands.send(command).map_err(|_| {
            Refusal::new(
                5,
                "worker-gone",
                format!("worker {worker} ended before its sample"),
            )
        })
    }

    fn hear(&mut self, events: &mut Vec<CrewEvent>) {
        for worker in 0..self.workers.len() {
            while let Ok(note) = self.workers[worker].notes.try_recv() {
                match note {
                    Note::Armed => self.one_armed(events),
                    Note::Refused(exit, code, text) => {
                        let text = on(self.side, &text);
                        self.failed = true;
                        events.push(CrewEvent::Failed(Refusal::new(exit, &code, text)));
                    }
                    Note::Failed(failure) => {
                        self.failed = true;
                        let cause = match failure.errno {
                            0 => String::new(),
                            errno => format!(": {}", std::io::Error::from_raw_os_error(errno)),
                        };
                        let text = format!(
                            "flow {} of group {} on the {}: {}{cause}",
                            failure.flow,
                            failure.group,
                            self.side_name(),
                            failure.text
                        );
                        events.push(CrewEvent::Failed(Refusal::new(4, FLOW_FAILED, text)));
                    }
                    Note::Stranger(socket, from) => events.push(CrewEvent::Stranger(socket, from)),
                }
            }
        }
    }

    /// Sets the case's options on a socket, and keeps what is to be said about it.
    fn furnish(&mut self, socket: &OwnedFd) -> Result<(), Refusal> {
        for note in options::apply(socket, &self.offer.case, self.side)? {
            if !self.findings.contains(&note) {
                self.findings.push(note);
            }
        }
        Ok(())
    }

    fn side_name(&self) -> &'static str {
        match self.side {
            Side::Client => "client",
            Side::Server => "server",
        }
    }

    fn one_armed(&mut self, events: &mut Vec<CrewEvent>) {
        if let Stage::Arming(missing) = self.stage {
            self.stage = if missing > 1 {
                Stage::Arming(missing - 1)
            } else {
                Stage::Armed
            };
            if self.stage == Stage::Armed {
                events.push(CrewEvent::Armed);
            }
        }
    }

    /// Follows this side's own marks.
    fn watch_window(&mut self, events: &mut Vec<CrewEvent>) {
        if self.stage != Stage::Running {
            return;
        }
        let now = monotonic_ns();
        let t0 = self.start_ns + self.offer.case.warmup_ns;
        if !self.cpu_began && now >= t0 {
            self.begin_cpu();
        }
        let over = match self.offer.case.duration_ns() {
            Some(duration) => now >= t0 + duration,
            None => self.workers.iter().all(|w| w.signals.limit_reached()),
        };
        if over && !self.window_done {
            self.end_window();
            events.push(CrewEvent::WindowDone);
        }
        if self.workers.iter().all(WorkerHandle::is_finished) {
            // An engine that failed ends its worker; the report says of what.
            self.end_window();
            self.stage = Stage::Stopped;
            let text = format!("the {}'s workers ended early", self.side_name());
            events.push(CrewEvent::Failed(Refusal::new(4, "worker-failed", text)));
        }
    }

    fn begin_cpu(&mut self) {
        self.cpu_began = true;
        if let Some(witness) = &mut self.witness {
            witness.begin();
        }
        if let Some(cpu) = &mut self.cpu {
            cpu.begin();
        }
    }

    fn end_window(&mut self) {
        if self.window_done {
            return;
        }
        self.window_done = true;
        if let Some(witness) = &mut self.witness {
            witness.end();
        }
        if let (true, Some(cpu)) = (self.cpu_began, &mut self.cpu) {
            self.cpu_report = Some(cpu.end());
        }
    }
}

impl Crew for DataCrew {
    fn cpus(&self) -> Vec<u32> {
        self.cpus.clone()
    }

    fn adopt(&mut self, key: FlowKey, socket: OwnedFd) -> Result<(), Refusal> {
        self.furnish(&socket)?;
        if let Some(witness) = &mut self.witness {
            let worker = key.flow % self.workers.len() as u32;
            witness.follow(socket.as_fd(), key, worker);
        }
        let worker = key.flow as usize % self.workers.len();
        let flow = Adopted {
            group: key.group,
            flow: key.flow,
            socket,
        };
        self.order(worker, Command::Adopt(flow))
    }

    fn adopt_listener(&mut self, socket: OwnedFd, peer: IpAddr) -> Result<(), Refusal> {
        for worker in 0..self.workers.len() {
            let own = socket.try_clone().map_err(|error| {
                let text = format!("the listener cannot be shared with a worker: {error}");
                Refusal::new(5, "descriptor-limit", text)
            })?;
            self.order(worker, Command::Listener(own, peer))?;
        }
        Ok(())
    }

    fn target(&mut self, server: SocketAddr) {
        if let Some(witness) = &mut self.witness {
            witness.follow_port(server.port());
        }
        for worker in 0..self.workers.len() {
            if let Err(refusal) = self.order(worker, Command::Target(server)) {
                log::debug!("{refusal}");
            }
        }
    }

    fn arm(&mut self) -> Result<(), Refusal> {
        if self.offer.case.test == Test::Crr {
            // Connections that are made while traffic runs have no time for a refusal.
            let trial = options::trial()?;
            self.furnish(&trial)?;
        }
        self.stage = Stage::Arming(self.workers.len());
        if let Some((stamps, view)) = self.witness.as_ref().and_then(Witness::stamps) {
            for worker in 0..self.workers.len() {
                self.order(worker, Command::Stamps(Arc::clone(&stamps), view))?;
            }
        }
        (0..self.workers.len()).try_for_each(|worker| self.order(worker, Command::Arm))
    }

    fn start(&mut self) {
        if let Some(witness) = &mut self.witness {
            for (index, worker) in self.workers.iter().enumerate() {
                witness.follow_worker(index as u32, worker.signals.thread());
            }
            witness.traffic(self.offer.case.warmup_ns == 0);
        }
        self.net_before = NetCounters::read("/".as_ref()).ok();
        self.start_ns = monotonic_ns();
        self.stage = Stage::Running;
        if self.offer.case.warmup_ns == 0 {
            self.begin_cpu();
        }
        for worker in &self.workers {
            worker.signals.start(self.start_ns);
        }
    }

    fn poll(&mut self) -> Vec<CrewEvent> {
        let mut events = Vec::new();
        if self.stage == Stage::Running && !self.window_done {
            self.pulse.begins(monotonic_ns());
        }
        self.hear(&mut events);
        for (index, worker) in self.workers.iter_mut().enumerate() {
            self.collector.drain(index, &mut worker.batches);
        }
        let news = self.collector.progress();
        if let (true, Some(witness)) = (news.iter().any(|n| n.index >= 0), &mut self.witness) {
            witness.interval();
        }
        events.extend(news.into_iter().map(CrewEvent::Progress));
        self.watch_window(&mut events);
        if self.stage == Stage::Stopping && self.workers.iter().all(WorkerHandle::is_finished) {
            self.stage = Stage::Stopped;
            events.push(CrewEvent::Stopped);
        }
        if self.stage == Stage::Running {
            self.pulse.ends(monotonic_ns());
        }
        events
    }

    fn stop(&mut self) {
        self.end_window();
        if matches!(self.stage, Stage::Stopping | Stage::Stopped) {
            return;
        }
        self.stage = Stage::Stopping;
        for worker in &self.workers {
            worker.signals.stop();
        }
    }

    fn finish(mut self: Box<Self>) -> SideReport {
        self.end_window();
        if !matches!(self.stage, Stage::Stopping | Stage::Stopped) {
            self.workers
                .iter()
                .for_each(|worker| worker.signals.abort());
        }
        let (mut outcomes, mut journeys) = (Vec::new(), Vec::new());
        for (index, worker) in std::mem::take(&mut self.workers).into_iter().enumerate() {
            let (outcome, mut batches) = worker.join();
            self.collector.drain(index, &mut batches);
            match outcome {
                Some(mut outcome) => {
                    journeys.extend(outcome.journeys.take());
                    self.collector.add(index, &outcome.remains.rest);
                    outcomes.push(outcome);
                }
                // It ran and left nothing: a fault of this program, never of the traffic.
                None if self.start_ns > 0 => {
                    let side = self.side_name();
                    let text =
                        format!("worker {index} of the {side} broke down: its counts are lost");
                    self.findings
                        .push(Finding::new(Severity::Error, "worker-lost", text));
                    self.failed = true;
                }
                None => {}
            }
        }
        let t0_ns = self.start_ns + self.offer.case.warmup_ns;
        self.findings
            .extend(self.pulse.finding(self.side_name(), t0_ns));
        let net = match (NetCounters::read("/".as_ref()), &self.net_before) {
            (Ok(after), Some(before)) => Some(after.since(before)),
            _ => None,
        };
        side::report(Ending {
            case: &self.offer.case,
            start_ns: self.start_ns,
            outcomes,
            engine_reason: std::mem::take(&mut self.engine_reason),
            histograms: &self.collector.histograms,
            cpu: self.cpu_report.take(),
            net,
            findings: std::mem::take(&mut self.findings),
            failed: self.failed,
            kernel: (self.witness.take()).and_then(|w| w.report(&journeys, self.start_ns)),
            client: self.side == Side::Client,
        })
    }
}

impl Drop for DataCrew {
    /// Ends workers that nobody waits for any more, when the session itself is gone.
    fn drop(&mut self) {
        self.workers
            .iter()
            .for_each(|worker| worker.signals.abort());
    }
}
