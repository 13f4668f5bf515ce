//! UDP loss: gaps at the receiver and the tail that only the sender knows of, per flow.

use std::collections::BTreeMap;

use super::{Joined, total};
use crate::record::{UdpFlow, UdpReport};

/// Smallest datagram that carries a header with a sequence number, bytes.
pub(super) const HEADER_BYTES: u64 = 24;

/// The phase of the headers that is the window: 0 is the warm-up, 2 what comes after.
pub(super) const WINDOW: usize = 1;

/// A flow's account as both sides keep it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Account {
    pub(super) flow: u32,
    /// The sender's half: `sent`.
    pub(super) sender: UdpFlow,
    /// The receiver's half: everything else.
    pub(super) receiver: UdpFlow,
}

impl Account {
    /// Sequence numbers of a phase that never came; none where the receiver saw a number that
    /// the sender never gave.
    pub(super) fn lost(&self, phase: usize) -> Option<u64> {
        let tail = self.sender.sent[phase].checked_sub(self.receiver.highest[phase])?;
        self.receiver.gaps[phase].checked_add(tail)
    }
}

/// Joins both sides' accounts by flow number.
pub(super) fn accounts(joined: &Joined<'_>) -> Vec<Account> {
    let mut by_flow: BTreeMap<u32, Account> = BTreeMap::new();
    for sender in &joined.from_group.udp_flows {
        let account = by_flow.entry(sender.flow).or_default();
        (account.flow, account.sender) = (sender.flow, *sender);
    }
    for receiver in &joined.to_group.udp_flows {
        let account = by_flow.entry(receiver.flow).or_default();
        (account.flow, account.receiver) = (receiver.flow, *receiver);
    }
    by_flow.into_values().collect()
}

/// Whether the datagrams carry sequence numbers.
pub(super) fn has_headers(joined: &Joined<'_>) -> bool {
    joined.case.request_bytes >= HEADER_BYTES
}

/// The figures of a UDP stream.
pub(super) fn report(joined: &Joined<'_>) -> UdpReport {
    let mut report = joined.to_group.udp.clone().unwrap_or_default();
    if let Some(sender) = &joined.from_group.udp {
        report.segments_per_send = report.segments_per_send.or(sender.segments_per_send);
    }
    if !has_headers(joined) {
        report.mode = "counts".to_string();
        return without_order(
            report,
            format!(
                "datagrams of {} bytes are too small for the {HEADER_BYTES}-byte header",
                joined.case.request_bytes
            ),
        );
    }
    report.mode = "full".to_string();
    if !joined.to.whole() {
        let text = format!("the {}'s sequence accounts did not arrive", joined.to.name);
        return without_order(report, text);
    }
    let accounts = accounts(joined);
    let sum = |of: fn(&UdpFlow) -> u64| total(accounts.iter().map(|a| of(&a.receiver)));
    report.reordered = Some(sum(|flow| flow.reordered[WINDOW]));
    report.duplicated = Some(sum(|flow| flow.duplicated[WINDOW]));
    let late = sum(|flow| flow.late[WINDOW]);
    report.late = Some(report.late.unwrap_or(0).max(late));
    report.reorder_extent_max = accounts.iter().map(|a| a.receiver.extent_max).max();
    loss(joined, &accounts, &mut report);
    report
}

fn loss(joined: &Joined<'_>, accounts: &[Account], report: &mut UdpReport) {
    (report.lost, report.lost_percent) = (None, None);
    if !joined.from.whole() {
        report.loss_missing = Some(format!(
            "the {}'s sequence accounts did not arrive",
            joined.from.name
        ));
        return;
    }
    let lost = accounts
        .iter()
        .try_fold(0_u64, |sum, account| sum.checked_add(account.lost(WINDOW)?));
    let Some(lost) = lost else {
        report.loss_missing =
            Some("the receiver saw sequence numbers that the sender never gave".to_string());
        return;
    };
    let sent = total(accounts.iter().map(|account| account.sender.sent[WINDOW]));
    report.lost = Some(lost);
    report.lost_percent = (sent > 0).then(|| lost as f64 * 100.0 / sent as f64);
    report.loss_missing = None;
}

/// The figures of UDP request-response: the asking side's, where a loss is a failed transaction.
pub(super) fn rr_report(joined: &Joined<'_>) -> UdpReport {
    let mut report = joined.from_group.udp.clone().unwrap_or_default();
    if report.mode.is_empty() {
        report.mode = if has_headers(joined) {
            "full"
        } else {
            "counts"
        }
        .to_string();
    }
    if report.lost.is_none() && report.loss_missing.is_none() {
        report.loss_missing = Some("request-response: a loss is a failed transaction".to_string());
    }
    if report.jitter_ns.is_none() {
        report.jitter_missing = Some("request-response: no stream to measure it on".to_string());
    }
    report
}

fn without_order(report: UdpReport, reason: String) -> UdpReport {
    UdpReport {
        lost: None,
        lost_percent: None,
        loss_missing: Some(reason.clone()),
        reordered: None,
        reorder_extent_max: None,
        duplicated: None,
        late: None,
        jitter_ns: None,
        jitter_missing: Some(reason),
        ..report
    }
}
