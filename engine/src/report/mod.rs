//! A result to bytes: table, JSON, live line.
