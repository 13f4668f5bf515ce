//! What the workers of one side left behind, as that side's report.

use std::collections::BTreeMap;

use crate::measure::netstat::NetCounters;
use crate::measure::recorder::Counted;
use crate::measure::tcp::TcpFold;
use crate::plan::{Case, Load, Proto};
use crate::record::{
    Counters, CpuReport, EngineReport, Finding, FlowReport, GroupReport, Interval, Severity,
    SideReport, Transactions, UdpFlow, UdpReport, ZeroCopyReport,
};
use crate::worker::{FlowOutcome, Role, WorkerOutcome};

use super::collect::{GroupHistograms, text};
use super::effects;

/// Everything that is known when a sample ends on one side.
pub(super) struct Ending<'a> {
    pub(super) case: &'a Case,
    pub(super) start_ns: u64,
    pub(super) outcomes: Vec<WorkerOutcome>,
    /// Why it is the engine that it is.
    pub(super) engine_reason: String,
    pub(super) histograms: &'a [GroupHistograms],
    pub(super) cpu: Option<CpuReport>,
    pub(super) net: Option<NetCounters>,
    pub(super) findings: Vec<Finding>,
    pub(super) failed: bool,
    pub(super) kernel: Option<crate::record::KernelReport>,
    pub(super) client: bool,
}

/// The report of one side.
pub(super) fn report(mut ending: Ending<'_>) -> SideReport {
    let window_ns = window_ns(&ending);
    let groups = (0..ending.case.groups.len())
        .map(|g| group(&ending, g, window_ns))
        .collect::<Vec<_>>();
    let intervals = intervals(&ending, window_ns);
    let cpu = ending.cpu.take().map(|cpu| with_workers(cpu, &ending));
    let findings = findings(&mut ending);
    let whole = ending
        .case
        .duration_ns()
        .is_none_or(|planned| window_ns >= planned);
    SideReport {
        window_ns,
        complete: whole && !ending.failed && !ending.outcomes.is_empty(),
        groups,
        intervals,
        flows: flows(&ending),
        cpu,
        engine: engine(&ending),
        kernel: ending.kernel.take(),
        findings,
    }
}

/// The window's length by this side's clock: between its marks, or, where a count ends the
/// sample, from the start to the last that came or went.
fn window_ns(ending: &Ending<'_>) -> u64 {
    let marks = ending.outcomes.iter().filter_map(|o| o.remains.marks);
    let between = marks
        .map(|m| m.t1_ns.saturating_sub(m.t0_ns))
        .max()
        .unwrap_or(0);
    let groups = 0..ending.case.groups.len();
    let own = groups.filter_map(|g| group_bounds(ending, g));
    own.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
        .map_or(between, |(first, last)| last - first)
}

/// Where a count ends the sample, when a group's traffic began and ended on this side.
fn group_bounds(ending: &Ending<'_>, g: usize) -> Option<(u64, u64)> {
    if ending.case.duration_ns().is_some() {
        return None;
    }
    let groups = ending.outcomes.iter().filter_map(|o| o.groups.get(g));
    let (first, last) = groups
        .filter_map(|group| group.span.bounds())
        .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
    let first = first.min(ending.start_ns);
    Some((first, last.max(first)))
}

/// Length of a group's own window, where it has one.
fn group_window_ns(ending: &Ending<'_>, g: usize) -> Option<u64> {
    group_bounds(ending, g).map(|(first, last)| last - first)
}

fn of_group<'a>(ending: &'a Ending<'_>, g: usize) -> impl Iterator<Item = &'a FlowOutcome> {
    ending
        .outcomes
        .iter()
        .flat_map(|o| &o.flows)
        .filter(move |f| f.group as usize == g)
}

fn group(ending: &Ending<'_>, g: usize, window_ns: u64) -> GroupReport {
    let (mut window, mut lifetime) = (Counters::default(), Counters::default());
    for flow in of_group(ending, g) {
        window.add(&flow.window);
        lifetime.add(&flow.lifetime);
    }
    let asks = of_group(ending, g).any(|f| f.role.asks());
    let streams = |f: &FlowOutcome| matches!(f.role, Role::StreamSend | Role::StreamReceive);
    let histograms = &ending.histograms[g];
    let all = [&histograms.latency, &histograms.connect, &histograms.lag];
    let paced = of_group(ending, g).any(|f| f.role.paced());
    let own_ns = group_window_ns(ending, g);
    let window_ns = own_ns.unwrap_or(window_ns);
    GroupReport {
        window,
        lifetime,
        window_ns: own_ns,
        due: paced.then(|| due(ending, g)),
        transactions: asks.then(|| transactions(ending, g, true, window_ns)),
        lifetime_transactions: asks.then(|| transactions(ending, g, false, window_ns)),
        latency: text(&histograms.latency),
        connect: text(&histograms.connect),
        lag: text(&histograms.lag),
        histogram_out_of_range: all.into_iter().flatten().map(|r| r.out_of_range()).sum(),
        censored_min_ns: ending
            .outcomes
            .iter()
            .filter_map(|o| o.groups.get(g).and_then(|group| group.censored_min_ns))
            .min(),
        udp: udp(ending, g),
        udp_flows: udp_flows(ending, g),
        tcp: tcp(ending, g),
        queued_bytes: of_group(ending, g)
            .filter(|f| !f.ended)
            .map(|f| f.queued_bytes)
            .sum(),
        drained: of_group(ending, g).filter(|f| streams(f)).all(|f| f.ended),
        corrupt_bytes: ending
            .case
            .options
            .verify
            .then(|| of_group(ending, g).map(|f| f.corrupt_bytes).sum()),
        offered_per_second: offered(ending.case).filter(|_| paced),
    }
}

