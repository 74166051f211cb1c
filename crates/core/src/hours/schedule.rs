//! Named daily windows without overlaps.

use super::Hours;
use crate::setting::SettingError;
use crate::time::UtcTime;

/// Named windows of which at most one contains any moment.
///
/// ```
/// use seawall_core::hours::{HoursOptions, DailySchedule};
/// use seawall_core::time::UtcTime;
///
/// let night = HoursOptions::full_hours(23, 8, 9 * 60).check().unwrap();
/// let evening = HoursOptions::full_hours(19, 23, 9 * 60).check().unwrap();
/// let schedule = DailySchedule::new(vec![("night".into(), night), ("evening".into(), evening)]).unwrap();
/// assert_eq!(schedule.at(UtcTime::from_civil(2026, 11, 15)), None); // nine in the morning in Tokyo
///
/// let late = HoursOptions::full_hours(22, 24, 9 * 60).check().unwrap();
/// let error = DailySchedule::new(vec![("evening".into(), evening), ("late".into(), late)]).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "schedule: late (22:00-24:00 UTC+09:00) overlaps evening (19:00-23:00 UTC+09:00)"
/// );
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DailySchedule {
    windows: Vec<(String, Hours)>,
}

impl DailySchedule {
    /// Fails on duplicate names and on overlapping windows, and names both.
    pub fn new(windows: Vec<(String, Hours)>) -> Result<Self, SettingError> {
        for (place, (name, hours)) in windows.iter().enumerate() {
            for (other_name, other) in windows.iter().take(place) {
                if name == other_name {
                    return Err(SettingError::new("schedule", format!("{name} is a duplicate name")));
                }
                if hours.overlaps(other) {
                    let problem = format!("{name} ({hours}) overlaps {other_name} ({other})");
                    return Err(SettingError::new("schedule", problem));
                }
            }
        }
        Ok(Self { windows })
    }

    /// The name of the window that contains this moment.
    #[must_use]
    pub fn at(&self, utc: UtcTime) -> Option<&str> {
        self.windows.iter().find(|(_, hours)| hours.contains(utc)).map(|(name, _)| name.as_str())
    }

    /// The next moment at which the result of [`at`](Self::at) changes; `None` if it never does.
    #[must_use]
    pub fn next_change(&self, utc: UtcTime) -> Option<UtcTime> {
        self.windows.iter().filter_map(|(_, hours)| hours.next_change(utc)).min()
    }
}
