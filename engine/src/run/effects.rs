//! What was asked for and had no effect, as findings.

use crate::record::{BusyPollReport, Finding, Severity};
use crate::worker::WorkerOutcome;

use super::side::Ending;

/// Whether a worker's engine has a feature in force.
pub(super) fn in_force(outcome: &WorkerOutcome, feature: &str) -> bool {
    outcome.stats.features.iter().any(|name| name == feature)
}

/// A finding for each option of a side that had no effect on at least one of its workers.
pub(super) fn findings(ending: &Ending<'_>, side: &str) -> Vec<Finding> {
    let tuning = &ending.case.options.tuning;
    let asked = tuning.min_wait_us.is_some_and(|us| us > 0);
    let lacks = |feature: &'static str| {
        let mut outcomes = ending.outcomes.iter();
        outcomes.find(|outcome| !in_force(outcome, feature))
    };
    let mut findings = Vec::new();
    if let Some(outcome) = lacks("min_wait").filter(|_| asked) {
        let why = match outcome.stats.name {
            "io_uring" => "this kernel's io_uring has no minimum wait (6.12 has)",
            _ => "plain calls cannot gather completions",
        };
        let text = format!("--min-wait has no effect on the {side}: {why}");
        findings.push(Finding::new(Severity::Warning, "no-min-wait", text));
    }
    let huge = |o: &WorkerOutcome| in_force(o, "hugetlb") || in_force(o, "transparent_huge_pages");
    if tuning.huge_pages && !ending.outcomes.iter().all(huge) {
        let text = format!(
            "--huge-pages has no effect on the {side}: the host has none reserved \
             (vm.nr_hugepages), and its kernel makes no transparent ones"
        );
        findings.push(Finding::new(Severity::Warning, "no-huge-pages", text));
    }
    findings.extend(busy_poll(&ending.outcomes).and_then(|poll| in_vain(&poll, side)));
    findings
}

/// What became of busy polling, where it was asked for.
pub(super) fn busy_poll(outcomes: &[WorkerOutcome]) -> Option<BusyPollReport> {
    let us = outcomes.first()?.choices.busy_poll_us?;
    let known = || {
        outcomes
            .iter()
            .flat_map(|o| &o.flows)
            .filter_map(|f| f.polled)
    };
    Some(BusyPollReport {
        us,
        ring: outcomes.iter().all(|o| in_force(o, "napi_busy_poll")),
        polled_flows: known().filter(|polled| *polled).count() as u32,
        known_flows: known().count() as u32,
    })
}

fn in_vain(poll: &BusyPollReport, side: &str) -> Option<Finding> {
    if poll.polled_flows > 0 || poll.known_flows == 0 {
        return None;
    }
    let text = format!(
        "--busy-poll {} had no effect on the {side}: no device that can be polled brought a \
         packet of its flows (the loopback device cannot, nor veth without GRO)",
        poll.us
    );
    Some(Finding::new(Severity::Warning, "busy-poll-in-vain", text))
}
