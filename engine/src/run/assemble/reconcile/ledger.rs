//! Faults collected while counts are compared.

/// What did not add up so far.
#[derive(Default)]
pub(super) struct Ledger {
    pub(super) faults: Vec<String>,
}

impl Ledger {
    pub(super) fn equal(&mut self, what: &str, left: u64, right: u64) {
        if left != right {
            let difference = i128::from(left) - i128::from(right);
            self.faults
                .push(format!("{what}: {left} and {right} differ by {difference}"));
        }
    }

    pub(super) fn at_most(&mut self, what: &str, low: u64, high: u64) {
        if low > high {
            self.faults
                .push(format!("{what}: {low} is more than {high}"));
        }
    }
}
