//! A worker's thread: spawn, pin, be given flows, run, leave.

use std::collections::{BinaryHeap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use nix::unistd::gettid;

use crate::backend::Backend;
use crate::measure::journey::{Journeys, Stamps, View};
use crate::measure::recorder::{BatchReader, Recorder, RecorderPlan};
use crate::plan::{Case, Limit, Load, Proto, Traffic};
use crate::sockets::Sockets;
use crate::sys::{address, affinity, rusage};
use crate::traffic::budget::Budget;
use crate::traffic::schedule::Schedule;
use crate::traffic::tag::Tag;
use crate::traffic::transactions::Outstanding;
use crate::traffic::udp::{HEADER_BYTES, Jitter, Tracker};
use crate::uring::Ring;

use super::cycle::{BufferUse, Clock, Echo, Span, Stage, Tally, Worker};
use super::flow::{Flow, Role};
use super::outcome::{TransactionTotals, WorkerOutcome};
use super::policy::{Choices, pattern};
use super::signals::Signals;

/// What drives a worker's sockets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EngineKind {
    /// One io_uring.
    IoUring,
    /// Plain system calls and epoll.
    Sockets,
}

/// What a worker has to know when it is made.
#[derive(Clone, Debug)]
pub struct WorkerPlan {
    /// Number on this side.
    pub index: u32,
    /// Workers on this side.
    pub workers: u32,
    /// CPU to run on.
    pub cpu: Option<u32>,
    /// This side is the client.
    pub client: bool,
    /// A worker that spins lets other threads of its CPU run now and then.
    pub yields: bool,
    /// The engine.
    pub engine: EngineKind,
    /// The case.
    pub case: Case,
    /// What UDP headers carry.
    pub session: u32,
}

/// A flow for a worker.
#[derive(Debug)]
pub struct Adopted {
    /// Group of traffic.
    pub group: u32,
    /// Number within the group.
    pub flow: u32,
    /// Its connected socket.
    pub socket: OwnedFd,
}

/// What a worker that waits may be told.
#[derive(Debug)]
pub enum Command {
    /// Another flow.
    Adopt(Adopted),
    /// A listener whose connections from the address are transactions.
    Listener(OwnedFd, IpAddr),
    /// Where to connect.
    Target(SocketAddr),
    /// The stamps of the kernel's programs, and what of them this worker is to read.
    Stamps(Arc<Stamps>, View),
    /// No more flows come: get ready.
    Arm,
}

/// A flow that failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// Group of traffic.
    pub group: u32,
    /// Number within the group.
    pub flow: u32,
    /// Error number, 0 where there is none.
    pub errno: i32,
    /// What happened.
    pub text: String,
}

/// What a worker says, seldom.
#[derive(Debug)]
pub enum Note {
    /// Ready for the start.
    Armed,
    /// The worker cannot run: exit code, stable code, text.
    Refused(u8, String, String),
    /// A flow failed and the sample cannot go on.
    Failed(Failure),
    /// A connection that is not the session's.
    Stranger(OwnedFd, SocketAddr),
}

/// The control thread's hold on a worker.
#[derive(Debug)]
pub struct WorkerHandle {
    /// Commands, until it is armed.
    pub commands: Sender<Command>,
    /// What it says.
    pub notes: Receiver<Note>,
    /// Start and stop.
    pub signals: Arc<Signals>,
    /// Its interval batches.
    pub batches: BatchReader,
    thread: JoinHandle<Option<WorkerOutcome>>,
}

impl WorkerHandle {
    /// Whether the thread has ended.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for the thread's end. None where it never ran traffic.
    pub fn join(self) -> (Option<WorkerOutcome>, BatchReader) {
        drop(self.commands);
        self.signals.stop();
        (self.thread.join().unwrap_or(None), self.batches)
    }
}

/// Starts a worker, waiting for its flows.
pub fn spawn(plan: WorkerPlan) -> std::io::Result<WorkerHandle> {
    let (signals, woken) = Signals::new()?;
    let signals = Arc::new(signals);
    let (commands, orders) = channel();
    let (says, notes) = channel();
    let (recorder, batches) = Recorder::new(recorder_plan(&plan));
    let own = Arc::clone(&signals);
    let thread = std::thread::Builder::new()
        .name(format!("worker-{}", plan.index))
        .spawn(move || live(&plan, recorder, &orders, own, woken, &says))?;
    Ok(WorkerHandle {
        commands,
        notes,
        signals,
        batches,
        thread,
    })
}

