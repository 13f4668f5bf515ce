//! Base64 HDR V2 text to percentiles by rank, answers that never came included.

use std::io::Cursor;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};

use crate::record::Latency;

/// Percentiles of a histogram as text. `unanswered` transactions rank above every value;
/// `censored_floor` is the smallest age among those recorded without an answer, so that every
/// percentile at or above it is a lower bound. None where there is nothing to say.
pub(super) fn latency(
    text: &str,
    unanswered: u64,
    censored_floor: Option<u64>,
) -> Option<Latency> {
    let histogram = decode(text)?;
    let count = histogram.len();
    let total = count.saturating_add(unanswered);
    if total == 0 {
        return None;
    }
    let max = if count == 0 { 0 } else { histogram.max() };
    let mut lower_bounds = Vec::new();
    let mut at = |name: &str, per_10k: u64| {
        let rank = (u128::from(total) * u128::from(per_10k)).div_ceil(10_000) as u64;
        let value = if rank > count {
            max
        } else {
            value_at_rank(&histogram, rank)
        };
        if rank > count || censored_floor.is_some_and(|floor| value >= floor) {
            lower_bounds.push(name.to_string());
        }
        value
    };
    let (p50, p90) = (at("p50", 5000), at("p90", 9000));
    let (p99, p999, p9999) = (at("p99", 9900), at("p999", 9990), at("p9999", 9999));
    let max = at("max", 10_000);
    Some(Latency {
        count,
        mean: histogram.mean(),
        stdev: histogram.stdev(),
        min: if count == 0 { 0 } else { histogram.min() },
        p50,
        p90,
        p99,
        p999,
        p9999,
        max,
        lower_bounds,
        unanswered,
        histogram: text.to_string(),
    })
}

/// Values in a histogram; none where the text is no histogram.
pub(super) fn count(text: &str) -> Option<u64> {
    decode(text).map(|histogram| histogram.len())
}

/// Adds histograms without loss; none where there is none.
pub(super) fn merge<'a>(texts: impl Iterator<Item = &'a str>) -> Option<String> {
    let mut texts = texts.filter_map(decode);
    let mut sum = texts.next()?;
    sum.auto(true);
    for next in texts {
        sum.add(next).ok()?;
    }
    let mut bytes = Vec::new();
    V2Serializer::new().serialize(&sum, &mut bytes).ok()?;
    Some(STANDARD.encode(bytes))
}

fn decode(text: &str) -> Option<Histogram<u64>> {
    let bytes = STANDARD.decode(text).ok()?;
    Deserializer::new()
        .deserialize(&mut Cursor::new(bytes))
        .ok()
}

fn value_at_rank(histogram: &Histogram<u64>, rank: u64) -> u64 {
    let mut seen = 0;
    for step in histogram.iter_recorded() {
        seen += step.count_at_value();
        if seen >= rank {
            return histogram.highest_equivalent(step.value_iterated_to());
        }
    }
    histogram.max()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A histogram as a worker sends it.
    pub(crate) fn text(values: impl IntoIterator<Item = (u64, u64)>) -> String {
        let mut histogram = Histogram::<u64>::new_with_bounds(1, 3_600_000_000_000, 3).unwrap();
        for (value, times) in values {
            histogram.record_n(value, times).unwrap();
        }
        let mut bytes = Vec::new();
        V2Serializer::new()
            .serialize(&histogram, &mut bytes)
            .unwrap();
        STANDARD.encode(bytes)
    }

    #[test]
    fn percentiles_by_rank() {
        let got = latency(&text((1..=1000).map(|v| (v, 1))), 0, None).unwrap();
        assert_eq!(
            (got.count, got.min, got.p50, got.p90, got.p99),
            (1000, 1, 500, 900, 990)
        );
        assert_eq!((got.p999, got.p9999, got.max), (999, 1000, 1000));
        assert!((got.mean - 500.5).abs() < 0.01, "{}", got.mean);
        assert!(got.lower_bounds.is_empty());
    }

    #[test]
    fn the_unanswered_rank_above_every_value() {
        let got = latency(&text([(100, 90)]), 10, None).unwrap();
        assert_eq!(got.p90, 100);
        assert_eq!(got.lower_bounds, ["p99", "p999", "p9999", "max"]);
        let none = latency(&text([]), 7, None).unwrap();
        assert_eq!((none.count, none.unanswered, none.max), (0, 7, 0));
        assert_eq!(none.lower_bounds.len(), 6);
        assert!(none.mean.is_finite() && none.stdev.is_finite());
    }

    #[test]
    fn what_reaches_the_censored_ages_is_a_lower_bound() {
        let got = latency(&text([(100, 95), (5000, 5)]), 0, Some(4000)).unwrap();
        assert_eq!(got.lower_bounds, ["p99", "p999", "p9999", "max"]);
        assert_eq!(got.p90, 100);
    }

    #[test]
    fn nothing_is_nothing() {
        assert_eq!(latency(&text([]), 0, None), None);
        assert_eq!(latency("no histogram", 3, None), None);
    }

    #[test]
    fn merging_loses_nothing() {
        let (a, b) = (
            text([(100, 3), (7_000_000, 1)]),
            text([(3_500_000_000_000, 2)]),
        );
        let both = merge([a.as_str(), b.as_str()].into_iter()).unwrap();
        assert_eq!(count(&both), Some(6));
        let got = latency(&both, 0, None).unwrap();
        assert_eq!(got.min, 100);
        assert!(got.max >= 3_500_000_000_000);
        assert_eq!(merge([].into_iter()), None);
    }
}
