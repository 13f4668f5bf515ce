//! What a row found, in words.

use std::fmt::Write;

use super::super::numbers::{median, range, ratios};
use super::case::{Case, Row, Tail};
use super::contest::{Contestant, Reading};
use super::ours::HEADLINE;
use super::tools::Basis;

/// How a row ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Everything that is asked is reached.
    Met,
    /// Something is not.
    Below,
    /// A named peer, or ringperf itself, has no figures.
    NotMeasured,
    /// Nothing is asked.
    Beside,
}

/// A row that was played.
#[derive(Clone, Debug)]
pub struct Played {
    /// The row.
    pub row: Row,
    /// The path and the congestion control.
    pub place: String,
    /// The least ratio asked; none where the row only stands beside others.
    pub least: Option<f64>,
    /// Everyone, ringperf first.
    pub contestants: Vec<Contestant>,
    /// What is not here or failed, of those it needs.
    pub missing: Vec<String>,
}

/// How ours compares with the best peer.
#[derive(Clone, PartialEq, Debug)]
pub struct Compared {
    /// The peer.
    pub peer: &'static str,
    /// Paired ratios of the rate.
    pub ratios: Vec<f64>,
    /// Median of the paired ratios of CPU time per operation.
    pub cpu: f64,
    /// The 99th percentiles, microseconds: ours and the peer's.
    pub tails: Option<[f64; 2]>,
}

impl Played {
    /// The contestant with a label.
    fn by_label(&self, label: &str) -> Option<&Contestant> {
        self.contestants
            .iter()
            .find(|one| one.call.label == label && !one.readings().is_empty())
    }

    fn peers(&self) -> impl Iterator<Item = &Contestant> {
        let ours = |one: &&Contestant| !one.call.label.starts_with(HEADLINE);
        self.contestants
            .iter()
            .filter(ours)
            .filter(|one| !one.readings().is_empty())
    }

    /// The peer with the highest median.
    pub fn best(&self) -> Option<&Contestant> {
        let case = self.row.case;
        let middle = |one: &&Contestant| median(&rates(&case, one.readings())).unwrap_or(0.0);
        self.peers().max_by(|a, b| middle(a).total_cmp(&middle(b)))
    }

    /// The headline against the best peer.
    pub fn compared(&self) -> Option<Compared> {
        let (ours, best) = (self.by_label(HEADLINE)?, self.best()?);
        let case = self.row.case;
        let rates = |one: &Contestant| rates(&case, one.readings());
        let cpu = |one: &Contestant| -> Vec<f64> {
            one.readings().iter().map(|each| each.cpu(&case)).collect()
        };
        let tail = |one: &Contestant| {
            let tails = one.readings().iter();
            let tails: Vec<f64> = tails
                .filter_map(|each| Some(each.figure.latency_us?[1]))
                .collect();
            median(&tails)
        };
        // The best peer may have no percentiles; then the lowest of those that have.
        let theirs = tail(best).or_else(|| self.peers().filter_map(tail).min_by(f64::total_cmp));
        Some(Compared {
            peer: best.call.label,
            ratios: ratios(&rates(ours), &rates(best)),
            cpu: median(&ratios(&cpu(ours), &cpu(best)))?,
            tails: tail(ours).zip(theirs).map(|(ours, theirs)| [ours, theirs]),
        })
    }

    /// How it ended.
    pub fn verdict(&self) -> Verdict {
        let (true, Some(compared)) = (self.missing.is_empty(), self.compared()) else {
            return Verdict::NotMeasured;
        };
        let Some(least) = self.least else {
            return Verdict::Beside;
        };
        let ratio = median(&compared.ratios).unwrap_or(0.0);
        let is_met = ratio >= least
            && compared.cpu <= self.row.most_cpu()
            && self.tail_is_met(&compared) != Some(false);
        match is_met {
            true => Verdict::Met,
            false => Verdict::Below,
        }
    }

    fn tail_is_met(&self, compared: &Compared) -> Option<bool> {
        match (self.row.tail, compared.tails) {
            (Tail::Any, _) => None,
            (Tail::NoWorse, Some([ours, theirs])) => Some(ours <= theirs),
            (Tail::Lower, Some([ours, theirs])) => Some(ours < theirs),
            // A tail that nobody measured was not shown to be lower.
            (Tail::NoWorse | Tail::Lower, None) => Some(false),
        }
    }

    /// The row's lines.
    pub fn lines(&self) -> Vec<String> {
        let case = self.row.case;
        let mut lines = vec![format!("{}, {}, {}", self.place, case, case.unit().0)];
        for one in &self.contestants {
            lines.push(format!("  {}", told(&case, one)));
        }
        lines.push(format!("  {}", self.summary()));
        lines
    }

