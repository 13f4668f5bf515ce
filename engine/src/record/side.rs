//! What one side measured of one sample, as it crosses the control connection.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How serious a finding is.
#[derive(
    Serialize, Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug,
)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// A number may mislead without this.
    Warning,
    /// A number is wrong or missing.
    Error,
}

/// Something that a reader of the numbers must know.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// Stable identifier, kebab-case.
    pub code: String,
    /// How serious it is.
    pub severity: Severity,
    /// One sentence for a person.
    pub text: String,
}

impl Finding {
    /// A finding of the given severity.
    pub fn new(severity: Severity, code: &str, text: impl Into<String>) -> Finding {
        Finding {
            code: code.to_string(),
            severity,
            text: text.into(),
        }
    }
}

/// Payload counted by one side. A message is one send operation of the stated size; for UDP it is
/// a datagram; for request-response a request or a response. TCP stream receivers count bytes
/// only, since a byte stream has no messages.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[serde(default)]
pub struct Counters {
    /// Payload bytes handed to the kernel.
    pub sent_bytes: u64,
    /// Messages handed to the kernel.
    pub sent_messages: u64,
    /// Payload bytes taken from the kernel.
    pub received_bytes: u64,
    /// Messages taken from the kernel (UDP and request-response).
    pub received_messages: u64,
}

impl Counters {
    /// What was added since an earlier state of the same counters.
    pub fn since(&self, earlier: &Counters) -> Counters {
        Counters {
            sent_bytes: self.sent_bytes.saturating_sub(earlier.sent_bytes),
            sent_messages: self.sent_messages.saturating_sub(earlier.sent_messages),
            received_bytes: self.received_bytes.saturating_sub(earlier.received_bytes),
            received_messages: self
                .received_messages
                .saturating_sub(earlier.received_messages),
        }
    }

    /// Adds another side's or worker's counts of the same kind; saturates.
    pub fn add(&mut self, other: &Counters) {
        self.sent_bytes = self.sent_bytes.saturating_add(other.sent_bytes);
        self.sent_messages = self.sent_messages.saturating_add(other.sent_messages);
        self.received_bytes = self.received_bytes.saturating_add(other.received_bytes);
        self.received_messages = self
            .received_messages
            .saturating_add(other.received_messages);
    }
}

/// Transactions as the asking side counts them: started = done + failed + in_flight. Those of the
/// window are those begun in it (open loop: meant to begin in it).
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, PartialEq, Debug, Default)]
#[serde(default)]
pub struct Transactions {
    /// Requests begun.
    pub started: u64,
    /// Of those begun, responses fully received.
    pub done: u64,
    /// Responses fully received inside the window, whenever their requests were begun. An open
    /// loop that cannot keep its schedule spends its window on what was due before.
    pub completed: u64,
    /// Timed out, reset or refused.
    pub failed: u64,
    /// Slots occupied when counting ended.
    pub in_flight: u64,
    /// Completed per second of the window.
    pub per_second: f64,
    /// Answers that came after their time-out.
    pub late: u64,
    /// Open loop: due requests unsent or unanswered at the stop, recorded with their age.
    pub censored: u64,
}

impl Transactions {
    /// Adds another worker's counts, saturating; `per_second` is left to the caller.
    pub fn add(&mut self, other: &Transactions) {
        self.started = self.started.saturating_add(other.started);
        self.done = self.done.saturating_add(other.done);
        self.completed = self.completed.saturating_add(other.completed);
        self.failed = self.failed.saturating_add(other.failed);
        self.in_flight = self.in_flight.saturating_add(other.in_flight);
        self.late = self.late.saturating_add(other.late);
        self.censored = self.censored.saturating_add(other.censored);
    }
}

/// One interval of a sample, by one side's own clock.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, PartialEq, Debug, Default)]
#[serde(default)]
pub struct Interval {
    /// Number from the mark, from 0.
    pub index: u64,
    /// Group of traffic.
    pub group: u32,
    /// Start after the mark, seconds.
    pub start_s: f64,
    /// Length, seconds: exactly the interval asked for, but for a last shorter one.
    pub length_s: f64,
    /// What was counted in it.
    #[serde(flatten)]
    pub counters: Counters,
    /// Transactions that started in it and are done (asking side). In the news of a running
    /// sample, those that are done by then.
    pub transactions: u64,
    /// Transactions completed in it, whenever they started (asking side).
    pub completed: u64,
}

