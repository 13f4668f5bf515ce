//! The server's ports.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::net::{TcpListener, UdpSocket};

use super::ServeConfig;
use crate::control::error::ControlError;
use crate::control::flows::{tcp_listener, udp_listener};

/// Attempts to find one number that is free for TCP and for UDP.
const EPHEMERAL_TRIES: u32 = 64;

/// One address with its listeners.
pub(super) struct Port {
    pub tcp: TcpListener,
    pub udp: Option<UdpSocket>,
}

/// All listeners: flows may come to any port that has a UDP socket.
pub(super) struct Ports {
    pub ports: Vec<Port>,
    /// Address of the first control listener.
    pub control: SocketAddr,
    /// Number of the flows' port.
    pub data_port: u16,
}

/// Opens every port of the configuration.
pub(super) fn open(config: &ServeConfig) -> Result<Ports, ControlError> {
    let mut ports = open_all(config, config.port, config.data_ports.is_none())?;
    let control = ports
        .first()
        .and_then(|port| port.tcp.local_addr().ok())
        .unwrap_or(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), config.port));
    let data_port = match config.data_ports {
        None => control.port(),
        Some((first, last)) => {
            let (number, data) = open_range(config, first, last)?;
            ports.extend(data);
            number
        }
    };
    Ok(Ports {
        ports,
        control,
        data_port,
    })
}

fn open_range(
    config: &ServeConfig,
    first: u16,
    last: u16,
) -> Result<(u16, Vec<Port>), ControlError> {
    let mut number = first;
    loop {
        match open_all(config, number, true) {
            Ok(ports) => return Ok((number, ports)),
            Err(error) if number >= last => return Err(error),
            Err(error) => log::debug!("{error}"),
        }
        number += 1;
    }
}

/// Every address at one port; where the number is the kernel's choice, the first address chooses.
fn open_all(config: &ServeConfig, number: u16, udp: bool) -> Result<Vec<Port>, ControlError> {
    if config.bind.is_empty() {
        return Ok(vec![open_any(number, udp)?]);
    }
    let mut ports = Vec::new();
    let mut number = number;
    for ip in &config.bind {
        let port = open_one(SocketAddr::new(*ip, number), false, udp)?;
        number = port
            .tcp
            .local_addr()
            .map_or(number, |address| address.port());
        ports.push(port);
    }
    Ok(ports)
}

/// Both families on one socket, or IPv4 where the host has no IPv6.
fn open_any(number: u16, udp: bool) -> Result<Port, ControlError> {
    let v6 = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), number);
    match open_one(v6, true, udp) {
        Err(ControlError::Listen { source, .. }) if no_ipv6(&source) => {
            let v4 = IpAddr::from(Ipv4Addr::UNSPECIFIED);
            open_one(SocketAddr::new(v4, number), false, udp)
        }
        result => result,
    }
}

fn no_ipv6(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL)
    )
}

fn open_one(address: SocketAddr, dual: bool, udp: bool) -> Result<Port, ControlError> {
    let mut tries = if address.port() == 0 {
        EPHEMERAL_TRIES
    } else {
        1
    };
    loop {
        tries -= 1;
        match try_open(address, dual, udp) {
            Ok(port) => return Ok(port),
            Err(error) if tries == 0 || error.kind() != io::ErrorKind::AddrInUse => {
                return Err(listen_error(address, error));
            }
            Err(_) => {}
        }
    }
}

fn try_open(address: SocketAddr, dual: bool, udp: bool) -> io::Result<Port> {
    let tcp = TcpListener::from_std(tcp_listener(address, dual)?)?;
    let bound = tcp.local_addr()?;
    let udp = match udp {
        true => Some(UdpSocket::from_std(udp_listener(bound, dual)?)?),
        false => None,
    };
    Ok(Port { tcp, udp })
}

fn listen_error(address: SocketAddr, source: io::Error) -> ControlError {
    let remedy = match source.kind() {
        io::ErrorKind::AddrInUse => "another program has the port: choose one with --port",
        io::ErrorKind::AddrNotAvailable => "give an address of this host to --bind",
        io::ErrorKind::PermissionDenied => "ports below 1024 need CAP_NET_BIND_SERVICE",
        _ => "choose another address or port with --bind and --port",
    };
    ControlError::Listen {
        address: address.to_string(),
        source,
        remedy,
    }
}
