//! What a reader of the numbers must know, as far as the two reports show it.

use std::net::SocketAddr;

use super::Joined;
use super::side::{Known, Source};
use crate::plan::{Load, Proto, Traffic};
use crate::record::{Figures, Finding, Interval, SampleFlow, Severity, ZeroCopyReport};
use crate::units::print_duration;

/// Fastest to slowest flow, beyond which they count as unequal.
const UNEQUAL: f64 = 2.0;

/// Change from the first to the last third, beyond which a sample is not steady.
const UNSTEADY: f64 = 0.05;

/// Fewest whole intervals that say anything about steadiness: two per third.
const STEADY_INTERVALS: usize = 6;

/// Part of the offered rate that must be achieved.
const ACHIEVED: f64 = 0.99;

fn warning(code: &str, text: String) -> Finding {
    Finding::new(Severity::Warning, code, text)
}

fn error(code: &str, text: String) -> Finding {
    Finding::new(Severity::Error, code, text)
}

/// A side's own findings, each saying whose it is, and what its engine ran into.
pub(super) fn of_side(side: &Known) -> Vec<Finding> {
    let name = side.name;
    let mut found: Vec<Finding> = side.report.findings.clone();
    for finding in &mut found {
        if !finding.text.contains(name) {
            finding.text = format!("{name}: {}", finding.text);
        }
    }
    let engine = &side.report.engine;
    if engine.cq_overflows > 0 {
        let text = format!(
            "{name}: the completion queue overflowed {} times, so that events came late or not \
             at all",
            engine.cq_overflows
        );
        found.push(error("cq-overflow", text));
    }
    if let Some(zerocopy) = engine.zerocopy.filter(ZeroCopyReport::in_vain) {
        let text = format!(
            "{name}: zero-copy was in vain: the kernel copied all of the {} sends of which it \
             told, as it does on loopback, on veth, and on devices without scatter-gather",
            zerocopy.completed.unwrap_or(0)
        );
        found.push(warning("zerocopy-in-vain", text));
    }
    if engine.buffers_exhausted > 0 {
        let text = format!(
            "{name}: receives found no free buffer {} times and had to wait for one",
            engine.buffers_exhausted
        );
        found.push(warning("buffers-exhausted", text));
    }
    found
}

/// What is missing of a sample that did not run to its end.
pub(super) fn incomplete(client: &Known, server: &Known) -> Option<Finding> {
    let say = |side: &Known| match side.source {
        Source::Report if side.report.complete => None,
        Source::Report => Some(format!("the {} stopped before the planned end", side.name)),
        Source::Progress(messages) => Some(format!(
            "the {}'s results did not arrive: its figures are those of its {messages} interval \
             messages",
            side.name
        )),
        Source::Nothing => Some(format!(
            "the {}'s results did not arrive: its figures are unknown",
            side.name
        )),
    };
    let texts: Vec<String> = [client, server].into_iter().filter_map(say).collect();
    (!texts.is_empty()).then(|| error("sample-incomplete", texts.join("; ")))
}

/// Addresses that the two sides see differently, unless the session has said so already.
pub(super) fn translated(flows: &[SampleFlow], found: &[Finding]) -> Option<Finding> {
    const CODE: &str = "path-translated";
    if found.iter().any(|finding| finding.code == CODE) {
        return None;
    }
    let (own, seen) = flows.iter().find_map(|flow| {
        let (client, server) = (flow.client.as_ref()?, flow.server.as_ref()?);
        let pairs = [(&client.local, &server.peer), (&client.peer, &server.local)];
        pairs.into_iter().find(|(own, seen)| differ(own, seen))
    })?;
    let text =
        format!("the path translates addresses: {own} for the client is {seen} for the server");
    Some(Finding::new(Severity::Info, CODE, text))
}

fn differ(own: &str, seen: &str) -> bool {
    let endpoint = |text: &str| {
        let address: SocketAddr = text.parse().ok()?;
        let ip = address.ip().to_canonical();
        (!ip.is_unspecified()).then_some((ip, address.port()))
    };
    matches!((endpoint(own), endpoint(seen)), (Some(own), Some(seen)) if own != seen)
}

/// Everything about one group; `faults` is what did not add up in it.
pub(super) fn of_group(
    joined: &Joined<'_>,
    figures: &Figures,
    faults: Vec<String>,
) -> Vec<Finding> {
    let mut found = Vec::new();
    if !faults.is_empty() {
        found.push(error(
            "unreconciled",
            format!("counts do not add up: {}", faults.join("; ")),
        ));
    }
    found.extend(nothing(joined, figures));
    found.extend(unequal(figures));
    found.extend(unsteady(joined));
    found.extend(udp(joined, figures));
    found.extend(rate(figures));
    found.extend(unanswered(joined));
    found.extend(damaged(joined));
    for finding in &mut found {
        finding.text.insert_str(0, joined.label());
    }
    found
}

/// Traffic was sent and none of it came to anything.
fn nothing(joined: &Joined<'_>, figures: &Figures) -> Option<Finding> {
    if joined.plan.traffic == Traffic::Stream {
        let (sent, received) = (figures.sent.bytes, figures.received.bytes);
        // A short window may lie between two messages, or miss one that was early.
        let lost = figures.udp.as_ref().and_then(|udp| udp.lost).unwrap_or(0);
        let never = joined.to_group.lifetime.received_bytes == 0 || lost > 0;
        return (sent > 0 && received == 0 && never).then(|| {
            let text = format!("none of the {sent} bytes sent in the window was received");
            error("nothing-received", text)
        });
    }
    let counts = figures
        .transactions
        .filter(|c| c.started > 0 && c.done == 0)?;
    let text = format!(
        "none of the {} transactions of the window was answered",
        counts.started
    );
    Some(error("nothing-answered", text))
}

