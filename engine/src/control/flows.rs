//! Sockets of flows and listeners, with the options that must stand before they connect. The
//! others (congestion control, nodelay, DSCP, pacing) are the crew's.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage, bind, listen, setsockopt, socket,
    sockopt,
};

use super::wire::Refusal;
use crate::plan::Options;
use crate::sys::socket::set_busy_poll;

/// Connections that may wait to be accepted; the kernel takes less where somaxconn says so.
const BACKLOG: i32 = 4096;

/// The client's side of one flow: where from, where to, how.
#[derive(Clone, Debug)]
pub(super) struct FlowSpec {
    /// Server.
    pub target: SocketAddr,
    /// Source port; 0 is the kernel's choice.
    pub port: u16,
    /// Options of the case.
    pub options: Options,
}

/// A TCP socket that has its options and its source address and is not connected yet.
pub(super) fn tcp_socket(spec: &FlowSpec) -> Result<OwnedFd, Refusal> {
    let fd = new_socket(spec.target, SockType::Stream)?;
    if let Some(mss) = spec.options.mss {
        setsockopt(&fd, sockopt::TcpMaxSeg, &mss)
            .map_err(|e| option_refused("--mss", &mss.to_string(), e.into()))?;
    }
    client_options(&fd, &spec.options)?;
    // A port that an earlier sample used may be in TIME_WAIT.
    setsockopt(&fd, sockopt::ReuseAddr, &true).map_err(|error| cannot_open(&error.into()))?;
    bind_source(&fd, spec)?;
    Ok(fd)
}

/// A UDP socket, connected.
pub(super) fn udp_socket(spec: &FlowSpec) -> Result<UdpSocket, Refusal> {
    let fd = new_socket(spec.target, SockType::Datagram)?;
    client_options(&fd, &spec.options)?;
    bind_source(&fd, spec)?;
    let socket = UdpSocket::from(fd);
    socket.connect(spec.target).map_err(|error| {
        let text = format!("cannot connect a UDP flow to {}: {error}", spec.target);
        Refusal::new(4, "connect", text)
    })?;
    Ok(socket)
}

fn new_socket(target: SocketAddr, kind: SockType) -> Result<OwnedFd, Refusal> {
    open_socket(target, kind).map_err(|error| cannot_open(&error))
}

/// Why a socket could not be made, with the remedy.
pub(super) fn cannot_open(error: &io::Error) -> Refusal {
    let remedy = match error.raw_os_error() {
        Some(libc::EMFILE) => "; raise the limit on open files (ulimit -n) or use fewer --flows",
        Some(libc::ENFILE) => "; the whole system is out of files (sysctl fs.file-max)",
        _ => "",
    };
    Refusal::new(
        5,
        "socket",
        format!("cannot open a socket: {error}{remedy}"),
    )
}

fn open_socket(address: SocketAddr, kind: SockType) -> io::Result<OwnedFd> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::Inet,
        SocketAddr::V6(_) => AddressFamily::Inet6,
    };
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    Ok(socket(family, kind, flags, None)?)
}

fn client_options(fd: &OwnedFd, options: &Options) -> Result<(), Refusal> {
    if let Some(device) = &options.device {
        setsockopt(fd, sockopt::BindToDevice, &device.into())
            .map_err(|e| option_refused("--device", device, e.into()))?;
    }
    buffers(fd, options)?;
    if let Some(microseconds) = options.client_busy_poll {
        set_busy_poll(fd.as_fd(), microseconds).map_err(|error| {
            option_refused("--client-busy-poll", &microseconds.to_string(), error)
        })?;
    }
    Ok(())
}

fn buffers(fd: &OwnedFd, options: &Options) -> Result<(), Refusal> {
    if let Some(window) = options.window {
        let bytes = window as usize;
        setsockopt(fd, sockopt::RcvBuf, &bytes)
            .and_then(|()| setsockopt(fd, sockopt::SndBuf, &bytes))
            .map_err(|e| option_refused("--window", &window.to_string(), e.into()))?;
    }
    if let Some(bytes) = options.rcvbuf {
        setsockopt(fd, sockopt::RcvBufForce, &(bytes as usize))
            .map_err(|e| option_refused("--rcvbuf", &bytes.to_string(), e.into()))?;
    }
    Ok(())
}

