//! From a name to a welcome.

use std::collections::HashMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use super::{Client, ConnectConfig};
use crate::control::error::ControlError;
use crate::control::flows::{FlowSpec, tcp_socket};
use crate::control::frame::{Decoder, encode, parse};
use crate::control::handshake::{Head, mismatch, next_frame};
use crate::control::hello::canonical;
use crate::control::link::Link;
use crate::control::session::ClientSession;
use crate::control::wire::{Message, PROTOCOL};
use crate::plan::{Family, HostPort};
use crate::record::HostFacts;

/// Time for the name and the connection.
const CONNECT: Duration = Duration::from_millis(3500);
/// Time for everything up to the welcome: an error within 5 s.
const WELCOME: Duration = Duration::from_millis(4700);
/// Pause between attempts while waiting for a server.
const RETRY: Duration = Duration::from_millis(250);

/// A server's welcome.
struct Welcome {
    version: String,
    data_port: u16,
    host: HostFacts,
}

/// Connects; tries again while waiting for the server.
pub(super) async fn establish(config: ConnectConfig) -> Result<Client, ControlError> {
    let deadline = config.wait_for_server.map(|wait| Instant::now() + wait);
    loop {
        match attempt(&config).await {
            Err(error @ ControlError::Unreachable { .. })
                if deadline.is_some_and(|deadline| Instant::now() < deadline) =>
            {
                log::debug!("{error}; trying again");
                sleep(RETRY).await;
            }
            result => return result,
        }
    }
}

async fn attempt(config: &ConnectConfig) -> Result<Client, ControlError> {
    let start = Instant::now();
    let unreachable = |cause: String| ControlError::Unreachable {
        server: typed(config),
        cause,
    };
    let resolving = timeout_at(start + CONNECT, resolve(config.host.clone(), config.port));
    let addresses = match resolving.await {
        Ok(Ok(addresses)) => addresses,
        Ok(Err(cause)) => return Err(unreachable(cause)),
        Err(_) => return Err(unreachable("the name server does not answer".to_string())),
    };
    let usable = candidates(config, &addresses).map_err(unreachable)?;
    let (mut stream, peer) = connect_any(config, &usable, start + CONNECT).await?;
    let mut decoder = Decoder::new();
    let greeting = timeout_at(start + WELCOME, greet(config, &mut stream, &mut decoder));
    let welcome = match greeting.await {
        Ok(Ok(welcome)) => welcome,
        Ok(Err(Greeting::Refused(error))) => return Err(error),
        Ok(Err(Greeting::Strange(cause))) => {
            let text = format!("{peer} does not speak ringperf's protocol: {cause}");
            return Err(unreachable(text));
        }
        Err(_) => {
            let text = format!("{peer} accepted the connection and said nothing; is it ringperf?");
            return Err(unreachable(text));
        }
    };
    assemble(config, stream, decoder, welcome, addresses)
        .map_err(|error| unreachable(format!("{peer}: {error}")))
}

/// Resolves on a thread of its own: a name server may take its time, and an abandoned look-up
/// must not hold up the end of the process.
async fn resolve(host: String, port: u16) -> Result<Vec<SocketAddr>, String> {
    let (sender, receiver) = oneshot::channel();
    let name = host.clone();
    let spawned = std::thread::Builder::new()
        .name("resolve".to_string())
        .spawn(move || {
            let found = (name.as_str(), port).to_socket_addrs().map(Vec::from_iter);
            if sender.send(found).is_err() {
                log::debug!("a name was resolved too late");
            }
        });
    spawned.map_err(|error| format!("cannot start a thread to resolve the name: {error}"))?;
    match receiver.await {
        Ok(Ok(addresses)) if addresses.is_empty() => Err("the name has no address".to_string()),
        Ok(Ok(addresses)) => Ok(addresses.into_iter().map(canonical).collect()),
        Ok(Err(error)) => Err(format!("the name does not resolve: {error}")),
        Err(_) => Err("the name was not resolved".to_string()),
    }
}

