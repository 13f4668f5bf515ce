//! What the kernel said of our flows: drops, retransmissions, resets, stages, and what could not
//! be watched.

use super::{budget, wrap};
use crate::record::{CaseResult, HostFacts, KernelReport, Run, Sample};

/// Width of the labels.
const LABEL: usize = 10;

/// Most lines; the document has everything.
const MOST: usize = 25;

/// What the kernel said, with who saw it and in which cases.
struct Said<'a> {
    text: String,
    sides: &'static str,
    cases: Vec<&'a str>,
}

/// The section's lines; none where the kernel had nothing to say of our flows.
pub(super) fn lines(run: &Run, width: usize) -> String {
    let one_machine = on_one_machine(run);
    let mut said: Vec<Said<'_>> = Vec::new();
    for case in &run.cases {
        for (sides, text) in budget::texts(case) {
            add(&mut said, sides, text, &case.case.name);
        }
        let further = case.probed.iter().map(|probed| (&probed.sample, true));
        let measured = case.samples.iter().map(|sample| (sample, false));
        for (sample, further) in measured.chain(further) {
            let seen = of_sample(sample, one_machine);
            for (sides, text) in held(sample).into_iter().chain(seen) {
                // Its events are not those behind the figures.
                let text = match further && !text.starts_with(NOT_WATCHED) {
                    true => format!("{FURTHER}{text}"),
                    false => text,
                };
                add(&mut said, sides, text, &case.case.name);
            }
        }
    }
    let watched = |case: &&CaseResult| {
        let mut samples = case.samples.iter();
        samples.any(|s| s.kernel.client.is_some() || s.kernel.server.is_some())
    };
    let all = run.cases.iter().filter(watched).count();
    let mut texts: Vec<String> = said.iter().map(|said| said.line(all)).collect();
    let more = texts.len().saturating_sub(MOST);
    texts.truncate(MOST);
    if said.iter().any(|said| said.sides == ONE_MACHINE) {
        let once = "client and server share one machine: what both saw is said once, as the \
                    client counted it";
        texts.insert(0, once.to_string());
    }
    if more > 0 {
        texts.push(format!("{more} more lines in the document"));
    }
    let wrapped = texts
        .iter()
        .flat_map(|text| wrap("kernel", LABEL, text, width));
    wrapped.collect::<Vec<String>>().join("\n")
}

/// Of the further sample with the stages.
const FURTHER: &str = "probed sample: ";

/// Who saw it, where both did.
const BOTH: &str = "client and server";
/// Who saw it, where both are the same kernel.
const ONE_MACHINE: &str = "machine";

impl Said<'_> {
    fn line(&self, all: usize) -> String {
        let Said { text, sides, cases } = self;
        if cases.len() == all && text.starts_with(NOT_WATCHED) {
            return format!("{sides}: {text}");
        }
        format!("{sides}: {text} [{}]", cases.join("; "))
    }
}

/// Adds a line; what was said already gets its further cases and sides.
fn add<'a>(said: &mut Vec<Said<'a>>, sides: &'static str, text: String, case: &'a str) {
    let everywhere = text.starts_with(NOT_WATCHED);
    let same = said.iter_mut().find(|known| {
        known.text == text && (everywhere || (known.sides == sides && known.cases == [case]))
    });
    let Some(known) = same else {
        said.push(Said {
            text,
            sides,
            cases: vec![case],
        });
        return;
    };
    if known.sides != sides {
        known.sides = BOTH;
    }
    if !known.cases.contains(&case) {
        known.cases.push(case);
    }
}

/// Whether both sides are one kernel, which then tells of the same events twice.
fn on_one_machine(run: &Run) -> bool {
    let of = |host: &Option<HostFacts>| host.as_ref().map(|host| host.boot_id.clone());
    let (client, server) = (of(&run.client), of(&run.server));
    client == server && client.is_some_and(|boot| !boot.is_empty())
}

/// What each side saw. On one machine what both saw is the machine's: the counts differ a little,
/// since the windows of the two sides do.
fn of_sample(sample: &Sample, one_machine: bool) -> Vec<(&'static str, String)> {
    let of = |report: &Option<KernelReport>| report.as_ref().map(texts).unwrap_or_default();
    let (client, server) = (of(&sample.kernel.client), of(&sample.kernel.server));
    let kind = |text: &String| text.replace(|c: char| c.is_ascii_digit() || c == '.', "");
    let in_both = |text: &String, others: &[String]| {
        one_machine && others.iter().any(|other| kind(other) == kind(text))
    };
    let mut said: Vec<(&'static str, String)> = Vec::new();
    for text in &client {
        let sides = match in_both(text, &server) {
            true => ONE_MACHINE,
            false => "client",
        };
        said.push((sides, text.clone()));
    }
    let rest = server.iter().filter(|text| !in_both(text, &client));
    said.extend(rest.map(|text| ("server", text.clone())));
    said
}

/// What TCP was held back by, which is no queue's doing: of the time with data outstanding, from
/// a hundredth on.
fn held(sample: &Sample) -> Vec<(&'static str, String)> {
    let watched = sample.kernel.client.is_some() || sample.kernel.server.is_some();
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
                let text = format!("held back {share:.0} % of the time by {by}");
                texts.push((side, text));
            }
        }
    }
    texts
}

