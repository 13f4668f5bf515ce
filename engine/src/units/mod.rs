//! Bytes, rates and durations: parse and print.