/// The addresses of the family asked for, and of the source address's.
fn candidates(
    config: &ConnectConfig,
    addresses: &[SocketAddr],
) -> Result<Vec<SocketAddr>, String> {
    let fits = |address: &&SocketAddr| {
        let family = match config.family {
            Family::Any => true,
            Family::V4 => address.is_ipv4(),
            Family::V6 => address.is_ipv6(),
        };
        family
            && config
                .bind
                .is_none_or(|bind| bind.is_ipv4() == address.is_ipv4())
    };
    let usable: Vec<_> = addresses.iter().filter(fits).copied().collect();
    if usable.is_empty() {
        let all: Vec<_> = addresses
            .iter()
            .map(|address| address.ip().to_string())
            .collect();
        return Err(format!(
            "no address of the family asked for (only {})",
            all.join(", ")
        ));
    }
    Ok(usable)
}

async fn connect_any(
    config: &ConnectConfig,
    addresses: &[SocketAddr],
    deadline: Instant,
) -> Result<(TcpStream, SocketAddr), ControlError> {
    let mut causes = Vec::new();
    for (index, address) in addresses.iter().enumerate() {
        let left = deadline.saturating_duration_since(Instant::now());
        let share = left / (addresses.len() - index) as u32;
        let spec = FlowSpec {
            target: *address,
            port: 0,
            options: config.options(),
        };
        let socket = TcpSocket::from_std_stream(tcp_socket(&spec)?.into());
        match timeout_at(Instant::now() + share, socket.connect(*address)).await {
            Ok(Ok(stream)) => return Ok((stream, *address)),
            Ok(Err(error)) => causes.push(format!("{address}: {}", explain(&error))),
            Err(_) => causes.push(format!(
                "{address}: no answer within {:.1} s",
                share.as_secs_f64()
            )),
        }
    }
    Err(ControlError::Unreachable {
        server: typed(config),
        cause: causes.join("; "),
    })
}

/// The server as typed, with its port.
fn typed(config: &ConnectConfig) -> String {
    let (host, port) = (config.host.clone(), config.port);
    HostPort { host, port }.to_string()
}

fn explain(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::ConnectionRefused => {
            format!("{error}: nobody listens there; start `ringperf serve` first")
        }
        _ => error.to_string(),
    }
}

enum Greeting {
    Refused(ControlError),
    Strange(String),
}

async fn greet(
    config: &ConnectConfig,
    stream: &mut TcpStream,
    decoder: &mut Decoder,
) -> Result<Welcome, Greeting> {
    let hello = Message::Hello {
        protocol: PROTOCOL,
        version: config.version.clone(),
        run: config.run.clone(),
        peer_timeout_ns: config.peer_timeout_ns,
        boot: config.boot.clone(),
        host: Box::new(config.facts.clone()),
    };
    let frame = encode(&hello).map_err(|error| Greeting::Strange(error.to_string()))?;
    stream
        .write_all(&frame)
        .await
        .map_err(|error| Greeting::Strange(error.to_string()))?;
    let body = next_frame(stream, decoder)
        .await
        .map_err(Greeting::Strange)?;
    let head = Head::parse(&body).map_err(Greeting::Strange)?;
    if head.kind == "welcome" && head.protocol != PROTOCOL {
        let server = (head.version.as_str(), head.protocol);
        let refusal = mismatch((&config.version, PROTOCOL), server);
        return Err(Greeting::Refused(refusal.into()));
    }
    match parse(&body).map_err(|error| Greeting::Strange(error.to_string()))? {
        Message::Welcome {
            version,
            data_port,
            host,
            ..
        } => Ok(Welcome {
            version,
            data_port,
            host: *host,
        }),
        Message::Refused(refusal) => Err(Greeting::Refused(refusal.into())),
        _ => Err(Greeting::Strange(format!("it answered {}", head.kind))),
    }
}

fn assemble(
    config: &ConnectConfig,
    stream: TcpStream,
    decoder: Decoder,
    welcome: Welcome,
    addresses: Vec<SocketAddr>,
) -> std::io::Result<Client> {
    let (local, peer) = (
        canonical(stream.local_addr()?),
        canonical(stream.peer_addr()?),
    );
    let (events, inbox) = mpsc::channel(1024);
    let mut tasks = JoinSet::new();
    let link = Link::start(stream, decoder, &mut tasks, events, |event| event);
    Ok(Client {
        config: config.clone(),
        link,
        inbox,
        tasks,
        machine: ClientSession::new(0, config.peer_timeout_ns),
        clock: std::time::Instant::now(),
        local,
        peer,
        addresses,
        data_port: match welcome.data_port {
            0 => peer.port(),
            own => own,
        },
        server_version: welcome.version,
        server_facts: welcome.host,
        fixed_ports: HashMap::new(),
    })
}
