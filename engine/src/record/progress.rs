//! One interval's news, for the live line, the JSON stream and the other side.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::side::Interval;
use crate::plan::Case;

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

impl Progress {
    /// Whether it tells of an interval of the case's window: not of the warm-up, and not of what
    /// comes between the window's end and the stop.
    pub fn in_window(&self, case: &Case) -> bool {
        let Ok(index) = u64::try_from(self.index) else {
            return false;
        };
        let start = index.saturating_mul(case.interval_ns);
        case.duration_ns().is_none_or(|duration| start < duration)
    }

    /// Whether it tells of the warm-up or of an interval of the window.
    pub fn worth_showing(&self, case: &Case) -> bool {
        self.index < 0 || self.in_window(case)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Limit;
    use crate::record::canned::tour;

    #[test]
    fn the_warm_up_and_what_follows_the_window_are_not_of_it() {
        let mut case = tour().cases[0].case.clone();
        case.limit = Limit::Duration { ns: 25 };
        case.interval_ns = 10;
        let told = |case: &Case, index| {
            let progress = Progress {
                index,
                ..Progress::default()
            };
            (progress.in_window(case), progress.worth_showing(case))
        };
        let expected = [(false, true), (true, true), (true, true), (false, false)];
        assert_eq!([-1, 0, 2, 3].map(|index| told(&case, index)), expected);
        case.limit = Limit::Bytes { bytes: 1 };
        assert_eq!(told(&case, i64::MAX), (true, true));
    }
}
