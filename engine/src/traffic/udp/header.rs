//! The header at the start of every counted datagram.

/// Bytes of the header on the wire.
pub const HEADER_BYTES: usize = 24;

/// Largest flow number that the header can carry.
pub const MAX_FLOW: u32 = 0x00ff_ffff;

/// Part of a sample that a datagram was sent in. Each has its own sequence numbers, from 0 per
/// flow, so that the loss of the window needs nothing of what was sent before or after it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Phase {
    /// Before the window.
    WarmUp = 0,
    /// The measured window.
    Window = 1,
    /// Between the end of the window and the stop.
    After = 2,
}

impl Phase {
    /// Every phase, in order of time and of [`Phase::index`].
    pub const ALL: [Phase; 3] = [Phase::WarmUp, Phase::Window, Phase::After];

    /// Place in arrays that have an entry per phase.
    pub const fn index(self) -> usize {
        self as usize
    }

    fn from_wire(byte: u8) -> Option<Phase> {
        Phase::ALL.get(usize::from(byte)).copied()
    }
}

/// The header.
///
/// ```text
/// 0        4       7       8          16          24
/// | session | flow | phase | sequence | send stamp |   network order
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Low 32 bits of the session's cookie: tells this session's datagrams from any other's.
    pub session: u32,
    /// Flow number, up to [`MAX_FLOW`].
    pub flow: u32,
    /// Phase that it was sent in.
    pub phase: Phase,
    /// Sequence number within the flow and the phase, from 0.
    pub sequence: u64,
    /// When it was handed to the kernel, nanoseconds of a clock of the sender; only differences
    /// mean anything to the receiver.
    pub stamp_ns: u64,
}

impl Header {
    /// Writes the header to the first [`HEADER_BYTES`] bytes of `to`.
    ///
    /// # Panics
    ///
    /// Where `to` is shorter than that: senders of such datagrams use `traffic::tag`.
    pub fn encode(&self, to: &mut [u8]) {
        debug_assert!(
            self.flow <= MAX_FLOW,
            "flow {} does not fit in 24 bits",
            self.flow
        );
        let flow_and_phase = (self.flow & MAX_FLOW) << 8 | self.phase as u32;
        to[0..4].copy_from_slice(&self.session.to_be_bytes());
        to[4..8].copy_from_slice(&flow_and_phase.to_be_bytes());
        to[8..16].copy_from_slice(&self.sequence.to_be_bytes());
        to[16..24].copy_from_slice(&self.stamp_ns.to_be_bytes());
    }

    /// Reads a header; none where the datagram is too short or its phase is none of ours.
    pub fn decode(from: &[u8]) -> Option<Header> {
        let (session, rest) = from.split_first_chunk::<4>()?;
        let (flow_and_phase, rest) = rest.split_first_chunk::<4>()?;
        let (sequence, rest) = rest.split_first_chunk::<8>()?;
        let (stamp, _) = rest.split_first_chunk::<8>()?;
        let flow_and_phase = u32::from_be_bytes(*flow_and_phase);
        Some(Header {
            session: u32::from_be_bytes(*session),
            flow: flow_and_phase >> 8,
            phase: Phase::from_wire(flow_and_phase as u8)?,
            sequence: u64::from_be_bytes(*sequence),
            stamp_ns: u64::from_be_bytes(*stamp),
        })
    }
}
