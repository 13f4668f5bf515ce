//! The loop of a worker: what is due, wait, what completed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use crate::backend::{Backend, Event, Kind, WaitFor};
use crate::measure::journey::Journeys;
use crate::measure::recorder::{Marks, Recorder};
use crate::plan::{Case, Proto, Wait};
use crate::sys::clock::monotonic_ns;
use crate::traffic::schedule::Schedule;
use crate::traffic::transactions::Outstanding;
use crate::traffic::udp::{Jitter, Tracker};

use super::drain;
use super::flow::{Flow, Role};
use super::outcome::TransactionTotals;
use super::policy::Choices;
use super::signals::Signals;
use super::thread::{Failure, Note};

/// How often the receive low-water mark follows the rate.
pub(super) const ADAPT_NS: u64 = 100_000_000;
/// What waking a sleeping thread costs at worst: gaps shorter than this are worth spinning over.
const WAKE_NS: u64 = 50_000;

/// Most messages that become due in one round of the loop.
const DUE_A_ROUND: u32 = 4096;

/// Longest that a poll which finds nothing can take on its CPU, nanoseconds: what is beyond went
/// to another thread.
const POLL_NS: u64 = 50_000;
/// Rounds of a spinning loop between two yields: some tens of microseconds.
const ROUNDS_TO_YIELD: u64 = 64;

/// Where a worker is in its sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// Receives are armed, nothing is sent.
    Armed,
    /// Traffic.
    Running,
    /// Nothing new is begun; what is under way ends, until the instant at the latest.
    Draining(u64),
    /// Over.
    Done,
}

/// What a busy private buffer carries.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct BufferUse {
    pub(super) phase: u8,
    pub(super) messages: u32,
    pub(super) bytes: u32,
}

/// An answer that waits for a private buffer or for its think time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Echo {
    pub(super) flow: u32,
    pub(super) len: u8,
    pub(super) head: [u8; crate::traffic::udp::HEADER_BYTES],
}

/// A worker that has its flows.
pub(super) struct Worker<B> {
    pub(super) backend: B,
    pub(super) case: Case,
    pub(super) choices: Choices,
    pub(super) session: u32,
    pub(super) yields: bool,
    pub(super) flows: Vec<Flow>,
    pub(super) by_slot: Vec<u32>,
    pub(super) recorder: Recorder,
    pub(super) outstanding: Outstanding,
    pub(super) trackers: Vec<Option<Tracker>>,
    pub(super) jitters: Vec<Jitter>,
    pub(super) schedule: Option<Schedule>,
    pub(super) own: Vec<u32>,
    pub(super) thinking: BinaryHeap<Reverse<(u64, u64, u32)>>,
    pub(super) echoes: Vec<Echo>,
    pub(super) echo_order: u64,
    pub(super) waiting_echoes: std::collections::VecDeque<u32>,
    pub(super) free_echoes: Vec<u32>,
    pub(super) free: Vec<u32>,
    /// Flows that wait for a private buffer, in the order of their asking.
    pub(super) hungry: std::collections::VecDeque<u32>,
    pub(super) uses: Vec<BufferUse>,
    pub(super) next_sender: usize,
    pub(super) listener: Option<(crate::backend::Slot, std::net::IpAddr)>,
    pub(super) free_flows: Vec<u32>,
    pub(super) target: Option<std::net::SocketAddr>,
    /// Where the time of each transaction went; only with stage probes.
    pub(super) journeys: Option<Journeys>,
    pub(super) signals: Arc<Signals>,
    pub(super) notes: Sender<Note>,
    pub(super) totals: Vec<TransactionTotals>,
    /// By group.
    pub(super) spans: Vec<Span>,
    pub(super) tally: Tally,
    pub(super) now: u64,
    pub(super) stage: Stage,
    pub(super) marks: Option<Marks>,
    pub(super) clock: Clock,
    pub(super) failed: bool,
}

