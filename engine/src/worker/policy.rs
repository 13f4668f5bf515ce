//! What the engine chooses by itself from the case, each choice with its reason. It stands in
//! the result and goes off with `--as-application`.

use crate::backend::{ReceiveStyle, RingFlags, SendStyle, Setup};
use crate::plan::{
    self, Case, Limit, Load, Proto, Receive, ReceiveBuffers, Traffic, Wait, ZeroCopy,
};
use crate::traffic::udp::HEADER_BYTES;

use super::flow::Role;

/// Period of the pattern that `verify` sends: a prime, so that a shift by any power of two shows.
pub const PATTERN_PERIOD: u64 = 251;

/// Most sends that a worker keeps in flight over all its flows.
const SENDS_IN_FLIGHT: u32 = 512;

/// Most private send buffers and their memory.
const DATAGRAM_BUFFERS: u32 = 256;
const DATAGRAM_MEMORY: u64 = 16 << 20;

/// What was chosen for one worker.
#[derive(Clone, Debug)]
pub struct Choices {
    /// Sends in flight, or requests outstanding, per flow.
    pub depth: u32,
    /// How to send.
    pub send: SendStyle,
    /// How to receive.
    pub receive: ReceiveStyle,
    /// Adapt SO_RCVLOWAT to the rate (TCP stream receivers).
    pub low_water: bool,
    /// SO_RCVLOWAT as it is given, bytes (TCP stream receivers).
    pub fixed_low_water: Option<u32>,
    /// Gather completions for so long, microseconds.
    pub min_wait_us: Option<u32>,
    /// Private send buffers.
    pub buffers: u32,
    /// Bytes of each.
    pub buffer_len: u32,
    /// How the worker waits.
    pub wait: Wait,
    /// Devices are polled for so long before a sleep, microseconds.
    pub busy_poll_us: Option<u32>,
    /// Datagrams carry the header.
    pub headers: bool,
    /// Segments or messages per send operation.
    pub per_send: u32,
}

/// Which kinds of flow a worker has, and how many.
#[derive(Clone, Copy, Default, Debug)]
pub struct Mix {
    /// Flows that send or ask, or answer.
    pub senders: u32,
    /// Flows that only receive.
    pub receivers: u32,
}

impl Choices {
    /// Chooses for a worker of the side that is the client or not.
    pub fn of(case: &Case, client: bool, roles: &[Role]) -> Choices {
        let mix = Mix {
            senders: roles.iter().filter(|r| **r != Role::StreamReceive).count() as u32
                - roles
                    .iter()
                    .filter(|r| **r == Role::DatagramReceive)
                    .count() as u32,
            receivers: roles
                .iter()
                .filter(|r| matches!(r, Role::StreamReceive | Role::DatagramReceive))
                .count() as u32,
        };
        let options = &case.options;
        let per_send = options.coalesce.or(options.gso).unwrap_or(1).max(1);
        let depth = depth(case, &mix, per_send);
        let (buffers, buffer_len) = buffers(case, &mix, depth, per_send);
        let streams = traffic(case) == Traffic::Stream;
        let unpaced = case.load == Load::Closed;
        let plain = options.as_application;
        let receives = streams && case.proto == Proto::Tcp && mix.receivers > 0;
        let given = &options.tuning;
        Choices {
            depth,
            send: match case.zerocopy_of(client) {
                None => SendStyle::Copy,
                Some(ZeroCopy::Send | ZeroCopy::Msg) => SendStyle::ZeroCopy,
                Some(ZeroCopy::File) => SendStyle::File,
            },
            receive: receive(case, roles.len() as u32),
            low_water: receives
                && unpaced
                && !plain
                && given.low_water_bytes.is_none()
                && matches!(case.limit, Limit::Duration { .. }),
            fixed_low_water: given.low_water_bytes.filter(|bytes| receives && *bytes > 0),
            min_wait_us: match given.min_wait_us {
                Some(us) => (us > 0).then_some(us),
                None => min_wait(case, &mix, unpaced && !plain),
            },
            buffers,
            buffer_len,
            wait: if client {
                options.client_wait
            } else {
                options.server_wait
            },
            busy_poll_us: if client {
                options.client_busy_poll
            } else {
                options.server_busy_poll
            },
            headers: case.proto == Proto::Udp && case.request_bytes >= HEADER_BYTES as u64,
            per_send,
        }
    }

