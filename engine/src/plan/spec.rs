//! What was typed, before any rule is applied.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use super::{
    CloseKind, Engine, Family, HostPort, ProbeUse, Proto, Receive, SourcePorts, Test, Tuning,
    TypedHost, Wait, ZeroCopy,
};
use super::{DEFAULT_PORT, MAX_UDP_BYTES};
use crate::units::{ParseError, PerSecond, parse_size, print_size};

/// A message size, or the sizes of a request and its response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SizeSpec {
    /// Message or request, bytes.
    pub request: u64,
    /// Response, bytes, where it was typed; otherwise as large as the request.
    pub response: Option<u64>,
}

impl SizeSpec {
    /// Whether any of its sizes is more than a datagram holds.
    pub fn exceeds_udp(&self) -> bool {
        self.request > MAX_UDP_BYTES || self.response.is_some_and(|size| size > MAX_UDP_BYTES)
    }
}

impl FromStr for SizeSpec {
    type Err = ParseError;

    /// Reads `64`, `16K` or `64/1K`.
    fn from_str(text: &str) -> Result<SizeSpec, ParseError> {
        match text.split_once('/') {
            None => Ok(SizeSpec {
                request: parse_size(text)?,
                response: None,
            }),
            Some((request, response)) => Ok(SizeSpec {
                request: parse_size(request)?,
                response: Some(parse_size(response)?),
            }),
        }
    }
}

impl fmt::Display for SizeSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&print_size(self.request))?;
        match self.response {
            Some(response) => write!(f, "/{}", print_size(response)),
            None => Ok(()),
        }
    }
}

/// Everything that can be typed for `run`. Nothing is a default: an empty list and none mean
/// that it was not typed. Sizes are bytes, times nanoseconds, bitrates bits per second.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Spec {
    /// Server; none runs both sides in this process.
    pub host: Option<TypedHost>,
    /// Port of the server, where it was typed apart from the host.
    pub port: Option<u16>,
    /// Dimension: transports.
    pub protos: Vec<Proto>,
    /// Dimension: tests.
    pub tests: Vec<Test>,
    /// Dimension: message sizes.
    pub sizes: Vec<SizeSpec>,
    /// Dimension: flows per direction.
    pub flows: Vec<u32>,
    /// Dimension: workers of both sides.
    pub workers: Vec<u32>,
    /// Workers of the client, in place of `workers`.
    pub client_workers: Option<u32>,
    /// Workers of the server, in place of `workers`.
    pub server_workers: Option<u32>,
    /// Dimension: requests outstanding or sends in flight per flow.
    pub depths: Vec<u32>,
    /// Dimension: messages or transactions per second.
    pub rates: Vec<PerSecond>,
    /// Dimension: payload bits per second over all flows of a direction.
    pub bitrates: Vec<u64>,
    /// Dimension: address families.
    pub families: Vec<Family>,
    /// Length of the window.
    pub duration: Option<u64>,
    /// Payload bytes after which a sample ends.
    pub bytes: Option<u64>,
    /// Messages or transactions after which a sample ends.
    pub transactions: Option<u64>,
    /// Uncounted time at the start.
    pub warmup: Option<u64>,
    /// Timed repetitions of each case.
    pub samples: Option<u32>,
    /// Interval of the reports.
    pub interval: Option<u64>,
    /// CPUs of both sides.
    pub cpus: Vec<u32>,
    /// CPUs of the client, in place of `cpus`.
    pub client_cpus: Vec<u32>,
    /// CPUs of the server, in place of `cpus`.
    pub server_cpus: Vec<u32>,
    /// Source address of the client's flows.
    pub bind: Option<IpAddr>,
    /// Interface of the client's flows.
    pub device: Option<String>,
    /// Congestion control.
    pub congestion: Option<String>,
    /// Maximum segment size.
    pub mss: Option<u32>,
    /// Send and receive buffer.
    pub window: Option<u64>,
    /// Receive buffer, beyond the system's limit.
    pub rcvbuf: Option<u64>,
    /// Pacing by the kernel, per flow.
    pub pacing: Option<u64>,
    /// TCP_NODELAY.
    pub nodelay: Option<bool>,
    /// How connections end.
    pub close: Option<CloseKind>,
    /// DSCP code point.
    pub dscp: Option<u8>,
    /// Source ports of the client's flows.
    pub source_ports: Option<SourcePorts>,
    /// What the receiver does with the payload.
    pub receive: Option<Receive>,
    /// Messages per send operation.
    pub coalesce: Option<u32>,
    /// How streams are sent without copies.
    pub zerocopy: Option<ZeroCopy>,
    /// UDP segments per send operation.
    pub gso: Option<u32>,
    /// Merge datagrams at the receiver.
    pub gro: bool,
    /// Datagrams larger than the path's MTU may be fragmented.
    pub fragment: bool,
    /// How workers of both sides wait.
    pub wait: Option<Wait>,
    /// How the client's workers wait, in place of `wait`.
    pub client_wait: Option<Wait>,
    /// How the server's workers wait, in place of `wait`.
    pub server_wait: Option<Wait>,
    /// What drives the sockets of both sides.
    pub engine: Option<Engine>,
    /// What drives the client's sockets, in place of `engine`.
    pub client_engine: Option<Engine>,
    /// What drives the server's sockets, in place of `engine`.
    pub server_engine: Option<Engine>,
    /// Busy polling of both sides, microseconds.
    pub busy_poll: Option<u32>,
    /// Busy polling of the client, in place of `busy_poll`.
    pub client_busy_poll: Option<u32>,
    /// Busy polling of the server, in place of `busy_poll`.
    pub server_busy_poll: Option<u32>,
    /// Time between a complete request and its answer.
    pub think: Option<u64>,
    /// Check the payload.
    pub verify: bool,
    /// Plain buffers and a wake-up per arrival.
    pub as_application: bool,
    /// What of the engine's own choices is given.
    pub tuning: Tuning,
    /// What of the kernel is watched.
    pub probes: Option<ProbeUse>,
    /// A tracepoint that the probes leave alone (a diagnostic).
    pub probes_without: Option<String>,
    /// How long to wait for the server to listen.
    pub wait_for_server: Option<u64>,
    /// After this long a UDP request counts as lost.
    pub timeout: Option<u64>,
    /// How long nothing may arrive from the other side.
    pub peer_timeout: Option<u64>,
    /// Free text of the user.
    pub title: Option<String>,
}

impl Spec {
    /// Whether this is the tour: no host and no dimension typed.
    pub fn is_tour(&self) -> bool {
        self.host.is_none()
            && self.protos.is_empty()
            && self.tests.is_empty()
            && self.sizes.is_empty()
            && self.flows.is_empty()
            && self.workers.is_empty()
            && self.client_workers.is_none()
            && self.server_workers.is_none()
            && self.depths.is_empty()
            && self.rates.is_empty()
            && self.bitrates.is_empty()
            && self.families.is_empty()
    }

    /// The server with its port.
    pub fn host_port(&self) -> Option<HostPort> {
        let typed = self.host.as_ref()?;
        let port = typed.port.or(self.port).unwrap_or(DEFAULT_PORT);
        Some(HostPort {
            host: typed.host.clone(),
            port,
        })
    }
}
