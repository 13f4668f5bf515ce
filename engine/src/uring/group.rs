//! The group of receive buffers that the kernel picks from, one per arrival.
#![expect(
    unsafe_code,
    reason = "the kernel writes these buffers and reads their ring"
)]

use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::BufRingEntry;
use io_uring::{Submitter, opcode, squeue};

use super::error::RingError;
use super::token::{Op, Token};
use crate::backend::Control;
use crate::sys::cmsg;
use crate::sys::memory::{HugePages, Pages};

/// The only buffer group of a ring.
pub(super) const GROUP: u16 = 0;

/// `struct io_uring_recvmsg_out`, which precedes what recvmsg multishot received: lengths of name,
/// control data and payload, and flags.
const HEADER_BYTES: usize = 16;

/// How buffers reach the kernel.
#[derive(Debug)]
enum Way {
    /// A ring of them in shared memory, since 5.19. Giving one back costs a store.
    Shared { ring: Pages, tail: u16 },
    /// An operation for each, before that.
    OneByOne,
}

/// What is in a buffer.
#[derive(Clone, Copy, Debug, Default)]
struct Arrival {
    /// The worker has it, so that the kernel does not.
    held: bool,
    /// Bytes from the first of the payload.
    len: u32,
    control: Control,
}

/// Receive buffers, each of which is the kernel's or the worker's at any time.
#[derive(Debug)]
pub(super) struct Group {
    way: Way,
    memory: Pages,
    /// Where the payload begins within a buffer.
    offset: usize,
    /// Most payload bytes.
    len: u32,
    stride: usize,
    arrivals: Vec<Arrival>,
    /// Given back, not yet the kernel's.
    returned: Vec<u16>,
    /// With the worker.
    held: usize,
}

impl Group {
    /// Whether its pages are huge, and by what means.
    pub(super) fn huge(&self) -> HugePages {
        self.memory.huge()
    }

    /// Maps `count` buffers (a power of two) of `len` payload bytes and registers them. With
    /// `control`, recvmsg's header and control data precede the payload; where `huge` they are in
    /// huge pages.
    pub(super) fn new(
        submitter: &Submitter<'_>,
        count: u16,
        len: u32,
        control: bool,
        huge: bool,
    ) -> Result<Group, RingError> {
        let offset = if control {
            HEADER_BYTES + cmsg::CONTROL_BYTES
        } else {
            0
        };
        // Whole cache lines, so that two buffers share none.
        let stride = (offset + len as usize).next_multiple_of(64);
        let bytes = stride * usize::from(count);
        let name = RingError::of_memory("receive buffers", bytes);
        let memory = Pages::touched(bytes, huge).map_err(name)?;
        let way = Way::find(submitter, count)?;
        let arrivals = vec![Arrival::default(); usize::from(count)];
        let returned = (0..count).collect();
        Ok(Group {
            way,
            memory,
            offset,
            len,
            stride,
            arrivals,
            returned,
            held: 0,
        })
    }

    /// From now on nothing precedes the payload: the control data of a single recvmsg lies
    /// elsewhere.
    pub(super) fn without_header(&mut self) {
        self.offset = 0;
    }

    /// Takes the shared ring away, for the tests of what older kernels do.
    #[cfg(test)]
    pub(super) fn one_by_one(&mut self, submitter: &Submitter<'_>) {
        submitter
            .unregister_buf_ring(GROUP)
            .expect("the ring was registered");
        self.way = Way::OneByOne;
        self.returned = (0..self.arrivals.len() as u16).collect();
    }

    /// Whether the kernel shares a ring of buffers with us.
    pub(super) fn is_shared(&self) -> bool {
        matches!(self.way, Way::Shared { .. })
    }

    /// Most payload bytes of a buffer.
    pub(super) fn payload_len(&self) -> u32 {
        self.len
    }

    /// Buffers that the worker does not have.
    pub(super) fn free(&self) -> usize {
        self.arrivals.len() - self.held
    }

    fn start(&self, id: u16) -> *mut u8 {
        assert!(
            usize::from(id) < self.arrivals.len(),
            "there is no receive buffer {id}"
        );
        // SAFETY: `memory` holds `arrivals.len()` buffers of `stride` bytes.
        unsafe { self.memory.as_ptr().add(usize::from(id) * self.stride) }
    }