/// What the schedule meant for the window.
fn due(ending: &Ending<'_>, g: usize) -> u64 {
    let groups = ending.outcomes.iter().filter_map(|o| o.groups.get(g));
    groups.map(|group| group.due).sum()
}

fn offered(case: &Case) -> Option<f64> {
    match case.load {
        Load::Closed => None,
        Load::Rate { per_second } => Some(per_second),
        Load::Bitrate { bits_per_second } => {
            Some(bits_per_second as f64 / 8.0 / case.request_bytes.max(1) as f64)
        }
    }
}

fn transactions(ending: &Ending<'_>, g: usize, window: bool, window_ns: u64) -> Transactions {
    let mut sum = Transactions::default();
    for outcome in &ending.outcomes {
        let totals = &outcome.groups[g].totals;
        sum.add(if window {
            &totals.window
        } else {
            &totals.lifetime
        });
    }
    if window && window_ns > 0 {
        sum.per_second = sum.completed as f64 * 1e9 / window_ns as f64;
    }
    sum
}

fn udp(ending: &Ending<'_>, g: usize) -> Option<UdpReport> {
    let headers = ending.outcomes.iter().any(|o| o.choices.headers);
    let mut receivers = of_group(ending, g)
        .filter(|f| matches!(f.role, Role::DatagramReceive | Role::DatagramAnswer))
        .peekable();
    receivers.peek()?;
    let (mut drops, mut buffer, mut jitters) = (0, None, Vec::new());
    for flow in receivers {
        if let Some(memory) = flow.socket_memory {
            drops += u64::from(memory.drops);
            buffer = Some(u64::from(memory.receive_buffer));
        }
        jitters.extend(flow.jitter_ns);
    }
    let options = &ending.case.options;
    let alone = options.gso.is_none() && !options.gro;
    let jitter_ns =
        (alone && !jitters.is_empty()).then(|| jitters.iter().sum::<f64>() / jitters.len() as f64);
    let jitter_missing = match (&jitter_ns, &ending.case.load) {
        (Some(_), _) => None,
        (None, _) if options.gso.is_some() => {
            Some("datagrams of one send share their stamp (--gso)".to_string())
        }
        (None, _) if options.gro => {
            Some("merged datagrams share their receive time (--gro)".to_string())
        }
        (None, Load::Closed) => Some("the traffic is not paced".to_string()),
        (None, _) if !headers => Some("the datagrams have no room for a stamp".to_string()),
        (None, _) => Some("no two datagrams of a flow had a kernel receive time".to_string()),
    };
    Some(UdpReport {
        mode: if headers { "full" } else { "counts" }.to_string(),
        jitter_ns,
        jitter_missing,
        socket_drops: Some(drops),
        arrived: headers.then(|| of_group(ending, g).map(|f| f.arrived).sum()),
        receive_buffer_bytes: buffer,
        segments_per_send: ending.case.options.gso,
        receive_operations: Some(ending.outcomes.iter().map(|o| o.receive_operations).sum()),
        ..UdpReport::default()
    })
}

fn udp_flows(ending: &Ending<'_>, g: usize) -> Vec<UdpFlow> {
    let streams = |f: &&FlowOutcome| {
        matches!(f.role, Role::DatagramSend)
            || (f.role == Role::DatagramReceive && f.account.is_some())
    };
    let mut flows: Vec<UdpFlow> = of_group(ending, g).filter(streams).map(udp_flow).collect();
    flows.sort_by_key(|f| f.flow);
    flows
}

fn udp_flow(flow: &FlowOutcome) -> UdpFlow {
    let account = flow.account.unwrap_or_default();
    UdpFlow {
        flow: flow.flow,
        window_sent: flow.phase_sent[1],
        lifetime_sent: flow.phase_sent.iter().sum(),
        sent: flow.phase_sent,
        highest: account.highest,
        received: account.received,
        gaps: account.gaps,
        duplicated: account.duplicated,
        reordered: account.reordered,
        late: account.late,
        extent_max: account.extent_max,
    }
}

