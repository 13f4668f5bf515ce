//! The figures of a group.

use super::reconcile::reconcile;
use super::{Joined, flows, latency, udp};
use crate::plan::{Load, Proto, Traffic};
use crate::record::{Amount, Figures, Latency, Sides, Transactions};

/// A group's figures, and what does not add up in them.
pub(super) fn figures(joined: &Joined<'_>) -> (Figures, Vec<String>) {
    let (reconciliation, faults) = reconcile(joined);
    let (fairness, flow_distribution) = flows::fairness(joined);
    let mut figures = match joined.plan.traffic {
        Traffic::Stream => stream(joined),
        Traffic::Rr | Traffic::Crr => rr(joined),
    };
    figures.reconciliation = reconciliation;
    figures.fairness = fairness;
    figures.flow_spread = flow_distribution.map(|spread| (spread.min, spread.max));
    figures.flow_distribution = flow_distribution;
    if joined.case.proto == Proto::Tcp {
        figures.tcp = Some(tcp(joined));
    }
    open_loop(joined, &mut figures);
    (figures, faults)
}

fn stream(joined: &Joined<'_>) -> Figures {
    let (sender, receiver) = (&joined.from_group.window, &joined.to_group.window);
    let is_udp = joined.case.proto == Proto::Udp;
    Figures {
        sent: Amount {
            bytes: sender.sent_bytes,
            messages: Some(sender.sent_messages),
        },
        received: Amount {
            bytes: receiver.received_bytes,
            messages: is_udp.then_some(receiver.received_messages),
        },
        throughput_bps: joined.receiver_rate(receiver.received_bytes) * 8.0,
        sent_bps: joined.sender_rate(sender.sent_bytes) * 8.0,
        udp: is_udp.then(|| udp::report(joined)),
        ..Figures::default()
    }
}

/// Both directions together: each receiver's count over its own window.
fn rr(joined: &Joined<'_>) -> Figures {
    let (asks, answers) = (&joined.from_group.window, &joined.to_group.window);
    let rate = |at_asking: u64, at_answering: u64| {
        (joined.sender_rate(at_asking) + joined.receiver_rate(at_answering)) * 8.0
    };
    let group = &joined.from_group;
    let transactions = group.transactions.map(|counted| Transactions {
        per_second: joined.sender_rate(counted.completed),
        ..counted
    });
    let failed = transactions.map_or(0, |counted| counted.failed);
    Figures {
        sent: Amount {
            bytes: asks.sent_bytes.saturating_add(answers.sent_bytes),
            messages: Some(asks.sent_messages.saturating_add(answers.sent_messages)),
        },
        received: Amount {
            bytes: asks.received_bytes.saturating_add(answers.received_bytes),
            messages: Some(
                asks.received_messages
                    .saturating_add(answers.received_messages),
            ),
        },
        throughput_bps: rate(asks.received_bytes, answers.received_bytes),
        sent_bps: rate(asks.sent_bytes, answers.sent_bytes),
        transactions,
        latency_ns: percentiles(group.latency.as_deref(), failed, group.censored_min_ns),
        connect_ns: percentiles(group.connect.as_deref(), 0, None),
        udp: (joined.case.proto == Proto::Udp).then(|| udp::rr_report(joined)),
        ..Figures::default()
    }
}

fn percentiles(text: Option<&str>, unanswered: u64, floor: Option<u64>) -> Option<Latency> {
    latency::latency(text, unanswered, floor)
}

fn tcp(joined: &Joined<'_>) -> Sides<crate::record::TcpReport> {
    let (from, to) = (joined.from_group.tcp.clone(), joined.to_group.tcp.clone());
    match joined.from.name {
        "client" => Sides {
            client: from,
            server: to,
        },
        _ => Sides {
            client: to,
            server: from,
        },
    }
}

/// Offered beside achieved: what the schedule asked for and what the sender or asker did.
fn open_loop(joined: &Joined<'_>, figures: &mut Figures) {
    let size = joined.case.request_bytes;
    let planned = match joined.case.load {
        Load::Closed => return,
        Load::Rate { per_second } => Some(per_second),
        Load::Bitrate { bits_per_second } => {
            (size > 0).then(|| bits_per_second as f64 / 8.0 / size as f64)
        }
    };
    let group = &joined.from_group;
    figures.offered_per_second = group.offered_per_second.or(planned);
    figures.achieved_per_second = match joined.plan.traffic {
        Traffic::Stream => Some(joined.sender_rate(group.window.sent_messages)),
        Traffic::Rr | Traffic::Crr => figures.transactions.map(|counted| counted.per_second),
    };
    figures.lag_ns = percentiles(group.lag.as_deref(), 0, None);
}
