//! What a ladder says of itself.

use super::LadderSignal;
use crate::time::Timestamp;
use crate::vocabulary::Level;

/// Why the measured level stayed where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldReason {
    /// Nothing asks for another level, or not loudly enough.
    Steady,
    /// A higher level is wanted, for the first time.
    Rising,
    /// All is quiet, and has not been for long enough.
    Calming,
    /// Fewer than two signals are live.
    TooFewSignals,
    /// The last evaluation is too recent. Nothing was looked at.
    TooSoon,
}

/// What an evaluation did to the measured level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LadderDecision {
    /// Nothing.
    Held(HoldReason),
    /// It went up.
    Raised {
        /// What it was.
        from: Level,
        /// What it is.
        to: Level,
    },
    /// It went down by one.
    Lowered {
        /// What it was.
        from: Level,
        /// What it is.
        to: Level,
    },
}

/// Whether a signal votes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalState {
    /// It votes.
    Live {
        /// For what.
        vote: Level,
    },
    /// Its last reading is too old.
    Stale,
    /// It was never read.
    Missing,
}

/// One signal at a glance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SignalReport {
    /// Which.
    pub signal: LadderSignal,
    /// What was read last.
    pub value: Option<f64>,
    /// Whether it votes, and for what.
    pub state: SignalState,
}

/// What somebody should look at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LadderAlarms {
    /// Fewer than two signals are live: the level is held and nobody knows whether it is right.
    pub too_few_signals: bool,
    /// The level has been at high load or above for longer than it should.
    pub degraded_for_long: bool,
}

/// A ladder at a glance, with reasons.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LadderReport {
    /// The level in force.
    pub level: Level,
    /// The level that the signals led to.
    pub measured: Level,
    /// The level that an operator set.
    pub forced: Option<Level>,
    /// Since when the level in force has been what it is.
    pub since: Timestamp,
    /// The second-highest vote; nothing with fewer than two.
    pub wanted: Option<Level>,
    /// What this evaluation did.
    pub decision: LadderDecision,
    /// All signals, in the order of [`LadderSignal::ALL`].
    pub signals: [SignalReport; 4],
    /// What somebody should look at.
    pub alarms: LadderAlarms,
}
