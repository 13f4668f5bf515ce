//! Counts, rates and bitrates; K, M, G, T are powers of 1000.

use std::fmt;
use std::str::FromStr;

use super::ParseError;
use super::number::{What, print_exact};

const COUNT: What = What {
    name: "a count",
    syntax: "a number, or one with K, M, G or T (powers of 1000)",
};

const BITRATE: What = What {
    name: "a bitrate",
    syntax: "bits per second, or a number with K, M, G or T (powers of 1000)",
};

const RATE: What = What {
    name: "a rate",
    syntax: "a number per second with K, M, G or T (powers of 1000), then /flow or /total",
};

/// Reads a count: `5`, `100K`, `1.5M`.
///
/// # Errors
/// Anything else, a fraction, and what does not fit 64 bits.
pub fn parse_count(text: &str) -> Result<u64, ParseError> {
    let (number, suffix) = COUNT.split(text)?;
    let unit = COUNT.prefix(text, suffix, 1000)?;
    COUNT.whole(text, number, unit)
}

/// A count that [`parse_count`] reads back as the same value.
pub fn print_count(count: u64) -> String {
    print_exact(count, 1000)
}

/// Reads bits per second: `10G`, `1.5M`, `10Gbit`, `10Gbit/s`, `10Gbps`.
///
/// # Errors
/// Anything else, a fraction of a bit, and what does not fit 64 bits.
pub fn parse_bitrate(text: &str) -> Result<u64, ParseError> {
    let (number, suffix) = BITRATE.split(text)?;
    let lower = suffix.to_ascii_lowercase();
    let prefix = ["bit/s", "bps", "bit"]
        .iter()
        .find_map(|unit| lower.strip_suffix(unit))
        .unwrap_or(&lower);
    let unit = BITRATE.prefix(text, prefix, 1000)?;
    BITRATE.whole(text, number, unit)
}

/// A bitrate that [`parse_bitrate`] reads back as the same value.
pub fn print_bitrate(bits_per_second: u64) -> String {
    print_exact(bits_per_second, 1000)
}

/// Over what a rate counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// Each flow has this rate.
    Flow,
    /// All flows of a direction together have it.
    Total,
}

/// Messages or transactions per second, as typed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PerSecond {
    /// Per second; 0 or more.
    pub value: f64,
    /// Of each flow or of all together.
    pub scope: Scope,
}

impl PerSecond {
    /// The rate of so many flows together, per second. A product is rounded to 12 significant
    /// digits, so that 0.001 of each of 118 flows is 0.118 and not 0.11800000000000001.
    pub fn total(&self, flows: u32) -> f64 {
        match self.scope {
            Scope::Flow => {
                let product = self.value * f64::from(flows);
                format!("{product:.11e}").parse().unwrap_or(product)
            }
            Scope::Total => self.value,
        }
    }
}

impl FromStr for PerSecond {
    type Err = ParseError;

    /// Reads `1000/flow`, `100K/total`; without either it is the total.
    fn from_str(text: &str) -> Result<PerSecond, ParseError> {
        let (number, suffix) = RATE.split(text)?;
        let (prefix, scope) = match suffix.split_once('/') {
            None | Some((_, "total")) => (suffix.trim_end_matches("/total"), Scope::Total),
            Some((prefix, "flow")) => (prefix, Scope::Flow),
            Some(_) => return Err(RATE.error(text, "after the slash comes flow or total")),
        };
        let value = number.float(RATE.prefix(text, prefix, 1000)?);
        if !value.is_finite() {
            return Err(RATE.error(text, "it is too large"));
        }
        Ok(PerSecond { value, scope })
    }
}

impl fmt::Display for PerSecond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scope = match self.scope {
            Scope::Flow => "/flow",
            Scope::Total => "/total",
        };
        write!(f, "{}{scope}", print_per_second(self.value))
    }
}

/// Whole numbers up to here are exact in a float.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// A rate per second that reads back as the same value, for rates from 10^-12 to 10^24.
pub fn print_per_second(value: f64) -> String {
    if value.fract() == 0.0 && (0.0..EXACT).contains(&value) {
        print_count(value as u64)
    } else {
        value.to_string()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn counts_and_bitrates_are_powers_of_1000() {
        assert_eq!(parse_count("100K").unwrap(), 100_000);
        assert_eq!(parse_count("1.5M").unwrap(), 1_500_000);
        for text in ["10G", "10Gbit", "10Gbit/s", "10gbps", "10000M"] {
            assert_eq!(parse_bitrate(text).unwrap(), 10_000_000_000, "{text}");
        }
        for text in ["", "G", "10GB", "1.0001K/s", "99999999T", "-1"] {
            assert!(parse_bitrate(text).is_err(), "{text}");
        }
        assert!(parse_count("1.5").is_err());
    }

    #[test]
    fn rates_say_over_what_they_count() {
        let rate = |text: &str| text.parse::<PerSecond>();
        let each = rate("1000/flow").unwrap();
        assert_eq!((each.value, each.scope), (1000.0, Scope::Flow));
        assert_eq!(each.total(7), 7000.0);
        assert_eq!(rate("0.001/flow").unwrap().total(118), 0.118);
        let total = rate("100K/total").unwrap();
        assert_eq!((total.total(7), total.scope), (100_000.0, Scope::Total));
        assert_eq!(
            rate("2.5").unwrap(),
            PerSecond {
                value: 2.5,
                scope: Scope::Total
            }
        );
        for text in [
            "",
            "/flow",
            "1/",
            "1/s",
            "1K/flow/total",
            "1/total/total",
            "nan",
            "inf",
        ] {
            assert!(rate(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn printed_counts_read_back(count: u64, thousands in 0u32..4) {
            for value in [count, count / 1000u64.pow(thousands) * 1000u64.pow(thousands)] {
                prop_assert_eq!(parse_count(&print_count(value)).unwrap(), value);
                prop_assert_eq!(parse_bitrate(&print_bitrate(value)).unwrap(), value);
            }
        }

        #[test]
        fn printed_rates_read_back(
            mantissa in 1.0f64..10.0, exponent in -12i32..24, flow: bool, whole: bool,
        ) {
            let value = mantissa * 10f64.powi(exponent);
            let value = if whole { value.ceil() } else { value };
            let scope = if flow { Scope::Flow } else { Scope::Total };
            let rate = PerSecond { value, scope };
            prop_assert_eq!(rate.to_string().parse::<PerSecond>().unwrap(), rate);
        }

        #[test]
        fn any_text_is_a_rate_or_an_error(text in "[0-9.kKMGT/a-z]{0,45}") {
            let _ = parse_count(&text);
            let _ = parse_bitrate(&text);
            if let Ok(rate) = text.parse::<PerSecond>() {
                prop_assert!(rate.value.is_finite() && rate.value >= 0.0);
            }
        }
    }
}
