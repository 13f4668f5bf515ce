//! Durations in nanoseconds.

use super::ParseError;
use super::number::What;

const DURATION: What = What {
    name: "a duration",
    syntax: "seconds, or a number with ns, us, ms, s, m, h or d",
};

const UNITS: [(&str, u64); 7] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// Reads a duration into nanoseconds: `10s`, `500ms`, `2m`, `100us`, `1.5h`; a bare number is
/// seconds.
///
/// # Errors
/// Anything else, a fraction of a nanosecond, and what does not fit 64 bits (584 years).
pub fn parse_duration(text: &str) -> Result<u64, ParseError> {
    let (number, suffix) = DURATION.split(text)?;
    let name = if suffix.is_empty() { "s" } else { suffix };
    let unit = UNITS.iter().find(|unit| unit.0 == name);
    let unit = unit
        .ok_or_else(|| DURATION.error(text, format!("unknown unit; write {}", DURATION.syntax)))?;
    DURATION.whole(text, number, unit.1)
}

/// A duration that [`parse_duration`] reads back as the same value.
pub fn print_duration(ns: u64) -> String {
    if ns == 0 {
        return "0s".to_string();
    }
    // The unit "ns" divides everything, so one is always found.
    let unit = UNITS.iter().find(|unit| ns.is_multiple_of(unit.1));
    unit.map_or_else(
        || format!("{ns}ns"),
        |unit| format!("{}{}", ns / unit.1, unit.0),
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_have_units_and_default_to_seconds() {
        for (text, ns) in [
            ("10", 10_000_000_000),
            ("0.5", 500_000_000),
            ("10s", 10_000_000_000),
            ("500ms", 500_000_000),
            ("100us", 100_000),
            ("7ns", 7),
            ("2m", 120_000_000_000),
            ("1.5h", 5_400_000_000_000),
            ("1d", 86_400_000_000_000),
            ("0", 0),
        ] {
            assert_eq!(parse_duration(text).unwrap(), ns, "{text}");
        }
        for text in [
            "", "s", "10S", "1.5ns", "1m30s", "-1s", "1e9", "214000d", "inf",
        ] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn printed_durations_read_back(ns: u64, unit in 0usize..7) {
            for value in [ns, ns / UNITS[unit].1 * UNITS[unit].1] {
                prop_assert_eq!(parse_duration(&print_duration(value)).unwrap(), value);
            }
        }

        #[test]
        fn any_text_is_a_duration_or_an_error(text in "[0-9.]{0,45}[a-z]{0,3}") {
            let _ = parse_duration(&text);
        }
    }
}
