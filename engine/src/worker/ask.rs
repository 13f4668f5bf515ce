//! The asking side of request-response: requests out, answers in, time between them.

use crate::backend::{Backend, Event, SendFrom};
use crate::traffic::tag::Tag;
use crate::traffic::transactions::Slot as Transaction;
use crate::traffic::udp::{Header, Phase};

use super::cycle::{BufferUse, Stage, Worker};
use super::datagram::wrong_in_datagram;
use super::flow::Role;

impl<B: Backend> Worker<B> {
    /// Asks as often as the depth, the limit and the schedule let the flow.
    pub(super) fn ask(&mut self, f: usize) {
        let paced = self.schedule.is_some();
        loop {
            let flow = &self.flows[f];
            let Some(slot) = flow.slot else { return };
            let may = !flow.ended
                && self.outstanding.has_room(f)
                && !flow.budget.spent()
                && (!paced || flow.is_due(1));
            if !may {
                return;
            }
            if flow.role == Role::DatagramAsk && self.free.is_empty() {
                return self.wait_for_buffer(f);
            }
            let start = self.intended(f);
            self.flows[f].budget.take(1);
            let sequence = self.begin_transaction(f, start);
            if self.flows[f].role == Role::Ask {
                let len = self.case.request_bytes as u32;
                self.backend
                    .send_quiet(slot, SendFrom::Payload { offset: 0, len });
            } else {
                self.send_datagram_request(f, slot, sequence);
            }
        }
    }

    /// Counts a transaction as started. Returns its number within the flow.
    pub(super) fn begin_transaction(&mut self, f: usize, start_ns: u64) -> u64 {
        let sequence = self.outstanding.begin(f, start_ns, self.now);
        let timeout = self.case.options.timeout_ns;
        if self.flows[f].role == Role::DatagramAsk {
            self.clock.next_expiry_ns = self.clock.next_expiry_ns.min(self.now + timeout);
        }
        let bytes = self.case.request_bytes;
        let inside = self.recorder.in_window(start_ns);
        let flow = &mut self.flows[f];
        flow.lifetime.sent_bytes += bytes;
        flow.lifetime.sent_messages += 1;
        let group = flow.group;
        self.totals[group].lifetime.started += 1;
        if inside {
            let requests = &mut self.flows[f].window_requests;
            if requests.is_empty() {
                requests.start = sequence;
            }
            requests.end = sequence + 1;
            self.totals[group].window.started += 1;
        }
        if self.recorder.sent(group, self.now, bytes, 1) {
            self.flows[f].window.sent_bytes += bytes;
            self.flows[f].window.sent_messages += 1;
        }
        sequence
    }

    fn send_datagram_request(&mut self, f: usize, slot: u32, sequence: u64) {
        let Some(index) = self.free.pop() else { return };
        let len = self.case.request_bytes as usize;
        let number = self.flows[f].number;
        let header = Header {
            session: self.session,
            flow: number,
            phase: Phase::Window,
            sequence,
            stamp_ns: self.now,
        };
        let tag = self.tag();
        let buffer = &mut self.backend.send_buffer(index)[..len];
        if tag.is_header() {
            header.encode(buffer);
        } else {
            tag.write(buffer, sequence);
        }
        self.uses[index as usize] = BufferUse {
            phase: 0,
            messages: 1,
            bytes: len as u32,
        };
        self.flows[f].in_flight += 1;
        self.backend.send(
            slot,
            index,
            SendFrom::Buffer {
                index,
                len: len as u32,
            },
        );
    }

    /// How answers are matched: by the header, or by as much of the number as fits in both.
    pub(super) fn tag(&self) -> Tag {
        Tag::new(self.case.request_bytes, self.case.response_bytes)
    }

    /// A datagram request left. One that the kernel refused is lost and will time out.
    pub(super) fn request_sent(&mut self, f: usize, event: Event) {
        self.flows[f].in_flight -= 1;
        self.free_buffer(event.token);
        self.issue(f);
    }

    /// A quiet send has an event only where it failed or was cut short.
    pub(super) fn quiet_send_ended(&mut self, f: usize, event: Event) {
        if self.flows[f].role == Role::Connect {
            return self.connection_failed(f, event.result);
        }
        if self.flows[f].role == Role::Accepted {
            return self.hang_up(f);
        }
        self.broken(
            f,
            event.result.min(0),
            "the connection failed while sending",
        );
    }

    /// Answer bytes arrived.
    pub(super) fn answer_received(&mut self, f: usize, event: Event) {
        self.now = crate::sys::clock::monotonic_ns();
        let datagrams = self.flows[f].role == Role::DatagramAsk;
        if event.result < 0 || (event.result == 0 && !datagrams) {
            self.backend.recycle(&event);
            return self.answers_ended(f, event);
        }
        self.saw_arrival(f);
        if datagrams {
            self.datagram_answer(f, &event);
        } else {
            let size = self.case.response_bytes;
            self.check_messages(f, &event, size);
            let complete = self.flows[f].assembly.take(event.result as u64, size);
            for _ in 0..complete {
                if let Some(transaction) = self.outstanding.end_oldest(f) {
                    self.transaction_done(f, transaction);
                }
            }
        }
        self.backend.recycle(&event);
        if let (false, Some(slot)) = (event.armed, self.flows[f].slot) {
            self.backend.receive(slot);
        }
        self.issue(f);
        self.after_answer(f);
    }

