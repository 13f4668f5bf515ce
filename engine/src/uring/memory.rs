//! Memory that the kernel reads or writes while operations are in flight.
#![expect(
    unsafe_code,
    reason = "only raw pointers reach this memory while the kernel may use it"
)]

use std::net::SocketAddr;

use io_uring::Submitter;
use nix::sys::socket::{SockaddrLike, SockaddrStorage};

use super::error::RingError;
use super::group::Group;
use crate::backend::{Control, ReceiveStyle, Setup, Slot};
use crate::sys::cmsg;
use crate::sys::memory::{HugePages, Pages};

/// Bytes set aside for each slot's address: `struct sockaddr_storage`.
const ADDRESS_BYTES: usize = size_of::<libc::sockaddr_storage>();

/// Where received bytes go.
#[derive(Debug)]
pub(super) enum Receiver {
    /// One buffer for all. Nobody reads it.
    Scratch {
        memory: Pages,
        len: u32,
        /// MSG_TRUNC where the kernel is to throw the bytes away. The memory is there all the
        /// same: sockets other than TCP do write to it.
        flags: i32,
    },
    /// A buffer per arrival.
    Group(Group),
}

/// All memory that entries point to. It outlives the ring, or is leaked where the kernel did not
/// let go of it in time.
#[derive(Debug)]
pub(super) struct Memory {
    payload: Pages,
    payload_len: usize,
    private: Pages,
    private_count: u32,
    private_len: u32,
    pub(super) receiver: Receiver,
    /// A `sockaddr_storage` per slot.
    addresses: Pages,
    /// The `msghdr` that all multishot receives share; the kernel only reads it.
    message: Pages,
    /// A [`Single`] per slot, on kernels whose recvmsg has no multishot form.
    singles: Option<Pages>,
}

/// What a single recvmsg writes besides the payload, and where it is told so.
#[repr(C)]
struct Single {
    message: libc::msghdr,
    vector: libc::iovec,
    control: [u8; cmsg::CONTROL_BYTES],
}

impl Memory {
    pub(super) fn new(submitter: &Submitter<'_>, setup: &Setup) -> Result<Memory, RingError> {
        let Setup {
            payload,
            send_buffers,
            send_buffer_len,
            sockets,
            ..
        } = setup;
        let populated =
            |what, bytes| Pages::populated(bytes).map_err(RingError::of_memory(what, bytes));
        let touched = |what, bytes| {
            Pages::touched(bytes, setup.huge_pages).map_err(RingError::of_memory(what, bytes))
        };
        let shared = touched("the payload", payload.len())?;
        // SAFETY: the new mapping is at least as long as the payload, and nobody else has it.
        unsafe {
            shared
                .as_ptr()
                .copy_from_nonoverlapping(payload.as_ptr(), payload.len())
        };
        let private = *send_buffers as usize * *send_buffer_len as usize;
        let addresses = *sockets as usize * ADDRESS_BYTES;
        let message = populated("a message header", size_of::<libc::msghdr>())?;
        let header = libc::msghdr {
            msg_controllen: cmsg::CONTROL_BYTES,
            ..no_message()
        };
        // SAFETY: the page is aligned for anything and larger than the header.
        unsafe { message.as_ptr().cast::<libc::msghdr>().write(header) };
        Ok(Memory {
            payload: shared,
            payload_len: payload.len(),
            private: touched("private send buffers", private)?,
            private_count: *send_buffers,
            private_len: *send_buffer_len,
            receiver: receiver(submitter, setup.receive, setup.huge_pages)?,
            addresses: Pages::reserved(addresses)
                .map_err(RingError::of_memory("socket addresses", addresses))?,
            message,
            singles: None,
        })
    }

    /// Whether payload and buffers are in huge pages, and by what means.
    pub(super) fn huge(&self) -> HugePages {
        let received = match &self.receiver {
            // Nobody touches what is thrown away.
            Receiver::Scratch { flags, .. } if flags & libc::MSG_TRUNC != 0 => HugePages::Reserved,
            Receiver::Scratch { memory, .. } => memory.huge(),
            Receiver::Group(group) => group.huge(),
        };
        self.payload.huge().min(self.private.huge()).min(received)
    }

    /// Prepares for receiving messages one by one.
    pub(super) fn use_singles(&mut self, sockets: u32) -> Result<(), RingError> {
        let bytes = sockets as usize * size_of::<Single>();
        let name = RingError::of_memory("message headers", bytes);
        self.singles = Some(Pages::reserved(bytes).map_err(name)?);
        if let Receiver::Group(group) = &mut self.receiver {
            group.without_header();
        }
        Ok(())
    }

    /// Where a range of the payload starts. Panics where it is not inside.
    pub(super) fn payload(&self, offset: u32, len: u32) -> *const u8 {
        let end = offset as usize + len as usize;
        assert!(
            end <= self.payload_len,
            "the payload has {} bytes, not {end}",
            self.payload_len
        );
        // SAFETY: within the mapping, as just asserted.
        unsafe { self.payload.as_ptr().add(offset as usize) }
    }

