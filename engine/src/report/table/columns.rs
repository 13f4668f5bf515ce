//! The columns of the two tables: what stands in each, and in which unit.

use super::cell::{Scale, Value, percentile};
use crate::plan::{Direction, Proto};
use crate::record::{CpuReport, Figures, Group, Latency, Sample, TcpReport};

/// One group of one sample.
#[derive(Clone, Copy)]
pub(super) struct Point<'a> {
    pub(super) proto: Proto,
    pub(super) sample: &'a Sample,
    pub(super) group: &'a Group,
}

impl Point<'_> {
    fn figures(&self) -> &Figures {
        &self.group.figures
    }
}

/// A column.
pub(super) struct Column {
    /// Header, lines separated by line ends; `{unit}` is the bit rate's unit.
    pub(super) header: &'static str,
    pub(super) scale: Scale,
    /// The figure of a point; none where it has none.
    pub(super) of: fn(&Point<'_>) -> Option<Value>,
}

const fn column(
    header: &'static str,
    scale: Scale,
    of: fn(&Point<'_>) -> Option<Value>,
) -> Column {
    Column { header, scale, of }
}

/// Columns of streams, in blocks that stay together where there is room.
pub(super) const STREAMS: &[&[Column]] = &[STREAM, SCHEDULE, CPU, FLOW_BITS];

/// Columns of request-response, in blocks.
pub(super) const TRANSACTIONS: &[&[Column]] = &[ANSWERS, SCHEDULE, CPU, FLOW_RATES];

const STREAM: &[Column] = &[
    column("{unit}\nreceived", Scale::Bits, |p| {
        Value::number(p.figures().throughput_bps)
    }),
    column("{unit}\nsent", Scale::Bits, |p| {
        Value::number(p.figures().sent_bps)
    }),
    column("messages/s\nsent", Scale::Plain, |p| {
        rate(p, p.figures().sent.messages)
    }),
    column("datagrams/s\nreceived", Scale::Plain, |p| {
        rate(p, p.figures().received.messages)
    }),
    column("lost\n%", Scale::Plain, lost),
    column("retrans-\nmits", Scale::Count, retransmits),
];

const ANSWERS: &[Column] = &[
    column("transac-\ntions/s", Scale::Plain, |p| {
        Value::number(p.figures().transactions?.per_second)
    }),
    column("p50\nus", Scale::Micros, |p| {
        of_latency(p, "p50", 5000, |l| l.p50)
    }),
    column("p90\nus", Scale::Micros, |p| {
        of_latency(p, "p90", 9000, |l| l.p90)
    }),
    column("p99\nus", Scale::Micros, |p| {
        of_latency(p, "p99", 9900, |l| l.p99)
    }),
    column("p99.9\nus", Scale::Micros, |p| {
        of_latency(p, "p999", 9990, |l| l.p999)
    }),
    column("max\nus", Scale::Micros, |p| {
        of_latency(p, "max", 10_000, |l| l.max)
    }),
    column("failed", Scale::Count, failed),
    column("connect\np50 us", Scale::Micros, |p| {
        of_connect(p, "p50", 5000, |l| l.p50)
    }),
    column("connect\np99 us", Scale::Micros, |p| {
        of_connect(p, "p99", 9900, |l| l.p99)
    }),
    column("retrans-\nmits", Scale::Count, retransmits),
];

const SCHEDULE: &[Column] = &[
    column("offered\nper s", Scale::Plain, |p| {
        Value::number(p.figures().offered_per_second?)
    }),
    column("achieved\nper s", Scale::Plain, |p| {
        Value::number(p.figures().achieved_per_second?)
    }),
];

const CPU: &[Column] = &[
    column("CPU s/s\nclient", Scale::Plain, |p| {
        cpu(p.sample.cpu.client.as_ref()?, |c| c.total_s)
    }),
    column("softirq\nclient", Scale::Plain, |p| {
        cpu(p.sample.cpu.client.as_ref()?, softirq)
    }),
    column("CPU s/s\nserver", Scale::Plain, |p| {
        cpu(p.sample.cpu.server.as_ref()?, |c| c.total_s)
    }),
    column("softirq\nserver", Scale::Plain, |p| {
        cpu(p.sample.cpu.server.as_ref()?, softirq)
    }),
];

const FLOW_BITS: &[Column] = &[
    column("Jain's\nindex", Scale::Plain, |p| {
        Value::number(p.figures().fairness?)
    }),
    column("slowest\n{unit}", Scale::Bits, slowest),
    column("fastest\n{unit}", Scale::Bits, fastest),
];

const FLOW_RATES: &[Column] = &[
    column("Jain's\nindex", Scale::Plain, |p| {
        Value::number(p.figures().fairness?)
    }),
    column("slowest\nper s", Scale::Plain, slowest),
    column("fastest\nper s", Scale::Plain, fastest),
];

fn rate(point: &Point<'_>, count: Option<u64>) -> Option<Value> {
    Value::number(count? as f64 / point.sample.duration_s)
}

fn lost(point: &Point<'_>) -> Option<Value> {
    Value::number(point.figures().udp.as_ref()?.lost_percent?)
}

/// Datagrams have no retransmission; a stream's sender retransmits, either side of an rr does.
fn retransmits(point: &Point<'_>) -> Option<Value> {
    let tcp = point.figures().tcp.as_ref()?;
    let (client, server) = (tcp.client.as_ref(), tcp.server.as_ref());
    let of = |side: Option<&TcpReport>| side.map(|tcp| tcp.retransmits);
    let count = match (&point.figures().transactions, point.group.direction) {
        (Some(_), _) => of(client)? + of(server).unwrap_or(0),
        (None, Direction::ClientToServer) => of(client)?,
        (None, Direction::ServerToClient) => of(server)?,
    };
    Value::number(count as f64)
}

fn failed(point: &Point<'_>) -> Option<Value> {
    let transactions = point.figures().transactions?;
    let shown = transactions.failed > 0 || point.proto == Proto::Udp;
    shown.then_some(Value::Number(transactions.failed as f64))
}

fn of_latency(
    point: &Point<'_>,
    name: &str,
    per_10k: u64,
    of: fn(&Latency) -> u64,
) -> Option<Value> {
    let latency = point.figures().latency_ns.as_ref()?;
    Some(percentile(latency, name, per_10k, of(latency)))
}

fn of_connect(
    point: &Point<'_>,
    name: &str,
    per_10k: u64,
    of: fn(&Latency) -> u64,
) -> Option<Value> {
    let latency = point.figures().connect_ns.as_ref()?;
    Some(percentile(latency, name, per_10k, of(latency)))
}

/// In interrupts' wake and in the threads that take over from them.
fn softirq(cpu: &CpuReport) -> Option<f64> {
    Some(cpu.softirq_s? + cpu.softirq_threads_s.unwrap_or(0.0))
}

/// CPU seconds per second of the window.
fn cpu(report: &CpuReport, of: fn(&CpuReport) -> Option<f64>) -> Option<Value> {
    if report.spinning {
        return Some(Value::Text("n/a (spinning)"));
    }
    Value::number(of(report)? / report.window_s)
}

fn slowest(point: &Point<'_>) -> Option<Value> {
    Value::number(point.figures().flow_spread?.0)
}

fn fastest(point: &Point<'_>) -> Option<Value> {
    Value::number(point.figures().flow_spread?.1)
}
