//! Numbers for people: three significant digits, whole numbers from 100 on.

/// Three significant digits: `21.3`, `0.0512`, `45210`. What is no number is a dash.
pub(super) fn figure(value: f64) -> String {
    if !value.is_finite() {
        return "-".to_string();
    }
    let places = match value.abs() {
        x if x >= 99.95 || x == 0.0 => 0,
        x if x >= 9.995 => 1,
        x if x >= 0.9995 => 2,
        x if x >= 0.09995 => 3,
        x if x >= 0.009_995 => 4,
        x if x >= 0.001 => 5,
        _ => return format!("{value:.1e}"),
    };
    format!("{value:.places$}")
}

/// Divisor and name of the unit that suits the largest of a column's bit rates.
pub(super) fn bit_unit(largest: f64) -> (f64, &'static str) {
    match largest {
        x if x >= 1e9 => (1e9, "Gbit/s"),
        x if x >= 1e6 => (1e6, "Mbit/s"),
        x if x >= 1e3 => (1e3, "kbit/s"),
        _ => (1.0, "bit/s"),
    }
}

/// Bits per second with a unit of their own: `21.3 Gbit/s`.
pub(super) fn bits(per_second: f64) -> String {
    let (divisor, unit) = bit_unit(per_second);
    format!("{} {unit}", figure(per_second / divisor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits() {
        for (value, text) in [
            (0.0, "0"),
            (21.345, "21.3"),
            (0.05123, "0.0512"),
            (9.996, "10.0"),
            (99.96, "100"),
            (45_210.4, "45210"),
            (0.000_012_3, "1.2e-5"),
            (-2.5, "-2.50"),
            (f64::NAN, "-"),
            (f64::INFINITY, "-"),
        ] {
            assert_eq!(figure(value), text);
        }
        assert_eq!(bits(21.3e9), "21.3 Gbit/s");
        assert_eq!(bits(8.0), "8.00 bit/s");
    }
}
