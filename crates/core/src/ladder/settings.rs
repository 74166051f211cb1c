//! The numbers of a ladder, checked.

use super::LadderSignal;
use super::window::LONGEST_READ;
use crate::setting::{Ratio, SettingError, ordered, positive};
use crate::vocabulary::Level;
use std::time::Duration;

/// The numbers of a ladder, as anybody can write them. A signal votes for a level when it is *above* its threshold.
#[derive(Clone, Debug, PartialEq)]
pub struct LadderOptions {
    /// Time to the first text that votes for pressure, high load and overload.
    pub first_text: [Duration; 3],
    /// CPU in percent that votes for pressure, high load and overload.
    pub cpu_percent: [f64; 3],
    /// Errors in percent that vote for emergency.
    pub error_percent: f64,
    /// Throttles in percent that vote for emergency.
    pub throttle_percent: f64,
    /// How often the ladder is evaluated.
    pub interval: Duration,
    /// A reading older than this does not vote.
    pub stale_after: Duration,
    /// How long all must be quiet before the level falls by one.
    pub calm_for: Duration,
    /// Quiet is under this share, in percent, of the threshold of the present level.
    pub calm_percent: f64,
    /// High load or above for longer than this raises an alarm.
    pub alarm_after: Duration,
}

impl Default for LadderOptions {
    fn default() -> Self {
        Self {
            first_text: [2, 3, 5].map(Duration::from_secs),
            cpu_percent: [55.0, 70.0, 85.0],
            error_percent: 10.0,
            throttle_percent: 20.0,
            interval: Duration::from_secs(5),
            stale_after: Duration::from_secs(30),
            calm_for: Duration::from_secs(60),
            calm_percent: 80.0,
            alarm_after: Duration::from_secs(600),
        }
    }
}

/// Checked [`LadderOptions`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LadderSettings {
    /// By signal, then by level from pressure on; nothing where the signal cannot vote for that level.
    thresholds: [[Option<f64>; 4]; 4],
    calm_share: f64,
    longest_first_text: Duration,
    pub(super) interval: Duration,
    pub(super) stale_after: Duration,
    pub(super) calm_for: Duration,
    pub(super) alarm_after: Duration,
}

impl LadderOptions {
    /// Refuses thresholds that are no shares or not in order, and times that would never let the level move.
    pub fn check(self) -> Result<LadderSettings, SettingError> {
        let percent = |setting, percent| Ratio::percent(setting, percent).map(|_| percent);
        for pair in self.cpu_percent.windows(2) {
            // What is no number is in no order and refused below by its own words.
            if pair[0] > pair[1] {
                let problem = format!("{}% comes before {}%", pair[0], pair[1]);
                return Err(SettingError::new("cpu_percent", problem));
            }
        }
        for pair in self.first_text.windows(2) {
            if pair[0] > pair[1] {
                let problem = format!("{:?} comes before {:?}", pair[0], pair[1]);
                return Err(SettingError::new("first_text", problem));
            }
        }
        let [first, second, third] = self.first_text;
        let millis = |duration: Duration| duration.as_secs_f64() * 1_000.0;
        positive("first_text", first)?;
        if third >= LONGEST_READ {
            let problem = format!("{third:?} is not below {LONGEST_READ:?}, the longest that is measured");
            return Err(SettingError::new("first_text", problem));
        }
        let [low, middle, high] = self.cpu_percent;
        let graded = |values: [f64; 3]| [Some(values[0]), Some(values[1]), Some(values[2]), None];
        let thresholds = [
            graded([millis(first), millis(second), millis(third)]),
            [None, None, None, Some(percent("error_percent", self.error_percent)?)],
            [None, None, None, Some(percent("throttle_percent", self.throttle_percent)?)],
            graded([
                percent("cpu_percent", low)?,
                percent("cpu_percent", middle)?,
                percent("cpu_percent", high)?,
            ]),
        ];
        positive("interval", self.interval)?;
        // Otherwise no two evaluations would ever follow one another.
        ordered(("interval", self.interval), ("stale_after", self.stale_after))?;
        Ok(LadderSettings {
            thresholds,
            calm_share: percent("calm_percent", self.calm_percent)? / 100.0,
            longest_first_text: third,
            interval: self.interval,
            stale_after: self.stale_after,
            calm_for: positive("calm_for", self.calm_for)?,
            alarm_after: self.alarm_after,
        })
    }
}

impl LadderSettings {
    /// The highest threshold of the time to the first text.
    pub(super) const fn longest_first_text(&self) -> Duration {
        self.longest_first_text
    }

    /// The highest level whose threshold the value is above.
    pub(super) fn vote(&self, signal: LadderSignal, value: f64) -> Level {
        let thresholds = &self.thresholds[signal.index()];
        let exceeded = thresholds.iter().rposition(|threshold| threshold.is_some_and(|least| value > least));
        exceeded.map_or(Level::Normal, |place| Level::ALL[place + 1])
    }

    /// Whether the value is well below what votes for this level, or for the nearest above that it can vote for. A
    /// signal that can vote for none of these has no say in leaving it.
    pub(super) fn is_calm(&self, signal: LadderSignal, value: f64, level: Level) -> bool {
        let thresholds = &self.thresholds[signal.index()];
        let nearest = thresholds.iter().skip(level.index().saturating_sub(1)).flatten().next();
        nearest.is_none_or(|threshold| value < threshold * self.calm_share)
    }
}
