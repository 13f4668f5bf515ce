//! The end of a sample: who sends no more, who still receives, and until when.

use crate::backend::Backend;
use crate::plan::Proto;

use super::cycle::{Stage, Worker};
use super::flow::{Flow, Role};

/// Streams have this long to end after the stop; see the sample's bound of 0.3 s.
const STREAM_DRAIN_NS: u64 = 250_000_000;
/// Receivers of streams have longer: the sender, which may be told of the stop later, is to end
/// first, or what it still sends would be neither received nor in flight.
const STREAM_RECEIVE_DRAIN_NS: u64 = 1_000_000_000;
/// Behind the window's end streams go on for so long, and no longer where the stop does not come:
/// it may stand in a queue that they themselves keep full.
const SENDERS_OVERTIME_NS: u64 = 200_000_000;
/// Datagrams have this long at most.
const DATAGRAM_DRAIN_NS: u64 = 1_000_000_000;
/// A receiver of datagrams is done after so much silence.
pub(super) const SILENCE_NS: u64 = 200_000_000;

impl<B: Backend> Worker<B> {
    pub(super) fn begin_drain(&mut self) {
        self.close_window();
        if self.signals.stopping() > 1 {
            self.stage = Stage::Done;
            return;
        }
        let receives = |flow: &Flow| flow.role == Role::StreamReceive;
        let bound = match self.case.proto {
            Proto::Tcp if self.flows.iter().any(receives) => STREAM_RECEIVE_DRAIN_NS,
            Proto::Tcp => STREAM_DRAIN_NS,
            Proto::Udp => DATAGRAM_DRAIN_NS,
        };
        self.stage = Stage::Draining(self.now + bound);
        self.tally.silent_since_ns = self.now;
        self.end_senders();
        for f in 0..self.flows.len() {
            match self.flows[f].role {
                Role::StreamReceive => self.set_low_water(f, 1),
                Role::Ask => self.ask_end(f),
                _ => {}
            }
        }
    }

    /// Whether streams may still send.
    pub(super) fn sending(&self) -> bool {
        self.stage == Stage::Running && self.clock.senders_until_ns == u64::MAX
    }

    /// When the senders of streams end by themselves; never where a count ends the sample, or
    /// where they have ended.
    pub(super) fn senders_overdue_ns(&self) -> u64 {
        match self.marks {
            Some(marks) if self.sending() && self.case.duration_ns().is_some() => {
                marks.t1_ns.saturating_add(SENDERS_OVERTIME_NS)
            }
            _ => u64::MAX,
        }
    }

    pub(super) fn end_overdue_senders(&mut self) {
        if self.clock.crossed_t1 && self.now >= self.senders_overdue_ns() {
            self.end_senders();
        }
    }

    /// Ends every stream that this worker sends, unless that was done.
    fn end_senders(&mut self) {
        if self.clock.senders_until_ns != u64::MAX {
            return;
        }
        self.clock.senders_until_ns = self.now + STREAM_DRAIN_NS;
        for f in 0..self.flows.len() {
            if self.flows[f].role == Role::StreamSend {
                self.stream_end(f);
            }
        }
    }

    /// Leaves the senders once their time is over; this side may have to receive for longer.
    pub(super) fn leave_overdue_senders(&mut self) {
        if !self.clock.senders_left && self.now >= self.clock.senders_until_ns {
            self.leave_senders();
        }
    }

    /// Leaves every stream that this worker sends and whose receiver has not read everything.
    /// What each has in flight is noted now, which is before the receiver reads for the last
    /// time; and it goes no further: the next sample's traffic would be behind it.
    pub(super) fn leave_senders(&mut self) {
        self.clock.senders_left = true;
        for f in 0..self.flows.len() {
            if self.flows[f].role == Role::StreamSend && !self.flows[f].ended {
                self.abandon(f);
            }
        }
    }

    pub(super) fn check_drained(&mut self, until_ns: u64) {
        let over = self.signals.stopping() > 1 || self.now >= until_ns;
        if over || (0..self.flows.len()).all(|f| self.flow_drained(f)) {
            self.stage = Stage::Done;
        }
    }

    fn flow_drained(&self, f: usize) -> bool {
        let flow = &self.flows[f];
        match flow.role {
            Role::StreamSend => flow.ended || self.now >= self.clock.senders_until_ns,
            Role::StreamReceive | Role::Answer => flow.ended,
            Role::DatagramSend => flow.in_flight == 0,
            Role::DatagramReceive | Role::DatagramAnswer => {
                self.now >= self.tally.silent_since_ns + SILENCE_NS
            }
            Role::Ask | Role::DatagramAsk => self.outstanding.used(f) == 0,
            Role::Connect => flow.slot.is_none() || self.outstanding.used(f) == 0,
            Role::Accepted => flow.slot.is_none() || flow.ended,
        }
    }
}
