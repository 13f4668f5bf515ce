//! A server on a thread of its own, and clients on the test's.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::fake::{Factory, Script};
use crate::control::client::{Client, ConnectConfig, SampleOutcome, SampleRequest};
use crate::control::error::ControlError;
use crate::control::frame::{Decoder, encode};
use crate::control::runtime::{Choice, block_on};
use crate::control::server::{Limits, News, ServeConfig, ServeOutcome, serve};
use crate::control::stop::{self, Stop, StopHandle};
use crate::control::wire::{Message, PROTOCOL};
use crate::plan::{Case, Family};
use crate::record::HostFacts;

pub(super) struct Server {
    pub address: SocketAddr,
    pub alive: Arc<AtomicI64>,
    stop: StopHandle,
    kill: StopHandle,
    thread: Option<JoinHandle<Option<ServeOutcome>>>,
}

pub(super) fn config() -> ServeConfig {
    ServeConfig {
        bind: vec![Ipv4Addr::LOCALHOST.into()],
        port: 0,
        data_ports: None,
        one_off: false,
        limits: Limits::default(),
        version: "1.2.3".into(),
        boot: "boot".into(),
    }
}

pub(super) fn server(config: ServeConfig, script: Script, choice: Choice) -> Server {
    let (stop, stopped) = stop::channel();
    let (kill, killed) = stop::channel();
    let (sender, receiver) = mpsc::channel();
    let alive: Arc<AtomicI64> = Arc::default();
    let mut factory = Factory::new(script);
    factory.alive = alive.clone();
    let thread = std::thread::spawn(move || {
        let facts = HostFacts {
            hostname: "server".into(),
            ..HostFacts::default()
        };
        block_on(choice, |_| async move {
            let mut ready = |news: News<'_>| {
                if let News::Listening(address) = news {
                    sender.send(address).unwrap();
                }
            };
            let facts = |_| facts.clone();
            tokio::select! {
                outcome = serve(config, &mut factory, &facts, stopped.wait(), &mut ready) => {
                    Some(outcome.unwrap())
                }
                () = killed.wait() => None,
            }
        })
        .unwrap()
    });
    let address = receiver.recv_timeout(Duration::from_secs(5)).unwrap();
    Server {
        address,
        alive,
        stop,
        kill,
        thread: Some(thread),
    }
}

impl Server {
    pub(super) fn plain(script: Script) -> Server {
        server(config(), script, Choice::Auto)
    }

    /// Waits for its own end.
    pub(super) fn join(mut self) -> ServeOutcome {
        self.thread.take().unwrap().join().unwrap().unwrap()
    }

    pub(super) fn stop(self) -> ServeOutcome {
        self.stop.stop();
        self.join()
    }

    /// Ends it as a kill does: every socket is closed without a word.
    pub(super) fn kill(&self) {
        self.kill.stop();
    }

    /// Waits until no crew is left.
    pub(super) fn wait_free(&self, patience: Duration) {
        let deadline = Instant::now() + patience;
        while self.alive.load(Ordering::SeqCst) > 0 {
            assert!(Instant::now() < deadline, "a crew was not released in time");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill.stop();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !std::thread::panicking()
        {
            panic!("the server panicked");
        }
    }
}

pub(super) fn connect_config(address: SocketAddr) -> ConnectConfig {
    ConnectConfig {
        host: address.ip().to_string(),
        port: address.port(),
        family: Family::Any,
        wait_for_server: None,
        bind: None,
        device: None,
        peer_timeout_ns: 5_000_000_000,
        run: "run-uuid".into(),
        version: "1.2.3".into(),
        boot: "boot".into(),
        facts: HostFacts::default(),
    }
}

pub(super) fn request(case: Case) -> SampleRequest {
    SampleRequest {
        case_index: 0,
        sample: 1,
        case,
        client_cpus: vec![1],
        server_cpus: vec![],
    }
}

/// Connects, runs one sample of each case, says goodbye.
pub(super) fn samples(
    config: ConnectConfig,
    factory: &mut Factory,
    cases: Vec<Case>,
) -> Result<Vec<SampleOutcome>, ControlError> {
    block_on(Choice::Auto, |_| async move {
        let mut client = Client::connect(config, std::future::pending()).await?;
        let mut outcomes = Vec::new();
        for case in cases {
            let never = std::future::pending();
            let outcome = client
                .sample(request(case), &mut *factory, &mut |_, _| {}, never)
                .await;
            outcomes.push(outcome);
        }
        client.bye().await;
        Ok(outcomes)
    })
    .unwrap()
}

/// One sample, stopped by `stop`; the session is dropped without a goodbye.
pub(super) fn interrupted(
    config: ConnectConfig,
    factory: &mut Factory,
    case: Case,
    stop: &Stop,
) -> SampleOutcome {
    block_on(Choice::Auto, |_| async move {
        let mut client = Client::connect(config, std::future::pending())
            .await
            .unwrap();
        client
            .sample(request(case), factory, &mut |_, _| {}, stop.wait())
            .await
    })
    .unwrap()
}

/// A control connection by hand.
pub(super) struct Raw {
    pub stream: TcpStream,
    decoder: Decoder,
}

impl Raw {
    pub(super) fn connect(address: SocketAddr) -> Raw {
        let stream = TcpStream::connect(address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        Raw {
            stream,
            decoder: Decoder::new(),
        }
    }

    pub(super) fn hello(protocol: u32, peer_timeout_ns: u64) -> Message {
        Message::Hello {
            protocol,
            version: "9.9.9".into(),
            run: "raw".into(),
            peer_timeout_ns,
            boot: String::new(),
            host: Box::default(),
        }
    }

    /// A welcomed session.
    pub(super) fn session(address: SocketAddr, peer_timeout_ns: u64) -> Raw {
        let mut raw = Raw::connect(address);
        raw.send(&Raw::hello(PROTOCOL, peer_timeout_ns));
        assert!(matches!(raw.next(), Some(Message::Welcome { .. })));
        raw
    }

    pub(super) fn send(&mut self, message: &Message) {
        self.stream.write_all(&encode(message).unwrap()).unwrap();
    }

    /// The next message but heartbeats; `None` at the end.
    pub(super) fn next(&mut self) -> Option<Message> {
        let mut buffer = [0; 4096];
        loop {
            match self.decoder.next_message().unwrap() {
                Some(Message::Heartbeat) => continue,
                Some(message) => return Some(message),
                None => {}
            }
            match self.stream.read(&mut buffer) {
                Ok(0) => return None,
                Ok(length) => self.decoder.feed(&buffer[..length]),
                // A ring that this thread had may still interrupt it.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// A server that welcomes, accepts with the cookie 5, and says nothing more. Flows are to go to
/// `data_port`, or to its own, where nobody answers.
pub(super) fn mute_server(data_port: Option<u16>) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let welcome = Message::Welcome {
        protocol: PROTOCOL,
        version: "1".into(),
        data_port: data_port.unwrap_or(address.port()),
        host: Box::default(),
    };
    let thread = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut raw = Raw {
            stream,
            decoder: Decoder::new(),
        };
        assert!(matches!(raw.next(), Some(Message::Hello { .. })));
        raw.send(&welcome);
        assert!(matches!(raw.next(), Some(Message::Offer(_))));
        raw.send(&Message::Accepted {
            cookie: 5,
            cpus: vec![],
        });
        while raw.next().is_some() {}
    });
    (address, thread)
}
