//! Where the tools play: one namespace's loopback, or two namespaces with a veth pair between.

use std::time::Duration;

use anyhow::Result;

use super::namespace::Namespace;
use crate::exec::{Show, run};

/// Longest that a sysctl may take.
const LIMIT: Duration = Duration::from_secs(10);

/// What lies between client and server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Path {
    /// The loopback interface of one namespace.
    #[value(name = "lo")]
    Loopback,
    /// A veth pair between two namespaces.
    Veth,
}

impl Path {
    /// Its short name.
    pub fn name(self) -> &'static str {
        match self {
            Path::Loopback => "lo",
            Path::Veth => "veth",
        }
    }
}

/// Addresses for tests of networks, which no other route of a fresh namespace has.
const CLIENT: &str = "198.18.0.1";
const SERVER: &str = "198.18.0.2";

/// Connections by the hundred thousand within a minute need more ports than there are, so that
/// those that ended a second ago are taken again, as loopback does by itself. The ports lie above
/// those that servers listen on.
const SYSCTLS: [&str; 2] = [
    "net.ipv4.tcp_tw_reuse=1",
    "net.ipv4.ip_local_port_range=20000\t65535",
];

/// The namespaces of a comparison, removed when dropped.
#[derive(Debug)]
pub struct Stage {
    path: Path,
    congestion: &'static str,
    client: Namespace,
    server: Option<Namespace>,
}

impl Stage {
    /// Makes it, with one congestion control on every route that the tools use.
    ///
    /// # Errors
    ///
    /// Where `ip` fails.
    pub fn new(path: Path, congestion: &'static str) -> Result<Stage> {
        let client = Namespace::new("client", congestion)?;
        let mut stage = Stage {
            path,
            congestion,
            client,
            server: None,
        };
        match path {
            // One tool asks for an address beside 127.0.0.1 before it takes a name.
            Path::Loopback => stage
                .client
                .ip(&format!("address add {CLIENT}/32 dev lo"))?,
            Path::Veth => {
                stage.server = Some(Namespace::new("server", congestion)?);
                stage.link()?;
            }
        }
        stage.widen_ports(&stage.client)?;
        stage.widen_ports(stage.server())?;
        Ok(stage)
    }

    fn widen_ports(&self, inside: &Namespace) -> Result<()> {
        for sysctl in SYSCTLS {
            let finished = run(
                inside.command(&format!("sysctl -qw {sysctl}")),
                LIMIT,
                Show::No,
            )?;
            if !finished.success {
                let why = finished.stderr.trim().to_string();
                crate::say(&format!(
                    "{sysctl}: {why}; connection rates may run out of ports"
                ));
            }
        }
        Ok(())
    }

    fn link(&self) -> Result<()> {
        let pair = "link add veth0 type veth peer name veth0 netns";
        self.client
            .ip(&format!("{pair} {}", self.server().name()))?;
        for (inside, address) in [(&self.client, CLIENT), (self.server(), SERVER)] {
            inside.ip(&format!("address add {address}/24 dev veth0"))?;
            inside.ip("link set veth0 up")?;
            // The route that came with the address, replaced by the same with the control.
            inside.ip(&format!(
                "route change 198.18.0.0/24 dev veth0 proto kernel scope link src {address} \
                 congctl {}",
                self.congestion
            ))?;
        }
        Ok(())
    }

    /// What lies between.
    pub fn path(&self) -> Path {
        self.path
    }

    /// The congestion control of every connection.
    pub fn congestion(&self) -> &'static str {
        self.congestion
    }

    /// Where clients run.
    pub fn client(&self) -> &Namespace {
        &self.client
    }

    /// Where servers run.
    pub fn server(&self) -> &Namespace {
        self.server.as_ref().unwrap_or(&self.client)
    }

    /// The server's address.
    pub fn address(&self) -> &'static str {
        match self.path {
            Path::Loopback => "127.0.0.1",
            Path::Veth => SERVER,
        }
    }
}
