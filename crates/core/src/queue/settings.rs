//! The settings of a queue.

use crate::setting::{Ratio, SettingError, at_least_one, positive};
use crate::time::nanos;
use std::time::Duration;

/// Unchecked settings of a queue; [`QueueOptions::check`] validates them.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueOptions {
    /// The maximum number of waiting entries.
    pub capacity: usize,
    /// The maximum wait of any entry, whatever its own deadline.
    pub ttl: Duration,
    /// The share of the time to live, in percent, after which an entry is promoted by one class. At 100 none is.
    pub promote_after_percent: f64,
    /// The DRR quantum: the units of cost in one turn of a session. With a cost of 1 per request, the number of
    /// requests.
    pub quantum: u64,
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self { capacity: 1_000, ttl: Duration::from_secs(30), promote_after_percent: 50.0, quantum: 1 }
    }
}

/// Validated [`QueueOptions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSettings {
    pub(super) capacity: usize,
    pub(super) ttl: Duration,
    pub(super) promote_after: Duration,
    pub(super) quantum: u64,
}

impl QueueSettings {
    /// The maximum wait of any entry, whatever its own deadline.
    #[must_use]
    pub const fn ttl(&self) -> Duration {
        self.ttl
    }
}

impl QueueOptions {
    /// Validates the settings: a queue must be able to hold an entry and to serve it.
    pub fn check(self) -> Result<QueueSettings, SettingError> {
        at_least_one("capacity", self.capacity as u64)?;
        let share = Ratio::percent("promote_after_percent", self.promote_after_percent)?;
        let ttl = positive("ttl", self.ttl)?;
        Ok(QueueSettings {
            capacity: self.capacity,
            ttl,
            promote_after: Duration::from_nanos(share.of(nanos(ttl))),
            quantum: at_least_one("quantum", self.quantum)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::QueueOptions;
    use std::time::Duration;

    #[test]
    fn the_defaults_are_as_documented() {
        let settings = QueueOptions::default().check().unwrap();
        assert_eq!((settings.capacity, settings.quantum), (1_000, 1));
        assert_eq!(settings.ttl, Duration::from_secs(30));
        assert_eq!(settings.promote_after, Duration::from_secs(15));
    }

    #[test]
    fn invalid_settings_are_rejected_by_name() {
        let usual = QueueOptions::default;
        for (options, problem) in [
            (QueueOptions { capacity: 0, ..usual() }, "capacity: must be at least 1"),
            (QueueOptions { quantum: 0, ..usual() }, "quantum: must be at least 1"),
            (QueueOptions { ttl: Duration::ZERO, ..usual() }, "ttl: must be longer than 0s"),
            (
                QueueOptions { promote_after_percent: 100.5, ..usual() },
                "promote_after_percent: 100.5% is more than 100%",
            ),
        ] {
            assert_eq!(options.check().unwrap_err().to_string(), problem);
        }
        let least = QueueOptions { capacity: 1, quantum: 1, ..usual() };
        assert!(least.check().is_ok());
    }
}
