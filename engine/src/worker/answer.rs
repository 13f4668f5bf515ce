//! The answering side of request-response.

use std::cmp::Reverse;

use crate::backend::{Backend, Event, SendFrom};
use crate::traffic::tag::clear_head;
use crate::traffic::udp::HEADER_BYTES;

use super::cycle::{BufferUse, Echo, Stage, Worker};
use super::datagram::wrong_in_datagram;
use super::flow::Role;

impl<B: Backend> Worker<B> {
    /// Request bytes or a request datagram arrived.
    pub(super) fn request_received(&mut self, f: usize, event: Event) {
        let datagrams = self.flows[f].role == Role::DatagramAnswer;
        if event.result < 0 || (event.result == 0 && !datagrams) {
            self.backend.recycle(&event);
            return self.requests_ended(f, event);
        }
        self.saw_arrival(f);
        let bytes = event.result as u64;
        let complete = if datagrams {
            u64::from(self.is_request(f, &event))
        } else {
            self.check_messages(f, &event, self.case.request_bytes);
            self.flows[f].assembly.take(bytes, self.case.request_bytes)
        };
        let counted = if datagrams && complete == 0 { 0 } else { bytes };
        let flow = &mut self.flows[f];
        flow.lifetime.received_bytes += counted;
        flow.lifetime.received_messages += complete;
        let group = flow.group;
        self.recorder.received(group, self.now, counted, complete);
        if complete > 0
            && let Some(journeys) = &mut self.journeys
            && self.recorder.in_window(self.now)
        {
            journeys.asked(f, self.flows[f].number, self.now);
        }
        for _ in 0..complete {
            self.answer_or_think(f, &event);
        }
        self.backend.recycle(&event);
        if let (false, Some(slot)) = (event.armed, self.flows[f].slot) {
            self.backend.receive(slot);
        }
    }

    fn is_request(&mut self, f: usize, event: &Event) -> bool {
        let data = self.backend.data(event);
        let ours = data.len() as u64 == self.case.request_bytes
            && self
                .tag()
                .read(data, self.session, self.flows[f].number)
                .is_some();
        if ours && self.case.options.verify {
            self.flows[f].corrupt_bytes += wrong_in_datagram(data);
        }
        ours
    }

    fn requests_ended(&mut self, f: usize, event: Event) {
        if self.flows[f].role == Role::Accepted {
            return self.hang_up(f);
        }
        let goes_on = self.flows[f].role == Role::DatagramAnswer;
        if let (true, Some(slot)) = (goes_on, self.flows[f].slot) {
            if !event.armed && event.result != -libc::ECANCELED {
                self.backend.receive(slot);
            }
            return;
        }
        if event.result < 0 {
            self.broken(f, event.result, "the connection failed while receiving");
        }
        self.flows[f].ended = true;
    }

    /// Answers a complete request now or after the think time.
    fn answer_or_think(&mut self, f: usize, event: &Event) {
        let think = self.case.options.think_ns;
        if self.flows[f].role != Role::DatagramAnswer {
            if think == 0 {
                return self.answer(f);
            }
            self.echo_order += 1;
            let item = (self.now + think, self.echo_order, f as u32);
            return self.thinking.push(Reverse(item));
        }
        let Some(index) = self.free_echoes.pop() else {
            // More requests than the other side may have outstanding: it gave up on some.
            self.tally.unanswered += 1;
            return;
        };
        let data = self.backend.data(event);
        let len = data.len().min(HEADER_BYTES);
        let mut head = [0; HEADER_BYTES];
        head[..len].copy_from_slice(&data[..len]);
        self.echoes[index as usize] = Echo {
            flow: f as u32,
            len: len as u8,
            head,
        };
        if think == 0 {
            return self.echo_or_wait(index);
        }
        self.echo_order += 1;
        self.thinking
            .push(Reverse((self.now + think, self.echo_order, index)));
    }

    /// Sends the answers whose think time is over.
    pub(super) fn think_over(&mut self) {
        while let Some(Reverse((due, _, item))) = self.thinking.peek().copied() {
            if due > self.now {
                return;
            }
            self.thinking.pop();
            if self.case.proto == crate::plan::Proto::Udp {
                self.echo_or_wait(item);
            } else if self.client_timer(item) {
                self.issue(item as usize);
            } else {
                self.answer(item as usize);
            }
        }
    }

    /// A timer of the asking side is a connection that is tried again.
    fn client_timer(&self, item: u32) -> bool {
        self.flows[item as usize].role == Role::Connect
    }

    /// Sends a response over a stream.
    fn answer(&mut self, f: usize) {
        let Some(slot) = self.flows[f].slot else {
            return;
        };
        let bytes = self.case.response_bytes;
        self.count_answer(f, bytes);
        if let Some(journeys) = &self.journeys {
            journeys.answering();
        }
        self.backend.send_quiet(
            slot,
            SendFrom::Payload {
                offset: 0,
                len: bytes as u32,
            },
        );
    }

    fn count_answer(&mut self, f: usize, bytes: u64) {
        let flow = &mut self.flows[f];
        flow.lifetime.sent_bytes += bytes;
        flow.lifetime.sent_messages += 1;
        let group = flow.group;
        self.spans[group].ended(self.now);
        self.recorder.sent(group, self.now, bytes, 1);
    }

    fn echo_or_wait(&mut self, index: u32) {
        if self.free.is_empty() {
            self.waiting_echoes.push_back(index);
        } else {
            self.echo(index);
        }
    }

    /// Sends a response datagram with the request's head in front.
    fn echo(&mut self, index: u32) {
        let Some(buffer) = self.free.pop() else {
            return;
        };
        self.free_echoes.push(index);
        let Echo { flow, len, head } = self.echoes[index as usize];
        let f = flow as usize;
        let Some(slot) = self.flows[f].slot else {
            return;
        };
        let bytes = self.case.response_bytes as usize;
        let head = &head[..usize::from(len).min(bytes)];
        let answer = &mut self.backend.send_buffer(buffer)[..bytes];
        answer[..head.len()].copy_from_slice(head);
        clear_head(answer, head.len());
        self.uses[buffer as usize] = BufferUse {
            phase: 0,
            messages: 1,
            bytes: bytes as u32,
        };
        self.flows[f].in_flight += 1;
        self.count_answer(f, bytes as u64);
        let from = SendFrom::Buffer {
            index: buffer,
            len: bytes as u32,
        };
        self.backend.send(slot, buffer, from);
    }

    /// A response datagram left; another may take its buffer.
    pub(super) fn echo_sent(&mut self, f: usize, event: Event) {
        self.free.push(event.token);
        self.flows[f].in_flight -= 1;
        if let Some(index) = self.waiting_echoes.pop_front() {
            self.echo(index);
        }
    }

    /// An accepted connection is over; its flow waits for another.
    pub(super) fn hang_up(&mut self, f: usize) {
        let Some(slot) = self.flows[f].slot else {
            return;
        };
        if !self.flows[f].shut {
            self.flows[f].shut = true;
            self.flows[f].ended = true;
            self.backend.close(slot);
            self.forget_thoughts(f);
        }
    }

    /// What a connection still waited for is not the answer of the next one on its flow.
    fn forget_thoughts(&mut self, f: usize) {
        if self.case.options.think_ns > 0 {
            self.thinking
                .retain(|Reverse((_, _, flow))| *flow as usize != f);
        }
    }

    /// Whether new connections are still served.
    pub(super) fn serving(&self) -> bool {
        matches!(
            self.stage,
            Stage::Armed | Stage::Running | Stage::Draining(_)
        )
    }
}
