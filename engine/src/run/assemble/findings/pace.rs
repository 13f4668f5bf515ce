//! How evenly a sample went, and whether it kept its schedule.

use super::warning;
use crate::plan::{Load, Traffic};
use crate::record::{Figures, Finding, Interval};
use crate::run::assemble::Joined;

/// Change from the first to the last third, beyond which a sample is not steady.
const UNSTEADY: f64 = 0.05;

/// Fewest whole intervals that say anything about steadiness: two per third.
const STEADY_INTERVALS: usize = 6;

/// Fewest whole intervals of which one can stand out.
const STALL_INTERVALS: usize = 4;

/// An interval below this part of the others' median has stalled.
const STALLED: f64 = 0.5;

/// Fewest units in the median interval: of fewer, an interval may have half by its bounds alone.
const STALL_UNITS: f64 = 20.0;

/// Intervals that a finding names one by one.
const NAMED: usize = 8;

/// Part of the offered rate that must be achieved.
const ACHIEVED: f64 = 0.99;

/// Fewest messages due in a window that say whether the schedule was kept.
const FEWEST_DUE: u64 = 10;

/// Shorter windows have no rate: waking a thread takes a good part of them. Nanoseconds.
const SHORTEST_WINDOW_NS: u64 = 1_000_000;

/// The group's whole intervals by the side that counts, in order, and how many units each has:
/// bytes of a stream, completed transactions.
fn whole_intervals<'a>(joined: &Joined<'a>) -> Vec<(&'a Interval, u64)> {
    let (side, of): (_, fn(&Interval) -> u64) = match joined.plan.traffic {
        Traffic::Stream => (joined.to, |interval| interval.counters.received_bytes),
        Traffic::Rr | Traffic::Crr => (joined.from, |interval| interval.completed),
    };
    let whole_s = joined.case.interval_ns as f64 / 1e9;
    let whole = |i: &&Interval| {
        i.group == joined.index && i.length_s > 0.0 && i.length_s >= whole_s * 0.999
    };
    let own = side.report.intervals.iter().filter(whole);
    own.map(|interval| (interval, of(interval))).collect()
}

/// The first and the last third differ by more than 5 % and by more than the intervals differ
/// among themselves within either third.
pub(super) fn unsteady(joined: &Joined<'_>) -> Option<Finding> {
    let rates: Vec<f64> = whole_intervals(joined)
        .into_iter()
        .map(|(interval, units)| units as f64 / interval.length_s)
        .collect();
    if rates.len() < STEADY_INTERVALS {
        return None;
    }
    let third = rates.len() / 3;
    let (first, first_spread) = mean_and_range(&rates[..third]);
    let (last, last_spread) = mean_and_range(&rates[rates.len() - third..]);
    let change = last - first;
    if change.abs() <= UNSTEADY * first.max(last) || change.abs() <= first_spread.max(last_spread)
    {
        return None;
    }
    let text = if first > 0.0 {
        format!(
            "not steady: the last third is {:+.1} % of the first",
            change / first * 100.0
        )
    } else {
        "not steady: nothing moved in the first third".to_string()
    };
    Some(warning("not-steady", text))
}

fn mean_and_range(rates: &[f64]) -> (f64, f64) {
    let low = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let high = rates.iter().copied().fold(0.0, f64::max);
    (rates.iter().sum::<f64>() / rates.len() as f64, high - low)
}

/// Single intervals far below the others. An open loop of transactions has none: what it could
/// not do in time is in its latencies.
pub(super) fn stalled(joined: &Joined<'_>) -> Option<Finding> {
    let (case, stream) = (joined.case, joined.plan.traffic == Traffic::Stream);
    if !stream && case.load != Load::Closed {
        return None;
    }
    let all = whole_intervals(joined);
    if all.len() < STALL_INTERVALS {
        return None;
    }
    let units: Vec<u64> = all.iter().map(|(_, units)| *units).collect();
    let each = if stream { case.request_bytes.max(1) } else { 1 };
    let slow = |at: usize| {
        let others = median_without(&units, at);
        let enough = others >= STALL_UNITS * each as f64;
        enough && (units[at] as f64) < others * STALLED
    };
    let slow: Vec<usize> = (0..units.len()).filter(|at| slow(*at)).collect();
    let least = *slow.iter().min_by_key(|at| units[**at])?;
    let part = units[least] as f64 / median_without(&units, least) * 100.0;
    let mut numbers: Vec<String> = slow
        .iter()
        .take(NAMED)
        .map(|at| all[*at].0.index.to_string())
        .collect();
    if slow.len() > NAMED {
        numbers.push(format!("{} more", slow.len() - NAMED));
    }
    let text = format!(
        "the traffic stalled: interval {} had less than half of the others' median rate, the \
         slowest {part:.0} % of it",
        numbers.join(", ")
    );
    Some(warning("stalled", text))
}

/// The median of all values but one.
fn median_without(values: &[u64], at: usize) -> f64 {
    let mut others = values.to_vec();
    others.swap_remove(at);
    others.sort_unstable();
    let (low, high) = (others[(others.len() - 1) / 2], others[others.len() / 2]);
    (low as f64 + high as f64) / 2.0
}

/// The schedule was not kept. Of a window for which hardly anything was due it is not said.
pub(super) fn rate(joined: &Joined<'_>, figures: &Figures) -> Option<Finding> {
    let (offered, achieved) = (figures.offered_per_second?, figures.achieved_per_second?);
    let few = joined.from_group.due.is_some_and(|due| due < FEWEST_DUE);
    if few || achieved >= offered * ACHIEVED {
        return None;
    }
    let mut text = format!(
        "{achieved:.1} per second achieved of {offered:.1} offered: the schedule could not be kept"
    );
    let counted = figures.transactions.unwrap_or_default();
    if counted.done < counted.completed {
        text.push_str(&format!(
            "; of the {} transactions completed in the window at least {} were due before it",
            counted.completed,
            counted.completed - counted.done
        ));
    }
    Some(warning("achieved-below-offered", text))
}

/// A window that is too short for a rate.
pub(super) fn short(joined: &Joined<'_>) -> Option<Finding> {
    let (side, group) = match joined.plan.traffic {
        Traffic::Stream => (joined.to, &joined.to_group),
        Traffic::Rr | Traffic::Crr => (joined.from, &joined.from_group),
    };
    let window_ns = side.window_ns(group);
    // What came before this side had heard of the start has no length at all.
    if group.window.received_bytes == 0 || window_ns >= SHORTEST_WINDOW_NS {
        return None;
    }
    let text = format!(
        "the window was {:.1} us long: its counts are exact, its rates mean nothing",
        window_ns as f64 / 1e3
    );
    Some(warning("window-too-short", text))
}
