//! What a worker leaves behind.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use crate::backend::{Backend, EngineStats};
use crate::measure::journey::{Journeys, Sums};
use crate::measure::recorder::Remains;
use crate::measure::tcp::TcpSample;
use crate::plan::Proto;
use crate::record::{Counters, Transactions, WorkerTime};
use crate::sys::{address, queue, rusage, socket, tcp_info};
use crate::traffic::schedule::Schedule;
use crate::traffic::udp::Account;

use super::cycle::{Span, Worker};
use super::flow::{Flow, Kernels, Role};
use super::policy::Choices;

/// Most ages that are told apart in one flow's backlog.
const MOST_AGES: u64 = 1_000_000;

/// Transactions of one group, of the window and of the lifetime.
#[derive(Clone, Copy, Default, Debug)]
pub struct TransactionTotals {
    /// Those that started in the window.
    pub window: Transactions,
    /// All.
    pub lifetime: Transactions,
}

impl TransactionTotals {
    /// Counts an answer that came too late.
    pub(super) fn late(&mut self, in_window: bool) {
        self.lifetime.late += 1;
        self.window.late += u64::from(in_window);
    }
}

/// One flow at the end.
#[derive(Debug)]
pub struct FlowOutcome {
    /// What it did.
    pub role: Role,
    /// Group of traffic.
    pub group: u32,
    /// Number within the group.
    pub flow: u32,
    /// This side's address.
    pub local: Option<SocketAddr>,
    /// The other side's address.
    pub peer: Option<SocketAddr>,
    /// Counts of the window.
    pub window: Counters,
    /// Counts of the lifetime.
    pub lifetime: Counters,
    /// Transactions done in the window.
    pub transactions: u64,
    /// TCP_INFO at the end.
    pub tcp: Option<TcpSample>,
    /// Bytes in the kernel's queue: SIOCOUTQ of senders when their time to end was over, SIOCINQ
    /// of receivers at the end.
    pub queued_bytes: u64,
    /// The stream's end was seen.
    pub ended: bool,
    /// Datagrams that arrived, copies and late ones included.
    pub arrived: u64,
    /// Datagrams sent per phase.
    pub phase_sent: [u64; 3],
    /// The receiver's sequence account.
    pub account: Option<Account>,
    /// Bytes that `verify` found wrong.
    pub corrupt_bytes: u64,
    /// Interarrival jitter, nanoseconds.
    pub jitter_ns: Option<f64>,
    /// Datagrams that the socket dropped, and its receive buffer, bytes.
    pub socket_memory: Option<socket::MemoryInfo>,
    /// Highest receive low-water mark that was in force, bytes.
    pub low_water: u32,
    /// CPU that last handled a packet of this flow.
    pub receive_cpu: Option<u32>,
    /// Whether a device that can be polled brought its packets; none where that is unknown.
    pub polled: Option<bool>,
}

/// One group at the end.
#[derive(Clone, Copy, Default, Debug)]
pub struct GroupOutcome {
    /// Transactions.
    pub totals: TransactionTotals,
    /// Smallest age among the censored, nanoseconds.
    pub censored_min_ns: Option<u64>,
    /// When its traffic came and went.
    pub span: Span,
    /// Open loop: what the schedule meant for the window.
    pub due: u64,
}

/// Everything a worker leaves behind.
#[derive(Debug)]
pub struct WorkerOutcome {
    /// Worker number.
    pub worker: u32,
    /// CPU that it ran on at the end.
    pub cpu: u32,
    /// Its flows.
    pub flows: Vec<FlowOutcome>,
    /// Its groups.
    pub groups: Vec<GroupOutcome>,
    /// What it recorded.
    pub remains: Remains,
    /// What it chose.
    pub choices: Choices,
    /// What its engine did.
    pub stats: EngineStats,
    /// User and system time between start and stop, seconds.
    pub cpu_time: (f64, f64),
    /// Connections that found no free port.
    pub ports_exhausted: u64,
    /// UDP receive operations.
    pub receive_operations: u64,
    /// Datagram requests that were dropped since too many waited for their answers.
    pub unanswered: u64,
    /// Datagram requests given up so long ago that their answer, had it come since, could have
    /// been taken for a newer one's.
    pub forgotten: u64,
    /// Where the time of its transactions went; only with stage probes.
    pub journeys: Option<Sums>,
    /// Where its time went.
    pub time: WorkerTime,
    /// What the engine failed of, where it failed.
    pub error: Option<String>,
}

impl WorkerOutcome {
    /// Highest receive low-water mark that was in force on any flow, bytes.
    pub fn low_water(&self) -> u32 {
        self.flows.iter().map(|f| f.low_water).max().unwrap_or(1)
    }
}