fn tcp(ending: &Ending<'_>, g: usize) -> Option<crate::record::TcpReport> {
    if ending.case.proto != Proto::Tcp {
        return None;
    }
    let mut fold = TcpFold::new();
    for flow in of_group(ending, g) {
        if let Some(sample) = &flow.tcp {
            fold.add(sample);
        }
    }
    let mut report = fold.report()?;
    report.queued_at_close = of_group(ending, g).map(|f| f.queued_bytes).sum();
    report.syn_retransmits = ending.net.as_ref().and_then(|net| net.tcp_syn_retransmits);
    Some(report)
}

fn intervals(ending: &Ending<'_>, window_ns: u64) -> Vec<Interval> {
    let step = ending.case.interval_ns.max(1);
    let mut rows: BTreeMap<(u64, u32), Counted> = BTreeMap::new();
    for outcome in &ending.outcomes {
        for (index, groups) in outcome.remains.intervals.iter().enumerate() {
            for (g, counted) in groups.iter().enumerate() {
                rows.entry((index as u64, g as u32))
                    .or_default()
                    .add(counted);
            }
        }
    }
    let own = |group: u32| group_window_ns(ending, group as usize).unwrap_or(window_ns);
    let interval = |((index, group), counted): ((u64, u32), Counted)| {
        let start = index * step;
        let length = step.min(own(group).saturating_sub(start));
        Interval {
            index,
            group,
            start_s: start as f64 / 1e9,
            length_s: length as f64 / 1e9,
            counters: counted.counters,
            transactions: counted.transactions,
            completed: counted.completed,
        }
    };
    // Where a count ends the sample, the stop comes a little after the last arrival.
    let behind = |row: &((u64, u32), Counted)| {
        let ((index, group), counted) = row;
        index * step >= own(*group) && *counted == Counted::default()
    };
    rows.into_iter()
        .filter(|row| !behind(row))
        .map(interval)
        .collect()
}

fn flows(ending: &Ending<'_>) -> Vec<FlowReport> {
    // What accepts takes any connection of crr: it is no flow that the other side knows.
    let mut all: Vec<FlowReport> = ending
        .outcomes
        .iter()
        .flat_map(|o| o.flows.iter().map(move |f| (o.worker, f)))
        .filter(|(_, f)| f.role != Role::Accepted)
        .map(|(worker, f)| flow(worker, f))
        .collect();
    all.sort_by_key(|f| (f.group, f.flow));
    all
}

fn flow(worker: u32, flow: &FlowOutcome) -> FlowReport {
    let address = |a: &Option<std::net::SocketAddr>| a.map(|a| a.to_string()).unwrap_or_default();
    FlowReport {
        group: flow.group,
        flow: flow.flow,
        worker,
        local: address(&flow.local),
        peer: address(&flow.peer),
        window: flow.window,
        lifetime: flow.lifetime,
        transactions: flow.transactions,
        retransmits: flow.tcp.as_ref().map(|t| u64::from(t.total_retrans)),
        rtt_us: flow.tcp.as_ref().map(|t| u64::from(t.rtt_us)),
        mss: flow.tcp.as_ref().map(|t| t.snd_mss),
        receive_cpu: flow.receive_cpu,
    }
}

fn with_workers(mut cpu: CpuReport, ending: &Ending<'_>) -> CpuReport {
    let spins = ending
        .outcomes
        .iter()
        .any(|o| o.choices.wait == crate::plan::Wait::Spin);
    cpu.spinning |= spins;
    if !spins {
        cpu.worker_user_s = Some(ending.outcomes.iter().map(|o| o.cpu_time.0).sum());
        cpu.worker_system_s = Some(ending.outcomes.iter().map(|o| o.cpu_time.1).sum());
    }
    cpu
}

fn engine(ending: &Ending<'_>) -> EngineReport {
    let Some(first) = ending.outcomes.first() else {
        return EngineReport::default();
    };
    let sum = |of: fn(&WorkerOutcome) -> u64| ending.outcomes.iter().map(of).sum::<u64>();
    EngineReport {
        name: first.stats.name.to_string(),
        features: first.stats.features.clone(),
        reason: ending.engine_reason.clone(),
        depth: first.choices.depth,
        receive_low_water: low_water(&ending.outcomes),
        min_wait_us: first
            .choices
            .min_wait_us
            .filter(|_| effects::in_force(first, "min_wait")),
        receive_buffers: first.choices.receive_buffers(),
        buffers_exhausted: sum(|o| o.stats.buffers_exhausted),
        zerocopy: zerocopy(&ending.outcomes),
        cq_overflows: sum(|o| o.stats.overflows),
        enters: sum(|o| o.stats.enters),
        completions: sum(|o| o.stats.completions),
        worker_cpus: ending.outcomes.iter().map(|o| o.cpu).collect(),
        busy_poll: effects::busy_poll(&ending.outcomes),
        workers: ending.outcomes.iter().map(|o| o.time).collect(),
    }
}

