//! What both sides agree on: names of maps, sizes, and the numbers that cross the boundary.
//!
//! `layout.h` is made from here ([`header`]); a test holds the committed file against it, and
//! `cargo xtask ebpf` writes it anew.

use crate::bucket::BUCKETS;

/// Map of the flow's number on each socket of ours (socket storage, `u64`).
pub const MAP_FLOWS: &str = "flows";
/// Map of the ports that are ours: [`PORT_WORDS`] words of 64 bits.
pub const MAP_PORTS: &str = "ports";
/// Map of the network namespaces that are ours, keyed by inode number (`u64` to `u64`).
pub const MAP_NAMESPACES: &str = "namespaces";
/// Map of dropped packets: `[reason, location]` to `[ours, system]`, per CPU.
pub const MAP_DROPS: &str = "drops";
/// Map of retransmitted segments: `[flow, cause]` to a count, per CPU.
pub const MAP_RETRANSMITS: &str = "retransmits";
/// Map of plain counts: two for each [`Event`], ours then the system's, per CPU.
pub const MAP_EVENTS: &str = "events";
/// Map of the stages: for each [`Stage`], side (client, then server) and transport (TCP, then
/// UDP) count, sum and buckets in [`STAGE_WORDS`] words, per CPU.
pub const MAP_STAGES: &str = "stages";
/// Map of where a socket's stamps go (socket storage): number of its record, or [`NO_RECORD`],
/// and of its worker.
pub const MAP_PLACES: &str = "places";
/// Map of the records, [`RECORD_WORDS`] words each, which can be mapped into memory.
pub const MAP_RECORDS: &str = "records";
/// Map of the workers, [`WORKER_WORDS`] words each, which can be mapped into memory.
pub const MAP_WORKERS: &str = "workers";
/// Map of the workers' threads by the low bits of their numbers: `[number, worker]`.
pub const MAP_THREADS: &str = "threads";
/// Read-only number that is set before the load: whether the stages are kept as histograms.
pub const GLOBAL_HISTOGRAMS: &str = "histograms";

/// Words of 64 ports each.
pub const PORT_WORDS: u32 = 1024;
/// Network namespaces that can be ours at once.
pub const NAMESPACES_MAX: u32 = 64;
/// Pairs of reason and place that the drop map holds; what comes after is counted as
/// [`Event::DropUnlisted`].
pub const DROPS_MAX: u32 = 1024;
/// Pairs of flow and cause that the retransmit map holds; what comes after is counted as
/// [`Event::RetransmitUnlisted`].
pub const RETRANSMITS_MAX: u32 = 16_384;

/// Packets that are remembered on their way out, and as many on their way in. A power of two.
pub const SLOTS: u32 = 4096;
/// Datagrams of a socket whose time of arrival is remembered until they are read. A power of two.
pub const READY_RING: u32 = 64;
/// Words of a stage: count, sum (nanoseconds) and buckets.
pub const STAGE_WORDS: usize = 2 + BUCKETS;

/// Words of a record: stamps of what was sent last on one line of the processor's cache, of what
/// was received last on another.
pub const RECORD_WORDS: usize = 16;
/// Words of a worker: what the kernel writes on one line of the cache, what it writes itself on
/// another.
pub const WORKER_WORDS: usize = 16;
/// Workers that can be followed at once: the client's in the lower half, the server's in the
/// upper.
pub const WORKERS_MAX: u32 = 512;
/// Entries of the map of threads. A power of two.
pub const THREADS: u32 = 4096;
/// The record of a socket that has none.
pub const NO_RECORD: u64 = u32::MAX as u64;
/// In place of a time of departure: the queueing discipline paces by itself and does not say.
pub const PACED_BY_QUEUE: u64 = 1;

/// The flow of a socket that is not ours.
pub const FLOW_OTHER: u64 = u64::MAX;
/// The flow of a socket that is ours by its ports alone.
pub const FLOW_BY_PORT: u64 = u64::MAX - 1;

/// The reason of a drop on a kernel whose tracepoint has none.
pub const REASON_NONE: u64 = u32::MAX as u64;

/// Cause of a retransmission: a SYN. Below 32 a cause is the congestion state's number
/// (`enum tcp_ca_state`).
pub const CAUSE_SYN: u64 = 32;
/// Cause of a retransmission: a SYN-ACK.
pub const CAUSE_SYNACK: u64 = 33;

