//! How much of a limit each flow carries, and the size of its next message.

use crate::plan::{Case, Limit};

/// What is left for one flow to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    bytes: u64,
    message: u64,
    least: u64,
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
        Budget {
            bytes,
            message,
            least: 0,
        }
    }

    /// Lets no message be shorter than `least` bytes, as far as that is possible: the last but
    /// one gives to the last.
    pub fn at_least(self, least: u64) -> Budget {
        Budget { least, ..self }
    }

    /// Bytes of the next send of `coalesce` messages; 0 when nothing is left. All messages but
    /// the last of a send are whole.
    pub fn peek(&self, coalesce: u64) -> u64 {
        let send = self.bytes.min(self.message.saturating_mul(coalesce));
        let (whole, rest) = (self.bytes / self.message, self.bytes % self.message);
        if self.bytes == u64::MAX || rest == 0 || rest >= self.least {
            return send;
        }
        match whole {
            0 => send,
            1 => self.bytes.saturating_sub(self.least).max(1),
            _ => (whole - 1).min(coalesce) * self.message,
        }
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
    use super::{Budget, share};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_message_is_too_short_where_that_can_be(bytes in 24u64..100_000,
                                                     message in 47u64..3000,
                                                     coalesce in 1u64..20) {
            let mut budget = Budget { bytes, message, least: 24 };
            let mut sum = 0;
            while !budget.spent() {
                let send = budget.peek(coalesce);
                prop_assert!(send > 0 && send <= message * coalesce);
                let last = (send - 1) % message + 1;
                prop_assert!(last >= 24, "{last} of {send}");
                budget.take(send);
                sum += send;
            }
            prop_assert_eq!(sum, bytes);
        }

        #[test]
        fn shares_add_up_and_differ_by_one_at_most(total: u32, flows in 1u32..2000) {
            let all: Vec<u64> = (0..flows).map(|f| share(u64::from(total), flows, f)).collect();
            prop_assert_eq!(all.iter().sum::<u64>(), u64::from(total));
            let (low, high) = (all.iter().min().unwrap(), all.iter().max().unwrap());
            prop_assert!(high - low <= 1);
        }
    }
}