impl<B: Backend> Worker<B> {
    /// Ends the worker and says what it has.
    pub(super) fn outcome(
        mut self,
        worker: u32,
        before: rusage::ThreadUsage,
        error: Option<String>,
    ) -> WorkerOutcome {
        self.close_window();
        self.leave_senders();
        let groups = self.census();
        let after = rusage::thread_usage().unwrap_or_default();
        let seconds = |after: u64, before: u64| after.saturating_sub(before) as f64 / 1e6;
        let flows = (0..self.flows.len())
            .map(|f| self.flow_outcome(f))
            .collect();
        let used = |usage: &rusage::ThreadUsage| usage.user_us + usage.system_us;
        let time = self.time(worker, seconds(used(&after), used(&before)));
        WorkerOutcome {
            worker,
            cpu: crate::sys::affinity::current_cpu().unwrap_or(u32::MAX),
            flows,
            groups,
            stats: self.backend.stats(),
            choices: self.choices,
            cpu_time: (
                seconds(after.user_us, before.user_us),
                seconds(after.system_us, before.system_us),
            ),
            ports_exhausted: self.tally.ports_exhausted,
            receive_operations: self.tally.receive_operations,
            unanswered: self.tally.unanswered,
            forgotten: self.outstanding.forgotten(),
            time,
            remains: self.recorder.finish(),
            journeys: self.journeys.and_then(Journeys::into_sums),
            error,
        }
    }

    /// Where the time since the start went, seconds.
    fn time(&self, worker: u32, on_cpu_s: f64) -> WorkerTime {
        let spun_s = self.tally.spun_ns as f64 / 1e9;
        let wall_s = self.now.saturating_sub(self.clock.started_ns) as f64 / 1e9;
        WorkerTime {
            worker,
            spun_s,
            worked_s: (on_cpu_s - spun_s).max(0.0),
            slept_s: (wall_s - on_cpu_s).max(0.0),
        }
    }

    /// Counts what is in flight, and records with its age every request of the window that has
    /// no answer or, in an open loop, was due and never sent.
    fn census(&mut self) -> Vec<GroupOutcome> {
        let mut groups: Vec<GroupOutcome> = self
            .totals
            .iter()
            .zip(&self.spans)
            .map(|(totals, span)| GroupOutcome {
                totals: *totals,
                span: *span,
                ..GroupOutcome::default()
            })
            .collect();
        self.count_due(&mut groups);
        let now = self.now;
        let mut ages: Vec<(usize, u64)> = Vec::new();
        for (f, transaction) in self.outstanding.outstanding() {
            let totals = &mut groups[self.flows[f].group].totals;
            totals.lifetime.in_flight += 1;
            if self.recorder.in_window(transaction.start_ns) {
                totals.window.in_flight += 1;
                ages.push((
                    self.flows[f].group,
                    now.saturating_sub(transaction.start_ns),
                ));
            }
        }
        let mut ages: Vec<(usize, u64, u64)> = ages
            .into_iter()
            .map(|(group, age)| (group, age, 1))
            .collect();
        self.add_unsent(&mut ages);
        for (group, age, times) in ages {
            self.recorder.latencies(group, age, times);
            let outcome = &mut groups[group];
            outcome.totals.window.censored += times;
            let least = outcome.censored_min_ns.map_or(age, |least| least.min(age));
            outcome.censored_min_ns = Some(least);
        }
        groups
    }

    /// Counts what the schedule meant for the window, sent or not.
    fn count_due(&self, groups: &mut [GroupOutcome]) {
        let (Some(schedule), Some(marks)) = (&self.schedule, self.recorder.marks()) else {
            return;
        };
        let end = marks.t1_ns.min(self.now);
        for flow in self.flows.iter().filter(|flow| flow.role.paced()) {
            let of = |ns| schedule.due_before(flow.own, ns);
            // A count ends the schedule too.
            let most = flow.issued.saturating_add(flow.budget.peek(u64::MAX));
            groups[flow.group].due += of(end).min(most).saturating_sub(of(marks.t0_ns));
        }
    }

    /// Adds the ages of what was due and never sent, with how many have about that age. Of a long
    /// backlog, neighbours share an age: a millionth of the backlog's span at most.
    fn add_unsent(&self, ages: &mut Vec<(usize, u64, u64)>) {
        let (Some(schedule), Some(marks)) = (&self.schedule, self.recorder.marks()) else {
            return;
        };
        for flow in self.flows.iter().filter(|flow| flow.role.asks()) {
            let due = schedule.due_before(flow.own, marks.t1_ns.min(self.now));
            // A limit ends the schedule.
            let due = due.min(flow.issued.saturating_add(flow.budget.peek(u64::MAX)));
            let first = self.first_in_window(schedule, flow, due);
            let step = (due.saturating_sub(first) / MOST_AGES).max(1);
            let mut at = first;
            while at < due {
                let times = step.min(due - at);
                // The youngest of them speaks for all, so that no age is made up.
                let intended = schedule.intended(flow.own, at + times - 1);
                ages.push((flow.group, self.now.saturating_sub(intended), times));
                at += times;
            }
        }
    }

