//! The server's shell: one thread, one loop, which owns the sessions and their crews. Tasks
//! beside it only read and write sockets and send it events.

mod greet;
mod limits;
mod listen;
mod serve;
mod sessions;
mod udp;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::net::TcpStream;

use super::frame::Decoder;
use super::hello::{TcpHello, UdpRequest};
use super::link::LinkEvent;
use super::wire::Refusal;

pub use serve::serve;

/// How to serve.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// Addresses to listen on; empty is every address of both families.
    pub bind: Vec<IpAddr>,
    /// Port of the control connections, and of the flows unless `data_ports` says otherwise;
    /// 0 is the kernel's choice.
    pub port: u16,
    /// The flows' own port: the first free one of an inclusive range.
    pub data_ports: Option<(u16, u16)>,
    /// Serve one session, then return.
    pub one_off: bool,
    /// What is allowed.
    pub limits: Limits,
    /// Version of ringperf.
    pub version: String,
    /// Boot identifier of this kernel; empty where unknown.
    pub boot: String,
}

/// What a server allows.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Sessions at once.
    pub max_sessions: u32,
    /// Longest traffic of one sample, warm-up included.
    pub max_duration: Option<Duration>,
    /// Most flows of one case, all groups together.
    pub max_flows: Option<u32>,
    /// Most payload bits per second of one case in each direction; unpaced cases are refused.
    pub max_bitrate: Option<u64>,
    /// Networks of clients; empty allows all.
    pub allow: Vec<(IpAddr, u8)>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            max_sessions: 1,
            max_duration: None,
            max_flows: None,
            max_bitrate: None,
            allow: Vec::new(),
        }
    }
}

/// What a server tells while it serves.
#[derive(Debug)]
pub enum News<'a> {
    /// It accepts connections at this address of the control listener.
    Listening(SocketAddr),
    /// It sent a client away.
    Refused {
        /// The client.
        peer: SocketAddr,
        /// Why.
        refusal: &'a Refusal,
    },
    /// A session began.
    Began {
        /// Its number, from 1.
        session: u64,
        /// The client.
        peer: SocketAddr,
        /// The client's version.
        version: &'a str,
        /// UUID of the client's run.
        run: &'a str,
    },
    /// A session ended.
    Ended {
        /// Its number.
        session: u64,
        /// The client.
        peer: SocketAddr,
        /// UUID of the client's run.
        run: &'a str,
        /// How long it lasted.
        lasted: Duration,
        /// Why, where that was not the client's wish.
        error: Option<&'a Refusal>,
    },
}

/// What a server did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ServeOutcome {
    /// Sessions that were welcomed.
    pub sessions: u64,
    /// Whether the wish to stop ended it.
    pub interrupted: bool,
    /// What ended the last session, where that was not the client's wish.
    pub error: Option<Refusal>,
}

/// A client's hello, read and of this protocol.
#[derive(Debug)]
struct Hello {
    version: String,
    run: String,
    peer_timeout_ns: u64,
    boot: String,
}

/// What the tasks report to the loop.
enum Event {
    /// A control connection said hello.
    Hello {
        stream: TcpStream,
        decoder: Decoder,
        hello: Hello,
    },
    /// A TCP flow said hello.
    Flow {
        stream: TcpStream,
        hello: TcpHello,
        port: usize,
    },
    /// A UDP flow said hello or proved its address.
    Datagram {
        request: UdpRequest,
        peer: SocketAddr,
        local: SocketAddr,
        port: usize,
    },
    /// News of a session's control connection.
    Link { session: u64, event: LinkEvent },
}
