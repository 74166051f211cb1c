//! Fallback strategy: retries per class of failure, and the rungs to fall back to.
//!
//! Two tables. The [first](FailureClass::row) gives for each class of failure the number of retries, whether to alert,
//! and the kind of fallback; [`retry`](crate::retry) takes its numbers from here. The [second](FallbackKind) defines
//! what each kind of fallback does. The texts for callers belong to the face that answers them.
//!
//! **When it acts.** When no further attempt on a rung will be made. [`Strategy::choose`] returns the kind of fallback
//! and the remaining rungs, best first; the last one is always the apology. After a model timeout with less than 0.6 s
//! left, no other model is tried, and the cache comes next. A cache that fails before any model was called is followed
//! by the models, the strong one first.
//!
//! **What it does not do.** It calls no model and reads no cache, and it cannot fail: anything without a row is
//! generic. It never goes back up: a rung that failed is not offered again, and no model above the plan's ceiling is.
//!
//! ```
//! use seawall_core::failure::{Failure, FailureKind};
//! use seawall_core::strategy::{FallbackKind, StrategyOptions, FallbackCause};
//! use seawall_core::vocabulary::{Ceiling, Rung};
//! use std::time::Duration;
//!
//! let strategy = StrategyOptions::default().check().unwrap();
//! let slow = FallbackCause::Failed(Failure::of(FailureKind::StartTimeout));
//! let decision = strategy.choose(&slow, Rung::StrongModel, Ceiling::Strong, Duration::from_secs(1));
//! assert_eq!(decision.kind, FallbackKind::ModelTimeout);
//! assert_eq!(decision.rungs, [Rung::FastModel, Rung::StaleCache, Rung::Faq, Rung::Apology]);
//!
//! let late = strategy.choose(&slow, Rung::StrongModel, Ceiling::Strong, Duration::from_millis(599));
//! assert_eq!(late.rungs, [Rung::StaleCache, Rung::Faq, Rung::Apology]);
//! ```

mod table;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

pub use crate::vocabulary::Language;
pub use table::{FailureClass, FailureRow};

use crate::failure::{Failure, Retryability};
use crate::setting::{SettingError, positive};
use crate::vocabulary::{Ceiling, Rung, named_enum};
use std::time::Duration;

named_enum! {
    /// How to answer a request that could not be answered as planned.
    pub enum FallbackKind as "fallback" {
        /// The model's circuit breaker is open.
        CircuitOpen = "circuit_open",
        /// The model took too long.
        ModelTimeout = "model_timeout",
        /// A guardrail blocked the request or the response.
        GuardrailBlock = "guardrail_block",
        /// Demand exceeds capacity.
        Throttled = "throttled",
        /// Any other cause.
        Generic = "generic",
    }
}

impl FallbackKind {
    /// Description of the fallback, as a sentence.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::CircuitOpen => "A fast model if its breaker is closed; otherwise the cache, immediately.",
            Self::ModelTimeout => "A fast model if enough time remains; otherwise the cache.",
            Self::GuardrailBlock => {
                "A polite refusal. No other rung, because it would answer the blocked request."
            }
            Self::Throttled => {
                "A fast model, which has its own capacity; otherwise the cache. May be queued."
            }
            Self::Generic => "The rungs below, in order.",
        }
    }
}

/// Why a request cannot be answered as planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FallbackCause {
    /// The last attempt failed, and no retry follows.
    Failed(Failure),
    /// The model's circuit breaker blocks calls.
    BreakerOpen,
    /// Too little time is left for an attempt.
    NoTime,
    /// The queue is full, or its wait exceeds the deadline.
    QueueRefused,
    /// An internal error or an unforeseen condition.
    Unexpected,
}

impl FallbackCause {
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

    /// Whether another model can still be tried. It cannot if the request itself is at fault, or if the queue for
    /// models refused it.
    const fn allows_models(&self) -> bool {
        match self {
            Self::Failed(failure) => !matches!(failure.retryability, Retryability::Never),
            Self::BreakerOpen | Self::NoTime | Self::Unexpected => true,
            Self::QueueRefused => false,
        }
    }
}

/// The rungs below the fresh cache, best first.
const LADDER: [Rung; 5] = [Rung::StrongModel, Rung::FastModel, Rung::StaleCache, Rung::Faq, Rung::Apology];

/// Settings before validation; see [`StrategyOptions::check`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StrategyOptions {
    /// With less than this left after a timeout, no other model is tried.
    pub min_for_fast: Duration,
    /// Timeout of the cache lookup.
    pub cache_timeout: Duration,
}

impl Default for StrategyOptions {
    /// 600 ms for a fast model, 50 ms for the cache.
    fn default() -> Self {
        Self { min_for_fast: Duration::from_millis(600), cache_timeout: Duration::from_millis(50) }
    }
}

impl StrategyOptions {
    /// Fails on a cache timeout of zero.
    pub fn check(self) -> Result<Strategy, SettingError> {
        positive("cache_timeout", self.cache_timeout)?;
        Ok(Strategy { options: self })
    }
}

/// Chooses fallbacks. See the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strategy {
    options: StrategyOptions,
}

/// How to continue after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FallbackDecision {
    /// The kind of fallback, which also selects the text of an apology.
    pub kind: FallbackKind,
    /// The rungs to try, best first. Never empty; the last is the apology.
    pub rungs: &'static [Rung],
    /// Timeout of the cache lookup, if the cache is among the rungs.
    pub cache_timeout: Duration,
}

impl Strategy {
    /// Chooses how to continue after a failure on the rung `after`, under the plan's ceiling, with `left` for the
    /// rungs below it.
    #[must_use]
    pub fn choose(
        &self,
        trouble: &FallbackCause,
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
        let too_late = kind == FallbackKind::ModelTimeout && left < self.options.min_for_fast;
        let after = match kind {
            FallbackKind::GuardrailBlock => Rung::Faq,
            _ if too_late || !trouble.allows_models() => after.max(Rung::FastModel),
            _ => after,
        };
        // The apology is its own fallback.
        let first = LADDER.iter().position(|rung| *rung > after).unwrap_or(LADDER.len() - 1);
        let rungs = LADDER.get(first..).unwrap_or(&[Rung::Apology]);
        FallbackDecision { kind, rungs, cache_timeout: self.options.cache_timeout }
    }
}
