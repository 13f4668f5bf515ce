//! The open-loop schedule of one worker.
//!
//! All flows of a group together send at one rate; event `k` of the group is intended at
//! `start + k / rate`, and flow `f` of `F` has the events `f`, `f + F`, `f + 2F` and so on. That
//! staggers the flows evenly over the gap `F / rate` of each. An intended time depends on nothing
//! that happened: it is never "now and a gap".
//!
//! The period is kept as a fraction of integers that equals the rate given to the last bit, and a
//! flow moves on by adding its gap with the remainder carried, so there is no rounding to add up.

const NS_PER_SECOND: u128 = 1_000_000_000;

/// Nanoseconds per event of the whole group, as a fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Period {
    numerator: u128,
    denominator: u64,
}

impl Period {
    /// The exact period of a rate; none where the rate is not positive and finite, or so low that
    /// the second event is beyond 64 bits of nanoseconds (584 years).
    fn of_rate(per_second: f64) -> Option<Period> {
        if !per_second.is_finite() || per_second < 1e-10 {
            return None;
        }
        // No machine offers more than 1e15 a second; the bound keeps the fraction in its types.
        let bits = per_second.min(1e15).to_bits();
        let exponent = ((bits >> 52) & 0x7ff) as i32 - 1075;
        let mantissa = (bits & ((1 << 52) - 1)) | (1 << 52);
        let twos = mantissa.trailing_zeros();
        let (mantissa, exponent) = (mantissa >> twos, exponent + twos as i32);
        // The rate is mantissa * 2^exponent, and below 2^50.
        Some(if exponent >= 0 {
            Period {
                numerator: NS_PER_SECOND,
                denominator: mantissa << exponent,
            }
        } else {
            Period {
                numerator: NS_PER_SECOND << -exponent,
                denominator: mantissa,
            }
        })
    }

    /// So many periods, as whole nanoseconds and a remainder in parts of the denominator; none
    /// beyond 64 bits.
    fn times(&self, events: u128) -> Option<Instant> {
        let product = self.numerator.checked_mul(events)?;
        let denominator = u128::from(self.denominator);
        let ns = u64::try_from(product / denominator).ok()?;
        Some(Instant {
            ns,
            parts: (product % denominator) as u64,
        })
    }

    /// Events of the group intended before an instant after the start.
    fn events_before(&self, ns: u64) -> u128 {
        // Event k is floor(k * n / d), which is below t where k * n < t * d.
        (u128::from(ns) * u128::from(self.denominator)).div_ceil(self.numerator)
    }
}

/// Nanoseconds and parts of the period's denominator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Instant {
    ns: u64,
    parts: u64,
}

impl Instant {
    fn plus(self, other: Instant, denominator: u64) -> Option<Instant> {
        // Both remainders are below a denominator of at most 53 bits.
        let parts = self.parts + other.parts;
        let carry = u64::from(parts >= denominator);
        let ns = self.ns.checked_add(other.ns)?.checked_add(carry)?;
        Some(Instant {
            ns,
            parts: parts - carry * denominator,
        })
    }
}

/// When one worker's flows are to send.
///
/// Every flow has the same gap, and the first events of all lie within one gap, so the flows take
/// turns in the order of their numbers for ever: a cursor does what a heap would.
#[derive(Debug)]
pub struct Schedule {
    period: Option<Period>,
    flows_total: u32,
    /// Global flow numbers, by own index.
    own: Box<[u32]>,
    /// Own indices in the order of their turns.
    turns: Box<[usize]>,
    /// Next event of each turn's flow, after the start; none where it is beyond 64 bits.
    next: Box<[Option<Instant>]>,
    /// From one event of a flow to its next.
    gap: Option<Instant>,
    cursor: usize,
    start_ns: u64,
}

impl Schedule {
    /// The schedule of a worker that has the flows `own_flows` (global numbers, each below
    /// `flows_total`) of a group of `flows_total` flows with `rate_per_second_total` events per
    /// second over all of them. It begins at 0 until [`Schedule::start`] is called; nothing
    /// allocates from there on.
    ///
    /// A rate that is not positive and finite has no events.
    pub fn new(rate_per_second_total: f64, flows_total: u32, own_flows: &[u32]) -> Schedule {
        debug_assert!(own_flows.iter().all(|&flow| flow < flows_total));
        let period = Period::of_rate(rate_per_second_total);
        let mut turns: Vec<usize> = (0..own_flows.len()).collect();
        turns.sort_by_key(|&own| own_flows[own]);
        let mut schedule = Schedule {
            period,
            flows_total,
            own: own_flows.into(),
            next: vec![None; turns.len()].into(),
            turns: turns.into(),
            gap: period.and_then(|period| period.times(u128::from(flows_total))),
            cursor: 0,
            start_ns: 0,
        };
        schedule.start(0);
        schedule
    }

    /// Begins anew at an instant, nanoseconds of whatever clock the caller uses throughout.
    pub fn start(&mut self, ns: u64) {
        self.start_ns = ns;
        self.cursor = 0;
        for (next, &own) in self.next.iter_mut().zip(&self.turns) {
            let first = u128::from(self.own[own]);
            *next = self.period.and_then(|period| period.times(first));
        }
    }

    /// When the next event of this worker is intended; none where it has none.
    pub fn next_due(&self) -> Option<u64> {
        let next = (*self.next.get(self.cursor)?)?;
        self.start_ns.checked_add(next.ns)
    }

    /// Takes the next event where it is intended at `now` or before: the index into `own_flows`
    /// and the intended time.
    pub fn pop_due(&mut self, now: u64) -> Option<(usize, u64)> {
        let intended = self.next_due().filter(|&due| due <= now)?;
        let own = self.turns[self.cursor];
        let next = &mut self.next[self.cursor];
        *next = match (*next, self.gap, self.period) {
            (Some(at), Some(gap), Some(period)) => at.plus(gap, period.denominator),
            _ => None,
        };
        self.cursor += 1;
        if self.cursor == self.turns.len() {
            self.cursor = 0;
        }
        Some((own, intended))
    }

    /// Intended time of event `i`, from 0, of the flow with index `own`; `u64::MAX` where it is
    /// beyond 64 bits or there are no events.
    pub fn intended(&self, own: usize, i: u64) -> u64 {
        let event = u128::from(self.own[own]) + u128::from(i) * u128::from(self.flows_total);
        self.period
            .and_then(|period| period.times(event))
            .and_then(|at| self.start_ns.checked_add(at.ns))
            .unwrap_or(u64::MAX)
    }

    /// Events of the flow with index `own` that are intended before an instant, taken or not.
    pub fn due_before(&self, own: usize, t: u64) -> u64 {
        let (Some(period), Some(after)) = (self.period, t.checked_sub(self.start_ns)) else {
            return 0;
        };
        let events = period.events_before(after);
        let before = events.saturating_sub(u128::from(self.own[own]));
        u64::try_from(before.div_ceil(u128::from(self.flows_total))).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests;