/// Counts of the worker as a whole.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Tally {
    pub(super) ports_exhausted: u64,
    pub(super) receive_operations: u64,
    /// Requests that could not be answered since too many waited for their answers.
    pub(super) unanswered: u64,
    /// Since when nothing arrived: the last arrival, or the begin of the drain.
    pub(super) silent_since_ns: u64,
    /// Time in polls that brought nothing.
    pub(super) spun_ns: u64,
    /// Rounds of the loop that did not sleep, where the CPU is shared.
    pub(super) rounds: u64,
}

/// When a group's first bytes came, and when the last came or went, nanoseconds; 0 where none
/// did. The end of a transaction that was given up is one as well: it took its time like any
/// other.
#[derive(Clone, Copy, Default, Debug)]
pub struct Span {
    first_arrival_ns: u64,
    last_ns: u64,
}

impl Span {
    /// Bytes came.
    pub(super) fn arrived(&mut self, now_ns: u64) {
        self.last_ns = now_ns;
        if self.first_arrival_ns == 0 {
            self.first_arrival_ns = now_ns;
        }
    }

    /// Bytes went, or a transaction was given up.
    pub(super) fn ended(&mut self, now_ns: u64) {
        self.last_ns = now_ns;
    }

    /// The first that came, or else the last; and the last.
    pub fn bounds(&self) -> Option<(u64, u64)> {
        let first = match self.first_arrival_ns {
            0 => self.last_ns,
            first => first,
        };
        (self.last_ns > 0).then_some((first, self.last_ns))
    }
}

/// Which marks are behind, and what is due next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    /// When traffic began; 0 before.
    pub(super) started_ns: u64,
    pub(super) crossed_t0: bool,
    pub(super) crossed_t1: bool,
    pub(super) next_adapt_ns: u64,
    pub(super) next_expiry_ns: u64,
    pub(super) accept_ns: u64,
    /// Senders of streams have ended, and wait for their receivers no longer than until then.
    pub(super) senders_until_ns: u64,
    /// Then they have: what is in flight has been noted.
    pub(super) senders_left: bool,
    pub(super) last_event_ns: u64,
    pub(super) event_gap_ns: u64,
}

impl Default for Clock {
    fn default() -> Clock {
        Clock {
            started_ns: 0,
            crossed_t0: false,
            crossed_t1: false,
            next_adapt_ns: u64::MAX,
            next_expiry_ns: u64::MAX,
            accept_ns: u64::MAX,
            senders_until_ns: u64::MAX,
            senders_left: false,
            last_event_ns: 0,
            event_gap_ns: 0,
        }
    }
}

impl<B: Backend> Worker<B> {
    /// Runs until told to stop and drained. An error is the engine's own failure.
    pub(super) fn run(&mut self) -> io::Result<()> {
        while self.stage != Stage::Done {
            self.now = monotonic_ns();
            self.cross_marks();
            self.on_time();
            let before = self.now;
            let wait = self.wait_for();
            if let Some(journeys) = &self.journeys {
                journeys.handed(self.now);
            }
            self.backend.wait(wait)?;
            self.now = monotonic_ns();
            let waited = self.now - before;
            self.cross_marks();
            let any = self.take_events();
            if wait == WaitFor::Nothing {
                // A poll that brought something was work, and the last of all waits for nothing.
                let spun = !any && self.stage != Stage::Done;
                self.tally.spun_ns += if spun { waited.min(POLL_NS) } else { 0 };
                self.let_others_run();
            }
        }
        Ok(())
    }

    /// On a CPU that the control thread has to share, gives way once in many rounds.
    fn let_others_run(&mut self) {
        if self.yields {
            self.tally.rounds += 1;
            if self.tally.rounds.is_multiple_of(ROUNDS_TO_YIELD) {
                std::thread::yield_now();
            }
        }
    }