pub(super) fn recorder_plan(plan: &WorkerPlan) -> RecorderPlan {
    let case = &plan.case;
    let roles = || {
        case.groups
            .iter()
            .map(|g| Role::of(case.proto, g, plan.client))
    };
    RecorderPlan {
        groups: case.groups.len(),
        warmup_ns: case.warmup_ns,
        duration_ns: case.duration_ns(),
        interval_ns: case.interval_ns,
        latency: roles().any(Role::asks),
        connect: roles().any(|r| r == Role::Connect),
        lag: case.load != Load::Closed && roles().any(Role::paced),
    }
}

/// What a worker has been given.
#[derive(Default)]
pub(super) struct Belongings {
    pub(super) flows: Vec<Adopted>,
    pub(super) listener: Option<(OwnedFd, IpAddr)>,
    pub(super) target: Option<SocketAddr>,
    pub(super) stamps: Option<(Arc<Stamps>, View)>,
}

fn live(
    plan: &WorkerPlan,
    recorder: Recorder,
    orders: &Receiver<Command>,
    signals: Arc<Signals>,
    woken: OwnedFd,
    says: &Sender<Note>,
) -> Option<WorkerOutcome> {
    if let Some(cpu) = plan.cpu
        && let Err(error) = affinity::pin_thread(cpu)
    {
        let text = format!("worker {} cannot run on CPU {cpu}: {error}", plan.index);
        let _ = says.send(Note::Refused(5, "cpu-not-allowed".into(), text));
        return None;
    }
    signals.set_thread(u32::try_from(gettid().as_raw()).unwrap_or(0));
    let mut belongings = Belongings::default();
    loop {
        match orders.recv() {
            Ok(Command::Adopt(flow)) => belongings.flows.push(flow),
            Ok(Command::Listener(socket, peer)) => belongings.listener = Some((socket, peer)),
            Ok(Command::Target(target)) => belongings.target = Some(target),
            Ok(Command::Stamps(stamps, view)) => belongings.stamps = Some((stamps, view)),
            Ok(Command::Arm) => break,
            Err(_) => return None,
        }
    }
    let flows = flows_of(plan, &belongings);
    let roles: Vec<Role> = flows.iter().map(|f| f.role).collect();
    let mut choices = Choices::of(&plan.case, plan.client, &roles);
    if plan.engine == EngineKind::Sockets {
        // Plain calls cannot wait for a batch.
        choices.min_wait_us = None;
    }
    let setup = choices.setup(&plan.case, flows.len() as u32);
    let refused = |code: &str, text: String| {
        let _ = says.send(Note::Refused(5, code.into(), text));
    };
    match plan.engine {
        EngineKind::IoUring => match Ring::new(&setup) {
            Ok(ring) => {
                let worker = assemble(plan, recorder, signals, says, ring, choices, flows);
                work(plan, worker, belongings, woken)
            }
            Err(error) => {
                refused(error.code(), error.to_string());
                None
            }
        },
        EngineKind::Sockets => match Sockets::new(&setup) {
            Ok(sockets) => {
                let worker = assemble(plan, recorder, signals, says, sockets, choices, flows);
                work(plan, worker, belongings, woken)
            }
            Err(error) => {
                refused(
                    "epoll-unavailable",
                    format!("epoll cannot be used: {error}"),
                );
                None
            }
        },
    }
}

