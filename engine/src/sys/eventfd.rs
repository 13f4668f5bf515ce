//! Waking a thread that sleeps in its engine.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use nix::errno::Errno;
use nix::sys::eventfd::{EfdFlags, EventFd};

/// Wakes the thread whose engine has the other half. Cheap to clone and to send.
#[derive(Clone, Debug)]
pub struct Waker {
    eventfd: Arc<OwnedFd>,
}

impl Waker {
    /// Wakes it. Several wake-ups before it looks are one.
    ///
    /// # Errors
    /// Those of write(2), none of which an eventfd has in practice.
    pub fn wake(&self) -> io::Result<()> {
        match nix::unistd::write(&self.eventfd, &1u64.to_ne_bytes()) {
            // Full is as awake as it gets.
            Ok(_) | Err(Errno::EAGAIN) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// Makes a waker and the descriptor to hand to `Backend::add_waker`.
///
/// # Errors
/// EMFILE, ENFILE: no descriptor is left.
pub fn pair() -> io::Result<(Waker, OwnedFd)> {
    let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
    let ours = OwnedFd::from(EventFd::from_flags(flags)?);
    let theirs = ours.try_clone()?;
    Ok((
        Waker {
            eventfd: Arc::new(ours),
        },
        theirs,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wake_ups_add_up_to_one() {
        let (waker, fd) = pair().unwrap();
        let mut count = [0; 8];
        assert_eq!(nix::unistd::read(&fd, &mut count), Err(Errno::EAGAIN));
        waker.wake().unwrap();
        waker.clone().wake().unwrap();
        assert_eq!(nix::unistd::read(&fd, &mut count), Ok(8));
        assert_eq!(u64::from_ne_bytes(count), 2);
        assert_eq!(nix::unistd::read(&fd, &mut count), Err(Errno::EAGAIN));
    }
}
