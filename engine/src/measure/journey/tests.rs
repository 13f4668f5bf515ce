use ringperf_ebpf::layout::{PACED_BY_QUEUE, Stamp};

use super::*;
use crate::record::{BudgetLine, BudgetStatus};

const TX: [Stamp; 4] = [Stamp::Handed, Stamp::Sent, Stamp::Queued, Stamp::Driven];
const RX: [Stamp; 5] = [
    Stamp::Arrived,
    Stamp::Ready,
    Stamp::Runnable,
    Stamp::Running,
    Stamp::Copied,
];

fn every() -> Vec<Stamp> {
    Stamp::ALL.into_iter().map(|(stamp, _)| stamp).collect()
}

struct Bench {
    stamps: Arc<Stamps>,
    journeys: Journeys,
    udp: bool,
    view: View,
}

impl Bench {
    fn new(view: View, udp: bool, without: Option<Stamp>) -> Bench {
        let known = every().into_iter().filter(|s| Some(*s) != without);
        let stamps = Arc::new(Stamps {
            records: SharedWords::anonymous(4 * RECORD_WORDS).unwrap(),
            workers: SharedWords::anonymous(WORKERS_MAX as usize * WORKER_WORDS).unwrap(),
            known: Known::of(known),
        });
        Bench {
            journeys: Journeys::new(Arc::clone(&stamps), view, udp, 0, (2, 2)),
            stamps,
            udp,
            view,
        }
    }

    fn write(&self, server: bool, stamp: Stamp, at: u64) {
        let word = record_number(1, server) as usize * RECORD_WORDS + stamp as usize;
        self.stamps.records.store(word, at);
    }

    /// A transaction whose stamps are 100 apart but for one that comes later, as all behind it.
    fn transact(&mut self, start: u64, late: Option<(bool, Stamp, u64)>) -> u64 {
        let mut at = start;
        let sides = [(false, &TX[1..], true), (true, &RX[..], false)];
        let back = [(true, &TX[..], true), (false, &RX[..], false)];
        for (server, stamps, _) in sides.into_iter().chain(back) {
            for stamp in stamps {
                at += 100;
                if let Some((side, late, by)) = late
                    && side == server
                    && late == *stamp
                {
                    at += by;
                }
                if !(self.udp && *stamp == Stamp::Sent) {
                    self.write(server, *stamp, at);
                }
            }
        }
        at += 100;
        self.journeys.done(1, start, at);
        at - start
    }

    fn report(self) -> JourneyReport {
        let (view, udp) = (self.view, self.udp);
        report(&self.journeys.into_sums().unwrap(), view, udp, 0)
    }
}

fn with(lines: &[BudgetLine], status: BudgetStatus) -> Vec<String> {
    lines
        .iter()
        .filter(|line| line.status == status)
        .map(|line| format!("{} {}", line.side, line.stage))
        .collect()
}

#[test]
fn every_stage_is_seen_and_they_add_up() {
    for udp in [false, true] {
        let mut bench = Bench::new(View::Whole, udp, None);
        for n in 1..=1000 {
            bench.transact(n * 10_000, None);
        }
        let report = bench.report();
        let sum: f64 = report.budget.iter().map(|line| line.mean_ns).sum();
        assert!((sum - report.total.mean_ns).abs() < 1e-9, "{report:#?}");
        assert!(report.total.unattributed_ns < 1e-9);
        assert_eq!(
            with(&report.budget, BudgetStatus::Bypassed),
            ["server socket-queue", "client socket-queue"]
        );
        assert!(with(&report.budget, BudgetStatus::Unattributed).is_empty());
        assert!(with(&report.budget, BudgetStatus::Partial).is_empty());
        let stack = report.budget.iter().filter(|l| l.stage == "stack").count();
        assert_eq!(stack, if udp { 0 } else { 2 });
    }
}

