//! The head: what ran, on what, and what was chosen by the tool itself.

use super::wrap;
use crate::plan::{Traffic, Wait};
use crate::record::{
    CaseResult, EngineReport, HostFacts, Run, Sample, WorkerTime, ZeroCopyReport,
};
use crate::units::print_size;

/// Width of the labels.
const LABEL: usize = 10;

/// Findings that the head says, so that the list below need not.
pub(super) const IN_HEAD: [&str; 2] = ["path-translated", "unpaced"];

/// The head's lines.
pub(super) fn lines(run: &Run, width: usize) -> String {
    let mut lines = Vec::new();
    let mut say = |label: &str, text: String| {
        if !text.is_empty() {
            lines.extend(wrap(label, LABEL, &text, width));
        }
    };
    say(
        "ringperf",
        format!("{}, {}, run {}", run.tool.version, run.started, run.uuid),
    );
    say("title", run.title.clone().unwrap_or_default());
    say("client", run.client.as_ref().map(host).unwrap_or_default());
    say("server", run.server.as_ref().map(host).unwrap_or_default());
    for (label, of) in TOPICS {
        for text in topic(run, *of) {
            say(label, text);
        }
    }
    say("note", without_headers(run));
    for code in IN_HEAD {
        for text in said(run, code) {
            say("note", text);
        }
    }
    let most = run
        .cases
        .iter()
        .map(|case| case.samples.len())
        .max()
        .unwrap_or(0);
    if most > 1 {
        say(
            "samples",
            "median, with the least and the most below it".to_string(),
        );
    }
    if !run.complete && !run.cases.is_empty() {
        say(
            "note",
            "INCOMPLETE: not every sample ran to its planned end".to_string(),
        );
    }
    lines.join("\n")
}

/// Why streams of datagrams have no loss in the table; empty where all have a header.
fn without_headers(run: &Run) -> String {
    let counts = |case: &&CaseResult| {
        let mut groups = case.samples.iter().flat_map(|sample| &sample.groups);
        groups.any(|group| {
            let udp = group.figures.udp.as_ref();
            group.traffic == Traffic::Stream && udp.is_some_and(|udp| udp.mode == "counts")
        })
    };
    let names: Vec<&str> = run
        .cases
        .iter()
        .filter(counts)
        .map(|case| case.case.name.as_str())
        .collect();
    if names.is_empty() {
        return String::new();
    }
    format!(
        "datagrams below 24 bytes have no room for a header: their loss, order, duplicates and \
         jitter are unknown [{}]",
        names.join("; ")
    )
}

fn host(host: &HostFacts) -> String {
    let mut parts = vec![format!(
        "{}: Linux {} {}",
        host.hostname, host.kernel, host.architecture
    )];
    let model = host
        .cpu_model
        .as_deref()
        .map(|model| format!(" {model}"))
        .unwrap_or_default();
    parts.push(format!("{} CPUs{model}", host.cpus_online));
    if let Some(nic) = host.nics.first() {
        let driver = nic
            .driver
            .as_deref()
            .map(|driver| format!(" {driver}"))
            .unwrap_or_default();
        let speed = nic
            .speed_mbps
            .map(|mbps| format!(" {mbps} Mbit/s"))
            .unwrap_or_default();
        parts.push(format!("{}{driver} MTU {}{speed}", nic.name, nic.mtu));
    }
    parts.extend(host.virtualization.clone());
    parts.join(", ")
}

/// What a sample of a case says about a topic, per side.
type Topic = fn(&crate::plan::Case, &Sample) -> [Option<String>; 2];

const TOPICS: &[(&str, Topic)] = &[
    ("engine", |_, sample| of_engines(sample, engine)),
    ("chosen", |case, sample| {
        let streams = case
            .groups
            .iter()
            .any(|group| group.traffic == Traffic::Stream);
        let given = case.depth.is_some() || !streams;
        let plain = case.options.as_application;
        of_engines(sample, |engine| chosen(engine, given, plain))
    }),
    ("zerocopy", |case, sample| {
        let how = case.options.zerocopy;
        of_engines(sample, |engine| {
            let how = how.map(|how| how.to_string());
            let counts = engine.zerocopy.as_ref().map(zerocopy);
            how.zip(counts)
                .map_or(String::new(), |(how, counts)| format!("{how}: {counts}"))
        })
    }),
    ("busy poll", |_, sample| of_engines(sample, busy_poll)),
    ("tcp", |_, sample| {
        let tcp = sample
            .groups
            .first()
            .and_then(|group| group.figures.tcp.as_ref());
        let named = |name: &String| {
            let scope = "retransmits are of the lifetime, warm-up included";
            (!name.is_empty()).then(|| format!("congestion control {name}; {scope}"))
        };
        let (client, server) =
            tcp.map_or((None, None), |t| (t.client.as_ref(), t.server.as_ref()));
        [client, server].map(|side| side.and_then(|tcp| named(&tcp.congestion)))
    }),
    ("wait", |case, sample| {
        let sides = [
            (&sample.engine.client, case.options.client_wait),
            (&sample.engine.server, case.options.server_wait),
        ];
        sides.map(|(engine, wait)| engine.as_ref().map(|engine| waits(wait, engine)))
    }),
    ("cpu", |_, sample| {
        [&sample.cpu.client, &sample.cpu.server].map(|cpu| {
            let cpu = cpu.as_ref()?;
            let why = cpu
                .missing
                .as_deref()
                .map(|why| format!(", no figure: {why}"));
            (!cpu.method.is_empty())
                .then(|| format!("{}{}", method(&cpu.method), why.unwrap_or_default()))
        })
    }),
];

