//! UDP streams: datagrams that name their flow, phase and sequence number.

use crate::backend::{Backend, Control, Event, SendFrom, Slot};
use crate::plan::Limit;
use crate::sys::socket;
use crate::traffic::udp::{Arrival, HEADER_BYTES, Header, Phase};

use super::cycle::{BufferUse, Stage, Worker};
use super::policy::{self, wrong_bytes};

impl<B: Backend> Worker<B> {
    /// Sends from flow `f` first, then, where nothing is scheduled, from the others in turn, so
    /// that all flows share the private buffers evenly.
    pub(super) fn datagram_fill(&mut self, f: usize) {
        if self.schedule.is_some() {
            while self.datagram_send(f) {}
            return;
        }
        let flows = self.flows.len();
        let mut idle = 0;
        while idle < flows && !self.free.is_empty() {
            let at = self.next_sender % flows;
            self.next_sender = at + 1;
            let sender = self.flows[at].role == super::flow::Role::DatagramSend;
            idle = if sender && self.datagram_send(at) {
                0
            } else {
                idle + 1
            };
        }
    }

    /// Sends one operation's worth of datagrams; false where the flow cannot.
    fn datagram_send(&mut self, f: usize) -> bool {
        let paced = self.schedule.is_some();
        let per_send = u64::from(self.choices.per_send);
        let flow = &self.flows[f];
        let Some(slot) = flow.slot else { return false };
        let bytes = flow.budget.peek(per_send);
        let messages = bytes.div_ceil(self.case.request_bytes.max(1));
        let ready = bytes > 0 && (!paced || flow.is_due(messages));
        if flow.in_flight >= self.choices.depth || !ready || !self.has_room(f, slot) {
            return false;
        }
        let Some(index) = self.free.pop() else {
            if paced {
                self.wait_for_buffer(f);
            }
            return false;
        };
        for _ in 0..if paced { messages } else { 0 } {
            self.intended(f);
        }
        let phase = self.phase_now();
        let flow = &mut self.flows[f];
        flow.budget.take(bytes);
        flow.in_flight += 1;
        flow.room -= 1;
        self.uses[index as usize] = BufferUse {
            phase: phase as u8,
            messages: messages as u32,
            bytes: bytes as u32,
        };
        if self.choices.headers {
            self.write_headers(f, index, bytes as usize, phase);
        } else {
            self.flows[f].phase_next[phase as usize] += messages;
        }
        let from = SendFrom::Buffer {
            index,
            len: bytes as u32,
        };
        self.backend.send(slot, index, from);
        true
    }

    /// Whether the kernel is sure to take another datagram at once, or nothing is in flight. Of
    /// several sends that wait for room in the socket's buffer the kernel wakes any first: the
    /// receiver would see an order that the path did not make.
    fn has_room(&mut self, f: usize, slot: Slot) -> bool {
        if self.flows[f].room > 0 {
            return true;
        }
        if self.flows[f].in_flight > 0 {
            return false;
        }
        let memory = socket::memory_info(self.backend.socket(slot)).unwrap_or_default();
        let bytes = self.case.request_bytes * u64::from(self.choices.per_send);
        let each = policy::footprint(bytes, self.choices.send);
        let free = u64::from(memory.send_buffer.saturating_sub(memory.send_queued));
        // The kernel begins a send where any room is left, so that one always goes or waits.
        self.flows[f].room = u32::try_from(free / each).unwrap_or(u32::MAX).max(1);
        true
    }

    fn write_headers(&mut self, f: usize, index: u32, bytes: usize, phase: Phase) {
        let size = self.case.request_bytes as usize;
        let flow = &mut self.flows[f];
        let buffer = &mut self.backend.send_buffer(index)[..bytes];
        for datagram in buffer.chunks_mut(size) {
            let sequence = flow.phase_next[phase as usize];
            flow.phase_next[phase as usize] += 1;
            if datagram.len() >= HEADER_BYTES {
                let header = Header {
                    session: self.session,
                    flow: flow.number,
                    phase,
                    sequence,
                    stamp_ns: self.now,
                };
                header.encode(datagram);
            }
        }
    }

    /// The phase of what is sent now. A sample that a count ends is all window.
    pub(super) fn phase_now(&self) -> Phase {
        if !matches!(self.case.limit, Limit::Duration { .. }) {
            return Phase::Window;
        }
        match self.marks {
            Some(marks) if self.now >= marks.t1_ns => Phase::After,
            Some(marks) if self.now >= marks.t0_ns => Phase::Window,
            _ => Phase::WarmUp,
        }
    }

    /// A send ended. One that the kernel could not take now goes again, with its numbers, so
    /// that no loss is made up.
    pub(super) fn datagram_sent(&mut self, f: usize, event: Event) {
        let index = event.token;
        let used = self.uses[index as usize];
        let draining = self.stage != Stage::Running;
        let over = self.stage == Stage::Done || self.signals.stopping() > 1;
        let again = matches!(
            -event.result,
            libc::ENOBUFS | libc::EAGAIN | libc::ECONNREFUSED | libc::EINTR
        );
        if let (true, false, Some(slot)) = (again, over, self.flows[f].slot) {
            let from = SendFrom::Buffer {
                index,
                len: used.bytes,
            };
            return self.backend.send(slot, index, from);
        }
        self.flows[f].in_flight -= 1;
        self.free_buffer(index);
        // A packet filter's refusal (EPERM) is a datagram that was sent and lost on this host.
        if event.result > 0 || event.result == -libc::EPERM {
            self.count_datagrams(f, used);
        } else if !draining {
            self.broken(f, event.result, "a datagram could not be sent");
        }
        if self.flows[f].budget.spent() {
            self.check_limit();
        }
        self.issue(f);
    }

