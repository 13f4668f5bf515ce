//! Where the round trip went, with the kernel probes: root only.

mod support;

use std::io::Write;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ringperf::record::{BudgetLine, BudgetStatus, KernelReport, Run, Sample, UnavailableStatus};
use ringperf::sys::affinity;
use support::netns::{Veth, can_make_namespaces};
use support::process::{RINGPERF, Running};
use support::session::{Server, code, document};

/// The probes see the whole system, and what is timed should not be a test beside.
static SERIAL: Mutex<()> = Mutex::new(());
/// How long a run may take on a busy machine.
const AT_MOST: Duration = Duration::from_secs(60);
const SHORT: [&str; 4] = ["--duration", "1s", "--warmup", "200ms"];

fn skip(test: &str, reason: &str) {
    // Without a stderr there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "SKIP {test}: {reason}");
}

fn may_run(test: &str) -> Option<MutexGuard<'static, ()>> {
    let lock = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
    can_make_namespaces(test).then_some(lock)
}

/// Where both sides are.
enum Path {
    /// In one process.
    Loopback,
    /// In one process, which other processes hardly disturb.
    Preferred,
    /// In a namespace each, after a command of `tc` in the client's.
    Veth(Option<&'static str>),
}

/// A run of request-response to its end.
fn run(path: &Path, arguments: &[&str]) -> Run {
    let rr = ["--test", "rr", "--json", "-"];
    let ended = match path {
        Path::Loopback => {
            let all = [&["run"], &rr[..], arguments].concat();
            Running::start(Command::new(RINGPERF).args(all)).ended(AT_MOST)
        }
        Path::Preferred => {
            let all = [&["-f", "1", RINGPERF, "run"], &rr[..], arguments].concat();
            Running::start(Command::new("chrt").args(all)).ended(AT_MOST)
        }
        Path::Veth(shaper) => {
            let veth = Veth::new();
            if let Some(shaper) = shaper {
                veth.client
                    .run("tc", &shaper.split(' ').collect::<Vec<_>>());
            }
            let mut command = veth.server.command(RINGPERF);
            let address = Veth::SERVER4.to_string();
            let server = Server::of(command.args(["serve", "--bind", &address, "--port", "0"]));
            let host = server.host();
            let all = [&["run", &host], &rr[..], arguments].concat();
            veth.client.ringperf(&all).ended(AT_MOST)
        }
    };
    assert_eq!(code(&ended), 0, "{ended:?}");
    document(&ended)
}

fn only(run: &Run) -> &Sample {
    run.cases[0].samples.first().expect("it has a sample")
}

fn client(run: &Run) -> &KernelReport {
    only(run)
        .kernel
        .client
        .as_ref()
        .expect("the client was watched")
}

/// Whether this kernel has every stage program; says why not.
fn has_stages(test: &str, report: &KernelReport) -> bool {
    let Some(first) = report.unavailable.first() else {
        return true;
    };
    assert_ne!(first.status, UnavailableStatus::Failed, "{first:?}");
    skip(test, &format!("{}: {}", first.program, first.text));
    false
}

/// A stage's part of the mean, nanoseconds, both ways together.
fn mean_of(report: &KernelReport, side: &str, stage: &str) -> f64 {
    let same = |line: &&BudgetLine| line.side == side && line.stage == stage;
    let lines = report.budget.iter().filter(same);
    lines.map(|line| line.mean_ns).sum()
}

/// The stages add up to the round trip that the workers measured.
#[track_caller]
fn assert_adds_up(run: &Run, within: f64) {
    let report = client(run);
    let measured = only(run).groups[0].figures.latency_ns.as_ref();
    let measured = measured.expect("latencies").mean;
    let total = report.budget_total.as_ref().expect("a budget");
    // The budget's transactions are those of the histogram, or an even part of them.
    let off = (total.mean_ns / measured - 1.0).abs();
    let may_be_off = if total.flows == 1 { 0.005 } else { within };
    assert!(off < may_be_off, "{} and {measured}", total.mean_ns);
    let sum: f64 = report.budget.iter().map(|line| line.mean_ns).sum();
    let off = (sum / measured - 1.0).abs();
    assert!(off < within, "{sum} of {measured}: {:#?}", report.budget);
    let incomplete = |line: &&BudgetLine| {
        !matches!(line.status, BudgetStatus::Measured | BudgetStatus::Bypassed)
    };
    let incomplete: Vec<_> = report.budget.iter().filter(incomplete).collect();
    assert!(incomplete.is_empty(), "{incomplete:#?}");
}

#[test]
fn the_budget_adds_up() {
    let test = "the_budget_adds_up";
    let Some(_lock) = may_run(test) else {
        return;
    };
    for proto in ["tcp", "udp"] {
        for (flows, within) in [("1", 0.03), ("100", 0.1)] {
            for path in [Path::Loopback, Path::Veth(None)] {
                let arguments = ["--proto", proto, "--flows", flows, "--probes", "on"];
                let run = run(&path, &[&arguments[..], &SHORT].concat());
                if !has_stages(test, client(&run)) {
                    return;
                }
                assert_adds_up(&run, within);
            }
        }
    }
}

/// Plain calls have no batches, and a spinning worker is never woken.
#[test]
fn what_is_not_passed_is_bypassed() {
    let test = "what_is_not_passed_is_bypassed";
    let Some(_lock) = may_run(test) else {
        return;
    };
    let plain = ["--engine", "sockets", "--probes", "on"];
    let run_plain = run(&Path::Loopback, &[&plain[..], &SHORT].concat());
    if !has_stages(test, client(&run_plain)) {
        return;
    }
    assert_adds_up(&run_plain, 0.03);
    let spin = ["--wait", "spin", "--probes", "on"];
    let run = run(&Path::Loopback, &[&spin[..], &SHORT].concat());
    let report = client(&run);
    let seen = |stage: &str| -> u64 {
        let lines = report.budget.iter().filter(|line| line.stage == stage);
        lines.map(|line| line.seen).sum()
    };
    let total = report.budget_total.as_ref().expect("a budget").transactions;
    assert!(seen("wake-up") * 20 <= total, "{:#?}", report.budget);
    assert!(seen("socket-queue") > total, "{:#?}", report.budget);
}

/// Without one program the stages that it bounds are unattributed, no other is, and their time is
/// the rest's.
#[test]
fn without_a_program_exactly_its_stages_are_unattributed() {
    let test = "without_a_program_exactly_its_stages_are_unattributed";
    let Some(_lock) = may_run(test) else {
        return;
    };
    for (tracepoint, lost) in [
        ("tcp_sendmsg_locked", ["stack", "submit"]),
        ("net_dev_queue", ["queue", "stack"]),
        ("net_dev_start_xmit", ["queue", "wire"]),
        ("netif_receive_skb", ["receive", "wire"]),
        ("sched_waking", ["run-queue", "wake-up"]),
    ] {
        let without = ["--probes", "on", "--probes-without", tracepoint];
        // Nothing of BBR's pacing, which is a stage of its own and comes and goes.
        let cubic = ["--congestion", "cubic"];
        let run = run(&Path::Loopback, &[&without[..], &cubic, &SHORT].concat());
        let report = client(&run);
        if !has_stages(test, report) {
            return;
        }
        let unattributed = report.budget.iter().filter(|line| line.seen == 0);
        let unattributed = unattributed.filter(|line| line.status != BudgetStatus::Bypassed);
        let mut names: Vec<&str> = unattributed.map(|line| line.stage.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names, lost, "without {tracepoint}: {:#?}", report.budget);
        let partial = (report.budget.iter()).filter(|l| l.status == BudgetStatus::Partial);
        assert_eq!(partial.count(), 0, "{:#?}", report.budget);
        let total = report.budget_total.as_ref().expect("a budget");
        assert!(total.unattributed_ns > 100.0, "{total:?}");
    }
}

#[test]
fn think_time_is_the_applications() {
    let test = "think_time_is_the_applications";
    let Some(_lock) = may_run(test) else {
        return;
    };
    for proto in ["tcp", "udp"] {
        let think = ["--proto", proto, "--think", "1ms", "--probes", "on"];
        let run = run(&Path::Loopback, &[&think[..], &SHORT].concat());
        let report = client(&run);
        if !has_stages(test, report) {
            return;
        }
        let application = mean_of(report, "server", "application");
        assert!(application > 990_000.0, "{:#?}", report.budget);
        assert_adds_up(&run, 0.03);
    }
}

#[test]
fn a_shaper_is_queueing() {
    let test = "a_shaper_is_queueing";
    let Some(_lock) = may_run(test) else {
        return;
    };
    let shaper = "qdisc add dev veth0 root tbf rate 10mbit burst 2000 limit 100000";
    // A kilobyte takes 0.8 ms.
    let kilobytes = ["--size", "1000", "--congestion", "cubic", "--probes", "on"];
    let arguments = [&kilobytes[..], &SHORT].concat();
    let run = run(&Path::Veth(Some(shaper)), &arguments);
    let report = client(&run);
    if !has_stages(test, report) {
        return;
    }
    let queue = mean_of(report, "client", "queue");
    let total = report.budget_total.as_ref().expect("a budget").mean_ns;
    assert!(
        queue > 300_000.0 && queue > total / 2.0,
        "{:#?}",
        report.budget
    );
    assert!(mean_of(report, "client", "paced") < queue / 100.0);
    assert_adds_up(&run, 0.03);
}

#[test]
fn pacing_is_on_purpose() {
    let test = "pacing_is_on_purpose";
    let Some(_lock) = may_run(test) else {
        return;
    };
    let paced = ["--size", "1000", "--pacing", "10M", "--probes", "on"];
    let cubic = ["--congestion", "cubic"];
    let run = run(&Path::Loopback, &[&paced[..], &cubic, &SHORT].concat());
    let report = client(&run);
    if !has_stages(test, report) {
        return;
    }
    let on_purpose: f64 = (report.budget.iter().filter(|line| line.on_purpose))
        .map(|line| line.mean_ns)
        .sum();
    let queue = mean_of(report, "client", "queue") + mean_of(report, "server", "queue");
    let total = report.budget_total.as_ref().expect("a budget").mean_ns;
    assert!(on_purpose > total / 2.0, "{:#?}", report.budget);
    assert!(queue < on_purpose / 20.0, "{:#?}", report.budget);
    assert_adds_up(&run, 0.03);
}

/// A shell that keeps a CPU busy for some milliseconds now and then, until it is dropped.
fn hog(cpu: u32) -> Running {
    let script = "while :; do i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 0.1; done";
    let cpu = cpu.to_string();
    let mut command = Command::new("chrt");
    command.args(["-f", "2", "taskset", "-c", &cpu, "sh", "-c", script]);
    Running::start(&mut command)
}

/// A busy loop on the server's CPU. Both are real-time threads, so that only the loop is what a
/// worker ever waits for; and paced, so that most of a usual round trip is no wait for a CPU.
#[test]
fn a_busy_cpu_is_the_tails_contributor() {
    let test = "a_busy_cpu_is_the_tails_contributor";
    let Some(_lock) = may_run(test) else {
        return;
    };
    let cpus = affinity::allowed_cpus().expect("CPUs can be listed");
    let [first, .., last] = cpus.as_slice() else {
        return skip(test, "one CPU only");
    };
    let permitted = Command::new("chrt").args(["-f", "1", "true"]).status();
    if !permitted.is_ok_and(|status| status.success()) {
        return skip(test, "real-time threads are not permitted");
    }
    let (client_cpu, server_cpu) = (first.to_string(), last.to_string());
    let place = ["--client-cpus", &client_cpu, "--server-cpus", &server_cpu];
    let hog = hog(*last);
    let long = ["--duration", "3s", "--warmup", "200ms", "--probes", "on"];
    let paced = ["--size", "1000", "--pacing", "20M", "--congestion", "cubic"];
    let run = run(&Path::Preferred, &[&place[..], &long, &paced].concat());
    drop(hog);
    let report = client(&run);
    if !has_stages(test, report) {
        return;
    }
    let tail = report.tail.as_ref().expect("a tail");
    let server = |name: &str| {
        let found = tail.contributors.iter();
        found
            .filter(|one| one.side == "server" && one.stage == name)
            .map(|one| one.tail_share)
            .sum::<f64>()
    };
    assert!(server("run-queue") > 0.5, "{tail:#?}");
    assert!(
        tail.sentence.starts_with("run-queue on the server holds"),
        "{tail:#?}"
    );
    assert!(!report.slow.is_empty());
    for slow in &report.slow {
        let parts: u64 = slow.parts.iter().map(|part| part.ns).sum();
        assert!(parts <= slow.total_ns, "{slow:?}");
    }
}

/// Figures come from samples without stages; a further sample has them, beside.
#[test]
fn auto_adds_a_sample_and_only_is_that_sample() {
    let test = "auto_adds_a_sample_and_only_is_that_sample";
    let Some(_lock) = may_run(test) else {
        return;
    };
    let long = ["--duration", "4s", "--warmup", "100ms", "--samples", "1"];
    let auto = run(&Path::Veth(None), &long);
    let sample = only(&auto);
    assert_eq!(auto.cases[0].samples.len(), 1);
    for report in [&sample.kernel.client, &sample.kernel.server] {
        let report = report.as_ref().expect("slow paths are watched");
        assert!(report.budget.is_empty() && report.stages.is_empty());
        assert!(report.cost.is_some(), "the cost stands in every run");
    }
    let probed = auto.cases[0].probed.as_ref().expect("a further sample");
    assert!(probed.rate_change.is_some() && probed.p50_change_ns.is_some());
    let report = probed.sample.kernel.client.as_ref().expect("watched");
    if !has_stages(test, report) {
        return;
    }
    assert!((probed.sample.duration_s - 1.0).abs() < 0.2);
    assert!(report.budget_total.is_some() && !report.budget.is_empty());

    let only_probed = run(
        &Path::Loopback,
        &[&long[..], &["--probes", "only"]].concat(),
    );
    let result = &only_probed.cases[0];
    assert_eq!(result.samples.len(), 1);
    assert!(result.probed.is_none() && result.case.name.ends_with("probed"));
    assert!((result.samples[0].duration_s - 1.0).abs() < 0.2);
    assert!(!client(&only_probed).budget.is_empty());
}
