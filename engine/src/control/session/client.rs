//! The client's side of a session, after its welcome.

use super::liveness::Liveness;
use super::terms::{active_sides, fills_path, is_exact, opening_ns, planned_ns};
use super::{CrewNews, SECOND};
use crate::control::crew::{FLOW_FAILED, Side};
use crate::control::results::Assembly;
use crate::control::wire::{Message, Offer, Refusal};
use crate::record::{Progress, SideReport};

/// Time for the server to answer an offer, and for both crews to arm.
const ARMING: u64 = 10 * SECOND;
/// A fixed window: how much later than the other's a side's window may end.
const GRACE: u64 = 2 * SECOND;
/// A fixed window: the sample stops so long after its planned end in any case.
const OVERTIME: u64 = 5 * SECOND;
/// Time for the drain and the results after a normal stop.
const DRAINING: u64 = 20 * SECOND;
/// Time for the server's results after a failure or an interruption.
const LAST_WORDS: u64 = 2 * SECOND;
/// Time for the own crew to stop after a failure.
const QUICK_STOP: u64 = SECOND;

/// What happened.
#[derive(Debug)]
pub enum ClientInput {
    /// A sample is wanted. Only when [`ClientSession::idle`].
    Begin(Box<Offer>),
    /// The server sent this.
    Message(Message),
    /// The crew asked for by [`ClientAction::Build`].
    Built(Result<(), Refusal>),
    /// Every flow asked for by [`ClientAction::OpenFlows`] is open.
    FlowsOpened,
    /// They cannot open.
    FlowsFailed(Refusal),
    /// The crew said this.
    Crew(CrewNews),
    /// Time passed.
    Tick,
    /// The control connection is gone, or spoke nonsense: why.
    Lost(String),
    /// The user wants to stop.
    Interrupt,
}

/// What to do, in order.
#[derive(Debug, PartialEq)]
pub enum ClientAction {
    /// To the server.
    Send(Message),
    /// Make the own crew; answer with [`ClientInput::Built`].
    Build {
        /// The sample's secret.
        cookie: u64,
        /// CPUs that the server's workers took on this same machine.
        cpus: Vec<u32>,
    },
    /// Open every flow.
    OpenFlows,
    /// Hand the flows to the crew and arm it.
    Arm,
    /// Start the crew.
    Start,
    /// Stop the crew.
    Stop,
    /// End the crew and keep its report.
    Finish,
    /// One side's interval, for the live line.
    Progress(Side, Box<Progress>),
    /// The server's report.
    ServerReport(Box<SideReport>),
    /// The sample is over.
    Done(Option<Refusal>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Idle,
    Offered,
    Building,
    Opening,
    Arming,
    Running,
    Ending,
}

/// The state machine; one for all samples of a session.
#[derive(Debug)]
pub struct ClientSession {
    phase: Phase,
    alive: bool,
    life: Liveness,
    deadline: u64,
    offer: Option<Box<Offer>>,
    /// Own crew exists and has not been finished.
    crew: bool,
    armed: bool,
    server_ready: bool,
    own_done: Option<u64>,
    server_done: Option<u64>,
    own_deadline: u64,
    server_finished: bool,
    normal_end: bool,
    error: Option<Refusal>,
    assembly: Assembly,
}

impl ClientSession {
    /// A session that was welcomed at `now`; times in nanoseconds.
    pub fn new(now: u64, peer_timeout: u64) -> ClientSession {
        ClientSession {
            phase: Phase::Idle,
            alive: true,
            life: Liveness::new(now, peer_timeout),
            deadline: u64::MAX,
            offer: None,
            crew: false,
            armed: false,
            server_ready: false,
            own_done: None,
            server_done: None,
            own_deadline: u64::MAX,
            server_finished: false,
            normal_end: false,
            error: None,
            assembly: Assembly::default(),
        }
    }

    /// Whether no sample is going on.
    pub fn idle(&self) -> bool {
        self.phase == Phase::Idle
    }

    /// Whether the server is still there.
    pub fn alive(&self) -> bool {
        self.alive
    }

