//! Sockets made while traffic runs (crr), with the options that must stand before they connect.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, bind, setsockopt, socket, sockopt,
};

use super::socket as options;

/// What a stream socket is to have before it connects.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StreamOptions<'a> {
    /// TCP_NODELAY.
    pub nodelay: bool,
    /// TCP_MAXSEG, bytes.
    pub mss: Option<u32>,
    /// SO_SNDBUF and SO_RCVBUF, bytes.
    pub window: Option<u64>,
    /// TCP_CONGESTION.
    pub congestion: Option<&'a str>,
    /// Source address.
    pub bind: Option<IpAddr>,
    /// Source port; none is the kernel's choice.
    pub source_port: Option<u16>,
    /// SO_BINDTODEVICE.
    pub device: Option<&'a str>,
    /// Close with RST.
    pub reset_on_close: bool,
}

/// A blocking TCP socket of the target's family that has its options and is not connected.
///
/// # Errors
///
/// The first option that the kernel refuses, or EMFILE where descriptors ran out.
pub fn stream_for(target: SocketAddr, wanted: &StreamOptions<'_>) -> io::Result<OwnedFd> {
    let family = if target.is_ipv4() {
        AddressFamily::Inet
    } else {
        AddressFamily::Inet6
    };
    let fd = socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    options::set_nodelay(fd.as_fd(), wanted.nodelay)?;
    if let Some(mss) = wanted.mss {
        options::set_mss(fd.as_fd(), mss)?;
    }
    if let Some(bytes) = wanted.window {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        options::set_send_buffer(fd.as_fd(), bytes)?;
        options::set_receive_buffer(fd.as_fd(), bytes)?;
    }
    if let Some(name) = wanted.congestion {
        options::set_congestion(fd.as_fd(), name)?;
    }
    if let Some(device) = wanted.device {
        options::set_device(fd.as_fd(), device)?;
    }
    if wanted.reset_on_close {
        options::set_close_by_reset(fd.as_fd(), true)?;
    }
    source(&fd, target, wanted)?;
    Ok(fd)
}

fn source(fd: &OwnedFd, target: SocketAddr, wanted: &StreamOptions<'_>) -> io::Result<()> {
    let any = match target {
        SocketAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
    };
    match (wanted.bind, wanted.source_port) {
        (None, None) => return Ok(()),
        // Leaves the port to connect, which may then share it between destinations.
        (Some(_), None) => setsockopt(fd, sockopt::IpBindAddressNoPort, &true)?,
        (_, Some(_)) => setsockopt(fd, sockopt::ReuseAddr, &true)?,
    }
    let from = SocketAddr::new(wanted.bind.unwrap_or(any), wanted.source_port.unwrap_or(0));
    Ok(bind(fd.as_raw_fd(), &SockaddrStorage::from(from))?)
}
