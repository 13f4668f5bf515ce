//! What this kernel can do, found by trying.

use std::io;
use std::os::fd::OwnedFd;

use io_uring::{Parameters, Probe, Submitter, cqueue, opcode};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};

use super::core::{Core, LADDER};
use super::error::RingError;
use super::ring::Ring;
use super::token::{Op, Token};
use crate::backend::{Backend, Event, Kind, Setup, WaitFor};
use crate::sys::clock::monotonic_ns;

/// Bound on each wait of a trial, nanoseconds. It takes microseconds.
const PATIENCE_NS: u64 = 1_000_000_000;

/// Whether a ring can be made here. Makes one and drops it.
///
/// # Errors
/// The reason why it cannot, with the remedy.
pub fn available() -> Result<(), RingError> {
    let core = Core::new(&LADDER, 8, 16)?;
    check(core.params(), core.submitter())
}

/// Fails where something is missing that there is no way around.
pub(super) fn check(params: &Parameters, submitter: &Submitter<'_>) -> Result<(), RingError> {
    let features = [
        (
            params.is_feature_nodrop(),
            "completions that are not lost (5.5)",
        ),
        (params.is_feature_fast_poll(), "polling of sockets (5.7)"),
        (params.is_feature_ext_arg(), "waits with a time-out (5.11)"),
    ];
    let mut missing: Vec<&str> = features
        .iter()
        .filter(|(there, _)| !there)
        .map(|(_, name)| *name)
        .collect();
    let mut probe = Probe::new();
    // Before 5.6 the kernel cannot be asked, and lacks most of them.
    let asked = submitter.register_probe(&mut probe).is_ok();
    let opcodes = [
        (opcode::PollAdd::CODE, "POLL_ADD"),
        (opcode::Recv::CODE, "RECV"),
        (opcode::RecvMsg::CODE, "RECVMSG"),
        (opcode::Send::CODE, "SEND"),
        (opcode::Accept::CODE, "ACCEPT"),
        (opcode::Connect::CODE, "CONNECT"),
        (opcode::Close::CODE, "CLOSE"),
        (opcode::AsyncCancel::CODE, "ASYNC_CANCEL"),
        (opcode::ProvideBuffers::CODE, "PROVIDE_BUFFERS"),
    ];
    let absent = opcodes
        .iter()
        .filter(|(code, _)| !asked || !probe.is_supported(*code));
    missing.extend(absent.map(|(_, name)| *name));
    if missing.is_empty() {
        return Ok(());
    }
    Err(RingError::TooOld {
        missing: missing.join(", "),
    })
}

impl Ring {
    /// Finds out whether this kernel knows the receive flags that the set-up would use best
    /// (multishot, POLL_FIRST). The opcode is the same without them, so only a trial tells.
    pub(super) fn try_receive(&mut self, setup: &Setup) -> Result<(), RingError> {
        let tried = self.trial().map_err(|source| RingError::System {
            call: "the trial of io_uring's receive flags",
            source,
        })?;
        self.modern = tried;
        if !tried && self.control {
            self.memory.use_singles(setup.sockets.max(1))?;
        }
        Ok(())
    }

    /// Receives a byte over a socket pair.
    fn trial(&mut self) -> io::Result<bool> {
        let kind = if self.control {
            SockType::Datagram
        } else {
            SockType::Stream
        };
        let (ours, theirs) = socketpair(AddressFamily::Unix, kind, None, SockFlag::SOCK_CLOEXEC)?;
        let slot = self.add(ours)?;
        self.receive(slot);
        let outcome = self.trial_outcome(&theirs);
        self.close(slot);
        let until_ns = monotonic_ns() + PATIENCE_NS;
        while !self.trial_closed() {
            if monotonic_ns() > until_ns {
                return Err(io::Error::from_raw_os_error(libc::ETIMEDOUT));
            }
            self.wait(WaitFor::Event { until_ns })?;
        }
        outcome
    }

    fn trial_outcome(&mut self, theirs: &OwnedFd) -> io::Result<bool> {
        nix::unistd::write(theirs, b"x")?;
        let until_ns = monotonic_ns() + PATIENCE_NS;
        loop {
            self.wait(WaitFor::Event { until_ns })?;
            while let Some(entry) = self.core.pop() {
                let op = Token::decode(entry.user_data()).map(|token| token.op);
                let goes_on = cqueue::more(entry.flags()) || !self.has_group();
                let result = entry.result();
                let event = self.complete(&entry);
                if let Some(event) = event {
                    self.recycle(&event);
                }
                if op == Some(Op::Receive) {
                    return Ok(goes_on && result > 0);
                }
            }
            if monotonic_ns() > until_ns {
                return Ok(false);
            }
        }
    }

    fn trial_closed(&mut self) -> bool {
        while let Some(event) = self.next() {
            self.recycle(&event);
            if matches!(
                event,
                Event {
                    kind: Kind::Close,
                    ..
                }
            ) {
                return true;
            }
        }
        false
    }
}
