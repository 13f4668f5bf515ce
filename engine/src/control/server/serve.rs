//! The server's loop.

use std::cell::Cell;
use std::future::Future;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout};

use super::greet::{Greeter, accept};
use super::listen::{self, Ports};
use super::sessions::{Door, Session, Shared, answer_tcp};
use super::udp::{self, Nonces};
use super::{Event, Hello, News, ServeConfig, ServeOutcome, limits};
use crate::control::crew::CrewFactory;
use crate::control::error::ControlError;
use crate::control::frame::Decoder;
use crate::control::hello::{Reply, TcpHello, UdpRequest, Verdict, canonical};
use crate::control::link::{Link, LinkEvent};
use crate::control::session::{ServerInput, ServerSession};
use crate::control::wire::{Message, PROTOCOL, Refusal};
use crate::record::HostFacts;

/// How often crews are polled while a sample exists.
const POLL: Duration = Duration::from_millis(10);
/// How often deadlines are checked otherwise.
const LAZY: Duration = Duration::from_millis(250);
/// How often lost acknowledgements of UDP flows are looked for.
const REPEAT: Duration = Duration::from_millis(200);
/// Time for the last words to leave.
const FAREWELL: Duration = Duration::from_millis(1500);

/// Serves until `stop`, or one session where the configuration says so. `news` hears of the
/// control listener once it accepts, and of every session; `facts` are this host's, as it is on
/// the path that ends at an address of its own.
///
/// Fails where the ports cannot be had. What goes wrong within a session is in the outcome.
pub async fn serve(
    config: ServeConfig,
    factory: &mut dyn CrewFactory,
    facts: &dyn Fn(SocketAddr) -> HostFacts,
    stop: impl Future<Output = ()>,
    news: &mut dyn FnMut(News<'_>),
) -> Result<ServeOutcome, ControlError> {
    let ports = listen::open(&config)?;
    let control = ports.control;
    let (events, mut inbox) = mpsc::channel(1024);
    news(News::Listening(control));
    let mut server = Server::new(config, factory, facts, ports, events, news);
    tokio::pin!(stop);
    while !server.done() {
        tokio::select! {
            Some(event) = inbox.recv() => server.on_event(event),
            () = sleep_until(server.next_tick.into()) => server.tick(),
            () = &mut stop => {
                server.shut_down();
                break;
            }
        }
        server.reap();
    }
    Ok(server.farewell().await)
}

/// Who hears the news.
type Listener<'a> = &'a mut dyn FnMut(News<'_>);

struct Server<'a> {
    shared: Shared<'a>,
    facts: &'a dyn Fn(SocketAddr) -> HostFacts,
    data_port: u16,
    udp: Vec<Option<Rc<UdpSocket>>>,
    events: mpsc::Sender<Event>,
    news: Listener<'a>,
    greeter: Greeter,
    nonces: Nonces,
    sessions: Vec<Session>,
    next_id: u64,
    next_tick: Instant,
    next_repeat: Instant,
    outcome: ServeOutcome,
    /// Control connections: they outlive their sessions by the last words.
    links: JoinSet<()>,
    /// Accepting and receiving; end with the server.
    listeners: JoinSet<()>,
}

impl<'a> Server<'a> {
    fn new(
        config: ServeConfig,
        factory: &'a mut dyn CrewFactory,
        facts: &'a dyn Fn(SocketAddr) -> HostFacts,
        ports: Ports,
        events: mpsc::Sender<Event>,
        news: Listener<'a>,
    ) -> Server<'a> {
        let version = config.version.clone();
        let waiting = Rc::new(Cell::new(0));
        let greeter = Greeter {
            events: events.clone(),
            version,
            waiting,
        };
        let now = Instant::now();
        let mut server = Server {
            shared: Shared {
                config,
                factory,
                doors: Vec::new(),
                clock: now,
            },
            facts,
            data_port: ports.data_port,
            udp: Vec::new(),
            events,
            news,
            greeter,
            nonces: Nonces::default(),
            sessions: Vec::new(),
            next_id: 1,
            next_tick: now,
            next_repeat: now,
            outcome: ServeOutcome::default(),
            links: JoinSet::new(),
            listeners: JoinSet::new(),
        };
        server.open_doors(ports);
        server
    }

    fn open_doors(&mut self, ports: Ports) {
        for (index, port) in ports.ports.into_iter().enumerate() {
            let listener = Rc::new(port.tcp);
            let (paused, watched) = watch::channel(false);
            let greeter = self.greeter.clone();
            self.listeners
                .spawn_local(accept(listener.clone(), index, watched, greeter));
            self.shared.doors.push(Door { listener, paused });
            let udp = port.udp.map(Rc::new);
            if let Some(socket) = udp.clone() {
                let events = self.events.clone();
                self.listeners
                    .spawn_local(udp::receive(socket, index, events));
            }
            self.udp.push(udp);
        }
    }

    fn done(&self) -> bool {
        self.shared.config.one_off && self.outcome.sessions > 0 && self.sessions.is_empty()
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Hello {
                stream,
                decoder,
                hello,
            } => self.on_hello(stream, decoder, hello),
            Event::Flow {
                stream,
                hello,
                port,
            } => self.on_flow(stream, hello, port),
            Event::Datagram {
                request,
                peer,
                local,
                port,
            } => {
                self.on_datagram(request, peer, local, port);
            }
            Event::Link { session, event } => {
                let input = match event {
                    LinkEvent::Message(message) => ServerInput::Message(message),
                    LinkEvent::Lost(cause) => ServerInput::Lost(cause),
                };
                self.feed(session, input);
            }
        }
        if self.sessions.iter().any(Session::busy) {
            self.next_tick = self.next_tick.min(Instant::now() + POLL);
        }
    }

    fn feed(&mut self, id: u64, input: ServerInput) {
        if let Some(session) = self.sessions.iter_mut().find(|session| session.id == id) {
            session.feed(&mut self.shared, input);
        }
    }

    fn on_hello(&mut self, stream: TcpStream, decoder: Decoder, hello: Hello) {
        let Ok(peer) = stream.peer_addr().map(canonical) else {
            return;
        };
        let facts = stream.local_addr().map(canonical).map(self.facts);
        let id = self.next_id;
        self.next_id += 1;
        let wrap = move |event| Event::Link { session: id, event };
        let link = Link::start(stream, decoder, &mut self.links, self.events.clone(), wrap);
        if let Err(refusal) = self.admit(peer) {
            log::info!("refused {peer}: {refusal}");
            (self.news)(News::Refused {
                peer,
                refusal: &refusal,
            });
            link.send(Message::Refused(refusal));
            return;
        }
        let config = &self.shared.config;
        link.send(Message::Welcome {
            protocol: PROTOCOL,
            version: config.version.clone(),
            data_port: config.data_ports.map_or(0, |_| self.data_port),
            host: Box::new(facts.unwrap_or_default()),
        });
        let max = config.limits.max_duration.map(|max| max.as_nanos() as u64);
        let machine = ServerSession::new(self.shared.now(), hello.peer_timeout_ns, max);
        let same_machine = !config.boot.is_empty() && config.boot == hello.boot;
        log::info!(
            "session {id}: {peer}, ringperf {}, run {}",
            hello.version,
            hello.run
        );
        (self.news)(News::Began {
            session: id,
            peer,
            version: &hello.version,
            run: &hello.run,
        });
        self.sessions.push(Session::new(
            id,
            peer,
            hello.run,
            link,
            machine,
            same_machine,
        ));
        self.outcome.sessions += 1;
    }

    fn admit(&self, peer: SocketAddr) -> Result<(), Refusal> {
        let config = &self.shared.config;
        limits::check_peer(&config.limits, peer.ip())?;
        if config.one_off && self.outcome.sessions > 0 {
            let text = "the server serves one session only (--one-off) and has served it";
            return Err(Refusal::new(4, "busy", text));
        }
        if self.sessions.len() < config.limits.max_sessions as usize {
            return Ok(());
        }
        let who: Vec<_> = self.sessions.iter().map(Session::describe).collect();
        let text = format!(
            "the server is busy with {}; wait for its end, or allow more with --max-sessions",
            who.join(" and ")
        );
        Err(Refusal::new(4, "busy", text))
    }

    fn on_flow(&mut self, stream: TcpStream, hello: TcpHello, port: usize) {
        let cookie = hello.cookie;
        match self
            .sessions
            .iter_mut()
            .find(|session| session.has_cookie(cookie))
        {
            Some(session) => session.open_tcp(&mut self.shared, stream, hello.key, port),
            None => {
                let answered = answer_tcp(stream, hello.key, Verdict::UnknownCookie);
                log::debug!("a flow with an unknown cookie: {answered:?}");
            }
        }
    }

    fn on_datagram(
        &mut self,
        request: UdpRequest,
        peer: SocketAddr,
        local: SocketAddr,
        port: usize,
    ) {
        let UdpRequest { cookie, key, nonce } = request;
        let (client, server) = (canonical(peer), canonical(local));
        let due = self.nonces.of(client, cookie, key);
        let verdict = match nonce {
            None => Some(Verdict::Nonce(due)),
            Some(nonce) if nonce != due => {
                log::debug!("a UDP flow of {client} with a wrong nonce");
                None
            }
            Some(_) => match self.sessions.iter_mut().find(|s| s.has_cookie(cookie)) {
                Some(session) => session.open_udp(&mut self.shared, key, client, server),
                None => Some(Verdict::UnknownCookie),
            },
        };
        if let (Some(verdict), Some(Some(socket))) = (verdict, self.udp.get(port)) {
            udp::answer(
                socket,
                &Reply {
                    verdict,
                    key,
                    client,
                    server,
                },
                peer,
                local,
            );
        }
    }

    fn tick(&mut self) {
        let now = Instant::now();
        let repeat = now >= self.next_repeat;
        if repeat {
            self.next_repeat = now + REPEAT;
        }
        let mut strangers = Vec::new();
        for session in &mut self.sessions {
            if repeat {
                session.repeat_acknowledgements();
            }
            strangers.extend(session.poll(&mut self.shared));
            session.feed(&mut self.shared, ServerInput::Tick);
        }
        for (socket, door) in strangers {
            self.welcome_stranger(socket, door);
        }
        while self.links.try_join_next().is_some() {}
        let busy = self.sessions.iter().any(Session::busy);
        self.next_tick = now + if busy { POLL } else { LAZY };
    }

    /// A connection that a crew accepted and that is not its session's.
    fn welcome_stranger(&self, socket: OwnedFd, door: usize) {
        let socket = std::net::TcpStream::from(socket);
        let stream = socket
            .set_nonblocking(true)
            .and_then(|()| TcpStream::from_std(socket));
        match stream {
            Ok(stream) => self.greeter.welcome(stream, door),
            Err(error) => log::debug!("a stranger's connection: {error}"),
        }
    }

    /// Drops the sessions that are over.
    fn reap(&mut self) {
        for session in self.sessions.extract_if(.., |session| session.ended()) {
            let seconds = session.since.elapsed().as_secs();
            match &session.error {
                Some(error) => {
                    log::info!("session {}: ended after {seconds} s: {error}", session.id)
                }
                None => log::info!("session {}: ended after {seconds} s", session.id),
            }
            (self.news)(News::Ended {
                session: session.id,
                peer: session.peer,
                run: &session.run,
                lasted: session.since.elapsed(),
                error: session.error.as_ref(),
            });
            self.outcome.error = session.error;
        }
    }

    fn shut_down(&mut self) {
        self.outcome.interrupted = true;
        let refusal = Refusal::new(4, "server-stopped", "the server was told to stop");
        for session in &mut self.sessions {
            session.feed(&mut self.shared, ServerInput::Shutdown(refusal.clone()));
        }
        self.reap();
    }

    /// Closes the ports and lets the last words leave.
    async fn farewell(mut self) -> ServeOutcome {
        self.listeners.abort_all();
        self.sessions.clear();
        let last_words = async { while self.links.join_next().await.is_some() {} };
        if timeout(FAREWELL, last_words).await.is_err() {
            log::debug!("a control connection did not close in time");
        }
        self.outcome
    }
}
