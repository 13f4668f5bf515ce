//! Sizes in bytes; K, M, G, T are powers of 1024.

use super::ParseError;
use super::number::{What, print_exact};

const SIZE: What = What {
    name: "a size",
    syntax: "bytes, or a number with K, M, G, T or KiB, MiB, GiB, TiB (powers of 1024)",
};

/// Reads a size in bytes: `64`, `16K`, `1.5M`, `128KiB`.
///
/// # Errors
/// Anything else, a fraction of a byte, and what does not fit 64 bits.
pub fn parse_size(text: &str) -> Result<u64, ParseError> {
    let (number, suffix) = SIZE.split(text)?;
    let lower = suffix.to_ascii_lowercase();
    let prefix = match lower.strip_suffix("ib") {
        Some(binary) if !binary.is_empty() => binary,
        _ => lower.as_str(),
    };
    let prefix = if prefix == "b" { "" } else { prefix };
    let unit = SIZE.prefix(text, prefix, 1024)?;
    SIZE.whole(text, number, unit)
}

/// A size that [`parse_size`] reads back as the same value.
pub fn print_size(bytes: u64) -> String {
    print_exact(bytes, 1024)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_are_powers_of_1024() {
        for (text, bytes) in [
            ("0", 0),
            ("64", 64),
            ("64B", 64),
            ("16K", 16 << 10),
            ("16k", 16 << 10),
            ("128KiB", 128 << 10),
            ("1.5M", 1_572_864),
            ("2G", 2 << 30),
            ("16777215T", 16_777_215 << 40),
        ] {
            assert_eq!(parse_size(text).unwrap(), bytes, "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_an_error() {
        for text in [
            "",
            "K",
            "-1",
            "+1",
            "1 K",
            "1Q",
            "1KB",
            "0.3K",
            "1.",
            ".5",
            "1.2.3",
            "1iB",
            "1e3",
            "99999999999999999999",
            "16777216T",
            "١",
            "0x10",
            "1K1",
        ] {
            assert!(parse_size(text).is_err(), "{text}");
        }
        let error = parse_size(&"9".repeat(10_000)).unwrap_err().to_string();
        assert!(error.len() < 200, "{error}");
    }

    proptest! {
        #[test]
        fn printed_sizes_read_back(bytes: u64, shift in 0u32..50) {
            for value in [bytes, bytes << shift, bytes >> shift] {
                prop_assert_eq!(parse_size(&print_size(value)).unwrap(), value);
            }
        }

        #[test]
        fn any_text_is_a_size_or_an_error(text in ".{0,60}") {
            let _ = parse_size(&text);
        }

        #[test]
        fn digits_and_units_never_wrap(text in "[0-9.]{0,50}[kKmMgGtTiB]{0,3}") {
            if let Ok(bytes) = parse_size(&text) {
                prop_assert_eq!(parse_size(&print_size(bytes)).unwrap(), bytes);
            }
        }
    }
}
