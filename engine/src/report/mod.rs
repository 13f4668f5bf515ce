//! A result to bytes: table, JSON, live line.
//!
//! A report is made from a [`crate::record::Run`] alone, so that a report from a saved file
//! equals the live one byte for byte. Text is built here; the caller writes it.

pub mod json;
pub mod live;
mod number;
pub mod schema;
pub mod served;
pub mod table;
