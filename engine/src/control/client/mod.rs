//! The client's shell.

mod connect;
mod open;
mod sample;

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::crew::FlowKey;
use super::flows::{self, FlowSpec};
use super::link::{Link, LinkEvent};
use super::session::ClientSession;
use super::wire::{Message, Refusal};
use crate::plan::{Case, Family, Options, Proto};
use crate::record::{HostFacts, Progress, SideReport};
use crate::sys::socket::path_mtu;

/// Time for a goodbye.
const FAREWELL: Duration = Duration::from_millis(500);

/// Which server, and who asks.
#[derive(Clone, Debug)]
pub struct ConnectConfig {
    /// Name or address.
    pub host: String,
    /// Port of the control connection.
    pub port: u16,
    /// Family of the control connection.
    pub family: Family,
    /// Tries again for so long while nobody listens or the name does not resolve.
    pub wait_for_server: Option<Duration>,
    /// Source address.
    pub bind: Option<IpAddr>,
    /// Device of the route.
    pub device: Option<String>,
    /// How long nothing at all may arrive, nanoseconds.
    pub peer_timeout_ns: u64,
    /// UUID of the run.
    pub run: String,
    /// Version of ringperf.
    pub version: String,
    /// Boot identifier of this kernel; empty where unknown.
    pub boot: String,
    /// Facts of this host.
    pub facts: HostFacts,
}

impl ConnectConfig {
    /// Options of sockets that are no flow's.
    fn options(&self) -> Options {
        Options {
            bind: self.bind,
            device: self.device.clone(),
            ..Options::default()
        }
    }
}

/// One sample of one case.
#[derive(Clone, Debug)]
pub struct SampleRequest {
    /// Number of the case in the plan, from 0.
    pub case_index: u32,
    /// Number of the sample, from 1.
    pub sample: u32,
    /// The case, with its sizes resolved.
    pub case: Case,
    /// CPUs of the client's workers; empty lets the client's factory choose.
    pub client_cpus: Vec<u32>,
    /// CPUs of the server's workers; empty lets the server choose.
    pub server_cpus: Vec<u32>,
}

/// What a sample gave, however it ended.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SampleOutcome {
    /// The client's report; none where no crew was made.
    pub client: Option<SideReport>,
    /// The server's report; none where it did not arrive.
    pub server: Option<SideReport>,
    /// The server's intervals, which are all that is known of it if it dies.
    pub server_progress: Vec<Progress>,
    /// The client's intervals, without their histograms, which the report has whole.
    pub client_progress: Vec<Progress>,
    /// Why the sample failed, with the exit code.
    pub error: Option<Refusal>,
    /// Where the two sides see different addresses for a flow: both.
    pub path_translated: Option<String>,
    /// The user stopped it.
    pub interrupted: bool,
    /// Its traffic began.
    pub started: bool,
}

/// A session with a server.
#[derive(Debug)]
pub struct Client {
    config: ConnectConfig,
    link: Link,
    inbox: mpsc::Receiver<LinkEvent>,
    tasks: JoinSet<()>,
    machine: ClientSession,
    clock: Instant,
    local: SocketAddr,
    peer: SocketAddr,
    addresses: Vec<SocketAddr>,
    data_port: u16,
    server_version: String,
    server_facts: HostFacts,
    fixed_ports: HashMap<(Proto, FlowKey), u16>,
}

impl Client {
    /// Connects and says hello. Fails within 5 s, naming the address and the cause, or when
    /// `wait_for_server` is over; at once where the server refuses or `stop` comes.
    pub async fn connect(
        config: ConnectConfig,
        stop: impl Future<Output = ()>,
    ) -> Result<Client, super::ControlError> {
        tokio::select! {
            client = connect::establish(config) => client,
            () = stop => Err(super::ControlError::Interrupted),
        }
    }

    /// Facts of the server's host.
    pub fn server_facts(&self) -> &HostFacts {
        &self.server_facts
    }

    /// Version of the server.
    pub fn server_version(&self) -> &str {
        &self.server_version
    }

    /// Both ends of the control connection as the client sees them: own, then the server's.
    pub fn addresses(&self) -> (SocketAddr, SocketAddr) {
        (self.local, self.peer)
    }

    /// Whether the session still stands, so that a further sample makes sense.
    pub fn alive(&self) -> bool {
        self.machine.alive()
    }

    /// Where flows of a family go.
    pub fn target(&self, family: Family) -> Result<SocketAddr, Refusal> {
        let fits = |address: &SocketAddr| match family {
            Family::Any => true,
            Family::V4 => address.is_ipv4(),
            Family::V6 => address.is_ipv6(),
        };
        let mut candidates = std::iter::once(&self.peer).chain(&self.addresses);
        let found = candidates.find(|address| fits(address)).copied();
        let mut target = found.ok_or_else(|| {
            let name = if family == Family::V4 { "IPv4" } else { "IPv6" };
            let text = format!("--family: {} has no {name} address", self.config.host);
            Refusal::new(2, "family", text)
        })?;
        target.set_port(self.data_port);
        Ok(target)
    }

    /// MTU of the path to the server, bytes, as the kernel knows it now; none where there is no
    /// route.
    pub fn path_mtu(&self, family: Family) -> Option<u32> {
        let target = self.target(family).ok()?;
        let spec = FlowSpec {
            target,
            port: 0,
            options: self.config.options(),
        };
        let socket = flows::udp_socket(&spec).ok()?;
        path_mtu(socket.as_fd()).ok()
    }

    /// Runs one sample to its end, whatever that is. `on_progress` hears each side's intervals.
    /// When `stop` comes, both sides stop and what they have is collected within 2 s.
    pub async fn sample(
        &mut self,
        request: SampleRequest,
        factory: &mut dyn super::crew::CrewFactory,
        on_progress: &mut dyn FnMut(super::crew::Side, &Progress),
        stop: impl Future<Output = ()>,
    ) -> SampleOutcome {
        sample::run(self, request, factory, on_progress, stop).await
    }

    /// Ends the session.
    pub async fn bye(mut self) {
        self.link.send(Message::Bye);
        let answer = async {
            while let Some(LinkEvent::Message(message)) = self.inbox.recv().await {
                if message == Message::Bye {
                    return;
                }
            }
        };
        if timeout(FAREWELL, answer).await.is_err() {
            log::debug!("the server did not say goodbye");
        }
        drop(self.link);
        let closed = async { while self.tasks.join_next().await.is_some() {} };
        if timeout(FAREWELL, closed).await.is_err() {
            log::debug!("the control connection did not close in time");
        }
    }

    /// Nanoseconds since the session began.
    fn now(&self) -> u64 {
        self.clock.elapsed().as_nanos() as u64
    }
}
