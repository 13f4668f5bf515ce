//! TCP streams: many sends in flight, receives that are counted and thrown away.

use std::os::fd::AsFd;

use crate::backend::{Backend, Event, SendFrom};
use crate::sys::{address, socket};

use super::cycle::{ADAPT_NS, Worker};
use super::policy::{PATTERN_PERIOD, wrong_bytes};

/// Bounds of the receive low-water mark: about a millisecond's worth of the rate, bytes.
const LOW_WATER_MIN: u64 = 64 * 1024;
const LOW_WATER_MAX: u64 = 1024 * 1024;

impl<B: Backend> Worker<B> {
    /// Keeps the flow's depth of sends in flight.
    pub(super) fn stream_fill(&mut self, f: usize) {
        let paced = self.schedule.is_some();
        loop {
            let flow = &self.flows[f];
            let Some(slot) = flow.slot else { return };
            if flow.ended || flow.in_flight >= self.choices.depth {
                return;
            }
            let bytes = flow.budget.peek(u64::from(self.choices.per_send));
            // Messages are paced, not operations: one that carries several waits for the last.
            let messages = bytes.div_ceil(self.case.request_bytes.max(1));
            if bytes == 0 || paced && !flow.is_due(messages) {
                return;
            }
            for _ in 0..if paced { messages } else { 0 } {
                self.intended(f);
            }
            let flow = &mut self.flows[f];
            flow.budget.take(bytes);
            flow.in_flight += 1;
            let offset = if self.case.options.verify {
                flow.position % PATTERN_PERIOD
            } else {
                0
            };
            flow.position += bytes;
            let from = SendFrom::Payload {
                offset: offset as u32,
                len: bytes as u32,
            };
            self.backend.send(slot, bytes as u32, from);
        }
    }

    /// A send ended, wholly or (cancelled, broken) in part.
    pub(super) fn stream_sent(&mut self, f: usize, event: Event) {
        self.flows[f].in_flight -= 1;
        if event.result > 0 {
            self.count_sent(f, event.result as u64, u64::from(event.token));
        }
        let whole = event.result == event.token as i32;
        if !whole && self.sending() {
            let what = "the connection failed while sending";
            self.broken(f, event.result.min(0), what);
            return;
        }
        if self.flows[f].budget.spent() && self.flows[f].in_flight == 0 {
            self.shut(f);
            self.check_limit();
        } else if self.sending() {
            self.stream_fill(f);
        } else {
            self.stream_end(f);
        }
    }

    fn count_sent(&mut self, f: usize, bytes: u64, asked: u64) {
        let message = self.case.request_bytes.max(1);
        let messages = if bytes == asked {
            bytes.div_ceil(message)
        } else {
            bytes / message
        };
        let flow = &mut self.flows[f];
        flow.lifetime.sent_bytes += bytes;
        flow.lifetime.sent_messages += messages;
        let group = flow.group;
        self.spans[group].ended(self.now);
        self.recorder.sent(group, self.now, bytes, messages);
    }

    /// No more sends: what is in flight is cancelled, then the stream is ended.
    pub(super) fn stream_end(&mut self, f: usize) {
        let flow = &self.flows[f];
        let Some(slot) = flow.slot else { return };
        if flow.in_flight > 0 {
            self.backend.send_cancel(slot);
        } else {
            self.shut(f);
        }
    }

    pub(super) fn shut(&mut self, f: usize) {
        let flow = &mut self.flows[f];
        let Some(slot) = flow.slot else { return };
        if !flow.shut {
            flow.shut = true;
            // Fails only where the connection is gone already.
            let _ = address::end_stream(self.backend.socket(slot).as_fd());
        }
    }

    /// Bytes arrived, or the stream's end.
    pub(super) fn stream_received(&mut self, f: usize, event: Event) {
        if event.result <= 0 {
            self.backend.recycle(&event);
            let reset = event.result < 0 && event.result != -libc::ECANCELED;
            if reset {
                self.broken(f, event.result, "the connection failed while receiving");
            }
            self.flows[f].ended = true;
            // Tells the sender that everything was read.
            self.shut(f);
            self.check_limit();
            return;
        }
        let bytes = event.result as u64;
        if self.case.options.verify {
            let data = self.backend.data(&event);
            let flow = &mut self.flows[f];
            flow.corrupt_bytes += wrong_bytes(data, flow.position..);
            flow.position += bytes;
        }
        self.backend.recycle(&event);
        let flow = &mut self.flows[f];
        flow.lifetime.received_bytes += bytes;
        let (group, slot) = (flow.group, flow.slot);
        self.recorder.received(group, self.now, bytes, 0);
        self.saw_arrival(f);
        if let (false, Some(slot)) = (event.armed, slot) {
            self.backend.receive(slot);
        }
    }

    /// Checks what arrived of requests or responses of `size` bytes, which each begin anew.
    pub(super) fn check_messages(&mut self, f: usize, event: &Event, size: u64) {
        if !self.case.options.verify {
            return;
        }
        let data = self.backend.data(event);
        let flow = &mut self.flows[f];
        let mut at = flow.assembly.partial();
        let mut rest = data;
        while !rest.is_empty() {
            let len = rest.len().min((size - at) as usize);
            let (part, behind) = rest.split_at(len);
            flow.corrupt_bytes += wrong_bytes(part, at..);
            (rest, at) = (behind, 0);
        }
    }

    pub(super) fn saw_arrival(&mut self, f: usize) {
        self.tally.silent_since_ns = self.now;
        self.spans[self.flows[f].group].arrived(self.now);
    }

    /// Lets the low-water mark follow the rate, so that the receiver is woken about once a
    /// millisecond and not once a segment.
    pub(super) fn adapt_low_water(&mut self) {
        if !self.choices.low_water || self.now < self.clock.next_adapt_ns {
            return;
        }
        self.clock.next_adapt_ns = self.now + ADAPT_NS;
        for f in 0..self.flows.len() {
            let flow = &mut self.flows[f];
            let bytes = flow.lifetime.received_bytes - flow.adapted_at_bytes;
            flow.adapted_at_bytes = flow.lifetime.received_bytes;
            let per_ms = bytes * 1_000_000 / ADAPT_NS;
            let wanted = if per_ms < LOW_WATER_MIN {
                1
            } else {
                per_ms.min(LOW_WATER_MAX)
            };
            let present = u64::from(flow.low_water);
            // Small changes are not worth a system call.
            if wanted != present && (wanted < present / 2 || wanted > present * 5 / 4) {
                self.set_low_water(f, wanted as u32);
            }
        }
    }

    pub(super) fn set_low_water(&mut self, f: usize, bytes: u32) {
        let flow = &mut self.flows[f];
        let Some(slot) = flow.slot else { return };
        if flow.low_water != bytes && !flow.ended {
            flow.low_water = bytes;
            // An optimisation only: a kernel that refuses it wakes the receiver more often.
            let socket = self.backend.socket(slot);
            let _ = socket::set_receive_low_water(socket, bytes);
            // It may be cut to half of the largest receive buffer.
            let got = socket::receive_low_water(socket).unwrap_or(bytes);
            flow.low_water_max = flow.low_water_max.max(got);
        }
    }
}