/// A worker's sample, from its set-up to its end.
pub(super) fn work<B: Backend>(
    plan: &WorkerPlan,
    mut worker: Worker<B>,
    mut belongings: Belongings,
    woken: OwnedFd,
) -> Option<WorkerOutcome> {
    let udp = plan.case.proto == Proto::Udp;
    let flows = (worker.flows.len(), plan.case.flows);
    let stamps = belongings.stamps.take();
    let at_once = plan.engine == EngineKind::Sockets && !udp;
    worker.journeys = stamps.map(|(stamps, view)| {
        Journeys::new(stamps, view, udp, plan.index, flows).sending_at_once(at_once)
    });
    if let Err(error) = worker.settle(belongings, woken) {
        let text = format!(
            "worker {}: sockets could not be set up: {error}",
            plan.index
        );
        let _ = worker
            .notes
            .send(Note::Refused(5, "worker-set-up".into(), text));
        return None;
    }
    let _ = worker.notes.send(Note::Armed);
    let before = rusage::thread_usage().unwrap_or_default();
    let error = worker.run().err().map(|error| {
        let name = worker.backend.stats().name;
        format!("the {name} engine failed: {error}")
    });
    Some(worker.outcome(plan.index, before, error))
}

/// The worker's flows: those it was given, or for crr as many as it may have at once.
pub(super) fn flows_of(plan: &WorkerPlan, belongings: &Belongings) -> Vec<Flow> {
    let case = &plan.case;
    let crr = case
        .groups
        .first()
        .is_some_and(|g| g.traffic == Traffic::Crr);
    if !crr {
        let flow = |adopted: &Adopted| {
            let group = &case.groups[adopted.group as usize];
            let role = Role::of(case.proto, group, plan.client);
            Flow::new(
                role,
                adopted.group as usize,
                adopted.flow,
                budget(case, role, adopted.flow),
            )
        };
        return belongings.flows.iter().map(flow).collect();
    }
    let role = Role::of(case.proto, &case.groups[0], plan.client);
    // Any accepting worker may get any connection, and those that close linger for a while.
    let numbers: Vec<u32> = if plan.client {
        (0..case.flows)
            .filter(|f| f % plan.workers == plan.index)
            .collect()
    } else {
        (0..case.flows * 4 + 256).collect()
    };
    numbers
        .into_iter()
        .map(|f| Flow::new(role, 0, f, budget(case, role, f)))
        .collect()
}

/// What of the limit is a flow's: bytes for streams, transactions for those that ask.
fn budget(case: &Case, role: Role, flow: u32) -> Budget {
    if !role.asks() {
        let header = role == Role::DatagramSend && case.request_bytes >= HEADER_BYTES as u64;
        let least = if header { HEADER_BYTES as u64 } else { 0 };
        return Budget::of_flow(case, flow).at_least(least);
    }
    let each = (case.request_bytes + case.response_bytes).max(1);
    let limit = match case.limit {
        Limit::Bytes { bytes } => Limit::Transactions {
            count: bytes.div_ceil(each),
        },
        other => other,
    };
    Budget::of_flow(
        &Case {
            request_bytes: 1,
            limit,
            ..case.clone()
        },
        flow,
    )
}

pub(super) fn assemble<B: Backend>(
    plan: &WorkerPlan,
    recorder: Recorder,
    signals: Arc<Signals>,
    says: &Sender<Note>,
    backend: B,
    choices: Choices,
    mut flows: Vec<Flow>,
) -> Worker<B> {
    let case = plan.case.clone();
    let own: Vec<u32> = (0..flows.len() as u32)
        .filter(|f| flows[*f as usize].role.paced())
        .collect();
    for (i, f) in own.iter().enumerate() {
        flows[*f as usize].own = i;
    }
    let schedule = schedule(&case, &flows, &own);
    let depth = choices.depth;
    let datagrams = case.proto == Proto::Udp;
    let tracked = |f: &Flow| f.role == Role::DatagramReceive && choices.headers;
    let echoes = if datagrams {
        flows.len() * depth as usize * 2 + 64
    } else {
        0
    };
    let accepting = flows.iter().filter(|f| f.role == Role::Accepted).count();
    let buffers = choices.buffers;
    let sockets = choices.sockets(&case, flows.len() as u32) as usize;
    Worker {
        outstanding: outstanding(&case, flows.len(), depth),
        trackers: flows
            .iter()
            .map(|f| tracked(f).then(Tracker::new))
            .collect(),
        jitters: flows.iter().map(|_| Jitter::default()).collect(),
        by_slot: vec![u32::MAX; sockets],
        thinking: BinaryHeap::with_capacity(flows.len() * depth as usize * 2 + 64),
        echoes: vec![
            Echo {
                flow: 0,
                len: 0,
                head: [0; HEADER_BYTES]
            };
            echoes
        ],
        echo_order: 0,
        waiting_echoes: VecDeque::with_capacity(echoes),
        free_echoes: (0..echoes as u32).collect(),
        free: (0..buffers).rev().collect(),
        hungry: VecDeque::with_capacity(flows.len()),
        uses: vec![BufferUse::default(); buffers as usize],
        next_sender: 0,
        listener: None,
        free_flows: (0..accepting as u32).collect(),
        target: None,
        journeys: None,
        totals: vec![TransactionTotals::default(); case.groups.len()],
        spans: vec![Span::default(); case.groups.len()],
        tally: Tally::default(),
        now: 0,
        stage: Stage::Armed,
        marks: None,
        clock: Clock::default(),
        failed: false,
        session: plan.session,
        yields: plan.yields,
        notes: says.clone(),
        backend,
        case,
        choices,
        flows,
        recorder,
        schedule,
        own,
        signals,
    }
}