    /// Takes what completed. False where nothing did.
    fn take_events(&mut self) -> bool {
        let mut any = false;
        while let Some(event) = self.backend.next() {
            any = true;
            self.dispatch(event);
        }
        if any {
            let gap = self.now - self.clock.last_event_ns;
            self.clock.event_gap_ns = (self.clock.event_gap_ns * 7 + gap.min(1 << 40)) / 8;
            self.clock.last_event_ns = self.now;
        }
        any
    }

    fn dispatch(&mut self, event: Event) {
        if event.kind == Kind::Wake {
            return;
        }
        if event.kind == Kind::Accept {
            return self.accepted(event);
        }
        let f = self.by_slot[event.slot as usize] as usize;
        if f >= self.flows.len() {
            return;
        }
        match (event.kind, self.flows[f].role) {
            (Kind::Receive, Role::StreamReceive) => self.stream_received(f, event),
            (Kind::Receive, Role::DatagramReceive) => self.datagram_received(f, event),
            (Kind::Receive, Role::Ask | Role::DatagramAsk) => self.answer_received(f, event),
            (Kind::Receive, Role::Connect) => self.connection_received(f, event),
            (Kind::Receive, Role::Answer | Role::DatagramAnswer | Role::Accepted) => {
                self.request_received(f, event);
            }
            (Kind::Receive, Role::StreamSend | Role::DatagramSend) => self.ignored(f, event),
            (Kind::Send, Role::StreamSend) => self.stream_sent(f, event),
            (Kind::Send, Role::DatagramSend) => self.datagram_sent(f, event),
            (Kind::Send, Role::DatagramAnswer) => self.echo_sent(f, event),
            (Kind::Send, Role::DatagramAsk) => self.request_sent(f, event),
            (Kind::Send, _) => self.quiet_send_ended(f, event),
            (Kind::Connect, _) => self.connected(f, event),
            (Kind::Close, _) => self.closed(f, event),
            (Kind::Wake | Kind::Accept, _) => {}
        }
    }

    /// A receive on a flow that only sends: the other side's end, or an error. What arrives on a
    /// flow of datagrams is a repeated hello or an ICMP error, which ends nothing.
    fn ignored(&mut self, f: usize, event: Event) {
        self.backend.recycle(&event);
        if self.flows[f].role == Role::DatagramSend {
            if let (false, Some(slot)) = (event.armed, self.flows[f].slot)
                && event.result != -libc::ECANCELED
            {
                self.backend.receive(slot);
            }
            return;
        }
        if event.result == 0 && self.flows[f].shut {
            // The receiver has read everything and ends its direction in turn.
            self.flows[f].ended = true;
            self.check_limit();
        } else if event.result <= 0 {
            self.broken(
                f,
                event.result,
                "the connection was closed by the other side",
            );
        }
    }

    fn cross_marks(&mut self) {
        let Some(marks) = self.marks else { return };
        if !self.clock.crossed_t0 && self.now >= marks.t0_ns {
            self.clock.crossed_t0 = true;
            self.mark_flows(|flow| flow.at_t0 = Some(flow.lifetime));
        }
        if !self.clock.crossed_t1 && self.now >= marks.t1_ns {
            self.close_window();
        }
    }

    /// Ends the window, where it has not ended.
    pub(super) fn close_window(&mut self) {
        if self.clock.crossed_t1 {
            return;
        }
        self.clock.crossed_t1 = true;
        self.recorder.close_window(self.now);
        self.marks = self.recorder.marks();
        self.mark_flows(|flow| {
            flow.at_t0 = flow.at_t0.or(Some(flow.lifetime));
            flow.at_t1 = Some(flow.lifetime);
        });
    }

    /// Marks the flows whose window lies between two instants. Those that ask, and datagrams
    /// with a header, know by the start or by the phase what belongs to it.
    fn mark_flows(&mut self, mark: impl Fn(&mut Flow)) {
        let headers = self.choices.headers;
        for flow in &mut self.flows {
            let apart = flow.role.asks()
                || headers && matches!(flow.role, Role::DatagramSend | Role::DatagramReceive);
            if !apart {
                mark(flow);
            }
        }
    }

