//! One session of the server: its state machine, its crew, and the flows on their way to it.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::Instant;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::{ServeConfig, limits};
use crate::control::crew::{Crew, CrewEvent, CrewFactory, FlowKey, Side};
use crate::control::flows;
use crate::control::hello::{PROBE, Reply, UDP_REQUEST, UdpRequest, Verdict, canonical};
use crate::control::link::Link;
use crate::control::session::{CrewNews, ServerAction, ServerInput, ServerSession, terms};
use crate::control::wire::{Message, Offer, Refusal};
use crate::plan::Options;

/// One listening socket, and whether its accepting is a crew's for now.
pub(super) struct Door {
    pub listener: Rc<TcpListener>,
    pub paused: watch::Sender<bool>,
}

/// What sessions need of the server.
pub(super) struct Shared<'a> {
    pub config: ServeConfig,
    pub factory: &'a mut dyn CrewFactory,
    pub doors: Vec<Door>,
    pub clock: Instant,
}

impl Shared<'_> {
    /// Nanoseconds since the server began.
    pub(super) fn now(&self) -> u64 {
        self.clock.elapsed().as_nanos() as u64
    }
}

/// A UDP flow that is open and waits for the others.
struct Held {
    key: FlowKey,
    socket: UdpSocket,
    reply: Reply,
}

/// A session.
pub(super) struct Session {
    pub id: u64,
    pub peer: SocketAddr,
    pub run: String,
    pub since: Instant,
    /// Why it ended, where that was not the client's wish.
    pub error: Option<Refusal>,
    link: Link,
    machine: ServerSession,
    crew: Option<Box<dyn Crew>>,
    same_machine: bool,
    cookie: Option<u64>,
    options: Options,
    crr: bool,
    held: Vec<Held>,
    /// crr: where transactions come from, and through which door.
    probe: Option<(IpAddr, usize)>,
    paused: Option<usize>,
}

impl Session {
    /// A welcomed session.
    pub(super) fn new(
        id: u64,
        peer: SocketAddr,
        run: String,
        link: Link,
        machine: ServerSession,
        same_machine: bool,
    ) -> Session {
        Session {
            id,
            peer,
            run,
            since: Instant::now(),
            error: None,
            link,
            machine,
            crew: None,
            same_machine,
            cookie: None,
            options: Options::default(),
            crr: false,
            held: Vec::new(),
            probe: None,
            paused: None,
        }
    }

    /// Whether the session is over.
    pub(super) fn ended(&self) -> bool {
        self.machine.ended()
    }

    /// Whether a sample exists.
    pub(super) fn busy(&self) -> bool {
        self.machine.busy()
    }

    /// Whether flows prove this session by the cookie.
    pub(super) fn has_cookie(&self, cookie: u64) -> bool {
        self.cookie == Some(cookie)
    }

    /// For the client that comes second.
    pub(super) fn describe(&self) -> String {
        let case = self
            .machine
            .case_name()
            .map(|name| format!(", case `{name}`"));
        let seconds = self.since.elapsed().as_secs();
        let (peer, run) = (self.peer, &self.run);
        format!(
            "{peer} (run {run}{}) for {seconds} s",
            case.unwrap_or_default()
        )
    }

