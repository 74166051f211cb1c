//! Cost state of a day's budget (normal, warning or spent) and the thresholds for cost alarms.
//!
//! **When it acts.** At each tick, on the posted amount, the cap and the projected spend at the end of the day. The
//! warning begins at 80 % of the cap. Posted money never comes back, so the warning ends by projection instead: once
//! the day has been projected to end at or under 95 % of the cap for ten minutes, the state is normal again. After
//! that, only a projection above the cap warns again. At 100 % the budget is spent until midnight UTC, a change of the
//! cap or an operator's reset. It is also spent when the remainder cannot pay for even the cheapest request:
//! reservations stop the spend just below the cap, so the cap itself may never be reached. Held money does not count,
//! because it is released.
//!
//! A day other than the last one seen is judged afresh from its own figures, whether the wall clock moved forward or
//! back: a clock that was briefly ahead must not decide the state of the real next day. A changed cap only ends the
//! spent state that the old cap caused. A cap that moves a little every hour must not bring back a warning that the
//! projection has ended.
//!
//! **What it does not do.** It does not limit spend; reservations do. It steers how much is attempted, not how much is
//! allowed.

use crate::money::Money;
use crate::setting::{Factor, Ratio, SettingError, ordered, positive};
use crate::time::{Now, Timestamp};
use crate::vocabulary::{CostState, Tier};
use std::time::Duration;

/// Thresholds of the cost state and of the cost alarms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CostOptions {
    /// Share of the cap, in percent, at which the warning begins.
    pub warning: f64,
    /// Share of the cap, in percent, at or under which the projection must stay for the warning to end.
    pub recovery_threshold: f64,
    /// How long the projection must stay there before the warning ends.
    pub recovery_for: Duration,
    /// How long a budget may be spent before it is reported as stuck.
    pub renotify_after: Duration,
    /// Factor over its usual cost above which an hour raises a velocity alarm.
    pub velocity: f64,
    /// Number of known days from which an hour has a usual cost.
    pub min_baseline_days: u64,
    /// Age from which a state is treated as at least a warning.
    pub stale_after: Duration,
    /// Age from which the guest tier is treated as spent.
    pub expired_after: Duration,
}

impl Default for CostOptions {
    fn default() -> Self {
        Self {
            warning: 80.0,
            recovery_threshold: 95.0,
            recovery_for: Duration::from_secs(600),
            renotify_after: Duration::from_secs(4 * 3_600),
            velocity: 1.5,
            min_baseline_days: 3,
            stale_after: Duration::from_secs(300),
            expired_after: Duration::from_secs(900),
        }
    }
}

/// Validated [`CostOptions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostSettings {
    warning: Ratio,
    recovery_threshold: Ratio,
    recovery_for: Duration,
    renotify_after: Duration,
    velocity: Factor,
    min_baseline_days: u64,
    stale_after: Duration,
    expired_after: Duration,
}

impl CostOptions {
    /// Fails on percentages outside the valid range and on `stale_after` above `expired_after`.
    pub fn check(&self) -> Result<CostSettings, SettingError> {
        ordered(("stale_after", self.stale_after), ("expired_after", self.expired_after))?;
        Ok(CostSettings {
            warning: Ratio::percent("warning", self.warning)?,
            recovery_threshold: Ratio::percent("recovery_threshold", self.recovery_threshold)?,
            recovery_for: self.recovery_for,
            renotify_after: positive("renotify_after", self.renotify_after)?,
            velocity: Factor::new("velocity", self.velocity)?,
            min_baseline_days: self.min_baseline_days,
            stale_after: self.stale_after,
            expired_after: self.expired_after,
        })
    }
}

impl CostSettings {
    /// Number of known days from which an hour has a usual cost.
    #[must_use]
    pub const fn min_baseline_days(&self) -> u64 {
        self.min_baseline_days
    }

