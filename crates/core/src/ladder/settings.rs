//! Settings of the ladder and their validation.

use super::LadderSignal;
use super::window::MAX_MEASURED;
use crate::setting::{Ratio, SettingError, ordered, positive};
use crate::vocabulary::Level;
use std::time::Duration;

/// Settings of a ladder before validation. A signal votes for a level when it is *above* its threshold.
#[derive(Clone, Debug, PartialEq)]
pub struct LadderOptions {
    /// Thresholds on the time to first text for elevated, high load and overload.
    pub first_text: [Duration; 3],
    /// Thresholds on CPU, in percent, for elevated, high load and overload.
    pub cpu_percent: [f64; 3],
    /// Threshold on errors, in percent, for emergency.
    pub error_percent: f64,
    /// Threshold on throttles, in percent, for emergency.
    pub throttle_percent: f64,
    /// How often the ladder is evaluated.
    pub interval: Duration,
    /// A reading older than this does not vote.
    pub stale_after: Duration,
    /// How long all signals must be calm before the level falls by one.
    pub recovery_for: Duration,
    /// A signal is calm below this share, in percent, of its threshold for the present level.
    pub recovery_threshold_percent: f64,
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
            recovery_for: Duration::from_secs(60),
            recovery_threshold_percent: 80.0,
            alarm_after: Duration::from_secs(600),
        }
    }
}

/// Validated [`LadderOptions`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LadderSettings {
    /// By signal, then by level from elevated on; `None` where the signal cannot vote for that level.
    thresholds: [[Option<f64>; 4]; 4],
    recovery_threshold: f64,
    max_first_text: Duration,
    pub(super) interval: Duration,
    pub(super) stale_after: Duration,
    pub(super) recovery_for: Duration,
    pub(super) alarm_after: Duration,
}

impl LadderOptions {
    /// Fails on thresholds that are out of range or out of order, and on times with which the level could never move.
    pub fn check(self) -> Result<LadderSettings, SettingError> {
        let percent = |setting, percent| Ratio::percent(setting, percent).map(|_| percent);
        for pair in self.cpu_percent.windows(2) {
            // NaN is in no order; it is rejected below with its own message.
            if pair[0] > pair[1] {
                let problem = format!("thresholds must ascend, but {}% comes before {}%", pair[0], pair[1]);
                return Err(SettingError::new("cpu_percent", problem));
            }
        }
        for pair in self.first_text.windows(2) {
            if pair[0] > pair[1] {
                let problem = format!("thresholds must ascend, but {:?} comes before {:?}", pair[0], pair[1]);
                return Err(SettingError::new("first_text", problem));
            }
        }
        let [first, second, third] = self.first_text;
        let millis = |duration: Duration| duration.as_secs_f64() * 1_000.0;
        positive("first_text", first)?;
        if third >= MAX_MEASURED {
            let problem = format!("{third:?} is not below {MAX_MEASURED:?}, the maximum that is measured");
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
        // Otherwise every evaluation would discard the one before it.
        ordered(("interval", self.interval), ("stale_after", self.stale_after))?;
        Ok(LadderSettings {
            thresholds,
            recovery_threshold: percent("recovery_threshold_percent", self.recovery_threshold_percent)?
                / 100.0,
            max_first_text: third,
            interval: self.interval,
            stale_after: self.stale_after,
            recovery_for: positive("recovery_for", self.recovery_for)?,
            alarm_after: self.alarm_after,
        })
    }
}

impl LadderSettings {
    /// The highest threshold of the time to first text.
    pub(super) const fn max_first_text(&self) -> Duration {
        self.max_first_text
    }

    /// The highest level whose threshold the value exceeds.
    pub(super) fn vote(&self, signal: LadderSignal, value: f64) -> Level {
        let thresholds = &self.thresholds[signal.index()];
        let exceeded = thresholds.iter().rposition(|threshold| threshold.is_some_and(|limit| value > limit));
        exceeded.map_or(Level::Normal, |index| Level::ALL[index + 1])
    }

    /// Whether the value is well below the threshold for this level, or for the nearest higher level that the signal
    /// can vote for. A signal that can vote for none of these does not keep the level up.
    pub(super) fn is_recovered(&self, signal: LadderSignal, value: f64, level: Level) -> bool {
        let thresholds = &self.thresholds[signal.index()];
        let nearest = thresholds.iter().skip(level.index().saturating_sub(1)).flatten().next();
        nearest.is_none_or(|threshold| value < threshold * self.recovery_threshold)
    }
}