    /// Takes what happened at `now` (nanoseconds); gives what to do.
    pub fn on(&mut self, now: u64, input: ClientInput) -> Vec<ClientAction> {
        match input {
            ClientInput::Begin(offer) => self.begin(now, offer),
            ClientInput::Message(message) => {
                self.life.sign(now);
                self.on_message(now, message)
            }
            ClientInput::Built(result) => self.on_built(now, result),
            ClientInput::FlowsOpened if self.phase == Phase::Opening => {
                self.phase = Phase::Arming;
                self.deadline = now.saturating_add(ARMING);
                vec![ClientAction::Arm]
            }
            ClientInput::FlowsFailed(refusal) if self.phase == Phase::Opening => {
                self.give_up(now, refusal)
            }
            ClientInput::FlowsOpened | ClientInput::FlowsFailed(_) => Vec::new(),
            ClientInput::Crew(news) => self.on_crew(now, news),
            ClientInput::Tick => self.on_tick(now),
            ClientInput::Lost(cause) => self.lost(now, &cause),
            ClientInput::Interrupt => self.interrupt(now),
        }
    }

    fn begin(&mut self, now: u64, offer: Box<Offer>) -> Vec<ClientAction> {
        if !self.idle() {
            return Vec::new();
        }
        if !self.alive {
            let text = "the connection to the server is gone; run the rest of the plan again";
            return vec![ClientAction::Done(Some(Refusal::new(
                4,
                "server-lost",
                text,
            )))];
        }
        self.phase = Phase::Offered;
        self.life.begin(now);
        self.deadline = now.saturating_add(ARMING);
        self.offer = Some(offer.clone());
        (self.crew, self.armed, self.server_ready) = (false, false, false);
        (self.own_done, self.server_done) = (None, None);
        (self.server_finished, self.normal_end) = (false, false);
        self.error = None;
        self.assembly = Assembly::default();
        vec![ClientAction::Send(Message::Offer(offer))]
    }

    fn on_message(&mut self, now: u64, message: Message) -> Vec<ClientAction> {
        match (self.phase, message) {
            (Phase::Offered, Message::Accepted { cookie, cpus }) => {
                self.phase = Phase::Building;
                vec![ClientAction::Build { cookie, cpus }]
            }
            (Phase::Offered | Phase::Ending, Message::Refused(refusal)) => {
                self.phase = Phase::Ending;
                self.server_finished = true;
                self.error.get_or_insert(refusal);
                self.end()
            }
            (Phase::Opening | Phase::Arming, Message::Ready) => {
                self.server_ready = true;
                self.maybe_start(now)
            }
            (Phase::Running, Message::WindowDone) => {
                self.server_done = Some(now);
                self.maybe_stop(now)
            }
            (Phase::Idle, Message::Failed(refusal)) => {
                self.alive = false;
                log::debug!("the server ended the session: {refusal}");
                Vec::new()
            }
            (_, Message::Failed(refusal)) => self.server_failed(now, refusal),
            (Phase::Running | Phase::Ending, Message::Progress(progress)) => {
                vec![ClientAction::Progress(Side::Server, progress)]
            }
            (phase, Message::Results { piece, last, text }) if phase != Phase::Idle => {
                self.on_results(now, piece, last, &text)
            }
            (_, Message::Bye) => self.lost(now, "it ended the session"),
            (_, Message::Heartbeat | Message::Progress(_)) => Vec::new(),
            // Crossed this side's failure on the way.
            (Phase::Ending, Message::Accepted { .. } | Message::Ready | Message::WindowDone) => {
                Vec::new()
            }
            (phase, message) => {
                let kind = super::server::name(&message);
                self.lost(now, &format!("it said {kind} in phase {phase:?}"))
            }
        }
    }

    fn on_results(&mut self, now: u64, piece: u32, last: bool, text: &str) -> Vec<ClientAction> {
        match self.assembly.push(piece, last, text) {
            Ok(None) => Vec::new(),
            Ok(Some(report)) => {
                self.server_finished = true;
                let mut actions = vec![ClientAction::ServerReport(Box::new(report))];
                if self.phase != Phase::Ending {
                    let text = "the server ended the sample early without saying why";
                    let refusal = Refusal::new(4, "server-ended", text);
                    actions.extend(self.end_with(now, refusal, LAST_WORDS));
                } else {
                    actions.extend(self.end());
                }
                actions
            }
            Err(error) => self.lost(now, &error.to_string()),
        }
    }