    /// The first message of a flow that was not sent and is the window's; `due` where none is.
    fn first_in_window(&self, schedule: &Schedule, flow: &Flow, due: u64) -> u64 {
        let (mut low, mut high) = (flow.issued, due.max(flow.issued));
        while low < high {
            let middle = low + (high - low) / 2;
            if self.recorder.in_window(schedule.intended(flow.own, middle)) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }

    /// Ends a sender's connection at once, after what the kernel knows of it has been noted.
    pub(super) fn abandon(&mut self, f: usize) {
        let Some(slot) = self.flows[f].slot else {
            return;
        };
        let socket = self.backend.socket(slot);
        let seen = kernels(&self.flows[f], socket.as_fd());
        // Fails only where the connection is gone already.
        let _ = address::abort_stream(socket.as_fd());
        let flow = &mut self.flows[f];
        flow.last_seen = Some(seen);
        (flow.ended, flow.reset) = (true, true);
    }

    fn flow_outcome(&mut self, f: usize) -> FlowOutcome {
        let seen = self.flows[f].last_seen.take();
        let flow = &self.flows[f];
        // A connection that is being closed has no socket any more.
        let closing = matches!(flow.role, Role::Connect | Role::Accepted) && flow.shut;
        let slot = flow.slot.filter(|_| !closing);
        let socket = slot.map(|slot| self.backend.socket(slot));
        let fd = socket.as_ref().map(AsFd::as_fd);
        let tcp = self.case.proto == Proto::Tcp;
        let now = || fd.filter(|_| tcp).map(|fd| kernels(flow, fd));
        let seen = seen.or_else(now).unwrap_or_default();
        FlowOutcome {
            role: flow.role,
            group: flow.group as u32,
            flow: flow.number,
            local: flow.addresses.map(|(local, _)| local),
            // The connections of crr come and go; only their target stays.
            peer: match flow.role {
                Role::Connect => self.target,
                _ => flow.addresses.map(|(_, peer)| peer),
            },
            window: flow.window_counts(),
            lifetime: flow.lifetime,
            transactions: flow.window_done,
            tcp: seen.tcp,
            queued_bytes: seen.queued_bytes,
            ended: flow.ended && !flow.reset,
            arrived: flow.arrived,
            phase_sent: flow.phase_sent,
            account: self.trackers[f].as_ref().map(|tracker| tracker.account()),
            corrupt_bytes: flow.corrupt_bytes,
            jitter_ns: self.jitters[f].value_ns(),
            socket_memory: fd
                .filter(|_| !tcp)
                .and_then(|fd| socket::memory_info(fd).ok()),
            low_water: flow.low_water_max,
            receive_cpu: fd.and_then(|fd| socket::incoming_cpu(fd).ok().flatten()),
            polled: fd
                .and_then(|fd| socket::incoming_napi_id(fd).ok())
                .map(|id| id.is_some()),
        }
    }
}

/// What the kernel knows of a flow's connection now.
fn kernels(flow: &Flow, fd: BorrowedFd<'_>) -> Kernels {
    let queued = match flow.role {
        Role::StreamSend => queue::send_queue(fd),
        Role::StreamReceive => queue::receive_queue(fd),
        _ => Ok(0),
    };
    Kernels {
        tcp: tcp_sample(fd),
        queued_bytes: queued.unwrap_or(0),
    }
}

fn tcp_sample(fd: BorrowedFd<'_>) -> Option<TcpSample> {
    let info = tcp_info::tcp_info(fd).ok()?;
    Some(TcpSample {
        congestion: socket::congestion(fd).ok(),
        rtt_us: info.rtt_us,
        min_rtt_us: info.min_rtt_us,
        cwnd: info.cwnd_segments,
        snd_mss: info.mss_send,
        rcv_mss: info.mss_receive,
        total_retrans: info.retransmits,
        delivery_rate_bytes: info.delivery_rate,
        segs_out: info.segments_sent,
        segs_in: info.segments_received,
        data_segs_out: info.data_segments_sent,
        data_segs_in: info.data_segments_received,
        busy_us: info.busy_us,
        rwnd_limited_us: info.receiver_limited_us,
        sndbuf_limited_us: info.send_buffer_limited_us,
    })
}
