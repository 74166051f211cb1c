//! How old a kept answer may be.

use crate::setting::{SettingError, ordered, positive};
use crate::time::UtcTime;
use crate::vocabulary::{Ceiling, Grade};
use std::fmt;
use std::time::Duration;

/// How sure an answer is, from nothing to one, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Confidence(u16);

impl Confidence {
    /// An answer from the cache that is not too old.
    pub const FRESH_CACHE: Self = Self(500);
    /// An answer from the cache that is older than it should be.
    pub const STALE_CACHE: Self = Self(400);

    /// So many thousandths; more than a thousand are a thousand.
    #[must_use]
    pub const fn of_thousandths(thousandths: u16) -> Self {
        Self(if thousandths > 1_000 { 1_000 } else { thousandths })
    }

    /// The thousandths.
    #[must_use]
    pub const fn thousandths(self) -> u16 {
        self.0
    }
}

impl fmt::Display for Confidence {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", f64::from(self.0) / 1_000.0)
    }
}

/// Settings as somebody wrote them; [`CacheAgeOptions::check`] makes them usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheAgeOptions {
    /// Younger than this it is as good as new.
    pub fresh_for: Duration,
    /// From this age on it is never served.
    pub keep_for: Duration,
    /// How far the clock of who stored it may be ahead of ours.
    pub clock_skew: Duration,
}

impl Default for CacheAgeOptions {
    /// Fresh for an hour, kept for a day, with clocks within five minutes.
    fn default() -> Self {
        Self {
            fresh_for: Duration::from_secs(3_600),
            keep_for: Duration::from_secs(24 * 3_600),
            clock_skew: Duration::from_secs(5 * 60),
        }
    }
}

impl CacheAgeOptions {
    /// Refuses an answer that is fresh for no time, or for longer than it is kept.
    pub fn check(self) -> Result<CacheAges, SettingError> {
        positive("fresh_for", self.fresh_for)?;
        ordered(("fresh_for", self.fresh_for), ("keep_for", self.keep_for))?;
        Ok(CacheAges { options: self })
    }
}

/// What lies under the key already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptAnswer {
    /// How strong the model is that gave it.
    pub grade: Grade,
    /// When it was stored.
    pub stored_at: UtcTime,
}

/// When the cache is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheSituation {
    /// Before any model.
    BeforeModels {
        /// The best that could be asked instead: the plan's ceiling, less the grades whose breakers are open.
        may_ask: Ceiling,
    },
    /// The models could not answer.
    ModelsFailed,
}

/// What a kept answer is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheAgeDecision {
    /// Serve it.
    Fresh,
    /// Serve it as stale, while one request asks the model again: the one that leads the key's flight.
    StaleWhileRefreshing,
    /// Serve it as stale and ask nobody: who could be asked is weaker than who gave it, and a weaker answer would not
    /// be kept in its place. Otherwise every request would ask, and each in vain.
    StaleWithoutRefresh,
    /// Serve it as stale; there is nothing better.
    StaleIfModelsFail,
    /// Do not serve it.
    Gone,
}

impl CacheAgeDecision {
    /// Whether the answer must be marked as stale.
    #[must_use]
    pub const fn is_stale(self) -> bool {
        matches!(self, Self::StaleWhileRefreshing | Self::StaleWithoutRefresh | Self::StaleIfModelsFail)
    }

    /// How sure the answer is; none when it is not served.
    #[must_use]
    pub const fn confidence(self) -> Option<Confidence> {
        match self {
            Self::Fresh => Some(Confidence::FRESH_CACHE),
            Self::StaleWhileRefreshing | Self::StaleWithoutRefresh | Self::StaleIfModelsFail => {
                Some(Confidence::STALE_CACHE)
            }
            Self::Gone => None,
        }
    }
}

/// How old kept answers may be.
///
/// Ages are measured on the calendar's clock, because answers are stored by one node and read by another. What was
/// stored in the future, by more than clocks may differ, is not believed. A stale answer is refreshed only by a model
/// at least as strong as the one that gave it; when none may be asked, it is served as it is until it is gone.
///
/// ```
/// use seawall_core::cache_policy::{CacheAgeDecision, CacheAgeOptions, CacheSituation, KeptAnswer};
/// use seawall_core::time::UtcTime;
/// use seawall_core::vocabulary::{Ceiling, Grade};
/// use std::time::Duration;
///
/// let ages = CacheAgeOptions::default().check().unwrap();
/// let kept = KeptAnswer { grade: Grade::Strong, stored_at: UtcTime::from_civil(2026, 11, 15) };
/// let later = kept.stored_at + Duration::from_secs(61 * 60);
/// let decision = ages.decide(&kept, later, CacheSituation::ModelsFailed);
/// assert_eq!(decision, CacheAgeDecision::StaleIfModelsFail);
/// assert_eq!(decision.confidence().unwrap().to_string(), "0.4");
///
/// let decide = |may_ask| ages.decide(&kept, later, CacheSituation::BeforeModels { may_ask });
/// assert_eq!(decide(Ceiling::Strong), CacheAgeDecision::StaleWhileRefreshing);
/// assert_eq!(decide(Ceiling::Fast), CacheAgeDecision::StaleWithoutRefresh);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheAges {
    options: CacheAgeOptions,
}

impl CacheAges {
    /// The settings it was made of.
    #[must_use]
    pub const fn options(&self) -> CacheAgeOptions {
        self.options
    }

    /// What a kept answer is good for now.
    #[must_use]
    pub fn decide(&self, kept: &KeptAnswer, now: UtcTime, situation: CacheSituation) -> CacheAgeDecision {
        if !self.is_alive(kept, now) {
            return CacheAgeDecision::Gone;
        }
        match situation {
            _ if now.since(kept.stored_at) < self.options.fresh_for => CacheAgeDecision::Fresh,
            CacheSituation::BeforeModels { may_ask } if may_ask.allows(kept.grade) => {
                CacheAgeDecision::StaleWhileRefreshing
            }
            CacheSituation::BeforeModels { .. } => CacheAgeDecision::StaleWithoutRefresh,
            CacheSituation::ModelsFailed => CacheAgeDecision::StaleIfModelsFail,
        }
    }

    /// Whether a kept answer could still be served in some situation.
    #[must_use]
    pub fn is_alive(&self, kept: &KeptAnswer, now: UtcTime) -> bool {
        let (age, ahead) = (now.since(kept.stored_at), kept.stored_at.since(now));
        ahead <= self.options.clock_skew && age < self.options.keep_for
    }
}
