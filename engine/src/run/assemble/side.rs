//! What is known of one side: its report, or the progress it had sent before it died.

use super::latency;
use crate::plan::{Case, Traffic};
use crate::record::{EngineReport, GroupReport, Progress, SideReport, Transactions};

/// Where a side's figures come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Source {
    /// Its report.
    Report,
    /// So many progress messages.
    Progress(usize),
    /// Nothing arrived.
    Nothing,
}

/// One side of a sample, as far as it is known.
#[derive(Clone, Debug)]
pub(super) struct Known {
    /// `client` or `server`.
    pub(super) name: &'static str,
    pub(super) source: Source,
    pub(super) report: SideReport,
}

impl Known {
    pub(super) fn new(
        name: &'static str,
        report: Option<SideReport>,
        progress: &[Progress],
        case: &Case,
    ) -> Known {
        if let Some(report) = report {
            return Known {
                name,
                source: Source::Report,
                report,
            };
        }
        let source = match progress.len() {
            0 => Source::Nothing,
            messages => Source::Progress(messages),
        };
        Known {
            name,
            source,
            report: from_progress(progress, case),
        }
    }

    /// Its report is there, so its counts are final.
    pub(super) fn whole(&self) -> bool {
        self.source == Source::Report
    }

    /// Its report is there and says that the sample ran to its planned end.
    pub(super) fn complete(&self) -> bool {
        self.whole() && self.report.complete
    }

    /// Length of its window, seconds.
    pub(super) fn window_s(&self) -> f64 {
        self.report.window_ns as f64 / 1e9
    }

    pub(super) fn engine(&self) -> Option<EngineReport> {
        self.whole().then(|| self.report.engine.clone())
    }

    /// Length of a group's window, nanoseconds.
    pub(super) fn window_ns(&self, group: &GroupReport) -> u64 {
        group.window_ns.unwrap_or(self.report.window_ns)
    }

    /// `count` per second of a group's window; 0 without a window.
    pub(super) fn per_second(&self, group: &GroupReport, count: u64) -> f64 {
        match self.window_ns(group) {
            0 => 0.0,
            ns => count as f64 * 1e9 / ns as f64,
        }
    }
}

/// Rebuilds what a dead side's progress says: the window so far, the intervals and the lifetime.
fn from_progress(progress: &[Progress], case: &Case) -> SideReport {
    let counted: Vec<&Progress> = progress.iter().filter(|p| p.in_window(case)).collect();
    let groups = (0..case.groups.len()).map(|group| {
        let mut report = GroupReport::default();
        let mut counts = Transactions::default();
        for interval in counted.iter().filter_map(|p| p.groups.get(group)) {
            report.window.add(&interval.counters);
            counts.add(&Transactions {
                // Those done are all that progress knows of; the finding says that it is not all.
                started: interval.transactions,
                done: interval.transactions,
                completed: interval.completed,
                ..Transactions::default()
            });
        }
        let last = progress.iter().rev().find_map(|p| p.lifetime.get(group));
        report.lifetime = last.copied().unwrap_or_default();
        let texts = counted
            .iter()
            .filter_map(|p| p.latency.get(group)?.as_deref());
        report.latency = latency::merge(texts);
        let any = counts.done.max(counts.completed) > 0;
        if case.groups[group].traffic != Traffic::Stream && any {
            report.transactions = Some(counts);
        }
        report
    });
    let seconds: f64 = counted
        .iter()
        .filter_map(|p| p.groups.first())
        .map(|i| i.length_s)
        .sum();
    SideReport {
        window_ns: (seconds * 1e9).round() as u64,
        groups: groups.collect(),
        intervals: counted
            .iter()
            .flat_map(|p| p.groups.iter().copied())
            .collect(),
        ..SideReport::default()
    }
}