    fn count_datagrams(&mut self, f: usize, used: BufferUse) {
        let (bytes, messages) = (u64::from(used.bytes), u64::from(used.messages));
        let flow = &mut self.flows[f];
        flow.lifetime.sent_bytes += bytes;
        flow.lifetime.sent_messages += messages;
        flow.phase_sent[used.phase as usize] += messages;
        let group = flow.group;
        self.spans[group].ended(self.now);
        if !self.choices.headers {
            self.recorder.sent(group, self.now, bytes, messages);
            return;
        }
        self.recorder.sent_life(group, bytes, messages);
        if used.phase == Phase::Window as u8 {
            let flow = &mut self.flows[f];
            flow.window.sent_bytes += bytes;
            flow.window.sent_messages += messages;
            self.recorder
                .sent_in_window(group, self.now, bytes, messages);
        }
    }

    /// One receive operation: a datagram, or several merged by the kernel (UDP_GRO).
    pub(super) fn datagram_received(&mut self, f: usize, event: Event) {
        if event.result < 0 {
            self.backend.recycle(&event);
            // An ICMP error is the sender's matter; the socket goes on.
            if let (false, Some(slot)) = (event.armed, self.flows[f].slot)
                && event.result != -libc::ECANCELED
            {
                self.backend.receive(slot);
            }
            return;
        }
        self.tally.receive_operations += 1;
        let control = self.backend.control(&event);
        let ours = if self.choices.headers {
            self.take_headers(f, &event, control)
        } else {
            self.take_counts(f, &event, control)
        };
        if ours {
            self.saw_arrival(f);
        }
        self.backend.recycle(&event);
        if let (false, Some(slot)) = (event.armed, self.flows[f].slot) {
            self.backend.receive(slot);
        }
    }

    /// Counts datagrams that are too small for a header; false where none is ours. A repeated
    /// hello is longer than any of them.
    fn take_counts(&mut self, f: usize, event: &Event, control: Control) -> bool {
        let most = self.case.request_bytes as usize;
        let datagrams = datagrams(self.backend.data(event), control);
        let (mut bytes, mut messages) = (0, 0);
        for datagram in datagrams.filter(|datagram| datagram.len() <= most) {
            bytes += datagram.len() as u64;
            messages += 1;
        }
        let flow = &mut self.flows[f];
        flow.lifetime.received_bytes += bytes;
        flow.lifetime.received_messages += messages;
        self.recorder
            .received(flow.group, self.now, bytes, messages);
        messages > 0
    }

    /// Takes datagrams by what their headers say; false where none is ours.
    fn take_headers(&mut self, f: usize, event: &Event, control: Control) -> bool {
        let data = self.backend.data(event);
        let flow = &mut self.flows[f];
        let Some(tracker) = &mut self.trackers[f] else {
            return false;
        };
        let before = flow.arrived;
        let (mut life, mut window) = ((0, 0), (0, 0));
        for datagram in datagrams(data, control) {
            let Some(header) = Header::decode(datagram) else {
                continue;
            };
            if header.session != self.session || header.flow != flow.number {
                continue;
            }
            flow.arrived += 1;
            if self.case.options.verify {
                flow.corrupt_bytes += wrong_in_datagram(datagram);
            }
            let arrival = tracker.arrived(header.phase, header.sequence);
            if let (Some(at), true) = (control.received_realtime_ns, header.phase == Phase::Window)
            {
                self.jitters[f].arrived(header.stamp_ns, at);
            }
            if matches!(arrival, Arrival::Fresh | Arrival::Reordered) {
                life = (life.0 + datagram.len() as u64, life.1 + 1);
                if header.phase == Phase::Window {
                    window = (window.0 + datagram.len() as u64, window.1 + 1);
                }
            }
        }
        flow.lifetime.received_bytes += life.0;
        flow.lifetime.received_messages += life.1;
        flow.window.received_bytes += window.0;
        flow.window.received_messages += window.1;
        self.recorder.received_life(flow.group, life.0, life.1);
        if window.1 > 0 {
            self.recorder
                .received_in_window(flow.group, self.now, window.0, window.1);
        }
        flow.arrived > before
    }
}

/// Bytes behind a datagram's header that differ from the pattern.
pub(super) fn wrong_in_datagram(datagram: &[u8]) -> u64 {
    let payload = datagram.get(HEADER_BYTES..).unwrap_or_default();
    wrong_bytes(payload, HEADER_BYTES as u64..)
}

/// The datagrams of one receive operation.
fn datagrams(data: &[u8], control: Control) -> impl Iterator<Item = &[u8]> {
    let size = match control.segment_bytes {
        0 => data.len().max(1),
        segment => segment as usize,
    };
    data.chunks(size)
}