/// What is lost without one program is the stages that it bounds, and no other; their time is the
/// rest's.
#[test]
fn without_a_stamp_exactly_its_stages_are_unattributed() {
    for (stamp, lost) in [
        (Stamp::Sent, ["submit", "stack"]),
        (Stamp::Queued, ["stack", "queue"]),
        (Stamp::Driven, ["queue", "wire"]),
        (Stamp::Arrived, ["wire", "receive"]),
        (Stamp::Ready, ["receive", "wake-up"]),
        (Stamp::Runnable, ["wake-up", "run-queue"]),
    ] {
        let mut bench = Bench::new(View::Whole, false, Some(stamp));
        for n in 1..=1000 {
            bench.transact(n * 10_000, None);
        }
        let report = bench.report();
        let unattributed = report.budget.iter();
        let mut names: Vec<&str> = unattributed
            .filter(|line| line.status == BudgetStatus::Unattributed)
            .map(|line| line.stage.as_str())
            .collect();
        names.sort_unstable();
        let mut expected = [lost, lost].concat();
        expected.sort_unstable();
        assert_eq!(names, expected, "without {stamp:?}");
        assert!(with(&report.budget, BudgetStatus::Partial).is_empty());
        assert!((report.total.unattributed_ns - 400.0).abs() < 1e-9);
    }
}

#[test]
fn a_stage_that_saw_too_little_is_partial() {
    let mut bench = Bench::new(View::Whole, false, None);
    for n in 1..=1000u64 {
        let start = n * 10_000;
        // The driver's stamp of another message: 2 of 100.
        let late = n.is_multiple_of(50).then_some((false, Stamp::Driven, 0));
        bench.transact(start, late);
    }
    assert!(with(&bench.report().budget, BudgetStatus::Partial).is_empty());
    let mut bench = Bench::new(View::Whole, false, None);
    for n in 1..=1000u64 {
        let start = n * 10_000;
        let end = bench.transact(start, None) + start;
        if n.is_multiple_of(50) {
            bench.write(false, Stamp::Driven, end + 50);
            bench.journeys.done(1, start, end);
        }
    }
    assert_eq!(
        with(&bench.report().budget, BudgetStatus::Partial),
        ["client queue", "between wire"]
    );
}

#[test]
fn stamps_of_another_message_add_nothing() {
    let mut bench = Bench::new(View::Whole, false, None);
    let took = bench.transact(10_000, None);
    // The next one finds the stamps of the one before.
    bench.journeys.done(1, 10_000 + took, 10_000 + took + 500);
    let sums = bench.journeys.into_sums().unwrap();
    assert_eq!(sums.unattributed_ns(), 500);
}

#[test]
fn pacing_is_not_the_queue() {
    let queue = |lines: &[BudgetLine], name: &str| -> f64 {
        let client = lines.iter().filter(|l| l.side == "client");
        client.filter(|l| l.stage == name).map(|l| l.mean_ns).sum()
    };
    // By TCP itself, and by the discipline.
    for late in [Stamp::Queued, Stamp::Driven] {
        let mut bench = Bench::new(View::Whole, false, None);
        let start = 10_000;
        let departs = start + if late == Stamp::Queued { 5150 } else { 5250 };
        bench.write(false, Stamp::Paced, departs);
        bench.transact(start, Some((false, late, 5000)));
        let report = bench.report();
        assert!(queue(&report.budget, "paced") > 4900.0, "{report:#?}");
        assert!(queue(&report.budget, "queue") + queue(&report.budget, "stack") < 300.0);
        assert!(report.total.unattributed_ns < 1e-9);
        assert!(
            report
                .budget
                .iter()
                .any(|l| l.on_purpose && l.mean_ns > 0.0)
        );
    }
    let mut bench = Bench::new(View::Whole, true, None);
    bench.write(false, Stamp::Paced, PACED_BY_QUEUE);
    bench.transact(10_000, Some((false, Stamp::Driven, 5000)));
    let report = bench.report();
    assert!(queue(&report.budget, "paced") > 4900.0);
    assert!(queue(&report.budget, "queue") < 1e-9);
}