    fn on_built(&mut self, now: u64, result: Result<(), Refusal>) -> Vec<ClientAction> {
        self.crew |= result.is_ok();
        match (self.phase, result) {
            (Phase::Building, Ok(())) => {
                self.phase = Phase::Opening;
                let opening = self
                    .offer
                    .as_ref()
                    .map_or(0, |offer| opening_ns(&offer.case));
                self.deadline = now.saturating_add(opening);
                vec![ClientAction::OpenFlows]
            }
            (Phase::Building, Err(refusal)) => self.give_up(now, refusal),
            (_, Ok(())) => {
                self.crew = false;
                vec![ClientAction::Finish]
            }
            (_, Err(_)) => Vec::new(),
        }
    }

    fn on_crew(&mut self, now: u64, news: CrewNews) -> Vec<ClientAction> {
        if !self.crew {
            return Vec::new();
        }
        match (self.phase, news) {
            (Phase::Arming, CrewNews::Armed) => {
                self.armed = true;
                self.maybe_start(now)
            }
            (_, CrewNews::Progress(progress)) => {
                self.life.received(now, progress.received_total);
                let mut actions = vec![ClientAction::Progress(Side::Client, progress.clone())];
                if self.alive && !self.server_finished {
                    actions.push(ClientAction::Send(Message::Progress(progress)));
                }
                actions
            }
            (Phase::Running, CrewNews::WindowDone) => {
                self.own_done = Some(now);
                self.maybe_stop(now)
            }
            (Phase::Ending, CrewNews::Stopped) => {
                self.crew = false;
                let mut actions = vec![ClientAction::Finish];
                actions.extend(self.end());
                actions
            }
            (Phase::Ending, CrewNews::Failed(refusal)) => {
                self.error.get_or_insert(refusal);
                self.crew = false;
                let mut actions = vec![ClientAction::Finish];
                actions.extend(self.end());
                actions
            }
            (_, CrewNews::Failed(refusal)) => self.give_up(now, refusal),
            (_, CrewNews::Stopped) => {
                let text = "the client's workers stopped before they were told to";
                self.give_up(now, Refusal::new(4, "crew-stopped", text))
            }
            (_, CrewNews::Armed | CrewNews::WindowDone) => Vec::new(),
        }
    }

    fn maybe_start(&mut self, now: u64) -> Vec<ClientAction> {
        if self.phase != Phase::Arming || !self.armed || !self.server_ready {
            return Vec::new();
        }
        self.phase = Phase::Running;
        let planned = self
            .offer
            .as_ref()
            .and_then(|offer| planned_ns(&offer.case));
        self.deadline = planned.map_or(u64::MAX, |ns| {
            now.saturating_add(ns).saturating_add(OVERTIME)
        });
        self.life.begin(now);
        vec![ClientAction::Send(Message::Start), ClientAction::Start]
    }

    /// Stops once every side that decides has had its window.
    fn maybe_stop(&mut self, now: u64) -> Vec<ClientAction> {
        let Some(offer) = &self.offer else {
            return Vec::new();
        };
        let (own, server) = (self.own_done, self.server_done);
        let done = if is_exact(&offer.case) {
            let (client_acts, server_acts) = active_sides(&offer.case);
            (!client_acts || own.is_some()) && (!server_acts || server.is_some())
        } else {
            let first = [own, server].into_iter().flatten().min();
            let graced = first.is_some_and(|first| now.saturating_sub(first) >= GRACE);
            (own.is_some() && server.is_some()) || graced || now >= self.deadline
        };
        if !done {
            return Vec::new();
        }
        self.normal_end = true;
        self.stop(now, DRAINING)
    }

    fn stop(&mut self, now: u64, patience: u64) -> Vec<ClientAction> {
        self.phase = Phase::Ending;
        self.deadline = now.saturating_add(patience);
        self.own_deadline = now.saturating_add(patience);
        vec![ClientAction::Send(Message::Stop), ClientAction::Stop]
    }

    fn interrupt(&mut self, now: u64) -> Vec<ClientAction> {
        match self.phase {
            Phase::Idle => Vec::new(),
            Phase::Running => {
                let actions = self.stop(now, LAST_WORDS);
                self.own_deadline = now.saturating_add(LAST_WORDS - QUICK_STOP / 2);
                actions
            }
            Phase::Ending => {
                self.deadline = self.deadline.min(now.saturating_add(LAST_WORDS));
                self.own_deadline = self.own_deadline.min(now.saturating_add(QUICK_STOP));
                Vec::new()
            }
            _ => self.give_up(
                now,
                Refusal::new(4, "interrupted", "the client was interrupted"),
            ),
        }
    }

