//! One figure of one sample, and how several samples' print.

use crate::record::Latency;
use crate::report::number::figure;

/// How a column's base unit becomes the printed one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Scale {
    /// As it is.
    Plain,
    /// A whole number, in full.
    Count,
    /// Nanoseconds, printed as microseconds.
    Micros,
    /// Bits per second, printed in the unit that suits the table's largest.
    Bits,
}

/// A figure.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Value {
    /// A number in the column's base unit.
    Number(f64),
    /// A lower bound, printed as `>= x`.
    AtLeast(f64),
    /// Falls among what never came, printed as `lost`.
    Lost,
    /// Why there is no number.
    Text(&'static str),
}

impl Value {
    /// A number, if it is one.
    pub(super) fn number(value: f64) -> Option<Value> {
        value.is_finite().then_some(Value::Number(value))
    }

    /// The number, for the choice of a unit.
    pub(super) fn size(self) -> Option<f64> {
        match self {
            Value::Number(value) | Value::AtLeast(value) => Some(value),
            Value::Lost | Value::Text(_) => None,
        }
    }

    fn rank(self) -> f64 {
        self.size().unwrap_or(f64::INFINITY)
    }

    fn print(self, scale: Scale, bits: f64) -> String {
        let text = |value: f64| match scale {
            Scale::Plain => figure(value),
            Scale::Count => format!("{value:.0}"),
            Scale::Micros => figure(value / 1000.0),
            Scale::Bits => figure(value / bits),
        };
        match self {
            Value::Number(value) => text(value),
            Value::AtLeast(value) => format!(">= {}", text(value)),
            Value::Lost => "lost".to_string(),
            Value::Text(text) => text.to_string(),
        }
    }
}

/// A percentile as it stands: a value, a lower bound, or lost.
pub(super) fn percentile(latency: &Latency, name: &str, per_10k: u64, value: u64) -> Value {
    let total = u128::from(latency.count) + u128::from(latency.unanswered);
    let rank = (total * u128::from(per_10k)).div_ceil(10_000);
    if rank > u128::from(latency.count) {
        return Value::Lost;
    }
    if latency.lower_bounds.iter().any(|bound| bound == name) {
        return Value::AtLeast(value as f64);
    }
    Value::Number(value as f64)
}

/// One sample's figure, or the median of several with the least and the most below it. The
/// median is always one sample's own figure, the lower of two middle ones, so that percentiles
/// are never averaged.
/// `bits` is the size of the unit of bit rates.
pub(super) fn print(mut values: Vec<Value>, scale: Scale, bits: f64) -> String {
    values.sort_by(|a, b| a.rank().total_cmp(&b.rank()));
    match values.as_slice() {
        [] => "-".to_string(),
        [only] => only.print(scale, bits),
        [least, .., most] => {
            let median = values[(values.len() - 1) / 2];
            if least == most {
                return median.print(scale, bits);
            }
            let range = (least.print(scale, bits), most.print(scale, bits));
            format!("{}\n{}..{}", median.print(scale, bits), range.0, range.1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_a_samples_own() {
        let numbers = |values: &[f64]| values.iter().map(|v| Value::Number(*v)).collect();
        assert_eq!(print(numbers(&[]), Scale::Plain, 1.0), "-");
        assert_eq!(print(numbers(&[17.0]), Scale::Count, 1.0), "17");
        assert_eq!(print(numbers(&[2.0]), Scale::Plain, 1.0), "2.00");
        assert_eq!(
            print(numbers(&[4.0, 1.0]), Scale::Plain, 1.0),
            "1.00\n1.00..4.00"
        );
        assert_eq!(
            print(numbers(&[4.0, 1.0, 3.0]), Scale::Plain, 1.0),
            "3.00\n1.00..4.00"
        );
        let mixed = vec![Value::Lost, Value::AtLeast(2000.0), Value::Number(1000.0)];
        assert_eq!(print(mixed, Scale::Micros, 1.0), ">= 2.00\n1.00..lost");
    }

    #[test]
    fn percentiles_among_the_lost() {
        let latency = Latency {
            count: 90,
            unanswered: 10,
            lower_bounds: vec!["p50".to_string(), "p99".to_string()],
            ..Latency::default()
        };
        assert_eq!(percentile(&latency, "p50", 5000, 7), Value::AtLeast(7.0));
        assert_eq!(percentile(&latency, "p90", 9000, 7), Value::Number(7.0));
        assert_eq!(percentile(&latency, "p99", 9900, 7), Value::Lost);
    }
}
