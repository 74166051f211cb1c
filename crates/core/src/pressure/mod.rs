//! Pressure: how hard a target is struggling, and so how much to slow down retries.
//!
//! One gauge per target classifies the outcomes of the last minute, at most two hundred of them, as normal, slight or
//! high. It tunes retries and never blocks a call: that is the breaker's task. *Open* and *recovery* are read from the
//! breaker, so that there is only one source of truth on whether a target may be called.
//!
//! **When it rises.** To slight on a failure that leaves the failure rate above 5 % (below twenty calls, any failure);
//! to high above 20 % of at least `min_calls` calls. **When it falls.** From high below 15 %, once high has lasted for
//! a minimum time; from slight after three consecutive successes at 5 % or less; and to normal after a whole window
//! without outcomes. **After an outage** the outcomes that led to it are dropped; two successes end the recovery.

#[cfg(test)]
#[cfg(not(loom))]
mod tests;

use crate::breaker::BreakerPhase;
use crate::failure::{AttemptOutcome, Health};
use crate::setting::{Factor, Ratio, SettingError, at_least_one, positive};
use crate::time::Timestamp;
use std::collections::VecDeque;
use std::time::Duration;

const MAX_OUTCOMES: usize = 200;

/// How hard a target is struggling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pressure {
    /// Few or no failures.
    Normal,
    /// Some failures.
    Slight,
    /// Many failures.
    High,
    /// The target was down and is being probed.
    Recovery,
    /// The target is down: its breaker is open.
    Open,
}

impl Pressure {
    /// All values, in ascending order of their index.
    pub const ALL: [Self; 5] = [Self::Normal, Self::Slight, Self::High, Self::Recovery, Self::Open];

    /// The position in [`Pressure::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// How many retries one request may make on this target.
    #[must_use]
    pub const fn retries(self) -> u32 {
        match self {
            Self::Normal => 3,
            Self::Slight => 2,
            Self::High | Self::Recovery => 1,
            Self::Open => 0,
        }
    }

    /// The factor on the backoff.
    #[must_use]
    pub const fn multiplier(self) -> Factor {
        Factor::of_thousandths(match self {
            Self::Normal => 1_000,
            Self::Slight => 1_200,
            Self::Recovery => 1_500,
            Self::High | Self::Open => 2_000,
        })
    }

    /// The label in logs and metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Slight => "slight",
            Self::High => "high",
            Self::Recovery => "recovery",
            Self::Open => "open",
        }
    }
}

/// Unchecked settings; [`PressureOptions::check`] validates them.
#[derive(Clone, Debug, PartialEq)]
pub struct PressureOptions {
    /// The window of outcomes that the gauge considers.
    pub window: Duration,
    /// The pressure is slight above this failure rate.
    pub slight_percent: f64,
    /// The pressure is high above this failure rate.
    pub high_percent: f64,
    /// High ends below this failure rate.
    pub high_exit_percent: f64,
    /// Above this failure rate for `sustained_for`, the breaker should open.
    pub sustained_percent: f64,
    /// How long `sustained_percent` must be exceeded before the breaker should open.
    pub sustained_for: Duration,
    /// The minimum number of calls for high and sustained.
    pub min_calls: u32,
    /// The minimum time that high lasts.
    pub high_dwell: Duration,
    /// Consecutive successes that end slight.
    pub slight_successes: u32,
    /// Consecutive successes that end a recovery.
    pub recovery_successes: u32,
}

impl Default for PressureOptions {
    fn default() -> Self {
        Self {
            window: Duration::from_secs(60),
            slight_percent: 5.0,
            high_percent: 20.0,
            high_exit_percent: 15.0,
            sustained_percent: 50.0,
            sustained_for: Duration::from_secs(60),
            min_calls: 10,
            high_dwell: Duration::from_secs(5),
            slight_successes: 3,
            recovery_successes: 2,
        }
    }
}

/// Validated settings of a gauge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PressureSettings {
    window: Duration,
    slight: Ratio,
    high: Ratio,
    high_exit: Ratio,
    sustained: Ratio,
    sustained_for: Duration,
    min_calls: u64,
    high_dwell: Duration,
    slight_successes: u32,
    recovery_successes: u32,
}

