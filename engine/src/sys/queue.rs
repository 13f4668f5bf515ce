//! Bytes that a socket holds.
#![expect(unsafe_code, reason = "ioctl takes a pointer")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

fn count(socket: BorrowedFd<'_>, request: libc::Ioctl) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: both requests write one `int` to the address given.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), request, &raw mut bytes) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(bytes.max(0) as u64)
}

/// TCP: bytes sent by the application and not yet acknowledged (SIOCOUTQ). UDP: memory of the
/// datagrams not yet sent, overhead included.
///
/// # Errors
/// EINVAL on a listening socket.
pub fn send_queue(socket: BorrowedFd<'_>) -> io::Result<u64> {
    count(socket, libc::TIOCOUTQ)
}

/// TCP: bytes received and not yet read (SIOCINQ). UDP: bytes of the next datagram.
///
/// # Errors
/// EINVAL on a listening socket.
pub fn receive_queue(socket: BorrowedFd<'_>) -> io::Result<u64> {
    count(socket, libc::FIONREAD)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn sent_and_unread_bytes_are_somewhere() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut receiver = listener.accept().unwrap().0;
        sender.set_nonblocking(true).unwrap();
        let mut sent = 0;
        // Until neither side's buffer takes more, so that some wait on each.
        loop {
            match sender.write(&[0; 65536]) {
                Ok(bytes) => sent += bytes as u64,
                Err(_) => {
                    std::thread::sleep(std::time::Duration::from_millis(20));
                    match sender.write(&[0; 65536]) {
                        Ok(bytes) => sent += bytes as u64,
                        Err(_) => break,
                    }
                }
            }
        }
        let (out, within) = (
            send_queue(sender.as_fd()).unwrap(),
            receive_queue(receiver.as_fd()).unwrap(),
        );
        assert!(out > 0 && within > 0);
        // What is received but not acknowledged yet is in both.
        assert!(out + within >= sent, "{out} + {within} < {sent}");
        let mut left = sent;
        while left > 0 {
            left -= receiver.read(&mut [0; 65536]).unwrap() as u64;
        }
        assert_eq!(receive_queue(receiver.as_fd()).unwrap(), 0);
        assert!(send_queue(listener.as_fd()).is_err());
    }
}