/// UDP figures of a receiver.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Debug, Default)]
#[serde(default)]
pub struct UdpReport {
    /// `full` where datagrams carry the 24-byte header, `counts` where they are too small.
    pub mode: String,
    /// Sequence numbers sent inside the window that never came.
    pub lost: Option<u64>,
    /// `lost` in percent of the datagrams sent inside the window.
    pub lost_percent: Option<f64>,
    /// Why there is no loss figure.
    pub loss_missing: Option<String>,
    /// Arrived after a higher sequence number (RFC 4737).
    pub reordered: Option<u64>,
    /// Largest reordering extent, datagrams (RFC 4737).
    pub reorder_extent_max: Option<u64>,
    /// Arrived again.
    pub duplicated: Option<u64>,
    /// Arrived after the drain had ended or beyond the window of sequence numbers kept.
    pub late: Option<u64>,
    /// Interarrival jitter (RFC 3550), nanoseconds.
    pub jitter_ns: Option<f64>,
    /// Datagrams of the lifetime that arrived, copies and late ones included.
    pub arrived: Option<u64>,
    /// Why there is no jitter.
    pub jitter_missing: Option<String>,
    /// Packets that the receivers' sockets dropped over the lifetime (SK_MEMINFO_DROPS); with GRO
    /// one carries several datagrams.
    pub socket_drops: Option<u64>,
    /// Receive buffer in force, bytes.
    pub receive_buffer_bytes: Option<u64>,
    /// UDP segments per send operation and datagrams merged per receive, where asked for.
    pub segments_per_send: Option<u32>,
    /// Receive operations (with GRO one carries several datagrams).
    pub receive_operations: Option<u64>,
}

/// One UDP flow's sequence account, per phase 1 (the window) and for the lifetime, so that the
/// two sides can be joined without a remainder.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[serde(default)]
pub struct UdpFlow {
    /// Flow number within its group.
    pub flow: u32,
    /// Sender: datagrams of the window that the kernel took.
    pub window_sent: u64,
    /// Sender: datagrams of the lifetime that the kernel took.
    pub lifetime_sent: u64,
    /// Receiver: one more than the highest sequence number seen, per phase.
    pub highest: [u64; 3],
    /// Sender: datagrams sent per phase (warm-up, window, after).
    pub sent: [u64; 3],
    /// Receiver: distinct datagrams per phase.
    pub received: [u64; 3],
    /// Receiver: sequence numbers below the highest that never came, per phase.
    pub gaps: [u64; 3],
    /// Receiver: duplicates per phase.
    pub duplicated: [u64; 3],
    /// Receiver: reordered per phase.
    pub reordered: [u64; 3],
    /// Receiver: late (older than the window of sequence numbers kept) per phase.
    pub late: [u64; 3],
    /// Receiver: largest reordering extent in the window.
    pub extent_max: u64,
}

/// TCP figures of one side's sockets over the lifetime, from TCP_INFO.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Debug, Default)]
#[serde(default)]
pub struct TcpReport {
    /// Congestion control in force.
    pub congestion: String,
    /// Segments retransmitted.
    pub retransmits: u64,
    /// Smoothed round-trip time, mean over the flows, microseconds.
    pub rtt_us: f64,
    /// Lowest round-trip time of any flow, microseconds.
    pub min_rtt_us: Option<u64>,
    /// Congestion window, mean over the flows, segments.
    pub cwnd_segments: f64,
    /// Maximum segment size for sending, bytes.
    pub mss_send: u32,
    /// Maximum segment size of what was received, bytes.
    pub mss_receive: u32,
    /// Sum of the flows' delivery rates, bits per second.
    pub delivery_rate_bps: u64,
    /// Segments sent.
    pub segments_sent: u64,
    /// Segments received.
    pub segments_received: u64,
    /// Data segments sent.
    pub data_segments_sent: u64,
    /// Data segments received.
    pub data_segments_received: u64,
    /// Time with data outstanding, summed over the flows, microseconds.
    pub busy_us: u64,
    /// Time limited by the receiver's window, summed over the flows, microseconds.
    pub receiver_limited_us: u64,
    /// Time limited by the send buffer, summed over the flows, microseconds.
    pub send_buffer_limited_us: u64,
    /// Bytes in flight at the close: SIOCOUTQ of senders, SIOCINQ of receivers.
    pub queued_at_close: u64,
    /// SYN retransmissions (crr), from the host's counter over the sample.
    pub syn_retransmits: Option<u64>,
}

