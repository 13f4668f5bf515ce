//! From sums to the record: the stages, the budget and its rest.

use super::View;
use super::fold::{Sums, Times};
use super::stage::Stage;
use super::tail;
use crate::record::{
    BudgetLine, BudgetStatus, BudgetTotal, SlowTransaction, StageReport, TailReport,
};

/// What a side has to say of its transactions.
#[derive(Clone, PartialEq, Debug)]
pub struct JourneyReport {
    /// Each stage as a distribution.
    pub stages: Vec<StageReport>,
    /// Each stage's part of the mean transaction.
    pub budget: Vec<BudgetLine>,
    /// The mean transaction, and what of it lies in no stage.
    pub total: BudgetTotal,
    /// The slowest hundredth.
    pub tail: Option<TailReport>,
    /// The slowest of them.
    pub slow: Vec<SlowTransaction>,
}

/// The report of one side; `start_ns` is when its window began.
pub fn report(sums: &Sums, view: View, udp: bool, start_ns: u64) -> JourneyReport {
    let stages = || Stage::all().filter(|stage| view.has(*stage));
    let transport = if udp { "udp" } else { "tcp" };
    let distribution = |stage: Stage| {
        let times = &sums.stages[stage.index()];
        let mut line = StageReport::of_buckets(times.seen, times.sum_ns, &times.buckets)?;
        line.stage = stage.name().to_string();
        line.side = stage.side().to_string();
        line.message = stage.way().to_string();
        line.transport = transport.to_string();
        Some(line)
    };
    let transactions = sums.total.seen;
    let mean = |ns: u64| ns as f64 / transactions.max(1) as f64;
    let mut budget: Vec<BudgetLine> = stages()
        .filter(|stage| sums.stages[stage.index()].seen > 0 || !stage.seldom(udp))
        .map(|stage| line(&sums.stages[stage.index()], stage, transactions))
        .collect();
    let tail = tail::tail(sums, &mut budget);
    JourneyReport {
        stages: stages().filter_map(distribution).collect(),
        budget,
        total: BudgetTotal {
            flows: 0,
            transactions,
            mean_ns: mean(sums.total.sum_ns),
            unattributed_ns: mean(sums.unattributed_ns()),
        },
        slow: tail::slowest(sums, start_ns),
        tail,
    }
}

fn line(times: &Times, stage: Stage, transactions: u64) -> BudgetLine {
    let most = |count: u64| count * 100 >= transactions * 99;
    let status = match times.seen {
        0 if times.bypassed > 0 && most(times.bypassed) => BudgetStatus::Bypassed,
        0 => BudgetStatus::Unattributed,
        seen if most(seen + times.bypassed) => BudgetStatus::Measured,
        _ => BudgetStatus::Partial,
    };
    BudgetLine {
        stage: stage.name().to_string(),
        side: stage.side().to_string(),
        message: stage.way().to_string(),
        status,
        on_purpose: stage.on_purpose(),
        seen: times.seen,
        bypassed: times.bypassed,
        mean_ns: times.sum_ns as f64 / transactions.max(1) as f64,
        tail_ns: None,
    }
}
