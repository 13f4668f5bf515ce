//! What the command line asks for besides the plan: plain data, handed to the conductor.

use std::net::IpAddr;
use std::path::PathBuf;

use super::address::HostPort;
use super::case::Plan;
use crate::units::{Cidr, PortRange};

/// Where the result's document goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum JsonTarget {
    /// Standard output, in place of the table.
    Stdout,
    /// A file.
    Path(PathBuf),
}

/// `ringperf run`.
#[derive(Clone, PartialEq, Debug)]
pub struct RunInvocation {
    /// What to do.
    pub plan: Plan,
    /// The server; none runs both sides in this process over loopback.
    pub host: Option<HostPort>,
    /// Write the result's document there.
    pub json: Option<JsonTarget>,
    /// Write one JSON object per interval to standard output and the document last.
    pub json_stream: bool,
    /// Keep the run as UUID.json in this directory.
    pub output_dir: Option<PathBuf>,
    /// No line per interval.
    pub quiet: bool,
    /// Try to reach the server for this long, nanoseconds; none tries once.
    pub wait_for_server_ns: Option<u64>,
    /// The command line as typed, the program's name first.
    pub command: Vec<String>,
}

/// `ringperf serve`.
#[derive(Clone, PartialEq, Debug)]
pub struct ServeOptions {
    /// Addresses to listen on; empty is every address.
    pub bind: Vec<IpAddr>,
    /// Port of control and data; 0 lets the kernel choose.
    pub port: u16,
    /// Ports of the data, where they are not the control port.
    pub data_ports: Option<PortRange>,
    /// CPUs of the workers where the client names none; empty takes the allowed ones.
    pub cpus: Vec<u32>,
    /// End after one session.
    pub one_off: bool,
    /// Write a JSON object to standard output for the listener and for each session's begin, end
    /// and refusal.
    pub json_stream: bool,
    /// Sessions at once.
    pub max_sessions: u32,
    /// Longest sample that is accepted, warm-up included, nanoseconds.
    pub max_duration_ns: Option<u64>,
    /// Most flows of a case, all directions together, that are accepted.
    pub max_flows: Option<u32>,
    /// Highest offered bitrate that is accepted, bits per second; with it, unpaced traffic is
    /// refused.
    pub max_bitrate_bps: Option<u64>,
    /// Clients that are served; empty is everyone.
    pub allow: Vec<Cidr>,
}