fn bind_source(fd: &OwnedFd, spec: &FlowSpec) -> Result<(), Refusal> {
    let ip = match (spec.options.bind, spec.target) {
        (Some(ip), _) => ip,
        (None, _) if spec.port == 0 => return Ok(()),
        (None, SocketAddr::V4(_)) => Ipv4Addr::UNSPECIFIED.into(),
        (None, SocketAddr::V6(_)) => Ipv6Addr::UNSPECIFIED.into(),
    };
    if ip.is_ipv4() != spec.target.is_ipv4() {
        let text = format!(
            "--bind {ip} cannot reach {}: another address family",
            spec.target
        );
        return Err(Refusal::new(2, "bind", text));
    }
    let source = SocketAddr::new(ip, spec.port);
    // Leaves the port to connect, which may then share it between destinations.
    setsockopt(fd, sockopt::IpBindAddressNoPort, &(spec.port == 0))
        .and_then(|()| bind(fd.as_raw_fd(), &SockaddrStorage::from(source)))
        .map_err(|error| bind_refused(source, error.into()))
}

fn bind_refused(source: SocketAddr, error: io::Error) -> Refusal {
    let code = if error.kind() == io::ErrorKind::AddrNotAvailable {
        2
    } else {
        5
    };
    let text = format!(
        "cannot send from {source}: {error}; give an address of this host to --bind and ports \
         that are free to --source-ports"
    );
    Refusal::new(code, "bind", text)
}

fn option_refused(flag: &str, value: &str, error: io::Error) -> Refusal {
    let (code, remedy) = match error.raw_os_error() {
        Some(libc::EPERM) if flag == "--device" => (5, "; it needs CAP_NET_RAW or CAP_NET_ADMIN"),
        Some(libc::EPERM) => (5, "; it needs CAP_NET_ADMIN"),
        Some(libc::ENODEV) => (2, "; `ip link` lists the interfaces"),
        _ => (2, ""),
    };
    let text = format!("the kernel refuses {flag} {value}: {error}{remedy}");
    Refusal::new(code, "socket-option", text)
}

/// A listening TCP socket. `SO_REUSEPORT` is not set, so that a second server on the same port is
/// an error and not a lottery.
pub(super) fn tcp_listener(address: SocketAddr, dual: bool) -> io::Result<TcpListener> {
    let fd = open_socket(address, SockType::Stream)?;
    setsockopt(&fd, sockopt::ReuseAddr, &true)?;
    family_scope(&fd, address, dual)?;
    bind(fd.as_raw_fd(), &SockaddrStorage::from(address))?;
    listen(&fd, Backlog::new(BACKLOG)?)?;
    Ok(TcpListener::from(fd))
}

/// The UDP socket that takes hellos. `SO_REUSEPORT` lets the flows' own sockets have its port; it
/// is only granted to sockets of the same user.
pub(super) fn udp_listener(address: SocketAddr, dual: bool) -> io::Result<UdpSocket> {
    let fd = open_socket(address, SockType::Datagram)?;
    setsockopt(&fd, sockopt::ReusePort, &true)?;
    family_scope(&fd, address, dual)?;
    if address.is_ipv6() {
        setsockopt(&fd, sockopt::Ipv6RecvPacketInfo, &true)?;
    } else {
        setsockopt(&fd, sockopt::Ipv4PacketInfo, &true)?;
    }
    bind(fd.as_raw_fd(), &SockaddrStorage::from(address))?;
    Ok(UdpSocket::from(fd))
}

fn family_scope(fd: &impl AsFd, address: SocketAddr, dual: bool) -> io::Result<()> {
    if address.is_ipv6() {
        setsockopt(fd, sockopt::Ipv6V6Only, &!dual)?;
    }
    Ok(())
}