/// What one side knows of one flow.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Debug, Default)]
#[serde(default)]
pub struct FlowReport {
    /// Group of traffic.
    pub group: u32,
    /// Flow number within its group.
    pub flow: u32,
    /// Worker on this side.
    pub worker: u32,
    /// This side's address as it sees it.
    pub local: String,
    /// The other side's address as this side sees it.
    pub peer: String,
    /// Counts of the window.
    pub window: Counters,
    /// Counts of the lifetime.
    pub lifetime: Counters,
    /// Transactions done in the window (asking side).
    pub transactions: u64,
    /// Segments retransmitted.
    pub retransmits: Option<u64>,
    /// Smoothed round-trip time, microseconds.
    pub rtt_us: Option<u64>,
    /// Maximum segment size for sending, bytes.
    pub mss: Option<u32>,
    /// CPU that last processed a packet of this flow (SO_INCOMING_CPU).
    pub receive_cpu: Option<u32>,
}

/// What one side measured of one group.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Debug, Default)]
#[serde(default)]
pub struct GroupReport {
    /// Counts between this side's marks.
    pub window: Counters,
    /// Counts from the first hello to the end of the drain, warm-up included.
    pub lifetime: Counters,
    /// Transactions of the window (asking side).
    pub transactions: Option<Transactions>,
    /// Transactions of the lifetime (asking side).
    pub lifetime_transactions: Option<Transactions>,
    /// Latency histogram of the window, base64 of HDR V2, nanoseconds.
    pub latency: Option<String>,
    /// Connect-time histogram of the window (crr), base64 of HDR V2, nanoseconds.
    pub connect: Option<String>,
    /// Lag of the sends behind their schedule (open loop), base64 of HDR V2, nanoseconds.
    pub lag: Option<String>,
    /// Values that no histogram could hold.
    pub histogram_out_of_range: u64,
    /// Smallest age among the censored transactions, nanoseconds.
    pub censored_min_ns: Option<u64>,
    /// UDP figures (receiving side).
    pub udp: Option<UdpReport>,
    /// UDP sequence accounts, one per flow.
    pub udp_flows: Vec<UdpFlow>,
    /// TCP figures.
    pub tcp: Option<TcpReport>,
    /// Bytes still queued in this side's sockets: a sender's when its time to end was over, a
    /// receiver's at the close.
    pub queued_bytes: u64,
    /// Whether the end of every stream was seen before the drain's deadline: by a receiver the
    /// sender's, by a sender the receiver's, which has read everything.
    pub drained: bool,
    /// Bytes that `verify` found wrong.
    pub corrupt_bytes: Option<u64>,
    /// Offered rate (open loop), messages or transactions per second.
    pub offered_per_second: Option<f64>,
    /// Messages or transactions that the schedule meant for the window (open loop).
    pub due: Option<u64>,
    /// Length of the group's own window, nanoseconds, where a count ends the sample: until the
    /// last of its traffic. Null where the side's window is its window.
    pub window_ns: Option<u64>,
}

/// CPU used by the test on one side, per CPU and by the workers themselves. Times are seconds of
/// CPU over the window.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Debug, Default)]
#[serde(default)]
pub struct CpuReport {
    /// `precise` (context-tracking accounting) or `tick` (sampled).
    pub method: String,
    /// Why there is no figure, where there is none.
    pub missing: Option<String>,
    /// Window that was observed, seconds.
    pub window_s: f64,
    /// Machine's busy time over the window less the idle baseline.
    pub total_s: Option<f64>,
    /// User time.
    pub user_s: Option<f64>,
    /// System time.
    pub system_s: Option<f64>,
    /// Softirq time.
    pub softirq_s: Option<f64>,
    /// Hard interrupt time.
    pub irq_s: Option<f64>,
    /// Time in ksoftirqd and NAPI threads.
    pub softirq_threads_s: Option<f64>,
    /// Time of processes that are not ours (foreign), estimated.
    pub foreign_s: Option<f64>,
    /// Hypervisor steal.
    pub steal_s: Option<f64>,
    /// Per CPU.
    pub cpus: Vec<CpuTime>,
    /// Workers' own user time (RUSAGE_THREAD), none where spinning makes it meaningless.
    pub worker_user_s: Option<f64>,
    /// Workers' own system time.
    pub worker_system_s: Option<f64>,
    /// Set where a worker spins: busy time says nothing about need.
    pub spinning: bool,
}

