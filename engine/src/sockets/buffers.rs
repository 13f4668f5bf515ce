//! Receive memory: one buffer for all, or one per arrival.

use std::io;

use crate::backend::{Control, ReceiveStyle};
use crate::sys::memory::{Bytes, HugePages};

/// Where received bytes go.
pub(super) enum Receiver {
    /// One buffer for all. Nobody reads it.
    One {
        memory: Bytes,
        /// The kernel is to throw the bytes away. The memory is there all the same, since
        /// sockets other than TCP do write to it.
        discard: bool,
    },
    /// A buffer per arrival.
    Many(Buffers),
}

impl Receiver {
    pub(super) fn new(style: ReceiveStyle, huge: bool) -> io::Result<Receiver> {
        Ok(match style {
            ReceiveStyle::Scratch { len } => Receiver::One {
                memory: Bytes::touched(len as usize, huge)?,
                discard: false,
            },
            ReceiveStyle::Discard { len } => Receiver::One {
                memory: Bytes::touched(len as usize, huge)?,
                discard: true,
            },
            ReceiveStyle::Ring { count, len } | ReceiveStyle::RingWithControl { count, len } => {
                Receiver::Many(Buffers::new(count, len, huge)?)
            }
        })
    }

    /// Whether its pages are huge, and by what means.
    pub(super) fn huge(&self) -> HugePages {
        match self {
            Receiver::One { memory, .. } => memory.huge(),
            Receiver::Many(buffers) => buffers.memory.huge(),
        }
    }
}

/// What is in a buffer.
#[derive(Clone, Copy, Debug, Default)]
struct Arrival {
    /// The worker has it.
    held: bool,
    len: u32,
    control: Control,
}

/// Receive buffers, each of which is free or the worker's.
pub(super) struct Buffers {
    pub(super) memory: Bytes,
    /// Distance of two buffers: whole cache lines, so that two share none.
    pub(super) stride: usize,
    /// Bytes of each.
    pub(super) len: usize,
    arrivals: Vec<Arrival>,
    /// The last one given back is the next to be filled: it is the likeliest to be in a cache.
    pub(super) free: Vec<u16>,
}

impl Buffers {
    fn new(count: u16, len: u32, huge: bool) -> io::Result<Buffers> {
        let stride = (len as usize).next_multiple_of(64);
        Ok(Buffers {
            memory: Bytes::touched(stride * usize::from(count), huge)?,
            stride,
            len: len as usize,
            arrivals: vec![Arrival::default(); usize::from(count)],
            free: (0..count).rev().collect(),
        })
    }

    /// A free buffer's bytes, to receive into, and its number.
    pub(super) fn room(&mut self) -> Option<(u16, &mut [u8])> {
        let id = *self.free.last()?;
        let from = usize::from(id) * self.stride;
        Some((id, &mut self.memory[from..from + self.len]))
    }

    /// Hands the free buffer at a place of the list to the worker.
    pub(super) fn take(&mut self, at: usize, len: usize, control: Control) -> u16 {
        let id = self.free.remove(at);
        self.arrivals[usize::from(id)] = Arrival {
            held: true,
            len: len as u32,
            control,
        };
        id
    }

    fn held(&self, id: u16) -> &Arrival {
        let arrival = &self.arrivals[usize::from(id)];
        assert!(arrival.held, "receive buffer {id} was given back already");
        arrival
    }

    /// The payload in a buffer that the worker has.
    pub(super) fn data(&self, id: u16) -> &[u8] {
        let (len, from) = (self.held(id).len as usize, usize::from(id) * self.stride);
        &self.memory[from..from + len]
    }

    /// What came with a buffer that the worker has.
    pub(super) fn control(&self, id: u16) -> Control {
        self.held(id).control
    }

    /// Takes a buffer back from the worker.
    pub(super) fn give_back(&mut self, id: u16) {
        self.held(id);
        self.arrivals[usize::from(id)].held = false;
        self.free.push(id);
    }
}