/// The server's own socket of one UDP flow: on the address and port that the client used,
/// connected to the client and without datagrams that came before.
pub(super) fn udp_flow(
    local: SocketAddr,
    peer: SocketAddr,
    options: &Options,
) -> Result<UdpSocket, Refusal> {
    let fd = open_socket(local, SockType::Datagram).map_err(|error| cannot_open(&error))?;
    buffers(&fd, options)?;
    if let Some(microseconds) = options.server_busy_poll {
        set_busy_poll(fd.as_fd(), microseconds).map_err(|error| {
            option_refused("--server-busy-poll", &microseconds.to_string(), error)
        })?;
    }
    let connect = || -> io::Result<UdpSocket> {
        setsockopt(&fd, sockopt::ReusePort, &true)?;
        bind(fd.as_raw_fd(), &SockaddrStorage::from(local))?;
        let socket = UdpSocket::from(fd);
        socket.connect(peer)?;
        drain(&socket);
        Ok(socket)
    };
    connect().map_err(|error| {
        let text = format!("the server cannot open a UDP flow {local} to {peer}: {error}");
        Refusal::new(4, "udp-flow", text)
    })
}

/// Throws away what a non-blocking UDP socket has queued.
pub(super) fn drain(socket: &UdpSocket) {
    let mut buffer = [0; 2048];
    // Bounded: a flood must not keep the control thread here.
    for _ in 0..4096 {
        match socket.recv(&mut buffer) {
            Ok(_) => {}
            // An ICMP error of an earlier datagram is also a thing of the past.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(_) => return,
        }
    }
}

/// Whether an address is inside a network.
pub(super) fn in_network(address: IpAddr, network: IpAddr, prefix: u8) -> bool {
    let bits = |ip: IpAddr| match ip.to_canonical() {
        IpAddr::V4(ip) => (u128::from(u32::from(ip)) << 96, 32),
        IpAddr::V6(ip) => (u128::from(ip), 128),
    };
    let ((address, width), (network, network_width)) = (bits(address), bits(network));
    let prefix = u32::from(prefix).min(width);
    width == network_width && (prefix == 0 || (address ^ network) >> (128 - prefix) == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_hold_their_addresses_and_no_others() {
        let cases = [
            ("10.1.2.3", "10.0.0.0", 8, true),
            ("11.1.2.3", "10.0.0.0", 8, false),
            ("10.1.2.3", "10.1.2.3", 32, true),
            ("10.1.2.4", "10.1.2.3", 32, false),
            ("::ffff:10.1.2.3", "10.0.0.0", 8, true),
            ("fe80::1", "fe80::", 10, true),
            ("fec0::1", "fe80::", 10, false),
            ("::1", "0.0.0.0", 0, false),
            ("9.9.9.9", "0.0.0.0", 0, true),
            ("::1", "::", 0, true),
        ];
        for (address, network, prefix, inside) in cases {
            let got = in_network(address.parse().unwrap(), network.parse().unwrap(), prefix);
            assert_eq!(got, inside, "{address} in {network}/{prefix}");
        }
    }

    #[test]
    fn options_stand_before_the_connection() {
        let listener = tcp_listener("127.0.0.1:0".parse().unwrap(), false).unwrap();
        let target = listener.local_addr().unwrap();
        let options = Options {
            mss: Some(1000),
            window: Some(100_000),
            ..Options::default()
        };
        let fd = tcp_socket(&FlowSpec {
            target,
            port: 0,
            options,
        })
        .unwrap();
        let get = |value: Result<usize, nix::Error>| value.unwrap();
        // The kernel doubles what it is given.
        use nix::sys::socket::getsockopt;
        assert_eq!(get(getsockopt(&fd, sockopt::RcvBuf)), 200_000);
        assert_eq!(get(getsockopt(&fd, sockopt::SndBuf)), 200_000);
        let options = Options {
            bind: "192.0.2.1".parse().ok(),
            ..Options::default()
        };
        let refused = tcp_socket(&FlowSpec {
            target,
            port: 0,
            options,
        })
        .unwrap_err();
        assert_eq!((refused.exit_code, refused.code.as_str()), (2, "bind"));
        let options = Options {
            bind: "::1".parse().ok(),
            ..Options::default()
        };
        let refused = tcp_socket(&FlowSpec {
            target,
            port: 0,
            options,
        })
        .unwrap_err();
        assert!(refused.text.contains("another address family"));
    }

    #[test]
    fn a_second_listener_on_a_port_is_an_error() {
        let listener = tcp_listener("127.0.0.1:0".parse().unwrap(), false).unwrap();
        let address = listener.local_addr().unwrap();
        let error = tcp_listener(address, false).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }
}