/// The highest receive low-water mark, where it was set or adapted.
fn low_water(outcomes: &[WorkerOutcome]) -> Option<u64> {
    let chosen = |o: &&WorkerOutcome| o.choices.low_water || o.choices.fixed_low_water.is_some();
    let marks = outcomes.iter().filter(chosen);
    marks.map(|o| u64::from(o.low_water())).max()
}

/// The sends without copies of all workers. What one of them was not told is unknown of all.
fn zerocopy(outcomes: &[WorkerOutcome]) -> Option<ZeroCopyReport> {
    let both = |a: Option<u64>, b: Option<u64>| Some(a? + b?);
    outcomes
        .iter()
        .filter_map(|outcome| outcome.stats.zerocopy)
        .map(|stats| ZeroCopyReport {
            sends: stats.sends,
            completed: stats.completed,
            copied: stats.copied,
        })
        .reduce(|a, b| ZeroCopyReport {
            sends: a.sends + b.sends,
            completed: both(a.completed, b.completed),
            copied: both(a.copied, b.copied),
        })
}

fn findings(ending: &mut Ending<'_>) -> Vec<Finding> {
    let mut findings = std::mem::take(&mut ending.findings);
    let side = if ending.client { "client" } else { "server" };
    for outcome in &ending.outcomes {
        if let Some(error) = &outcome.error {
            let text = format!("worker {} of the {side}: {error}", outcome.worker);
            findings.push(Finding::new(Severity::Error, "engine-failed", text));
        }
    }
    let ports: u64 = ending.outcomes.iter().map(|o| o.ports_exhausted).sum();
    if ports > 0 {
        let text = format!(
            "{ports} connections of the {side} found no free source port: TIME_WAIT or another \
             program holds them (widen net.ipv4.ip_local_port_range, add addresses, or use \
             --close rst)"
        );
        findings.push(Finding::new(Severity::Warning, "ports-exhausted", text));
    }
    let unanswered: u64 = ending.outcomes.iter().map(|o| o.unanswered).sum();
    if unanswered > 0 {
        let text = format!(
            "the {side} dropped {unanswered} requests, since more waited for their answers than \
             the depth allows: the client gives them up faster than --think lets them be answered"
        );
        findings.push(Finding::new(Severity::Warning, "requests-dropped", text));
    }
    let forgotten: u64 = ending.outcomes.iter().map(|o| o.forgotten).sum();
    if forgotten > 0 {
        let text = format!(
            "{forgotten} requests of the {side} were given up and forgotten before an answer \
             came, since their numbers are cut to fit the datagrams: an answer that comes yet \
             counts as a newer request's; use datagrams of 8 bytes or more, or a longer --timeout"
        );
        findings.push(Finding::new(Severity::Warning, "numbers-reused", text));
    }
    findings.extend(effects::findings(ending, side));
    let probes = ending.kernel.iter().flat_map(|kernel| &kernel.findings);
    findings.extend(probes.map(|finding| Finding {
        text: format!("on the {side}: {}", finding.text),
        ..finding.clone()
    }));
    if let Some(net) = &ending.net {
        findings.extend(net_findings(ending, net, side));
    }
    findings
}

fn net_findings(ending: &Ending<'_>, net: &NetCounters, side: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let sent: u64 = ending
        .outcomes
        .iter()
        .flat_map(|o| &o.flows)
        .map(|f| f.lifetime.sent_messages)
        .sum();
    let fragments = net.fragments_created.unwrap_or(0);
    if ending.case.proto == Proto::Udp && fragments > 0 && sent > 0 {
        let text = format!(
            "datagrams of the {side} were fragmented: {:.1} fragments per datagram",
            fragments as f64 / sent as f64
        );
        findings.push(Finding::new(Severity::Warning, "fragmented", text));
    }
    let crr = ending.case.test == crate::plan::Test::Crr;
    if crr && net.tcp_syn_retransmits.unwrap_or(0) > 0 {
        let text = format!(
            "{} SYN retransmissions on the {side}: their connect times contain the \
             retransmission time-out",
            net.tcp_syn_retransmits.unwrap_or(0)
        );
        findings.push(Finding::new(Severity::Warning, "syn-retransmits", text));
    }
    if crr && net.listen_overflows.unwrap_or(0) > 0 {
        let text = format!(
            "{} connections found the {side}'s listen queue full (net.core.somaxconn)",
            net.listen_overflows.unwrap_or(0)
        );
        findings.push(Finding::new(Severity::Warning, "listen-overflows", text));
    }
    findings
}
