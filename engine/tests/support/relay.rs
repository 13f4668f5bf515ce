//! A relay between a client and a server that drops, duplicates and reorders datagrams by a
//! script, and says what it did. TCP connections to the same port pass through unharmed, so a
//! whole session goes through it.
//!
//! A client that learns the server's port from the server looks for it at the relay's address, so
//! the relay listens on the server's port at another address (on loopback, the server at
//! `127.0.0.1` and the relay at `127.0.0.2`).

mod harm;
mod tcp;

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use ringperf::traffic::udp::{Header, Phase};

pub use harm::{Counts, Harm};
use harm::{Lane, Tally};

/// How often a thread looks at what it holds and whether it is to stop.
const TICK: Duration = Duration::from_millis(2);

/// Receive buffers, so that a burst is not lost where nobody counts it.
const RECEIVE_BUFFER: usize = 16 << 20;

/// Says of a payload whether it is subject to the script; every other passes.
pub type IsData = Arc<dyn Fn(&[u8]) -> bool + Send + Sync>;

/// Datagrams with a header of the given phase.
pub fn of_phase(phase: Phase) -> IsData {
    Arc::new(move |payload| Header::decode(payload).is_some_and(|header| header.phase == phase))
}

/// What is done to the datagrams of each direction, per client address.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Script {
    /// From clients to the server.
    pub to_server: Harm,
    /// From the server to clients.
    pub to_client: Harm,
}

/// What was done so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Did {
    /// From clients to the server.
    pub to_server: Counts,
    /// From the server to clients.
    pub to_client: Counts,
}

/// What the threads of a relay share.
struct Shared {
    server: SocketAddr,
    script: Script,
    is_data: IsData,
    to_server: Arc<Tally>,
    to_client: Arc<Tally>,
    stop: Arc<AtomicBool>,
    backs: Mutex<Vec<JoinHandle<()>>>,
}

/// A relay at work; ends on drop.
pub struct Relay {
    address: SocketAddr,
    shared: Arc<Shared>,
    front: Option<JoinHandle<()>>,
    tcp: Option<tcp::Proxy>,
}

impl Relay {
    /// Relays between `listen` (port 0 takes a free one) and `server`. Its threads and sockets
    /// belong to the namespace of the calling thread.
    pub fn start(
        listen: SocketAddr,
        server: SocketAddr,
        script: Script,
        is_data: IsData,
    ) -> io::Result<Relay> {
        let (listener, front) = bind_both(listen)?;
        let address = front.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let shared = Arc::new(Shared {
            server,
            script,
            is_data,
            to_server: Arc::default(),
            to_client: Arc::default(),
            stop: stop.clone(),
            backs: Mutex::default(),
        });
        let front = {
            let shared = shared.clone();
            std::thread::spawn(move || shared.run_front(&front))
        };
        let tcp = Some(tcp::Proxy::start(listener, server, stop)?);
        Ok(Relay {
            address,
            shared,
            front: Some(front),
            tcp,
        })
    }

    /// Where clients reach it.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it has done so far.
    pub fn did(&self) -> Did {
        Did {
            to_server: self.shared.to_server.counts(),
            to_client: self.shared.to_client.counts(),
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        drop(self.tcp.take());
        let backs = self
            .shared
            .backs
            .lock()
            .map(|mut backs| std::mem::take(&mut *backs));
        let threads = self
            .front
            .take()
            .into_iter()
            .chain(backs.unwrap_or_default());
        let panicked = threads.map(JoinHandle::join).filter(Result::is_err).count();
        if panicked > 0 && !std::thread::panicking() {
            panic!("{panicked} threads of the relay panicked");
        }
    }
}

/// Binds TCP and UDP to the same port.
fn bind_both(listen: SocketAddr) -> io::Result<(TcpListener, UdpSocket)> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let listener = TcpListener::bind(listen)?;
        match UdpSocket::bind(listener.local_addr()?) {
            Ok(front) => return prepared(front).map(|front| (listener, front)),
            Err(_) if listen.port() == 0 && attempts < 20 => {}
            Err(error) => return Err(error),
        }
    }
}

/// With a receive buffer as large as this process may have, and a time-out for the ticks.
fn prepared(socket: UdpSocket) -> io::Result<UdpSocket> {
    if setsockopt(&socket, sockopt::RcvBufForce, &RECEIVE_BUFFER).is_err() {
        setsockopt(&socket, sockopt::RcvBuf, &RECEIVE_BUFFER)?;
    }
    socket.set_read_timeout(Some(TICK))?;
    Ok(socket)
}

impl Shared {
    fn stopping(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// From clients to the server, until the stop.
    fn run_front(self: &Arc<Shared>, front: &UdpSocket) {
        let mut clients: HashMap<SocketAddr, (UdpSocket, Lane)> = HashMap::new();
        let mut payload = vec![0; 65_536];
        while !self.stopping() {
            // Time-outs and the ICMP errors of earlier sends alike: look around, then go on.
            if let Ok((len, from)) = front.recv_from(&mut payload) {
                let payload = &payload[..len];
                let (back, lane) = clients
                    .entry(from)
                    .or_insert_with(|| self.new_client(front, from));
                lane.pass(payload, (self.is_data)(payload), |out| send(back.send(out)));
            }
            for (back, lane) in clients.values_mut() {
                lane.tick(|out| send(back.send(out)));
            }
        }
    }

    /// A socket towards the server for a client, and the thread that takes its answers back.
    fn new_client(self: &Arc<Shared>, front: &UdpSocket, client: SocketAddr) -> (UdpSocket, Lane) {
        let any: SocketAddr = match self.server {
            SocketAddr::V4(_) => (std::net::Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (std::net::Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let back = UdpSocket::bind(any)
            .and_then(prepared)
            .expect("a socket of our own");
        back.connect(self.server)
            .expect("the server's address has a route");
        let front = front.try_clone().expect("a descriptor");
        let answers = back.try_clone().expect("a descriptor");
        let shared = self.clone();
        let thread = std::thread::spawn(move || shared.run_back(&answers, &front, client));
        self.backs.lock().expect("no holder panics").push(thread);
        (
            back,
            Lane::new(self.script.to_server, self.to_server.clone()),
        )
    }

    /// From the server to one client, until the stop.
    fn run_back(&self, back: &UdpSocket, front: &UdpSocket, client: SocketAddr) {
        let mut lane = Lane::new(self.script.to_client, self.to_client.clone());
        let mut payload = vec![0; 65_536];
        while !self.stopping() {
            if let Ok(len) = back.recv(&mut payload) {
                let payload = &payload[..len];
                let data = (self.is_data)(payload);
                lane.pass(payload, data, |out| send(front.send_to(out, client)));
            }
            lane.tick(|out| send(front.send_to(out, client)));
        }
    }
}

/// Whether the kernel took a datagram.
fn send(result: io::Result<usize>) -> bool {
    result.is_ok()
}
