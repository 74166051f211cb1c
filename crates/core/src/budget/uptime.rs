//! How long a book has been in use, and how long it remembers.

use crate::time::Timestamp;
use std::time::Duration;

/// What nobody has used for this long is forgotten: today, yesterday for those who look back, and some more. It is time
/// that has passed and not dates that have, so that no calendar, however it is set, makes a spent day new.
pub(super) const KEPT_FOR: Duration = Duration::from_secs(48 * 3_600);
/// How often to look for what can be forgotten.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(3_600);
/// How many things are forgotten in one go, so that no request pays for all of yesterday.
pub(super) const SLICE: usize = 64;

/// Time since the first moment that a book was told. Clocks of two processes have nothing in common, so what is read back
/// from a journal is as old as the reading, and time in which no process ran does not count.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Uptime {
    began: Option<Timestamp>,
    /// What had passed before this process.
    before: Duration,
    passed: Duration,
}

impl Uptime {
    /// Of a book that had been in use for so long when it was written down.
    pub(super) const fn since(before: Duration) -> Self {
        Self { began: None, before, passed: before }
    }

    /// The latest moment that the book has been told, if it has been told one by this process.
    pub(super) fn latest(self) -> Option<Timestamp> {
        self.began.map(|began| began + self.passed.saturating_sub(self.before))
    }

    pub(super) fn hear(&mut self, now: Timestamp) {
        let began = *self.began.get_or_insert(now);
        self.passed = self.passed.max(self.before.saturating_add(now - began));
    }

    pub(super) const fn get(self) -> Duration {
        self.passed
    }

    /// Whether something was used too long ago to be remembered.
    pub(super) fn has_outlived(self, used: Duration) -> bool {
        self.passed.saturating_sub(used) >= KEPT_FOR
    }
}
