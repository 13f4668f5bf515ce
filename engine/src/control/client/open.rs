//! Opening a sample's flows, many at once and in any order.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, UdpSocket};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use crate::control::crew::FlowKey;
use crate::control::flows::{FlowSpec, drain, tcp_socket, udp_socket};
use crate::control::hello::{PROBE, REPLY, Reply, TcpHello, UdpRequest, Verdict, canonical};
use crate::control::session::terms::flow_keys;
use crate::control::wire::Refusal;
use crate::plan::{Case, Proto, SourcePorts};

/// Flows that open at once.
const AT_ONCE: usize = 256;
/// Time for one flow.
const PATIENCE: Duration = Duration::from_secs(5);
/// A UDP hello is repeated after this.
const REPEAT: Duration = Duration::from_millis(200);

/// Source ports that stay the same from sample to sample.
pub(super) type FixedPorts = HashMap<(Proto, FlowKey), u16>;

/// A flow that the server knows.
pub(super) struct Opened {
    pub key: FlowKey,
    pub socket: OwnedFd,
    local: SocketAddr,
    peer: SocketAddr,
    /// Both addresses as the server sees them: (client, server).
    seen: Option<(SocketAddr, SocketAddr)>,
}

/// All flows of a sample on their way.
pub(super) struct Opener {
    proto: Proto,
    total: usize,
    tasks: JoinSet<Result<Opened, Refusal>>,
    opened: Vec<Opened>,
    ready: watch::Sender<bool>,
}

impl Opener {
    /// Starts to open every flow of the case towards `target`.
    pub(super) fn start(
        case: &Case,
        target: SocketAddr,
        cookie: u64,
        fixed: &FixedPorts,
    ) -> Result<Opener, Refusal> {
        let keys = flow_keys(case);
        let (ready, _) = watch::channel(false);
        let permits = Rc::new(Semaphore::new(AT_ONCE));
        let mut tasks = JoinSet::new();
        for key in &keys {
            let port = source_port(case, *key, fixed)?;
            let spec = FlowSpec {
                target,
                port,
                options: case.options.clone(),
            };
            let (permits, key, ready) = (permits.clone(), *key, ready.subscribe());
            let proto = case.proto;
            tasks.spawn_local(async move {
                let permit = permits.acquire().await;
                let result = match proto {
                    Proto::Tcp => open_tcp(&spec, cookie, key).await,
                    Proto::Udp => open_udp(&spec, cookie, key, ready).await,
                };
                drop(permit);
                result
            });
        }
        Ok(Opener {
            proto: case.proto,
            total: keys.len(),
            tasks,
            opened: Vec::new(),
            ready,
        })
    }

    /// Waits for the next flow; never returns once all are there. Cancel-safe.
    pub(super) async fn next(&mut self) -> Result<(), Refusal> {
        match self.tasks.join_next().await {
            Some(Ok(result)) => {
                self.opened.push(result?);
                Ok(())
            }
            Some(Err(error)) => {
                let text = format!("opening a flow ended unexpectedly: {error}");
                Err(Refusal::new(4, "flow", text))
            }
            None => std::future::pending().await,
        }
    }

    /// The server has every flow: what is not acknowledged yet counts as such.
    pub(super) fn server_ready(&self) {
        self.ready.send_replace(true);
    }

    /// Whether every flow may be handed over. UDP waits for the server's ready, after which no
    /// handshake's datagram is under way.
    pub(super) fn complete(&self) -> bool {
        self.opened.len() == self.total && (self.proto == Proto::Tcp || *self.ready.borrow())
    }

    /// Source ports in force.
    pub(super) fn ports(&self) -> impl Iterator<Item = ((Proto, FlowKey), u16)> {
        let flows = self.opened.iter().filter(|opened| opened.key != PROBE);
        flows.map(|opened| ((self.proto, opened.key), opened.local.port()))
    }

