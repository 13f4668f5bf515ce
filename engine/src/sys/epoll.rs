//! Waiting for many descriptors, to the nanosecond.
#![expect(unsafe_code, reason = "the calls of epoll take pointers")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// What a descriptor is watched for, or what it is ready for: bits of `EPOLLIN` and so on.
pub type Interest = u32;

/// There is something to read, a connection to accept, or an end.
pub const READABLE: Interest = libc::EPOLLIN as u32;
/// There is room to send.
pub const WRITABLE: Interest = libc::EPOLLOUT as u32;
/// The other side sends no more.
pub const ENDING: Interest = libc::EPOLLRDHUP as u32;
/// An error is pending, or a message in the error queue. Reported without being asked for.
pub const ERROR: Interest = libc::EPOLLERR as u32;
/// An error is pending, or both directions ended. Reported without being asked for.
pub const BROKEN: Interest = (libc::EPOLLERR | libc::EPOLLHUP) as u32;
/// Report changes, not states.
pub const EDGE: Interest = libc::EPOLLET as u32;
/// Of several epoll instances that watch one listener, wake one and not all.
pub const EXCLUSIVE: Interest = libc::EPOLLEXCLUSIVE as u32;

/// A descriptor that is ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ready {
    /// What it was watched with.
    pub token: u64,
    /// What it is ready for.
    pub interest: Interest,
}

/// An epoll instance with room for the reports of one wait.
pub struct Epoll {
    fd: OwnedFd,
    reports: Vec<libc::epoll_event>,
    ready: usize,
    /// epoll_pwait2 is there (since 5.11), whose time-out has nanoseconds.
    precise: bool,
}

impl Epoll {
    /// An instance that reports at most `most` descriptors at once.
    ///
    /// # Errors
    /// Those of epoll_create1(2).
    pub fn new(most: usize) -> io::Result<Epoll> {
        // SAFETY: no pointer is passed, and a result that is not negative is a new descriptor.
        let fd = unsafe {
            let raw = libc::epoll_create1(libc::EPOLL_CLOEXEC);
            if raw < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(raw)
        };
        let none = libc::epoll_event { events: 0, u64: 0 };
        Ok(Epoll {
            fd,
            reports: vec![none; most.max(1)],
            ready: 0,
            precise: true,
        })
    }

    /// Watches a descriptor. What it is ready for already is reported as well.
    ///
    /// # Errors
    /// Those of epoll_ctl(2); EPERM for a file that cannot be watched.
    pub fn add(&self, fd: BorrowedFd<'_>, interest: Interest, token: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, interest, token)
    }

    /// Changes what a descriptor is watched for. What it is ready for already is reported.
    ///
    /// # Errors
    /// Those of epoll_ctl(2).
    pub fn modify(&self, fd: BorrowedFd<'_>, interest: Interest, token: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, interest, token)
    }

    /// Watches a descriptor no more. Closing it does the same, unless it was duplicated.
    ///
    /// # Errors
    /// Those of epoll_ctl(2).
    pub fn remove(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd, 0, 0)
    }

    fn control(&self, what: i32, fd: BorrowedFd<'_>, events: u32, token: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events, u64: token };
        // SAFETY: the kernel reads the event during the call.
        let result =
            unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), what, fd.as_raw_fd(), &raw mut event) };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// Waits until a descriptor is ready, for so long at most; none is for ever. Gives how many
    /// are, which [`Epoll::ready`] tells; being interrupted is none.
    ///
    /// # Errors
    /// Those of epoll_wait(2).
    pub fn wait(&mut self, timeout_ns: Option<u64>) -> io::Result<usize> {
        self.ready = 0;
        let result = match timeout_ns {
            None => self.wait_ms(-1),
            Some(0) => self.wait_ms(0),
            Some(ns) => self.wait_ns(ns),
        };
        match result {
            Ok(ready) => self.ready = ready,
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
            Err(error) => return Err(error),
        }
        Ok(self.ready)
    }

    /// One of the descriptors that the last wait found ready, from 0.
    pub fn ready(&self, at: usize) -> Ready {
        assert!(at < self.ready, "the last wait found {} ready", self.ready);
        let report = self.reports[at];
        Ready {
            token: report.u64,
            interest: report.events,
        }
    }

    fn wait_ms(&mut self, ms: i32) -> io::Result<usize> {
        let (start, len) = (self.reports.as_mut_ptr(), self.reports.len() as i32);
        // SAFETY: the kernel writes at most `len` reports, for which there is room.
        let ready = unsafe { libc::epoll_wait(self.fd.as_raw_fd(), start, len, ms) };
        usize::try_from(ready).map_err(|_| io::Error::last_os_error())
    }

    fn wait_ns(&mut self, ns: u64) -> io::Result<usize> {
        let timeout = libc::timespec {
            tv_sec: (ns / 1_000_000_000) as libc::time_t,
            tv_nsec: (ns % 1_000_000_000) as libc::c_long,
        };
        if self.precise {
            let (start, len) = (self.reports.as_mut_ptr(), self.reports.len());
            let no_mask = std::ptr::null::<libc::sigset_t>();
            // SAFETY: the kernel writes at most `len` reports, for which there is room, and reads
            // the time-out during the call.
            let ready = unsafe {
                let fd = self.fd.as_raw_fd();
                let call = libc::SYS_epoll_pwait2;
                libc::syscall(call, fd, start, len, &raw const timeout, no_mask, 0usize)
            };
            match usize::try_from(ready) {
                Ok(ready) => return Ok(ready),
                Err(_) => {
                    let error = io::Error::last_os_error();
                    // Too old a kernel, or a filter that is older than the call.
                    if !matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) {
                        return Err(error);
                    }
                    self.precise = false;
                }
            }
        }
        let mut poll = libc::pollfd {
            fd: self.fd.as_fd().as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one descriptor is passed and one is there; the kernel reads the time-out.
        let ready = unsafe { libc::ppoll(&raw mut poll, 1, &raw const timeout, std::ptr::null()) };
        match ready {
            0 => Ok(0),
            1.. => self.wait_ms(0),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl std::fmt::Debug for Epoll {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Epoll")
            .field("fd", &self.fd)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::sys::clock::monotonic_ns;

    #[test]
    fn both_clocks_tell_what_is_ready_and_end_in_time() {
        for precise in [true, false] {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            let mut epoll = Epoll::new(4).unwrap();
            epoll.precise = precise;
            epoll.add(ours.as_fd(), READABLE | EDGE, 7).unwrap();
            let start = monotonic_ns();
            assert_eq!(epoll.wait(Some(3_500_000)).unwrap(), 0);
            let waited = monotonic_ns() - start;
            assert!(waited >= 3_400_000, "{waited} ns");
            theirs.write_all(b"x").unwrap();
            for timeout in [Some(5_000_000_000), Some(0), None] {
                assert_eq!(epoll.wait(timeout).unwrap(), 1);
                let ready = epoll.ready(0);
                assert_eq!((ready.token, ready.interest & READABLE), (7, READABLE));
                // An edge is told once, until it is asked for again.
                assert_eq!(epoll.wait(Some(0)).unwrap(), 0);
                epoll.modify(ours.as_fd(), READABLE | EDGE, 7).unwrap();
            }
            epoll.remove(ours.as_fd()).unwrap();
            assert_eq!(epoll.wait(Some(0)).unwrap(), 0);
        }
    }
}
