//! Sends from our memory without a copy (SEND_ZC), and what the kernel says of them.
//!
//! Such a send has two completions: its outcome, and a notice that the kernel is done with the
//! bytes. The shared payload never changes, so that its sends are over with their outcome and
//! their notices are only counted; a private buffer is busy until its notice.

use io_uring::{Probe, Submitter, opcode};

use super::error::RingError;
use super::ring::Ring;
use super::sends::NONE;
use super::token::{Op, Token};
use crate::backend::{Event, SendStyle, Setup, ZeroCopyStats};

/// IORING_SEND_ZC_REPORT_USAGE, since 6.2: notices tell whether the bytes were copied after all.
const REPORT_USAGE: u16 = 8;
/// IORING_NOTIF_USAGE_ZC_COPIED, in a notice's result.
const COPIED: u32 = 1 << 31;

/// Notices that one socket may be owed: the kernel counts at least a page of the socket's buffer
/// for each, and its largest size is 4 MiB unless the host is tuned.
const NOTICES_A_SOCKET: u32 = 1024;

/// Completions that notices may take beside those of the operations.
pub(super) fn most_notices(setup: &Setup) -> u32 {
    match setup.send {
        SendStyle::ZeroCopy => setup.sockets.saturating_mul(NOTICES_A_SOCKET),
        SendStyle::Copy | SendStyle::File => 0,
    }
}

/// The sends of a ring that sends without copies.
#[derive(Debug)]
pub(super) struct ZeroCopy {
    /// The kernel says whether it copied.
    pub(super) report: bool,
    sends: u64,
    notices: u64,
    copied: u64,
    /// Sends that failed and have a notice all the same, which says that they were copied.
    void: u64,
}

impl ZeroCopy {
    /// What a set-up asks for.
    pub(super) fn of(
        style: SendStyle,
        submitter: &Submitter<'_>,
    ) -> Result<Option<ZeroCopy>, RingError> {
        if style == SendStyle::Copy {
            return Ok(None);
        }
        let mut probe = Probe::new();
        let asked = submitter.register_probe(&mut probe).is_ok();
        let known = asked && probe.is_supported(opcode::SendZc::CODE);
        ZeroCopy::made(style, known).map(Some)
    }

    /// Where the kernel knows SEND_ZC, or does not.
    fn made(style: SendStyle, known: bool) -> Result<ZeroCopy, RingError> {
        match (style, known) {
            (SendStyle::ZeroCopy, true) => Ok(ZeroCopy {
                report: true,
                sends: 0,
                notices: 0,
                copied: 0,
                void: 0,
            }),
            (SendStyle::ZeroCopy, false) => Err(RingError::Lacks {
                what: "SEND_ZC, which --zerocopy send needs",
                remedy: "a kernel of 6.0 or later, or --zerocopy msg",
            }),
            (SendStyle::Copy | SendStyle::File, _) => Err(RingError::Lacks {
                what: "sendfile, which --zerocopy file needs",
                remedy: "--engine sockets",
            }),
        }
    }

    pub(super) fn flags(&self) -> u16 {
        if self.report { REPORT_USAGE } else { 0 }
    }

    pub(super) fn stats(&self) -> ZeroCopyStats {
        ZeroCopyStats {
            sends: self.sends,
            completed: Some(self.notices.saturating_sub(self.void)),
            copied: self.report.then_some(self.copied.saturating_sub(self.void)),
        }
    }
}

impl Ring {
    /// Counts the outcome of a send without a copy. True where it is to be tried again, in the
    /// way that it is now marked for.
    pub(super) fn again_otherwise(&mut self, index: u32, result: i32, noticed: bool) -> bool {
        let send = self.sends.get_mut(index);
        let Some(zerocopy) = &mut self.zerocopy else {
            return false;
        };
        if send.plain {
            return false;
        }
        zerocopy.void += u64::from(noticed && result <= 0);
        zerocopy.sends += u64::from(result > 0);
        match -result {
            _ if send.cancelled => false,
            // Before 6.2 the kernel cannot say whether it copied, and does not know the flag.
            libc::EINVAL if zerocopy.sends == 0 && !send.unasked => {
                send.unasked = true;
                zerocopy.report = false;
                true
            }
            // No more memory may be locked: the kernel has to copy this one.
            libc::ENOMEM => {
                send.plain = true;
                zerocopy.sends += 1;
                zerocopy.notices += 1;
                zerocopy.copied += 1;
                true
            }
            _ => false,
        }
    }

    /// The kernel is done with the bytes of a send.
    pub(super) fn notified(&mut self, token: Token, result: i32) -> Option<Event> {
        if let Some(zerocopy) = &mut self.zerocopy {
            zerocopy.notices += 1;
            zerocopy.copied += u64::from(result as u32 & COPIED != 0);
        }
        if token.op == Op::Lend {
            return None;
        }
        let send = self.sends.get_mut(token.index);
        debug_assert!(send.buffer != NONE && send.notices > 0, "{send:?}");
        send.notices -= 1;
        if send.notices > 0 {
            return None;
        }
        let outcome = send.outcome.take()?;
        self.end_send(token.index, outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_lacks_is_named_with_the_way_out() {
        assert!(ZeroCopy::made(SendStyle::ZeroCopy, true).is_ok());
        let lacks = ZeroCopy::made(SendStyle::ZeroCopy, false).unwrap_err();
        assert_eq!(
            (lacks.exit_code(), lacks.code()),
            (5, "zerocopy-unavailable")
        );
        let text = lacks.to_string();
        assert!(
            text.contains("SEND_ZC") && text.contains("--zerocopy msg"),
            "{text}"
        );
        assert!(ZeroCopy::made(SendStyle::File, true).is_err());
    }
}