    /// Where the sides see different addresses: both, of the first such flow.
    pub(super) fn translated(&self) -> Option<String> {
        self.opened.iter().find_map(Opened::translated)
    }

    /// The flows, in order, without datagrams left from the handshake.
    pub(super) fn into_flows(mut self) -> Vec<Opened> {
        self.opened.sort_by_key(|opened| opened.key);
        if self.proto == Proto::Tcp {
            return self.opened;
        }
        let clean = |opened: Opened| {
            let socket = std::net::UdpSocket::from(opened.socket);
            drain(&socket);
            Opened {
                socket: socket.into(),
                ..opened
            }
        };
        self.opened.into_iter().map(clean).collect()
    }
}

impl Opened {
    fn translated(&self) -> Option<String> {
        let (client, server) = self.seen?;
        let same = |a: SocketAddr, b: SocketAddr| a.ip() == b.ip() && a.port() == b.port();
        if same(client, self.local) && same(server, self.peer) {
            return None;
        }
        Some(format!(
            "the path translates addresses: the client sees {} -> {}, the server sees {client} -> \
             {server}",
            self.local, self.peer
        ))
    }
}

fn source_port(case: &Case, key: FlowKey, fixed: &FixedPorts) -> Result<u16, Refusal> {
    match case.options.source_ports {
        SourcePorts::Fresh => Ok(0),
        _ if key == PROBE => Ok(0),
        SourcePorts::Fixed => Ok(fixed.get(&(case.proto, key)).copied().unwrap_or(0)),
        SourcePorts::Range { first, last } => {
            let index = u64::from(key.group) * u64::from(case.flows) + u64::from(key.flow);
            let port = u64::from(first) + index;
            if port > u64::from(last) {
                let flows = u64::from(case.flows) * case.groups.len() as u64;
                let text = format!(
                    "--source-ports {first}-{last} has fewer ports than the {flows} flows"
                );
                return Err(Refusal::new(2, "source-ports", text));
            }
            Ok(port as u16)
        }
    }
}

async fn open_tcp(spec: &FlowSpec, cookie: u64, key: FlowKey) -> Result<Opened, Refusal> {
    let socket = TcpSocket::from_std_stream(tcp_socket(spec)?.into());
    let opening = async {
        let mut stream = socket.connect(spec.target).await?;
        stream.write_all(&TcpHello { cookie, key }.encode()).await?;
        let mut bytes = [0; REPLY];
        stream.read_exact(&mut bytes).await?;
        let addresses = (stream.local_addr()?, stream.peer_addr()?);
        Ok::<_, io::Error>((stream.into_std()?, bytes, addresses))
    };
    let (stream, bytes, (local, peer)) = match timeout(PATIENCE, opening).await {
        Ok(Ok(opened)) => opened,
        Ok(Err(error)) => return Err(flow_failed(spec, key, &error)),
        Err(_) => return Err(no_answer(spec, key, None)),
    };
    let reply = Reply::decode(&bytes).filter(|reply| reply.key == key);
    let reply = reply.ok_or_else(|| another_server(spec))?;
    judge(spec, key, reply.verdict)?;
    Ok(Opened {
        key,
        socket: stream.into(),
        local: canonical(local),
        peer: canonical(peer),
        seen: Some((reply.client, reply.server)),
    })
}

