//! `ringperf serve`.

use std::io::Write;
use std::time::Duration;

use crate::control::runtime::{Choice, Runtime, block_on};
use crate::control::server::{Limits, ServeConfig, ServeOutcome, serve as serve_sessions};
use crate::control::stop;
use crate::plan::ServeOptions;
use crate::units::Cidr;

use super::factory::Factory;
use super::interrupt::Interrupts;
use super::{VERSION, boot_id, path_facts};

/// Serves until a signal comes, or one session where asked. Returns the exit code.
pub fn serve(options: ServeOptions) -> u8 {
    let (handle, stop) = stop::channel();
    let interrupts = Interrupts::watch(handle, |_| {});
    let mut factory = Factory::new(options.cpus.clone(), None, Vec::new());
    let config = config(&options);
    let served = block_on(Choice::Auto, |runtime| async move {
        if let Runtime::Tokio { reason } = &runtime {
            log::warn!("the control plane runs without io_uring: {reason}");
        }
        let ready = |address: std::net::SocketAddr| {
            log::info!("listening on {address}");
            announce(address);
        };
        serve_sessions(config, &mut factory, &path_facts, stop.wait(), ready).await
    });
    match served {
        Ok(Ok(outcome)) => exit_code(&outcome, &interrupts),
        Ok(Err(error)) => {
            log::error!("{error}");
            error.refusal().exit_code
        }
        Err(error) => {
            log::error!("the control plane cannot start: {error}");
            5
        }
    }
}

/// Says on stdout where the server listens, so that scripts can wait for the line and a port
/// that the kernel chose is known.
fn announce(address: std::net::SocketAddr) {
    let mut out = std::io::stdout().lock();
    let line = writeln!(out, "ringperf {VERSION} serving on {address}").and_then(|()| out.flush());
    if let Err(error) = line {
        log::warn!("stdout cannot be written: {error}");
    }
}

pub(super) fn config(options: &ServeOptions) -> ServeConfig {
    ServeConfig {
        bind: options.bind.clone(),
        port: options.port,
        data_ports: options.data_ports.map(|range| (range.first, range.last)),
        one_off: options.one_off,
        limits: Limits {
            max_sessions: options.max_sessions,
            max_duration: options.max_duration_ns.map(Duration::from_nanos),
            max_flows: options.max_flows,
            max_bitrate: options.max_bitrate_bps,
            allow: options.allow.iter().map(Cidr::parts).collect(),
        },
        version: VERSION.to_string(),
        boot: boot_id(),
    }
}

fn exit_code(outcome: &ServeOutcome, interrupts: &Interrupts) -> u8 {
    match (interrupts.exit_code(), &outcome.error) {
        (Some(code), _) => code,
        (None, Some(refusal)) => refusal.exit_code,
        (None, None) => 0,
    }
}
