//! Network namespaces, and two of them joined by a veth pair.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::marker::PhantomData;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, setns};

use super::process::{RINGPERF, Running};

/// Whether this process may make namespaces. Where not, says on stderr that `test` is skipped and
/// why, past the capture of the test harness, so that a run of nothing but skips is seen.
pub fn can_make_namespaces(test: &str) -> bool {
    let reason = if !nix::unistd::geteuid().is_root() {
        "not root".to_string()
    } else {
        let probe = Namespace::try_new("probe");
        match probe {
            Ok(_) => return true,
            Err(reason) => reason,
        }
    };
    // Without a stderr there is nobody to tell.
    let _ = writeln!(
        std::io::stderr(),
        "SKIP {test}: cannot make network namespaces: {reason}"
    );
    false
}

/// Runs a command to its end; its diagnostics where it fails.
fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        let text = String::from_utf8_lossy(&output.stderr);
        Err(format!(
            "{program} {}: {}",
            arguments.join(" "),
            text.trim()
        ))
    }
}

/// A namespace with `lo` up; removed on drop, also by a panic.
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// A new namespace. The label is for people; the name has this process's number in it, so
    /// that runs at the same time do not meet.
    pub fn new(label: &str) -> Namespace {
        Namespace::try_new(label).unwrap_or_else(|reason| panic!("no namespace: {reason}"))
    }

    fn try_new(label: &str) -> Result<Namespace, String> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("ringperf-{}-{number}-{label}", std::process::id());
        run("ip", &["netns", "add", &name])?;
        let namespace = Namespace { name };
        namespace.try_ip(&["link", "set", "lo", "up"])?;
        Ok(namespace)
    }

    /// Its name, as `ip netns` knows it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `ip` in it; panics where that fails.
    pub fn ip(&self, arguments: &[&str]) -> String {
        self.try_ip(arguments)
            .unwrap_or_else(|reason| panic!("{reason}"))
    }

    fn try_ip(&self, arguments: &[&str]) -> Result<String, String> {
        let mut all = vec!["-n", &self.name];
        all.extend_from_slice(arguments);
        run("ip", &all)
    }

    /// A command that will run in it.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]);
        command
    }

    /// Runs a command in it to its end and gives its stdout; panics where that fails.
    pub fn run(&self, program: &str, arguments: &[&str]) -> String {
        let mut all = vec!["netns", "exec", &self.name, program];
        all.extend_from_slice(arguments);
        run("ip", &all).unwrap_or_else(|reason| panic!("{reason}"))
    }

    /// Waits until an address answers from here. A link that has just come up drops packets until
    /// the kernel has noticed, and an IPv6 address is not answered for until it is set up.
    fn wait_for(&self, address: IpAddr) {
        let _here = self.enter();
        // Nobody listens there, so an answer is a refusal.
        let address = SocketAddr::new(address, 9);
        let until = Instant::now() + Duration::from_secs(10);
        loop {
            let answer = TcpStream::connect_timeout(&address, Duration::from_millis(200));
            match answer.map_err(|error| error.kind()) {
                Ok(_) | Err(ErrorKind::ConnectionRefused) => return,
                Err(kind) => {
                    assert!(Instant::now() < until, "{address} in {}: {kind}", self.name);
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
        }
    }

    /// A counter of this namespace by the kernel's name for it: `Udp.InDatagrams` of
    /// /proc/net/snmp, or without a group of /proc/net/snmp6.
    pub fn counter(&self, name: &str) -> u64 {
        let value = match name.split_once('.') {
            Some((group, field)) => self.grouped_counter(group, field),
            None => {
                let text = self.run("cat", &["/proc/net/snmp6"]);
                let mut pairs = text.lines().filter_map(|line| line.split_once(' '));
                let found = pairs.find(|(key, _)| key.trim_end() == name);
                found.map(|(_, value)| value.trim().to_string())
            }
        };
        let value = value.unwrap_or_else(|| panic!("no counter {name}"));
        value
            .parse()
            .unwrap_or_else(|_| panic!("{name} is {value:?}"))
    }

    fn grouped_counter(&self, group: &str, field: &str) -> Option<String> {
        let text = self.run("cat", &["/proc/net/snmp"]);
        let mut lines = text.lines().filter_map(|line| line.split_once(": "));
        let mut next = || Some(lines.find(|(of, _)| *of == group)?.1);
        let (names, values) = (next()?, next()?);
        let mut pairs = names.split(' ').zip(values.split(' '));
        Some(pairs.find(|(key, _)| *key == field)?.1.to_string())
    }

    /// Starts `ringperf` in it.
    pub fn ringperf(&self, arguments: &[&str]) -> Running {
        Running::start(self.command(RINGPERF).args(arguments))
    }

    /// Moves the current thread into it until the guard is dropped. Sockets made and threads
    /// started meanwhile belong to it for good.
    pub fn enter(&self) -> Entered {
        let open = |path: &str| File::open(path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let home = open("/proc/thread-self/ns/net");
        let there = open(&format!("/run/netns/{}", self.name));
        setns(&there, CloneFlags::CLONE_NEWNET).expect("root may enter a namespace");
        Entered {
            home,
            thread: PhantomData,
        }
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if let Err(reason) = run("ip", &["netns", "delete", &self.name]) {
            // A panic here would hide the one that may be under way.
            let _ = writeln!(std::io::stderr(), "namespace left behind: {reason}");
        }
    }
}

/// The current thread is in a namespace. Not `Send`: it is about the thread that made it.
pub struct Entered {
    home: File,
    thread: PhantomData<*const ()>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let back = setns(&self.home, CloneFlags::CLONE_NEWNET);
        if back.is_err() && !std::thread::panicking() {
            panic!("the thread cannot return to its namespace: {back:?}");
        }
    }
}

/// Two namespaces joined by a veth pair, with an IPv4 and an IPv6 address on each side.
pub struct Veth {
    /// Where the client runs.
    pub client: Namespace,
    /// Where the server runs.
    pub server: Namespace,
}

impl Veth {
    /// Name of the interface on either side.
    pub const DEVICE: &'static str = "veth0";
    /// The client's address.
    pub const CLIENT4: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
    /// The server's address.
    pub const SERVER4: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
    /// The client's IPv6 address.
    pub const CLIENT6: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1);
    /// The server's IPv6 address.
    pub const SERVER6: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 2);

    /// Two new namespaces, joined, both addresses usable at once.
    pub fn new() -> Veth {
        let veth = Veth {
            client: Namespace::new("client"),
            server: Namespace::new("server"),
        };
        let peer = ["peer", "name", Veth::DEVICE, "netns", veth.server.name()];
        let mut add = vec!["link", "add", Veth::DEVICE, "type", "veth"];
        add.extend_from_slice(&peer);
        veth.client.ip(&add);
        let sides = [
            (&veth.client, Veth::CLIENT4, Veth::CLIENT6),
            (&veth.server, Veth::SERVER4, Veth::SERVER6),
        ];
        for (side, v4, v6) in sides {
            side.ip(&["addr", "add", &format!("{v4}/24"), "dev", Veth::DEVICE]);
            // Without duplicate address detection, which takes a second.
            let v6 = format!("{v6}/64");
            side.ip(&["addr", "add", &v6, "dev", Veth::DEVICE, "nodad"]);
            side.ip(&["link", "set", Veth::DEVICE, "up"]);
        }
        for v6 in [false, true] {
            veth.client.wait_for(Veth::server_address(v6));
        }
        veth.server.wait_for(Veth::CLIENT4.into());
        veth.server.wait_for(Veth::CLIENT6.into());
        veth
    }

    /// The server's address of a family.
    pub fn server_address(v6: bool) -> IpAddr {
        if v6 {
            Veth::SERVER6.into()
        } else {
            Veth::SERVER4.into()
        }
    }

    /// Sets the MTU of both ends, bytes.
    pub fn set_mtu(&self, mtu: u32) {
        for side in [&self.client, &self.server] {
            side.ip(&["link", "set", Veth::DEVICE, "mtu", &mtu.to_string()]);
        }
    }

    /// Takes the link down (and up again) at the server's end, without a word to either side.
    pub fn set_link(&self, up: bool) {
        self.server
            .ip(&["link", "set", Veth::DEVICE, if up { "up" } else { "down" }]);
    }
}

