//! Makes crews: checks that this host can run what is offered, places and starts the workers.

use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::control::crew::{Crew, CrewFactory, Side};
use crate::control::wire::{Offer, Refusal};
use crate::host::cpus::Cpus;
use crate::host::placement;
use crate::measure::cpu::CpuMonitor;
use crate::record::Finding;
use crate::sys::limits;
use crate::worker::{WorkerHandle, WorkerPlan, spawn};

use super::crew::DataCrew;

/// Length of the idle baseline of the CPU figures.
const BASELINE: Duration = Duration::from_secs(1);

/// Descriptors that a process needs besides its flows: listeners, rings, control, files.
const SPARE_DESCRIPTORS: u64 = 64;

/// Makes the crews of one side in this process.
pub struct Factory {
    cpus: Vec<u32>,
    both_sides_here: bool,
    baseline: Option<JoinHandle<CpuMonitor>>,
    monitor: Option<CpuMonitor>,
    findings: Vec<Finding>,
}

impl Factory {
    /// A factory whose workers take `cpus` where an offer names none; empty takes the allowed
    /// ones. The idle baseline of the CPU figures is taken meanwhile.
    pub fn new(cpus: Vec<u32>, both_sides_here: bool, findings: Vec<Finding>) -> Factory {
        let baseline = std::thread::Builder::new()
            .name("baseline".into())
            .spawn(|| {
                let mut monitor = CpuMonitor::new(Path::new("/"));
                monitor.baseline();
                std::thread::sleep(BASELINE);
                monitor.baseline_end();
                monitor
            });
        Factory {
            cpus,
            both_sides_here,
            baseline: baseline.ok(),
            monitor: None,
            findings,
        }
    }

    fn monitor(&mut self) -> Option<CpuMonitor> {
        if let Some(baseline) = self.baseline.take() {
            self.monitor = baseline.join().ok();
        }
        self.monitor.clone()
    }
}

impl CrewFactory for Factory {
    fn build(&mut self, side: Side, offer: &Offer) -> Result<Box<dyn Crew>, Refusal> {
        let case = &offer.case;
        let workers = match side {
            Side::Client => case.workers,
            Side::Server => case.server_workers,
        };
        let workers = workers.clamp(1, case.flows.max(1));
        descriptors(offer, workers, self.both_sides_here)?;
        crate::uring::available()
            .map_err(|e| Refusal::new(5, "io-uring-unavailable", on(side, &e.to_string())))?;
        let wanted = if offer.cpus.is_empty() {
            &self.cpus
        } else {
            &offer.cpus
        };
        let cpus = Cpus::read(Path::new("/"));
        let placed = placement::choose(&cpus, wanted, workers, &offer.avoid_cpus)
            .map_err(|e| Refusal::new(e.exit_code(), e.code(), on(side, &e.to_string())))?;
        let mut findings = self.findings.clone();
        findings.extend(placed.findings);
        let handles = start(side, offer, workers, &placed.cpus)?;
        let mut monitor = self.monitor();
        if let Some(monitor) = &mut monitor {
            monitor.set_spinning(spins(side, offer));
        }
        Ok(Box::new(DataCrew::new(
            side,
            offer,
            handles,
            placed.cpus,
            monitor,
            findings,
        )))
    }
}

fn spins(side: Side, offer: &Offer) -> bool {
    let options = &offer.case.options;
    let wait = match side {
        Side::Client => options.client_wait,
        Side::Server => options.server_wait,
    };
    wait == crate::plan::Wait::Spin
}

fn on(side: Side, text: &str) -> String {
    match side {
        Side::Client => format!("on the client: {text}"),
        Side::Server => format!("on the server: {text}"),
    }
}

fn start(
    side: Side,
    offer: &Offer,
    workers: u32,
    cpus: &[u32],
) -> Result<Vec<WorkerHandle>, Refusal> {
    let worker = |index: u32| {
        spawn(WorkerPlan {
            index,
            workers,
            cpu: cpus.get(index as usize).copied(),
            client: side == Side::Client,
            case: offer.case.clone(),
            session: offer.cookie as u32,
        })
    };
    (0..workers)
        .map(worker)
        .collect::<Result<_, _>>()
        .map_err(|error| {
            let text = on(side, &format!("a worker thread cannot be started: {error}"));
            Refusal::new(5, "thread-limit", text)
        })
}

/// Refuses before any traffic what would run out of descriptors in the middle.
fn descriptors(offer: &Offer, workers: u32, both_sides: bool) -> Result<(), Refusal> {
    let case = &offer.case;
    let sides = if both_sides { 2 } else { 1 };
    let flows = u64::from(case.total_flows()) * sides;
    let need = flows + u64::from(workers) * 8 * sides + SPARE_DESCRIPTORS;
    let limit = limits::raise_open_files()
        .ok()
        .and_then(|limit| limit.soft)
        .unwrap_or(u64::MAX);
    if need <= limit {
        return Ok(());
    }
    let more = if both_sides {
        "run client and server in two processes, or "
    } else {
        ""
    };
    let text = format!(
        "case `{}` needs {need} file descriptors and the limit is {limit}: {more}raise it with \
         `ulimit -n {need}` or LimitNOFILE=",
        case.name
    );
    Err(Refusal::new(5, "descriptor-limit", text))
}
