//! Freshness of cached answers: fresh, stale or expired.

use crate::setting::{SettingError, ordered, positive};
use crate::time::UtcTime;
use crate::vocabulary::{Ceiling, Grade};
use std::fmt;
use std::time::Duration;

/// Confidence in an answer between 0 and 1, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Confidence(u16);

impl Confidence {
    /// A fresh answer from the cache.
    pub const FRESH_CACHE: Self = Self(500);
    /// A stale answer from the cache.
    pub const STALE_CACHE: Self = Self(400);

    /// A confidence in thousandths, capped at 1000.
    #[must_use]
    pub const fn of_thousandths(thousandths: u16) -> Self {
        Self(if thousandths > 1_000 { 1_000 } else { thousandths })
    }

    /// The confidence in thousandths.
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

/// Cache age settings before validation; see [`CacheAgeOptions::check`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheAgeOptions {
    /// Below this age an answer is fresh.
    pub max_age: Duration,
    /// From this age on an answer is never served.
    pub max_stale_age: Duration,
    /// How far the clock of the node that stored the answer may be ahead of ours.
    pub clock_skew: Duration,
}

impl Default for CacheAgeOptions {
    /// Fresh for an hour, kept for a day, with clocks within five minutes.
    fn default() -> Self {
        Self {
            max_age: Duration::from_secs(3_600),
            max_stale_age: Duration::from_secs(24 * 3_600),
            clock_skew: Duration::from_secs(5 * 60),
        }
    }
}

impl CacheAgeOptions {
    /// Fails if answers are fresh for no time, or for longer than they are kept.
    pub fn check(self) -> Result<CacheAges, SettingError> {
        positive("max_age", self.max_age)?;
        ordered(("max_age", self.max_age), ("max_stale_age", self.max_stale_age))?;
        Ok(CacheAges { options: self })
    }
}

/// The cached answer under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachedAnswer {
    /// The grade of the model that generated it.
    pub grade: Grade,
    /// When it was stored.
    pub stored_at: UtcTime,
}

/// When the cache is consulted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheSituation {
    /// Before any model is called.
    BeforeModels {
        /// The highest grade that could be called instead: the plan's ceiling, less the grades whose breakers are
        /// open.
        ceiling: Ceiling,
    },
    /// After the models have failed.
    ModelsFailed,
}

/// How a cached answer may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheAgeDecision {
    /// Serve it.
    Fresh,
    /// Serve it as stale, while one request (the leader of the key's single flight) refreshes it:
    /// stale-while-revalidate.
    StaleWhileRefreshing,
    /// Serve it as stale and do not refresh it: the models that may be called are weaker than the one that generated
    /// it, and a weaker answer would not replace it. Otherwise every request would call a model in vain.
    StaleWithoutRefresh,
    /// Serve it as stale, because the models have failed: stale-if-error.
    StaleIfModelsFail,
    /// Do not serve it.
    Expired,
}

impl CacheAgeDecision {
    /// Whether the answer must be marked as stale.
    #[must_use]
    pub const fn is_stale(self) -> bool {
        matches!(self, Self::StaleWhileRefreshing | Self::StaleWithoutRefresh | Self::StaleIfModelsFail)
    }

    /// Confidence in the answer; `None` if it is not served.
    #[must_use]
    pub const fn confidence(self) -> Option<Confidence> {
        match self {
            Self::Fresh => Some(Confidence::FRESH_CACHE),
            Self::StaleWhileRefreshing | Self::StaleWithoutRefresh | Self::StaleIfModelsFail => {
                Some(Confidence::STALE_CACHE)
            }
            Self::Expired => None,
        }
    }
}

/// Freshness policy of cached answers.
///
/// Ages are measured on the wall clock, because answers are stored by one node and read by another. An answer stored
/// further in the future than the clock skew allows is not served. A stale answer is refreshed only by a model of at
/// least the same grade; if none may be called, it is served as it is until it expires.
///
/// ```
/// use seawall_core::cache_policy::{CacheAgeDecision, CacheAgeOptions, CacheSituation, CachedAnswer};
/// use seawall_core::time::UtcTime;
/// use seawall_core::vocabulary::{Ceiling, Grade};
/// use std::time::Duration;
///
/// let ages = CacheAgeOptions::default().check().unwrap();
/// let kept = CachedAnswer { grade: Grade::Strong, stored_at: UtcTime::from_civil(2026, 11, 15) };
/// let later = kept.stored_at + Duration::from_secs(61 * 60);
/// let decision = ages.decide(&kept, later, CacheSituation::ModelsFailed);
/// assert_eq!(decision, CacheAgeDecision::StaleIfModelsFail);
/// assert_eq!(decision.confidence().unwrap().to_string(), "0.4");
///
/// let decide = |ceiling| ages.decide(&kept, later, CacheSituation::BeforeModels { ceiling });
/// assert_eq!(decide(Ceiling::Strong), CacheAgeDecision::StaleWhileRefreshing);
/// assert_eq!(decide(Ceiling::Fast), CacheAgeDecision::StaleWithoutRefresh);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheAges {
    options: CacheAgeOptions,
}

impl CacheAges {
    /// The settings of this policy.
    #[must_use]
    pub const fn options(&self) -> CacheAgeOptions {
        self.options
    }

    /// How a cached answer may be used now.
    #[must_use]
    pub fn decide(&self, cached: &CachedAnswer, now: UtcTime, situation: CacheSituation) -> CacheAgeDecision {
        if !self.is_servable(cached, now) {
            return CacheAgeDecision::Expired;
        }
        match situation {
            _ if now.since(cached.stored_at) < self.options.max_age => CacheAgeDecision::Fresh,
            CacheSituation::BeforeModels { ceiling } if ceiling.allows(cached.grade) => {
                CacheAgeDecision::StaleWhileRefreshing
            }
            CacheSituation::BeforeModels { .. } => CacheAgeDecision::StaleWithoutRefresh,
            CacheSituation::ModelsFailed => CacheAgeDecision::StaleIfModelsFail,
        }
    }

    /// Whether a cached answer could still be served in some situation.
    #[must_use]
    pub fn is_servable(&self, cached: &CachedAnswer, now: UtcTime) -> bool {
        let (age, ahead) = (now.since(cached.stored_at), cached.stored_at.since(now));
        ahead <= self.options.clock_skew && age < self.options.max_stale_age
    }
}
