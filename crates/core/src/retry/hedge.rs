//! Hedging: whether to start a second attempt in parallel to one that is slow to begin.

use crate::credit::{Credit, CreditCosts, CreditUse, RatioOptions, RetryBudget, RetryBudgetOptions};
use crate::pressure::Pressure;
use crate::setting::SettingError;
use crate::time::Timestamp;
use std::time::Duration;

/// Unchecked hedging settings. Off by default, because a hedge costs money.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HedgeOptions {
    /// Whether to hedge at all.
    pub enabled: bool,
    /// The hedges allowed per first attempts, in percent.
    pub percent: f64,
    /// The minimum wait before a hedge, however fast the target usually is.
    pub min_delay: Duration,
}

impl Default for HedgeOptions {
    fn default() -> Self {
        Self { enabled: false, percent: 5.0, min_delay: Duration::from_millis(100) }
    }
}

/// The situation while an attempt is in flight.
#[derive(Clone, Copy, Debug)]
pub struct HedgeSituation {
    /// The current time.
    pub now: Timestamp,
    /// When the attempt was started.
    pub started: Timestamp,
    /// The p95 of the time to first content on its target; `None` if there is too little data.
    pub slow_start: Option<Duration>,
    /// The pressure on the target.
    pub pressure: Pressure,
    /// Whether the first content has arrived.
    pub has_content: bool,
    /// Whether there is another target to hedge on.
    pub has_other_target: bool,
    /// Whether cost control or degradation rules out extra calls.
    pub extra_calls_barred: bool,
}

/// The credits of a hedge; hold them until its attempt has ended.
#[derive(Debug)]
pub struct HedgeCredits {
    /// From the share of extra attempts that hedges may add.
    pub share: Credit,
    /// From the retry budget, which retries draw on as well.
    pub common: Credit,
}

/// The decision on a hedge.
#[derive(Debug)]
pub enum HedgeDecision {
    /// Start the second attempt, on another target.
    Hedge(HedgeCredits),
    /// Too early; decide again after this time.
    Wait(Duration),
    /// No hedge for this request.
    No(HedgeRefusal),
}

/// Why there is no hedge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HedgeRefusal {
    /// Hedging is switched off.
    Off,
    /// The first content has arrived.
    HasContent,
    /// There is no other target.
    NoOtherTarget,
    /// The target is under pressure; more load would not help it.
    Pressure,
    /// Cost control or degradation rules out extra calls.
    ExtraCallsBarred,
    /// There is too little data to know what is slow for this target.
    Unmeasured,
    /// Hedges have used up their share of extra attempts.
    Share,
    /// The retry budget refused a credit.
    Budget,
}

/// Validated hedging policy, shared by all requests of a node.
///
/// ```
/// use seawall_core::credit::{RetryBudget, RetryBudgetOptions};
/// use seawall_core::pressure::Pressure;
/// use seawall_core::retry::{HedgeDecision, HedgeOptions, HedgePolicy, HedgeSituation};
/// use seawall_core::time::Timestamp;
/// use std::time::Duration;
///
/// let hedging = HedgePolicy::new(HedgeOptions { enabled: true, ..HedgeOptions::default() }).unwrap();
/// let budget = RetryBudget::new(RetryBudgetOptions::default()).unwrap();
/// for _ in 0..20 {
///     hedging.first_attempt(Timestamp::ZERO);
/// }
/// let mut situation = HedgeSituation {
///     now: Timestamp::ZERO + Duration::from_millis(300),
///     started: Timestamp::ZERO,
///     slow_start: Some(Duration::from_millis(800)),
///     pressure: Pressure::Normal,
///     has_content: false,
///     has_other_target: true,
///     extra_calls_barred: false,
/// };
/// assert!(matches!(hedging.decide(&situation, &budget), HedgeDecision::Wait(_)));
/// situation.now = Timestamp::ZERO + Duration::from_millis(800);
/// assert!(matches!(hedging.decide(&situation, &budget), HedgeDecision::Hedge(_)));
/// ```
#[derive(Clone, Debug)]
pub struct HedgePolicy {
    enabled: bool,
    min_delay: Duration,
    share: RetryBudget,
}

impl HedgePolicy {
    /// Validates the settings.
    pub fn new(options: HedgeOptions) -> Result<Self, SettingError> {
        let ratio = RatioOptions {
            percent: options.percent,
            window: Duration::from_secs(60),
            min_concurrency: 0,
            min_per_second: 0,
        };
        let share = RetryBudget::new(RetryBudgetOptions {
            ratio: Some(ratio),
            rate_cap: None,
            bucket: None,
            costs: CreditCosts::CLASSIC,
        })?;
        Ok(Self { enabled: options.enabled, min_delay: options.min_delay, share })
    }

    /// Whether hedging is enabled.
    #[must_use]
    pub const fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Counts a first attempt, which raises the number of hedges allowed.
    pub fn first_attempt(&self, now: Timestamp) {
        if self.enabled {
            self.share.deposit(now);
        }
    }

    /// Whether to hedge now or later. Credits are withdrawn only when the decision is to hedge.
    #[must_use]
    pub fn decide(&self, situation: &HedgeSituation, budget: &RetryBudget) -> HedgeDecision {
        match self.slow_after(situation) {
            Err(refusal) => HedgeDecision::No(refusal),
            Ok(slow_after) => {
                let waited = situation.now - situation.started;
                if waited < slow_after {
                    return HedgeDecision::Wait(slow_after - waited);
                }
                self.pay(situation.now, budget).map_or_else(HedgeDecision::No, HedgeDecision::Hedge)
            }
        }
    }

    fn slow_after(&self, situation: &HedgeSituation) -> Result<Duration, HedgeRefusal> {
        if !self.enabled {
            return Err(HedgeRefusal::Off);
        }
        if situation.has_content {
            return Err(HedgeRefusal::HasContent);
        }
        if !situation.has_other_target {
            return Err(HedgeRefusal::NoOtherTarget);
        }
        if situation.extra_calls_barred {
            return Err(HedgeRefusal::ExtraCallsBarred);
        }
        if situation.pressure != Pressure::Normal {
            return Err(HedgeRefusal::Pressure);
        }
        situation.slow_start.map(|slow| slow.max(self.min_delay)).ok_or(HedgeRefusal::Unmeasured)
    }

    fn pay(&self, now: Timestamp, budget: &RetryBudget) -> Result<HedgeCredits, HedgeRefusal> {
        // Check before withdrawing either, so that a refusal by one does not spend the other's credit. Two requests
        // that race for the last credit of the share may still cost the common budget one: the safe side.
        self.share.would_grant(CreditUse::Hedge, now).map_err(|_| HedgeRefusal::Share)?;
        let common = budget.withdraw(CreditUse::Hedge, now).map_err(|_| HedgeRefusal::Budget)?;
        let share = self.share.withdraw(CreditUse::Hedge, now).map_err(|_| HedgeRefusal::Share)?;
        Ok(HedgeCredits { share, common })
    }
}
