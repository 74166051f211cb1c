//! Time as a value.
//!
//! No machine reads a clock. The caller passes in the time, so that the same decision can be taken live, in a test, or
//! a million times on a virtual clock. Two kinds of time are separate types: [`Timestamp`] is monotonic and measures
//! waits; [`UtcTime`] is the wall clock, may be stepped by an administrator, and only determines the day or month.
//! [`Now`] carries both.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

const NANOS_PER_SECOND: u64 = 1_000_000_000;
const SECONDS_PER_DAY: u64 = 86_400;

/// A time on a monotonic clock, in nanoseconds from an origin that the clock chose.
///
/// Arithmetic saturates: a wait too long to represent is infinite (584 years), never a panic.
///
/// ```
/// use seawall_core::time::Timestamp;
/// use std::time::Duration;
///
/// let start = Timestamp::from_nanos(5_000);
/// let later = start + Duration::from_secs(1);
/// assert_eq!(later - start, Duration::from_secs(1));
/// assert_eq!(start - later, Duration::ZERO);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The clock's origin.
    pub const ZERO: Self = Self(0);
    /// A time that is never reached.
    pub const NEVER: Self = Self(u64::MAX);

    /// The time `nanos` nanoseconds after the clock's origin.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the clock's origin.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(nanos(wait)))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Self;

    fn sub(self, wait: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(wait)))
    }
}

impl Sub for Timestamp {
    type Output = Duration;

    /// The time from `earlier` to `self`; zero if `earlier` is the later of the two.
    fn sub(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// A wall-clock time in UTC, in nanoseconds since 1970-01-01.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UtcTime(u64);

impl UtcTime {
    /// The time `nanos` nanoseconds after 1970-01-01T00:00:00Z.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Midnight UTC of a civil date from 1970 on. Out-of-range values are clamped: a month of 13 becomes December, a
    /// year before 1970 becomes 1970.
    ///
    /// ```
    /// use seawall_core::time::UtcTime;
    /// assert_eq!(UtcTime::from_civil(2026, 11, 15).civil(), (2026, 11, 15));
    /// ```
    #[must_use]
    pub fn from_civil(year: i64, month: u32, day: u32) -> Self {
        let (year, month, day) = (year.clamp(1970, 2553), month.clamp(1, 12), day.clamp(1, 31));
        let days = u64::try_from(days_from_civil(year, month, day)).unwrap_or(0);
        Self(days.saturating_mul(SECONDS_PER_DAY * NANOS_PER_SECOND))
    }

    /// Midnight UTC at the start of the day that is this many days after 1970-01-01.
    #[must_use]
    pub const fn start_of_day(day: u64) -> Self {
        Self(day.saturating_mul(SECONDS_PER_DAY * NANOS_PER_SECOND))
    }

    /// Nanoseconds since 1970-01-01T00:00:00Z.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whole days since 1970-01-01.
    #[must_use]
    pub const fn day(self) -> u64 {
        self.0 / (SECONDS_PER_DAY * NANOS_PER_SECOND)
    }

    /// Year, month (1 to 12) and day of the month.
    #[must_use]
    pub fn civil(self) -> (i64, u32, u32) {
        civil_from_days(i64::try_from(self.day()).unwrap_or(i64::MAX))
    }

    /// The time from `earlier` to `self`; zero if `earlier` is the later of the two.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for UtcTime {
    type Output = Self;

    fn add(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(nanos(wait)))
    }
}

/// The current time on both clocks, read once for a whole decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// The monotonic clock, for waits and windows.
    pub monotonic: Timestamp,
    /// The wall clock, for calendar days and months only.
    pub utc: UtcTime,
}

impl Now {
    /// Combines the readings of both clocks.
    #[must_use]
    pub const fn new(monotonic: Timestamp, utc: UtcTime) -> Self {
        Self { monotonic, utc }
    }
}

impl Add<Duration> for Now {
    type Output = Self;

    fn add(self, wait: Duration) -> Self {
        Self { monotonic: self.monotonic + wait, utc: self.utc + wait }
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}", Duration::from_nanos(self.0))
    }
}

/// A duration in nanoseconds; 584 years or more become `u64::MAX`.
#[must_use]
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

