//! Sends from our memory without a copy (MSG_ZEROCOPY), the notices that they are done with, and
//! sendfile.
//!
//! The shared payload never changes, so that its sends are over once they went and their notices
//! are only counted. A datagram's private buffer is busy until its notice. Private buffers of
//! streams are copied.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::engine::Sockets;
use super::sends::Outgoing;
use super::slots::Role;
use crate::backend::{SendFrom, SendStyle, Setup, Slot, ZeroCopyStats};
use crate::sys::cmsg::Notice;
use crate::sys::socket::set_nonblocking;
use crate::sys::transfer;
use crate::sys::zerocopy::{self, Notices};

/// Notices that one call reads.
const NOTICES: usize = 16;
/// Notices that a stream may be owed before they are read: the kernel merges those of sends in a
/// row, so that one call reads many.
const OWED: u32 = 64;

/// How an engine sends, and what became of it.
pub(super) struct ZeroCopy {
    style: SendStyle,
    /// The payload, where it goes from a file.
    file: Option<OwnedFd>,
    notices: Notices,
    sends: u64,
    completed: u64,
    copied: u64,
}

impl ZeroCopy {
    pub(super) fn new(setup: &Setup) -> io::Result<ZeroCopy> {
        let file = match setup.send {
            SendStyle::File => Some(zerocopy::sealed_file(&setup.payload)?),
            SendStyle::Copy | SendStyle::ZeroCopy => None,
        };
        Ok(ZeroCopy {
            style: setup.send,
            file,
            notices: Notices::new(NOTICES),
            sends: 0,
            completed: 0,
            copied: 0,
        })
    }

    /// Makes a new socket fit for it.
    pub(super) fn prepare(&self, socket: BorrowedFd<'_>, role: Role) -> io::Result<()> {
        match (self.style, role) {
            (SendStyle::ZeroCopy, _) => zerocopy::allow(socket).map_err(|error| {
                let text = "MSG_ZEROCOPY is not available (Linux 4.14 has it for TCP, 5.0 for \
                            UDP)";
                io::Error::new(error.kind(), format!("{text}: {error}"))
            }),
            (SendStyle::File, Role::Stream) => set_nonblocking(socket, true),
            _ => Ok(()),
        }
    }

    pub(super) fn is_on(&self) -> bool {
        self.style != SendStyle::Copy
    }

    pub(super) fn is_file(&self) -> bool {
        self.style == SendStyle::File
    }

    /// Whether the kernel says when it is done with a send's bytes.
    pub(super) fn has_notices(&self) -> bool {
        self.style == SendStyle::ZeroCopy
    }

    /// Counts sends that the kernel would not take without a copy.
    pub(super) fn copied(&mut self, sends: u64) {
        self.sends += sends;
        self.completed += sends;
        self.copied += sends;
    }

    pub(super) fn feature(&self) -> Option<&'static str> {
        match self.style {
            SendStyle::Copy => None,
            SendStyle::ZeroCopy => Some("msg_zerocopy"),
            SendStyle::File => Some("sendfile"),
        }
    }

    pub(super) fn stats(&self) -> Option<ZeroCopyStats> {
        self.is_on().then(|| ZeroCopyStats {
            sends: self.sends,
            completed: self.has_notices().then_some(self.completed),
            copied: self.has_notices().then_some(self.copied),
        })
    }
}

impl Sockets {
    /// Continues a send of the shared payload, without a copy where that is possible.
    pub(super) fn send_lent(&mut self, send: &Outgoing) -> io::Result<usize> {
        let bytes = self.memory.rest(send);
        let socket = self.slots.socket(send.slot);
        if let (Some(file), SendFrom::Payload { offset, .. }) = (&self.zerocopy.file, send.from) {
            let from = u64::from(offset) + u64::from(send.sent);
            let sent = zerocopy::send_file(socket, file.as_fd(), from, bytes.len())?;
            self.zerocopy.sends += 1;
            return Ok(sent);
        }
        let sent = zerocopy::send(socket, bytes);
        if is_exhausted(&sent) {
            // Notices that are there make room for more; this time the kernel copies.
            self.read_notices(send.slot);
            self.enters += 1;
            let bytes = self.memory.rest(send);
            let sent = transfer::send(self.slots.socket(send.slot), bytes)?;
            self.zerocopy.copied(1);
            return Ok(sent);
        }
        let sent = sent?;
        self.zerocopy.sends += 1;
        if self.count_lent(send.slot) >= OWED {
            self.read_notices(send.slot);
        }
        // Epoll tells of notices too.
        self.note_unwatched(send.slot);
        Ok(sent)
    }

    /// Takes a send's number. Gives how many notices its socket is owed.
    fn count_lent(&mut self, slot: Slot) -> u32 {
        let entry = self.slots.get_mut(slot);
        entry.next_number = entry.next_number.wrapping_add(1);
        entry.owed += 1;
        entry.owed
    }

    /// A datagram went from its private buffer, which the kernel may still need.
    pub(super) fn lend(&mut self, mut send: Outgoing) {
        if send.len() == 0 {
            // It has no bytes, and no notice.
            return self.sent(&send, 0);
        }
        self.zerocopy.sends += 1;
        send.number = self.slots.get(send.slot).next_number;
        self.count_lent(send.slot);
        match send.from {
            SendFrom::Payload { len, .. } => self.sent(&send, len as i32),
            SendFrom::Buffer { .. } => self.sends.lend(&mut self.slots, send),
        }
    }

    /// Reads the notices that a socket has.
    pub(super) fn read_notices(&mut self, slot: Slot) {
        loop {
            self.enters += 1;
            let socket = self.slots.socket(slot);
            // None is there, or the socket is beyond use, which the next call on it tells.
            let count = self.zerocopy.notices.read(socket).unwrap_or(0);
            for at in 0..count {
                if let Some(notice) = self.zerocopy.notices.notice(at) {
                    self.noticed(slot, notice);
                }
            }
            if count < NOTICES {
                return;
            }
        }
    }

    fn noticed(&mut self, slot: Slot, notice: Notice) {
        let sends = notice.sends();
        self.zerocopy.completed += sends;
        self.zerocopy.copied += if notice.copied { sends } else { 0 };
        let entry = self.slots.get_mut(slot);
        entry.owed = entry.owed.saturating_sub(sends as u32);
        for _ in 0..sends {
            let covered = |send: &Outgoing| notice.covers(send.number);
            match self.sends.take_lent(&mut self.slots, slot, covered) {
                Some(send) => self.sent(&send, send.len() as i32),
                None => return,
            }
        }
    }

    /// A socket is closed: nobody will tell of its buffers any more.
    pub(super) fn end_lent(&mut self, slot: Slot) {
        while let Some(send) = self.sends.take_lent(&mut self.slots, slot, |_| true) {
            self.sent(&send, send.len() as i32);
        }
    }
}

/// Whether the socket takes no more sends without a copy: the notices that it may be owed, or
/// the memory that may be locked, are used up.
pub(super) fn is_exhausted<T>(sent: &io::Result<T>) -> bool {
    matches!(sent, Err(error) if error.raw_os_error() == Some(libc::ENOBUFS))
}
