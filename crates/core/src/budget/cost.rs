//! How the day's money stands, and what to be alarmed about.
//!
//! **When it acts.** At each tick, on what is posted, the cap, and where the day will end at the present pace. It warns at
//! 80 % of the cap. Money once spent never comes back, so the way out of the warning is the pace: when the day is going to
//! end at or under 95 % of the cap and has been for ten minutes, all is well again, and after that only a day that is going
//! to end above the cap is warned of anew. At 100 % the day is spent, until midnight UTC, another cap or an operator. It
//! is also spent when what is left would not pay for even the smallest request: reservations stop the spend just below the
//! cap, so the cap itself may never be reached. What is only held does not count, because it comes back.
//!
//! A day that differs from the last one seen is judged anew from its own figures, whichever way the calendar went: a clock
//! that was ahead for a moment must not decide about the real next day. Another cap takes back only what the old one had
//! ended. A cap that moves a little every hour must not bring back a warning that the pace has ended.
//!
//! **What it will not do.** It holds no spend down: reservations do. It is how much is tried, not how much is allowed.

use crate::money::Money;
use crate::setting::{Factor, Ratio, SettingError, ordered, positive};
use crate::time::{Now, Timestamp};
use crate::vocabulary::{CostState, Tier};
use std::time::Duration;

/// When to warn and when to be alarmed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CostOptions {
    /// The part of the cap, in percent, at which the warning begins.
    pub warning: f64,
    /// The part of the cap, in percent, under which the day must be going to end for the warning to end.
    pub calm: f64,
    /// For how long it must be.
    pub calm_for: Duration,
    /// After how long a spent day is told again.
    pub stuck_after: Duration,
    /// How much more than usual an hour may cost.
    pub velocity: f64,
    /// From how many known days on an hour has a usual cost.
    pub usual_days: u64,
    /// From what age on figures are not believed to be good news.
    pub doubtful_after: Duration,
    /// From what age on they are not believed at all.
    pub blind_after: Duration,
}

impl Default for CostOptions {
    fn default() -> Self {
        Self {
            warning: 80.0,
            calm: 95.0,
            calm_for: Duration::from_secs(600),
            stuck_after: Duration::from_secs(4 * 3_600),
            velocity: 1.5,
            usual_days: 3,
            doubtful_after: Duration::from_secs(300),
            blind_after: Duration::from_secs(900),
        }
    }
}

/// The same, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostSettings {
    warning: Ratio,
    calm: Ratio,
    calm_for: Duration,
    stuck_after: Duration,
    velocity: Factor,
    usual_days: u64,
    doubtful_after: Duration,
    blind_after: Duration,
}

impl CostOptions {
    /// Refuses shares that are none, and ages in the wrong order.
    pub fn check(&self) -> Result<CostSettings, SettingError> {
        ordered(("doubtful_after", self.doubtful_after), ("blind_after", self.blind_after))?;
        Ok(CostSettings {
            warning: Ratio::percent("warning", self.warning)?,
            calm: Ratio::percent("calm", self.calm)?,
            calm_for: self.calm_for,
            stuck_after: positive("stuck_after", self.stuck_after)?,
            velocity: Factor::new("velocity", self.velocity)?,
            usual_days: self.usual_days,
            doubtful_after: self.doubtful_after,
            blind_after: self.blind_after,
        })
    }
}

impl CostSettings {
    /// How many days make an hour's usual cost.
    #[must_use]
    pub const fn usual_days(&self) -> u64 {
        self.usual_days
    }

    /// Whether the last hour cost so much more than usual that somebody should look.
    #[must_use]
    pub fn is_rushing(&self, last_hour: Money, usual: Option<Money>) -> bool {
        usual.is_some_and(|usual| usual > Money::ZERO && last_hour > self.velocity.of(usual))
    }

    /// What to make of a state that was found `age` ago. Old news is not good news: a tier that nobody pays for is the
    /// first to be held back.
    #[must_use]
    pub fn believed(&self, state: CostState, tier: Tier, age: Duration) -> CostState {
        let at_least = if age > self.blind_after && tier == Tier::Guest {
            CostState::Spent
        } else if age > self.doubtful_after {
            CostState::Warning
        } else {
            CostState::Normal
        };
        state.max(at_least)
    }
}

/// What a tick finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostReading {
    /// What has been spent today.
    pub posted: Money,
    /// What may be.
    pub cap: Money,
    /// Where the day is going to end.
    pub projected: Money,
    /// The least that a request may cost at its worst, nothing if that is not known. With less than this left, every
    /// request is refused.
    pub least: Money,
}

/// Why a state changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostCause {
    /// The spend reached the share of the cap at which to warn.
    ShareReached,
    /// The day was going to end under the cap for long enough.
    PaceIsCalm,
    /// The day is going to end above the cap after all.
    PaceIsHigh,
    /// The cap was reached.
    CapReached,
    /// A new day began.
    NewDay,
    /// The cap was changed.
    CapChanged,
    /// An operator said so.
    Operator,
}

