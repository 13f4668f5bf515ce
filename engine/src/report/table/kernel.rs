//! What the kernel said of our flows: drops, retransmissions, resets, stages, and what could not
//! be watched.

use super::{budget, wrap};
use crate::record::{KernelReport, Run, Sample};

/// Width of the labels.
const LABEL: usize = 10;

/// Most lines; the document has everything.
const MOST: usize = 25;

/// The section's lines; none where the kernel had nothing to say of our flows.
pub(super) fn lines(run: &Run, width: usize) -> String {
    let mut said: Vec<String> = Vec::new();
    for case in &run.cases {
        let budget = budget::texts(case);
        said.extend(
            budget
                .iter()
                .map(|text| format!("{text} [{}]", case.case.name)),
        );
        let further = case.probed.iter().map(|probed| &probed.sample);
        for sample in case.samples.iter().chain(further) {
            for text in held(sample) {
                let line = format!("{text} [{}]", case.case.name);
                if !said.contains(&line) {
                    said.push(line);
                }
            }
            for (side, report) in sides(sample) {
                for text in texts(report) {
                    let line = format!("{side}: {text} [{}]", case.case.name);
                    if !said.contains(&line) {
                        said.push(line);
                    }
                }
            }
        }
    }
    let more = said.len().saturating_sub(MOST);
    said.truncate(MOST);
    let mut lines: Vec<String> = said
        .iter()
        .flat_map(|text| wrap("kernel", LABEL, text, width))
        .collect();
    if more > 0 {
        lines.extend(wrap(
            "kernel",
            LABEL,
            &format!("{more} more lines in the document"),
            width,
        ));
    }
    lines.join("\n")
}

fn sides(sample: &Sample) -> impl Iterator<Item = (&'static str, &KernelReport)> {
    let client = sample
        .kernel
        .client
        .as_ref()
        .map(|report| ("client", report));
    let server = sample
        .kernel
        .server
        .as_ref()
        .map(|report| ("server", report));
    client.into_iter().chain(server)
}

/// What TCP was held back by, which is no queue's doing: of the time with data outstanding, from
/// a hundredth on.
fn held(sample: &Sample) -> Vec<String> {
    let watched = sides(sample).next().is_some();
    let groups = sample.groups.iter().filter(|_| watched);
    let reports = groups.filter_map(|group| group.figures.tcp.as_ref());
    let both = reports.flat_map(|tcp| [("client", &tcp.client), ("server", &tcp.server)]);
    let mut texts = Vec::new();
    for (side, tcp) in both.filter_map(|(side, tcp)| Some((side, tcp.as_ref()?))) {
        for (limited_us, by) in [
            (tcp.receiver_limited_us, "the receiver's window"),
            (tcp.send_buffer_limited_us, "its send buffer"),
        ] {
            if limited_us > 0 && limited_us * 100 >= tcp.busy_us {
                let share = limited_us as f64 * 100.0 / tcp.busy_us.max(1) as f64;
                texts.push(format!(
                    "{side}: held back {share:.0} % of the time by {by}"
                ));
            }
        }
    }
    texts
}

fn texts(report: &KernelReport) -> Vec<String> {
    let mut texts = Vec::new();
    let drops = report.drops.iter().filter(|drop| drop.ours > 0);
    texts.extend(drops.map(|drop| {
        format!(
            "dropped {} segments of ours ({} on the system): {} in {}",
            drop.ours, drop.system, drop.reason, drop.place
        )
    }));
    let mut causes: Vec<(&str, u64)> = Vec::new();
    for line in report.retransmits.iter().filter(|line| line.ours) {
        match causes.iter_mut().find(|(cause, _)| *cause == line.cause) {
            Some((_, segments)) => *segments += line.segments,
            None => causes.push((&line.cause, line.segments)),
        }
    }
    texts.extend(
        causes.iter().map(|(cause, segments)| {
            format!("retransmitted {segments} segments of ours: {cause}")
        }),
    );
    for (count, what) in [
        (report.resets_sent.ours, "resets sent"),
        (report.resets_received.ours, "resets received"),
        (
            report.listen_drops.ours,
            "handshakes dropped by a full listen queue",
        ),
        (
            report.ring_handed_off.ours,
            "requests went to threads of io_uring's own",
        ),
        (
            report.ring_overflows.ours,
            "completions found the queue of an io_uring full",
        ),
    ] {
        if count > 0 {
            texts.push(format!("{count} {what}"));
        }
    }
    texts.extend(
        report
            .stages
            .iter()
            .filter(|stage| stage.count > 0 && report.budget.is_empty())
            .map(|stage| {
                format!(
                    "{} {}: mean {:.1} us, p50 {:.1}, p99 {:.1}, {} times",
                    stage.transport,
                    stage.stage,
                    stage.mean_ns / 1000.0,
                    stage.p50_ns as f64 / 1000.0,
                    stage.p99_ns as f64 / 1000.0,
                    stage.count
                )
            }),
    );
    // One line says why nothing is watched; single programs that are missing are in the document.
    if report.attached.is_empty()
        && let Some(missing) = report.unavailable.first()
    {
        texts.push(format!("not watched: {}", missing.text));
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{DropReport, KernelReport, RetransmitReport, Sides, TcpReport, canned};

    #[test]
    fn what_held_tcp_back_is_no_queue() {
        let mut run = canned::tour();
        let sample = &mut run.cases[0].samples[0];
        let tcp = TcpReport {
            busy_us: 1_000_000,
            receiver_limited_us: 250_000,
            send_buffer_limited_us: 9_999,
            ..TcpReport::default()
        };
        sample.groups[0].figures.tcp = Some(Sides {
            client: Some(tcp),
            server: None,
        });
        assert_eq!(lines(&run, 200), "");
        run.cases[0].samples[0].kernel.client = Some(KernelReport {
            attached: vec!["kfree_skb".to_string()],
            ..KernelReport::default()
        });
        let text = lines(&run, 200);
        assert!(
            text.contains("client: held back 25 % of the time by the receiver's window"),
            "{text}"
        );
        assert!(!text.contains("send buffer"), "{text}");
    }

    #[test]
    fn drops_and_causes_of_our_flows_are_said_and_others_are_not() {
        let mut run = canned::tour();
        let drop = |reason: &str, ours| DropReport {
            reason: reason.to_string(),
            place: "nf_hook_slow".to_string(),
            ours,
            system: 9,
            ..DropReport::default()
        };
        let again = |segments| RetransmitReport {
            ours: true,
            cause: "Loss".to_string(),
            segments,
            ..RetransmitReport::default()
        };
        run.cases[0].samples[0].kernel.server = Some(KernelReport {
            attached: vec!["kfree_skb".to_string()],
            drops: vec![drop("NETFILTER_DROP", 7), drop("NO_SOCKET", 0)],
            retransmits: vec![again(2), again(3)],
            ..KernelReport::default()
        });
        let text = lines(&run, 200);
        assert!(text.contains("dropped 7 segments of ours (9 on the system): NETFILTER_DROP"));
        assert!(text.contains("retransmitted 5 segments of ours: Loss"));
        assert!(
            !text.contains("NO_SOCKET") && !text.contains("not watched"),
            "{text}"
        );
    }
}
