//! Sending and receiving: single calls that do not wait unless told to, and batches of datagrams.
#![expect(unsafe_code, reason = "sendmmsg and recvmmsg take arrays of pointers")]

use std::io;
use std::mem::zeroed;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use nix::sys::socket::{MsgFlags, SockFlag, SockaddrStorage, accept4, connect as nix_connect};

use super::cmsg;

/// Whether a receive waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Patience {
    /// EAGAIN where there is nothing.
    None,
    /// As long as the socket does: for ever, or its time-out (see
    /// [`super::socket::set_receive_timeout`]).
    OfSocket,
}

impl Patience {
    fn flags(self) -> MsgFlags {
        match self {
            Patience::None => MsgFlags::MSG_DONTWAIT,
            Patience::OfSocket => MsgFlags::empty(),
        }
    }
}

/// Sends as much as there is room for, without waiting and without a signal.
///
/// # Errors
/// Those of send(2).
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    Ok(nix::sys::socket::send(socket.as_raw_fd(), bytes, flags)?)
}

/// Receives into `bytes`.
///
/// # Errors
/// Those of recv(2).
pub fn receive(socket: BorrowedFd<'_>, bytes: &mut [u8], patience: Patience) -> io::Result<usize> {
    Ok(nix::sys::socket::recv(
        socket.as_raw_fd(),
        bytes,
        patience.flags(),
    )?)
}

/// Receives and throws away as many bytes as `room` has (MSG_TRUNC; TCP only: other sockets
/// write to `room` and give the datagram's whole length).
///
/// # Errors
/// Those of recv(2).
pub fn discard(socket: BorrowedFd<'_>, room: &mut [u8], patience: Patience) -> io::Result<usize> {
    let flags = patience.flags() | MsgFlags::MSG_TRUNC;
    Ok(nix::sys::socket::recv(socket.as_raw_fd(), room, flags)?)
}

/// Begins to connect a non-blocking socket; false where it goes on in the background.
///
/// # Errors
/// Those of connect(2).
pub fn connect(socket: BorrowedFd<'_>, to: SocketAddr) -> io::Result<bool> {
    match nix_connect(socket.as_raw_fd(), &SockaddrStorage::from(to)) {
        Ok(()) => Ok(true),
        Err(nix::errno::Errno::EINPROGRESS) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Accepts a connection on a non-blocking listener.
///
/// # Errors
/// Those of accept(2).
pub fn accept(listener: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    Ok(accept4(listener, SockFlag::SOCK_CLOEXEC)?)
}

/// What `recvmmsg` and `sendmmsg` are told, for so many datagrams at most.
struct Headers {
    messages: Vec<libc::mmsghdr>,
    vectors: Vec<libc::iovec>,
}

// SAFETY: the pointers within are set anew before each call and mean nothing after it.
unsafe impl Send for Headers {}

impl Headers {
    fn new(most: usize) -> Headers {
        // SAFETY: all zeroes is an empty message header, and an empty vector.
        let (message, vector) = unsafe { (zeroed::<libc::mmsghdr>(), zeroed::<libc::iovec>()) };
        Headers {
            messages: vec![message; most],
            vectors: vec![vector; most],
        }
    }

    fn set(&mut self, at: usize, start: *mut u8, len: usize) {
        self.vectors[at] = libc::iovec {
            iov_base: start.cast(),
            iov_len: len,
        };
        let message = &mut self.messages[at];
        message.msg_len = 0;
        message.msg_hdr.msg_iov = &raw mut self.vectors[at];
        message.msg_hdr.msg_iovlen = 1;
        message.msg_hdr.msg_flags = 0;
    }
}

/// Sends several datagrams by one call.
pub struct SendBatch {
    headers: Headers,
}

impl SendBatch {
    /// Room for so many at once.
    pub fn new(most: usize) -> SendBatch {
        SendBatch {
            headers: Headers::new(most),
        }
    }

    /// Sends the datagrams in order, as many as there is room for, without waiting; from their
    /// own memory where `zerocopy` (see [`super::zerocopy::send`]). Gives how many went; the
    /// first that did not is the one that an error is about.
    ///
    /// # Errors
    /// Those of sendmmsg(2), where not even the first went.
    pub fn send<'a>(
        &mut self,
        socket: BorrowedFd<'_>,
        datagrams: impl Iterator<Item = &'a [u8]>,
        zerocopy: bool,
    ) -> io::Result<usize> {
        let mut count = 0;
        for (at, datagram) in datagrams.take(self.headers.messages.len()).enumerate() {
            self.headers
                .set(at, datagram.as_ptr().cast_mut(), datagram.len());
            count = at + 1;
        }
        let start = self.headers.messages.as_mut_ptr();
        let zerocopy = if zerocopy { libc::MSG_ZEROCOPY } else { 0 };
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | zerocopy;
        // SAFETY: the first `count` headers were just set to slices that are borrowed until the
        // call returns; the kernel only reads what they point to, and writes lengths into the
        // headers.
        let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), start, count as u32, flags as _) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}

/// A datagram that a batch received.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Datagram {
    /// Payload bytes, as far as they fit.
    pub len: usize,
    /// What came with it.
    pub with: cmsg::Received,
    /// It was larger than its buffer.
    pub truncated: bool,
}

