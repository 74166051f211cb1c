//! Monotonic age of a ledger, and how long it retains idle entries.

use crate::time::Timestamp;
use std::time::Duration;

/// Idle entries are evicted after this time: it covers today, yesterday for reports, and a margin. It is elapsed time
/// and not dates, so that setting the wall clock cannot make a spent day new.
pub(super) const RETENTION: Duration = Duration::from_secs(48 * 3_600);
/// Interval between eviction scans.
pub(super) const SWEEP_INTERVAL: Duration = Duration::from_secs(3_600);
/// Entries evicted per call, so that no single request pays for a whole day.
pub(super) const SWEEP_BATCH: usize = 64;

/// Time since a ledger first saw a timestamp. Monotonic clocks of two processes are unrelated: entries read back from a
/// journal are as old as the reading, and time without a running process does not count.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Uptime {
    began: Option<Timestamp>,
    /// Uptime of earlier processes.
    before: Duration,
    passed: Duration,
}

impl Uptime {
    /// Continues from the uptime of a restored ledger.
    pub(super) const fn since(before: Duration) -> Self {
        Self { began: None, before, passed: before }
    }

    /// The latest timestamp seen in this process, if any.
    pub(super) fn latest(self) -> Option<Timestamp> {
        self.began.map(|began| began + self.passed.saturating_sub(self.before))
    }

    pub(super) fn observe(&mut self, now: Timestamp) {
        let began = *self.began.get_or_insert(now);
        self.passed = self.passed.max(self.before.saturating_add(now - began));
    }

    pub(super) const fn get(self) -> Duration {
        self.passed
    }

    /// Whether an entry last used at `used` is past its retention.
    pub(super) fn is_past_retention(self, used: Duration) -> bool {
        self.passed.saturating_sub(used) >= RETENTION
    }
}