/// A stretch of a message's way through the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Stage {
    /// From the socket (TCP: data about to be queued) to the device's queue.
    Submit = 0,
    /// In the queueing discipline.
    Queue = 1,
    /// From the driver to the receive path: same host only.
    Wire = 2,
    /// From the receive path to the socket's queue, its owner being woken.
    Receive = 3,
    /// From there until a read has returned it.
    Wait = 4,
}

impl Stage {
    /// Every stage, in the order of their numbers, which is that of the way.
    pub const ALL: [Stage; 5] = [
        Stage::Submit,
        Stage::Queue,
        Stage::Wire,
        Stage::Receive,
        Stage::Wait,
    ];

    /// Its name in the header.
    const fn c_name(self) -> &'static str {
        match self {
            Stage::Submit => "STAGE_SUBMIT",
            Stage::Queue => "STAGE_QUEUE",
            Stage::Wire => "STAGE_WIRE",
            Stage::Receive => "STAGE_RECEIVE",
            Stage::Wait => "STAGE_WAIT",
        }
    }

    /// Its name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Stage::Submit => "submit",
            Stage::Queue => "queue",
            Stage::Wire => "wire",
            Stage::Receive => "receive",
            Stage::Wait => "wait",
        }
    }

    /// Index of its histogram.
    pub const fn index(self, server: bool, udp: bool) -> u32 {
        self as u32 * 4 + server as u32 * 2 + udp as u32
    }
}

/// A word of a record: when the flow's newest message on that side passed a point, nanoseconds of
/// CLOCK_MONOTONIC; 0 where it is not known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Stamp {
    /// Sending: the worker gave the kernel the batch that it is in ([`WORKER_HANDED`]).
    Handed = 0,
    /// Sending, TCP: the socket took it.
    Sent = 1,
    /// Sending, paced sockets: it was not to leave before; [`PACED_BY_QUEUE`] where only the
    /// queueing discipline knows.
    Paced = 2,
    /// Sending: it met the device's queue.
    Queued = 3,
    /// Sending: the driver took it.
    Driven = 4,
    /// Receiving: it entered the receive path.
    Arrived = 8,
    /// Receiving: it lay in the socket's queue.
    Ready = 9,
    /// Receiving, as it was copied: the worker could run; the lowest bit says that it had to give
    /// way rather than that it was woken.
    Runnable = 10,
    /// Receiving, as it was copied: the worker began to run.
    Running = 11,
    /// Receiving: it was copied to the worker.
    Copied = 12,
}

impl Stamp {
    /// Every stamp with its name in the header.
    pub const ALL: [(Stamp, &'static str); 10] = [
        (Stamp::Handed, "RECORD_HANDED"),
        (Stamp::Sent, "RECORD_SENT"),
        (Stamp::Paced, "RECORD_PACED"),
        (Stamp::Queued, "RECORD_QUEUED"),
        (Stamp::Driven, "RECORD_DRIVEN"),
        (Stamp::Arrived, "RECORD_ARRIVED"),
        (Stamp::Ready, "RECORD_READY"),
        (Stamp::Runnable, "RECORD_RUNNABLE"),
        (Stamp::Running, "RECORD_RUNNING"),
        (Stamp::Copied, "RECORD_COPIED"),
    ];
}

/// Word of a worker: when it could run last.
pub const WORKER_RUNNABLE: usize = 0;
/// Word of a worker: when it began to run last.
pub const WORKER_RUNNING: usize = 1;
/// Word of a worker that it writes itself: when it gave the kernel its last batch.
pub const WORKER_HANDED: usize = 8;

/// Plain counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Event {
    /// A reset was sent.
    ResetSent = 0,
    /// A reset was received.
    ResetReceived = 1,
    /// A receive queue was full (TCP and others).
    ReceiveQueueFull = 2,
    /// A UDP socket refused a datagram.
    UdpQueueFail = 3,
    /// Packets dropped that found the drop map full.
    DropUnlisted = 4,
    /// Segments retransmitted that found the retransmit map full.
    RetransmitUnlisted = 5,
    /// Packets dropped without a socket of ours whose headers are not TCP or UDP over IP, so that
    /// their ports could not tell whose they were.
    Unparsed = 6,
    /// Data became ready whose arrival was not remembered: merged into the packet before it, or
    /// already read.
    ReceiveMissed = 7,
    /// A datagram waited behind more than [`READY_RING`] others.
    ReadyOverflow = 8,
    /// A request went to a thread of io_uring's own.
    RingHandedOff = 9,
    /// A completion found io_uring's queue full.
    RingOverflow = 10,
    /// Work that io_uring had put off was run.
    RingTaskWork = 11,
}