    /// Whether the last hour's spend exceeds the usual cost of that hour by more than the velocity factor.
    #[must_use]
    pub fn exceeds_velocity(&self, last_hour: Money, usual: Option<Money>) -> bool {
        usual.is_some_and(|usual| usual > Money::ZERO && last_hour > self.velocity.of(usual))
    }

    /// The state to act on when the last evaluation is `age` old. Stale figures are never treated as good news; guests
    /// are restricted first, because theirs is the unpaid tier.
    #[must_use]
    pub fn effective_state(&self, state: CostState, tier: Tier, age: Duration) -> CostState {
        let at_least = if age > self.expired_after && tier == Tier::Guest {
            CostState::Spent
        } else if age > self.stale_after {
            CostState::Warning
        } else {
            CostState::Normal
        };
        state.max(at_least)
    }
}

/// Input of one tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostReading {
    /// Posted today.
    pub posted: Money,
    /// The day's cap.
    pub cap: Money,
    /// Projected spend at the end of the day.
    pub projected: Money,
    /// Lowest maximum cost of any request, or zero if unknown. With less than this left, every request is refused.
    pub min_request_cost: Money,
}

/// Why the cost state changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostCause {
    /// The posted amount reached the warning share of the cap.
    WarningReached,
    /// The projection stayed at or under the calm share of the cap for long enough.
    ProjectionRecovered,
    /// The day is projected to end above the cap after an earlier warning had ended.
    ProjectionAboveCap,
    /// The cap is reached, or the remainder does not cover the cheapest request.
    CapReached,
    /// A new UTC day began.
    NewDay,
    /// The cap was changed while the budget was spent.
    CapChanged,
    /// An operator reset the state.
    Operator,
}

/// A transition of the cost state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostChange {
    /// State before the transition.
    pub from: CostState,
    /// State after the transition.
    pub to: CostState,
    /// What caused the transition.
    pub cause: CostCause,
}

/// Result of a tick or a reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a transition is reported once"]
pub struct CostDecision {
    /// The cost state after the tick.
    pub state: CostState,
    /// The transition, reported once.
    pub change: Option<CostChange>,
    /// The budget has been spent for longer than `renotify_after` without a decision by an operator. Reported once.
    pub is_stuck: bool,
}

/// State machine over one budget: a tier's or the global one.
///
/// ```
/// use seawall_core::budget::{CostMachine, CostOptions, CostReading};
/// use seawall_core::money::Money;
/// use seawall_core::time::Now;
/// use seawall_core::vocabulary::CostState;
///
/// let dollars = Money::from_dollars;
/// let mut machine = CostMachine::new(CostOptions::default().check().unwrap(), Now::default());
/// let reading = CostReading {
///     posted: dollars(4_000),
///     cap: dollars(5_000),
///     projected: dollars(4_900),
///     min_request_cost: Money::from_nanos(27_360_000),
/// };
/// assert_eq!(machine.tick(&reading, Now::default()).state, CostState::Warning);
/// ```
#[derive(Clone, Debug)]
pub struct CostMachine {
    settings: CostSettings,
    state: CostState,
    since: Timestamp,
    day: u64,
    cap: Option<Money>,
    /// Start of the current stretch of calm projections; only set during a warning.
    calm_since: Option<Timestamp>,
    /// A warning has already ended today, so that only a projection above the cap warns again.
    has_recovered: bool,
    reported_stuck: bool,
}

impl CostMachine {
    /// Starts in the normal state on the day of `now`.
    #[must_use]
    pub fn new(settings: CostSettings, now: Now) -> Self {
        Self {
            settings,
            state: CostState::Normal,
            since: now.monotonic,
            day: now.utc.day(),
            cap: None,
            calm_since: None,
            has_recovered: false,
            reported_stuck: false,
        }
    }

    /// The current cost state.
    #[must_use]
    pub const fn state(&self) -> CostState {
        self.state
    }

    /// When the current state was entered.
    #[must_use]
    pub const fn since(&self) -> Timestamp {
        self.since
    }

