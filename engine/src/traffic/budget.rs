//! How much of a limit each flow carries, and the size of its next message.

use crate::plan::{Case, Limit};

/// What is left for one flow to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    bytes: u64,
    message: u64,
}

impl Budget {
    /// The share of flow `flow` (of `case.flows`) in the case's limit. A time limit leaves the
    /// budget unbounded. Shares differ by one at most, so that the sum is exact.
    pub fn of_flow(case: &Case, flow: u32) -> Budget {
        let message = case.request_bytes.max(1);
        let bytes = match case.limit {
            Limit::Duration { .. } => u64::MAX,
            Limit::Bytes { bytes } => share(bytes, case.flows, flow),
            Limit::Transactions { count } => {
                share(count, case.flows, flow).saturating_mul(message)
            }
        };
        Budget { bytes, message }
    }

    /// Bytes of the next send of `coalesce` messages; 0 when nothing is left.
    pub fn peek(&self, coalesce: u64) -> u64 {
        self.bytes.min(self.message * coalesce)
    }

    /// Takes bytes that were handed to the engine.
    pub fn take(&mut self, bytes: u64) {
        if self.bytes != u64::MAX {
            self.bytes -= bytes;
        }
    }

    /// Whether nothing is left.
    pub fn spent(&self) -> bool {
        self.bytes == 0
    }
}

/// Flow `flow`'s share of `total` among `flows`: shares differ by one at most and add up.
pub fn share(total: u64, flows: u32, flow: u32) -> u64 {
    let flows = u64::from(flows.max(1));
    total / flows + u64::from(u64::from(flow) < total % flows)
}

#[cfg(test)]
mod tests {
    use super::share;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn shares_add_up_and_differ_by_one_at_most(total: u32, flows in 1u32..2000) {
            let all: Vec<u64> = (0..flows).map(|f| share(u64::from(total), flows, f)).collect();
            prop_assert_eq!(all.iter().sum::<u64>(), u64::from(total));
            let (low, high) = (all.iter().min().unwrap(), all.iter().max().unwrap());
            prop_assert!(high - low <= 1);
        }
    }
}
