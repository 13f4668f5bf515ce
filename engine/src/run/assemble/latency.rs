//! Base64 HDR V2 text to percentiles by rank, answers that never came included.

use crate::measure::histogram;
use crate::record::Latency;

/// Percentiles of a histogram as text, none where nothing was recorded. `unanswered`
/// transactions rank above every value; `censored_floor` is the smallest age among those recorded
/// without an answer, so that every percentile at or above it is a lower bound. None where there
/// is nothing to say.
pub(super) fn latency(
    text: Option<&str>,
    unanswered: u64,
    censored_floor: Option<u64>,
) -> Option<Latency> {
    let decoded = match text {
        Some(text) => histogram::decode(text).ok()?,
        None => histogram::Recorded::new().histogram().clone(),
    };
    if decoded.is_empty() && unanswered == 0 {
        return None;
    }
    Some(histogram::summary(&decoded, unanswered, censored_floor))
}

/// Values in a histogram; none where the text is no histogram.
pub(super) fn count(text: &str) -> Option<u64> {
    histogram::decode(text).ok().map(|decoded| decoded.len())
}

/// Adds histograms without loss; none where there is none.
pub(super) fn merge<'a>(texts: impl Iterator<Item = &'a str>) -> Option<String> {
    let mut texts = texts.filter_map(|text| histogram::decode(text).ok());
    let mut sum = texts.next()?;
    for next in texts {
        histogram::merge(&mut sum, &next).ok()?;
    }
    histogram::encode(&sum).ok()
}

#[cfg(test)]
pub(super) mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::{Serializer, V2Serializer};

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

    fn latency_of(text: &str, unanswered: u64, floor: Option<u64>) -> Option<Latency> {
        latency(Some(text), unanswered, floor)
    }

    #[test]
    fn where_nothing_was_answered_every_percentile_is_lost() {
        let all = latency(None, 9, None).unwrap();
        assert_eq!((all.count, all.unanswered), (0, 9));
        assert_eq!(all.lower_bounds.len(), 6);
    }

    #[test]
    fn percentiles_by_rank() {
        let got = latency_of(&text((1..=1000).map(|v| (v, 1))), 0, None).unwrap();
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
        let got = latency_of(&text([(100, 90)]), 10, None).unwrap();
        assert_eq!(got.p90, 100);
        assert_eq!(got.lower_bounds, ["p99", "p999", "p9999", "max"]);
        let none = latency_of(&text([]), 7, None).unwrap();
        assert_eq!((none.count, none.unanswered, none.max), (0, 7, 0));
        assert_eq!(none.lower_bounds.len(), 6);
        assert!(none.mean.is_finite() && none.stdev.is_finite());
    }

    #[test]
    fn what_reaches_the_censored_ages_is_a_lower_bound() {
        let got = latency_of(&text([(100, 95), (5000, 5)]), 0, Some(4000)).unwrap();
        assert_eq!(got.lower_bounds, ["p99", "p999", "p9999", "max"]);
        assert_eq!(got.p90, 100);
    }

    #[test]
    fn nothing_is_nothing() {
        assert_eq!(latency_of(&text([]), 0, None), None);
        assert_eq!(latency_of("no histogram", 3, None), None);
        assert_eq!(latency(None, 0, None), None);
    }

    #[test]
    fn merging_loses_nothing() {
        let (a, b) = (
            text([(100, 3), (7_000_000, 1)]),
            text([(3_500_000_000_000, 2)]),
        );
        let both = merge([a.as_str(), b.as_str()].into_iter()).unwrap();
        assert_eq!(count(&both), Some(6));
        let got = latency_of(&both, 0, None).unwrap();
        assert_eq!(got.min, 100);
        assert!(got.max >= 3_500_000_000_000);
        assert_eq!(merge([].into_iter()), None);
    }
}