fn of_engines(sample: &Sample, of: impl Fn(&EngineReport) -> String) -> [Option<String>; 2] {
    [&sample.engine.client, &sample.engine.server].map(|engine| {
        let text = of(engine.as_ref()?);
        (!text.is_empty()).then_some(text)
    })
}

fn engine(engine: &EngineReport) -> String {
    let mut text = engine.name.clone();
    if !engine.features.is_empty() {
        text.push_str(&format!(" ({})", engine.features.join(", ")));
    }
    if !engine.reason.is_empty() {
        text.push_str(&format!(": {}", engine.reason));
    }
    text
}

fn zerocopy(report: &ZeroCopyReport) -> String {
    let sends = report.sends;
    match (report.copied, report.completed) {
        (Some(copied), Some(completed)) => {
            format!("{sends} sends, {copied} of {completed} completed ones copied after all")
        }
        _ => format!("{sends} sends, the kernel does not say of what it copies"),
    }
}

fn busy_poll(engine: &EngineReport) -> String {
    let Some(poll) = &engine.busy_poll else {
        return String::new();
    };
    let by = match poll.ring {
        true => "the sockets and the ring",
        false => "the sockets",
    };
    format!(
        "{} us by {by}, for {} of {} flows",
        poll.us, poll.polled_flows, poll.known_flows
    )
}

fn chosen(engine: &EngineReport, depth_given: bool, plain: bool) -> String {
    if plain {
        return "nothing (as an application)".to_string();
    }
    let mut parts = Vec::new();
    if engine.depth > 0 && !depth_given {
        parts.push(format!("{} sends in flight", engine.depth));
    }
    if let Some(bytes) = engine.receive_low_water {
        parts.push(format!("receive low-water mark {}", print_size(bytes)));
    }
    if let Some(us) = engine.min_wait_us {
        parts.push(format!("minimum wait {us} us"));
    }
    if let Some((count, bytes)) = engine.receive_buffers {
        parts.push(format!(
            "{count} receive buffers of {}",
            print_size(u64::from(bytes))
        ));
    }
    parts.join(", ")
}

/// How a side waits and, where it may spin, which part of its workers' time went where.
fn waits(wait: Wait, engine: &EngineReport) -> String {
    let sum = |of: fn(&WorkerTime) -> f64| engine.workers.iter().map(of).sum::<f64>();
    let (spun, worked, slept) = (sum(|t| t.spun_s), sum(|t| t.worked_s), sum(|t| t.slept_s));
    let all = spun + worked + slept;
    if wait == Wait::Sleep || all <= 0.0 {
        return wait.to_string();
    }
    let percent = |part: f64| format!("{:.0} %", part / all * 100.0);
    format!(
        "{wait} (worked {}, spun {}, slept {})",
        percent(worked),
        percent(spun),
        percent(slept)
    )
}

fn method(method: &str) -> &str {
    match method {
        "tick" => "sampled by the tick",
        other => other,
    }
}

/// What is said on a topic: each text once, with the side where the sides differ and the cases
/// where the cases do.
fn topic(run: &Run, of: Topic) -> Vec<String> {
    let mut texts: Vec<(String, Vec<&str>)> = Vec::new();
    let mut cases = 0;
    for case in &run.cases {
        let mut any = false;
        for sample in &case.samples {
            let text = match of(&case.case, sample) {
                [Some(client), Some(server)] if client == server => client,
                [Some(client), Some(server)] => format!("client {client}; server {server}"),
                [Some(client), None] => format!("client {client}"),
                [None, Some(server)] => format!("server {server}"),
                [None, None] => continue,
            };
            any = true;
            let at = texts
                .iter()
                .position(|(known, _)| *known == text)
                .unwrap_or(texts.len());
            if at == texts.len() {
                texts.push((text, Vec::new()));
            }
            if !texts[at].1.contains(&case.case.name.as_str()) {
                texts[at].1.push(&case.case.name);
            }
        }
        cases += usize::from(any);
    }
    let line = |(text, names): (String, Vec<&str>)| match names.len() == cases {
        true => text,
        false => format!("{text} [{}]", names.join("; ")),
    };
    texts.into_iter().map(line).collect()
}

/// Texts of a finding's code, each once.
fn said(run: &Run, code: &str) -> Vec<String> {
    let samples = run.cases.iter().flat_map(|case| &case.samples);
    let all = run
        .findings
        .iter()
        .chain(samples.flat_map(|sample| &sample.findings));
    let mut texts = Vec::new();
    for finding in all.filter(|finding| finding.code == code) {
        if !texts.contains(&finding.text) {
            texts.push(finding.text.clone());
        }
    }
    texts.truncate(1);
    texts
}
