//! The retry hint for a refused caller.

use crate::chance::Draw;
use std::time::Duration;

/// The retry hint for a refused caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComeBack {
    /// The minimum time before the next request.
    pub after: Duration,
    /// Whether the client should wait automatically. Clients sleep as long as Retry-After asks, so a long wait is
    /// better shown to a person.
    pub worth_waiting: bool,
}

/// Turns the exact wait into a retry hint with jitter, so that callers refused together do not return together. Any
/// durations are valid.
///
/// ```
/// use seawall_core::chance::Draw;
/// use seawall_core::quota::ComeBackRule;
/// use std::time::Duration;
///
/// let rule = ComeBackRule::default();
/// let hint = rule.hint(Duration::from_millis(200), Draw::MIDDLE);
/// assert_eq!(hint.after, Duration::from_secs(6));
/// assert!(hint.worth_waiting);
/// assert!(!rule.hint(Duration::from_secs(3_600), Draw::LOWEST).worth_waiting);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComeBackRule {
    /// The lower bound of the hint, before jitter.
    pub least: Duration,
    /// The maximum jitter added to the wait.
    pub spread: Duration,
    /// The longest wait that a client should sleep through by itself.
    pub longest_worth_waiting: Duration,
}

impl Default for ComeBackRule {
    /// At least one second, up to ten seconds of jitter; a wait above twenty seconds is for a person to handle.
    fn default() -> Self {
        let [least, spread, longest_worth_waiting] = [1, 10, 20].map(Duration::from_secs);
        Self { least, spread, longest_worth_waiting }
    }
}

impl ComeBackRule {
    /// The hint for a caller that would have room after exactly `wait`.
    #[must_use]
    pub fn hint(&self, wait: Duration, draw: Draw) -> ComeBack {
        let after = wait.max(self.least).saturating_add(draw.between(Duration::ZERO, self.spread));
        ComeBack { after, worth_waiting: wait <= self.longest_worth_waiting }
    }
}