async fn open_udp(
    spec: &FlowSpec,
    cookie: u64,
    key: FlowKey,
    mut ready: watch::Receiver<bool>,
) -> Result<Opened, Refusal> {
    let socket = UdpSocket::from_std(udp_socket(spec)?);
    let socket = socket.map_err(|error| flow_failed(spec, key, &error))?;
    let deadline = Instant::now() + PATIENCE;
    let mut request = UdpRequest {
        cookie,
        key,
        nonce: None,
    };
    let mut cause = None;
    let seen = 'asking: loop {
        if Instant::now() >= deadline {
            return Err(no_answer(spec, key, cause));
        }
        if let Err(error) = socket.send(&request.encode()).await {
            cause = Some(error);
        }
        let repeat = sleep_until(Instant::now() + REPEAT);
        tokio::pin!(repeat);
        loop {
            let mut bytes = [0; REPLY + 1];
            let received = tokio::select! {
                received = socket.recv(&mut bytes) => received,
                () = &mut repeat => continue 'asking,
                Ok(_) = ready.wait_for(|ready| *ready) => break 'asking None,
            };
            match received {
                Ok(length) => match Reply::decode(&bytes[..length]) {
                    Some(reply) if reply.key == key => match reply.verdict {
                        Verdict::Nonce(nonce) if request.nonce != Some(nonce) => {
                            request.nonce = Some(nonce);
                            continue 'asking;
                        }
                        // The answer to a repeated hello.
                        Verdict::Nonce(_) => {}
                        Verdict::Opened => break 'asking Some((reply.client, reply.server)),
                        verdict => judge(spec, key, verdict)?,
                    },
                    _ => {}
                },
                // An ICMP error: the next hello may fare better.
                Err(error) => cause = Some(error),
            }
        }
    };
    let addresses = socket
        .local_addr()
        .and_then(|local| Ok((local, socket.peer_addr()?)));
    let (local, peer) = addresses.map_err(|error| flow_failed(spec, key, &error))?;
    let socket = socket
        .into_std()
        .map_err(|error| flow_failed(spec, key, &error))?;
    let (local, peer) = (canonical(local), canonical(peer));
    Ok(Opened {
        key,
        socket: socket.into(),
        local,
        peer,
        seen,
    })
}

fn judge(spec: &FlowSpec, key: FlowKey, verdict: Verdict) -> Result<(), Refusal> {
    match verdict {
        Verdict::Opened | Verdict::Nonce(_) => Ok(()),
        Verdict::UnknownCookie => Err(another_server(spec)),
        Verdict::Unexpected => {
            let text = format!("the server does not expect {}", describe(spec, key));
            Err(Refusal::new(4, "flow", text))
        }
    }
}

fn another_server(spec: &FlowSpec) -> Refusal {
    let text = format!(
        "a flow to {} reached another server than the control connection did: a service with two \
         back ends; address one server, or make the service stick to one",
        spec.target
    );
    Refusal::new(4, "another-server", text)
}

fn flow_failed(spec: &FlowSpec, key: FlowKey, error: &io::Error) -> Refusal {
    let flow = describe(spec, key);
    match error.kind() {
        io::ErrorKind::AddrNotAvailable | io::ErrorKind::AddrInUse => {
            let text = format!(
                "no source port for {flow}: {error}; widen net.ipv4.ip_local_port_range, or with \
                 --source-ports fixed use --close rst, which leaves no TIME_WAIT"
            );
            Refusal::new(5, "source-port", text)
        }
        io::ErrorKind::UnexpectedEof => {
            let text = format!(
                "{flow} was closed without an answer; the server ended, or another service is \
                 behind the same address"
            );
            Refusal::new(4, "flow", text)
        }
        _ => Refusal::new(4, "flow", format!("cannot open {flow}: {error}")),
    }
}

fn no_answer(spec: &FlowSpec, key: FlowKey, cause: Option<io::Error>) -> Refusal {
    let flow = describe(spec, key);
    let cause = cause.map(|cause| format!(" ({cause})")).unwrap_or_default();
    let text = format!(
        "no answer to {flow} within 5 s{cause}; a firewall between the two sides may drop it"
    );
    Refusal::new(4, "flow", text)
}

fn describe(spec: &FlowSpec, key: FlowKey) -> String {
    if key == PROBE {
        return format!("the first flow to {}", spec.target);
    }
    format!(
        "flow {} of group {} to {}",
        key.flow, key.group, spec.target
    )
}