/// One CPU's time over the window less the idle baseline, seconds.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, PartialEq, Debug, Default)]
#[serde(default)]
pub struct CpuTime {
    /// CPU number.
    pub cpu: u32,
    /// User time.
    pub user_s: f64,
    /// System time.
    pub system_s: f64,
    /// Softirq time.
    pub softirq_s: f64,
    /// Hard interrupt time.
    pub irq_s: f64,
    /// Hypervisor steal.
    pub steal_s: f64,
}

/// Sends that the kernel was asked not to copy (`--zerocopy`), over the lifetime.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, PartialEq, Debug, Default)]
#[serde(default)]
pub struct ZeroCopyReport {
    /// Sends that went.
    pub sends: u64,
    /// Sends of which the kernel said that it needs their bytes no more; none where it does not
    /// say (sendfile).
    pub completed: Option<u64>,
    /// Completed sends that the kernel copied after all; none where it does not say.
    pub copied: Option<u64>,
}

impl ZeroCopyReport {
    /// Whether not one send was spared its copy.
    pub fn in_vain(&self) -> bool {
        self.copied.is_some_and(|copied| copied > 0) && self.copied == self.completed
    }
}

/// Where a worker's time from the start of the traffic to the end of the drain went, seconds.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, PartialEq, Debug, Default)]
#[serde(default)]
pub struct WorkerTime {
    /// Worker number on this side.
    pub worker: u32,
    /// In polls that found nothing (`--wait spin` and `adaptive`).
    pub spun_s: f64,
    /// On its CPU for everything else: sending, receiving, counting, going to sleep.
    pub worked_s: f64,
    /// Off its CPU: asleep, or made to wait for it by others.
    pub slept_s: f64,
}

/// Busy polling of the devices that bring a side's packets.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, PartialEq, Debug, Default)]
#[serde(default)]
pub struct BusyPollReport {
    /// Microseconds that were asked for; the sockets have them (SO_BUSY_POLL).
    pub us: u32,
    /// Whether the rings took it too (IORING_REGISTER_NAPI); false of plain calls.
    pub ring: bool,
    /// Flows whose last packet came from a device that can be polled (SO_INCOMING_NAPI_ID).
    pub polled_flows: u32,
    /// Flows of which that is known.
    pub known_flows: u32,
}

/// The data-plane engine of one side and what it chose by itself.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Debug, Default)]
#[serde(default)]
pub struct EngineReport {
    /// `io_uring` or `sockets`.
    pub name: String,
    /// Ring flags and features in force.
    pub features: Vec<String>,
    /// Why this engine.
    pub reason: String,
    /// Sends in flight per flow.
    pub depth: u32,
    /// Receive low-water mark in force, bytes; none where it was left alone.
    pub receive_low_water: Option<u64>,
    /// Minimum wait for a batch of completions, microseconds.
    pub min_wait_us: Option<u32>,
    /// Receive buffers: how many, of what size.
    pub receive_buffers: Option<(u32, u32)>,
    /// Receive buffers ran out this often.
    pub buffers_exhausted: u64,
    /// Completions that overflowed the completion queue.
    pub cq_overflows: u64,
    /// Kernel entries and completions, for the batching evidence.
    pub enters: u64,
    /// Completions seen.
    pub completions: u64,
    /// Sends without copies, where they were asked for.
    pub zerocopy: Option<ZeroCopyReport>,
    /// CPU of each worker, as checked after the start.
    pub worker_cpus: Vec<u32>,
    /// Busy polling of devices (`--busy-poll`), where it was asked for.
    pub busy_poll: Option<BusyPollReport>,
    /// Where the time of each worker went.
    pub workers: Vec<WorkerTime>,
}

/// Everything one side has to say about one sample.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Debug, Default)]
#[serde(default)]
pub struct SideReport {
    /// Length of this side's window by its own clock, nanoseconds.
    pub window_ns: u64,
    /// Whether the sample ran to its planned end.
    pub complete: bool,
    /// Per group, in the case's order.
    pub groups: Vec<GroupReport>,
    /// Intervals of all groups, in order of index then group.
    pub intervals: Vec<Interval>,
    /// Per flow, all of them, so that both sides can be joined and the spread is exact; the
    /// document keeps all up to 1000, beyond that the 20 slowest and the 20 fastest.
    pub flows: Vec<FlowReport>,
    /// CPU used.
    pub cpu: Option<CpuReport>,
    /// The engine.
    pub engine: EngineReport,
    /// What the kernel said.
    pub kernel: Option<super::kernel::KernelReport>,
    /// What a reader must know.
    pub findings: Vec<Finding>,
}
