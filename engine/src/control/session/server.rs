//! The server's side of a session, after its hello was welcomed.

use super::liveness::Liveness;
use super::terms::{Roll, fills_path, opening_ns, planned_ns};
use super::{CrewNews, SECOND};
use crate::control::crew::FlowKey;
use crate::control::results;
use crate::control::wire::{Message, Offer, Refusal};
use crate::record::SideReport;

/// Idleness between cases that ends a session.
const IDLE: u64 = 10 * SECOND;
/// Time for workers to arm, and then for the client to start.
const ARMING: u64 = 10 * SECOND;
/// Time for a crew to stop and drain, beyond its own bound.
const DRAINING: u64 = 15 * SECOND;
/// Time beyond the planned end for the client's stop to arrive.
const OVERTIME: u64 = 15 * SECOND;

/// What happened.
#[derive(Debug)]
pub enum ServerInput {
    /// The client sent this.
    Message(Message),
    /// The crew asked for by [`ServerAction::Build`]: the sample's cookie and the CPUs to name.
    Built(Result<(u64, Vec<u32>), Refusal>),
    /// A flow proved its cookie and is connected.
    FlowOpened(FlowKey),
    /// The crew said this.
    Crew(CrewNews),
    /// The report asked for by [`ServerAction::Finish`].
    Finished(Box<SideReport>),
    /// Time passed.
    Tick,
    /// The control connection is gone, or spoke nonsense: why.
    Lost(String),
    /// The server ends for this reason.
    Shutdown(Refusal),
}

/// What to do. In order; an action's answer is fed back before the next input.
#[derive(Debug, PartialEq)]
pub enum ServerAction {
    /// To the client.
    Send(Message),
    /// Check the offer, make a crew; answer with [`ServerInput::Built`].
    Build(Box<Offer>),
    /// Every flow is there: hand them over and arm.
    Arm,
    /// Start the crew.
    Start,
    /// Stop the crew.
    Stop,
    /// End the crew; answer with [`ServerInput::Finished`].
    Finish,
    /// End the crew; nobody will read its report.
    Discard,
    /// The session is over; with the reason where it is not the client's wish.
    End(Option<Refusal>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Idle,
    Building,
    Opening,
    Arming,
    Ready,
    Running,
    Draining,
    Finishing,
    Ended,
}

/// The state machine.
#[derive(Debug)]
pub struct ServerSession {
    phase: Phase,
    life: Liveness,
    deadline: u64,
    roll: Option<Roll>,
    path_filled: bool,
    planned: Option<u64>,
    max_duration: Option<u64>,
    case_name: String,
    error: Option<Refusal>,
    closing: bool,
}

impl ServerSession {
    /// A session whose hello was welcomed at `now`. `max_duration` bounds a sample's traffic.
    /// Times in nanoseconds.
    pub fn new(now: u64, peer_timeout: u64, max_duration: Option<u64>) -> ServerSession {
        ServerSession {
            phase: Phase::Idle,
            life: Liveness::new(now, peer_timeout),
            deadline: now.saturating_add(IDLE),
            roll: None,
            path_filled: false,
            planned: None,
            max_duration,
            case_name: String::new(),
            error: None,
            closing: false,
        }
    }

    /// Whether the session is over.
    pub fn ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// Whether a sample exists, so that its crew must be polled.
    pub fn busy(&self) -> bool {
        !matches!(self.phase, Phase::Idle | Phase::Ended)
    }

    /// Name of the case in work.
    pub fn case_name(&self) -> Option<&str> {
        self.busy().then_some(self.case_name.as_str())
    }

    /// Whether this flow may open now.
    pub fn expects(&self, key: FlowKey) -> bool {
        self.phase == Phase::Opening && self.roll.as_ref().is_some_and(|roll| roll.expects(key))
    }

    /// Takes what happened at `now` (nanoseconds); gives what to do.
    pub fn on(&mut self, now: u64, input: ServerInput) -> Vec<ServerAction> {
        if self.phase == Phase::Ended {
            return Vec::new();
        }
        match input {
            ServerInput::Message(message) => {
                self.life.sign(now);
                self.on_message(now, message)
            }
            ServerInput::Built(result) => self.on_built(now, result),
            ServerInput::FlowOpened(key) => self.on_flow(now, key),
            ServerInput::Crew(news) => self.on_crew(now, news),
            ServerInput::Finished(report) => self.on_finished(now, &report),
            ServerInput::Tick => self.on_tick(now),
            ServerInput::Lost(cause) => self.lost(&cause),
            ServerInput::Shutdown(refusal) => {
                self.closing = true;
                self.fail(refusal)
            }
        }
    }