    /// Receive buffers: how many, of what size.
    pub fn receive_buffers(&self) -> Option<(u32, u32)> {
        match self.receive {
            ReceiveStyle::Scratch { len } => Some((1, len)),
            ReceiveStyle::Ring { count, len } | ReceiveStyle::RingWithControl { count, len } => {
                Some((u32::from(count), len))
            }
            ReceiveStyle::Discard { .. } => None,
        }
    }

    /// Most sockets that a worker with so many flows has at once. Those of crr linger while
    /// they close.
    pub fn sockets(&self, case: &Case, flows: u32) -> u32 {
        match traffic(case) {
            Traffic::Crr => flows * 8 + 1024,
            Traffic::Stream | Traffic::Rr => flows + 4,
        }
    }

    /// The engine's set-up for these choices.
    pub fn setup(&self, case: &Case, flows: u32) -> Setup {
        // As many as may be in flight at once; the plan bounds their number.
        let sends = u64::from(flows) * (u64::from(self.depth) + 2);
        let operations = sends + u64::from(self.buffers) + 16;
        Setup {
            sockets: self.sockets(case, flows),
            operations: u32::try_from(operations).unwrap_or(u32::MAX),
            payload: payload(case, self.per_send),
            send_buffers: self.buffers,
            send_buffer_len: self.buffer_len,
            send: self.send,
            receive: self.receive,
            min_wait_us: self.min_wait_us,
            min_wait_batch: 32,
            fixed_files: case.options.tuning.fixed_files.unwrap_or(true),
            ring_flags: match case.options.tuning.ring_flags {
                None | Some(plan::RingFlags::Defer) => RingFlags::Defer,
                Some(plan::RingFlags::Coop) => RingFlags::Cooperative,
                Some(plan::RingFlags::None) => RingFlags::Plain,
            },
            busy_poll_us: self.busy_poll_us,
            huge_pages: case.options.tuning.huge_pages,
        }
    }
}

fn traffic(case: &Case) -> Traffic {
    case.groups.first().map_or(Traffic::Stream, |g| g.traffic)
}

/// Small sends want many in flight, so that one kernel entry serves many; large ones want few,
/// since a socket buffer holds only so much. Verified payload must stay in order: one.
fn depth(case: &Case, mix: &Mix, per_send: u32) -> u32 {
    if traffic(case) != Traffic::Stream {
        return case.depth.unwrap_or(1);
    }
    if let Some(depth) = case.depth {
        return depth;
    }
    let ordered = case.options.verify && case.proto == Proto::Tcp;
    if case.options.as_application || ordered {
        return 1;
    }
    let bytes = case.request_bytes.max(1) * u64::from(per_send);
    let wanted = match bytes {
        0..=4096 => 64,
        4097..=262_144 => 16,
        _ => 4,
    };
    wanted.min(SENDS_IN_FLIGHT / mix.senders.max(1)).max(1)
}

fn buffers(case: &Case, mix: &Mix, depth: u32, per_send: u32) -> (u32, u32) {
    if case.proto != Proto::Udp || mix.senders == 0 {
        return (0, 0);
    }
    let streams = traffic(case) == Traffic::Stream;
    let size = if streams {
        case.request_bytes * u64::from(per_send)
    } else {
        case.request_bytes.max(case.response_bytes)
    };
    let size = size.clamp(1, 65_535);
    let wanted = u64::from(depth) * u64::from(mix.senders);
    let fits = (DATAGRAM_MEMORY / size).max(1);
    let count = wanted.min(u64::from(DATAGRAM_BUFFERS)).min(fits).max(1);
    (count as u32, size as u32)
}

