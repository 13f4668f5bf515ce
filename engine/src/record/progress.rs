//! One interval's news, for the live line, the JSON stream and the other side.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::side::Interval;

/// What one side counted in one interval.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Debug, Default)]
#[serde(default)]
pub struct Progress {
    /// Interval number from the mark; negative numbers are the warm-up's.
    pub index: i64,
    /// One entry per group, in the case's order.
    pub groups: Vec<Interval>,
    /// Per group: histogram of the latencies recorded in it, base64 of HDR V2.
    pub latency: Vec<Option<String>>,
    /// Bytes received in the whole sample so far: a sign of life.
    pub received_total: u64,
    /// Lifetime counters of each group so far, which are all that is known if this side dies.
    pub lifetime: Vec<super::side::Counters>,
}
