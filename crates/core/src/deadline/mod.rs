//! One deadline per request, and nested timeouts.
//!
//! A deadline is created once, when a request is received, and propagated inward. Each rung of the fallback cascade
//! gets the remaining time minus the [`RungReserves`] of the rungs below it, so that an attempt on the strong model can
//! never use up the time in which an apology could still be sent. [`TimeLimits`] validates at load time that every
//! timeout is shorter than the one that contains it; [`Phases`] splits the time of an unstreamed request.
//!
//! Nothing here waits or cancels; it only computes the remaining time.

mod limits;
mod phases;
mod reserves;

pub use limits::{TimeLimitError, TimeLimitOptions, TimeLimits};
pub use phases::{InsufficientTime, Phases};
pub use reserves::{RungReserve, RungReserves};

use crate::time::Timestamp;
use std::time::Duration;

/// The moment by which work must be finished.
///
/// ```
/// use seawall_core::deadline::Deadline;
/// use seawall_core::time::Timestamp;
/// use std::time::Duration;
///
/// let now = Timestamp::ZERO;
/// let request = Deadline::after(now, Duration::from_secs(3));
/// let attempt = request.reserving(Duration::from_secs(1)).within(now, Duration::from_secs(25));
/// assert_eq!(attempt.remaining(now), Duration::from_secs(2));
/// assert!(attempt.has_room(now, Duration::from_millis(1_500)));
/// assert!(!attempt.has_room(now, Duration::from_millis(2_001)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(Timestamp);

impl Deadline {
    /// No deadline.
    pub const NEVER: Self = Self(Timestamp::NEVER);

    /// A deadline at this timestamp.
    #[must_use]
    pub const fn at(moment: Timestamp) -> Self {
        Self(moment)
    }

    /// A deadline this long after `now`.
    #[must_use]
    pub fn after(now: Timestamp, limit: Duration) -> Self {
        Self(now + limit)
    }

    /// The timestamp of the deadline.
    #[must_use]
    pub const fn moment(self) -> Timestamp {
        self.0
    }

    /// The time left; zero once the deadline has passed.
    #[must_use]
    pub fn remaining(self, now: Timestamp) -> Duration {
        self.0 - now
    }

    /// Whether the deadline has passed.
    #[must_use]
    pub fn has_passed(self, now: Timestamp) -> bool {
        now >= self.0
    }

    /// An earlier deadline that leaves `reserve` for later work. [`Deadline::NEVER`] stays unchanged.
    #[must_use]
    pub fn reserving(self, reserve: Duration) -> Self {
        if self == Self::NEVER { self } else { Self(self.0 - reserve) }
    }

    /// The earlier of this deadline and `limit` after `now`.
    #[must_use]
    pub fn within(self, now: Timestamp, limit: Duration) -> Self {
        self.min(Self::after(now, limit))
    }

    /// Whether work of this duration can still finish in time.
    #[must_use]
    pub fn has_room(self, now: Timestamp, work: Duration) -> bool {
        now + work <= self.0
    }
}

#[cfg(test)]
mod tests {
    use super::Deadline;
    use crate::time::Timestamp;
    use std::time::Duration;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_deadline_passes_at_its_moment_and_not_before() {
        let deadline = Deadline::after(Timestamp::from_nanos(7), SECOND);
        assert_eq!(deadline.moment(), Timestamp::from_nanos(1_000_000_007));
        assert!(!deadline.has_passed(Timestamp::from_nanos(1_000_000_006)));
        assert!(deadline.has_passed(Timestamp::from_nanos(1_000_000_007)));
        assert_eq!(deadline.remaining(Timestamp::from_nanos(2_000_000_000)), Duration::ZERO);
    }

    #[test]
    fn a_reserve_moves_a_deadline_but_not_one_that_never_comes() {
        let now = Timestamp::ZERO + SECOND;
        assert_eq!(Deadline::after(now, SECOND).reserving(SECOND), Deadline::at(now));
        assert_eq!(Deadline::at(now).reserving(SECOND * 5), Deadline::at(Timestamp::ZERO));
        assert_eq!(Deadline::NEVER.reserving(SECOND), Deadline::NEVER);
        assert!(Deadline::NEVER.has_room(now, Duration::MAX));
        assert_eq!(Deadline::NEVER.within(now, SECOND), Deadline::after(now, SECOND));
        assert_eq!(Deadline::at(now).within(now, SECOND), Deadline::at(now));
    }

    #[test]
    fn work_that_ends_exactly_in_time_has_room() {
        let now = Timestamp::ZERO;
        let deadline = Deadline::after(now, SECOND);
        assert!(deadline.has_room(now, SECOND));
        assert!(!deadline.has_room(now, SECOND + Duration::from_nanos(1)));
    }
}
