//! The server in this process, for a run without a host: loopback, an ephemeral port.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::control::runtime::{Choice, block_on};
use crate::control::server::{Limits, News, ServeConfig, serve};
use crate::control::stop::{self, StopHandle};
use crate::host::placement::Apart;

use super::factory::Factory;
use super::{VERSION, boot_id, path_facts};

/// How long the listener may take to stand.
const STANDING: Duration = Duration::from_secs(5);

/// A server on a thread of its own.
pub(super) struct LocalServer {
    pub(super) address: SocketAddr,
    stop: StopHandle,
    thread: Option<JoinHandle<()>>,
}

impl LocalServer {
    /// Starts it; returns once it accepts connections.
    pub(super) fn start(apart: Apart) -> Result<LocalServer, String> {
        let (handle, stop) = stop::channel();
        let (says, hears) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("server".into())
            .spawn(move || {
                let mut factory = Factory::new(apart.server, Some(apart.client), apart.findings);
                let failed = says.clone();
                let served = block_on(Choice::Auto, |_| async move {
                    let mut news = move |news: News<'_>| {
                        if let News::Listening(address) = news {
                            let _ = says.send(Ok(address));
                        }
                    };
                    serve(config(), &mut factory, &path_facts, stop.wait(), &mut news).await
                });
                if let Err(text) = served
                    .map_err(|e| e.to_string())
                    .and_then(|s| s.map(|_| ()).map_err(|e| e.to_string()))
                {
                    let _ = failed.send(Err(text));
                }
            })
            .map_err(|e| format!("the server's thread cannot start: {e}"))?;
        match hears.recv_timeout(STANDING) {
            Ok(Ok(address)) => Ok(LocalServer {
                address,
                stop: handle,
                thread: Some(thread),
            }),
            Ok(Err(text)) => Err(text),
            Err(_) => Err("the server in this process did not start".to_string()),
        }
    }
}

impl Drop for LocalServer {
    fn drop(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn config() -> ServeConfig {
    ServeConfig {
        bind: loopback(),
        port: 0,
        data_ports: None,
        one_off: false,
        limits: Limits::default(),
        version: VERSION.to_string(),
        boot: boot_id(),
    }
}

/// Both loopback addresses, or the IPv4 one where the host has no IPv6.
fn loopback() -> Vec<IpAddr> {
    let v6 = IpAddr::from(Ipv6Addr::LOCALHOST);
    let v4 = IpAddr::from(Ipv4Addr::LOCALHOST);
    match std::net::UdpSocket::bind((v6, 0)) {
        Ok(_) => vec![v4, v6],
        Err(_) => vec![v4],
    }
}