// Civil dates are counted in 400-year cycles that start on 1 March, so that the leap day comes last.
fn days_from_civil(year: i64, month: u32, day: u32) -> i64 {
    let shifted_year = if month <= 2 { year - 1 } else { year };
    let cycle = shifted_year.div_euclid(400);
    let year_of_cycle = shifted_year.rem_euclid(400);
    let month_from_march = i64::from((month + 9) % 12);
    let day_of_year = (153 * month_from_march + 2) / 5 + i64::from(day) - 1;
    let day_of_cycle = year_of_cycle * 365 + year_of_cycle / 4 - year_of_cycle / 100 + day_of_year;
    cycle * 146_097 + day_of_cycle - 719_468
}

fn civil_from_days(days: i64) -> (i64, u32, u32) {
    let shifted = days + 719_468;
    let cycle = shifted.div_euclid(146_097);
    let day_of_cycle = shifted.rem_euclid(146_097);
    let year_of_cycle =
        (day_of_cycle - day_of_cycle / 1_460 + day_of_cycle / 36_524 - day_of_cycle / 146_096) / 365;
    let day_of_year = day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_cycle + cycle * 400 + i64::from(month <= 2);
    (year, u32::try_from(month).unwrap_or(1), u32::try_from(day).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::{NANOS_PER_SECOND, Now, SECONDS_PER_DAY, Timestamp, UtcTime};
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
    use std::time::Duration;

    #[test]
    fn civil_dates_that_are_easy_to_get_wrong() {
        for (date, day) in [
            ((1970, 1, 1), 0),
            ((1970, 12, 31), 364),
            ((1972, 2, 29), 789),
            ((2000, 2, 29), 11_016),
            ((2000, 3, 1), 11_017),
            ((2024, 2, 29), 19_782),
            ((2026, 11, 15), 20_772),
            ((2100, 2, 28), 47_540),
            ((2100, 3, 1), 47_541),
        ] {
            let midnight = UtcTime::from_civil(date.0, date.1, date.2);
            assert_eq!(midnight.day(), day, "{date:?}");
            assert_eq!(midnight.civil(), date);
            assert_eq!((midnight + Duration::from_nanos(86_399_999_999_999)).civil(), date);
        }
    }

    #[test]
    fn dates_that_do_not_exist_are_read_as_the_nearest() {
        assert_eq!(UtcTime::from_civil(i64::MIN, 0, 0), UtcTime::from_civil(1970, 1, 1));
        assert_eq!(UtcTime::from_civil(2026, u32::MAX, 1).civil(), (2026, 12, 1));
        assert_eq!(UtcTime::from_civil(i64::MAX, 1, 1).civil(), (2553, 1, 1));
        assert_eq!(UtcTime::from_civil(1970, 1, 2).as_nanos(), 86_400_000_000_000);
    }

    #[test]
    fn both_clocks_move_together() {
        let later = Now::new(Timestamp::from_nanos(5), UtcTime::from_nanos(7)) + Duration::from_nanos(10);
        assert_eq!(later, Now::new(Timestamp::from_nanos(15), UtcTime::from_nanos(17)));
        assert_eq!(later.utc.since(UtcTime::from_nanos(10)), Duration::from_nanos(7));
        assert_eq!(UtcTime::from_nanos(1).since(later.utc), Duration::ZERO);
    }

    #[test]
    fn moments_saturate_and_never_wrap() {
        assert_eq!(Timestamp::NEVER + Duration::from_secs(1), Timestamp::NEVER);
        assert_eq!(Timestamp::ZERO - Duration::from_secs(1), Timestamp::ZERO);
        assert_eq!(Timestamp::ZERO + Duration::MAX, Timestamp::NEVER);
        assert_eq!(Timestamp::from_nanos(1_500_000_000).to_string(), "1.5s");
    }

    proptest! {
        #[test]
        fn a_civil_date_survives_the_round_trip(day in 0_u64..200_000) {
            let moment = UtcTime::from_nanos(day * SECONDS_PER_DAY * NANOS_PER_SECOND);
            let (year, month, day_of_month) = moment.civil();
            prop_assert!((1..=12).contains(&month) && (1..=31).contains(&day_of_month));
            prop_assert_eq!(UtcTime::from_civil(year, month, day_of_month), moment);
        }
    }
}
