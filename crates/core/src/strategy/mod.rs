//! What a failure is worth, and what to answer with instead.
//!
//! Two tables. The [first](FailureClass::row) says for each class of failure how often it is worth trying again,
//! whether somebody should be told, and which kind of fallback it leads to; [`retry`](crate::retry) takes its numbers
//! from here. The [second](FallbackKind) says what each kind of fallback does and what it tells the caller.
//!
//! **When it acts.** When no further attempt on a rung will be made. [`Strategy::choose`] names the kind of fallback
//! and the rungs that are left, best first; an apology is always the last of them. A model that took so long that
//! less than 0.6 s are left is not followed by another model but by the cache. A cache that fails before any model was
//! asked is followed by the models, the strong one first.
//!
//! **What it will not do.** It calls no model and reads no cache, and it cannot fail: what it has no row for is
//! generic. It never goes back up: what failed is not offered again, and no model above the plan's ceiling is.
//!
//! ```
//! use seawall_core::failure::{Failure, FailureKind};
//! use seawall_core::strategy::{FallbackKind, Language, StrategyOptions, Trouble, message};
//! use seawall_core::vocabulary::{Ceiling, Rung};
//! use std::time::Duration;
//!
//! let strategy = StrategyOptions::default().check().unwrap();
//! let slow = Trouble::Failed(Failure::of(FailureKind::NotStarted));
//! let decision = strategy.choose(&slow, Rung::StrongModel, Ceiling::Strong, Duration::from_secs(1));
//! assert_eq!(decision.kind, FallbackKind::ModelTimeout);
//! assert_eq!(decision.rungs, [Rung::FastModel, Rung::StaleCache, Rung::Faq, Rung::Apology]);
//!
//! let late = strategy.choose(&slow, Rung::StrongModel, Ceiling::Strong, Duration::from_millis(599));
//! assert_eq!(late.rungs, [Rung::StaleCache, Rung::Faq, Rung::Apology]);
//! assert!(message(late.kind, Language::English, false).starts_with("This is taking longer"));
//! ```

mod message;
mod table;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

pub use message::{Language, message};
pub use table::{FailureClass, FailureRow};

use crate::failure::{Failure, Retryability};
use crate::setting::{SettingError, positive};
use crate::vocabulary::{Ceiling, Rung, words};
use std::time::Duration;

words! {
    /// How a request is answered that could not be answered as planned.
    pub enum FallbackKind as "fallback" {
        /// The model is known to be down.
        CircuitOpen = "circuit_open",
        /// The model took too long.
        ModelTimeout = "model_timeout",
        /// The question or the answer was not acceptable.
        GuardrailBlock = "guardrail_block",
        /// There is more to do than can be done.
        Throttled = "throttled",
        /// Anything else.
        Generic = "generic",
    }
}

impl FallbackKind {
    /// What is done, as a sentence.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::CircuitOpen => "A fast model, if its breaker passes calls; else the cache, at once.",
            Self::ModelTimeout => {
                "A fast model in the time that remains; the cache when that is too little for one."
            }
            Self::GuardrailBlock => {
                "A friendly redirection. No other rung: it would answer what was blocked."
            }
            Self::Throttled => "A fast model, which has room of its own; else the cache. May be queued.",
            Self::Generic => "The rungs below in their order, and an invitation to browse.",
        }
    }

    /// Whether the answer should come with what is popular.
    #[must_use]
    pub const fn shows_popular(self) -> bool {
        matches!(self, Self::Generic)
    }
}

/// Why a request cannot be answered as planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The last attempt failed, and there will be no other.
    Failed(Failure),
    /// The model's breaker blocks calls.
    BreakerOpen,
    /// There is no time for an attempt.
    NoTime,
    /// The queue has no place, or its wait does not fit.
    QueueRefused,
    /// A fault of our own, or something nobody thought of.
    Unexpected,
}

impl Trouble {
    /// The kind of fallback that it leads to.
    #[must_use]
    pub const fn fallback(&self) -> FallbackKind {
        match self {
            Self::Failed(failure) => FailureClass::of(failure.kind).row().fallback,
            Self::BreakerOpen => FallbackKind::CircuitOpen,
            Self::NoTime => FallbackKind::ModelTimeout,
            Self::QueueRefused => FallbackKind::Throttled,
            Self::Unexpected => FallbackKind::Generic,
        }
    }

    /// Whether another model can still be asked. Not when the trouble is the request's own, and not when it was
    /// the line for models that had no place.
    const fn leaves_models(&self) -> bool {
        match self {
            Self::Failed(failure) => !matches!(failure.retryability, Retryability::Nowhere),
            Self::BreakerOpen | Self::NoTime | Self::Unexpected => true,
            Self::QueueRefused => false,
        }
    }
}

/// What comes below the fresh cache, best first.
const LADDER: [Rung; 5] = [Rung::StrongModel, Rung::FastModel, Rung::StaleCache, Rung::Faq, Rung::Apology];

/// Settings as somebody wrote them; [`StrategyOptions::check`] makes them usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StrategyOptions {
    /// With less than this left, what took too long is not followed by another model.
    pub least_for_fast: Duration,
    /// How long the cache may take.
    pub cache_within: Duration,
}

impl Default for StrategyOptions {
    /// 600 ms for a fast model, 50 ms for the cache.
    fn default() -> Self {
        Self { least_for_fast: Duration::from_millis(600), cache_within: Duration::from_millis(50) }
    }
}

impl StrategyOptions {
    /// Refuses a cache that gets no time.
    pub fn check(self) -> Result<Strategy, SettingError> {
        positive("cache_within", self.cache_within)?;
        Ok(Strategy { options: self })
    }
}

/// Chooses fallbacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strategy {
    options: StrategyOptions,
}

/// How to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FallbackDecision {
    /// What kind of fallback it is; it also chooses the words of an apology.
    pub kind: FallbackKind,
    /// The rungs to try, best first. Never empty; the last is the apology.
    pub rungs: &'static [Rung],
    /// How long the cache may take, if it is among them.
    pub cache_within: Duration,
}

impl Strategy {
    /// How to go on after this trouble on the rung `after`, under the plan's ceiling, with this much time left for
    /// rungs below it.
    #[must_use]
    pub fn choose(
        &self,
        trouble: &Trouble,
        after: Rung,
        ceiling: Ceiling,
        left: Duration,
    ) -> FallbackDecision {
        let kind = trouble.fallback();
        let forbidden = match ceiling {
            Ceiling::None => Rung::FastModel,
            Ceiling::Fast => Rung::StrongModel,
            Ceiling::Strong => Rung::FreshCache,
        };
        let after = after.max(forbidden);
        let too_late = kind == FallbackKind::ModelTimeout && left < self.options.least_for_fast;
        let after = match kind {
            FallbackKind::GuardrailBlock => Rung::Faq,
            _ if too_late || !trouble.leaves_models() => after.max(Rung::FastModel),
            _ => after,
        };
        // After the apology itself there is still the apology.
        let first = LADDER.iter().position(|rung| *rung > after).unwrap_or(LADDER.len() - 1);
        let rungs = LADDER.get(first..).unwrap_or(&[Rung::Apology]);
        FallbackDecision { kind, rungs, cache_within: self.options.cache_within }
    }
}
