//! Connect, one transaction, close: many at once, one after the other on each flow.

use std::cmp::Reverse;
use std::os::fd::AsFd;

use crate::backend::{Backend, Event, SendFrom};
use crate::plan::CloseKind;
use crate::sys::{address, open, socket};
use crate::traffic::transactions::Assembly;

use super::cycle::{Stage, Worker};
use super::thread::Note;

/// Pause before a connection that failed is tried again.
const RETRY_NS: u64 = 1_000_000;
/// Pause before a listener accepts again that could not.
const ACCEPT_AGAIN_NS: u64 = 10_000_000;

impl<B: Backend> Worker<B> {
    /// Begins a flow's next connection where it has none.
    pub(super) fn connection_begin(&mut self, f: usize) {
        let paced = self.schedule.is_some();
        let flow = &self.flows[f];
        let idle = flow.slot.is_none() && !flow.budget.spent() && (!paced || flow.is_due(1));
        let Some(target) = self.target.filter(|_| idle) else {
            return;
        };
        self.now = crate::sys::clock::monotonic_ns();
        let start = self.intended(f);
        self.flows[f].budget.take(1);
        let number = self.begin_transaction(f, start);
        let made = open::stream_for(target, &self.socket_options(f, number))
            .and_then(|socket| self.backend.add(socket));
        match made {
            Ok(slot) => {
                let flow = &mut self.flows[f];
                flow.slot = Some(slot);
                flow.shut = false;
                flow.failed = false;
                flow.assembly = Assembly::default();
                flow.connecting_since_ns = self.now;
                self.by_slot[slot as usize] = f as u32;
                self.backend.connect(slot, target);
            }
            Err(error) => self.connection_failed(f, -error.raw_os_error().unwrap_or(libc::EIO)),
        }
    }

