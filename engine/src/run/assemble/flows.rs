//! Flows of both sides joined, and how evenly they shared.

use std::collections::BTreeMap;

use super::side::Known;
use super::{Joined, total};
use crate::plan::{Case, Traffic};
use crate::record::{FlowDistribution, FlowReport, SampleFlow};

/// Most flows that a document lists one by one.
const LISTED: usize = 1000;

/// How many of the slowest, and of the fastest, a document lists beyond that.
const EXTREMES: usize = 20;

/// Joins by group and flow number, in that order.
pub(super) fn join(client: &Known, server: &Known) -> Vec<SampleFlow> {
    let mut by_key: BTreeMap<(u32, u32), SampleFlow> = BTreeMap::new();
    for flow in &client.report.flows {
        entry(&mut by_key, flow).client = Some(flow.clone());
    }
    for flow in &server.report.flows {
        entry(&mut by_key, flow).server = Some(flow.clone());
    }
    by_key.into_values().collect()
}

fn entry<'a>(
    by_key: &'a mut BTreeMap<(u32, u32), SampleFlow>,
    flow: &FlowReport,
) -> &'a mut SampleFlow {
    let new = SampleFlow {
        group: flow.group,
        flow: flow.flow,
        client: None,
        server: None,
    };
    by_key.entry((flow.group, flow.flow)).or_insert(new)
}

/// All up to a bound, beyond it the slowest and the fastest of each group.
pub(super) fn bounded(flows: Vec<SampleFlow>, case: &Case) -> Vec<SampleFlow> {
    if flows.len() <= LISTED {
        return flows;
    }
    let mut kept = Vec::new();
    for group in 0..case.groups.len() as u32 {
        let mut of_group: Vec<&SampleFlow> = flows.iter().filter(|f| f.group == group).collect();
        of_group.sort_by_key(|flow| moved(flow));
        let fast = of_group.len().saturating_sub(EXTREMES).max(EXTREMES);
        let slowest = of_group.iter().take(EXTREMES);
        kept.extend(
            slowest
                .chain(of_group.iter().skip(fast))
                .map(|flow| (*flow).clone()),
        );
    }
    kept.sort_by_key(|flow| (flow.group, flow.flow));
    kept
}

/// What a flow moved in the window, in whichever unit its group counts.
fn moved(flow: &SampleFlow) -> (u64, u64) {
    let sides = [&flow.client, &flow.server];
    let sum = |of: fn(&FlowReport) -> u64| total(sides.into_iter().flatten().map(of));
    (sum(|f| f.transactions), sum(|f| f.window.received_bytes))
}

/// Rates of every flow by the side that counts, bits or transactions per second; none where not
/// every flow is known, since the spread of a part would mislead.
fn rates(joined: &Joined<'_>) -> Option<Vec<f64>> {
    let (side, group, of): (_, _, fn(&FlowReport) -> u64) = match joined.plan.traffic {
        Traffic::Stream => (joined.to, &joined.to_group, |flow| {
            flow.window.received_bytes.saturating_mul(8)
        }),
        Traffic::Rr | Traffic::Crr => (joined.from, &joined.from_group, |flow| flow.transactions),
    };
    let flows: Vec<&FlowReport> = of_group(side, joined.index).collect();
    let rate = |flow: &&FlowReport| side.per_second(group, of(flow));
    let whole = flows.len() >= 2 && flows.len() == joined.case.flows as usize;
    (whole && side.window_ns(group) > 0).then(|| flows.iter().map(rate).collect())
}

/// One side's flows of a group.
pub(super) fn of_group(side: &Known, group: u32) -> impl Iterator<Item = &FlowReport> {
    side.report
        .flows
        .iter()
        .filter(move |flow| flow.group == group)
}

/// Jain's index and the distribution of the flows' rates.
pub(super) fn fairness(joined: &Joined<'_>) -> (Option<f64>, Option<FlowDistribution>) {
    let Some(mut rates) = rates(joined) else {
        return (None, None);
    };
    rates.sort_by(f64::total_cmp);
    let count = rates.len() as f64;
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    let jain = (squares > 0.0).then(|| sum * sum / (count * squares));
    let rank = |percent: usize| rates[(rates.len() * percent).div_ceil(100) - 1];
    let distribution = FlowDistribution {
        count: rates.len() as u64,
        min: rates[0],
        p10: rank(10),
        p50: rank(50),
        p90: rank(90),
        max: rates[rates.len() - 1],
        mean: sum / count,
    };
    (jain, Some(distribution))
}
