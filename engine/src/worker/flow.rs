//! One flow of a worker: its state and its counts.

use std::net::SocketAddr;
use std::ops::Range;

use crate::backend::Slot;
use crate::measure::tcp::TcpSample;
use crate::plan::{Direction, GroupPlan, Proto, Traffic};
use crate::record::Counters;
use crate::traffic::budget::Budget;
use crate::traffic::transactions::Assembly;

/// What a flow does on this side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Sends a TCP stream.
    StreamSend,
    /// Receives a TCP stream.
    StreamReceive,
    /// Sends datagrams.
    DatagramSend,
    /// Receives datagrams.
    DatagramReceive,
    /// Asks over TCP.
    Ask,
    /// Answers over TCP.
    Answer,
    /// Asks over UDP.
    DatagramAsk,
    /// Answers over UDP.
    DatagramAnswer,
    /// Connects, asks, closes; one transaction after the other.
    Connect,
    /// Answers one transaction of a connection that a listener accepted.
    Accepted,
}

impl Role {
    /// The role of a group's flows on the client's or the server's side.
    pub fn of(proto: Proto, group: &GroupPlan, client: bool) -> Role {
        let active = client == (group.direction == Direction::ClientToServer);
        match (proto, group.traffic, active) {
            (Proto::Tcp, Traffic::Stream, true) => Role::StreamSend,
            (Proto::Tcp, Traffic::Stream, false) => Role::StreamReceive,
            (Proto::Udp, Traffic::Stream, true) => Role::DatagramSend,
            (Proto::Udp, Traffic::Stream, false) => Role::DatagramReceive,
            (Proto::Tcp, Traffic::Rr, true) => Role::Ask,
            (Proto::Tcp, Traffic::Rr, false) => Role::Answer,
            (Proto::Udp, _, true) => Role::DatagramAsk,
            (Proto::Udp, _, false) => Role::DatagramAnswer,
            (Proto::Tcp, Traffic::Crr, true) => Role::Connect,
            (Proto::Tcp, Traffic::Crr, false) => Role::Accepted,
        }
    }

    /// Whether flows of this role follow the case's load.
    pub fn paced(self) -> bool {
        matches!(
            self,
            Role::StreamSend | Role::DatagramSend | Role::Ask | Role::DatagramAsk | Role::Connect
        )
    }

    /// Whether flows of this role keep transactions outstanding.
    pub fn asks(self) -> bool {
        matches!(self, Role::Ask | Role::DatagramAsk | Role::Connect)
    }
}

/// What the kernel knows of a flow's connection.
#[derive(Clone, Default, Debug)]
pub struct Kernels {
    /// TCP_INFO.
    pub tcp: Option<TcpSample>,
    /// Bytes in the kernel's queue: SIOCOUTQ of senders, SIOCINQ of receivers.
    pub queued_bytes: u64,
}

/// One flow.
#[derive(Debug)]
pub struct Flow {
    /// Where its socket is; none while it has none (crr between connections).
    pub slot: Option<Slot>,
    /// This side's and the other side's address, asked for while it is connected.
    pub addresses: Option<(SocketAddr, SocketAddr)>,
    /// What it does.
    pub role: Role,
    /// Group of traffic.
    pub group: usize,
    /// Number within the group.
    pub number: u32,
    /// Index among the worker's paced flows.
    pub own: usize,
    /// Counts since the beginning.
    pub lifetime: Counters,
    /// Counts of the window, for those that are not taken between the marks.
    pub window: Counters,
    /// Lifetime counts at the beginning of the window.
    pub at_t0: Option<Counters>,
    /// Lifetime counts at the end of the window.
    pub at_t1: Option<Counters>,
    /// Sends in flight.
    pub in_flight: u32,
    /// Datagrams for which the socket's buffer is known to have room.
    pub room: u32,
    /// What is left of a limit.
    pub budget: Budget,
    /// Open loop: messages that are due since the beginning.
    pub due: u64,
    /// Open loop: messages issued since the beginning.
    pub issued: u64,
    /// Bytes of a request or response that is not complete yet.
    pub assembly: Assembly,
    /// Numbers of the requests that began in the window.
    pub window_requests: Range<u64>,
    /// Transactions done in the window.
    pub window_done: u64,
    /// Datagrams that arrived, copies and late ones included.
    pub arrived: u64,
    /// Datagrams sent per phase.
    pub phase_sent: [u64; 3],
    /// Next sequence number per phase.
    pub phase_next: [u64; 3],
    /// No more will come, or go.
    pub ended: bool,
    /// It ended by an error, not by the end of the stream.
    pub reset: bool,
    /// The write side has been shut down.
    pub shut: bool,
    /// What the kernel knew of its connection when it was abandoned.
    pub last_seen: Option<Kernels>,
    /// Waits for a private buffer.
    pub hungry: bool,
    /// The last connection failed (crr).
    pub failed: bool,
    /// Position in the stream, for verification: sent or received bytes.
    pub position: u64,
    /// Bytes that verification found wrong.
    pub corrupt_bytes: u64,
    /// Received bytes at the last adaptation of the low-water mark.
    pub adapted_at_bytes: u64,
    /// Low-water mark in force.
    pub low_water: u32,
    /// Highest low-water mark so far.
    pub low_water_max: u32,
    /// When the connection in progress began (crr).
    pub connecting_since_ns: u64,
}

impl Flow {
    /// A flow that has done nothing yet.
    pub fn new(role: Role, group: usize, number: u32, budget: Budget) -> Flow {
        Flow {
            slot: None,
            addresses: None,
            role,
            group,
            number,
            own: usize::MAX,
            lifetime: Counters::default(),
            window: Counters::default(),
            at_t0: None,
            at_t1: None,
            in_flight: 0,
            room: 0,
            budget,
            due: 0,
            issued: 0,
            assembly: Assembly::default(),
            window_requests: 0..0,
            window_done: 0,
            arrived: 0,
            phase_sent: [0; 3],
            phase_next: [0; 3],
            ended: false,
            reset: false,
            shut: false,
            last_seen: None,
            hungry: false,
            failed: false,
            position: 0,
            corrupt_bytes: 0,
            adapted_at_bytes: 0,
            low_water: 1,
            low_water_max: 1,
            connecting_since_ns: 0,
        }
    }

    /// Counts of the window: between the marks where they were taken, or as kept apart.
    pub fn window_counts(&self) -> Counters {
        match (self.at_t0, self.at_t1) {
            (Some(a), Some(b)) => b.since(&a),
            _ => self.window,
        }
    }

    /// Whether so many messages may be issued now, as far as the schedule goes.
    pub fn is_due(&self, messages: u64) -> bool {
        self.due >= self.issued + messages
    }
}