    fn after_answer(&mut self, f: usize) {
        if self.outstanding.used(f) > 0 {
            return;
        }
        match self.stage {
            Stage::Draining(_) => self.ask_end(f),
            Stage::Running if self.flows[f].budget.spent() => self.check_limit(),
            _ => {}
        }
    }

    fn answers_ended(&mut self, f: usize, event: Event) {
        let flow = &self.flows[f];
        // A refused port (ICMP) is an answer that will not come: the time-out counts it.
        let goes_on = flow.role == Role::DatagramAsk && event.result != -libc::ECANCELED;
        if let (true, Some(slot)) = (goes_on, flow.slot) {
            if !event.armed {
                self.backend.receive(slot);
            }
            return;
        }
        self.broken(f, event.result, "the other side closed the connection");
    }

    fn datagram_answer(&mut self, f: usize, event: &Event) {
        let tag = self.tag();
        let data = self.backend.data(event);
        let named = tag.read(data, self.session, self.flows[f].number);
        let Some(named) = named.filter(|_| data.len() as u64 == self.case.response_bytes) else {
            return;
        };
        if self.case.options.verify {
            self.flows[f].corrupt_bytes += wrong_in_datagram(data);
        }
        match self.outstanding.end_tagged(f, named, tag.mask()) {
            Some(transaction) if self.expired(&transaction) => {
                self.transaction_failed(f, transaction);
                self.answered_late(f, transaction.sequence);
            }
            Some(transaction) => self.transaction_done(f, transaction),
            // What was given up before is late; what was answered before is a copy.
            None => {
                if let Some(sequence) = self.outstanding.late(f, named) {
                    self.answered_late(f, sequence);
                }
            }
        }
    }

    fn answered_late(&mut self, f: usize, sequence: u64) {
        let flow = &self.flows[f];
        let inside = flow.window_requests.contains(&sequence);
        self.totals[flow.group].late(inside);
    }

    fn expired(&self, transaction: &Transaction) -> bool {
        self.now.saturating_sub(transaction.sent_ns) > self.case.options.timeout_ns
    }

    /// Counts a whole answer.
    pub(super) fn transaction_done(&mut self, f: usize, transaction: Transaction) {
        let bytes = self.case.response_bytes;
        let latency = self.now.saturating_sub(transaction.start_ns);
        let inside = self.recorder.in_window(transaction.start_ns);
        let flow = &mut self.flows[f];
        flow.lifetime.received_bytes += bytes;
        flow.lifetime.received_messages += 1;
        let group = flow.group;
        self.totals[group].lifetime.done += 1;
        self.totals[group].lifetime.completed += 1;
        // What is received in the window is its throughput; what began in it, its latency.
        if self.recorder.completed(group, self.now, bytes) {
            flow.window.received_bytes += bytes;
            flow.window.received_messages += 1;
            self.totals[group].window.completed += 1;
        }
        if inside {
            flow.window_done += 1;
            self.totals[group].window.done += 1;
            self.recorder.done(group, transaction.start_ns, latency);
            if let Some(journeys) = &mut self.journeys {
                journeys.done(self.flows[f].number, transaction.start_ns, self.now);
            }
        }
    }

    /// Counts a transaction that will have no answer.
    pub(super) fn transaction_failed(&mut self, f: usize, transaction: Transaction) {
        let group = self.flows[f].group;
        self.spans[group].ended(self.now);
        self.totals[group].lifetime.failed += 1;
        if self.recorder.in_window(transaction.start_ns) {
            self.totals[group].window.failed += 1;
        }
    }

    /// Fails the datagram requests whose time is over, and asks again in their place.
    pub(super) fn expire(&mut self) {
        if self.now < self.clock.next_expiry_ns {
            return;
        }
        let timeout = self.case.options.timeout_ns;
        let before = self.now.saturating_sub(timeout);
        for f in 0..self.flows.len() {
            while let Some(transaction) = self.outstanding.end_expired(f, before) {
                self.transaction_failed(f, transaction);
            }
        }
        self.clock.next_expiry_ns = match self.outstanding.oldest_sent_ns() {
            Some(oldest) => oldest + timeout + 1,
            None => u64::MAX,
        };
        for f in 0..self.flows.len() {
            self.issue(f);
        }
        if self.stage == Stage::Running {
            self.check_limit();
        }
    }

    /// No more requests. The stream ends once every answer is in, so that the other side knows.
    pub(super) fn ask_end(&mut self, f: usize) {
        if self.flows[f].role == Role::Ask && self.outstanding.used(f) == 0 {
            self.shut(f);
        }
    }
}
