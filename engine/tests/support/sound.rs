//! What every sample of a normal run must satisfy, checked on the document.

use std::time::Duration;

use ringperf::plan::{Case, Direction, Limit, Proto, Traffic};
use ringperf::record::{
    Amount, Counters, Figures, Finding, Group, Interval, Run, Sample, SampleFlow, Severity, read,
};

use super::process::{Ended, Running};

/// Waits for `ringperf run --json -` and reads its document; panics where it did not end as
/// expected or wrote anything but one document.
pub fn document(client: Running, at_most: Duration, exit_code: i32) -> Run {
    let ended = client.ended(at_most);
    document_of(&ended, exit_code)
}

/// The document of a run that has ended.
pub fn document_of(ended: &Ended, exit_code: i32) -> Run {
    let run = read(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"));
    assert_eq!(
        ended.status.code(),
        Some(exit_code),
        "{}\n{:#?}\n{:#?}",
        ended.stderr,
        run.error,
        findings(&run)
    );
    run
}

/// All findings, of the run and of its samples.
pub fn findings(run: &Run) -> Vec<Finding> {
    let samples = run.cases.iter().flat_map(|case| &case.samples);
    let of_samples = samples.flat_map(|sample| sample.findings.iter().cloned());
    run.findings.iter().cloned().chain(of_samples).collect()
}

/// The finding with a code, where a sample has it.
pub fn finding<'a>(sample: &'a Sample, code: &str) -> Option<&'a Finding> {
    sample.findings.iter().find(|finding| finding.code == code)
}

/// The only sample of the only case.
pub fn only(run: &Run) -> (&Case, &Sample) {
    let [case] = run.cases.as_slice() else {
        panic!("{} cases", run.cases.len());
    };
    let [sample] = case.samples.as_slice() else {
        panic!("{} samples of {}", case.samples.len(), case.case.name);
    };
    (&case.case, sample)
}

/// The figures of a sample with one group.
pub fn figures(sample: &Sample) -> &Figures {
    sample.figures.as_ref().expect("one group")
}

/// Every sample of a run that ended well: complete, reconciled, its parts adding up to its sums.
/// `samples` is how many there must be.
pub fn assert_sound(run: &Run, samples: usize) {
    assert!(run.complete, "{:?}", run.error);
    assert_eq!(run.error, None);
    let all: Vec<_> = run
        .cases
        .iter()
        .flat_map(|case| case.samples.iter().map(|sample| (&case.case, sample)))
        .collect();
    assert_eq!(all.len(), samples, "samples");
    for (case, sample) in all {
        assert_sample(case, sample);
    }
}

/// On a path that neither copies nor reorders only this program could do so.
pub fn assert_in_order(run: &Run) {
    for case in &run.cases {
        let groups = case.samples.iter().flat_map(|sample| &sample.groups);
        for udp in groups.filter_map(|group| group.figures.udp.as_ref()) {
            let harmless = udp.duplicated.unwrap_or(0) + udp.reordered.unwrap_or(0);
            assert_eq!(
                harmless + udp.late.unwrap_or(0),
                0,
                "{}: {udp:?}",
                case.case.name
            );
        }
    }
}

/// A sample that ended well.
pub fn assert_sample(case: &Case, sample: &Sample) {
    let name = &case.name;
    let wrong: Vec<_> = sample
        .findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error)
        .collect();
    assert!(wrong.is_empty(), "{name}: {wrong:#?}");
    assert_eq!(sample.error, None, "{name}");
    assert!(sample.complete, "{name} is not complete");
    assert_eq!(sample.groups.len(), case.groups.len(), "{name}: groups");
    for (index, group) in sample.groups.iter().enumerate() {
        let checked = Checked {
            case,
            sample,
            group,
            index: index as u32,
        };
        checked.lifetime();
        checked.something_moved();
        checked.intervals();
        checked.flows();
        checked.window();
    }
}

struct Checked<'a> {
    case: &'a Case,
    sample: &'a Sample,
    group: &'a Group,
    index: u32,
}

