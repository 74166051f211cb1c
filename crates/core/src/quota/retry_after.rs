//! The Retry-After of a refused caller.

use crate::random::Draw;
use std::time::Duration;

/// The Retry-After of a refused caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryAfter {
    /// The minimum time before the next request.
    pub delay: Duration,
    /// Whether the client should wait automatically. Clients sleep as long as Retry-After asks, so a long wait is
    /// better shown to a person.
    pub should_retry: bool,
}

/// Turns the exact wait into a Retry-After with jitter, so that callers refused together do not return together. Any
/// durations are valid.
///
/// ```
/// use seawall_core::random::Draw;
/// use seawall_core::quota::RetryAfterPolicy;
/// use std::time::Duration;
///
/// let rule = RetryAfterPolicy::default();
/// let advice = rule.advise(Duration::from_millis(200), Draw::MIDDLE);
/// assert_eq!(advice.delay, Duration::from_secs(6));
/// assert!(advice.should_retry);
/// assert!(!rule.advise(Duration::from_secs(3_600), Draw::LOWEST).should_retry);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryAfterPolicy {
    /// The lower bound of the delay, before jitter.
    pub min: Duration,
    /// The maximum jitter added to the wait.
    pub jitter: Duration,
    /// The longest wait that a client should sleep through by itself.
    pub no_retry_above: Duration,
}

impl Default for RetryAfterPolicy {
    /// At least one second, up to ten seconds of jitter; a wait above twenty seconds is for a person to handle.
    fn default() -> Self {
        let [min, jitter, no_retry_above] = [1, 10, 20].map(Duration::from_secs);
        Self { min, jitter, no_retry_above }
    }
}

impl RetryAfterPolicy {
    /// The Retry-After of a caller that would have room after exactly `wait`.
    #[must_use]
    pub fn advise(&self, wait: Duration, draw: Draw) -> RetryAfter {
        let delay = wait.max(self.min).saturating_add(draw.between(Duration::ZERO, self.jitter));
        RetryAfter { delay, should_retry: wait <= self.no_retry_above }
    }
}