/// A change of state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostChange {
    /// What it was.
    pub from: CostState,
    /// What it is.
    pub to: CostState,
    /// Why.
    pub cause: CostCause,
}

/// What a tick said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a change is told once"]
pub struct CostDecision {
    /// How the money stands.
    pub state: CostState,
    /// What changed, told once.
    pub change: Option<CostChange>,
    /// The day has been spent for too long for nobody to decide. Told once.
    pub is_stuck: bool,
}

/// The state of one budget: a tier's, or everybody's.
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
///     least: Money::from_nanos(27_360_000),
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
    /// Since when the day is going to end well, while warned.
    calm_since: Option<Timestamp>,
    /// The warning has ended once today because the pace was calm.
    has_calmed: bool,
    told_stuck: bool,
}

impl CostMachine {
    /// A day that has only begun.
    #[must_use]
    pub fn new(settings: CostSettings, now: Now) -> Self {
        Self {
            settings,
            state: CostState::Normal,
            since: now.monotonic,
            day: now.utc.day(),
            cap: None,
            calm_since: None,
            has_calmed: false,
            told_stuck: false,
        }
    }

    /// How the money stands.
    #[must_use]
    pub const fn state(&self) -> CostState {
        self.state
    }

    /// Since when.
    #[must_use]
    pub const fn since(&self) -> Timestamp {
        self.since
    }

    /// Looks at the books.
    pub fn tick(&mut self, reading: &CostReading, now: Now) -> CostDecision {
        let before = self.state;
        let fresh = self.start_afresh(reading.cap, now);
        let (to, mut cause) = self.next(reading, now.monotonic);
        if let Some(why) = fresh.filter(|_| to != CostState::Spent || before == CostState::Spent) {
            cause = why;
        }
        let change = (to != before).then_some(CostChange { from: before, to, cause });
        self.enter(to, before, now.monotonic);
        let is_stuck = self.state == CostState::Spent
            && !self.told_stuck
            && now.monotonic - self.since >= self.settings.stuck_after;
        self.told_stuck |= is_stuck;
        CostDecision { state: self.state, change, is_stuck }
    }

    /// An operator ends a warning or a spent day. It comes back when the books say so: a spent day at the next tick,
    /// unless the cap is raised, a warning when the day is going to end above the cap. Where there is nothing to end,
    /// nothing changes.
    pub fn reset(&mut self, now: Now) -> CostDecision {
        let from = self.state;
        self.enter(CostState::Normal, from, now.monotonic);
        self.has_calmed |= from != CostState::Normal;
        let change = (from != CostState::Normal).then_some(CostChange {
            from,
            to: CostState::Normal,
            cause: CostCause::Operator,
        });
        CostDecision { state: self.state, change, is_stuck: false }
    }

    /// Another day is judged as if nothing had been said before; another cap only ends what the old one had spent.
    fn start_afresh(&mut self, cap: Money, now: Now) -> Option<CostCause> {
        let day = now.utc.day();
        let is_new_day = day != self.day;
        let is_new_cap = self.cap.is_some_and(|known| known != cap);
        self.cap = Some(cap);
        self.day = day;
        if is_new_day {
            self.calm_since = None;
            self.has_calmed = false;
            // A day that is spent from its first moment is news of its own, and is told when it stays so.
            self.told_stuck = false;
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
        let CostReading { posted, cap, projected, least } = *reading;
        let fits_nothing = posted >= cap || least > cap.saturating_sub(posted);
        if self.state == CostState::Spent || fits_nothing {
            return (CostState::Spent, CostCause::CapReached);
        }
        let is_calm = !self.settings.calm.is_exceeded_by(projected.as_nanos(), cap.as_nanos());
        match self.state {
            CostState::Normal if self.has_calmed && projected > cap => {
                (CostState::Warning, CostCause::PaceIsHigh)
            }
            CostState::Normal
                if !self.has_calmed
                    && self.settings.warning.is_reached_by(posted.as_nanos(), cap.as_nanos()) =>
            {
                (CostState::Warning, CostCause::ShareReached)
            }
            CostState::Warning if is_calm => {
                let since = *self.calm_since.get_or_insert(now);
                if now - since < self.settings.calm_for {
                    return (CostState::Warning, CostCause::ShareReached);
                }
                self.has_calmed = true;
                (CostState::Normal, CostCause::PaceIsCalm)
            }
            state => {
                self.calm_since = None;
                (state, CostCause::ShareReached)
            }
        }
    }

    fn enter(&mut self, to: CostState, before: CostState, now: Timestamp) {
        self.state = to;
        if to != before {
            self.since = now;
            self.calm_since = None;
            self.told_stuck = false;
        }
    }
}
