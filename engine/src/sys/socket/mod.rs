//! Socket options. Every function keeps the kernel's errno in its error.

use std::io;
use std::os::fd::BorrowedFd;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::socket::{AddressFamily, SockaddrLike, SockaddrStorage, getsockname, getsockopt};
use nix::sys::socket::{setsockopt, sockopt};

use super::option::{get, get_int, set, set_int};

/// IPV6_MTU_DISCOVER's and IP_MTU_DISCOVER's values agree.
const _: () = assert!(libc::IP_PMTUDISC_DO == libc::IPV6_PMTUDISC_DO);

/// Not among libc's constants on every target; the same on all that we build for.
const SO_INCOMING_NAPI_ID: i32 = 56;

fn int(value: u32) -> io::Result<i32> {
    i32::try_from(value).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

/// Whether a socket is one of IPv6 (which also carries IPv4, mapped).
///
/// # Errors
/// Those of getsockopt(2).
pub fn is_ipv6(socket: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(get_int(socket, libc::SOL_SOCKET, libc::SO_DOMAIN)? == libc::AF_INET6)
}

/// Whether a socket is a stream.
///
/// # Errors
/// Those of getsockopt(2).
pub fn is_stream(socket: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(get_int(socket, libc::SOL_SOCKET, libc::SO_TYPE)? == libc::SOCK_STREAM)
}

/// Takes the error that is pending on a socket (SO_ERROR).
///
/// # Errors
/// Those of getsockopt(2); the pending error is in the `Ok`.
pub fn take_error(socket: BorrowedFd<'_>) -> io::Result<Option<io::Error>> {
    let errno = get_int(socket, libc::SOL_SOCKET, libc::SO_ERROR)?;
    Ok((errno != 0).then(|| io::Error::from_raw_os_error(errno)))
}

/// Sets or clears O_NONBLOCK.
///
/// # Errors
/// Those of fcntl(2).
pub fn set_nonblocking(socket: BorrowedFd<'_>, on: bool) -> io::Result<()> {
    let mut flags = OFlag::from_bits_retain(fcntl(socket, FcntlArg::F_GETFL)?);
    flags.set(OFlag::O_NONBLOCK, on);
    fcntl(socket, FcntlArg::F_SETFL(flags))?;
    Ok(())
}

/// Ends a waiting receive with EAGAIN after so long (SO_RCVTIMEO), as precisely as the kernel's
/// tick; 0 is never.
///
/// # Errors
/// Those of setsockopt(2).
pub fn set_receive_timeout(socket: BorrowedFd<'_>, microseconds: u32) -> io::Result<()> {
    let time = nix::sys::time::TimeVal::new(
        i64::from(microseconds / 1_000_000),
        i64::from(microseconds % 1_000_000),
    );
    Ok(setsockopt(&socket, sockopt::ReceiveTimeout, &time)?)
}

/// Lets several sockets listen on, or be bound to, one address (SO_REUSEPORT).
///
/// # Errors
/// Those of setsockopt(2).
pub fn set_reuse_port(socket: BorrowedFd<'_>, on: bool) -> io::Result<()> {
    Ok(setsockopt(&socket, sockopt::ReusePort, &on)?)
}

/// Lets an address be bound while connections of it are in TIME_WAIT (SO_REUSEADDR).
///
/// # Errors
/// Those of setsockopt(2).
pub fn set_reuse_address(socket: BorrowedFd<'_>, on: bool) -> io::Result<()> {
    Ok(setsockopt(&socket, sockopt::ReuseAddr, &on)?)
}

/// Binds a socket to an interface (SO_BINDTODEVICE).
///
/// # Errors
/// EPERM where it is bound already and CAP_NET_RAW is missing, ENODEV for an unknown interface.
pub fn bind_device(socket: BorrowedFd<'_>, interface: &str) -> io::Result<()> {
    set(
        socket,
        libc::SOL_SOCKET,
        libc::SO_BINDTODEVICE,
        interface.as_bytes(),
    )
}

/// Keeps a socket to IPv6 (IPV6_V6ONLY), so that IPv4 can have one of its own on the same port.
///
/// # Errors
/// Those of setsockopt(2).
pub fn set_only_ipv6(socket: BorrowedFd<'_>, on: bool) -> io::Result<()> {
    Ok(setsockopt(&socket, sockopt::Ipv6V6Only, &on)?)
}

/// Leaves the choice of a port to connect(2), which can share it between destinations
/// (IP_BIND_ADDRESS_NO_PORT).
///
/// # Errors
/// Those of setsockopt(2).
pub fn set_bind_address_no_port(socket: BorrowedFd<'_>, on: bool) -> io::Result<()> {
    Ok(setsockopt(&socket, sockopt::IpBindAddressNoPort, &on)?)
}

/// Turns Nagle's algorithm off (TCP_NODELAY).
///
/// # Errors
/// Those of setsockopt(2).
pub fn set_nodelay(socket: BorrowedFd<'_>, on: bool) -> io::Result<()> {
    Ok(setsockopt(&socket, sockopt::TcpNoDelay, &on)?)
}

/// Whether Nagle's algorithm is off.
///
/// # Errors
/// Those of getsockopt(2).
pub fn nodelay(socket: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(getsockopt(&socket, sockopt::TcpNoDelay)?)
}

/// Limits the segment size, bytes, before the connection is made (TCP_MAXSEG).
///
/// # Errors
/// EINVAL outside of what the kernel allows (88 to 32767).
pub fn set_mss(socket: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
    set_int(socket, libc::IPPROTO_TCP, libc::TCP_MAXSEG, int(bytes)?)
}

/// The segment size in force, bytes.
///
/// # Errors
/// Those of getsockopt(2).
pub fn mss(socket: BorrowedFd<'_>) -> io::Result<u32> {
    Ok(getsockopt(&socket, sockopt::TcpMaxSeg)?)
}

/// Chooses the congestion control (TCP_CONGESTION).
///
/// # Errors
/// ENOENT where the kernel has none of this name, EPERM where it is not in
/// `net.ipv4.tcp_allowed_congestion_control` and CAP_NET_ADMIN is missing.
pub fn set_congestion(socket: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    set(
        socket,
        libc::IPPROTO_TCP,
        libc::TCP_CONGESTION,
        name.as_bytes(),
    )
}

/// Lets traffic leave and arrive by one interface only (SO_BINDTODEVICE).
///
/// # Errors
/// ENODEV where there is no such interface, EPERM where it may not be chosen.
pub fn set_device(socket: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    set(
        socket,
        libc::SOL_SOCKET,
        libc::SO_BINDTODEVICE,
        name.as_bytes(),
    )
}

/// Name of the congestion control in force.
///
/// # Errors
/// Those of getsockopt(2).
pub fn congestion(socket: BorrowedFd<'_>) -> io::Result<String> {
    let mut name = [0; 16];
    let len = get(socket, libc::IPPROTO_TCP, libc::TCP_CONGESTION, &mut name)?;
    let name = name[..len].split(|byte| *byte == 0).next().unwrap_or(&[]);
    Ok(String::from_utf8_lossy(name).into_owned())
}

/// Fixes the send buffer, bytes (SO_SNDBUF). The kernel doubles it for its own use and stops
/// adapting it.
///
/// # Errors
/// Those of setsockopt(2). A value above `net.core.wmem_max` is cut down without one.
pub fn set_send_buffer(socket: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
    set_int(socket, libc::SOL_SOCKET, libc::SO_SNDBUF, int(bytes)?)
}

/// Fixes the receive buffer, bytes (SO_RCVBUF). The kernel doubles it for its own use and stops
/// adapting it.
///
/// # Errors
/// Those of setsockopt(2). A value above `net.core.rmem_max` is cut down without one.
pub fn set_receive_buffer(socket: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
    set_int(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, int(bytes)?)
}

/// Fixes the receive buffer beyond `net.core.rmem_max` (SO_RCVBUFFORCE).
///
/// # Errors
/// EPERM without CAP_NET_ADMIN.
pub fn force_receive_buffer(socket: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
    set_int(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, int(bytes)?)
}

/// The send buffer as the kernel counts it, bytes.
///
/// # Errors
/// Those of getsockopt(2).
pub fn send_buffer(socket: BorrowedFd<'_>) -> io::Result<u32> {
    Ok(get_int(socket, libc::SOL_SOCKET, libc::SO_SNDBUF)? as u32)
}

/// The receive buffer as the kernel counts it, bytes.
///
/// # Errors
/// Those of getsockopt(2).
pub fn receive_buffer(socket: BorrowedFd<'_>) -> io::Result<u32> {
    Ok(get_int(socket, libc::SOL_SOCKET, libc::SO_RCVBUF)? as u32)
}

/// Wakes a reader only when so many bytes are there (SO_RCVLOWAT).
///
/// # Errors
/// Those of setsockopt(2).
pub fn set_receive_low_water(socket: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
    set_int(socket, libc::SOL_SOCKET, libc::SO_RCVLOWAT, int(bytes)?)
}

/// The receive low-water mark in force, bytes.
///
/// # Errors
/// Those of getsockopt(2).
pub fn receive_low_water(socket: BorrowedFd<'_>) -> io::Result<u32> {
    Ok(get_int(socket, libc::SOL_SOCKET, libc::SO_RCVLOWAT)? as u32)
}

/// Limits the rate, bytes per second (SO_MAX_PACING_RATE). TCP paces by itself, UDP only with the
/// fq queueing discipline.
///
/// # Errors
/// Those of setsockopt(2); EINVAL before 5.0 for rates of 32 Gbit/s and more.
pub fn set_pacing_rate(socket: BorrowedFd<'_>, bytes_per_second: u64) -> io::Result<()> {
    let (level, name) = (libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE);
    match set(socket, level, name, &bytes_per_second.to_ne_bytes()) {
        // Kernels before 5.0 know 32 bits only, and ignore what follows them.
        Ok(()) if pacing_rate(socket)? == bytes_per_second => Ok(()),
        Ok(()) => Err(io::Error::from_raw_os_error(libc::EINVAL)),
        Err(error) => Err(error),
    }
}

/// The rate limit in force, bytes per second; `u64::MAX` is none.
///
/// # Errors
/// Those of getsockopt(2).
pub fn pacing_rate(socket: BorrowedFd<'_>) -> io::Result<u64> {
    let mut value = [0; 8];
    let len = get(
        socket,
        libc::SOL_SOCKET,
        libc::SO_MAX_PACING_RATE,
        &mut value,
    )?;
    if len == 8 {
        return Ok(u64::from_ne_bytes(value));
    }
    let narrow = u32::from_ne_bytes(value[..4].try_into().expect("4 of 8 bytes"));
    Ok(if narrow == u32::MAX {
        u64::MAX
    } else {
        u64::from(narrow)
    })
}

/// Marks what is sent with a DSCP, 0 to 63 (IP_TOS, and IPV6_TCLASS on IPv6).
///
/// # Errors
/// EINVAL above 63, else those of setsockopt(2).
pub fn set_dscp(socket: BorrowedFd<'_>, dscp: u8) -> io::Result<()> {
    if dscp > 63 {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    let class = i32::from(dscp) << 2;
    if is_ipv6(socket)? {
        set_int(socket, libc::IPPROTO_IPV6, libc::IPV6_TCLASS, class)?;
        // For mapped IPv4; a socket that is IPv6 only refuses it.
        let _ = set_int(socket, libc::IPPROTO_IP, libc::IP_TOS, class);
        return Ok(());
    }
    set_int(socket, libc::IPPROTO_IP, libc::IP_TOS, class)
}

/// The DSCP in force.
///
/// # Errors
/// Those of getsockopt(2).
pub fn dscp(socket: BorrowedFd<'_>) -> io::Result<u8> {
    let class = if is_ipv6(socket)? {
        get_int(socket, libc::IPPROTO_IPV6, libc::IPV6_TCLASS)?
    } else {
        get_int(socket, libc::IPPROTO_IP, libc::IP_TOS)?
    };
    Ok((class as u8) >> 2)
}

/// Makes close send a reset at once, without TIME_WAIT (SO_LINGER of 0).
///
/// # Errors
/// Those of setsockopt(2).
pub fn set_close_by_reset(socket: BorrowedFd<'_>, on: bool) -> io::Result<()> {
    let linger = libc::linger {
        l_onoff: i32::from(on),
        l_linger: 0,
    };
    Ok(setsockopt(&socket, sockopt::Linger, &linger)?)
}

/// Polls the device for so long instead of sleeping, microseconds (SO_BUSY_POLL).
///
/// # Errors
/// EPERM for more than the default without CAP_NET_ADMIN.
pub fn set_busy_poll(socket: BorrowedFd<'_>, microseconds: u32) -> io::Result<()> {
    set_int(
        socket,
        libc::SOL_SOCKET,
        libc::SO_BUSY_POLL,
        int(microseconds)?,
    )
}

/// CPU that last processed a packet of this socket (SO_INCOMING_CPU); none before the first.
///
/// # Errors
/// Those of getsockopt(2).
pub fn incoming_cpu(socket: BorrowedFd<'_>) -> io::Result<Option<u32>> {
    Ok(u32::try_from(get_int(socket, libc::SOL_SOCKET, libc::SO_INCOMING_CPU)?).ok())
}

/// The queue of a device that last received for this socket, as busy polling names it
/// (SO_INCOMING_NAPI_ID); none before the first packet, and where no device that can be polled
/// brought it.
///
/// # Errors
/// ENOPROTOOPT before 4.12 and without CONFIG_NET_RX_BUSY_POLL.
pub fn incoming_napi_id(socket: BorrowedFd<'_>) -> io::Result<Option<u32>> {
    let id = get_int(socket, libc::SOL_SOCKET, SO_INCOMING_NAPI_ID)? as u32;
    Ok((id != 0).then_some(id))
}

/// Splits what is sent into datagrams of so many bytes (UDP_SEGMENT); 0 is off.
///
/// # Errors
/// ENOPROTOOPT before 4.18.
pub fn set_udp_segment(socket: BorrowedFd<'_>, bytes: u16) -> io::Result<()> {
    set_int(socket, libc::SOL_UDP, libc::UDP_SEGMENT, i32::from(bytes))
}

/// Lets the kernel merge datagrams that arrive together (UDP_GRO).
///
/// # Errors
/// ENOPROTOOPT before 5.0.
pub fn set_udp_gro(socket: BorrowedFd<'_>, on: bool) -> io::Result<()> {
    set_int(socket, libc::SOL_UDP, libc::UDP_GRO, i32::from(on))
}

/// Has the kernel's receive time come with each datagram (SO_TIMESTAMPNS).
///
/// # Errors
/// Those of setsockopt(2).
pub fn set_receive_timestamps(socket: BorrowedFd<'_>, on: bool) -> io::Result<()> {
    Ok(setsockopt(&socket, sockopt::ReceiveTimestampns, &on)?)
}

/// Whether datagrams may be fragmented.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fragmentation {
    /// By this host and on the way.
    Allowed,
    /// Never: a datagram larger than the known path MTU is EMSGSIZE.
    Never,
    /// Never, and the known path MTU does not limit what is sent (to probe for one).
    Probe,
}

/// Sets whether datagrams may be fragmented (IP_MTU_DISCOVER, IPV6_MTU_DISCOVER).
///
/// # Errors
/// Those of setsockopt(2).
pub fn set_fragmentation(socket: BorrowedFd<'_>, fragmentation: Fragmentation) -> io::Result<()> {
    let value = match fragmentation {
        Fragmentation::Allowed => libc::IP_PMTUDISC_DONT,
        Fragmentation::Never => libc::IP_PMTUDISC_DO,
        Fragmentation::Probe => libc::IP_PMTUDISC_PROBE,
    };
    if is_ipv6(socket)? {
        set_int(socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, value)?;
        // For mapped IPv4; a socket that is IPv6 only refuses it.
        let _ = set_int(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, value);
        return Ok(());
    }
    set_int(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, value)
}

/// The path MTU that the kernel knows for a connected socket, bytes (IP_MTU, IPV6_MTU).
///
/// # Errors
/// ENOTCONN where it is not connected, or where an option that changes the route (DSCP, device)
/// was set since and nothing was sent: read it straight after connecting.
pub fn path_mtu(socket: BorrowedFd<'_>) -> io::Result<u32> {
    let mapped = is_ipv6(socket)? && is_mapped(socket)?;
    let mtu = if is_ipv6(socket)? && !mapped {
        get_int(socket, libc::IPPROTO_IPV6, libc::IPV6_MTU)?
    } else {
        get_int(socket, libc::IPPROTO_IP, libc::IP_MTU)?
    };
    Ok(mtu as u32)
}

/// Whether an IPv6 socket speaks IPv4.
fn is_mapped(socket: BorrowedFd<'_>) -> io::Result<bool> {
    use std::os::fd::AsRawFd;
    let local: SockaddrStorage = getsockname(socket.as_raw_fd())?;
    debug_assert_eq!(local.family(), Some(AddressFamily::Inet6));
    Ok(local
        .as_sockaddr_in6()
        .is_some_and(|local| local.ip().to_ipv4_mapped().is_some()))
}

/// A socket's memory (SO_MEMINFO).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemoryInfo {
    /// Memory of what waits to be received, bytes, overhead included.
    pub receive_queued: u32,
    /// Receive buffer, bytes.
    pub receive_buffer: u32,
    /// Memory of what waits to be sent or acknowledged, bytes, overhead included.
    pub send_queued: u32,
    /// Send buffer, bytes.
    pub send_buffer: u32,
    /// Packets dropped because the receive buffer was full.
    pub drops: u32,
}

/// Reads a socket's memory.
///
/// # Errors
/// ENOPROTOOPT before 4.12.
pub fn memory_info(socket: BorrowedFd<'_>) -> io::Result<MemoryInfo> {
    let mut value = [0; 64];
    let len = get(socket, libc::SOL_SOCKET, libc::SO_MEMINFO, &mut value)?;
    // In words: receive queue, receive buffer, send queue, send buffer, forward allocation,
    // write queue, option memory, backlog, drops.
    let word = |at: usize| match value[..len].get(at * 4..at * 4 + 4) {
        Some(bytes) => u32::from_ne_bytes(bytes.try_into().expect("4 bytes")),
        None => 0,
    };
    Ok(MemoryInfo {
        receive_queued: word(0),
        receive_buffer: word(1),
        send_queued: word(2),
        send_buffer: word(3),
        drops: word(8),
    })
}

#[cfg(test)]
mod tests;
