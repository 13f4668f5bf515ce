//! What a reader of the numbers must know, as far as the two reports show it.

mod pace;

use std::net::SocketAddr;

use super::Joined;
use super::side::{Known, Source};
use crate::plan::{Load, Proto, Traffic};
use crate::record::{Figures, Finding, SampleFlow, Severity, ZeroCopyReport};
use crate::units::print_duration;

/// Fastest to slowest flow, beyond which they count as unequal.
const UNEQUAL: f64 = 2.0;

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
    found.extend(pace::unsteady(joined));
    found.extend(pace::stalled(joined));
    found.extend(udp(joined, figures));
    found.extend(pace::rate(joined, figures));
    found.extend(pace::short(joined));
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
        .filter(|c| c.started > 0 && c.done == 0 && c.completed == 0)?;
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
            "the {} could not keep up: its socket buffers dropped {drops} packets over the \
             lifetime, warm-up included (with --gro a packet carries many datagrams)",
            receiver.name
        );
        found.push(warning("receiver-drops", text));
    }
    found
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
