//! Numbers for people: three significant digits and a unit.

/// Scales a value by `base` until it has at most `most` digits' worth, and prints it.
fn scaled(value: f64, base: f64, units: &[&str]) -> String {
    let mut value = if value.is_finite() {
        value
    } else {
        return "n/a".to_string();
    };
    let mut unit = 0;
    // Compared after rounding, so that 999.6 becomes 1.00 of the next unit and not 1000.
    while round(value).abs() >= base && unit + 1 < units.len() {
        value /= base;
        unit += 1;
    }
    let places = if unit == 0 && value.fract() == 0.0 {
        0
    } else {
        places(value)
    };
    format!("{value:.places$}{}", units[unit])
}

/// Decimal places that make three significant digits.
fn places(value: f64) -> usize {
    match value.abs() {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    }
}

fn round(value: f64) -> f64 {
    let factor = 10f64.powi(places(value) as i32);
    (value * factor).round() / factor
}

/// Bits per second: `9.42 Gbit/s` (powers of 1000).
pub fn human_bits_per_second(bits_per_second: f64) -> String {
    let units = [" bit/s", " kbit/s", " Mbit/s", " Gbit/s", " Tbit/s"];
    scaled(bits_per_second, 1000.0, &units)
}

/// Bytes: `1.17 GiB` (powers of 1024).
pub fn human_bytes(bytes: u64) -> String {
    scaled(
        bytes as f64,
        1024.0,
        &[" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"],
    )
}

/// A count or a rate per second without its unit: `123`, `45.6K`, `7.89M` (powers of 1000).
pub fn human_count(count: f64) -> String {
    scaled(count, 1000.0, &["", "K", "M", "G", "T", "P", "E"])
}

/// Nanoseconds: `870 ns`, `12.3 us`, `4.56 ms`, `7.89 s`.
pub fn human_ns(ns: f64) -> String {
    scaled(ns, 1000.0, &[" ns", " us", " ms", " s"])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn three_digits_and_a_unit() {
        for (value, text) in [
            (0.0, "0 bit/s"),
            (9_415_000_000.0, "9.41 Gbit/s"),
            (999.0, "999 bit/s"),
            (999.6, "1.00 kbit/s"),
            (99_960.0, "100 kbit/s"),
            (12_345_678.0, "12.3 Mbit/s"),
            (f64::NAN, "n/a"),
        ] {
            assert_eq!(human_bits_per_second(value), text);
        }
        assert_eq!(human_bytes(1023), "1023 B");
        assert_eq!(human_bytes(1024), "1.00 KiB");
        assert_eq!(human_bytes(u64::MAX), "16.0 EiB");
        assert_eq!(human_count(45_600.0), "45.6K");
        assert_eq!(human_count(0.5), "0.50");
        assert_eq!(human_ns(870.0), "870 ns");
        assert_eq!(human_ns(12_345.0), "12.3 us");
        assert_eq!(human_ns(90e9), "90.0 s");
        assert_eq!(human_ns(9_000e9), "9000 s");
    }

    proptest! {
        #[test]
        fn printed_values_are_within_half_a_percent(value in 1.0f64..1e15) {
            let text = human_count(value);
            let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
            let unit = match &text[digits.len()..] {
                "" => 1.0, "K" => 1e3, "M" => 1e6, "G" => 1e9, "T" => 1e12, _ => 1e15,
            };
            let read: f64 = digits.parse().unwrap();
            prop_assert!((read * unit - value).abs() <= value * 0.0051, "{} {}", value, text);
        }
    }
}
