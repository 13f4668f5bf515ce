//! What the slowest transactions have in common.
//!
//! The tail's column is the mean of whole transactions, so that it adds up to theirs: percentiles
//! of single stages neither add up nor fall together.

use super::chain::BYPASSED;
use super::fold::{Slow, Sums};
use super::stage::{STAGES, Stage};
use crate::record::{BudgetLine, SlowPart, SlowTransaction, TailContributor, TailReport};

/// Slow transactions that the document keeps.
const LISTED: usize = 100;
/// A stage is named beside others where it is the main delay of a tenth of the slow ones.
const NAMED: f64 = 0.1;
/// A contributor has more than so much of the tail, and so many times its share of the mean.
const MOST: f64 = 0.5;
const MORE_THAN_USUAL: f64 = 2.0;

/// Describes the slowest hundredth and fills the budget's column; none without transactions.
pub(super) fn tail(sums: &Sums, budget: &mut [BudgetLine]) -> Option<TailReport> {
    let threshold_ns = sums.total.p99();
    let slow: Vec<&Slow> = slow(sums, threshold_ns);
    let count = slow.len() as f64;
    if slow.is_empty() {
        return None;
    }
    let total: u64 = slow.iter().map(|slow| slow.total_ns).sum();
    let mut parts = [0u64; STAGES];
    let mut main = [0u64; STAGES];
    for one in &slow {
        for (sum, part) in parts.iter_mut().zip(one.parts) {
            *sum += u64::from(measured(part));
        }
        if let Some(stage) = main_delay(one, sums) {
            main[stage.index()] += 1;
        }
    }
    for stage in Stage::all() {
        let same = |line: &&mut BudgetLine| {
            line.stage == stage.name() && line.message == stage.way() && line.side == stage.side()
        };
        if let Some(line) = budget.iter_mut().find(same) {
            line.tail_ns = Some(parts[stage.index()] as f64 / count);
        }
    }
    let mean_total = sums.total.sum_ns.max(1) as f64;
    let mut contributors: Vec<TailContributor> = Stage::all()
        .map(|stage| TailContributor {
            stage: stage.name().to_string(),
            side: stage.side().to_string(),
            message: stage.way().to_string(),
            tail_share: parts[stage.index()] as f64 / total.max(1) as f64,
            mean_share: sums.stages[stage.index()].sum_ns as f64 / mean_total,
            main_delay_share: main[stage.index()] as f64 / count,
        })
        .filter(|one| one.tail_share > MOST || one.main_delay_share >= NAMED)
        .collect();
    contributors.sort_by(|a, b| b.main_delay_share.total_cmp(&a.main_delay_share));
    let attributed: u64 = parts.iter().sum();
    Some(TailReport {
        threshold_ns,
        transactions: slow.len() as u64,
        mean_ns: total as f64 / count,
        unattributed_ns: total.saturating_sub(attributed) as f64 / count,
        network_and_server_ns: None,
        overflow: sums.overflow,
        sentence: sentence(&contributors),
        contributors,
    })
}

fn slow(sums: &Sums, threshold_ns: u64) -> Vec<&Slow> {
    let slow = sums.slow.iter();
    slow.filter(|slow| slow.total_ns >= threshold_ns).collect()
}

/// A part's time; nothing where it was not passed or not seen.
fn measured(part: u32) -> u32 {
    if part >= BYPASSED { 0 } else { part }
}

/// The stage that is the farthest above its mean.
fn main_delay(slow: &Slow, sums: &Sums) -> Option<Stage> {
    let transactions = sums.total.seen.max(1);
    let above = |stage: &Stage| {
        let mean = sums.stages[stage.index()].sum_ns / transactions;
        u64::from(measured(slow.parts[stage.index()])).saturating_sub(mean)
    };
    Stage::all().max_by_key(above).filter(|s| above(s) > 0)
}

fn sentence(contributors: &[TailContributor]) -> String {
    let name = |one: &TailContributor| match one.side.as_str() {
        "between" => one.stage.clone(),
        side => format!("{} on the {side}", one.stage),
    };
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let one = contributors
        .iter()
        .find(|one| one.tail_share > MOST && one.tail_share > MORE_THAN_USUAL * one.mean_share);
    let others: Vec<String> = contributors
        .iter()
        .filter(|other| one.is_none_or(|one| !std::ptr::eq(one, *other)))
        .filter(|other| other.main_delay_share >= NAMED)
        .map(|other| format!("{} in {}", name(other), percent(other.main_delay_share)))
        .collect();
    let of_which = match others.is_empty() {
        true => String::new(),
        false => format!("; main delay: {}", others.join(", ")),
    };
    match one {
        Some(one) => format!(
            "{} holds {} of the slowest transactions' time ({} of the mean){of_which}",
            name(one),
            percent(one.tail_share),
            percent(one.mean_share)
        ),
        None => format!("no single contributor{of_which}"),
    }
}

/// The slowest transactions, whole.
pub(super) fn slowest(sums: &Sums, start_ns: u64) -> Vec<SlowTransaction> {
    let mut slow = slow(sums, sums.total.p99());
    slow.sort_by_key(|slow| std::cmp::Reverse(slow.total_ns));
    let whole = |slow: &&Slow| SlowTransaction {
        flow: slow.flow,
        at_ns: slow.start_ns.saturating_sub(start_ns),
        total_ns: slow.total_ns,
        parts: Stage::all()
            .map(|stage| (stage, measured(slow.parts[stage.index()])))
            .filter(|(_, ns)| *ns > 0)
            .map(|(stage, ns)| SlowPart {
                stage: stage.name().to_string(),
                side: stage.side().to_string(),
                message: stage.way().to_string(),
                ns: u64::from(ns),
            })
            .collect(),
    };
    slow.iter().take(LISTED).map(whole).collect()
}
