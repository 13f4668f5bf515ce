//! One sample: the state machine, the own crew, the flows and the wire in one loop.

use std::collections::VecDeque;
use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use super::open::Opener;
use super::{Client, SampleOutcome, SampleRequest};
use crate::control::crew::{Crew, CrewFactory, Side};
use crate::control::hello::PROBE;
use crate::control::link::LinkEvent;
use crate::control::session::terms::is_crr;
use crate::control::session::{ClientAction, ClientInput, CrewNews};
use crate::control::wire::{Message, Offer, Refusal};
use crate::plan::SourcePorts;
use crate::record::Progress;

/// How often the own crew is polled.
const POLL: Duration = Duration::from_millis(10);

/// Runs a sample to its end.
pub(super) async fn run(
    client: &mut Client,
    request: SampleRequest,
    factory: &mut dyn CrewFactory,
    on_progress: &mut dyn FnMut(Side, &Progress),
    stop: impl Future<Output = ()>,
) -> SampleOutcome {
    let target = match client.target(request.case.family) {
        Ok(target) => target,
        Err(refusal) => {
            return SampleOutcome {
                error: Some(refusal),
                ..SampleOutcome::default()
            };
        }
    };
    let offer = Box::new(Offer {
        case_index: request.case_index,
        sample: request.sample,
        case: request.case.clone(),
        cpus: request.server_cpus.clone(),
        avoid_cpus: request.client_cpus.clone(),
        cookie: 0,
    });
    let mut drive = Drive {
        client,
        request,
        factory,
        on_progress,
        target,
        cookie: 0,
        crew: None,
        opener: None,
        outcome: SampleOutcome::default(),
        done: false,
    };
    drive.feed(ClientInput::Begin(offer));
    drive.until_done(stop).await;
    drive.outcome
}

struct Drive<'a> {
    client: &'a mut Client,
    request: SampleRequest,
    factory: &'a mut dyn CrewFactory,
    on_progress: &'a mut dyn FnMut(Side, &Progress),
    target: SocketAddr,
    cookie: u64,
    crew: Option<Box<dyn Crew>>,
    opener: Option<Opener>,
    outcome: SampleOutcome,
    done: bool,
}

impl Drive<'_> {
    async fn until_done(&mut self, stop: impl Future<Output = ()>) {
        tokio::pin!(stop);
        let mut tick = interval(POLL);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !self.done {
            tokio::select! {
                event = self.client.inbox.recv() => self.on_link(event),
                opened = next_flow(&mut self.opener) => self.on_flow(opened),
                _ = tick.tick() => self.on_tick(),
                () = &mut stop, if !self.outcome.interrupted => {
                    self.outcome.interrupted = true;
                    self.feed(ClientInput::Interrupt);
                }
            }
        }
    }

    fn on_link(&mut self, event: Option<LinkEvent>) {
        match event {
            Some(LinkEvent::Message(message)) => {
                let ready = message == Message::Ready;
                self.feed(ClientInput::Message(message));
                if ready && let Some(opener) = &self.opener {
                    opener.server_ready();
                    self.check_flows();
                }
            }
            Some(LinkEvent::Lost(cause)) => self.feed(ClientInput::Lost(cause)),
            None => {
                let cause = "the control connection is closed".to_string();
                self.feed(ClientInput::Lost(cause));
            }
        }
    }

    fn on_flow(&mut self, opened: Result<(), Refusal>) {
        match opened {
            Ok(()) => self.check_flows(),
            Err(refusal) => {
                self.opener = None;
                self.feed(ClientInput::FlowsFailed(refusal));
            }
        }
    }

    fn check_flows(&mut self) {
        if self.opener.as_ref().is_some_and(Opener::complete) {
            self.feed(ClientInput::FlowsOpened);
        }
    }

    fn on_tick(&mut self) {
        let events = self.crew.as_mut().map_or_else(Vec::new, |crew| crew.poll());
        for news in events.into_iter().filter_map(CrewNews::from_event) {
            self.feed(ClientInput::Crew(news));
        }
        self.feed(ClientInput::Tick);
    }

    fn feed(&mut self, input: ClientInput) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            let now = self.client.now();
            for action in self.client.machine.on(now, input) {
                inputs.extend(self.act(action));
            }
        }
    }

    fn act(&mut self, action: ClientAction) -> Option<ClientInput> {
        match action {
            ClientAction::Send(message) => self.client.link.send(message),
            ClientAction::Build { cookie, cpus } => {
                return Some(ClientInput::Built(self.build(cookie, cpus)));
            }
            ClientAction::OpenFlows => {
                let case = &self.request.case;
                let fixed = &self.client.fixed_ports;
                match Opener::start(case, self.target, self.cookie, fixed) {
                    Ok(opener) => self.opener = Some(opener),
                    Err(refusal) => return Some(ClientInput::FlowsFailed(refusal)),
                }
            }
            ClientAction::Arm => {
                let refusal = self.arm().err()?;
                return Some(ClientInput::Crew(CrewNews::Failed(refusal)));
            }
            ClientAction::Start => {
                self.outcome.started = true;
                self.crew.as_mut()?.start();
            }
            ClientAction::Stop => self.crew.as_mut()?.stop(),
            ClientAction::Finish => {
                self.opener = None;
                self.outcome.client = Some(self.crew.take()?.finish());
            }
            ClientAction::Progress(side, progress) => self.note(side, *progress),
            ClientAction::ServerReport(report) => self.outcome.server = Some(*report),
            ClientAction::Done(error) => {
                self.opener = None;
                self.outcome.error = error;
                self.done = true;
            }
        }
        None
    }

    fn build(&mut self, cookie: u64, server_cpus: Vec<u32>) -> Result<(), Refusal> {
        self.cookie = cookie;
        let offer = Offer {
            case_index: self.request.case_index,
            sample: self.request.sample,
            case: self.request.case.clone(),
            cpus: self.request.client_cpus.clone(),
            avoid_cpus: server_cpus,
            cookie,
        };
        self.crew = Some(self.factory.build(Side::Client, &offer)?);
        Ok(())
    }

    fn arm(&mut self) -> Result<(), Refusal> {
        let (Some(crew), Some(opener)) = (self.crew.as_mut(), self.opener.take()) else {
            return Ok(());
        };
        self.outcome.path_translated = opener.translated();
        if self.request.case.options.source_ports == SourcePorts::Fixed {
            self.client.fixed_ports.extend(opener.ports());
        }
        if is_crr(&self.request.case) {
            crew.target(self.target);
        }
        for flow in opener.into_flows() {
            if flow.key != PROBE {
                crew.adopt(flow.key, flow.socket)?;
            }
        }
        crew.arm()
    }

    fn note(&mut self, side: Side, mut progress: Progress) {
        (self.on_progress)(side, &progress);
        match side {
            Side::Server => self.outcome.server_progress.push(progress),
            Side::Client => {
                progress.latency.clear();
                self.outcome.client_progress.push(progress);
            }
        }
    }
}

/// The next flow; never, while none is on its way.
async fn next_flow(opener: &mut Option<Opener>) -> Result<(), Refusal> {
    match opener {
        Some(opener) => opener.next().await,
        None => std::future::pending().await,
    }
}
