//! A connection's addresses, and its orderly end.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::sys::socket::{Shutdown, SockaddrStorage, getpeername, getsockname, shutdown};

/// This side's address. An IPv4 address within IPv6 is given as IPv4.
///
/// # Errors
/// EBADF, or a socket of neither family.
pub fn local(socket: BorrowedFd<'_>) -> io::Result<SocketAddr> {
    plain(&getsockname(socket.as_raw_fd())?)
}

/// The other side's address, as [`local`].
///
/// # Errors
/// ENOTCONN, or a socket of neither family.
pub fn peer(socket: BorrowedFd<'_>) -> io::Result<SocketAddr> {
    plain(&getpeername(socket.as_raw_fd())?)
}

fn plain(storage: &SockaddrStorage) -> io::Result<SocketAddr> {
    let address = match (storage.as_sockaddr_in(), storage.as_sockaddr_in6()) {
        (Some(v4), _) => SocketAddr::from((v4.ip(), v4.port())),
        (None, Some(v6)) => SocketAddr::new(v6.ip().to_canonical(), v6.port()),
        (None, None) => return Err(io::Error::from(io::ErrorKind::Unsupported)),
    };
    Ok(address)
}

/// Ends the sending direction with FIN.
///
/// # Errors
/// ENOTCONN where the connection is gone.
pub fn end_stream(socket: BorrowedFd<'_>) -> io::Result<()> {
    Ok(shutdown(socket.as_raw_fd(), Shutdown::Write)?)
}