impl Event {
    /// Every event, in the order of their numbers.
    pub const ALL: [Event; 12] = [
        Event::ResetSent,
        Event::ResetReceived,
        Event::ReceiveQueueFull,
        Event::UdpQueueFail,
        Event::DropUnlisted,
        Event::RetransmitUnlisted,
        Event::Unparsed,
        Event::ReceiveMissed,
        Event::ReadyOverflow,
        Event::RingHandedOff,
        Event::RingOverflow,
        Event::RingTaskWork,
    ];

    /// Its name in the header.
    const fn c_name(self) -> &'static str {
        match self {
            Event::ResetSent => "EVENT_RESET_SENT",
            Event::ResetReceived => "EVENT_RESET_RECEIVED",
            Event::ReceiveQueueFull => "EVENT_RECEIVE_QUEUE_FULL",
            Event::UdpQueueFail => "EVENT_UDP_QUEUE_FAIL",
            Event::DropUnlisted => "EVENT_DROP_UNLISTED",
            Event::RetransmitUnlisted => "EVENT_RETRANSMIT_UNLISTED",
            Event::Unparsed => "EVENT_UNPARSED",
            Event::ReceiveMissed => "EVENT_RECEIVE_MISSED",
            Event::ReadyOverflow => "EVENT_READY_OVERFLOW",
            Event::RingHandedOff => "EVENT_RING_HANDED_OFF",
            Event::RingOverflow => "EVENT_RING_OVERFLOW",
            Event::RingTaskWork => "EVENT_RING_TASK_WORK",
        }
    }

    /// Index of its count for our flows.
    pub const fn ours(self) -> u32 {
        self as u32 * 2
    }

    /// Index of its count for the whole system.
    pub const fn system(self) -> u32 {
        self as u32 * 2 + 1
    }
}

/// The C header, as committed in `src/layout.h`.
pub fn header() -> String {
    let mut text = String::from(
        "/* SPDX-License-Identifier: MIT OR GPL-2.0 */\n\
         /* Made from layout.rs by `cargo xtask ebpf`: change that file, not this one. */\n\
         #ifndef RINGPERF_LAYOUT_H\n#define RINGPERF_LAYOUT_H\n\n",
    );
    let sizes = [
        ("PORT_WORDS", PORT_WORDS),
        ("NAMESPACES_MAX", NAMESPACES_MAX),
        ("DROPS_MAX", DROPS_MAX),
        ("RETRANSMITS_MAX", RETRANSMITS_MAX),
        ("EVENTS", Event::ALL.len() as u32),
        ("STAGES", Stage::ALL.len() as u32),
        ("BUCKETS", BUCKETS as u32),
        ("SLOTS", SLOTS),
        ("READY_RING", READY_RING),
        ("RECORD_WORDS", RECORD_WORDS as u32),
        ("WORKER_WORDS", WORKER_WORDS as u32),
        ("WORKERS_MAX", WORKERS_MAX),
        ("THREADS", THREADS),
        ("WORKER_RUNNABLE", WORKER_RUNNABLE as u32),
        ("WORKER_RUNNING", WORKER_RUNNING as u32),
        ("WORKER_HANDED", WORKER_HANDED as u32),
    ];
    for (name, value) in sizes {
        text.push_str(&format!("#define {name} {value}\n"));
    }
    let wide = [
        ("FLOW_OTHER", FLOW_OTHER),
        ("FLOW_BY_PORT", FLOW_BY_PORT),
        ("REASON_NONE", REASON_NONE),
        ("CAUSE_SYN", CAUSE_SYN),
        ("CAUSE_SYNACK", CAUSE_SYNACK),
        ("PACED_BY_QUEUE", PACED_BY_QUEUE),
    ];
    for (name, value) in wide {
        text.push_str(&format!("#define {name} {value}ULL\n"));
    }
    for event in Event::ALL {
        text.push_str(&format!("#define {} {}\n", event.c_name(), event as u32));
    }
    for stage in Stage::ALL {
        text.push_str(&format!("#define {} {}\n", stage.c_name(), stage as u32));
    }
    for (stamp, name) in Stamp::ALL {
        text.push_str(&format!("#define {name} {}\n", stamp as usize));
    }
    text.push_str("\n#endif\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_header_is_fresh() {
        assert_eq!(include_str!("layout.h"), header(), "run `cargo xtask ebpf`");
    }

    #[test]
    fn events_are_numbered_in_order() {
        for (index, event) in Event::ALL.into_iter().enumerate() {
            assert_eq!(event as usize, index);
        }
        for (index, stage) in Stage::ALL.into_iter().enumerate() {
            assert_eq!(stage as usize, index);
        }
    }
}
