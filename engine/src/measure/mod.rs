//! Allocation-free recording of what was counted and timed.