    /// The line that says how it compares.
    pub fn summary(&self) -> String {
        if !self.missing.is_empty() {
            return format!("not measured: {}", self.missing.join("; "));
        }
        let Some(compared) = self.compared() else {
            return "not measured: no figures".to_string();
        };
        let (low, high) = range(&compared.ratios).unwrap_or((0.0, 0.0));
        let ratio = median(&compared.ratios).unwrap_or(0.0);
        let mut text = format!(
            "ratio to {} {ratio:.3} [{low:.3}-{high:.3}], {} rounds",
            compared.peer,
            compared.ratios.len()
        );
        // Writing to a string cannot fail.
        if let Some(least) = self.least {
            let _ = write!(text, ": {} {least:.2}", word(ratio >= least, "below"));
        }
        let _ = write!(text, "; CPU {:.2} of its", compared.cpu);
        if self.least.is_some() {
            let most = self.row.most_cpu();
            let _ = write!(text, ": {} {most:.2}", word(compared.cpu <= most, "above"));
        }
        if let Some([ours, theirs]) = compared.tails {
            let _ = write!(text, "; p99 {ours:.1} us, theirs {theirs:.1} us");
        }
        match self.tail_is_met(&compared).filter(|_| self.least.is_some()) {
            Some(true) => text.push_str(": ok"),
            Some(false) => text.push_str(": not lower"),
            None => {}
        }
        text
    }
}