fn receive(case: &Case, flows: u32) -> ReceiveStyle {
    let options = &case.options;
    if case.proto == Proto::Udp {
        return receive_datagrams(case);
    }
    if let Some(ReceiveBuffers { count, bytes }) = options.tuning.receive_buffers {
        return match u16::try_from(count) {
            Ok(2..) => ReceiveStyle::Ring {
                count: count as u16,
                len: bytes,
            },
            _ => ReceiveStyle::Scratch { len: bytes },
        };
    }
    let largest = case.request_bytes.max(case.response_bytes).max(1);
    if options.receive == Receive::Discard {
        return ReceiveStyle::Discard { len: 1 << 20 };
    }
    if options.as_application {
        return ReceiveStyle::Scratch {
            len: largest.clamp(64, 1 << 20) as u32,
        };
    }
    let streams = traffic(case) == Traffic::Stream;
    if options.verify {
        return ReceiveStyle::Ring {
            count: 64,
            len: 64 * 1024,
        };
    }
    match (streams, flows) {
        // One large buffer stays in the cache, and a plain receive is as good as any for few.
        (true, 0..=16) => ReceiveStyle::Scratch { len: 1 << 20 },
        (true, _) => ReceiveStyle::Ring {
            count: 128,
            len: 64 * 1024,
        },
        (false, 0..=8) => ReceiveStyle::Scratch { len: 256 * 1024 },
        (false, _) => {
            let len = largest.next_power_of_two().clamp(256, 32 * 1024) as u32;
            let count = (flows * 2).next_power_of_two().clamp(64, 4096);
            ReceiveStyle::Ring {
                count: count as u16,
                len,
            }
        }
    }
}

fn receive_datagrams(case: &Case) -> ReceiveStyle {
    let options = &case.options;
    let largest = case.request_bytes.max(case.response_bytes).max(1);
    let len = if options.gro {
        65_536
    } else {
        largest.max(2048).next_power_of_two()
    } as u32;
    let count = ((16 << 20) / len).clamp(64, 1024).next_power_of_two() as u16;
    let given = options.tuning.receive_buffers;
    let (count, len) = given.map_or((count, len), |given| (given.count as u16, given.bytes));
    let paced_stream = traffic(case) == Traffic::Stream && case.load != Load::Closed;
    if options.gro || paced_stream {
        return ReceiveStyle::RingWithControl { count, len };
    }
    ReceiveStyle::Ring { count, len }
}

/// A receiver of unpaced traffic that is woken rarely takes more at once. Request-response is
/// harmed by it, and a worker that also sends would send late.
fn min_wait(case: &Case, mix: &Mix, wanted: bool) -> Option<u32> {
    let many = case.proto == Proto::Udp || mix.receivers > 16;
    let streams = traffic(case) == Traffic::Stream;
    (wanted && streams && many && mix.senders == 0).then_some(100)
}

/// The payload of all sends: zeros, or the pattern with room for every start within a period.
fn payload(case: &Case, per_send: u32) -> Vec<u8> {
    if case.proto == Proto::Udp {
        return Vec::new();
    }
    let largest = (case.request_bytes * u64::from(per_send))
        .max(case.response_bytes)
        .max(1);
    if !case.options.verify {
        return vec![0; largest as usize];
    }
    (0..largest + PATTERN_PERIOD).map(pattern).collect()
}

/// Most memory that the kernel takes from the socket's buffer for a send of so many bytes: their
/// buffer is rounded up to a power of two, and each packet has its descriptor. Of bytes that it
/// does not copy, whole pages count.
pub fn footprint(bytes: u64, how: SendStyle) -> u64 {
    match how {
        SendStyle::ZeroCopy => bytes.max(1).next_multiple_of(4096) + 4096 + bytes / 2 + 2048,
        SendStyle::Copy | SendStyle::File => bytes * 5 / 2 + 2048,
    }
}

/// Bytes that differ from the pattern that begins at the offset.
pub fn wrong_bytes(data: &[u8], from: std::ops::RangeFrom<u64>) -> u64 {
    let wrong = |(byte, at): &(&u8, u64)| **byte != pattern(*at);
    data.iter().zip(from).filter(wrong).count() as u64
}

/// The byte at an offset of a verified stream.
pub fn pattern(offset: u64) -> u8 {
    (offset % PATTERN_PERIOD) as u8
}