    fn on_time(&mut self) {
        if self.stage == Stage::Armed {
            // A stop may come so soon after the start that this thread sees both at once; what
            // was sent to it meanwhile is still to be received.
            if let Some(start) = self.signals.started() {
                self.begin(start);
            } else if self.signals.stopping() > 0 {
                self.stage = Stage::Done;
            }
        }
        if self.stage == Stage::Running {
            if self.signals.stopping() > 0 {
                self.begin_drain();
            } else {
                self.issue_due();
                self.adapt_low_water();
                self.end_overdue_senders();
            }
        }
        self.leave_overdue_senders();
        self.think_over();
        self.expire();
        self.accept_again();
        if let Stage::Draining(until) = self.stage {
            self.check_drained(until);
        }
        self.recorder.tick(self.now);
    }

    fn begin(&mut self, start_ns: u64) {
        self.stage = Stage::Running;
        self.clock.started_ns = start_ns;
        let marks = self.recorder.start(start_ns);
        self.marks = Some(marks);
        if self.case.duration_ns().is_none() {
            // Everything counts, also what came before this side heard of the start.
            self.clock.crossed_t0 = true;
            self.mark_flows(|flow| flow.at_t0 = Some(Default::default()));
        }
        if let Some(schedule) = &mut self.schedule {
            schedule.start(start_ns);
        }
        self.clock.next_adapt_ns = start_ns + ADAPT_NS;
        self.cross_marks();
        self.end_empty_streams();
        if self.schedule.is_none() {
            for f in 0..self.flows.len() {
                self.issue(f);
            }
        }
        self.issue_due();
    }

    /// Ends the streams whose share of the limit is nothing: fewer bytes than flows.
    fn end_empty_streams(&mut self) {
        if self.case.duration_ns().is_some() {
            return;
        }
        for f in 0..self.flows.len() {
            if self.flows[f].role == Role::StreamSend && self.flows[f].budget.spent() {
                self.shut(f);
            }
        }
        self.check_limit();
    }

    /// Lets the flow have the next private buffer that gets free, after those that wait already.
    pub(super) fn wait_for_buffer(&mut self, f: usize) {
        if !std::mem::replace(&mut self.flows[f].hungry, true) {
            self.hungry.push_back(f as u32);
        }
    }

    /// Takes a private buffer back, for the flow that waits the longest.
    pub(super) fn free_buffer(&mut self, index: u32) {
        self.free.push(index);
        if let Some(f) = self.hungry.pop_front() {
            self.flows[f as usize].hungry = false;
            self.issue(f as usize);
        }
    }

    /// Issues what the schedule says is due by now.
    fn issue_due(&mut self) {
        // Bounded, so that a schedule that nobody can keep does not keep the worker from its stop.
        for _ in 0..DUE_A_ROUND {
            let Some(schedule) = &mut self.schedule else {
                break;
            };
            let Some((own, _)) = schedule.pop_due(self.now) else {
                break;
            };
            let f = self.own[own] as usize;
            self.flows[f].due += 1;
            self.issue(f);
        }
    }

    /// Issues whatever the flow may issue now.
    pub(super) fn issue(&mut self, f: usize) {
        if self.stage != Stage::Running {
            return;
        }
        match self.flows[f].role {
            Role::StreamSend | Role::DatagramSend if !self.sending() => {}
            Role::StreamSend => self.stream_fill(f),
            Role::DatagramSend => self.datagram_fill(f),
            Role::Ask | Role::DatagramAsk => self.ask(f),
            Role::Connect => self.connection_begin(f),
            Role::StreamReceive
            | Role::DatagramReceive
            | Role::Answer
            | Role::DatagramAnswer
            | Role::Accepted => {}
        }
    }