fn word(is_met: bool, otherwise: &'static str) -> &'static str {
    if is_met { "ok" } else { otherwise }
}

/// The rates that are compared.
pub fn rates(case: &Case, readings: &[Reading]) -> Vec<f64> {
    readings.iter().map(|each| each.rate(case)).collect()
}

/// The line of one contestant.
fn told(case: &Case, one: &Contestant) -> String {
    let label = one.call.label;
    match &one.outcome {
        Err(why) => format!("{label:<27} failed: {}", why.replace('\n', " ")),
        Ok(readings) if readings.is_empty() => format!("{label:<27} did not run"),
        Ok(readings) => {
            let [rate, cpu, sides, kernel, latency] = cells(case, readings);
            let mut line = format!("{label:<27} {rate:<26} {cpu} ({sides})");
            for more in [kernel, latency].iter().filter(|more| !more.is_empty()) {
                line.push_str("  ");
                line.push_str(more);
            }
            line
        }
    }
}

/// Rate, CPU per unit, CPU of the sides, the kernel's count, latency.
pub fn cells(case: &Case, readings: &[Reading]) -> [String; 5] {
    let (_, scale) = case.unit();
    let (cpu_unit, operations) = case.cpu_unit();
    let rates = rates(case, readings);
    let (low, high) = range(&rates).unwrap_or((0.0, 0.0));
    let rate = format!(
        "{:.3} [{:.3}-{:.3}]",
        median(&rates).unwrap_or(0.0) * scale,
        low * scale,
        high * scale
    );
    let cpu = middle(readings, |each| each.cpu(case) * operations);
    let sides = format!(
        "{:.2} + {:.2} + {:.2} CPUs",
        middle(readings, |each| each.window.client_cpu),
        middle(readings, |each| each.window.server_cpu),
        middle(readings, |each| each.window.softirq_cpu)
    );
    let latency = readings.iter().all(|each| each.figure.latency_us.is_some());
    let percentile = |at: usize| {
        middle(readings, |each| {
            each.figure.latency_us.map_or(0.0, |both| both[at])
        })
    };
    let latency = match latency {
        true => format!("p50 {:.1} p99 {:.1} us", percentile(0), percentile(1)),
        false => String::new(),
    };
    [
        rate,
        format!("{cpu:.3} {cpu_unit}"),
        sides,
        kernel(case, readings),
        latency,
    ]
}

/// The median of something of each reading.
fn middle(readings: &[Reading], each: impl Fn(&Reading) -> f64) -> f64 {
    let values: Vec<f64> = readings.iter().map(each).collect();
    median(&values).unwrap_or(0.0)
}

/// What the kernel counted, and what the tool itself says where that is of sends.
fn kernel(case: &Case, readings: &[Reading]) -> String {
    use super::case::{Job, Proto};
    let (_, scale) = case.unit();
    let mut text = match (case.job, case.proto) {
        (Job::Rr | Job::Crr, Proto::Tcp) => return String::new(),
        (Job::Stream, Proto::Tcp) => {
            format!(
                "kernel {:.3}",
                middle(readings, |each| each.kernel_rate(case)) * scale
            )
        }
        (_, Proto::Udp) => format!(
            "kernel in {:.1} out {:.1} dropped {:.1} k/s",
            middle(readings, |each| each.window.datagrams_in) / 1e3,
            middle(readings, |each| each.window.datagrams_out) / 1e3,
            middle(readings, |each| each.window.datagrams_dropped) / 1e3
        ),
    };
    if readings.iter().any(|each| each.figure.basis == Basis::Sent) {
        let own = middle(readings, |each| each.figure.rate) * scale;
        let _ = write!(text, " (its own count is of sends: {own:.3})");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::super::namespace::Listens;
    use super::super::case::ROWS;
    use super::super::tools::{Call, Figure};
    use super::super::watch::Window;
    use super::*;

    fn one(label: &'static str, readings: &[(f64, f64, f64)]) -> Contestant {
        let reading = |(rate, cpu, p99): &(f64, f64, f64)| Reading {
            figure: Figure {
                rate: *rate,
                basis: Basis::Received,
                latency_us: Some([p99 / 2.0, *p99]),
            },
            window: Window {
                client_cpu: *cpu,
                payload_in: rate * 14.0,
                ..Window::default()
            },
        };
        Contestant {
            call: Call {
                label,
                server: String::new(),
                listens: Listens::Tcp(1),
                client: String::new(),
                lead_s: 0.0,
                read: |_, _| anyhow::bail!("not read here"),
            },
            outcome: Ok(readings.iter().map(reading).collect()),
        }
    }

    fn played(ours: &[(f64, f64, f64)], theirs: &[(f64, f64, f64)]) -> Played {
        let slow: Vec<_> = theirs.iter().map(|(r, c, p)| (r / 2.0, *c, *p)).collect();
        Played {
            row: ROWS[9],
            place: "lo, cubic".to_string(),
            least: Some(1.05),
            contestants: vec![
                one(HEADLINE, ours),
                one("ringperf --depth 1", &[(9e9, 0.1, 1.0)]),
                one("slow", &slow),
                one("neper", theirs),
            ],
            missing: Vec::new(),
        }
    }

    #[test]
    fn the_headline_is_compared_with_the_best_peer_round_by_round() {
        let row = played(
            &[(110e3, 2.0, 50.0), (220e3, 2.0, 50.0)],
            &[(100e3, 2.0, 60.0), (200e3, 2.0, 60.0)],
        );
        assert_eq!(row.verdict(), Verdict::Met);
        assert_eq!(
            row.summary(),
            "ratio to neper 1.100 [1.100-1.100], 2 rounds: ok 1.05; CPU 0.91 of its: ok 1.00; \
             p99 50.0 us, theirs 60.0 us: ok"
        );
        let lines = row.lines();
        assert_eq!(lines[0], "lo, cubic, tcp rr 14 x10, k transactions/s");
        assert!(
            lines[1].contains("165.000 [110.000-220.000]"),
            "{}",
            lines[1]
        );
        assert!(lines[1].contains("p50 25.0 p99 50.0 us"), "{}", lines[1]);
    }

    #[test]
    fn each_of_rate_cpu_and_tail_can_fail_a_row() {
        let theirs = [(100e3, 2.0, 60.0)];
        let below = |ours: (f64, f64, f64)| played(&[ours], &theirs).verdict();
        assert_eq!(below((110e3, 2.0, 50.0)), Verdict::Met);
        assert_eq!(below((104e3, 2.0, 50.0)), Verdict::Below);
        assert_eq!(below((110e3, 2.3, 50.0)), Verdict::Below);
        assert_eq!(below((110e3, 2.0, 60.0)), Verdict::Below);
    }

    #[test]
    fn absence_is_no_pass() {
        let mut row = played(&[(110e3, 2.0, 50.0)], &[(100e3, 2.0, 60.0)]);
        row.missing = vec!["neper is not here".to_string()];
        assert_eq!(row.verdict(), Verdict::NotMeasured);
        assert_eq!(row.summary(), "not measured: neper is not here");
        let mut row = played(&[(110e3, 2.0, 50.0)], &[(100e3, 2.0, 60.0)]);
        row.contestants.truncate(2);
        assert_eq!(row.verdict(), Verdict::NotMeasured);
        let mut row = played(&[(110e3, 2.0, 50.0)], &[(100e3, 2.0, 60.0)]);
        row.least = None;
        assert_eq!(row.verdict(), Verdict::Beside);
        assert!(!row.summary().contains("ok"));
    }
}
