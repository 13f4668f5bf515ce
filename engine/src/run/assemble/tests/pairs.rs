//! Canned reports of two sides that add up, and a walk over their counters.

use std::time::UNIX_EPOCH;

use super::super::latency::tests::text;
use super::super::{SampleInput, sample};
use crate::plan::{Case, Proto, Test};
use crate::record::canned::case;
use crate::record::{
    Counters, FlowReport, GroupReport, Interval, Sample, SideReport, Transactions, UdpFlow,
    UdpReport,
};

pub(super) const SECONDS: u64 = 10;

/// One sample's two reports and its case.
#[derive(Clone)]
pub(super) struct Pair {
    pub(super) case: Case,
    pub(super) client: SideReport,
    pub(super) server: SideReport,
}

impl Pair {
    pub(super) fn input(&self) -> SampleInput<'_> {
        SampleInput {
            case: &self.case,
            number: 1,
            started: UNIX_EPOCH,
            client: Some(self.client.clone()),
            server: Some(self.server.clone()),
            client_progress: &[],
            server_progress: &[],
            findings: Vec::new(),
            error: None,
        }
    }

    pub(super) fn sample(&self) -> Sample {
        sample(self.input())
    }

    pub(super) fn codes(&self) -> Vec<String> {
        self.sample()
            .findings
            .into_iter()
            .map(|finding| finding.code)
            .collect()
    }
}

pub(super) fn times(counters: Counters, by: u64) -> Counters {
    Counters {
        sent_bytes: counters.sent_bytes * by,
        sent_messages: counters.sent_messages * by,
        received_bytes: counters.received_bytes * by,
        received_messages: counters.received_messages * by,
    }
}

/// A side whose every flow counts `per_second` each second, and one second more of warm-up.
pub(super) fn side(per_second: Counters, transactions: u64, flows: u32) -> SideReport {
    let all = times(per_second, u64::from(flows));
    let interval = |index| Interval {
        index,
        start_s: index as f64,
        length_s: 1.0,
        counters: all,
        transactions: transactions * u64::from(flows),
        completed: transactions * u64::from(flows),
        ..Interval::default()
    };
    let flow = |flow| FlowReport {
        flow,
        window: times(per_second, SECONDS),
        lifetime: times(per_second, SECONDS + 1),
        transactions: transactions * SECONDS,
        ..FlowReport::default()
    };
    SideReport {
        window_ns: SECONDS * 1_000_000_000,
        complete: true,
        groups: vec![GroupReport {
            window: times(all, SECONDS),
            lifetime: times(all, SECONDS + 1),
            drained: true,
            ..GroupReport::default()
        }],
        intervals: (0..SECONDS).map(interval).collect(),
        flows: (0..flows).map(flow).collect(),
        ..SideReport::default()
    }
}

pub(super) fn sends(bytes: u64, messages: u64) -> Counters {
    Counters {
        sent_bytes: bytes,
        sent_messages: messages,
        ..Counters::default()
    }
}

pub(super) fn receives(bytes: u64, messages: u64) -> Counters {
    Counters {
        received_bytes: bytes,
        received_messages: messages,
        ..Counters::default()
    }
}

pub(super) fn tcp_stream() -> Pair {
    Pair {
        case: case("tcp stream", Proto::Tcp, Test::Stream, (1000, 0), 2),
        client: side(sends(5000, 5), 0, 2),
        server: side(receives(5000, 0), 0, 2),
    }
}

/// Two flows of 100 datagrams a second; of each window 20 are missing inside and 30 at the end.
pub(super) fn udp_stream() -> Pair {
    let mut pair = Pair {
        case: case("udp stream", Proto::Udp, Test::Stream, (1000, 0), 2),
        client: side(sends(100_000, 100), 0, 2),
        server: side(receives(95_000, 95), 0, 2),
    };
    let sender = |flow| UdpFlow {
        flow,
        window_sent: 1000,
        lifetime_sent: 1100,
        sent: [100, 1000, 0],
        ..UdpFlow::default()
    };
    let receiver = |flow| UdpFlow {
        flow,
        highest: [100, 970, 0],
        received: [95, 950, 0],
        gaps: [5, 20, 0],
        duplicated: [0, 3, 0],
        late: [0, 1, 0],
        reordered: [0, 7, 0],
        extent_max: 4,
        ..UdpFlow::default()
    };
    pair.client.groups[0].udp_flows = (0..2).map(sender).collect();
    pair.server.groups[0].udp_flows = (0..2).map(receiver).collect();
    pair.server.groups[0].udp = Some(UdpReport {
        socket_drops: Some(12),
        arrived: Some(2 * (95 + 950 + 3 + 1)),
        ..UdpReport::default()
    });
    pair
}