impl Checked<'_> {
    fn name(&self) -> String {
        format!("{}, group {}", self.case.name, self.index)
    }

    fn counts_small(&self) -> bool {
        self.case.proto == Proto::Udp
            && self.group.traffic == Traffic::Stream
            && self.case.request_bytes < 24
    }

    /// Sent = received + lost + in flight, and no more received than sent.
    fn lifetime(&self) {
        let (name, terms) = (self.name(), &self.group.figures.reconciliation);
        assert!(terms.reconciled, "{name}: {terms:?}");
        assert!(terms.received <= terms.sent, "{name}: {terms:?}");
        let Some(lost) = terms.lost else {
            let bytes = terms.unit == "bytes";
            assert!(bytes || self.counts_small(), "{name}: {terms:?}");
            return;
        };
        let ended = terms.received + lost + terms.in_flight;
        if terms.unit == "bytes" && terms.in_flight > 0 {
            // The two queues are read at two instants: what arrived in between is in both.
            assert!(terms.sent <= ended, "{name}: {terms:?}");
        } else {
            assert_eq!(terms.sent, ended, "{name}: {terms:?}");
        }
    }

    fn something_moved(&self) {
        let figures = &self.group.figures;
        assert!(figures.sent.bytes > 0, "{}: sent nothing", self.name());
        assert!(figures.received.bytes > 0, "{}: no arrival", self.name());
        assert!(figures.throughput_bps > 0.0, "{}: no rate", self.name());
    }

    /// Both sides' intervals: without a gap, as long as asked for, adding up to the window.
    fn intervals(&self) {
        let sides = &self.sample.intervals;
        let sums = [&sides.client, &sides.server].map(|all| self.sum_of(all));
        let [client, server] = sums;
        let (from, to) = match self.group.direction {
            Direction::ClientToServer => (client, server),
            Direction::ServerToClient => (server, client),
        };
        self.assert_window("intervals", from, to);
        if let Some(transactions) = &self.group.figures.transactions {
            let all = sides.client.iter().filter(|i| i.group == self.index);
            let done: u64 = all.map(|interval| interval.transactions).sum();
            assert_eq!(done, transactions.done, "{}: intervals", self.name());
        }
    }

    /// Two sides' counts against the window's: a stream's sender and receiver, or both sides of
    /// request and response together.
    fn assert_window(&self, what: &str, from: Counters, to: Counters) {
        let (name, figures) = (self.name(), &self.group.figures);
        let messages = |amount: &Amount| amount.messages.unwrap_or(0);
        let got = match self.group.traffic {
            Traffic::Stream => (
                (from.sent_bytes, from.sent_messages),
                (to.received_bytes, to.received_messages),
            ),
            Traffic::Rr | Traffic::Crr => (
                (
                    from.sent_bytes + to.sent_bytes,
                    from.sent_messages + to.sent_messages,
                ),
                (
                    from.received_bytes + to.received_bytes,
                    from.received_messages + to.received_messages,
                ),
            ),
        };
        let (sent, received) = (&figures.sent, &figures.received);
        let expected = (
            (sent.bytes, messages(sent)),
            (received.bytes, messages(received)),
        );
        assert_eq!(got, expected, "{name}: {what} against the window");
    }

    fn sum_of(&self, intervals: &[Interval]) -> Counters {
        let mut sum = Counters::default();
        let mut length_s = 0.0;
        let step_s = self.case.interval_ns as f64 / 1e9;
        let own: Vec<_> = intervals.iter().filter(|i| i.group == self.index).collect();
        for (at, interval) in own.iter().enumerate() {
            assert_eq!(interval.index, at as u64, "{}: {own:?}", self.name());
            let whole = (interval.length_s - step_s).abs() < 1e-9;
            let last = at + 1 == own.len();
            assert!(whole || last, "{}: {own:?}", self.name());
            length_s += interval.length_s;
            sum.add(&interval.counters);
        }
        if let Limit::Duration { ns } = self.case.limit {
            let planned_s = ns as f64 / 1e9;
            let exact = (length_s - planned_s).abs() < 1e-6;
            assert!(exact, "{}: {length_s} s of intervals", self.name());
        }
        sum
    }

    /// The flows' windows add up to the group's, where the document has every flow.
    fn flows(&self) {
        let own: Vec<&SampleFlow> = self
            .sample
            .flows
            .iter()
            .filter(|flow| flow.group == self.index)
            .collect();
        if self.group.traffic == Traffic::Crr || self.case.total_flows() > 1000 {
            return;
        }
        assert_eq!(own.len(), self.case.flows as usize, "{}", self.name());
        let mut sums = [Counters::default(); 2];
        for flow in own {
            let (Some(client), Some(server)) = (&flow.client, &flow.server) else {
                panic!("{}: flow {} has one side only", self.name(), flow.flow);
            };
            sums[0].add(&client.window);
            sums[1].add(&server.window);
            let workers = (self.case.workers, self.case.server_workers);
            let expected = (flow.flow % workers.0, flow.flow % workers.1);
            assert_eq!((client.worker, server.worker), expected, "{}", self.name());
        }
        let [client, server] = sums;
        match self.group.direction {
            Direction::ClientToServer => self.assert_window("flows", client, server),
            Direction::ServerToClient => self.assert_window("flows", server, client),
        }
    }

    /// What only the window can say, by kind.
    fn window(&self) {
        let (name, figures) = (self.name(), &self.group.figures);
        if let Some(transactions) = &figures.transactions {
            let t = transactions;
            let ended = t.done + t.failed + t.in_flight;
            assert_eq!(t.started, ended, "{name}: {t:?}");
            let latency = figures.latency_ns.as_ref().expect("answers have latencies");
            assert_eq!(latency.count, t.done + t.censored, "{name}: {t:?}");
            assert!(latency.min > 0 && latency.min <= latency.p50, "{name}");
            assert!(latency.p50 <= latency.max, "{name}");
        }
        let udp_stream = self.case.proto == Proto::Udp && self.group.traffic == Traffic::Stream;
        if !udp_stream {
            return;
        }
        let udp = figures.udp.as_ref().expect("a UDP case");
        if self.counts_small() {
            assert_eq!((udp.mode.as_str(), udp.lost), ("counts", None), "{name}");
            return;
        }
        assert_eq!(udp.mode, "full", "{name}");
        let sent = figures.sent.messages.expect("datagrams");
        let received = figures.received.messages.expect("datagrams");
        let lost = udp.lost.expect("headers");
        assert_eq!(sent, received + lost, "{name}: {udp:?}");
        if !matches!(self.case.limit, Limit::Bytes { .. }) {
            assert_eq!(figures.sent.bytes, sent * self.case.request_bytes, "{name}");
        }
    }
}
