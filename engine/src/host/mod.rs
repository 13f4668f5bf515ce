//! The machine as found. Reads from a root path and changes nothing.