/// Receives several datagrams by one call, each into a buffer of its own.
pub struct ReceiveBatch {
    headers: Headers,
    /// Per datagram; empty where control messages are not asked for.
    control: Vec<[u8; cmsg::CONTROL_BYTES]>,
    received: usize,
}

impl ReceiveBatch {
    /// Room for so many at once, with their control messages or without.
    pub fn new(most: usize, control: bool) -> ReceiveBatch {
        ReceiveBatch {
            headers: Headers::new(most),
            control: vec![[0; cmsg::CONTROL_BYTES]; if control { most } else { 0 }],
            received: 0,
        }
    }

    /// Receives up to `ids.len()` datagrams. Buffer `id` is the first `len` of the bytes of
    /// `memory` from `id * stride`. Waits, if at all, only for the first. Gives how many came.
    ///
    /// Panics where a buffer does not lie within `memory`.
    ///
    /// # Errors
    /// Those of recvmmsg(2), where not even one came.
    pub fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        memory: &mut [u8],
        (stride, len): (usize, usize),
        ids: &[u16],
        patience: Patience,
    ) -> io::Result<usize> {
        self.received = 0;
        let count = ids.len().min(self.headers.messages.len());
        for (at, id) in ids.iter().take(count).enumerate() {
            let from = usize::from(*id) * stride;
            let buffer = &mut memory[from..from + len];
            self.headers.set(at, buffer.as_mut_ptr(), len);
            if let Some(control) = self.control.get_mut(at) {
                let header = &mut self.headers.messages[at].msg_hdr;
                header.msg_control = control.as_mut_ptr().cast();
                header.msg_controllen = control.len() as _;
            }
        }
        let flags = match patience {
            Patience::None => libc::MSG_DONTWAIT,
            Patience::OfSocket => libc::MSG_WAITFORONE,
        };
        let start = self.headers.messages.as_mut_ptr();
        // SAFETY: the first `count` headers were just set to buffers within `memory`, which is
        // borrowed mutably until the call returns, and to control buffers of ours. Two equal ids
        // would share a buffer, which is as harmless as writing it twice.
        let received = unsafe {
            let fd = socket.as_raw_fd();
            libc::recvmmsg(fd, start, count as u32, flags as _, std::ptr::null_mut())
        };
        self.received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
        Ok(self.received)
    }

    /// One of the datagrams of the last receive, from 0.
    pub fn datagram(&self, at: usize) -> Datagram {
        assert!(
            at < self.received,
            "{} datagrams were received",
            self.received
        );
        let message = &self.headers.messages[at];
        let control = self.control.get(at).map(|control| {
            // Of another width with another C library.
            let declared: usize = message.msg_hdr.msg_controllen as _;
            let len = declared.min(control.len());
            cmsg::parse(&control[..len])
        });
        Datagram {
            len: message.msg_len as usize,
            with: control.unwrap_or_default(),
            truncated: message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    use super::*;

    fn pair() -> (UdpSocket, UdpSocket) {
        let (one, two) = (
            UdpSocket::bind("127.0.0.1:0").unwrap(),
            UdpSocket::bind("127.0.0.1:0").unwrap(),
        );
        one.connect(two.local_addr().unwrap()).unwrap();
        two.connect(one.local_addr().unwrap()).unwrap();
        (one, two)
    }

    #[test]
    fn batches_keep_order_and_bounds() {
        let (one, two) = pair();
        super::super::socket::set_receive_timestamps(two.as_fd(), true).unwrap();
        let datagrams: [&[u8]; 4] = [b"one", b"", b"three", &[9; 50]];
        let mut batch = SendBatch::new(3);
        let mut sent = batch
            .send(one.as_fd(), datagrams.into_iter(), false)
            .unwrap();
        assert_eq!(sent, 3);
        sent += batch
            .send(one.as_fd(), datagrams.into_iter().skip(3), false)
            .unwrap();
        assert_eq!(sent, 4);
        let mut memory = vec![0; 64 * 8];
        let mut batch = ReceiveBatch::new(4, true);
        let mut all = Vec::new();
        while all.len() < 4 {
            let patience = Patience::OfSocket;
            let count = batch
                .receive(two.as_fd(), &mut memory, (64, 16), &[7, 1, 4], patience)
                .unwrap();
            all.extend((0..count).map(|at| {
                let datagram = batch.datagram(at);
                let from = [7, 1, 4][at] * 64;
                assert!(datagram.with.realtime_ns.is_some());
                (
                    memory[from..from + datagram.len].to_vec(),
                    datagram.truncated,
                )
            }));
        }
        let expected = [
            (b"one".to_vec(), false),
            (vec![], false),
            (b"three".to_vec(), false),
        ];
        assert_eq!(all[..3], expected);
        assert_eq!(all[3], (vec![9; 16], true));
        let none = batch.receive(two.as_fd(), &mut memory, (64, 16), &[0], Patience::None);
        assert_eq!(none.unwrap_err().raw_os_error(), Some(libc::EAGAIN));
    }

    #[test]
    #[should_panic(expected = "range end index")]
    fn a_buffer_outside_is_refused() {
        let (one, _two) = pair();
        let mut memory = [0; 64];
        let mut batch = ReceiveBatch::new(1, false);
        let _ = batch.receive(one.as_fd(), &mut memory, (64, 64), &[1], Patience::None);
    }
}