#[test]
fn a_worker_that_runs_and_one_that_gave_way_wait_in_the_sockets_queue() {
    let mut bench = Bench::new(View::Whole, false, None);
    let end = bench.transact(10_000, None) + 10_000;
    // Running since before: neither woken nor waiting for its turn.
    for server in [false, true] {
        bench.write(server, Stamp::Running, 9000);
    }
    bench.journeys.done(1, 10_000, end);
    let sums = bench.journeys.into_sums().unwrap();
    let queue = Stage::of(Way::Request, Step::SocketQueue);
    let copy = Stage::of(Way::Request, Step::Copy);
    assert_eq!(sums.stages[queue.index()].sum_ns, 300);
    assert_eq!(sums.stages[copy.index()].bypassed, 1);
    let mut bench = Bench::new(View::Whole, false, None);
    let end = bench.transact(10_000, None) + 10_000;
    for server in [false, true] {
        let word = record_number(1, server) as usize * RECORD_WORDS + Stamp::Runnable as usize;
        let runnable = bench.stamps.records.load(word);
        bench.write(server, Stamp::Runnable, runnable | 1);
    }
    bench.journeys.done(1, 10_000, end);
    let sums = bench.journeys.into_sums().unwrap();
    let wake = Stage::of(Way::Request, Step::WakeUp);
    assert_eq!(sums.stages[queue.index()].seen, 1);
    assert_eq!(sums.stages[wake.index()].bypassed, 1);
}

#[test]
fn two_processes_have_a_half_each() {
    let mut bench = Bench::new(View::Client, false, None);
    for n in 1..=100 {
        bench.transact(n * 10_000, None);
    }
    let client = bench.report();
    assert!(client.budget.iter().all(|line| line.side != "server"));
    let elsewhere = client.budget.iter().find(|l| l.side == "between");
    assert_eq!(
        elsewhere.map(|l| l.stage.as_str()),
        Some("network-and-server")
    );
    assert!(client.total.unattributed_ns < 1e-9);

    let mut bench = Bench::new(View::Server, false, None);
    for n in 1..=100u64 {
        bench.transact_server(n * 10_000);
    }
    let server = bench.report();
    // The last answer's way is not known before the next request.
    assert_eq!(server.total.transactions, 99);
    assert!(server.budget.iter().all(|line| line.side == "server"));
    assert!(server.total.unattributed_ns < 1e-9 && server.total.mean_ns > 0.0);
}

impl Bench {
    /// The server's half: a request arrives, the worker sees it, and answers.
    fn transact_server(&mut self, start: u64) {
        let mut at = start;
        for stamp in RX {
            at += 100;
            self.write(true, stamp, at);
        }
        self.journeys.asked(0, 1, at + 50);
        for stamp in TX {
            at += 100;
            self.write(true, stamp, at);
        }
    }
}

#[test]
fn a_sending_call_of_its_own_needs_no_batch() {
    let mut bench = Bench::new(View::Whole, false, None);
    let end = bench.transact(10_000, None) + 10_000;
    bench.write(true, Stamp::Handed, 1);
    bench.journeys.done(1, 10_000, end);
    let sums = bench.journeys.into_sums().unwrap();
    let submit = Stage::of(Way::Response, Step::Submit);
    assert_eq!(sums.stages[submit.index()].bypassed, 1);
    assert_eq!(sums.stages[Stage::APPLICATION.index()].seen, 2);
    assert_eq!(sums.unattributed_ns(), 0);
}

#[test]
fn one_delay_is_the_contributor() {
    let mut bench = Bench::new(View::Whole, false, None);
    for n in 1..=20_000u64 {
        let late = (true, Stamp::Running, 100_000);
        bench.transact(n * 1_000_000, n.is_multiple_of(150).then_some(late));
    }
    let report = bench.report();
    let tail = report.tail.unwrap();
    assert!(
        tail.sentence.starts_with("run-queue on the server holds"),
        "{tail:#?}"
    );
    let column: f64 = report.budget.iter().filter_map(|l| l.tail_ns).sum();
    assert!((column + tail.unattributed_ns - tail.mean_ns).abs() < 1.0);
    assert!(
        report.slow[0]
            .parts
            .iter()
            .any(|p| p.stage == "run-queue" && p.ns > 100_000)
    );
}