impl PressureOptions {
    /// Validates the settings; the thresholds must be in ascending order.
    pub fn check(self) -> Result<PressureSettings, SettingError> {
        let slight = Ratio::percent("slight_percent", self.slight_percent)?;
        let high = Ratio::percent("high_percent", self.high_percent)?;
        let high_exit = Ratio::percent("high_exit_percent", self.high_exit_percent)?;
        let sustained = Ratio::percent("sustained_percent", self.sustained_percent)?;
        for (name, lower, upper_name, upper) in [
            ("slight_percent", slight, "high_exit_percent", high_exit),
            ("high_exit_percent", high_exit, "high_percent", high),
            ("high_percent", high, "sustained_percent", sustained),
        ] {
            if lower > upper {
                return Err(SettingError::new(name, format!("{lower} is more than {upper_name} ({upper})")));
            }
        }
        at_least_one("slight_successes", self.slight_successes.into())?;
        at_least_one("recovery_successes", self.recovery_successes.into())?;
        let min_calls = at_least_one("min_calls", self.min_calls.into())?;
        if min_calls > MAX_OUTCOMES as u64 {
            let problem = format!("{min_calls} is more than the {MAX_OUTCOMES} outcomes that are stored");
            return Err(SettingError::new("min_calls", problem));
        }
        Ok(PressureSettings {
            window: positive("window", self.window)?,
            slight,
            high,
            high_exit,
            sustained,
            sustained_for: positive("sustained_for", self.sustained_for)?,
            min_calls,
            high_dwell: self.high_dwell,
            slight_successes: self.slight_successes,
            recovery_successes: self.recovery_successes,
        })
    }
}

/// What a gauge requests of the breaker of the same target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PressureSignal {
    /// Most calls have failed for so long that the breaker should open.
    SustainedFailure,
}

/// A change of the pressure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PressureTransition {
    /// The pressure before.
    pub from: Pressure,
    /// The pressure after.
    pub to: Pressure,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GaugeLevel {
    Normal,
    Slight,
    High { since: Timestamp },
}

/// The pressure gauge of one target.
///
/// ```
/// use seawall_core::breaker::BreakerPhase;
/// use seawall_core::failure::{Failure, FailureKind, AttemptOutcome};
/// use seawall_core::pressure::{Pressure, PressureGauge, PressureOptions};
/// use seawall_core::time::Timestamp;
///
/// let mut gauge = PressureGauge::new(PressureOptions::default().check().unwrap());
/// gauge.record(&AttemptOutcome::Failed(Failure::of(FailureKind::Throttled)), Timestamp::ZERO);
/// assert_eq!(gauge.read(BreakerPhase::Closed, Timestamp::ZERO), Pressure::Slight);
/// assert_eq!(gauge.read(BreakerPhase::Open, Timestamp::ZERO), Pressure::Open);
/// ```
#[derive(Clone, Debug)]
pub struct PressureGauge {
    settings: PressureSettings,
    /// Newest last; `true` is a failure.
    outcomes: VecDeque<(Timestamp, bool)>,
    failures: u64,
    successes_in_a_row: u32,
    level: GaugeLevel,
    mostly_failing_since: Option<Timestamp>,
    /// Consecutive successes so far while a recovery lasts.
    recovery: Option<u32>,
    /// The breaker's phase. While it is not closed, outcomes are probes and do not enter the window.
    phase: BreakerPhase,
    /// The pressure that the last transition led to.
    reported: Pressure,
}

impl PressureGauge {
    /// Creates a gauge that reads normal.
    #[must_use]
    pub fn new(settings: PressureSettings) -> Self {
        Self {
            settings,
            outcomes: VecDeque::with_capacity(MAX_OUTCOMES),
            failures: 0,
            successes_in_a_row: 0,
            level: GaugeLevel::Normal,
            mostly_failing_since: None,
            recovery: None,
            phase: BreakerPhase::Closed,
            reported: Pressure::Normal,
        }
    }

    /// Applies new settings. The outcomes stay as far as the new window reaches back, and so does the pressure until
    /// the next outcome.
    pub fn apply_settings(&mut self, settings: PressureSettings) {
        let judged_by = |settings: &PressureSettings| (settings.sustained, settings.min_calls);
        if judged_by(&settings) != judged_by(&self.settings) {
            self.mostly_failing_since = None;
        }
        self.recovery = self.recovery.filter(|successes| *successes < settings.recovery_successes);
        self.settings = settings;
    }

    /// Records how an attempt ended. Outcomes that do not reflect on the target's health change nothing.
    pub fn record(&mut self, outcome: &AttemptOutcome, now: Timestamp) -> Option<PressureSignal> {
        let failed = match outcome.health(Duration::MAX) {
            Health::Good | Health::Slow => false,
            Health::Bad => true,
            Health::TimedOut | Health::Unknown => return None,
        };
        self.successes_in_a_row = if failed { 0 } else { self.successes_in_a_row.saturating_add(1) };
        if let Some(successes) = self.recovery {
            self.recover(successes, failed);
        }
        if self.phase != BreakerPhase::Closed {
            return None;
        }
        self.push_outcome(now, failed);
        self.update_level(now, failed);
        self.sustained(now)
    }

