//! Decimal numbers with a unit, read without rounding.

use super::ParseError;

/// Most digits of a number, before and after the point together.
const MAX_DIGITS: usize = 36;

/// `mantissa` / 10^`scale`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Decimal {
    mantissa: u128,
    scale: u32,
}

/// What is being read: its name with article and how it is written.
#[derive(Clone, Copy)]
pub(super) struct What {
    pub(super) name: &'static str,
    pub(super) syntax: &'static str,
}

impl What {
    pub(super) fn error(self, text: &str, reason: impl Into<String>) -> ParseError {
        ParseError::new(self.name, text, reason)
    }

    /// Splits a text into its number and what stands behind it.
    pub(super) fn split(self, text: &str) -> Result<(Decimal, &str), ParseError> {
        let end = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let (number, suffix) = text.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let digits = whole.len() + fraction.len();
        if whole.is_empty() || (number.contains('.') && fraction.is_empty()) {
            return Err(self.error(text, format!("it has no number; write {}", self.syntax)));
        }
        if fraction.contains('.') {
            return Err(self.error(text, "it has two decimal points"));
        }
        if digits > MAX_DIGITS {
            return Err(self.error(text, "it has too many digits"));
        }
        let mantissa = whole
            .bytes()
            .chain(fraction.bytes())
            .fold(0u128, |value, digit| value * 10 + u128::from(digit - b'0'));
        Ok((
            Decimal {
                mantissa,
                scale: fraction.len() as u32,
            },
            suffix,
        ))
    }

    /// The number times `unit` as a whole number of 64 bits.
    pub(super) fn whole(self, text: &str, number: Decimal, unit: u64) -> Result<u64, ParseError> {
        let product = number.mantissa.checked_mul(u128::from(unit));
        let product = product.ok_or_else(|| self.error(text, "it is too large"))?;
        let divisor = 10u128.pow(number.scale);
        if product % divisor != 0 {
            return Err(self.error(text, "it is not a whole number of the smallest unit"));
        }
        u64::try_from(product / divisor).map_err(|_| self.error(text, "it is too large"))
    }

    /// The power of `base` that a suffix of K, M, G or T stands for.
    pub(super) fn prefix(self, text: &str, suffix: &str, base: u64) -> Result<u64, ParseError> {
        match suffix.to_ascii_lowercase().as_str() {
            "" => Ok(1),
            "k" => Ok(base),
            "m" => Ok(base.pow(2)),
            "g" => Ok(base.pow(3)),
            "t" => Ok(base.pow(4)),
            _ => Err(self.error(text, format!("unknown unit; write {}", self.syntax))),
        }
    }
}

impl Decimal {
    /// The number times `unit`, rounded to the nearest that a float can hold.
    pub(super) fn float(self, unit: u64) -> f64 {
        // Reading the decimal digits rounds once; multiplying floats would round twice.
        let exponent = -(i64::from(self.scale));
        let scaled = self.mantissa.checked_mul(u128::from(unit));
        let text = match scaled {
            Some(mantissa) => format!("{mantissa}e{exponent}"),
            None => return f64::INFINITY,
        };
        text.parse().unwrap_or(f64::INFINITY)
    }
}

/// A whole number with the largest of K, M, G, T that divides it.
pub(super) fn print_exact(value: u64, base: u64) -> String {
    let units = [
        (base.pow(4), "T"),
        (base.pow(3), "G"),
        (base.pow(2), "M"),
        (base, "K"),
    ];
    for (unit, name) in units {
        if value != 0 && value.is_multiple_of(unit) {
            return format!("{}{name}", value / unit);
        }
    }
    value.to_string()
}
