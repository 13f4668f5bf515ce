//! Makes crews: checks that this host can run what is offered, places and starts the workers.

use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::control::crew::{Crew, CrewFactory, Side};
use crate::control::wire::{Offer, Refusal};
use crate::host::cpus::Cpus;
use crate::host::placement;
use crate::measure::cpu::CpuMonitor;
use crate::plan::{Case, Engine, MAX_UDP_BYTES, Proto};
use crate::record::{Finding, Severity};
use crate::sys::{affinity, limits};
use crate::worker::{EngineKind, WorkerHandle, WorkerPlan, spawn};

use super::crew::DataCrew;
use super::engine;
use super::witness::Witness;

/// Length of the idle baseline of the CPU figures.
const BASELINE: Duration = Duration::from_secs(1);

/// Descriptors that a process needs besides its flows: listeners, rings, control, files.
const SPARE_DESCRIPTORS: u64 = 64;

/// Makes the crews of one side in this process.
pub struct Factory {
    cpus: Vec<u32>,
    /// CPUs of the other side's workers, where both sides are in this process.
    other_side: Option<Vec<u32>>,
    baseline: Option<JoinHandle<CpuMonitor>>,
    monitor: Option<CpuMonitor>,
    findings: Vec<Finding>,
}

impl Factory {
    /// A factory whose workers take `cpus` where an offer names none; empty takes the allowed
    /// ones. `other_side` are the other side's CPUs where it is in this process. The idle
    /// baseline of the CPU figures is taken meanwhile.
    pub fn new(cpus: Vec<u32>, other_side: Option<Vec<u32>>, findings: Vec<Finding>) -> Factory {
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
            other_side,
            baseline: baseline.ok(),
            monitor: None,
            findings,
        }
    }

    /// Keeps this thread, which is the control plane's, away from CPUs on which workers spin.
    /// True where there is no other CPU, so that the workers must let it run now and then.
    fn keep_clear(
        &self,
        side: Side,
        offer: &Offer,
        allowed: &[u32],
        own: &[u32],
        findings: &mut Vec<Finding>,
    ) -> bool {
        let taken = |cpu: &u32| {
            let other = self.other_side.as_deref().unwrap_or(&offer.avoid_cpus);
            own.contains(cpu) || other.contains(cpu)
        };
        let both = [Side::Client, Side::Server];
        let spinning = match self.other_side {
            Some(_) => both.into_iter().any(|side| spins(side, offer)),
            None => spins(side, offer),
        };
        let free: Vec<u32> = allowed.iter().copied().filter(|cpu| !taken(cpu)).collect();
        let clear = if free.is_empty() || !spinning {
            allowed
        } else {
            &free
        };
        if let Err(error) = affinity::restrict_thread(clear) {
            log::debug!("the control thread cannot be moved: {error}");
        }
        let yields = spinning && free.is_empty();
        if yields {
            let text = "workers spin on every CPU that there is: they yield to the control \
                        thread, which disturbs them; leave it a CPU with --cpus";
            findings.push(Finding::new(Severity::Warning, "spin-shares-cpu", text));
        }
        yields
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
        datagrams_fit(case)?;
        descriptors(side, offer, workers, self.other_side.is_some())?;
        let chosen = engine::choose(side, case)?;
        zerocopy_fits(side, case, chosen.kind)?;
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
        findings.extend(chosen.finding);
        let yields = self.keep_clear(side, offer, &cpus.allowed, &placed.cpus, &mut findings);
        let how = (chosen.kind, yields);
        let handles = start(side, offer, workers, &placed.cpus, how)?;
        let mut monitor = self.monitor();
        if let Some(monitor) = &mut monitor {
            monitor.set_spinning(spins(side, offer));
        }
        let witness = Witness::load(side, offer, self.other_side.is_some())?;
        let crew = DataCrew::new(
            side,
            offer,
            (handles, placed.cpus),
            chosen.reason,
            monitor,
            findings,
        );
        Ok(Box::new(crew.with_witness(witness)))
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

pub(super) fn name_of(side: Side) -> &'static str {
    match side {
        Side::Client => "client",
        Side::Server => "server",
    }
}

pub(super) fn on(side: Side, text: &str) -> String {
    format!("on the {}: {text}", name_of(side))
}

fn start(
    side: Side,
    offer: &Offer,
    workers: u32,
    cpus: &[u32],
    (engine, yields): (EngineKind, bool),
) -> Result<Vec<WorkerHandle>, Refusal> {
    let worker = |index: u32| {
        spawn(WorkerPlan {
            index,
            workers,
            cpu: cpus.get(index as usize).copied(),
            client: side == Side::Client,
            engine,
            yields,
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

/// Refuses what no send operation holds: the offer may come from a program that checks less.
fn datagrams_fit(case: &Case) -> Result<(), Refusal> {
    let segments = u64::from(case.options.gso.unwrap_or(1));
    let largest = case.request_bytes.max(case.response_bytes);
    if case.proto == Proto::Tcp || largest.saturating_mul(segments) <= MAX_UDP_BYTES {
        return Ok(());
    }
    let text = format!(
        "case `{}`: one UDP send holds at most {MAX_UDP_BYTES} bytes, and {segments} datagrams of \
         {largest} are more: a smaller --size or --gso",
        case.name
    );
    Err(Refusal::new(2, "datagram-too-large", text))
}

/// Refuses a way to send without copies that the side's engine does not have: the offer may come
/// from a program that checks less.
fn zerocopy_fits(side: Side, case: &Case, engine: EngineKind) -> Result<(), Refusal> {
    let Some(how) = case.zerocopy_of(side == Side::Client) else {
        return Ok(());
    };
    let needed = how.engine();
    let have = match engine {
        EngineKind::IoUring => Engine::IoUring,
        EngineKind::Sockets => Engine::Sockets,
    };
    if have == needed {
        return Ok(());
    }
    let text = format!(
        "case `{}`: --zerocopy {how} needs --engine {needed}, and the engine is {have}",
        case.name
    );
    Err(Refusal::new(2, "zerocopy-engine", on(side, &text)))
}

/// Refuses before any traffic what would run out of descriptors in the middle.
fn descriptors(side: Side, offer: &Offer, workers: u32, both_sides: bool) -> Result<(), Refusal> {
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
    Err(Refusal::new(5, "descriptor-limit", on(side, &text)))
}
