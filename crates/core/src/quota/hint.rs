//! When a refused caller should come back.

use crate::chance::Draw;
use std::time::Duration;

/// What a refused caller is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComeBack {
    /// Not before this.
    pub after: Duration,
    /// Whether a client should wait for it by itself. Clients sleep as long as they are told, so a long wait is
    /// better handed to a person.
    pub worth_waiting: bool,
}

/// Turns the exact wait into a hint, spread so that those who were refused together do not come back together. Any
/// durations will do.
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
    /// The shortest wait that is told.
    pub least: Duration,
    /// Up to this much is added.
    pub spread: Duration,
    /// A longer wait is not for a client to sleep through.
    pub longest_worth_waiting: Duration,
}

impl Default for ComeBackRule {
    /// At least a second, spread over ten more; above twenty a person is better asked.
    fn default() -> Self {
        let [least, spread, longest_worth_waiting] = [1, 10, 20].map(Duration::from_secs);
        Self { least, spread, longest_worth_waiting }
    }
}

impl ComeBackRule {
    /// What to tell who would have room after exactly this wait.
    #[must_use]
    pub fn hint(&self, wait: Duration, draw: Draw) -> ComeBack {
        let after = wait.max(self.least).saturating_add(draw.between(Duration::ZERO, self.spread));
        ComeBack { after, worth_waiting: wait <= self.longest_worth_waiting }
    }
}