    fn on_message(&mut self, now: u64, message: Message) -> Vec<ServerAction> {
        match (self.phase, message) {
            (Phase::Idle, Message::Offer(offer)) => {
                self.phase = Phase::Building;
                self.deadline = now.saturating_add(ARMING);
                self.remember(&offer);
                vec![ServerAction::Build(offer)]
            }
            (Phase::Ready, Message::Start) => {
                self.phase = Phase::Running;
                self.deadline = match (self.planned, self.max_duration) {
                    (Some(planned), _) => now.saturating_add(planned).saturating_add(OVERTIME),
                    (None, Some(max)) => now.saturating_add(max),
                    (None, None) => u64::MAX,
                };
                self.life.begin(now);
                vec![ServerAction::Start]
            }
            (Phase::Running, Message::Stop) => {
                self.phase = Phase::Draining;
                self.deadline = now.saturating_add(DRAINING);
                vec![ServerAction::Stop]
            }
            (_, Message::Failed(refusal)) if self.has_crew() => {
                self.error = Some(refusal);
                self.finish()
            }
            (_, Message::Bye) => {
                let mut actions = self.discard();
                self.phase = Phase::Ended;
                actions.extend([
                    ServerAction::Send(Message::Bye),
                    ServerAction::End(self.error.take()),
                ]);
                actions
            }
            // Said before the news of a failed sample had arrived there.
            (_, Message::Start | Message::Stop | Message::Failed(_)) => Vec::new(),
            (_, Message::Heartbeat | Message::Progress(_)) => Vec::new(),
            (phase, message) => {
                let text = format!("unexpected in phase {phase:?}: {}", name(&message));
                let mut actions = vec![ServerAction::Send(Message::Failed(Refusal::new(
                    4,
                    "protocol",
                    format!("the server ends the session: {text}"),
                )))];
                actions.extend(self.lost(&text));
                actions
            }
        }
    }

    fn remember(&mut self, offer: &Offer) {
        let case = &offer.case;
        self.roll = Some(Roll::new(case));
        self.path_filled = fills_path(case);
        self.planned = planned_ns(case);
        self.case_name = case.name.clone();
        self.error = None;
        // Kept for the opening phase, which begins once the crew stands.
        self.deadline = self.deadline.saturating_add(opening_ns(case));
    }

    fn on_built(
        &mut self,
        now: u64,
        result: Result<(u64, Vec<u32>), Refusal>,
    ) -> Vec<ServerAction> {
        if self.phase != Phase::Building {
            return Vec::new();
        }
        match result {
            Ok((cookie, cpus)) => {
                self.phase = Phase::Opening;
                self.life.begin(now);
                vec![ServerAction::Send(Message::Accepted { cookie, cpus })]
            }
            Err(refusal) => {
                self.rest(now);
                vec![ServerAction::Send(Message::Refused(refusal))]
            }
        }
    }

    fn on_flow(&mut self, now: u64, key: FlowKey) -> Vec<ServerAction> {
        if self.phase != Phase::Opening {
            return Vec::new();
        }
        self.life.sign(now);
        let Some(roll) = &mut self.roll else {
            return Vec::new();
        };
        if !roll.note(key) || !roll.complete() {
            return Vec::new();
        }
        self.phase = Phase::Arming;
        self.deadline = now.saturating_add(ARMING);
        vec![ServerAction::Arm]
    }

    fn on_crew(&mut self, now: u64, news: CrewNews) -> Vec<ServerAction> {
        if !self.has_crew() {
            return Vec::new();
        }
        match (self.phase, news) {
            (Phase::Arming, CrewNews::Armed) => {
                self.phase = Phase::Ready;
                self.deadline = now.saturating_add(ARMING);
                vec![ServerAction::Send(Message::Ready)]
            }
            (_, CrewNews::Progress(progress)) => {
                self.life.received(now, progress.received_total);
                vec![ServerAction::Send(Message::Progress(progress))]
            }
            (Phase::Running, CrewNews::WindowDone) => {
                vec![ServerAction::Send(Message::WindowDone)]
            }
            (Phase::Draining, CrewNews::Stopped) => self.finish(),
            (_, CrewNews::Failed(refusal)) => self.fail(refusal),
            (_, CrewNews::Stopped) => {
                let text = "the server's workers stopped before they were told to";
                self.fail(Refusal::new(4, "crew-stopped", text))
            }
            (_, CrewNews::Armed | CrewNews::WindowDone) => Vec::new(),
        }
    }

