//! A crew in memory: each client flow sends its name once, each server flow reads what came.

use std::cell::RefCell;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use crate::control::crew::{Crew, CrewEvent, CrewFactory, FlowKey, Side};
use crate::control::session::terms::is_crr;
use crate::control::wire::{Offer, Refusal};
use crate::plan::Limit;
use crate::record::{Counters, Finding, FlowReport, GroupReport, Progress, Severity, SideReport};

/// What a fake crew shall do wrong.
#[derive(Clone, Default)]
pub(super) struct Script {
    /// The factory refuses.
    pub refuse: Option<Refusal>,
    /// The crew fails so long after its start.
    pub fail_after: Option<Duration>,
    /// Bytes of padding in the report, to need several pieces.
    pub report_bytes: usize,
}

/// Makes fake crews and counts the living ones.
pub(super) struct Factory {
    pub script: Script,
    pub alive: Arc<AtomicI64>,
    pub offers: RefCell<Vec<Offer>>,
}

impl Factory {
    pub(super) fn new(script: Script) -> Factory {
        Factory {
            script,
            alive: Arc::default(),
            offers: RefCell::default(),
        }
    }
}

impl CrewFactory for Factory {
    fn build(&mut self, side: Side, offer: &Offer) -> Result<Box<dyn Crew>, Refusal> {
        self.offers.borrow_mut().push(offer.clone());
        if let Some(refusal) = &self.script.refuse {
            return Err(refusal.clone());
        }
        self.alive.fetch_add(1, Ordering::SeqCst);
        Ok(Box::new(FakeCrew {
            script: self.script.clone(),
            alive: self.alive.clone(),
            side,
            limit: offer.case.limit,
            crr: is_crr(&offer.case),
            flows: Vec::new(),
            names: Vec::new(),
            listener: None,
            target: None,
            transactions: 0,
            armed: false,
            started: None,
            intervals: 0,
            done: false,
            stopped: false,
        }))
    }
}

struct FakeCrew {
    script: Script,
    alive: Arc<AtomicI64>,
    side: Side,
    limit: Limit,
    crr: bool,
    flows: Vec<(FlowKey, File)>,
    names: Vec<String>,
    listener: Option<(TcpListener, IpAddr)>,
    target: Option<SocketAddr>,
    transactions: u64,
    armed: bool,
    started: Option<Instant>,
    intervals: u64,
    done: bool,
    stopped: bool,
}

impl Drop for FakeCrew {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

fn name(key: FlowKey) -> String {
    format!("<{}.{}>", key.group, key.flow)
}

impl FakeCrew {
    fn receive(&mut self) {
        let mut buffer = [0; 256];
        for (_, file) in &mut self.flows {
            while let Ok(length @ 1..) = file.read(&mut buffer) {
                self.names
                    .push(String::from_utf8_lossy(&buffer[..length]).into_owned());
            }
        }
    }

    fn accept(&mut self, events: &mut Vec<CrewEvent>) {
        let Some((listener, peer)) = &self.listener else {
            return;
        };
        while let Ok((stream, address)) = listener.accept() {
            if address.ip().to_canonical() == *peer {
                self.transactions += 1;
            } else {
                events.push(CrewEvent::Stranger(stream.into(), address));
            }
        }
    }

    fn connect(&mut self) {
        if let (Some(target), Some(_)) = (self.target, self.started)
            && !self.stopped
            && TcpStream::connect(target).is_ok()
        {
            self.transactions += 1;
        }
    }

    fn intervals(&mut self, since: Duration, events: &mut Vec<CrewEvent>) {
        if since.as_millis() as u64 / 50 > self.intervals {
            let received_total = self.names.len() as u64;
            let lifetime = vec![Counters::default()];
            let index = self.intervals as i64;
            let progress = Progress {
                index,
                received_total,
                lifetime,
                ..Progress::default()
            };
            events.push(CrewEvent::Progress(progress));
            self.intervals += 1;
        }
        let Limit::Duration { ns } = self.limit else {
            return;
        };
        if since.as_nanos() as u64 >= ns && !self.done {
            self.done = true;
            events.push(CrewEvent::WindowDone);
        }
    }
}

impl Crew for FakeCrew {
    fn cpus(&self) -> Vec<u32> {
        vec![0]
    }

    fn adopt(&mut self, key: FlowKey, socket: OwnedFd) -> Result<(), Refusal> {
        self.flows.push((key, File::from(socket)));
        Ok(())
    }

    fn adopt_listener(&mut self, socket: OwnedFd, peer: IpAddr) -> Result<(), Refusal> {
        self.listener = Some((TcpListener::from(socket), peer));
        Ok(())
    }

    fn target(&mut self, server: SocketAddr) {
        self.target = Some(server);
    }

    fn arm(&mut self) -> Result<(), Refusal> {
        self.armed = true;
        Ok(())
    }

    fn start(&mut self) {
        self.started = Some(Instant::now());
        if self.side == Side::Client {
            for (key, file) in &mut self.flows {
                let text = name(*key);
                assert_eq!(file.write(text.as_bytes()).ok(), Some(text.len()));
            }
        }
    }

    fn poll(&mut self) -> Vec<CrewEvent> {
        let mut events = Vec::new();
        if std::mem::take(&mut self.armed) {
            events.push(CrewEvent::Armed);
        }
        if self.side == Side::Server {
            self.receive();
            self.accept(&mut events);
        } else if self.crr {
            self.connect();
        }
        if let Some(started) = self.started {
            let since = started.elapsed();
            self.intervals(since, &mut events);
            if self.script.fail_after.is_some_and(|after| since >= after) {
                let refusal = Refusal::new(5, "fake-failure", "a worker failed");
                events.push(CrewEvent::Failed(refusal));
            }
        }
        if self.stopped {
            events.push(CrewEvent::Stopped);
        }
        events
    }

    fn stop(&mut self) {
        self.stopped = true;
    }

    fn finish(mut self: Box<Self>) -> SideReport {
        self.receive();
        self.names.sort();
        let flow = |text: &String| FlowReport {
            local: text.clone(),
            ..FlowReport::default()
        };
        let counted = self.names.len() as u64 + self.transactions;
        let window = Counters {
            received_messages: counted,
            ..Counters::default()
        };
        let padding = "é".repeat(self.script.report_bytes / 2);
        SideReport {
            complete: self.done,
            groups: vec![GroupReport {
                window,
                ..GroupReport::default()
            }],
            flows: self.names.iter().map(flow).collect(),
            findings: vec![Finding::new(Severity::Info, "padding", padding)],
            ..SideReport::default()
        }
    }
}