/// A datagram's answer names its request by as much of its number as fits.
fn outstanding(case: &Case, flows: usize, depth: u32) -> Outstanding {
    let traffic = case.groups.first().map_or(Traffic::Stream, |g| g.traffic);
    match (case.proto, traffic) {
        (Proto::Udp, Traffic::Rr) => {
            let tag = Tag::new(case.request_bytes, case.response_bytes);
            Outstanding::named(flows, depth, tag.mask())
        }
        _ => Outstanding::new(flows, depth),
    }
}

/// The open loop's schedule over this worker's share of the paced flows.
fn schedule(case: &Case, flows: &[Flow], own: &[u32]) -> Option<Schedule> {
    let per_second = match case.load {
        Load::Closed => return None,
        Load::Rate { per_second } => per_second,
        Load::Bitrate { bits_per_second } => {
            bits_per_second as f64 / 8.0 / case.request_bytes.max(1) as f64
        }
    };
    let numbers: Vec<u32> = own.iter().map(|f| flows[*f as usize].number).collect();
    (!numbers.is_empty()).then(|| Schedule::new(per_second, case.flows, &numbers))
}

impl<B: Backend> Worker<B> {
    /// Puts the pattern into the private buffers, anew for each datagram of a send. Headers are
    /// written over it.
    fn fill_buffers(&mut self) {
        let size = match self.choices.per_send {
            1 => usize::MAX,
            _ => self.case.request_bytes.max(1) as usize,
        };
        for index in 0..self.choices.buffers {
            for datagram in self.backend.send_buffer(index).chunks_mut(size) {
                datagram
                    .iter_mut()
                    .zip(0..)
                    .for_each(|(byte, at)| *byte = pattern(at));
            }
        }
    }

    /// Gives the sockets to the engine and arms every receive.
    fn settle(&mut self, belongings: Belongings, woken: OwnedFd) -> std::io::Result<()> {
        for (f, adopted) in belongings.flows.into_iter().enumerate() {
            if f >= self.flows.len() {
                break;
            }
            let fd = adopted.socket.as_fd();
            self.flows[f].addresses = address::local(fd).ok().zip(address::peer(fd).ok());
            let slot = self.backend.add(adopted.socket)?;
            self.flows[f].slot = Some(slot);
            self.by_slot[slot as usize] = f as u32;
        }
        self.backend.add_waker(woken)?;
        if self.case.options.verify {
            self.fill_buffers();
        }
        self.target = belongings.target;
        if let Some((socket, peer)) = belongings.listener {
            let slot = self.backend.add_listener(socket)?;
            self.listener = Some((slot, peer.to_canonical()));
        }
        self.backend.arm()?;
        if let Some(bytes) = self.choices.fixed_low_water {
            for f in 0..self.flows.len() {
                if self.flows[f].role == Role::StreamReceive {
                    self.set_low_water(f, bytes);
                }
            }
        }
        for flow in &self.flows {
            if let Some(slot) = flow.slot {
                self.backend.receive(slot);
            }
        }
        if let Some((slot, _)) = self.listener {
            self.backend.accept(slot);
        }
        Ok(())
    }
}