    fn on_finished(&mut self, now: u64, report: &SideReport) -> Vec<ServerAction> {
        if self.phase != Phase::Finishing {
            return Vec::new();
        }
        let mut actions: Vec<_> = match results::split(report) {
            Ok(pieces) => pieces.into_iter().map(ServerAction::Send).collect(),
            Err(error) => {
                let text = format!("the server cannot write its report: {error}");
                vec![ServerAction::Send(Message::Failed(Refusal::new(
                    4, "report", text,
                )))]
            }
        };
        if self.closing {
            self.phase = Phase::Ended;
            actions.push(ServerAction::End(self.error.take()));
        } else {
            self.rest(now);
        }
        actions
    }

    fn on_tick(&mut self, now: u64) -> Vec<ServerAction> {
        let mut actions = Vec::new();
        if self.life.beat(now) {
            actions.push(ServerAction::Send(Message::Heartbeat));
        }
        let filled = self.path_filled && matches!(self.phase, Phase::Running | Phase::Draining);
        if self.phase != Phase::Idle
            && let Some(silence) = self.life.expired(now, filled)
        {
            let seconds = silence as f64 / SECOND as f64;
            actions.extend(self.lost(&format!("silent for {seconds:.1} s")));
        } else if now >= self.deadline {
            actions.extend(self.late());
        }
        actions
    }

    /// The phase's deadline passed.
    fn late(&mut self) -> Vec<ServerAction> {
        match self.phase {
            Phase::Idle => {
                self.phase = Phase::Ended;
                let text = "the server ends a session that was idle for 10 s";
                let refusal = Refusal::new(4, "idle", text);
                vec![
                    ServerAction::Send(Message::Failed(refusal.clone())),
                    ServerAction::End(Some(refusal)),
                ]
            }
            Phase::Draining => self.finish(),
            Phase::Opening => {
                let (present, all) = self.roll.as_ref().map_or((0, 0), Roll::count);
                let text = format!(
                    "only {present} of {all} flows reached the server in time; \
                     look for a firewall between the two sides"
                );
                self.fail(Refusal::new(4, "opening", text))
            }
            Phase::Running => {
                let text = match self.planned {
                    Some(_) => "the client did not stop the sample at its planned end".to_string(),
                    None => "the sample reached the server's --max-duration".to_string(),
                };
                self.fail(Refusal::new(4, "max-duration", text))
            }
            phase => {
                let text = format!("the sample did not start in time (phase {phase:?})");
                self.fail(Refusal::new(4, "arming", text))
            }
        }
    }

    /// The sample (and when closing, the session) ends; a report follows where a crew exists.
    fn fail(&mut self, refusal: Refusal) -> Vec<ServerAction> {
        self.error = Some(refusal.clone());
        let mut actions = vec![ServerAction::Send(Message::Failed(refusal.clone()))];
        if self.has_crew() {
            actions.extend(self.finish());
        } else if self.closing {
            self.phase = Phase::Ended;
            actions.push(ServerAction::End(Some(refusal)));
        }
        actions
    }

    fn lost(&mut self, cause: &str) -> Vec<ServerAction> {
        let mut actions = self.discard();
        let within = if self.busy() {
            "in a sample"
        } else {
            "between samples"
        };
        self.phase = Phase::Ended;
        let text = format!("the client was lost {within}: {cause}");
        actions.push(ServerAction::End(Some(Refusal::new(
            4,
            "client-lost",
            text,
        ))));
        actions
    }

    fn finish(&mut self) -> Vec<ServerAction> {
        self.phase = Phase::Finishing;
        vec![ServerAction::Finish]
    }

    fn discard(&self) -> Vec<ServerAction> {
        if self.has_crew() {
            vec![ServerAction::Discard]
        } else {
            Vec::new()
        }
    }

    fn rest(&mut self, now: u64) {
        self.phase = Phase::Idle;
        self.roll = None;
        self.deadline = now.saturating_add(IDLE);
    }

    fn has_crew(&self) -> bool {
        matches!(
            self.phase,
            Phase::Opening | Phase::Arming | Phase::Ready | Phase::Running | Phase::Draining
        )
    }
}

/// A message's kind, for the log and for errors: never its contents.
pub(in crate::control) fn name(message: &Message) -> &'static str {
    match message {
        Message::Hello { .. } => "hello",
        Message::Welcome { .. } => "welcome",
        Message::Refused(_) => "refused",
        Message::Offer(_) => "offer",
        Message::Accepted { .. } => "accepted",
        Message::Ready => "ready",
        Message::Start => "start",
        Message::Progress(_) => "progress",
        Message::WindowDone => "window_done",
        Message::Stop => "stop",
        Message::Results { .. } => "results",
        Message::Failed(_) => "failed",
        Message::Heartbeat => "heartbeat",
        Message::Bye => "bye",
    }
}