    /// Takes what happened and does what follows.
    pub(super) fn feed(&mut self, shared: &mut Shared<'_>, input: ServerInput) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            for action in self.machine.on(shared.now(), input) {
                inputs.extend(self.act(shared, action));
            }
        }
    }

    fn act(&mut self, shared: &mut Shared<'_>, action: ServerAction) -> Option<ServerInput> {
        match action {
            ServerAction::Send(message) => {
                if let Message::Failed(refusal) = &message {
                    log::info!("session {}: {refusal}", self.id);
                }
                self.link.send(message);
            }
            ServerAction::Build(offer) => {
                return Some(ServerInput::Built(self.build(shared, *offer)));
            }
            ServerAction::Arm => {
                let refusal = self.arm(shared).err()?;
                return Some(ServerInput::Crew(CrewNews::Failed(refusal)));
            }
            ServerAction::Start => self.crew.as_mut()?.start(),
            ServerAction::Stop => self.crew.as_mut()?.stop(),
            ServerAction::Finish => {
                let report = self.release(shared)?.finish();
                return Some(ServerInput::Finished(Box::new(report)));
            }
            ServerAction::Discard => {
                let report = self.release(shared)?.finish();
                log::debug!(
                    "session {}: dropped a report: {:?}",
                    self.id,
                    report.complete
                );
            }
            ServerAction::End(error) => self.error = error,
        }
        None
    }

    fn build(
        &mut self,
        shared: &mut Shared<'_>,
        mut offer: Offer,
    ) -> Result<(u64, Vec<u32>), Refusal> {
        limits::check_case(&shared.config.limits, &offer.case)?;
        if !self.same_machine {
            offer.avoid_cpus.clear();
        }
        let cookie = fresh_cookie();
        offer.cookie = cookie;
        let crew = shared.factory.build(Side::Server, &offer)?;
        let cpus = if self.same_machine {
            crew.cpus()
        } else {
            Vec::new()
        };
        self.crew = Some(crew);
        self.cookie = Some(cookie);
        self.crr = terms::is_crr(&offer.case);
        self.options = offer.case.options;
        log::info!(
            "session {}: sample {} of `{}`",
            self.id,
            offer.sample,
            offer.case.name
        );
        Ok((cookie, cpus))
    }

    /// Takes the crew out and gives back everything that belonged to the sample.
    fn release(&mut self, shared: &Shared<'_>) -> Option<Box<dyn Crew>> {
        self.cookie = None;
        self.held.clear();
        self.probe = None;
        if let Some(door) = self.paused.take() {
            shared.doors[door].paused.send_replace(false);
        }
        self.crew.take()
    }

    fn arm(&mut self, shared: &Shared<'_>) -> Result<(), Refusal> {
        let Some(crew) = self.crew.as_mut() else {
            return Ok(());
        };
        for held in self.held.drain(..) {
            flows::drain(&held.socket);
            crew.adopt(held.key, OwnedFd::from(held.socket))?;
        }
        if let (true, Some((peer, door))) = (self.crr, self.probe) {
            let listener = lend(&shared.doors[door])?;
            self.paused = Some(door);
            crew.adopt_listener(listener, peer)?;
        }
        crew.arm()
    }

    /// A TCP flow with this session's cookie.
    pub(super) fn open_tcp(
        &mut self,
        shared: &mut Shared<'_>,
        stream: TcpStream,
        key: FlowKey,
        door: usize,
    ) {
        let expected = self.machine.expects(key);
        let verdict = if expected {
            Verdict::Opened
        } else {
            Verdict::Unexpected
        };
        let (socket, peer) = match answer_tcp(stream, key, verdict) {
            Ok(answered) => answered,
            Err(error) => {
                log::debug!("session {}: a flow went away: {error}", self.id);
                return;
            }
        };
        if !expected {
            return;
        }
        if key == PROBE {
            self.probe = Some((peer.ip(), door));
        } else if let Some(Err(refusal)) = self
            .crew
            .as_mut()
            .map(|crew| crew.adopt(key, OwnedFd::from(socket)))
        {
            self.feed(shared, ServerInput::Crew(CrewNews::Failed(refusal)));
            return;
        }
        self.feed(shared, ServerInput::FlowOpened(key));
    }

    /// A UDP flow that proved its address and this session's cookie. The verdict where it is to
    /// come from the common socket.
    pub(super) fn open_udp(
        &mut self,
        shared: &mut Shared<'_>,
        key: FlowKey,
        peer: SocketAddr,
        local: SocketAddr,
    ) -> Option<Verdict> {
        if let Some(held) = self.held.iter().find(|held| held.key == key) {
            let known = held.reply.client == peer;
            held.acknowledge();
            return (!known).then_some(Verdict::Unexpected);
        }
        if !self.machine.expects(key) {
            return Some(Verdict::Unexpected);
        }
        match flows::udp_flow(local, peer, &self.options) {
            Ok(socket) => {
                let reply = Reply {
                    verdict: Verdict::Opened,
                    key,
                    client: peer,
                    server: local,
                };
                let held = Held { key, socket, reply };
                held.acknowledge();
                self.held.push(held);
                self.feed(shared, ServerInput::FlowOpened(key));
            }
            Err(refusal) => self.feed(shared, ServerInput::Crew(CrewNews::Failed(refusal))),
        }
        None
    }

    /// Answers clients whose acknowledgement was lost.
    pub(super) fn repeat_acknowledgements(&self) {
        let mut buffer = [0; UDP_REQUEST + 1];
        for held in &self.held {
            while let Ok(length) = held.socket.recv(&mut buffer) {
                let request = UdpRequest::decode(&buffer[..length]);
                if request.is_some_and(|request| request.key == held.key) {
                    held.acknowledge();
                }
            }
        }
    }

    /// Takes the crew's news; gives back connections that are not the session's, each with the
    /// door through which it came.
    pub(super) fn poll(&mut self, shared: &mut Shared<'_>) -> Vec<(OwnedFd, usize)> {
        let door = self.paused.unwrap_or_default();
        let events = self.crew.as_mut().map_or_else(Vec::new, |crew| crew.poll());
        let mut strangers = Vec::new();
        for event in events {
            match event {
                CrewEvent::Stranger(socket, _) => strangers.push((socket, door)),
                event => {
                    if let Some(news) = CrewNews::from_event(event) {
                        self.feed(shared, ServerInput::Crew(news));
                    }
                }
            }
        }
        strangers
    }
}

impl Held {
    fn acknowledge(&self) {
        if let Err(error) = self.socket.send(&self.reply.encode()) {
            log::debug!("UDP flow {:?}: {error}", self.key);
        }
    }
}

/// A crew's own handle of a listening socket, whose accepting pauses here.
fn lend(door: &Door) -> Result<OwnedFd, Refusal> {
    if *door.paused.borrow() {
        let text = "another session's crr sample has the listening socket; try again later";
        return Err(Refusal::new(4, "busy", text));
    }
    let listener = door.listener.as_fd().try_clone_to_owned();
    let listener = listener.map_err(|error| flows::cannot_open(&error))?;
    door.paused.send_replace(true);
    Ok(listener)
}

/// Sends the verdict; the socket stays non-blocking.
pub(super) fn answer_tcp(
    stream: TcpStream,
    key: FlowKey,
    verdict: Verdict,
) -> io::Result<(std::net::TcpStream, SocketAddr)> {
    let client = canonical(stream.peer_addr()?);
    let server = canonical(stream.local_addr()?);
    let mut socket = stream.into_std()?;
    // A fresh connection's send buffer has room for this.
    socket.write_all(
        &Reply {
            verdict,
            key,
            client,
            server,
        }
        .encode(),
    )?;
    Ok((socket, client))
}

/// Random and never zero. A version 4 UUID has 122 random bits.
fn fresh_cookie() -> u64 {
    let (high, low) = uuid::Uuid::new_v4().as_u64_pair();
    (high ^ low.rotate_left(17)).max(1)
}
