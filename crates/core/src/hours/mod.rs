//! Daily time windows at a fixed UTC offset.
//!
//! [`Hours`] is one daily window such as 23:00 to 08:00 in Japan, [`DailySchedule`] is a set of named windows that do not
//! overlap, and [`OffPeak`] is the off-peak policy.
//!
//! **When it acts.** A window is half-open: 23:00:00 is inside, 08:00:00 is outside. A window whose end is earlier
//! than its start crosses midnight.
//!
//! **What it does not do.** It supports no daylight saving time, no weekdays and no dates. It reads no clock and sets no
//! timer; [`Hours::next_change`] returns the time to set a timer to.
//!
//! ```
//! use seawall_core::hours::HoursOptions;
//! use seawall_core::time::UtcTime;
//! use std::time::Duration;
//!
//! // 23:00 to 08:00 in Japan, which is nine hours ahead of UTC.
//! let night = HoursOptions::full_hours(23, 8, 9 * 60).check().unwrap();
//! let eleven_at_night_in_tokyo = UtcTime::from_civil(2026, 11, 15) + Duration::from_secs(14 * 3_600);
//! assert!(night.contains(eleven_at_night_in_tokyo));
//! let morning = night.next_change(eleven_at_night_in_tokyo).unwrap();
//! assert_eq!(morning.since(eleven_at_night_in_tokyo), Duration::from_secs(9 * 3_600));
//! assert!(!night.contains(morning));
//! assert_eq!(night.to_string(), "23:00-08:00 UTC+09:00");
//! ```

mod off_peak;
mod schedule;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

pub use off_peak::{OffPeak, OffPeakDecision, OffPeakOptions};
pub use schedule::DailySchedule;

use crate::setting::SettingError;
use crate::time::UtcTime;
use std::fmt;
use std::time::Duration;

const MINUTES_PER_DAY: u32 = 1_440;
const NANOS_PER_MINUTE: u64 = 60_000_000_000;
const NANOS_PER_DAY: u64 = MINUTES_PER_DAY as u64 * NANOS_PER_MINUTE;

/// The range of UTC offsets in use, in minutes.
const OFFSETS: std::ops::RangeInclusive<i32> = -12 * 60..=14 * 60;

/// A daily window before validation; see [`HoursOptions::check`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoursOptions {
    /// First minute of the day inside the window: 0 to 1439.
    pub start: u32,
    /// First minute after the window: 0 to 1440, where 1440 is the midnight that ends the day.
    pub end: u32,
    /// Offset of the zone from UTC in minutes: -720 to 840.
    pub utc_offset: i32,
}

impl HoursOptions {
    /// From one full hour to another.
    #[must_use]
    pub const fn full_hours(start: u32, end: u32, utc_offset: i32) -> Self {
        Self { start: start.saturating_mul(60), end: end.saturating_mul(60), utc_offset }
    }

    /// Fails on minutes and offsets out of range and on an empty window.
    pub fn check(self) -> Result<Hours, SettingError> {
        if self.start >= MINUTES_PER_DAY {
            return Err(SettingError::new("start", format!("{} is not a minute from 0 to 1439", self.start)));
        }
        if self.end > MINUTES_PER_DAY {
            return Err(SettingError::new("end", format!("{} is not a minute from 0 to 1440", self.end)));
        }
        if !OFFSETS.contains(&self.utc_offset) {
            let problem = format!("{} minutes is not between -720 and 840", self.utc_offset);
            return Err(SettingError::new("utc_offset", problem));
        }
        if self.start == self.end {
            let problem = format!("{} is also the start; for the whole day write 0 to 1440", self.end);
            return Err(SettingError::new("end", problem));
        }
        let length = if self.start < self.end { self.end } else { self.end + MINUTES_PER_DAY } - self.start;
        Ok(Hours { start: self.start, length, utc_offset: self.utc_offset })
    }
}

/// A validated daily window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hours {
    /// Minute of the day in the zone.
    start: u32,
    /// From 1 to 1440 minutes.
    length: u32,
    utc_offset: i32,
}

impl Hours {
    /// Whether this moment is inside the window.
    #[must_use]
    pub fn contains(&self, utc: UtcTime) -> bool {
        self.since_start(utc) < self.length_nanos()
    }

    /// The next moment at which the result of [`contains`](Self::contains) changes; `None` if the window is the whole
    /// day.
    #[must_use]
    pub fn next_change(&self, utc: UtcTime) -> Option<UtcTime> {
        if self.length == MINUTES_PER_DAY {
            return None;
        }
        let (since, length) = (self.since_start(utc), self.length_nanos());
        let until = if since < length { length - since } else { NANOS_PER_DAY - since };
        Some(utc + Duration::from_nanos(until))
    }

    /// Whether some minute of the day is in both windows.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        // Two arcs of a circle intersect when one of them contains the other's start.
        let distance = |from: u32, to: u32| (to + MINUTES_PER_DAY - from) % MINUTES_PER_DAY;
        let (own, others) = (self.utc_start(), other.utc_start());
        distance(own, others) < self.length || distance(others, own) < other.length
    }

    /// The minute of the day in UTC at which the window begins.
    fn utc_start(&self) -> u32 {
        // Both parts are small, so that the difference lies within two days of zero.
        let minute = i64::from(self.start) - i64::from(self.utc_offset);
        u32::try_from(minute.rem_euclid(i64::from(MINUTES_PER_DAY))).unwrap_or(0)
    }

    /// Nanoseconds since the window last began: less than a day.
    fn since_start(&self, utc: UtcTime) -> u64 {
        let start = u64::from(self.utc_start()) * NANOS_PER_MINUTE;
        (utc.as_nanos() % NANOS_PER_DAY + NANOS_PER_DAY - start) % NANOS_PER_DAY
    }

    fn length_nanos(&self) -> u64 {
        u64::from(self.length) * NANOS_PER_MINUTE
    }
}

impl fmt::Display for Hours {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.start + self.length;
        let end = if end > MINUTES_PER_DAY { end - MINUTES_PER_DAY } else { end };
        let sign = if self.utc_offset < 0 { '-' } else { '+' };
        let offset = self.utc_offset.unsigned_abs();
        write!(
            formatter,
            "{:02}:{:02}-{:02}:{:02} UTC{sign}{:02}:{:02}",
            self.start / 60,
            self.start % 60,
            end / 60,
            end % 60,
            offset / 60,
            offset % 60
        )
    }
}