/// How a line begins that says why nothing is watched.
const NOT_WATCHED: &str = "not watched: ";

fn texts(report: &KernelReport) -> Vec<String> {
    let mut texts = Vec::new();
    let drops = report.drops.iter().filter(|drop| drop.ours > 0);
    texts.extend(drops.map(|drop| {
        format!(
            "dropped {} packets of ours in the window ({} on the system): {} in {}",
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
    texts.extend(causes.iter().map(|(cause, segments)| {
        format!("retransmitted {segments} segments of ours in the window: {cause}")
    }));
    for (count, what) in [
        (report.resets_sent.ours, "resets sent"),
        (report.resets_received.ours, "resets received"),
        (
            report.listen_drops.ours,
            "handshakes dropped by a full listen queue",
        ),
        (
            report.ring_handed_off.ours,
            "requests that went to threads of io_uring's own",
        ),
        (
            report.ring_overflows.ours,
            "completions that found the queue of an io_uring full",
        ),
    ] {
        if count > 0 {
            texts.push(format!("{count} {what} in the window"));
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
        texts.push(format!("{NOT_WATCHED}{}", missing.text));
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{
        DropReport, KernelReport, ProbedSample, RetransmitReport, Sides, TcpReport, Unavailable,
        UnavailableStatus, canned,
    };

    #[test]
    fn events_of_the_probed_sample_are_not_those_behind_the_figures() {
        let mut run = canned::tour();
        let mut sample = run.cases[0].samples[0].clone();
        sample.kernel.client = Some(KernelReport {
            drops: vec![DropReport {
                reason: "SOCKET_RCVBUFF".to_string(),
                ours: 3,
                ..DropReport::default()
            }],
            ..KernelReport::default()
        });
        run.cases[0].samples[0] = sample.clone();
        run.cases[0].probed = Some(Box::new(ProbedSample {
            sample,
            rate_change: None,
            p50_change_ns: None,
        }));
        let text = lines(&run, 200);
        assert!(text.contains("client: dropped 3 packets"), "{text}");
        let further = "client: probed sample: dropped 3 packets";
        assert!(text.contains(further), "{text}");
    }

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
        assert!(text.contains("dropped 7 packets of ours in the window (9 on the system)"));
        assert!(text.contains("retransmitted 5 segments of ours in the window: Loss"));
        assert!(
            !text.contains("NO_SOCKET") && !text.contains("not watched"),
            "{text}"
        );
    }

    fn dropped(ours: u64) -> KernelReport {
        KernelReport {
            attached: vec!["kfree_skb".to_string()],
            drops: vec![DropReport {
                reason: "TCP_OLD_DATA".to_string(),
                place: "tcp_data_queue".to_string(),
                ours,
                ..DropReport::default()
            }],
            ..KernelReport::default()
        }
    }

    #[test]
    fn one_machine_is_heard_once() {
        let mut run = canned::tour();
        let kernel = &mut run.cases[0].samples[0].kernel;
        kernel.client = Some(dropped(17));
        kernel.server = Some(dropped(18));
        let two = lines(&run, 200);
        assert!(two.contains("client: dropped 17") && two.contains("server: dropped 18"));
        for host in [&mut run.client, &mut run.server] {
            host.as_mut().unwrap().boot_id = "a boot".to_string();
        }
        let one = lines(&run, 200);
        assert!(
            one.contains("machine: dropped 17") && !one.contains("18"),
            "{one}"
        );
        assert!(one.contains("share one machine"), "{one}");
        run.cases[0].samples[0].kernel.client = None;
        let server = lines(&run, 200);
        assert!(server.contains("server: dropped 18"), "{server}");
        assert!(!server.contains("share one machine"), "{server}");
    }

    #[test]
    fn why_nothing_is_watched_is_said_once() {
        let mut run = canned::tour();
        let missing = KernelReport {
            unavailable: vec![Unavailable {
                program: "all".to_string(),
                status: UnavailableStatus::NotPermitted,
                text: "it needs CAP_BPF".to_string(),
            }],
            ..KernelReport::default()
        };
        for case in &mut run.cases {
            for sample in &mut case.samples {
                sample.kernel.client = Some(missing.clone());
                sample.kernel.server = Some(missing.clone());
            }
        }
        let text = lines(&run, 200);
        assert_eq!(
            text,
            "kernel    client and server: not watched: it needs CAP_BPF"
        );
    }
}
