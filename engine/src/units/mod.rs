//! Bytes, rates and durations: parse and print.
//!
//! Printing for a person to type again is exact: what `print_*` gives, `parse_*` reads back as the
//! same value. Rounding for a table is the report's.

mod cidr;
mod clock;
mod duration;
mod list;
mod number;
mod rate;
mod size;

pub use cidr::Cidr;
pub use clock::rfc3339;
pub use duration::{parse_duration, print_duration};
pub use list::{CpuList, PortRange, parse_address, parse_number};
pub use rate::{
    PerSecond, Scope, parse_bitrate, parse_count, print_bitrate, print_count, print_per_second,
};
pub use size::{parse_size, print_size};

/// A text that is not what it was read as.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{text} is not {what}: {reason}")]
pub struct ParseError {
    what: &'static str,
    text: String,
    reason: String,
}

/// Characters of a wrong text that its message repeats.
const QUOTED: usize = 40;

impl ParseError {
    /// An error about `text`, which was to be `what` (with its article).
    pub fn new(what: &'static str, text: &str, reason: impl Into<String>) -> ParseError {
        let mut start: String = text.chars().take(QUOTED).collect();
        if start.len() < text.len() {
            start.push_str("...");
        }
        ParseError {
            what,
            text: format!("{start:?}"),
            reason: reason.into(),
        }
    }
}