    /// Updates the gauge after a change of the breaker's phase. Opening and the start of a trial drop the outcomes that
    /// led to them. If an operator or the fleet closes the breaker before two probes have succeeded, the recovery goes
    /// on and outcomes are measured again.
    pub fn breaker_changed(&mut self, phase: BreakerPhase) {
        self.phase = phase;
        match phase {
            BreakerPhase::Closed => {}
            BreakerPhase::Open | BreakerPhase::HalfOpen { stage: 0 } => {
                self.clear();
                self.recovery = Some(0);
            }
            BreakerPhase::HalfOpen { .. } => {}
        }
    }

    /// The pressure now, given the breaker's phase. Changes nothing.
    #[must_use]
    pub fn read(&self, breaker: BreakerPhase, now: Timestamp) -> Pressure {
        match breaker {
            BreakerPhase::Open => return Pressure::Open,
            BreakerPhase::HalfOpen { .. } => return Pressure::Recovery,
            BreakerPhase::Closed => {}
        }
        if self.recovery.is_some() {
            return Pressure::Recovery;
        }
        let silent = self.outcomes.back().is_none_or(|(newest, _)| now - *newest >= self.settings.window);
        match self.level {
            _ if silent => Pressure::Normal,
            GaugeLevel::Normal => Pressure::Normal,
            GaugeLevel::Slight => Pressure::Slight,
            GaugeLevel::High { .. } => Pressure::High,
        }
    }

    /// The change of the pressure since the last call of this method, if there was one. A gauge has no clock: the fall
    /// to normal after a silent window is noticed with the next call.
    pub fn take_transition(&mut self, now: Timestamp) -> Option<PressureTransition> {
        let to = self.read(self.phase, now);
        if to == self.reported {
            return None;
        }
        Some(PressureTransition { from: std::mem::replace(&mut self.reported, to), to })
    }

    fn recover(&mut self, successes: u32, failed: bool) {
        let successes = if failed { 0 } else { successes.saturating_add(1) };
        self.recovery = (successes < self.settings.recovery_successes).then_some(successes);
    }

    fn clear(&mut self) {
        self.outcomes.clear();
        self.failures = 0;
        self.successes_in_a_row = 0;
        self.level = GaugeLevel::Normal;
        self.mostly_failing_since = None;
    }

    fn push_outcome(&mut self, now: Timestamp, failed: bool) {
        let newest = self.outcomes.back().map_or(now, |(newest, _)| now.max(*newest));
        while let Some((oldest, was_failed)) = self.outcomes.front() {
            let expired = newest - *oldest >= self.settings.window;
            if !expired && self.outcomes.len() < MAX_OUTCOMES {
                break;
            }
            self.failures -= u64::from(*was_failed);
            self.outcomes.pop_front();
        }
        if self.outcomes.is_empty() {
            self.level = GaugeLevel::Normal;
        }
        self.outcomes.push_back((newest, failed));
        self.failures += u64::from(failed);
    }

    fn update_level(&mut self, now: Timestamp, failed: bool) {
        let settings = &self.settings;
        let calls = self.outcomes.len() as u64;
        let is_over = |share: Ratio| share.is_exceeded_by(self.failures, calls);
        let is_high = calls >= settings.min_calls && is_over(settings.high);
        self.level = match self.level {
            GaugeLevel::Normal | GaugeLevel::Slight if failed && is_high => GaugeLevel::High { since: now },
            GaugeLevel::Normal if failed && is_over(settings.slight) => GaugeLevel::Slight,
            GaugeLevel::Slight
                if self.successes_in_a_row >= settings.slight_successes && !is_over(settings.slight) =>
            {
                GaugeLevel::Normal
            }
            GaugeLevel::High { since }
                if now - since >= settings.high_dwell
                    && !settings.high_exit.is_reached_by(self.failures, calls) =>
            {
                GaugeLevel::Slight
            }
            unchanged => unchanged,
        };
    }

    fn sustained(&mut self, now: Timestamp) -> Option<PressureSignal> {
        let calls = self.outcomes.len() as u64;
        let failing =
            calls >= self.settings.min_calls && self.settings.sustained.is_exceeded_by(self.failures, calls);
        if !failing {
            self.mostly_failing_since = None;
            return None;
        }
        let since = *self.mostly_failing_since.get_or_insert(now);
        if now - since < self.settings.sustained_for {
            return None;
        }
        self.mostly_failing_since = None;
        Some(PressureSignal::SustainedFailure)
    }
}
