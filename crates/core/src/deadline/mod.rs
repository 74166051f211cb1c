//! One deadline per request, and time limits that fit inside one another.
//!
//! A deadline is made once, when a request is received, and handed inward. Each rung of the cascade gets what
//! is left minus the [`Reserves`] of the rungs below it, so that trying the strong model can never eat the
//! time in which an apology could still be sent. [`TimeLimits`] checks when settings are loaded that every
//! limit is shorter than the one around it; [`Phases`] splits the time of a whole, unstreamed request.
//!
//! Nothing here waits or cancels; it only says how much time there is.

mod limits;
mod phases;
mod reserves;

pub use limits::{TimeLimitError, TimeLimitOptions, TimeLimits};
pub use phases::{InsufficientTime, Phases};
pub use reserves::{Reserve, Reserves};

use crate::time::Timestamp;
use std::time::Duration;

/// The moment by which something must be finished.
///
/// ```
/// use seawall_core::deadline::Deadline;
/// use seawall_core::time::Timestamp;
/// use std::time::Duration;
///
/// let now = Timestamp::ZERO;
/// let request = Deadline::after(now, Duration::from_secs(3));
/// let attempt = request.keeping(Duration::from_secs(1)).within(now, Duration::from_secs(25));
/// assert_eq!(attempt.remaining(now), Duration::from_secs(2));
/// assert!(attempt.has_room(now, Duration::from_millis(1_500)));
/// assert!(!attempt.has_room(now, Duration::from_millis(2_001)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(Timestamp);

impl Deadline {
    /// No deadline at all.
    pub const NEVER: Self = Self(Timestamp::NEVER);

    /// A deadline at this moment.
    #[must_use]
    pub const fn at(moment: Timestamp) -> Self {
        Self(moment)
    }

    /// A deadline this long from now.
    #[must_use]
    pub fn after(now: Timestamp, limit: Duration) -> Self {
        Self(now + limit)
    }

    /// The moment itself.
    #[must_use]
    pub const fn moment(self) -> Timestamp {
        self.0
    }

    /// The time left; zero once it has passed.
    #[must_use]
    pub fn remaining(self, now: Timestamp) -> Duration {
        self.0 - now
    }

    /// Whether no time is left.
    #[must_use]
    pub fn has_passed(self, now: Timestamp) -> bool {
        now >= self.0
    }

    /// An earlier deadline that leaves `reserve` for what comes after. No deadline stays none.
    #[must_use]
    pub fn keeping(self, reserve: Duration) -> Self {
        if self == Self::NEVER { self } else { Self(self.0 - reserve) }
    }

    /// The earlier of this deadline and `limit` from now.
    #[must_use]
    pub fn within(self, now: Timestamp, limit: Duration) -> Self {
        self.min(Self::after(now, limit))
    }

    /// Whether work that takes this long can still finish in time.
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
        assert_eq!(Deadline::after(now, SECOND).keeping(SECOND), Deadline::at(now));
        assert_eq!(Deadline::at(now).keeping(SECOND * 5), Deadline::at(Timestamp::ZERO));
        assert_eq!(Deadline::NEVER.keeping(SECOND), Deadline::NEVER);
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
