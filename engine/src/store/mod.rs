//! What crosses the disk besides traffic: run files.
