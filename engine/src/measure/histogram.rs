//! Latency histograms: recorded without allocation, kept whole, merged without loss.
//!
//! All have the same bounds, 1 ns to 1 h with 3 significant digits, so that any two merge and
//! what crosses the wire can be checked before anything is allocated for it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};

use crate::record::run::Latency;

/// Lowest value told from its neighbours, nanoseconds.
pub const LOWEST_NS: u64 = 1;

/// Highest value that is recorded, nanoseconds: one hour.
pub const HIGHEST_NS: u64 = 3_600_000_000_000;

/// Significant decimal digits.
pub const DIGITS: u8 = 3;

/// Longest text that [`decode`] looks at, bytes. The largest histogram there can be is half that.
pub const MAX_TEXT: usize = 1 << 20;

/// Why a text is not a histogram of ours, or a histogram has no text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HistogramError {
    /// Longer than [`MAX_TEXT`].
    #[error("a histogram of {0} bytes of text; at most {MAX_TEXT} are accepted")]
    TooLong(usize),
    /// Not base64, not HDR V2, cut short, or inconsistent.
    #[error("not a base64 HDR V2 histogram: {0}")]
    Malformed(String),
    /// A histogram with another range or precision.
    #[error("a histogram with other bounds than 1 ns to 1 h and 3 digits")]
    OtherBounds,
    /// Counts add up to more than a histogram can hold.
    #[error("a histogram whose counts add up to more than 2^63")]
    Overflow,
}

/// An empty histogram. Recording in it never allocates.
pub fn new() -> Histogram<u64> {
    Histogram::new_with_bounds(LOWEST_NS, HIGHEST_NS, DIGITS)
        .expect("the bounds are constants that the library accepts")
}

/// A histogram that counts what it cannot hold, where a bare one would saturate and hide it.
#[derive(Clone, Debug)]
pub struct Recorded {
    histogram: Histogram<u64>,
    out_of_range: u64,
}

impl Default for Recorded {
    fn default() -> Self {
        Recorded::new()
    }
}

impl Recorded {
    /// Nothing recorded.
    pub fn new() -> Recorded {
        Recorded {
            histogram: new(),
            out_of_range: 0,
        }
    }

    /// Records a value, nanoseconds. Above [`HIGHEST_NS`] it is counted as out of range only.
    /// Does not allocate.
    pub fn record(&mut self, value_ns: u64) {
        if value_ns > HIGHEST_NS || self.histogram.record(value_ns).is_err() {
            self.out_of_range += 1;
        }
    }

    /// Records a value that came several times, as [`Recorded::record`].
    pub fn record_many(&mut self, value_ns: u64, times: u64) {
        if value_ns > HIGHEST_NS || self.histogram.record_n(value_ns, times).is_err() {
            self.out_of_range += times;
        }
    }

    /// The values in range.
    pub fn histogram(&self) -> &Histogram<u64> {
        &self.histogram
    }

    /// Values that were above the range.
    pub fn out_of_range(&self) -> u64 {
        self.out_of_range
    }

    /// Adds what another recorded. Does not allocate.
    pub fn merge(&mut self, other: &Recorded) {
        // Both were made by `new`, so their bounds are the same and the addition cannot fail.
        if self.histogram.add(&other.histogram).is_err() {
            self.out_of_range += other.histogram.len();
        }
        self.out_of_range += other.out_of_range;
    }

    /// Forgets everything, for the next interval. Does not allocate.
    pub fn clear(&mut self) {
        self.histogram.reset();
        self.out_of_range = 0;
    }
}

/// Adds `other` to `to`, exactly.
///
/// # Errors
///
/// Where the bounds differ, or the counts together could not be stated; `to` is as before then.
pub fn merge(to: &mut Histogram<u64>, other: &Histogram<u64>) -> Result<(), HistogramError> {
    let bounds = |h: &Histogram<u64>| (h.low(), h.high(), h.sigfig());
    if bounds(to) != bounds(other) {
        return Err(HistogramError::OtherBounds);
    }
    match to.len().checked_add(other.len()) {
        Some(total) if total <= i64::MAX as u64 => {}
        _ => return Err(HistogramError::Overflow),
    }
    to.add(other).map_err(|_| HistogramError::OtherBounds)
}

/// The base64 text of the HDR V2 encoding, not compressed.
///
/// # Errors
///
/// Where a count is above 2^63.
pub fn encode(histogram: &Histogram<u64>) -> Result<String, HistogramError> {
    let mut bytes = Vec::new();
    V2Serializer::new()
        .serialize(histogram, &mut bytes)
        .map_err(|error| HistogramError::Malformed(error.to_string()))?;
    Ok(STANDARD.encode(bytes))
}

/// Reads a text that the other side or a file claims to be a histogram.
///
/// What it allocates is bounded by [`MAX_TEXT`] and the size of one histogram, whatever the text
/// says: the header and every count are checked before the library sees them.
///
/// # Errors
///
/// Where it is too long, is not an uncompressed HDR V2 histogram, has other bounds than ours, or
/// counts that do not fit.
pub fn decode(text: &str) -> Result<Histogram<u64>, HistogramError> {
    if text.len() > MAX_TEXT {
        return Err(HistogramError::TooLong(text.len()));
    }
    let bytes = STANDARD
        .decode(text)
        .map_err(|e| HistogramError::Malformed(e.to_string()))?;
    check_header(&bytes)?;
    check_counts(&bytes[HEADER_BYTES..])?;
    Deserializer::new()
        .deserialize(&mut bytes.as_slice())
        .map_err(|error| HistogramError::Malformed(error.to_string()))
}

