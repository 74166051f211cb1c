//! The settings of a waiting bucket.

use crate::setting::{SettingError, at_least_one};
use std::fmt;
use std::time::Duration;

/// The refill rate and capacity of a waiting bucket, validated.
///
/// The rate is stored as the time one unit takes to refill, in whole nanoseconds, rounded up: a rate that does not
/// divide evenly (three per second) is approached from below, never exceeded. Two settings are equal if they behave the
/// same, however they were written.
///
/// ```
/// use seawall_core::waiting::WaitingSettings;
/// use std::time::Duration;
///
/// let settings = WaitingSettings::new(600, Duration::from_secs(60), 20)?;
/// assert_eq!(settings, WaitingSettings::recovery_api());
/// assert_eq!(settings.to_string(), "1 unit per 100ms, capacity 20");
///
/// let error = WaitingSettings::new(10, Duration::from_secs(1), 0).unwrap_err();
/// assert_eq!(error.to_string(), "capacity: must be at least 1");
/// # Ok::<(), seawall_core::setting::SettingError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitingSettings {
    interval: u64,
    capacity: u64,
}

impl WaitingSettings {
    /// `units` per `per`, and at most `capacity` at once.
    ///
    /// Fails on a rate of zero, a rate above one unit per nanosecond, a capacity of zero, and anything that would take
    /// longer than the clock can count (584 years).
    pub fn new(units: u64, per: Duration, capacity: u64) -> Result<Self, SettingError> {
        let units = at_least_one("rate", units)?;
        let capacity = at_least_one("capacity", capacity)?;
        let Ok(per_nanos) = u64::try_from(per.as_nanos()) else {
            return Err(SettingError::new("rate", format!("{per:?} is longer than 584 years")));
        };
        if per_nanos < units {
            let problem = format!("{units} in {per:?} is more than one per nanosecond");
            return Err(SettingError::new("rate", problem));
        }
        let interval = per_nanos.div_ceil(units);
        if interval.checked_mul(capacity).is_none() {
            let problem = format!("{capacity} would take longer than 584 years to fill");
            return Err(SettingError::new("capacity", problem));
        }
        Ok(Self { interval, capacity })
    }

    /// For a cloud's recovery API: ten calls per second, at most twenty at once.
    #[must_use]
    pub const fn recovery_api() -> Self {
        Self { interval: 100_000_000, capacity: 20 }
    }

    /// The time one unit takes to refill.
    #[must_use]
    pub const fn interval(self) -> Duration {
        Duration::from_nanos(self.interval)
    }

    /// The maximum number of units in the bucket.
    #[must_use]
    pub const fn capacity(self) -> u64 {
        self.capacity
    }

    /// The weight of `units`: the nanoseconds they take to refill. `None` above the capacity, which keeps every weight
    /// within the range checked at construction.
    pub(super) fn weight(self, units: u64) -> Option<u64> {
        (units <= self.capacity).then(|| self.interval.saturating_mul(units))
    }

    /// The weight of a full bucket.
    pub(super) fn full(self) -> u64 {
        self.interval.saturating_mul(self.capacity)
    }

    /// The whole units in `weight`.
    pub(super) fn whole_units(self, weight: u64) -> u64 {
        weight / self.interval
    }
}

impl fmt::Display for WaitingSettings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "1 unit per {:?}, capacity {}", self.interval(), self.capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::WaitingSettings;
    use std::time::Duration;

    #[test]
    fn invalid_settings_are_rejected_by_name() {
        let second = Duration::from_secs(1);
        let longest = Duration::from_nanos(u64::MAX);
        for (units, per, capacity, problem) in [
            (0, second, 20, "rate: must be at least 1"),
            (10, second, 0, "capacity: must be at least 1"),
            (10, Duration::ZERO, 20, "rate: 10 in 0ns is more than one per nanosecond"),
            (1_000_000_001, second, 20, "rate: 1000000001 in 1s is more than one per nanosecond"),
            (
                1,
                longest + Duration::from_nanos(1),
                1,
                "rate: 18446744073.709551616s is longer than 584 years",
            ),
            (1, longest, 2, "capacity: 2 would take longer than 584 years to fill"),
        ] {
            assert_eq!(WaitingSettings::new(units, per, capacity).unwrap_err().to_string(), problem);
        }
    }

    #[test]
    fn settings_at_the_edge_are_accepted() {
        let fastest = WaitingSettings::new(1_000_000_000, Duration::from_secs(1), u64::MAX).unwrap();
        assert_eq!(fastest.interval(), Duration::from_nanos(1));
        assert_eq!(fastest.full(), u64::MAX);
        let slowest = WaitingSettings::new(1, Duration::from_nanos(u64::MAX), 1).unwrap();
        assert_eq!((slowest.full(), slowest.capacity()), (u64::MAX, 1));
    }

    #[test]
    fn a_rate_that_does_not_divide_is_followed_from_below() {
        let settings = WaitingSettings::new(3, Duration::from_secs(1), 5).unwrap();
        assert_eq!(settings.interval(), Duration::from_nanos(333_333_334));
        assert_eq!(settings.weight(5), Some(1_666_666_670));
        assert_eq!(settings.weight(6), None);
        assert_eq!(settings.weight(0), Some(0));
        assert_eq!(settings.whole_units(666_666_667), 1);
        assert_eq!(settings.whole_units(666_666_668), 2);
    }

    #[test]
    fn the_recovery_profile_is_ten_a_second_and_twenty_at_once() {
        let settings = WaitingSettings::new(10, Duration::from_secs(1), 20).unwrap();
        assert_eq!(settings, WaitingSettings::recovery_api());
        assert_eq!((settings.capacity(), settings.full()), (20, 2_000_000_000));
        assert_eq!(settings.to_string(), "1 unit per 100ms, capacity 20");
    }
}
