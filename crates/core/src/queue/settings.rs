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
    pub time_to_live: Duration,
    /// The share of the time to live, in percent, after which an entry is promoted by one class. At 100 none is.
    pub promotion_percent: f64,
    /// The DRR quantum: the units of cost in one turn of a session. With a cost of 1 per request, the number of
    /// requests.
    pub quantum: u64,
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self { capacity: 1_000, time_to_live: Duration::from_secs(30), promotion_percent: 50.0, quantum: 1 }
    }
}

/// Validated [`QueueOptions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSettings {
    pub(super) capacity: usize,
    pub(super) time_to_live: Duration,
    pub(super) promote_after: Duration,
    pub(super) quantum: u64,
}

impl QueueSettings {
    /// The maximum wait of any entry, whatever its own deadline.
    #[must_use]
    pub const fn time_to_live(&self) -> Duration {
        self.time_to_live
    }
}

impl QueueOptions {
    /// Validates the settings: a queue must be able to hold an entry and to serve it.
    pub fn check(self) -> Result<QueueSettings, SettingError> {
        at_least_one("capacity", self.capacity as u64)?;
        let share = Ratio::percent("promotion_percent", self.promotion_percent)?;
        let time_to_live = positive("time_to_live", self.time_to_live)?;
        Ok(QueueSettings {
            capacity: self.capacity,
            time_to_live,
            promote_after: Duration::from_nanos(share.of(nanos(time_to_live))),
            quantum: at_least_one("quantum", self.quantum)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::QueueOptions;
    use std::time::Duration;

    #[test]
    fn the_usual_numbers_are_those_that_are_documented() {
        let settings = QueueOptions::default().check().unwrap();
        assert_eq!((settings.capacity, settings.quantum), (1_000, 1));
        assert_eq!(settings.time_to_live, Duration::from_secs(30));
        assert_eq!(settings.promote_after, Duration::from_secs(15));
    }

    #[test]
    fn a_queue_that_nobody_could_wait_in_is_refused_by_name() {
        let usual = QueueOptions::default;
        for (options, problem) in [
            (QueueOptions { capacity: 0, ..usual() }, "capacity: must be at least 1"),
            (QueueOptions { quantum: 0, ..usual() }, "quantum: must be at least 1"),
            (
                QueueOptions { time_to_live: Duration::ZERO, ..usual() },
                "time_to_live: must be longer than 0s",
            ),
            (
                QueueOptions { promotion_percent: 100.5, ..usual() },
                "promotion_percent: 100.5% is more than 100%",
            ),
        ] {
            assert_eq!(options.check().unwrap_err().to_string(), problem);
        }
        let least = QueueOptions { capacity: 1, quantum: 1, ..usual() };
        assert!(least.check().is_ok());
    }
}
