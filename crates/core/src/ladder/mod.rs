//! The degradation ladder: derives a degradation level from measured signals, with hysteresis.
//!
//! Four signals are measured: time to first text, errors, throttles and CPU. Each votes for a level, and the target
//! level is the second-highest vote. Therefore one signal alone, broken or forged, changes nothing; two that agree do.
//! The effect of a level is a table, [`LevelPermits`].
//!
//! **When it moves.** Up when two consecutive evaluations vote for a higher level, directly to the lower of the two
//! votes. Down by one step when every live signal has stayed below four fifths of its threshold for the present level
//! for a minute. Between the two lies a dead band, so that a signal that oscillates around a threshold does not make
//! the level flap. A reading older than half a minute does not vote; with fewer than two live signals the level is
//! held, and an alarm is raised.
//!
//! **Time.** The caller evaluates every five seconds. A call sooner than half of that after the last one reports and
//! changes nothing, so that calling in a loop does not speed anything up. After a gap longer than a reading's
//! lifetime, earlier observations are discarded.
//!
//! **What it does not do.** It applies nothing, and it rejects readings outside their valid range: see
//! [`ReadingError`]. Queue depth and classifier failures have no vote. An operator's level holds until it is cleared;
//! the measured level keeps updating beneath it.
//!
//! ```
//! use seawall_core::ladder::{Ladder, LadderOptions, LadderSignal};
//! use seawall_core::time::Timestamp;
//! use seawall_core::vocabulary::Level;
//! use std::time::Duration;
//!
//! let mut ladder = Ladder::new(LadderOptions::default().check().unwrap());
//! let mut now = Timestamp::ZERO;
//! for level in [Level::Normal, Level::HighLoad] {
//!     ladder.record(LadderSignal::Cpu, 72.0, now).unwrap();
//!     ladder.record(LadderSignal::FirstText, 3_100.0, now).unwrap();
//!     assert_eq!(ladder.evaluate(now).level, level);
//!     now = now + Duration::from_secs(5);
//! }
//! assert!(ladder.permits().suspend_scale_in);
//! ```

mod classifier;
mod permits;
mod report;
mod settings;
mod signal;
mod slices;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;
mod window;

pub use classifier::{ClassifierOptions, ClassifierWatch};
pub use permits::{LevelPermits, RetrievalBypass};
pub use report::{HoldReason, LadderAlarms, LadderDecision, LadderReport, SignalReport, SignalState};
pub use settings::{LadderOptions, LadderSettings};
pub use signal::{LadderSignal, ReadingError};
pub use window::{SignalValues, SignalWindow, SignalWindowOptions};

use crate::invariant::{enforce, level_falls_by_one_step};
use crate::time::Timestamp;
use crate::vocabulary::Level;
use signal::Reading;

/// The degradation ladder. See the [module](self) for when it moves.
#[derive(Clone, Debug)]
pub struct Ladder {
    settings: LadderSettings,
    /// The latest timestamp seen.
    as_of: Timestamp,
    readings: [Option<Reading>; 4],
    measured: Level,
    forced: Option<Level>,
    /// When the level in force last changed.
    since: Timestamp,
    degraded_since: Option<Timestamp>,
    evaluated: Option<Timestamp>,
    /// The vote of the last evaluation, if it was above the measured level.
    previous_vote: Option<Level>,
    /// Since when every live signal has been calm.
    recovered_since: Option<Timestamp>,
}

impl Ladder {
    /// A ladder at the normal level, without readings.
    #[must_use]
    pub fn new(settings: LadderSettings) -> Self {
        Self {
            settings,
            as_of: Timestamp::ZERO,
            readings: [None; 4],
            measured: Level::Normal,
            forced: None,
            since: Timestamp::ZERO,
            degraded_since: None,
            evaluated: None,
            previous_vote: None,
            recovered_since: None,
        }
    }

    /// Records a reading taken at `at`, in the signal's [unit](LadderSignal). A rejected reading changes nothing: the
    /// previous one holds until it is stale.
    pub fn record(&mut self, signal: LadderSignal, value: f64, at: Timestamp) -> Result<(), ReadingError> {
        let reading = Reading::new(signal, value, at)?;
        let held = &mut self.readings[signal.index()];
        if held.is_some_and(|held| held.at > at) {
            return Err(ReadingError::Outdated { signal });
        }
        *held = Some(reading);
        Ok(())
    }

    /// Evaluates all signals, moves the level if due, and reports.
    pub fn evaluate(&mut self, now: Timestamp) -> LadderReport {
        self.as_of = self.as_of.max(now);
        let now = self.as_of;
        for reading in self.readings.iter_mut().flatten() {
            // A reading from a clock that runs ahead would otherwise stay fresh for as long as it is ahead.
            reading.at = reading.at.min(now);
        }
        let (before, measured) = (self.level(), self.measured);
        let decision = self.step(now);
        enforce(level_falls_by_one_step(measured, self.measured));
        self.mark(before);
        self.report(decision)
    }

