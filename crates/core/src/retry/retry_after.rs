//! How a server's Retry-After is applied.

use crate::random::Draw;
use crate::setting::{Ratio, SettingError};
use std::time::Duration;

/// How far a server's Retry-After is followed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryAfterOptions {
    /// The most that a Retry-After may add to our own backoff.
    pub max_extra: Duration,
    /// A longer Retry-After is ignored: it is a mistake or a refusal.
    pub ignore_above: Duration,
    /// The jitter added to a Retry-After, in percent of it, so that clients given the same value do not retry together.
    pub jitter_percent: Option<f64>,
}

impl Default for RetryAfterOptions {
    fn default() -> Self {
        Self {
            max_extra: Duration::from_secs(5),
            ignore_above: Duration::from_secs(300),
            jitter_percent: Some(10.0),
        }
    }
}

/// Validated [`RetryAfterOptions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RetryAfterRule {
    max_extra: Duration,
    ignore_above: Duration,
    spread: Option<Ratio>,
}

impl RetryAfterOptions {
    pub(super) fn check(self) -> Result<RetryAfterRule, SettingError> {
        let spread = self
            .jitter_percent
            .map(|percent| Ratio::percent("retry_after_jitter_percent", percent))
            .transpose()?;
        Ok(RetryAfterRule { max_extra: self.max_extra, ignore_above: self.ignore_above, spread })
    }
}

impl RetryAfterRule {
    pub(super) fn is_plausible(&self, retry_after: Duration) -> bool {
        !retry_after.is_zero() && retry_after <= self.ignore_above
    }

    /// Our own backoff, lengthened by Retry-After up to `max_extra`; never shortened.
    pub(super) fn apply(&self, own: Duration, retry_after: Option<Duration>, draw: Draw) -> Duration {
        let Some(retry_after) = retry_after.filter(|retry_after| self.is_plausible(*retry_after)) else {
            return own;
        };
        let spread = match self.spread {
            Some(share) => {
                Duration::from_nanos(share.of(u64::try_from(retry_after.as_nanos()).unwrap_or(u64::MAX)))
            }
            None => Duration::ZERO,
        };
        let requested = draw.between(retry_after, retry_after.saturating_add(spread));
        requested.clamp(own, own.saturating_add(self.max_extra))
    }
}
