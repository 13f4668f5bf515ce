//! A connection's addresses, and its end: in order, or at once.
#![expect(unsafe_code, reason = "an address of no family is none that nix knows")]

use std::io;
use std::mem::{size_of, zeroed};
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

/// Ends a TCP connection at once: what is queued here goes no further, the other side gets a
/// reset, and TCP_INFO and the peer's address are gone.
///
/// # Errors
/// Those of connect(2).
pub fn abort_stream(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: all zeroes is a valid address, of the family AF_UNSPEC.
    let mut nowhere: libc::sockaddr = unsafe { zeroed() };
    nowhere.sa_family = libc::AF_UNSPEC as libc::sa_family_t;
    let length = size_of::<libc::sockaddr>() as libc::socklen_t;
    // SAFETY: the kernel reads an address of the length that is given, and it lives until then.
    let result = unsafe { libc::connect(socket.as_raw_fd(), &raw const nowhere, length) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn what_is_queued_behind_an_abort_never_comes() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut receiver = listener.accept().unwrap().0;
        sender.set_nonblocking(true).unwrap();
        let mut sent = 0;
        while let Ok(bytes) = sender.write(&[7; 65536]) {
            sent += bytes;
        }
        abort_stream(sender.as_fd()).unwrap();
        assert!(peer(sender.as_fd()).is_err());
        let (mut received, mut room) = (0, vec![0; 65536]);
        let error = loop {
            match receiver.read(&mut room) {
                Ok(bytes) => received += bytes,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        assert!(0 < received && received < sent, "{received} of {sent}");
    }
}