    /// Sets the level manually until [`clear`](Self::clear).
    pub fn force(&mut self, level: Level, now: Timestamp) {
        self.as_of = self.as_of.max(now);
        let before = self.level();
        self.forced = Some(level);
        self.mark(before);
    }

    /// Returns to the measured level.
    pub fn clear(&mut self, now: Timestamp) {
        self.as_of = self.as_of.max(now);
        let before = self.level();
        self.forced = None;
        self.mark(before);
    }

    /// The level in force.
    #[must_use]
    pub fn level(&self) -> Level {
        self.forced.unwrap_or(self.measured)
    }

    /// What the level in force allows.
    #[must_use]
    pub fn permits(&self) -> &'static LevelPermits {
        LevelPermits::of(self.level())
    }

    fn step(&mut self, now: Timestamp) -> LadderDecision {
        let settings = self.settings;
        if let Some(last) = self.evaluated {
            if now - last < settings.interval / 2 {
                return LadderDecision::Held(HoldReason::TooSoon);
            }
            if now - last > settings.stale_after {
                (self.previous_vote, self.recovered_since) = (None, None);
            }
        }
        self.evaluated = Some(now);
        match self.voted() {
            None => {
                (self.previous_vote, self.recovered_since) = (None, None);
                LadderDecision::Held(HoldReason::TooFewSignals)
            }
            Some(voted) if voted > self.measured => self.rise(voted),
            Some(_) => self.fall(now),
        }
    }

    fn rise(&mut self, voted: Level) -> LadderDecision {
        self.recovered_since = None;
        let Some(before) = self.previous_vote.replace(voted) else {
            return LadderDecision::Held(HoldReason::Rising);
        };
        let (from, to) = (self.measured, before.min(voted));
        self.measured = to;
        self.previous_vote = Some(voted).filter(|voted| *voted > to);
        LadderDecision::Raised { from, to }
    }

    fn fall(&mut self, now: Timestamp) -> LadderDecision {
        self.previous_vote = None;
        let from = self.measured;
        let Some(to) = from.index().checked_sub(1).map(|below| Level::ALL[below]) else {
            return LadderDecision::Held(HoldReason::Steady);
        };
        if !self.is_recovered(from) {
            self.recovered_since = None;
            return LadderDecision::Held(HoldReason::Steady);
        }
        let since = *self.recovered_since.get_or_insert(now);
        if now - since < self.settings.recovery_for {
            return LadderDecision::Held(HoldReason::Recovering);
        }
        self.measured = to;
        self.recovered_since = Some(now).filter(|_| self.is_recovered(to));
        LadderDecision::Lowered { from, to }
    }

    fn live(&self) -> impl Iterator<Item = (LadderSignal, f64)> {
        LadderSignal::ALL.into_iter().filter_map(|signal| {
            let reading = self.readings[signal.index()]?;
            self.is_live(&reading).then_some((signal, reading.value))
        })
    }

    fn is_live(&self, reading: &Reading) -> bool {
        self.as_of - reading.at <= self.settings.stale_after
    }

    /// The second-highest vote; `None` with fewer than two live signals.
    fn voted(&self) -> Option<Level> {
        let (mut highest, mut second) = (None, None);
        for (signal, value) in self.live() {
            let vote = Some(self.settings.vote(signal, value));
            second = second.max(highest.min(vote));
            highest = highest.max(vote);
        }
        second
    }

    fn is_recovered(&self, level: Level) -> bool {
        self.live().all(|(signal, value)| self.settings.is_recovered(signal, value, level))
    }

    /// Updates the timestamps after a change of the level in force.
    fn mark(&mut self, before: Level) {
        let level = self.level();
        if level != before {
            self.since = self.as_of;
        }
        if level < Level::HighLoad {
            self.degraded_since = None;
        } else {
            self.degraded_since.get_or_insert(self.as_of);
        }
    }

    fn report(&self, decision: LadderDecision) -> LadderReport {
        let signals = LadderSignal::ALL.map(|signal| {
            let reading = self.readings[signal.index()];
            let state = match reading {
                None => SignalState::Missing,
                Some(reading) if self.is_live(&reading) => {
                    SignalState::Live { vote: self.settings.vote(signal, reading.value) }
                }
                Some(_) => SignalState::Stale,
            };
            SignalReport { signal, value: reading.map(|reading| reading.value), state }
        });
        let degraded_for = self.degraded_since.map(|since| self.as_of - since);
        LadderReport {
            level: self.level(),
            measured: self.measured,
            forced: self.forced,
            since: self.since,
            voted: self.voted(),
            decision,
            signals,
            alarms: LadderAlarms {
                too_few_signals: self.live().nth(1).is_none(),
                degraded_for_long: degraded_for.is_some_and(|span| span > self.settings.alarm_after),
            },
        }
    }
}
