use proptest::prelude::*;

use super::*;

fn of(values: &[u64]) -> Histogram<u64> {
    let mut histogram = new();
    for &value in values {
        histogram.record(value).expect("in range");
    }
    histogram
}

/// Nearest rank of the plain definition, over the values and those without one.
fn nearest_rank(sorted: &[u64], unanswered: usize, parts: u128) -> Option<u64> {
    let total = (sorted.len() + unanswered) as u128;
    let rank = (total * parts).div_ceil(10_000).max(1) as usize;
    sorted.get(rank - 1).copied()
}

fn within_three_digits(found: u64, exact: u64) -> bool {
    found >= exact && found - exact <= exact / 1_000
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn percentiles_follow_the_plain_definition(
        mut values in prop::collection::vec(1u64..=HIGHEST_NS, 1..300),
        unanswered in 0usize..50,
    ) {
        let latency = summary(&of(&values), unanswered as u64, None);
        values.sort_unstable();
        let largest = values[values.len() - 1];
        let found = [latency.p50, latency.p90, latency.p99, latency.p999, latency.p9999];
        for ((name, parts), found) in PERCENTILES.into_iter().zip(found) {
            let exact = nearest_rank(&values, unanswered, u128::from(parts));
            let bound = latency.lower_bounds.iter().any(|bound| bound == name);
            prop_assert_eq!(bound, exact.is_none(), "{} of {}", name, values.len());
            prop_assert!(within_three_digits(found, exact.unwrap_or(largest)), "{}", name);
        }
        prop_assert_eq!(latency.count, values.len() as u64);
        prop_assert!(within_three_digits(latency.max, largest));
        prop_assert_eq!(latency.lower_bounds.contains(&"max".to_string()), unanswered > 0);
    }

    #[test]
    fn text_keeps_every_count(values in prop::collection::vec(0u64..=HIGHEST_NS, 0..300)) {
        let histogram = of(&values);
        let text = encode(&histogram).expect("small counts");
        let back = decode(&text).expect("our own text");
        prop_assert_eq!(back.len(), values.len() as u64);
        prop_assert_eq!(&back, &histogram);
    }

    #[test]
    fn merging_equals_recording_in_one(
        left in prop::collection::vec(1u64..2 * HIGHEST_NS, 0..100),
        right in prop::collection::vec(1u64..2 * HIGHEST_NS, 0..100),
    ) {
        let mut one = Recorded::new();
        let (mut a, mut b) = (Recorded::new(), Recorded::new());
        for &value in &left {
            a.record(value);
            one.record(value);
        }
        for &value in &right {
            b.record(value);
            one.record(value);
        }
        a.merge(&b);
        prop_assert_eq!(a.histogram(), one.histogram());
        prop_assert_eq!(a.out_of_range(), one.out_of_range());
        let above = left.iter().chain(&right).filter(|&&value| value > HIGHEST_NS).count();
        prop_assert_eq!(a.out_of_range(), above as u64);
        prop_assert_eq!(a.histogram().len() + a.out_of_range(), (left.len() + right.len()) as u64);
    }

    #[test]
    fn any_text_is_an_answer_or_an_error(text in "[A-Za-z0-9+/=]{0,200}") {
        let _ = decode(&text);
    }

    #[test]
    fn any_payload_behind_a_good_header_is_an_answer_or_an_error(
        payload in prop::collection::vec(prop_oneof![any::<u8>(), Just(0xff)], 0..200),
    ) {
        if let Ok(histogram) = decode(&with_payload(&payload)) {
            // What was accepted can be used: these would overflow on hostile counts.
            prop_assert!(summary(&histogram, 0, None).mean.is_finite());
            let mut sum = new();
            merge(&mut sum, &histogram).expect("accepted counts add to nothing");
            prop_assert_eq!(sum.len(), histogram.len());
        }
    }

    #[test]
    fn a_changed_byte_is_an_answer_or_an_error(at in 0usize..60, to in any::<u8>()) {
        let mut bytes = STANDARD.decode(encode(&of(&[1, 5, 5_000_000])).unwrap()).unwrap();
        if let Some(byte) = bytes.get_mut(at) {
            *byte = to;
        }
        let _ = decode(&STANDARD.encode(bytes));
    }
}

fn with_payload(payload: &[u8]) -> String {
    let mut bytes = STANDARD
        .decode(encode(&new()).expect("empty"))
        .expect("our own");
    bytes.truncate(HEADER_BYTES);
    bytes[4..8].copy_from_slice(&(payload.len() as u32).to_be_bytes());
    bytes.extend_from_slice(payload);
    STANDARD.encode(bytes)
}

