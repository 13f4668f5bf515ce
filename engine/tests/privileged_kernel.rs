//! The kernel probes against the kernel's own counters: root only, in network namespaces.
//!
//! A test that cannot run here says `SKIP: reason`. The traffic is made by the tests themselves
//! and bounded in number. Every test holds one lock: they read system-wide counters.

#[path = "support/namespace.rs"]
mod namespace;

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt};
use ringperf::kernel::counters::Reading;
use ringperf::kernel::{FlowTag, ProbeRequest, Probes};
use ringperf::record::{KernelReport, UnavailableStatus};

use namespace::{Pair, command};

static SERIAL: Mutex<()> = Mutex::new(());
const TAG: FlowTag = FlowTag { group: 0, flow: 7 };

/// The lock, and the right to go on; none after having said why.
fn may_run(tools: &[&str]) -> Option<MutexGuard<'static, ()>> {
    let lock = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
    match namespace::missing(tools) {
        None => Some(lock),
        Some(reason) => {
            namespace::skip(&reason);
            None
        }
    }
}

/// All probes attached, or the test cannot tell anything.
fn probes() -> Option<Probes> {
    let probes = Probes::load(ProbeRequest::default());
    if let [] = probes.unavailable() {
        return Some(probes);
    }
    let first = &probes.unavailable()[0];
    match first.status {
        UnavailableStatus::Failed => panic!("{first:?}"),
        _ => namespace::skip(&format!("{}: {}", first.program, first.text)),
    }
    None
}
