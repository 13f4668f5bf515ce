//! `ringperf serve`.

use std::io::Write;
use std::time::Duration;

use crate::control::runtime::{Choice, Runtime, block_on};
use crate::control::server::{Limits, News, ServeConfig, ServeOutcome, serve as serve_sessions};
use crate::control::stop;
use crate::control::wire::Refusal;
use crate::plan::ServeOptions;
use crate::record::ErrorReport;
use crate::report::served::{self, Served};
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
        let stream = options.json_stream;
        let mut tell = |news: News<'_>| match (stream, &news) {
            (true, _) => print(&served::line(&told(&news))),
            (false, News::Listening(address)) => {
                print(&format!("ringperf {VERSION} serving on {address}\n"));
            }
            (false, _) => {}
        };
        serve_sessions(config, &mut factory, &path_facts, stop.wait(), &mut tell).await
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

/// A line on stdout. The first one says where the server listens, so that scripts can wait for it
/// and a port that the kernel chose is known.
fn print(line: &str) {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(line.as_bytes()).and_then(|()| out.flush());
    if let Err(error) = written {
        log::warn!("stdout cannot be written: {error}");
    }
}

/// News as the report prints them.
fn told(news: &News<'_>) -> Served {
    let error = |refusal: &Refusal| ErrorReport {
        exit_code: refusal.exit_code,
        code: refusal.code.clone(),
        text: refusal.text.clone(),
    };
    match news {
        News::Listening(address) => Served::Listening {
            address: address.to_string(),
            version: VERSION.to_string(),
        },
        News::Refused { peer, refusal } => Served::Refused {
            client: peer.to_string(),
            error: error(refusal),
        },
        News::Began {
            session,
            peer,
            version,
            run,
        } => Served::SessionBegan {
            session: *session,
            client: peer.to_string(),
            version: version.to_string(),
            run: run.to_string(),
        },
        News::Ended {
            session,
            peer,
            run,
            lasted,
            error: cause,
        } => Served::SessionEnded {
            session: *session,
            client: peer.to_string(),
            run: run.to_string(),
            lasted_s: lasted.as_secs_f64(),
            error: cause.map(error),
        },
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
