//! The off-peak policy.

use super::{Hours, HoursOptions};
use crate::setting::SettingError;
use crate::time::UtcTime;
use crate::vocabulary::{Ceiling, Priority, Tier};

/// Off-peak settings before validation; see [`OffPeakOptions::check`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffPeakOptions {
    /// The off-peak window.
    pub hours: HoursOptions,
    /// Tiers exempt from the restriction.
    pub exempt_tiers: Vec<Tier>,
    /// Priorities exempt from the restriction.
    pub exempt_priorities: Vec<Priority>,
}

impl OffPeakOptions {
    /// These hours, without exemptions.
    #[must_use]
    pub const fn of(hours: HoursOptions) -> Self {
        Self { hours, exempt_tiers: Vec::new(), exempt_priorities: Vec::new() }
    }

    /// Fails on invalid hours.
    pub fn check(self) -> Result<OffPeak, SettingError> {
        Ok(OffPeak {
            hours: self.hours.check()?,
            tiers: Tier::ALL.map(|tier| self.exempt_tiers.contains(&tier)),
            priorities: Priority::ALL.map(|priority| self.exempt_priorities.contains(&priority)),
        })
    }
}

/// The off-peak policy.
///
/// During off-peak hours at most a fast model is used, and templates and cached answers come first. Exemptions are a
/// setting, and there are none by default: callers of high priority are restricted, too.
///
/// ```
/// use seawall_core::hours::{HoursOptions, OffPeakDecision, OffPeakOptions};
/// use seawall_core::time::UtcTime;
/// use seawall_core::vocabulary::{Ceiling, Priority, Tier};
/// use std::time::Duration;
///
/// let rule = OffPeakOptions::of(HoursOptions::full_hours(23, 8, 0)).check().unwrap();
/// let at_night = UtcTime::from_civil(2026, 11, 15) + Duration::from_secs(4 * 3_600);
/// let decision = rule.decide(Tier::Standard, Priority::High, at_night);
/// assert_eq!((decision, decision.ceiling()), (OffPeakDecision::Restricted, Ceiling::Fast));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffPeak {
    hours: Hours,
    tiers: [bool; Tier::ALL.len()],
    priorities: [bool; Priority::ALL.len()],
}

/// Effect of the off-peak policy on one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffPeakDecision {
    /// Outside the off-peak window.
    OutsideWindow,
    /// Inside the window, but exempt.
    Exempt,
    /// Fast models at most; templates and the cache come first.
    Restricted,
}

impl OffPeakDecision {
    /// The highest grade allowed.
    #[must_use]
    pub const fn ceiling(self) -> Ceiling {
        match self {
            Self::OutsideWindow | Self::Exempt => Ceiling::Strong,
            Self::Restricted => Ceiling::Fast,
        }
    }

    /// Whether templates and the cache come before any model.
    #[must_use]
    pub const fn template_and_cache_first(self) -> bool {
        matches!(self, Self::Restricted)
    }
}

impl OffPeak {
    /// The effect on a request of this tier and priority.
    #[must_use]
    pub fn decide(&self, tier: Tier, priority: Priority, utc: UtcTime) -> OffPeakDecision {
        if !self.hours.contains(utc) {
            OffPeakDecision::OutsideWindow
        } else if self.tiers[tier.index()] || self.priorities[priority.index()] {
            OffPeakDecision::Exempt
        } else {
            OffPeakDecision::Restricted
        }
    }

    /// The off-peak window, for timers and reports.
    #[must_use]
    pub const fn hours(&self) -> &Hours {
        &self.hours
    }
}
