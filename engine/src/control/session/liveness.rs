//! Whether the other side is still there, and when to tell it that this one is.

use super::SECOND;

/// How often a heartbeat goes out.
const BEAT: u64 = SECOND;

/// Least patience while the case's own traffic may fill the path and hold up the heartbeats.
const FLOOD_PATIENCE: u64 = 15 * SECOND;

/// Signs of life both ways.
#[derive(Debug)]
pub(super) struct Liveness {
    timeout: u64,
    last_sign: u64,
    last_beat: u64,
    received_total: u64,
}

impl Liveness {
    pub(super) fn new(now: u64, timeout: u64) -> Liveness {
        let timeout = timeout.clamp(SECOND, 3600 * SECOND);
        Liveness {
            timeout,
            last_sign: now,
            last_beat: now,
            received_total: 0,
        }
    }

    /// A packet of the session arrived.
    pub(super) fn sign(&mut self, now: u64) {
        self.last_sign = self.last_sign.max(now);
    }

    /// This side's crew has received so much in the sample; growth is a sign of life.
    pub(super) fn received(&mut self, now: u64, total: u64) {
        if total > self.received_total {
            self.sign(now);
        }
        self.received_total = total;
    }

    /// A new sample's counts start at zero.
    pub(super) fn begin(&mut self, now: u64) {
        self.received_total = 0;
        self.sign(now);
    }

    /// Whether a heartbeat is due; if so it counts as sent.
    pub(super) fn beat(&mut self, now: u64) -> bool {
        let due = now.saturating_sub(self.last_beat) >= BEAT;
        if due {
            self.last_beat = now;
        }
        due
    }

    /// How long the silence has lasted, once it has lasted too long. Nanoseconds.
    pub(super) fn expired(&self, now: u64, path_filled: bool) -> Option<u64> {
        let patience = if path_filled {
            self.timeout.max(FLOOD_PATIENCE)
        } else {
            self.timeout
        };
        let silence = now.saturating_sub(self.last_sign);
        (silence > patience).then_some(silence)
    }
}