    /// This side cannot go on; the server is told and may still report.
    fn give_up(&mut self, now: u64, refusal: Refusal) -> Vec<ClientAction> {
        if self.phase == Phase::Idle {
            return Vec::new();
        }
        let mut actions = vec![ClientAction::Send(Message::Failed(refusal.clone()))];
        actions.extend(self.end_with(now, refusal, LAST_WORDS));
        actions
    }

    fn server_failed(&mut self, now: u64, refusal: Refusal) -> Vec<ClientAction> {
        if self.phase == Phase::Ending && self.normal_end {
            self.blame(refusal);
            return Vec::new();
        }
        self.end_with(now, refusal, LAST_WORDS)
    }

    fn lost(&mut self, now: u64, cause: &str) -> Vec<ClientAction> {
        self.alive = false;
        if self.phase == Phase::Idle {
            return Vec::new();
        }
        self.server_finished = true;
        let refusal = Refusal::new(4, "server-lost", format!("the server was lost: {cause}"));
        self.end_with(now, refusal, QUICK_STOP)
    }

    /// Notes why the sample failed. The first reason stands, but that a flow broke is only the
    /// symptom of what the other side, or its silence, says later.
    fn blame(&mut self, refusal: Refusal) {
        if self
            .error
            .as_ref()
            .is_none_or(|error| error.code == FLOW_FAILED)
        {
            self.error = Some(refusal);
        }
    }

    /// Ends the sample for this reason: stops the own crew where it runs, waits shortly.
    fn end_with(&mut self, now: u64, refusal: Refusal, patience: u64) -> Vec<ClientAction> {
        self.blame(refusal);
        let was = std::mem::replace(&mut self.phase, Phase::Ending);
        if was != Phase::Ending {
            self.deadline = u64::MAX;
            self.own_deadline = u64::MAX;
        }
        self.deadline = self.deadline.min(now.saturating_add(patience));
        self.own_deadline = self.own_deadline.min(now.saturating_add(QUICK_STOP));
        let mut actions = Vec::new();
        if self.crew && was == Phase::Running {
            actions.push(ClientAction::Stop);
        } else if self.crew && was != Phase::Ending {
            self.crew = false;
            actions.push(ClientAction::Finish);
        }
        actions.extend(self.end());
        actions
    }

    /// Done once both sides are.
    fn end(&mut self) -> Vec<ClientAction> {
        if self.crew || !self.server_finished {
            return Vec::new();
        }
        self.phase = Phase::Idle;
        self.offer = None;
        vec![ClientAction::Done(self.error.take())]
    }

    fn on_tick(&mut self, now: u64) -> Vec<ClientAction> {
        if self.phase == Phase::Idle {
            return Vec::new();
        }
        let mut actions = Vec::new();
        if self.life.beat(now) && self.alive {
            actions.push(ClientAction::Send(Message::Heartbeat));
        }
        let filled = matches!(self.phase, Phase::Running | Phase::Ending)
            && self
                .offer
                .as_ref()
                .is_some_and(|offer| fills_path(&offer.case));
        if !self.server_finished
            && let Some(silence) = self.life.expired(now, filled)
        {
            let seconds = silence as f64 / SECOND as f64;
            actions.extend(self.lost(now, &format!("nothing arrived for {seconds:.1} s")));
            return actions;
        }
        actions.extend(match self.phase {
            Phase::Running => self.maybe_stop(now),
            Phase::Ending => self.overdue(now),
            _ if now >= self.deadline => {
                let text = format!("the sample did not start in time (phase {:?})", self.phase);
                self.give_up(now, Refusal::new(4, "start", text))
            }
            _ => Vec::new(),
        });
        actions
    }

    /// Deadlines of the end.
    fn overdue(&mut self, now: u64) -> Vec<ClientAction> {
        let mut actions = Vec::new();
        if self.crew && now >= self.own_deadline {
            self.crew = false;
            actions.push(ClientAction::Finish);
        }
        if !self.server_finished && now >= self.deadline {
            self.server_finished = true;
            self.alive = false;
            let text = "the server's results did not arrive in time";
            self.error
                .get_or_insert_with(|| Refusal::new(4, "no-results", text));
        }
        actions.extend(self.end());
        actions
    }
}