/// Percentiles of the stages would put both delays into one column; whole transactions do not.
#[test]
fn two_delays_that_never_coincide_are_named_separately() {
    let mut bench = Bench::new(View::Whole, false, None);
    for n in 1..=20_000u64 {
        let late = match n % 200 {
            0 => Some((true, Stamp::Running, 1_000_000)),
            100 => Some((false, Stamp::Driven, 1_000_000)),
            _ => None,
        };
        bench.transact(n * 1_000_000, late);
    }
    let tail = bench.report().tail.unwrap();
    assert!(
        tail.sentence.starts_with("no single contributor"),
        "{tail:#?}"
    );
    for name in [
        "run-queue on the server in 50 %",
        "queue on the client in 50 %",
    ] {
        assert!(tail.sentence.contains(name), "{}", tail.sentence);
    }
    let shares: f64 = tail.contributors.iter().map(|c| c.main_delay_share).sum();
    assert!((shares - 1.0).abs() < 1e-9);
}

/// What is always slow explains no tail.
#[test]
fn what_is_always_slow_is_no_contributor() {
    let mut bench = Bench::new(View::Whole, false, None);
    for n in 1..=20_000u64 {
        let more = if n.is_multiple_of(150) {
            2_000_000
        } else {
            1_500_000
        };
        bench.transact(n * 3_000_000, Some((true, Stamp::Handed, more)));
    }
    let tail = bench.report().tail.unwrap();
    assert!(
        tail.sentence.starts_with("no single contributor"),
        "{tail:#?}"
    );
}

#[test]
fn a_part_of_many_flows_is_followed_on_every_worker() {
    for flows in [1, 2, 16] {
        assert!((0..flows).all(|flow| is_followed(flow, flows)));
    }
    for flows in [17, 100, 1000, 100_000] {
        let followed: Vec<u32> = (0..flows).filter(|f| is_followed(*f, flows)).collect();
        assert!((12..=20).contains(&followed.len()), "{flows}: {followed:?}");
        for workers in [2, 3, 4] {
            for worker in 0..workers {
                let own = followed.iter().filter(|flow| *flow % workers == worker);
                assert!(own.count() > 0, "{flows} {workers}: {followed:?}");
            }
        }
    }
}

#[test]
fn flows_that_are_not_followed_do_not_count() {
    let stamps = Bench::new(View::Whole, false, None).stamps;
    let mut journeys = Journeys::new(stamps, View::Whole, false, 0, (100, 100));
    (0..100).for_each(|flow| journeys.done(flow, 1, 2));
    let followed = (0..100).filter(|flow| is_followed(*flow, 100)).count();
    assert_eq!(journeys.into_sums().unwrap().total.seen, followed as u64);
}

/// The batch of an engine that sends at once is each answer, not what it waits with.
#[test]
fn one_word_says_when_answers_were_given_to_the_kernel() {
    let slot = worker_number(0, true) as usize * WORKER_WORDS + WORKER_HANDED;
    let stamps = Bench::new(View::Server, false, None).stamps;
    let journeys = || Journeys::new(Arc::clone(&stamps), View::Server, false, 0, (2, 2));
    journeys().handed(7);
    journeys().answering();
    assert_eq!(stamps.workers.load(slot), 7);
    journeys().sending_at_once(true).handed(9);
    assert_eq!(stamps.workers.load(slot), 7);
    journeys().sending_at_once(true).answering();
    assert!(stamps.workers.load(slot) > 9);
    let asks = Journeys::new(Arc::clone(&stamps), View::Client, false, 0, (2, 2));
    asks.handed(11);
    let own = worker_number(0, false) as usize * WORKER_WORDS + WORKER_HANDED;
    assert_eq!(stamps.workers.load(own), 0);
}