/// A client and a server with a router between them that the two do not know of, IPv4.
pub struct Routed {
    /// Where the client runs.
    pub client: Namespace,
    /// What forwards between the two, by [`Routed::TO_CLIENT`] and [`Routed::TO_SERVER`].
    pub router: Namespace,
    /// Where the server runs.
    pub server: Namespace,
}

impl Routed {
    /// The server's address.
    pub const SERVER: Ipv4Addr = Ipv4Addr::new(10, 78, 2, 1);
    /// The router's interface towards the client.
    pub const TO_CLIENT: &'static str = "client0";
    /// The router's interface towards the server.
    pub const TO_SERVER: &'static str = "server0";

    /// Three new namespaces, usable at once.
    pub fn new() -> Routed {
        let routed = Routed {
            client: Namespace::new("client"),
            router: Namespace::new("router"),
            server: Namespace::new("server"),
        };
        let sides = [
            (&routed.client, Routed::TO_CLIENT, "10.78.1.1", "10.78.1.2"),
            (&routed.server, Routed::TO_SERVER, "10.78.2.1", "10.78.2.2"),
        ];
        for (side, interface, address, gateway) in sides {
            let peer = ["peer", "name", interface, "netns", routed.router.name()];
            let add = ["link", "add", Veth::DEVICE, "type", "veth"];
            side.ip(&[&add[..], &peer].concat());
            side.ip(&["addr", "add", &format!("{address}/24"), "dev", Veth::DEVICE]);
            side.ip(&["link", "set", Veth::DEVICE, "up"]);
            let router = &routed.router;
            router.ip(&["addr", "add", &format!("{gateway}/24"), "dev", interface]);
            router.ip(&["link", "set", interface, "up"]);
            side.ip(&["route", "add", "default", "via", gateway]);
        }
        routed
            .router
            .run("sh", &["-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"]);
        routed.client.wait_for(Routed::SERVER.into());
        routed
    }
}
