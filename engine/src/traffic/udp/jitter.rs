//! Interarrival jitter.

/// Interarrival jitter as RFC 3550 section 6.4.1 defines it: the mean deviation of the spacing at
/// the receiver from the spacing at the sender, smoothed with a gain of 1/16, in order of arrival.
///
/// The two clocks are never compared: only differences of each enter.
#[derive(Clone, Copy, Debug, Default)]
pub struct Jitter {
    last: Option<(u64, u64)>,
    estimate_ns: f64,
    differences: u64,
}

impl Jitter {
    /// No datagram yet.
    pub const fn new() -> Jitter {
        Jitter {
            last: None,
            estimate_ns: 0.0,
            differences: 0,
        }
    }

    /// A datagram arrived: its send stamp by the sender's clock and its receive time by the
    /// kernel's, both nanoseconds.
    pub fn arrived(&mut self, sent_ns: u64, received_ns: u64) {
        if let Some((last_sent, last_received)) = self.last {
            let spacing_received = received_ns.wrapping_sub(last_received);
            let spacing_sent = sent_ns.wrapping_sub(last_sent);
            let deviation = spacing_received.wrapping_sub(spacing_sent) as i64;
            self.estimate_ns += (deviation.unsigned_abs() as f64 - self.estimate_ns) / 16.0;
            self.differences += 1;
        }
        self.last = Some((sent_ns, received_ns));
    }

    /// The estimate, nanoseconds; none before the second datagram.
    pub fn value_ns(&self) -> Option<f64> {
        (self.differences > 0).then_some(self.estimate_ns)
    }

    /// Differences that went into the estimate: its weight where flows are averaged.
    pub fn weight(&self) -> u64 {
        self.differences
    }
}