/// Any reader of HDR V2 reads it: cookie, and the bounds that are promised.
#[test]
fn the_text_is_base64_of_hdr_v2_with_three_digits_from_1_ns_to_1_h() {
    let text = encode(&of(&[1, 3_600_000_000_000])).expect("in range");
    let bytes = STANDARD.decode(&text).expect("base64");
    let at = |from: usize, to: usize| {
        let field = bytes[from..to].iter();
        field.fold(0u64, |number, byte| number << 8 | u64::from(*byte))
    };
    assert_eq!(at(0, 4), 0x1c84_9313, "the cookie of V2");
    assert_eq!(at(4, 8), bytes.len() as u64 - 40, "bytes behind the header");
    assert_eq!(at(12, 16), 3, "significant digits");
    assert_eq!((at(16, 24), at(24, 32)), (1, 3_600_000_000_000));
    let read: Histogram<u64> = Deserializer::new()
        .deserialize(&mut bytes.as_slice())
        .expect("by the library's own reader");
    assert_eq!(read.len(), 2);
}

#[test]
fn hostile_texts_are_refused_by_name() {
    let long = "A".repeat(MAX_TEXT + 1);
    assert_eq!(decode(&long), Err(HistogramError::TooLong(MAX_TEXT + 1)));

    let wide: Histogram<u64> = Histogram::new_with_bounds(1, u64::MAX / 2, 5).expect("large");
    let text = encode(&wide).expect("empty");
    assert_eq!(decode(&text), Err(HistogramError::OtherBounds));

    // A run of 2^63 zeros, which negated is no integer.
    let endless = with_payload(&[0xff; 9]);
    assert!(matches!(
        decode(&endless),
        Err(HistogramError::Malformed(_))
    ));

    // Two counts of 2^62 each: together more than the format can state.
    let half = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80];
    let twice: Vec<u8> = half.iter().chain(&half).copied().collect();
    assert_eq!(
        decode(&with_payload(&half)).expect("one is fine").len(),
        1 << 62
    );
    assert_eq!(decode(&with_payload(&twice)), Err(HistogramError::Overflow));

    // One count more than there are buckets.
    let many = vec![2u8; 40_000];
    assert!(matches!(
        decode(&with_payload(&many)),
        Err(HistogramError::Malformed(_))
    ));
}

#[test]
fn merging_refuses_other_bounds_and_overflow_and_leaves_the_target_alone() {
    let mut target = of(&[7]);
    let other: Histogram<u64> = Histogram::new_with_bounds(1, 1_000, 2).expect("small");
    assert_eq!(merge(&mut target, &other), Err(HistogramError::OtherBounds));
    let mut full = new();
    full.record_n(3, i64::MAX as u64).expect("in range");
    assert_eq!(merge(&mut target, &full), Err(HistogramError::Overflow));
    assert_eq!(target, of(&[7]));
}

#[test]
fn censored_ages_make_lower_bounds_of_the_percentiles_they_touch() {
    // 990 answered in 1 ms; 10 censored with ages of 2 to 11 s.
    let mut values = vec![1_000_000; 990];
    values.extend((2..12).map(|seconds| seconds * 1_000_000_000));
    let latency = summary(&of(&values), 0, Some(2_000_000_000));
    assert_eq!(latency.lower_bounds, ["p999", "p9999", "max"]);
    assert!(within_three_digits(latency.p99, 1_000_000));
    assert!(within_three_digits(latency.p999, 10_000_000_000));

    let exact = summary(&of(&values), 0, None);
    assert!(exact.lower_bounds.is_empty());
}

#[test]
fn a_percentile_among_the_lost_is_the_largest_value_and_named() {
    // 96 answered, 4 lost: p90 is a value, p99 is not.
    let latency = summary(&of(&(1..=96).collect::<Vec<_>>()), 4, None);
    assert_eq!(
        (latency.p50, latency.p90, latency.p99, latency.max),
        (50, 90, 96, 96)
    );
    assert_eq!(latency.lower_bounds, ["p99", "p999", "p9999", "max"]);
    assert_eq!((latency.count, latency.unanswered), (96, 4));
}

#[test]
fn nothing_recorded_has_finite_figures() {
    let latency = summary(&new(), 0, None);
    assert_eq!(
        (latency.count, latency.min, latency.p50, latency.max),
        (0, 0, 0, 0)
    );
    assert_eq!((latency.mean, latency.stdev), (0.0, 0.0));
    assert!(latency.lower_bounds.is_empty());
    let lost = summary(&new(), 10, Some(5));
    assert_eq!(
        lost.lower_bounds,
        ["p50", "p90", "p99", "p999", "p9999", "max"]
    );
    assert_eq!(lost.p50, 0);
}

#[test]
fn clearing_forgets_values_and_the_count_of_those_out_of_range() {
    let mut recorded = Recorded::new();
    recorded.record(HIGHEST_NS);
    recorded.record(HIGHEST_NS + 1);
    recorded.record(u64::MAX);
    assert_eq!(
        (recorded.histogram().len(), recorded.out_of_range()),
        (1, 2)
    );
    recorded.clear();
    assert_eq!(
        (recorded.histogram().len(), recorded.out_of_range()),
        (0, 0)
    );
}
