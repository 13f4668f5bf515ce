//! The further sample with the stage probes: what they show must not bias the figures, and what
//! they cost is seen beside them.

use crate::plan::{Case, Limit, ProbeUse};
use crate::record::{KernelReport, ProbedSample, Sample};

const SECOND_NS: u64 = 1_000_000_000;
/// A window shorter than this has no further sample: a still shorter one would tell nothing.
const SHORTEST_NS: u64 = 2 * SECOND_NS;
/// The further window is a quarter of the case's within these bounds.
const WINDOW_NS: std::ops::RangeInclusive<u64> = SECOND_NS..=5 * SECOND_NS;

/// The case of a sample with the stages, shorter than the one given; none where its length is not
/// fixed, or too short already.
fn shorter(case: &Case, probes: ProbeUse) -> Option<Case> {
    let window = case.duration_ns().filter(|ns| *ns >= SHORTEST_NS)?;
    let mut case = case.clone();
    case.limit = Limit::Duration {
        ns: (window / 4).clamp(*WINDOW_NS.start(), *WINDOW_NS.end()),
    };
    case.options.probes = probes;
    Some(case)
}

/// The case as it is measured: with `only`, shortened where it can be.
pub(super) fn measured(case: Case) -> Case {
    match case.options.probes {
        ProbeUse::Only => shorter(&case, ProbeUse::Only).unwrap_or(case),
        _ => case,
    }
}

/// The case of the further sample; none where the plan wants none, or the samples say that the
/// probes are not to be had on both sides.
pub(super) fn further(case: &Case, samples: &[Sample]) -> Option<Case> {
    let attached = |report: &Option<KernelReport>| {
        let report = report.as_ref();
        report.is_some_and(|report| !report.attached.is_empty())
    };
    let both = |sample: &Sample| {
        sample.complete && attached(&sample.kernel.client) && attached(&sample.kernel.server)
    };
    let wanted = case.options.probes == ProbeUse::Auto;
    let possible = !samples.is_empty() && samples.iter().all(both);
    (wanted && possible)
        .then(|| shorter(case, ProbeUse::On))
        .flatten()
}

/// The further sample beside the measured ones.
pub(super) fn beside(sample: Sample, measured: &[Sample]) -> ProbedSample {
    let mean = |figure: &dyn Fn(&Sample) -> Option<f64>| {
        let all: Vec<f64> = measured.iter().filter_map(figure).collect();
        (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
    };
    let rate_before = mean(&rate).filter(|rate| *rate > 0.0);
    let rate_change = rate(&sample)
        .zip(rate_before)
        .map(|(now, before)| now / before - 1.0);
    let p50_change_ns = p50(&sample)
        .zip(mean(&p50))
        .map(|(now, before)| now - before);
    ProbedSample {
        sample,
        rate_change,
        p50_change_ns,
    }
}

/// Transactions or received payload bits per second, of all groups.
fn rate(sample: &Sample) -> Option<f64> {
    let transactions: Option<f64> = sample
        .groups
        .iter()
        .map(|group| group.figures.transactions.as_ref().map(|t| t.per_second))
        .sum();
    let bits = sample.groups.iter().map(|g| g.figures.throughput_bps).sum();
    transactions.or(Some(bits))
}

fn p50(sample: &Sample) -> Option<f64> {
    let latency = sample.groups.first()?.figures.latency_ns.as_ref()?;
    Some(latency.p50 as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::canned;

    fn watched(mut sample: Sample) -> Sample {
        let report = KernelReport {
            attached: vec!["kfree_skb__4".to_string()],
            ..KernelReport::default()
        };
        sample.kernel.client = Some(report.clone());
        sample.kernel.server = Some(report);
        sample
    }

    #[test]
    fn only_what_can_be_watched_on_both_sides_gets_a_further_sample() {
        let result = &canned::tour().cases[1];
        let mut case = result.case.clone();
        case.limit = Limit::Duration { ns: 10 * SECOND_NS };
        let sample = watched(result.samples[0].clone());
        let further_case = further(&case, std::slice::from_ref(&sample)).unwrap();
        assert_eq!(further_case.duration_ns(), Some(5 * SECOND_NS / 2));
        assert_eq!(further_case.options.probes, ProbeUse::On);
        let mut one_sided = sample.clone();
        one_sided.kernel.server = None;
        assert_eq!(further(&case, &[sample.clone(), one_sided]), None);
        assert_eq!(further(&case, &[]), None);
        for (probes, limit) in [
            (ProbeUse::Off, case.limit),
            (ProbeUse::On, case.limit),
            (ProbeUse::Only, case.limit),
            (ProbeUse::Auto, Limit::Duration { ns: SECOND_NS }),
            (ProbeUse::Auto, Limit::Transactions { count: 5 }),
        ] {
            case.options.probes = probes;
            case.limit = limit;
            assert_eq!(further(&case, std::slice::from_ref(&sample)), None);
        }
    }

    #[test]
    fn only_is_as_short_as_the_further_sample() {
        let mut case = canned::tour().cases[1].case.clone();
        case.limit = Limit::Duration { ns: 60 * SECOND_NS };
        assert_eq!(measured(case.clone()).duration_ns(), case.duration_ns());
        case.options.probes = ProbeUse::Only;
        assert_eq!(measured(case).duration_ns(), Some(5 * SECOND_NS));
    }

    #[test]
    fn what_the_probes_cost_is_relative_to_the_samples_without() {
        let result = &canned::tour().cases[1];
        let mut slower = result.samples[0].clone();
        let figures = &mut slower.groups[0].figures;
        let latency = figures.latency_ns.as_mut().unwrap();
        latency.p50 += 1500;
        figures.transactions.as_mut().unwrap().per_second *= 0.9;
        let probed = beside(slower, &result.samples);
        assert!((probed.rate_change.unwrap() + 0.1).abs() < 1e-9);
        assert!((probed.p50_change_ns.unwrap() - 1500.0).abs() < 1e-9);
        let stream = canned::tour().cases[0].samples[0].clone();
        let probed = beside(stream.clone(), &[stream]);
        assert!(probed.rate_change.unwrap().abs() < 1e-9);
        assert_eq!(probed.p50_change_ns, None);
    }
}
