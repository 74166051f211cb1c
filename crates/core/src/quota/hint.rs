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

const LEAST: Duration = Duration::from_secs(1);
const SPREAD: Duration = Duration::from_secs(10);
const LONGEST_WORTH_WAITING: Duration = Duration::from_secs(20);

/// Turns the exact wait into a hint: at least a second, and spread over ten more, so that those who were refused
/// together do not come back together.
///
/// ```
/// use seawall_core::chance::Draw;
/// use seawall_core::quota::come_back;
/// use std::time::Duration;
///
/// let hint = come_back(Duration::from_millis(200), Draw::MIDDLE);
/// assert_eq!(hint.after, Duration::from_secs(6));
/// assert!(hint.worth_waiting);
/// assert!(!come_back(Duration::from_secs(3_600), Draw::LOWEST).worth_waiting);
/// ```
#[must_use]
pub fn come_back(wait: Duration, draw: Draw) -> ComeBack {
    let after = wait.max(LEAST).saturating_add(draw.between(Duration::ZERO, SPREAD));
    ComeBack { after, worth_waiting: wait <= LONGEST_WORTH_WAITING }
}