    /// Makes what was given back available to the kernel. One store publishes all of it; without
    /// a shared ring, `push` gets an operation for each.
    pub(super) fn publish(&mut self, mut push: impl FnMut(&squeue::Entry)) {
        if self.returned.is_empty() {
            return;
        }
        for at in 0..self.returned.len() {
            let id = self.returned[at];
            let (start, len) = (self.start(id), self.offset as u32 + self.len);
            let mask = self.arrivals.len() as u16 - 1;
            match &mut self.way {
                Way::Shared { ring, tail } => {
                    let base = ring.as_ptr().cast::<BufRingEntry>();
                    // SAFETY: the ring has `mask + 1` zeroed entries. The kernel never writes
                    // them and does not read this one before the tail passes it (the tail itself
                    // is in the first entry, but in a field that is not touched here), and no
                    // other reference to it exists.
                    let entry = unsafe { &mut *base.add(usize::from(*tail & mask)) };
                    entry.set_addr(start as u64);
                    entry.set_len(len);
                    entry.set_bid(id);
                    *tail = tail.wrapping_add(1);
                }
                Way::OneByOne => {
                    let token = Token {
                        op: Op::Provide,
                        generation: 0,
                        index: 0,
                    };
                    let entry = opcode::ProvideBuffers::new(start, len as i32, 1, GROUP, id);
                    push(&entry.build().user_data(token.encode()));
                }
            }
        }
        self.returned.clear();
        if let Way::Shared { ring, tail } = &self.way {
            let base = ring.as_ptr().cast::<BufRingEntry>();
            // SAFETY: `base` is the first of the zeroed entries of the ring, and its tail is a
            // 16-bit word that the kernel reads with acquire order.
            let shared = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(base).cast_mut()) };
            shared.store(*tail, Ordering::Release);
        }
    }

    /// Takes over the buffer of a plain receive of `len` bytes.
    pub(super) fn take(&mut self, id: u16, len: u32) {
        self.hold(
            id,
            Arrival {
                held: true,
                len,
                control: Control::default(),
            },
        );
    }

    /// Takes over the buffer of a multishot recvmsg. Gives the payload's length, as far as it
    /// fits.
    pub(super) fn take_message(&mut self, id: u16) -> u32 {
        let start = self.start(id);
        // SAFETY: the completion says that the kernel is done with this buffer, `offset` bytes of
        // it precede the payload, and the reference ends before the buffer can be given back.
        let head = unsafe { std::slice::from_raw_parts(start, self.offset) };
        let word = |at: usize| u32::from_ne_bytes(head[at..at + 4].try_into().expect("4 bytes"));
        let (control_len, payload_len, flags) = (word(4), word(8), word(12));
        let control_len = (control_len as usize).min(cmsg::CONTROL_BYTES);
        let received = cmsg::parse(&head[HEADER_BYTES..HEADER_BYTES + control_len]);
        let len = payload_len.min(self.len);
        let truncated = flags & libc::MSG_TRUNC as u32 != 0;
        self.hold(
            id,
            Arrival {
                held: true,
                len,
                control: control_of(received, truncated),
            },
        );
        len
    }

    /// Takes over the buffer of a single recvmsg, whose control data lay elsewhere.
    pub(super) fn take_single(&mut self, id: u16, len: u32, control: Control) {
        self.hold(
            id,
            Arrival {
                held: true,
                len: len.min(self.len),
                control,
            },
        );
    }

    fn hold(&mut self, id: u16, arrival: Arrival) {
        let slot = &mut self.arrivals[usize::from(id)];
        assert!(
            !slot.held,
            "the kernel filled receive buffer {id}, which it did not have"
        );
        *slot = arrival;
        self.held += 1;
    }

    fn held(&self, id: u16) -> &Arrival {
        let arrival = &self.arrivals[usize::from(id)];
        assert!(arrival.held, "receive buffer {id} was given back already");
        arrival
    }

    /// The payload in a buffer that the worker has.
    pub(super) fn data(&self, id: u16) -> &[u8] {
        let len = self.held(id).len as usize;
        let start = self.start(id);
        // SAFETY: the worker has this buffer, so that the kernel does not write it; giving it
        // back takes `&mut self`. `len` is at most what the payload part holds.
        unsafe { std::slice::from_raw_parts(start.add(self.offset), len) }
    }

    /// What came with a buffer that the worker has.
    pub(super) fn control(&self, id: u16) -> Control {
        self.held(id).control
    }

    /// Gives a buffer back. The kernel gets it at the next [`Group::publish`].
    pub(super) fn give_back(&mut self, id: u16) {
        self.held(id);
        self.arrivals[usize::from(id)].held = false;
        self.held -= 1;
        self.returned.push(id);
    }
}

impl Way {
    fn find(submitter: &Submitter<'_>, count: u16) -> Result<Way, RingError> {
        let bytes = usize::from(count) * size_of::<BufRingEntry>();
        let name = RingError::of_memory("the ring of receive buffers", bytes);
        let ring = Pages::populated(bytes).map_err(&name)?;
        let address = ring.as_ptr() as u64;
        // SAFETY: the memory is page-aligned, zeroed, holds `count` entries, and is unmapped only
        // after the io_uring is closed (or never).
        let done = unsafe { submitter.register_buf_ring_with_flags(address, count, GROUP, 0) };
        match done {
            Ok(()) => Ok(Way::Shared { ring, tail: 0 }),
            // Before 5.19.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(Way::OneByOne),
            Err(error) => Err(name(error)),
        }
    }
}

fn control_of(received: cmsg::Received, truncated: bool) -> Control {
    Control {
        received_realtime_ns: received.realtime_ns,
        segment_bytes: received.segment_bytes,
        truncated,
    }
}