fn unequal(figures: &Figures) -> Option<Finding> {
    let (slowest, fastest) = figures.flow_spread?;
    if fastest <= slowest * UNEQUAL {
        return None;
    }
    let text = if slowest > 0.0 {
        format!(
            "the fastest flow had {:.1} times the slowest one's rate",
            fastest / slowest
        )
    } else {
        "at least one flow moved nothing while others did".to_string()
    };
    Some(warning("flows-unequal", text))
}

/// The first and the last third differ by more than 5 % and by more than the intervals differ
/// among themselves within either third.
fn unsteady(joined: &Joined<'_>) -> Option<Finding> {
    let (side, of): (_, fn(&Interval) -> u64) = match joined.plan.traffic {
        Traffic::Stream => (joined.to, |interval| interval.counters.received_bytes),
        Traffic::Rr | Traffic::Crr => (joined.from, |interval| interval.transactions),
    };
    let whole_s = joined.case.interval_ns as f64 / 1e9;
    let whole = |i: &&Interval| i.group == joined.index && i.length_s >= whole_s * 0.999;
    if whole_s <= 0.0 {
        return None;
    }
    let rates: Vec<f64> = side
        .report
        .intervals
        .iter()
        .filter(whole)
        .map(|interval| of(interval) as f64 / interval.length_s)
        .collect();
    if rates.len() < STEADY_INTERVALS {
        return None;
    }
    let third = rates.len() / 3;
    let (first, first_spread) = mean_and_range(&rates[..third]);
    let (last, last_spread) = mean_and_range(&rates[rates.len() - third..]);
    let change = last - first;
    if change.abs() <= UNSTEADY * first.max(last) || change.abs() <= first_spread.max(last_spread)
    {
        return None;
    }
    let text = if first > 0.0 {
        format!(
            "not steady: the last third is {:+.1} % of the first",
            change / first * 100.0
        )
    } else {
        "not steady: nothing moved in the first third".to_string()
    };
    Some(warning("not-steady", text))
}

fn mean_and_range(rates: &[f64]) -> (f64, f64) {
    let low = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let high = rates.iter().copied().fold(0.0, f64::max);
    (rates.iter().sum::<f64>() / rates.len() as f64, high - low)
}

fn udp(joined: &Joined<'_>, figures: &Figures) -> Vec<Finding> {
    let mut found = Vec::new();
    let is_stream = joined.plan.traffic == Traffic::Stream;
    let case = joined.case;
    let unpaced = case.load == Load::Closed && case.options.pacing.is_none();
    if case.proto == Proto::Udp && is_stream && unpaced {
        let text = "the sender is unpaced: it sends as fast as it can, and losses are expected";
        found.push(Finding::new(Severity::Info, "unpaced", text));
    }
    let drops = figures
        .udp
        .as_ref()
        .and_then(|udp| udp.socket_drops)
        .unwrap_or(0);
    if drops > 0 {
        let receiver = if is_stream { joined.to } else { joined.from };
        let text = format!(
            "the {} could not keep up: its socket buffers dropped {drops} datagrams",
            receiver.name
        );
        found.push(warning("receiver-drops", text));
    }
    found
}

fn rate(figures: &Figures) -> Option<Finding> {
    let (offered, achieved) = (figures.offered_per_second?, figures.achieved_per_second?);
    if achieved >= offered * ACHIEVED {
        return None;
    }
    let text = format!(
        "{achieved:.1} per second achieved of {offered:.1} offered: the schedule could not be kept"
    );
    Some(warning("achieved-below-offered", text))
}

/// Not one transaction succeeded: what was measured is that nothing works.
fn unanswered(joined: &Joined<'_>) -> Option<Finding> {
    let counted = joined.from_group.lifetime_transactions?;
    if counted.done > 0 || counted.failed == 0 {
        return None;
    }
    let asked = counted.started;
    let (from, to) = (joined.from.name, joined.to.name);
    let text = match joined.case.proto {
        Proto::Udp => format!(
            "none of the {asked} requests of the {from} was answered within {}: the path to the \
             {to} or back loses every datagram, or answers come later than --timeout",
            print_duration(joined.case.options.timeout_ns)
        ),
        Proto::Tcp => format!(
            "none of the {asked} transactions of the {from} succeeded: every connection to the \
             {to} was refused or broke"
        ),
    };
    Some(error("no-answers", text))
}

/// Numbers that are wrong because something was not recorded or arrived damaged.
fn damaged(joined: &Joined<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for (side, group) in [
        (joined.from, &joined.from_group),
        (joined.to, &joined.to_group),
    ] {
        let name = side.name;
        if group.histogram_out_of_range > 0 {
            let text = format!(
                "{name}: {} values were beyond what a histogram holds, so that percentiles are \
                 too low",
                group.histogram_out_of_range
            );
            found.push(error("histogram-out-of-range", text));
        }
        let corrupt = group.corrupt_bytes.unwrap_or(0);
        if corrupt > 0 {
            let text = format!("{name}: {corrupt} bytes arrived other than they were sent");
            found.push(error("corrupt-payload", text));
        }
        let syns = group
            .tcp
            .as_ref()
            .and_then(|tcp| tcp.syn_retransmits)
            .unwrap_or(0);
        if syns > 0 && joined.plan.traffic == Traffic::Crr {
            let text = format!("{name}: {syns} SYNs were retransmitted, which connect times show");
            found.push(warning("syn-retransmits", text));
        }
    }
    found
}