    /// The intended time of the flow's next message: by the schedule, or now.
    pub(super) fn intended(&mut self, f: usize) -> u64 {
        let flow = &mut self.flows[f];
        let Some(schedule) = &self.schedule else {
            return self.now;
        };
        let intended = schedule.intended(flow.own, flow.issued);
        flow.issued += 1;
        let group = flow.group;
        if self.recorder.in_window(intended) {
            self.recorder.lag(group, self.now.saturating_sub(intended));
        }
        intended
    }

    fn wait_for(&mut self) -> WaitFor {
        if self.stage == Stage::Done {
            return WaitFor::Nothing;
        }
        let spin = match self.choices.wait {
            Wait::Spin => true,
            Wait::Sleep => false,
            Wait::Adaptive => {
                self.clock.event_gap_ns < WAKE_NS
                    && self.now - self.clock.last_event_ns < 2 * self.clock.event_gap_ns + 5_000
            }
        };
        if spin && self.stage != Stage::Armed {
            return WaitFor::Nothing;
        }
        WaitFor::Event {
            until_ns: self.next_deadline(),
        }
    }

    fn next_deadline(&self) -> u64 {
        let mut until = self.recorder.next_tick_ns().min(self.clock.next_expiry_ns);
        until = until.min(self.clock.accept_ns);
        if let Some(marks) = self.marks {
            until = until.min(if self.clock.crossed_t0 {
                u64::MAX
            } else {
                marks.t0_ns
            });
            until = until.min(if self.clock.crossed_t1 {
                self.senders_overdue_ns()
            } else {
                marks.t1_ns
            });
        }
        if !self.clock.senders_left {
            until = until.min(self.clock.senders_until_ns);
        }
        if let Some(Reverse((due, _, _))) = self.thinking.peek() {
            until = until.min(*due);
        }
        match self.stage {
            Stage::Running => {
                if let Some(due) = self.schedule.as_ref().and_then(Schedule::next_due) {
                    until = until.min(due);
                }
                if self.choices.low_water {
                    until = until.min(self.clock.next_adapt_ns);
                }
            }
            Stage::Draining(end) => {
                until = until.min(end);
                if self.case.proto == Proto::Udp {
                    until = until.min(self.tally.silent_since_ns + drain::SILENCE_NS);
                }
            }
            Stage::Armed | Stage::Done => {}
        }
        until
    }

    /// The flow can go no further. Said once per worker, unless the sample is ending anyway.
    pub(super) fn broken(&mut self, f: usize, result: i32, what: &str) {
        self.flows[f].ended = true;
        self.flows[f].reset = true;
        // Behind the window the other side may have had its stop already.
        let over = self.case.duration_ns().is_some() && self.clock.crossed_t1;
        let stopping = self.stage != Stage::Running || self.signals.stopping() > 0;
        if self.failed || over || stopping {
            return;
        }
        self.failed = true;
        let flow = &self.flows[f];
        let errno = if result < 0 { -result } else { 0 };
        let failure = Failure {
            group: flow.group as u32,
            flow: flow.number,
            errno,
            text: what.to_string(),
        };
        // The control thread is gone only when the whole sample is.
        let _ = self.notes.send(Note::Failed(failure));
    }

    /// Says that this worker's part of a count limit, or its streams, have ended.
    pub(super) fn check_limit(&mut self) {
        let over = self
            .flows
            .iter()
            .enumerate()
            .all(|(f, flow)| match flow.role {
                // A sender's ends once the receiver has read everything and ended its own.
                Role::StreamSend | Role::StreamReceive => flow.ended,
                Role::DatagramSend => flow.budget.spent() && flow.in_flight == 0,
                Role::Ask | Role::DatagramAsk | Role::Connect => {
                    flow.budget.spent() && self.outstanding.used(f) == 0
                }
                Role::DatagramReceive | Role::Answer | Role::DatagramAnswer | Role::Accepted => {
                    true
                }
            });
        if over {
            self.signals.set_limit_reached();
        }
    }
}