/// Cookie, payload length, offset, digits (4 bytes each), low, high, ratio (8 bytes each).
const HEADER_BYTES: usize = 40;

/// Marks the uncompressed V2 form.
const V2_COOKIE: u32 = 0x1c84_9313;

fn check_header(bytes: &[u8]) -> Result<(), HistogramError> {
    if bytes.len() < HEADER_BYTES {
        return Err(HistogramError::Malformed(
            "shorter than its header".to_string(),
        ));
    }
    let word = |at: usize| {
        let mut four = [0; 4];
        four.copy_from_slice(&bytes[at..at + 4]);
        u32::from_be_bytes(four)
    };
    let long = |at: usize| u64::from(word(at)) << 32 | u64::from(word(at + 4));
    if word(0) != V2_COOKIE {
        return Err(HistogramError::Malformed(
            "not of the uncompressed V2 form".to_string(),
        ));
    }
    if word(4) as usize != bytes.len() - HEADER_BYTES {
        return Err(HistogramError::Malformed(
            "its length is not the one stated".to_string(),
        ));
    }
    if word(12) != u32::from(DIGITS) || long(16) != LOWEST_NS || long(24) != HIGHEST_NS {
        return Err(HistogramError::OtherBounds);
    }
    Ok(())
}

/// Walks the counts (LEB128 with a ninth byte taken whole, zigzag; negative is a run of zeros).
/// The library trusts that none is the lowest integer and that they add up within 64 bits.
fn check_counts(payload: &[u8]) -> Result<(), HistogramError> {
    let mut total: i64 = 0;
    let mut bytes = payload.iter();
    while bytes.len() > 0 {
        let mut encoded = 0u64;
        for shift in (0..=56).step_by(7) {
            let byte = *bytes
                .next()
                .ok_or_else(|| HistogramError::Malformed("cut short in a count".to_string()))?;
            let whole = shift == 56;
            encoded |= u64::from(if whole { byte } else { byte & 0x7f }) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        let value = (encoded >> 1) as i64 ^ -((encoded & 1) as i64);
        if value == i64::MIN {
            return Err(HistogramError::Malformed(
                "a run of zeros without end".to_string(),
            ));
        }
        total = total
            .checked_add(value.max(0))
            .ok_or(HistogramError::Overflow)?;
    }
    Ok(())
}

/// The percentiles that are reported: name, and rank in parts of 10 000.
const PERCENTILES: [(&str, u64); 5] = [
    ("p50", 5_000),
    ("p90", 9_000),
    ("p99", 9_900),
    ("p999", 9_990),
    ("p9999", 9_999),
];

/// What a histogram says, for the result.
///
/// `unanswered` transactions have no value and rank above every value; a percentile that falls
/// among them is given as the largest value, which is a lower bound. Censored transactions are in
/// the histogram with their age at the stop; `censored_floor` is the smallest of those ages, and
/// a percentile that reaches it is a lower bound too. `lower_bounds` names those, and `max`
/// with them.
pub fn summary(
    histogram: &Histogram<u64>,
    unanswered: u64,
    censored_floor: Option<u64>,
) -> Latency {
    let count = histogram.len();
    let ranked = u128::from(count) + u128::from(unanswered);
    let ranks = PERCENTILES.map(|(_, parts)| (ranked * u128::from(parts)).div_ceil(10_000).max(1));
    let max = histogram.max();
    let values = values_at(histogram, ranks, max);

    let touched = |value: u64| censored_floor.is_some_and(|floor| value >= floor);
    let mut lower_bounds = Vec::new();
    for ((&(name, _), rank), value) in PERCENTILES.iter().zip(ranks).zip(values) {
        if (unanswered > 0 && rank > u128::from(count)) || (count > 0 && touched(value)) {
            lower_bounds.push(name.to_string());
        }
    }
    if unanswered > 0 || (count > 0 && touched(max)) {
        lower_bounds.push("max".to_string());
    }

    let [p50, p90, p99, p999, p9999] = values;
    Latency {
        count,
        mean: histogram.mean(),
        stdev: histogram.stdev(),
        min: histogram.min(),
        p50,
        p90,
        p99,
        p999,
        p9999,
        max,
        lower_bounds,
        unanswered,
        // Fails only for counts that no run can reach.
        histogram: encode(histogram).unwrap_or_default(),
    }
}

/// The values at ascending ranks from 1; `beyond` where the histogram has fewer values.
fn values_at(histogram: &Histogram<u64>, ranks: [u128; 5], beyond: u64) -> [u64; 5] {
    let mut values = [beyond; 5];
    let mut at = 0;
    let mut passed = 0u128;
    for step in histogram.iter_recorded() {
        passed += u128::from(step.count_since_last_iteration());
        while at < ranks.len() && ranks[at] <= passed {
            values[at] = step.value_iterated_to();
            at += 1;
        }
    }
    values
}

#[cfg(test)]
mod tests;