    fn socket_options(&self, f: usize, number: u64) -> open::StreamOptions<'_> {
        let options = &self.case.options;
        open::StreamOptions {
            nodelay: options.nodelay,
            mss: options.mss,
            window: options.window,
            congestion: options.congestion.as_deref(),
            bind: options.bind,
            source_port: self.source_port(f, number),
            device: options.device.as_deref(),
            reset_on_close: options.close == CloseKind::Rst,
        }
    }

    /// The next of the flow's own source ports, where the plan gives a range: flow f of F takes
    /// ports f, f + F, f + 2F and so on in turn, so that a port rests as long as can be.
    fn source_port(&self, f: usize, number: u64) -> Option<u16> {
        match self.case.options.source_ports {
            crate::plan::SourcePorts::Range { first, last } => {
                let ports = u64::from(last - first) + 1;
                let (flow, flows) = (u64::from(self.flows[f].number), u64::from(self.case.flows));
                let own = ports.saturating_sub(flow).div_ceil(flows).max(1);
                Some(first + ((flow + number % own * flows) % ports) as u16)
            }
            _ => None,
        }
    }

    /// The connect ended.
    pub(super) fn connected(&mut self, f: usize, event: Event) {
        self.now = crate::sys::clock::monotonic_ns();
        if event.result < 0 {
            return self.connection_failed(f, event.result);
        }
        let flow = &self.flows[f];
        let Some(slot) = flow.slot else { return };
        let (group, since) = (flow.group, flow.connecting_since_ns);
        if self.recorder.in_window(since) {
            self.recorder.connect(group, self.now - since);
        }
        let len = self.case.request_bytes as u32;
        self.backend.receive(slot);
        self.backend
            .send_quiet(slot, SendFrom::Payload { offset: 0, len });
    }

    /// Answer bytes of a crr transaction; the last of them ends the connection.
    pub(super) fn connection_received(&mut self, f: usize, event: Event) {
        self.now = crate::sys::clock::monotonic_ns();
        let size = self.case.response_bytes;
        if event.result > 0 && !self.flows[f].shut {
            self.check_messages(f, &event, size);
        }
        self.backend.recycle(&event);
        if self.flows[f].shut {
            return;
        }
        if event.result <= 0 {
            return self.connection_failed(f, event.result);
        }
        self.saw_arrival(f);
        if self.flows[f].assembly.take(event.result as u64, size) > 0 {
            if let Some(transaction) = self.outstanding.end_oldest(f) {
                self.transaction_done(f, transaction);
            }
            self.flows[f].shut = true;
            if let Some(slot) = self.flows[f].slot {
                self.backend.close(slot);
            }
        } else if let (false, Some(slot)) = (event.armed, self.flows[f].slot) {
            self.backend.receive(slot);
        }
    }

    /// A connection could not be made or broke. It counts as failed and is tried again later.
    pub(super) fn connection_failed(&mut self, f: usize, result: i32) {
        if let Some(transaction) = self.outstanding.end_oldest(f) {
            self.transaction_failed(f, transaction);
        }
        if matches!(-result, libc::EADDRNOTAVAIL | libc::EADDRINUSE) {
            self.tally.ports_exhausted += 1;
        }
        match self.flows[f].slot {
            Some(slot) if !self.flows[f].shut => {
                self.flows[f].shut = true;
                self.flows[f].failed = true;
                self.backend.close(slot);
            }
            Some(_) => {}
            None if self.flows[f].budget.spent() => self.check_limit(),
            None => self.retry(f),
        }
    }

    fn retry(&mut self, f: usize) {
        self.echo_order += 1;
        self.thinking
            .push(Reverse((self.now + RETRY_NS, self.echo_order, f as u32)));
    }

    /// A socket is gone; the flow goes on with the next connection.
    pub(super) fn closed(&mut self, f: usize, event: Event) {
        self.by_slot[event.slot as usize] = u32::MAX;
        self.flows[f].slot = None;
        if self.flows[f].role != super::flow::Role::Connect {
            self.flows[f].ended = true;
            return self.free_flows.push(f as u32);
        }
        if self.stage == Stage::Running && self.flows[f].budget.spent() {
            self.check_limit();
        } else if self.flows[f].failed {
            self.retry(f);
        } else {
            self.issue(f);
        }
    }

    /// A listener accepted a connection: a transaction of the session's peer, or a stranger.
    pub(super) fn accepted(&mut self, event: Event) {
        let Some((_, peer)) = self.listener else {
            return;
        };
        if event.result < 0 {
            if !event.armed {
                // Out of descriptors, say: connections wait in the queue until there is room.
                self.clock.accept_ns = self.now + ACCEPT_AGAIN_NS;
            }
            return;
        }
        let from = address::peer(self.backend.socket(event.slot).as_fd());
        match from {
            Ok(from) if from.ip().to_canonical() != peer => {
                if let Some(socket) = self.backend.take(event.slot) {
                    let _ = self.notes.send(Note::Stranger(socket, from));
                }
            }
            Ok(_) if self.serving() => self.serve(event.slot),
            _ => self.backend.close(event.slot),
        }
    }

    /// Accepts again once the pause after a failure is over.
    pub(super) fn accept_again(&mut self) {
        if self.now < self.clock.accept_ns {
            return;
        }
        self.clock.accept_ns = u64::MAX;
        if let Some((slot, _)) = self.listener {
            self.backend.accept(slot);
        }
    }

    fn serve(&mut self, slot: u32) {
        let Some(f) = self.free_flows.pop() else {
            // More at once than the client said it would open: it will see a reset.
            return self.backend.close(slot);
        };
        let flow = &mut self.flows[f as usize];
        flow.slot = Some(slot);
        flow.ended = false;
        flow.shut = false;
        flow.assembly = Assembly::default();
        self.by_slot[slot as usize] = f;
        if self.case.options.nodelay {
            let _ = socket::set_nodelay(self.backend.socket(slot).as_fd(), true);
        }
        self.backend.receive(slot);
    }
}
