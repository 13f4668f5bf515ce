//! What crosses the disk besides traffic: run files.

pub mod runfile;