    /// Where a private buffer starts. Panics where there is none of this index, or it is shorter.
    pub(super) fn private(&self, index: u32, len: u32) -> *mut u8 {
        assert!(
            index < self.private_count,
            "there is no private buffer {index}"
        );
        assert!(
            len <= self.private_len,
            "a private buffer has not {len} bytes"
        );
        // SAFETY: the mapping holds `private_count` buffers of `private_len` bytes.
        unsafe {
            self.private
                .as_ptr()
                .add(index as usize * self.private_len as usize)
        }
    }

    /// A private buffer to fill.
    ///
    /// # Safety
    /// No operation that uses it is in flight.
    pub(super) unsafe fn private_mut(&mut self, index: u32) -> &mut [u8] {
        let start = self.private(index, self.private_len);
        // SAFETY: it lies within the mapping, the kernel does not use it (the caller's promise),
        // and `&mut self` keeps everybody else away.
        unsafe { std::slice::from_raw_parts_mut(start, self.private_len as usize) }
    }

    /// Writes an address down for a slot. Gives where it is and its length.
    ///
    /// # Safety
    /// No connect of this slot is in flight.
    pub(super) unsafe fn address(
        &mut self,
        slot: Slot,
        address: SocketAddr,
    ) -> (*const libc::sockaddr, libc::socklen_t) {
        let at = slot as usize * ADDRESS_BYTES;
        assert!(
            at + ADDRESS_BYTES <= self.addresses.len(),
            "there is no slot {slot}"
        );
        let address = SockaddrStorage::from(address);
        // SAFETY: the place is inside the mapping, large enough for any address, and the kernel
        // does not read it now (the caller's promise).
        let place = unsafe {
            let place = self.addresses.as_ptr().add(at);
            place.copy_from_nonoverlapping(address.as_ptr().cast(), address.len() as usize);
            place
        };
        (place.cast_const().cast(), address.len())
    }

    /// The header of multishot receives.
    pub(super) fn message(&self) -> *const libc::msghdr {
        self.message.as_ptr().cast_const().cast()
    }

    fn single(&self, slot: Slot) -> *mut Single {
        let singles = self.singles.as_ref().expect("use_singles was called");
        let at = slot as usize * size_of::<Single>();
        assert!(
            at + size_of::<Single>() <= singles.len(),
            "there is no slot {slot}"
        );
        // SAFETY: within the mapping, as just asserted.
        unsafe { singles.as_ptr().add(at).cast() }
    }

    /// A fresh header for a single receive of `len` payload bytes.
    ///
    /// # Safety
    /// No receive of this slot is in flight.
    pub(super) unsafe fn single_message(&mut self, slot: Slot, len: u32) -> *mut libc::msghdr {
        let single = self.single(slot);
        // SAFETY: it lies in the mapping, aligned since its size is a multiple of its alignment,
        // and the kernel does not use it now (the caller's promise).
        unsafe {
            let vector = &raw mut (*single).vector;
            // The kernel puts the address of the buffer that it picks in place of this one.
            vector.write(libc::iovec {
                iov_base: std::ptr::null_mut(),
                iov_len: len as usize,
            });
            let message = &raw mut (*single).message;
            message.write(libc::msghdr {
                msg_iov: vector,
                msg_iovlen: 1,
                msg_control: (&raw mut (*single).control).cast(),
                msg_controllen: cmsg::CONTROL_BYTES,
                ..no_message()
            });
            message
        }
    }

    /// What came with a single receive.
    ///
    /// # Safety
    /// A receive of this slot has ended, and none is in flight.
    pub(super) unsafe fn single_control(&self, slot: Slot) -> Control {
        let single = self.single(slot);
        // SAFETY: the kernel filled it in and does not use it any more (the caller's promise).
        let (message, control) = unsafe { ((*single).message, (*single).control) };
        let len = message.msg_controllen.min(control.len());
        let received = cmsg::parse(&control[..len]);
        Control {
            received_realtime_ns: received.realtime_ns,
            segment_bytes: received.segment_bytes,
            truncated: message.msg_flags & libc::MSG_TRUNC != 0,
        }
    }
}

fn no_message() -> libc::msghdr {
    // SAFETY: all zeroes is an empty message header: null pointers with lengths of 0.
    unsafe { std::mem::zeroed() }
}

fn receiver(
    submitter: &Submitter<'_>,
    style: ReceiveStyle,
    huge: bool,
) -> Result<Receiver, RingError> {
    let group = |count: u16, len, control| {
        assert!(
            count.is_power_of_two(),
            "{count} receive buffers: not a power of two"
        );
        Group::new(submitter, count, len, control, huge).map(Receiver::Group)
    };
    let bytes = |len| RingError::of_memory("the receive buffer", len as usize);
    match style {
        ReceiveStyle::Scratch { len } => {
            let memory = Pages::touched(len as usize, huge).map_err(bytes(len))?;
            Ok(Receiver::Scratch {
                memory,
                len,
                flags: 0,
            })
        }
        ReceiveStyle::Discard { len } => {
            let memory = Pages::reserved(len as usize).map_err(bytes(len))?;
            Ok(Receiver::Scratch {
                memory,
                len,
                flags: libc::MSG_TRUNC,
            })
        }
        ReceiveStyle::Ring { count, len } => group(count, len, false),
        ReceiveStyle::RingWithControl { count, len } => group(count, len, true),
    }
}
