//! Counts held against each other. No term is computed as a remainder.
//!
//! Over the lifetime: TCP sent = received + in flight (exact once drained), UDP per flow and
//! phase sent = received + gaps + tail, transactions started = done + failed + in flight. Each
//! side's intervals and flows must add up to its totals, and no window may exceed its lifetime.

mod datagrams;
mod ledger;

use super::side::Known;
use super::{Joined, flows, latency, total};
use crate::plan::{Limit, Proto, Traffic};
use crate::record::{Counters, GroupReport, Reconciliation, Transactions};
use datagrams::{datagram_bytes, udp_stream};
use ledger::Ledger;

/// A named counter of [`Counters`].
type Named = (&'static str, fn(&Counters) -> u64);

/// A named term of [`Transactions`].
type Part = (&'static str, fn(&Transactions) -> u64);

const COUNTERS: [Named; 4] = [
    ("sent bytes", |counters| counters.sent_bytes),
    ("sent messages", |counters| counters.sent_messages),
    ("received bytes", |counters| counters.received_bytes),
    ("received messages", |counters| counters.received_messages),
];

/// The account of a group's lifetime, and every fault found.
pub(super) fn reconcile(joined: &Joined<'_>) -> (Reconciliation, Vec<String>) {
    let mut ledger = Ledger::default();
    own_sums(&mut ledger, joined, joined.from, &joined.from_group);
    own_sums(&mut ledger, joined, joined.to, &joined.to_group);
    limit(&mut ledger, joined);
    let mut terms = match (joined.plan.traffic, joined.case.proto) {
        (Traffic::Stream, Proto::Tcp) => tcp_stream(&mut ledger, joined),
        (Traffic::Stream, Proto::Udp) => udp_stream(&mut ledger, joined),
        (Traffic::Rr | Traffic::Crr, _) => transactions(&mut ledger, joined),
    };
    let faults = ledger.faults;
    if !faults.is_empty() {
        terms.reason = Some(faults.join("; "));
    }
    terms.reconciled &= faults.is_empty();
    (terms, faults)
}

/// One side against itself: intervals and flows against totals, window against lifetime.
fn own_sums(ledger: &mut Ledger, joined: &Joined<'_>, side: &Known, group: &GroupReport) {
    if !side.whole() {
        return;
    }
    let mut of_intervals = Counters::default();
    let (mut done, mut completed) = (0_u64, 0_u64);
    for interval in side
        .report
        .intervals
        .iter()
        .filter(|i| i.group == joined.index)
    {
        of_intervals.add(&interval.counters);
        done = done.saturating_add(interval.transactions);
        completed = completed.saturating_add(interval.completed);
    }
    let (mut windows, mut lifetimes, mut of_flows, mut flow_count) =
        (Counters::default(), Counters::default(), 0_u64, 0);
    for flow in flows::of_group(side, joined.index) {
        windows.add(&flow.window);
        lifetimes.add(&flow.lifetime);
        of_flows = of_flows.saturating_add(flow.transactions);
        flow_count += 1;
    }
    let every_flow = flow_count > 0 && flow_count == joined.case.flows;
    let name = side.name;
    for (what, of) in COUNTERS {
        let (window, lifetime) = (of(&group.window), of(&group.lifetime));
        ledger.equal(
            &format!("{name}: {what} of the intervals and of the window"),
            of(&of_intervals),
            window,
        );
        ledger.at_most(
            &format!("{name}: {what} of the window and of the lifetime"),
            window,
            lifetime,
        );
        if every_flow {
            ledger.equal(
                &format!("{name}: {what} of the flows and of the window"),
                of(&windows),
                window,
            );
            ledger.equal(
                &format!("{name}: {what} of the flows and of the lifetime"),
                of(&lifetimes),
                lifetime,
            );
        }
    }
    let Some(counted) = &group.transactions else {
        return;
    };
    let sums = [
        ("done of the intervals", done, counted.done),
        ("completed of the intervals", completed, counted.completed),
        ("done of the flows", of_flows, counted.done),
    ];
    for (what, sum, whole) in sums.into_iter().take(if every_flow { 3 } else { 2 }) {
        let what = format!("{name}: transactions {what} and of the window");
        ledger.equal(&what, sum, whole);
    }
}

/// `--bytes` and `--transactions` are exact where the sample ran to its end.
fn limit(ledger: &mut Ledger, joined: &Joined<'_>) {
    if !(joined.from.complete() && joined.to.complete()) {
        return;
    }
    let group = &joined.from_group;
    let is_stream = joined.plan.traffic == Traffic::Stream;
    match joined.case.limit {
        Limit::Duration { .. } => {}
        Limit::Bytes { bytes } if is_stream => {
            ledger.equal(
                "bytes sent and bytes asked for",
                group.lifetime.sent_bytes,
                bytes,
            );
        }
        Limit::Bytes { .. } => {}
        Limit::Transactions { count } if is_stream => ledger.equal(
            "messages sent and messages asked for",
            group.lifetime.sent_messages,
            count,
        ),
        Limit::Transactions { count } => {
            let started = group
                .lifetime_transactions
                .map_or(0, |counted| counted.started);
            ledger.equal("transactions started and asked for", started, count);
        }
    }
}

/// Terms that need both sides' reports, where one is missing.
fn missing(joined: &Joined<'_>) -> Option<String> {
    let sides = [joined.from, joined.to];
    let side = sides.into_iter().find(|side| !side.whole())?;
    Some(format!("the {}'s final counts did not arrive", side.name))
}

fn tcp_stream(ledger: &mut Ledger, joined: &Joined<'_>) -> Reconciliation {
    let (sender, receiver) = (&joined.from_group, &joined.to_group);
    let (sent, received) = (sender.lifetime.sent_bytes, receiver.lifetime.received_bytes);
    let terms = Reconciliation {
        reconciled: true,
        unit: "bytes".to_string(),
        sent,
        received,
        lost: Some(0),
        in_flight: if receiver.drained {
            // Nothing is behind the end of a stream.
            0
        } else {
            sender.queued_bytes.saturating_add(receiver.queued_bytes)
        },
        reason: None,
    };
    if let Some(reason) = missing(joined) {
        return Reconciliation {
            reconciled: false,
            lost: None,
            reason: Some(reason),
            ..terms
        };
    }
    byte_stream(ledger, "bytes", (sent, sender), (received, receiver));
    if receiver.drained {
        each_flow(ledger, joined);
    }
    terms
}

/// A byte stream loses nothing: what was sent is received, or queued at one of the two ends. The
/// sender's queue still holds what the receiver's already has until it is acknowledged, so that
/// both together are a bound; once the stream's end was seen, both are empty. A sender may have
/// left before the receiver had read everything, and then says what was in flight until then.
fn byte_stream(
    ledger: &mut Ledger,
    what: &str,
    (sent, sender): (u64, &GroupReport),
    (received, receiver): (u64, &GroupReport),
) {
    let (unacknowledged, unread) = (sender.queued_bytes, receiver.queued_bytes);
    if receiver.drained {
        ledger.equal(&format!("{what} sent and received"), sent, received);
        let behind = if sender.drained { unacknowledged } else { 0 };
        ledger.equal(
            &format!("{what} queued after the end"),
            behind.saturating_add(unread),
            0,
        );
        return;
    }
    let arrived = received.saturating_add(unread);
    ledger.at_most(
        &format!("{what} received and queued, against those sent"),
        arrived,
        sent,
    );
    ledger.at_most(
        &format!("{what} sent, against those received and in flight"),
        sent,
        arrived.saturating_add(unacknowledged),
    );
}

/// Flow by flow, so that two errors cannot cancel.
fn each_flow(ledger: &mut Ledger, joined: &Joined<'_>) {
    let receivers: std::collections::HashMap<u32, u64> = flows::of_group(joined.to, joined.index)
        .map(|flow| (flow.flow, flow.lifetime.received_bytes))
        .collect();
    for sender in flows::of_group(joined.from, joined.index) {
        if let Some(received) = receivers.get(&sender.flow) {
            let what = format!("flow {}: bytes sent and received", sender.flow);
            ledger.equal(&what, sender.lifetime.sent_bytes, *received);
        }
    }
}

fn transactions(ledger: &mut Ledger, joined: &Joined<'_>) -> Reconciliation {
    let group = &joined.from_group;
    let lifetime = group.lifetime_transactions.unwrap_or_default();
    let terms = Reconciliation {
        reconciled: true,
        unit: "transactions".to_string(),
        sent: lifetime.started,
        received: lifetime.done,
        lost: Some(lifetime.failed),
        in_flight: lifetime.in_flight,
        reason: None,
    };
    datagram_bytes(ledger, joined);
    if !joined.from.whole() {
        let reason = format!("the {}'s final counts did not arrive", joined.from.name);
        return Reconciliation {
            reconciled: false,
            reason: Some(reason),
            ..terms
        };
    }
    let window = group.transactions.unwrap_or_default();
    for (span, counted) in [("window", &window), ("lifetime", &lifetime)] {
        let what = format!("transactions of the {span} started, against ended and in flight");
        ledger.equal(
            &what,
            counted.started,
            total([counted.done, counted.failed, counted.in_flight]),
        );
    }
    let parts: [Part; 3] = [
        ("started", |t| t.started),
        ("done", |t| t.done),
        ("failed", |t| t.failed),
    ];
    for (what, of) in parts {
        let what = format!("transactions {what} in the window, against the lifetime");
        ledger.at_most(&what, of(&window), of(&lifetime));
    }
    ledger.equal(
        "transactions completed in the lifetime, against those done",
        lifetime.completed,
        lifetime.done,
    );
    ledger.at_most(
        "transactions completed in the window, against the lifetime",
        window.completed,
        lifetime.completed,
    );
    recorded(ledger, group, &window);
    if joined.case.proto == Proto::Tcp && joined.to.whole() {
        tcp_transactions(ledger, joined, &lifetime);
    }
    terms
}

/// Every transaction done, and every censored one's age, is in the histogram.
fn recorded(ledger: &mut Ledger, group: &GroupReport, window: &Transactions) {
    let count = group.latency.as_deref().and_then(latency::count);
    if let (Some(count), 0) = (count, group.histogram_out_of_range) {
        let what = "latencies recorded, against transactions done and censored";
        ledger.equal(what, count, total([window.done, window.censored]));
    }
}

/// Requests and responses are byte streams too; exact where every transaction was answered.
fn tcp_transactions(ledger: &mut Ledger, joined: &Joined<'_>, lifetime: &Transactions) {
    let (asks, answers) = (&joined.from_group, &joined.to_group);
    let ways = [
        ("request bytes", asks, answers),
        ("response bytes", answers, asks),
    ];
    let answered = lifetime.failed == 0 && lifetime.in_flight == 0;
    for (what, sender, receiver) in ways {
        let (sent, received) = (sender.lifetime.sent_bytes, receiver.lifetime.received_bytes);
        if answered && asks.drained && answers.drained {
            byte_stream(ledger, what, (sent, sender), (received, receiver));
        } else {
            ledger.at_most(
                &format!("{what} received, against those sent"),
                received,
                sent,
            );
        }
    }
    if lifetime.failed == 0 {
        ledger.equal(
            "responses received, against transactions done",
            asks.lifetime.received_messages,
            lifetime.done,
        );
    }
}
