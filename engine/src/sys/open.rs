//! Sockets made while traffic runs (crr), with the options that must stand before they connect.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, bind, setsockopt, socket, sockopt,
};

use super::socket as options;

/// What a stream socket is to have before it connects, or once it was accepted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StreamOptions<'a> {
    /// TCP_NODELAY.
    pub nodelay: bool,
    /// TCP_MAXSEG, bytes.
    pub mss: Option<u32>,
    /// SO_SNDBUF and SO_RCVBUF, bytes.
    pub window: Option<u64>,
    /// SO_RCVBUFFORCE, bytes.
    pub rcvbuf: Option<u64>,
    /// TCP_CONGESTION.
    pub congestion: Option<&'a str>,
    /// DSCP, 0 to 63.
    pub dscp: Option<u8>,
    /// SO_MAX_PACING_RATE, bytes per second.
    pub pacing: Option<u64>,
    /// SO_BUSY_POLL, microseconds.
    pub busy_poll: Option<u32>,
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
    furnish(fd.as_fd(), wanted)?;
    if let Some(mss) = wanted.mss {
        options::set_mss(fd.as_fd(), mss)?;
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

/// Sets the options that a socket may have at any time: all but the segment size, the device, the
/// source and the way to close.
///
/// # Errors
///
/// The first option that the kernel refuses.
pub fn furnish(fd: BorrowedFd<'_>, wanted: &StreamOptions<'_>) -> io::Result<()> {
    if wanted.nodelay {
        options::set_nodelay(fd, true)?;
    }
    let most = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
    if let Some(bytes) = wanted.window {
        options::set_send_buffer(fd, most(bytes))?;
        options::set_receive_buffer(fd, most(bytes))?;
    }
    if let Some(bytes) = wanted.rcvbuf {
        options::force_receive_buffer(fd, most(bytes))?;
    }
    if let Some(name) = wanted.congestion {
        options::set_congestion(fd, name)?;
    }
    if let Some(dscp) = wanted.dscp {
        options::set_dscp(fd, dscp)?;
    }
    if let Some(bytes) = wanted.pacing {
        options::set_pacing_rate(fd, bytes)?;
    }
    if let Some(microseconds) = wanted.busy_poll {
        options::set_busy_poll(fd, microseconds)?;
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_has_what_it_is_to_have() {
        let wanted = StreamOptions {
            nodelay: true,
            mss: Some(700),
            window: Some(100_000),
            congestion: Some("reno"),
            dscp: Some(46),
            pacing: Some(1_000_000),
            ..StreamOptions::default()
        };
        for target in ["127.0.0.1:9", "[::1]:9"] {
            let socket = match stream_for(target.parse().unwrap(), &wanted) {
                // A host may have no IPv6.
                Err(error) if error.raw_os_error() == Some(libc::EAFNOSUPPORT) => continue,
                made => made.unwrap(),
            };
            let fd = socket.as_fd();
            assert!(options::nodelay(fd).unwrap());
            assert_eq!(options::mss(fd).unwrap(), 700);
            // The kernel doubles what it is given.
            assert_eq!(options::send_buffer(fd).unwrap(), 200_000);
            assert_eq!(options::receive_buffer(fd).unwrap(), 200_000);
            assert_eq!(options::congestion(fd).unwrap(), "reno");
            assert_eq!(options::dscp(fd).unwrap(), 46);
            assert_eq!(options::pacing_rate(fd).unwrap(), 1_000_000);
        }
        let bare = stream_for("127.0.0.1:9".parse().unwrap(), &StreamOptions::default()).unwrap();
        assert!(!options::nodelay(bare.as_fd()).unwrap());
        assert_eq!(options::dscp(bare.as_fd()).unwrap(), 0);
    }
}
