//! Sends whose bytes the kernel need not copy: MSG_ZEROCOPY with its notices, and sendfile(2).
#![expect(unsafe_code, reason = "sendfile and recvmmsg take pointers")]

use std::ffi::CStr;
use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{MsgFlags, send as nix_send};

use super::cmsg::{self, Notice};
use super::option::set_int;

/// Allows MSG_ZEROCOPY on a socket (SO_ZEROCOPY).
///
/// # Errors
/// Those of setsockopt(2): ENOPROTOOPT before 4.14, EOPNOTSUPP on sockets that have it not (UDP
/// before 5.0).
pub fn allow(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_int(socket, libc::SOL_SOCKET, libc::SO_ZEROCOPY, 1)
}

/// Sends as much as there is room for from `bytes` themselves (MSG_ZEROCOPY), without waiting and
/// without a signal. Until a notice says that the kernel is done with them, what is written to
/// the bytes may be what the other side gets.
///
/// # Errors
/// Those of send(2); ENOBUFS where the notices that may be outstanding or the memory that may be
/// locked are used up (`net.core.optmem_max`, `ulimit -l`).
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    let zerocopy = MsgFlags::from_bits_retain(libc::MSG_ZEROCOPY);
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL | zerocopy;
    Ok(nix_send(socket.as_raw_fd(), bytes, flags)?)
}

/// A file in memory that nobody can change any more.
///
/// # Errors
/// Those of memfd_create(2), write(2) and fcntl(2).
pub fn sealed_file(bytes: &[u8]) -> io::Result<OwnedFd> {
    const NAME: &CStr = c"payload";
    let file = memfd_create(NAME, MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?;
    let mut rest = bytes;
    while !rest.is_empty() {
        let written = nix::unistd::write(&file, rest)?;
        rest = &rest[written..];
    }
    let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_WRITE;
    fcntl(&file, FcntlArg::F_ADD_SEALS(seals | SealFlag::F_SEAL_SEAL))?;
    Ok(file)
}

/// Sends `len` bytes of a file from `offset` on a non-blocking stream socket, as many as there is
/// room for.
///
/// # Errors
/// Those of sendfile(2).
pub fn send_file(
    socket: BorrowedFd<'_>,
    file: BorrowedFd<'_>,
    offset: u64,
    len: usize,
) -> io::Result<usize> {
    let mut at = libc::off_t::try_from(offset)
        .map_err(|_| io::Error::from_raw_os_error(libc::EOVERFLOW))?;
    // SAFETY: the kernel reads and writes `at`, which outlives the call, and no other memory.
    let sent = unsafe { libc::sendfile(socket.as_raw_fd(), file.as_raw_fd(), &raw mut at, len) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Reads several notices by one call.
pub struct Notices {
    messages: Vec<libc::mmsghdr>,
    control: Vec<[u8; cmsg::CONTROL_BYTES]>,
    received: usize,
}

// SAFETY: the pointers within are set anew before each call and mean nothing after it.
unsafe impl Send for Notices {}

impl Notices {
    /// Room for so many at once.
    pub fn new(most: usize) -> Notices {
        // SAFETY: all zeroes is an empty message header: null pointers with lengths of 0.
        let message = unsafe { zeroed::<libc::mmsghdr>() };
        Notices {
            messages: vec![message; most],
            control: vec![[0; cmsg::CONTROL_BYTES]; most],
            received: 0,
        }
    }

    /// Takes messages out of a socket's error queue, without waiting. Gives how many; as many as
    /// there is room for means that there may be more.
    ///
    /// # Errors
    /// Those of recvmmsg(2), in the first place EAGAIN where there is none.
    pub fn read(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        self.received = 0;
        for (message, control) in self.messages.iter_mut().zip(&mut self.control) {
            let header = &mut message.msg_hdr;
            header.msg_control = control.as_mut_ptr().cast();
            header.msg_controllen = control.len() as _;
            header.msg_flags = 0;
        }
        let (start, most) = (self.messages.as_mut_ptr(), self.messages.len() as u32);
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        // SAFETY: every header was just set to a control buffer of ours and has no room for data.
        let received = unsafe {
            let fd = socket.as_raw_fd();
            libc::recvmmsg(fd, start, most, flags as _, std::ptr::null_mut())
        };
        self.received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
        Ok(self.received)
    }

    /// One of the messages of the last read, from 0; none where it was no notice.
    pub fn notice(&self, at: usize) -> Option<Notice> {
        assert!(at < self.received, "{} messages were read", self.received);
        // Of another width with another C library.
        let declared: usize = self.messages[at].msg_hdr.msg_controllen as _;
        let control = &self.control[at];
        cmsg::notice(&control[..declared.min(control.len())])
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (ours, listener.accept().unwrap().0)
    }

    #[test]
    fn every_send_has_its_notice() {
        let (ours, mut theirs) = pair();
        allow(ours.as_fd()).unwrap();
        let mut notices = Notices::new(2);
        let none = notices.read(ours.as_fd()).unwrap_err();
        assert_eq!(none.raw_os_error(), Some(libc::EAGAIN));
        let bytes: Vec<u8> = (0..100_000u32).map(|at| at as u8).collect();
        let (mut told, mut got) = (0, Vec::new());
        for round in 0..5 {
            let sent = send(ours.as_fd(), &bytes).unwrap();
            let mut part = vec![0; sent];
            theirs.read_exact(&mut part).unwrap();
            got.extend(part);
            let until = std::time::Instant::now() + std::time::Duration::from_secs(5);
            while told <= round && std::time::Instant::now() < until {
                let count = notices.read(ours.as_fd()).unwrap_or(0);
                for at in 0..count {
                    let notice = notices.notice(at).expect("nothing else is in the queue");
                    assert_eq!(u64::from(notice.first), told);
                    // Over loopback the kernel copies.
                    assert!(notice.copied);
                    told += notice.sends();
                }
            }
            assert_eq!(told, round + 1);
            assert_eq!(got.split_off(0), bytes[..sent]);
        }
    }

    #[test]
    fn a_sealed_file_is_sent_and_stays_as_it_is() {
        let (ours, mut theirs) = pair();
        ours.set_nonblocking(true).unwrap();
        let file = sealed_file(b"0123456789").unwrap();
        assert!(nix::unistd::write(&file, b"x").is_err());
        assert_eq!(send_file(ours.as_fd(), file.as_fd(), 3, 4).unwrap(), 4);
        let mut got = [0; 4];
        theirs.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"3456");
        // Until the socket is full, which is an error and no wait.
        let large = sealed_file(&[7; 1 << 20]).unwrap();
        let full = loop {
            match send_file(ours.as_fd(), large.as_fd(), 0, 1 << 20) {
                Ok(sent) => assert!(sent > 0),
                Err(error) => break error,
            }
        };
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
    }
}
