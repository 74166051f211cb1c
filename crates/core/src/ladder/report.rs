//! The ladder's state and decisions, for status pages and logs.

use super::LadderSignal;
use crate::time::Timestamp;
use crate::vocabulary::Level;

/// Why the measured level was held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldReason {
    /// No vote for a higher level, and not calm enough for a lower one.
    Steady,
    /// A higher level was voted for, for the first time.
    Rising,
    /// All signals are calm, but not for long enough yet.
    Recovering,
    /// Fewer than two signals are live.
    TooFewSignals,
    /// The last evaluation is too recent; nothing was evaluated.
    TooSoon,
}

/// What an evaluation did to the measured level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LadderDecision {
    /// The level was held.
    Held(HoldReason),
    /// The level rose.
    Raised {
        /// The level before.
        from: Level,
        /// The level after.
        to: Level,
    },
    /// The level fell by one.
    Lowered {
        /// The level before.
        from: Level,
        /// The level after.
        to: Level,
    },
}

/// Whether a signal votes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalState {
    /// The reading is fresh, and votes.
    Live {
        /// The level that it votes for.
        vote: Level,
    },
    /// The last reading is too old.
    Stale,
    /// There never was a reading.
    Missing,
}

/// State of one signal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SignalReport {
    /// The signal that is reported on.
    pub signal: LadderSignal,
    /// The last reading.
    pub value: Option<f64>,
    /// Whether it votes, and for which level.
    pub state: SignalState,
}

/// Conditions that need an operator's attention.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LadderAlarms {
    /// Fewer than two signals are live: the level is held and may be wrong.
    pub too_few_signals: bool,
    /// The level has been at high load or above for longer than `alarm_after`.
    pub degraded_for_long: bool,
}

/// State of a ladder, with the reasons.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LadderReport {
    /// The level in force.
    pub level: Level,
    /// The level derived from the signals.
    pub measured: Level,
    /// The level set by an operator.
    pub forced: Option<Level>,
    /// When the level in force last changed.
    pub since: Timestamp,
    /// The second-highest vote; `None` with fewer than two live signals.
    pub voted: Option<Level>,
    /// What this evaluation did.
    pub decision: LadderDecision,
    /// All signals, in the order of [`LadderSignal::ALL`].
    pub signals: [SignalReport; 4],
    /// Conditions that need attention.
    pub alarms: LadderAlarms,
}
