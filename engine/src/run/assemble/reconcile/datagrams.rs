//! Datagrams: sequence accounts against counters, flow by flow.

use super::ledger::Ledger;
use super::missing;
use crate::plan::{Limit, Proto, Traffic};
use crate::record::Reconciliation;
use crate::run::assemble::{Joined, total, udp};

/// A datagram stream: per flow and phase sent = received + gaps + tail.
pub(super) fn udp_stream(ledger: &mut Ledger, joined: &Joined<'_>) -> Reconciliation {
    let (sender, receiver) = (&joined.from_group, &joined.to_group);
    let counts = Reconciliation {
        reconciled: true,
        unit: "datagrams".to_string(),
        sent: sender.lifetime.sent_messages,
        received: receiver.lifetime.received_messages,
        ..Reconciliation::default()
    };
    datagram_bytes(ledger, joined);
    if let Some(reason) = missing(joined) {
        return Reconciliation {
            reconciled: false,
            reason: Some(reason),
            ..counts
        };
    }
    if !udp::has_headers(joined) {
        ledger.at_most(
            "datagrams received, against those sent",
            counts.received,
            counts.sent,
        );
        let reason = "the datagrams are too small for sequence numbers: losses are not counted";
        return Reconciliation {
            reason: Some(reason.to_string()),
            ..counts
        };
    }
    let accounts = udp::accounts(joined);
    account_totals(ledger, joined, &accounts);
    let mut sum = Reconciliation {
        sent: 0,
        received: 0,
        lost: Some(0),
        ..counts
    };
    let mut duplicated = 0_u64;
    for account in &accounts {
        for phase in 0..3 {
            account_phase(ledger, account, phase);
            sum.sent = total([sum.sent, account.sender.sent[phase]]);
            sum.received = total([sum.received, account.receiver.received[phase]]);
            sum.lost = sum
                .lost
                .zip(account.lost(phase))
                .map(|both| total([both.0, both.1]));
            duplicated = total([duplicated, account.receiver.duplicated[phase]]);
        }
    }
    let drops = receiver.udp.as_ref().and_then(|udp| udp.socket_drops);
    if let (Some(drops), Some(lost), 0) = (drops, sum.lost, duplicated) {
        ledger.at_most(
            "datagrams dropped by the receiver's sockets, against the lost",
            drops,
            lost,
        );
    }
    sum
}

fn account_phase(ledger: &mut Ledger, account: &udp::Account, phase: usize) {
    let (flow, sender, receiver) = (account.flow, &account.sender, &account.receiver);
    let what = |text: &str| format!("flow {flow}, phase {phase}: {text}");
    ledger.at_most(
        &what("highest sequence number, against those sent"),
        receiver.highest[phase],
        sender.sent[phase],
    );
    ledger.equal(
        &what("received and gaps, against the highest sequence number"),
        receiver.received[phase].saturating_add(receiver.gaps[phase]),
        receiver.highest[phase],
    );
    ledger.at_most(
        &what("reordered, against the received"),
        receiver.reordered[phase],
        receiver.received[phase],
    );
}

/// The flows' accounts against the group's counters, each side by itself.
fn account_totals(ledger: &mut Ledger, joined: &Joined<'_>, accounts: &[udp::Account]) {
    let (sender, receiver) = (&joined.from_group, &joined.to_group);
    ledger.equal(
        "flows with a sequence account, against flows",
        accounts.len() as u64,
        u64::from(joined.case.flows),
    );
    let (mut sent, mut taken, mut arrived) = ([0_u64; 3], [0_u64; 3], 0_u64);
    for account in accounts {
        let from = &account.sender;
        let what = |text: &str| format!("flow {}: {text}", account.flow);
        ledger.equal(
            &what("datagrams of the window by two counts"),
            from.window_sent,
            from.sent[udp::WINDOW],
        );
        ledger.equal(
            &what("datagrams of the lifetime by two counts"),
            from.lifetime_sent,
            total(from.sent),
        );
        for phase in 0..3 {
            sent[phase] = total([sent[phase], from.sent[phase]]);
            let to = &account.receiver;
            // Copies and what came too late are no goodput: they are counted apart.
            taken[phase] = total([taken[phase], to.received[phase]]);
            let copies = [to.received[phase], to.duplicated[phase], to.late[phase]];
            arrived = total([arrived, total(copies)]);
        }
    }
    let seen = receiver.udp.as_ref().and_then(|udp| udp.arrived);
    ledger.equal(
        "datagrams that arrived, by what became of them and by count",
        arrived,
        seen.unwrap_or(0),
    );
    let window = udp::WINDOW;
    ledger.equal(
        "datagrams sent in the window by sequence and by count",
        sent[window],
        sender.window.sent_messages,
    );
    ledger.equal(
        "datagrams sent in the lifetime by sequence and by count",
        total(sent),
        sender.lifetime.sent_messages,
    );
    ledger.equal(
        "datagrams received in the window by sequence and by count",
        taken[window],
        receiver.window.received_messages,
    );
    ledger.equal(
        "datagrams received in the lifetime by sequence and by count",
        total(taken),
        receiver.lifetime.received_messages,
    );
}

/// Datagrams all have the stated size, so that bytes and datagrams check each other.
pub(super) fn datagram_bytes(ledger: &mut Ledger, joined: &Joined<'_>) {
    if joined.case.proto != Proto::Udp || matches!(joined.case.limit, Limit::Bytes { .. }) {
        return;
    }
    let (request, response) = (joined.case.request_bytes, joined.case.response_bytes);
    let is_stream = joined.plan.traffic == Traffic::Stream;
    for (side, group) in [
        (joined.from, &joined.from_group),
        (joined.to, &joined.to_group),
    ] {
        let (out, back) = match (is_stream, std::ptr::eq(side, joined.from)) {
            (true, _) => (request, request),
            (false, true) => (request, response),
            (false, false) => (response, request),
        };
        if !side.whole() {
            continue;
        }
        for (span, counters) in [("window", &group.window), ("lifetime", &group.lifetime)] {
            let what =
                |way: &str| format!("{}: bytes {way} in the {span}, by datagrams", side.name);
            ledger.equal(
                &what("sent"),
                counters.sent_bytes,
                counters.sent_messages.saturating_mul(out),
            );
            ledger.equal(
                &what("received"),
                counters.received_bytes,
                counters.received_messages.saturating_mul(back),
            );
        }
    }
}