pub(super) fn counted(seconds: u64) -> Transactions {
    let done = 200 * seconds;
    Transactions {
        started: done + 3,
        done,
        completed: done,
        failed: 2,
        in_flight: 1,
        ..Transactions::default()
    }
}

/// Two flows of 100 transactions a second.
pub(super) fn rr(proto: Proto) -> Pair {
    let asks = Counters {
        sent_bytes: 6400,
        sent_messages: 100,
        received_bytes: 100_000,
        received_messages: 100,
    };
    let answers = Counters {
        sent_bytes: 100_000,
        sent_messages: 100,
        received_bytes: 6400,
        received_messages: 100,
    };
    let mut pair = Pair {
        case: case("rr", proto, Test::Rr, (64, 1000), 2),
        client: side(asks, 100, 2),
        server: side(answers, 0, 2),
    };
    let group = &mut pair.client.groups[0];
    group.transactions = Some(counted(SECONDS));
    group.lifetime_transactions = Some(counted(SECONDS + 1));
    group.latency = Some(text([(50_000, 1990), (900_000, 10)]));
    pair
}

/// A TCP request-response in which everything was answered.
pub(super) fn answered() -> Pair {
    let mut pair = rr(Proto::Tcp);
    for seconds in [SECONDS, SECONDS + 1] {
        let all = Transactions {
            failed: 0,
            in_flight: 0,
            started: 200 * seconds,
            ..counted(seconds)
        };
        let group = &mut pair.client.groups[0];
        let slot = match seconds {
            SECONDS => &mut group.transactions,
            _ => &mut group.lifetime_transactions,
        };
        *slot = Some(all);
    }
    pair
}

pub(super) fn of_counters<'a>(
    name: &str,
    counters: &'a mut Counters,
    into: &mut Vec<(String, &'a mut u64)>,
) {
    into.push((format!("{name}.sent_bytes"), &mut counters.sent_bytes));
    into.push((format!("{name}.sent_messages"), &mut counters.sent_messages));
    into.push((
        format!("{name}.received_bytes"),
        &mut counters.received_bytes,
    ));
    into.push((
        format!("{name}.received_messages"),
        &mut counters.received_messages,
    ));
}

/// Every counter of a report that is part of an account, with its name.
pub(super) fn every_counter(report: &mut SideReport, sends: bool) -> Vec<(String, &mut u64)> {
    let mut all = Vec::new();
    for group in &mut report.groups {
        of_counters("window", &mut group.window, &mut all);
        of_counters("lifetime", &mut group.lifetime, &mut all);
        all.push(("queued".to_string(), &mut group.queued_bytes));
        for counted in [&mut group.transactions, &mut group.lifetime_transactions] {
            let Some(counted) = counted else { continue };
            all.push(("started".to_string(), &mut counted.started));
            all.push(("done".to_string(), &mut counted.done));
            all.push(("completed".to_string(), &mut counted.completed));
            all.push(("failed".to_string(), &mut counted.failed));
            all.push(("in_flight".to_string(), &mut counted.in_flight));
        }
        for flow in &mut group.udp_flows {
            if sends {
                all.push(("window_sent".to_string(), &mut flow.window_sent));
                all.push(("lifetime_sent".to_string(), &mut flow.lifetime_sent));
                all.extend(
                    flow.sent
                        .iter_mut()
                        .map(|count| ("sent".to_string(), count)),
                );
                continue;
            }
            let arrays = [
                ("highest", &mut flow.highest),
                ("received", &mut flow.received),
                ("gaps", &mut flow.gaps),
                ("duplicated", &mut flow.duplicated),
                ("late", &mut flow.late),
            ];
            for (name, counts) in arrays {
                all.extend(
                    counts
                        .iter_mut()
                        .map(|count| (format!("udp {name}"), count)),
                );
            }
        }
    }
    for flow in &mut report.flows {
        of_counters("flow window", &mut flow.window, &mut all);
        of_counters("flow lifetime", &mut flow.lifetime, &mut all);
    }
    for interval in &mut report.intervals {
        of_counters("interval", &mut interval.counters, &mut all);
    }
    all
}