    /// Evaluates the budget and returns the state, with the transition if there was one.
    pub fn tick(&mut self, reading: &CostReading, now: Now) -> CostDecision {
        let before = self.state;
        let fresh = self.reset_on_new_day_or_cap(reading.cap, now);
        let (to, mut cause) = self.next(reading, now.monotonic);
        if let Some(why) = fresh.filter(|_| to != CostState::Spent || before == CostState::Spent) {
            cause = why;
        }
        let change = (to != before).then_some(CostChange { from: before, to, cause });
        self.enter(to, before, now.monotonic);
        let is_stuck = self.state == CostState::Spent
            && !self.reported_stuck
            && now.monotonic - self.since >= self.settings.renotify_after;
        self.reported_stuck |= is_stuck;
        CostDecision { state: self.state, change, is_stuck }
    }

    /// Ends a warning or a spent budget on behalf of an operator. The state returns when the figures require it: spent
    /// at the next tick unless the cap is raised, a warning when the day is projected to end above the cap. Has no
    /// effect in the normal state.
    pub fn reset(&mut self, now: Now) -> CostDecision {
        let from = self.state;
        self.enter(CostState::Normal, from, now.monotonic);
        self.has_recovered |= from != CostState::Normal;
        let change = (from != CostState::Normal).then_some(CostChange {
            from,
            to: CostState::Normal,
            cause: CostCause::Operator,
        });
        CostDecision { state: self.state, change, is_stuck: false }
    }

    /// Another day resets all state; another cap only ends the spent state that the old one caused.
    fn reset_on_new_day_or_cap(&mut self, cap: Money, now: Now) -> Option<CostCause> {
        let day = now.utc.day();
        let is_new_day = day != self.day;
        let is_new_cap = self.cap.is_some_and(|previous| previous != cap);
        self.cap = Some(cap);
        self.day = day;
        if is_new_day {
            self.calm_since = None;
            self.has_recovered = false;
            // A day that is spent from its first moment is a new event and is reported as stuck again if it lasts.
            self.reported_stuck = false;
            if self.state == CostState::Spent {
                self.since = now.monotonic;
            }
            self.state = CostState::Normal;
            return Some(CostCause::NewDay);
        }
        if is_new_cap && self.state == CostState::Spent {
            self.state = CostState::Normal;
            return Some(CostCause::CapChanged);
        }
        None
    }

    fn next(&mut self, reading: &CostReading, now: Timestamp) -> (CostState, CostCause) {
        let CostReading { posted, cap, projected, min_request_cost } = *reading;
        let fits_nothing = posted >= cap || min_request_cost > cap.saturating_sub(posted);
        if self.state == CostState::Spent || fits_nothing {
            return (CostState::Spent, CostCause::CapReached);
        }
        let is_calm = !self.settings.recovery_threshold.is_exceeded_by(projected.as_nanos(), cap.as_nanos());
        match self.state {
            CostState::Normal if self.has_recovered && projected > cap => {
                (CostState::Warning, CostCause::ProjectionAboveCap)
            }
            CostState::Normal
                if !self.has_recovered
                    && self.settings.warning.is_reached_by(posted.as_nanos(), cap.as_nanos()) =>
            {
                (CostState::Warning, CostCause::WarningReached)
            }
            CostState::Warning if is_calm => {
                let since = *self.calm_since.get_or_insert(now);
                if now - since < self.settings.recovery_for {
                    return (CostState::Warning, CostCause::WarningReached);
                }
                self.has_recovered = true;
                (CostState::Normal, CostCause::ProjectionRecovered)
            }
            state => {
                self.calm_since = None;
                (state, CostCause::WarningReached)
            }
        }
    }

    fn enter(&mut self, to: CostState, before: CostState, now: Timestamp) {
        self.state = to;
        if to != before {
            self.since = now;
            self.calm_since = None;
            self.reported_stuck = false;
        }
    }
}
