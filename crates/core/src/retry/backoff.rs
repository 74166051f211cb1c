//! Exponential backoff with jitter.

use crate::invariant::{backoff_within_bounds, enforce};
use crate::random::Draw;
use crate::setting::{Factor, SettingError, ordered, positive};
use std::time::Duration;

/// How waits are randomized, so that callers that failed together do not retry together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jitter {
    /// No jitter. For tests and for a single caller.
    None,
    /// Full jitter: uniform between zero and the exponential wait.
    Full,
    /// Equal jitter: uniform between half of the exponential wait and all of it.
    Equal,
    /// Decorrelated jitter: between the base and three times the previous wait, whatever the number of retries.
    Decorrelated,
    /// The exponential wait times a random factor. Its upper bound is the cap times `high`.
    Multiplicative {
        /// The lower bound of the factor.
        low: Factor,
        /// The upper bound of the factor.
        high: Factor,
    },
}

/// An unchecked backoff; [`BackoffOptions::check`] validates it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackoffOptions {
    /// The first wait, before jitter.
    pub base_delay: Duration,
    /// The upper bound of the wait, before a multiplicative jitter.
    pub max_delay: Duration,
    /// How waits are randomized.
    pub jitter: Jitter,
}

impl BackoffOptions {
    /// For a user who is waiting: 100 ms up to 10 s, decorrelated jitter.
    #[must_use]
    pub const fn interactive() -> Self {
        Self {
            base_delay: Duration::from_millis(100),
            max_delay: Duration::from_secs(10),
            jitter: Jitter::Decorrelated,
        }
    }

    /// For background work: 1 s doubling up to 60 s, times a factor between a half and one and a half.
    #[must_use]
    pub const fn background() -> Self {
        let jitter =
            Jitter::Multiplicative { low: Factor::of_thousandths(500), high: Factor::of_thousandths(1_500) };
        Self { base_delay: Duration::from_secs(1), max_delay: Duration::from_secs(60), jitter }
    }

    /// Validates the backoff: it must wait, and its cap must not be below its base.
    pub fn check(self) -> Result<Backoff, SettingError> {
        positive("base_delay", self.base_delay)?;
        ordered(("base_delay", self.base_delay), ("max_delay", self.max_delay))?;
        if let Jitter::Multiplicative { low, high } = self.jitter
            && low > high
        {
            return Err(SettingError::new("jitter", format!("{low} is more than {high}")));
        }
        Ok(Backoff(self))
    }
}

/// Computes backoff waits. It has no state: that belongs to the request, or concurrent requests would lengthen one
/// another's waits.
///
/// ```
/// use seawall_core::random::Draw;
/// use seawall_core::retry::{BackoffOptions, BackoffState};
/// use std::time::Duration;
///
/// let backoff = BackoffOptions::interactive().check().unwrap();
/// let mut state = BackoffState::default();
/// assert_eq!(backoff.next(&mut state, Draw::HIGHEST), Duration::from_millis(300));
/// assert_eq!(backoff.next(&mut state, Draw::HIGHEST), Duration::from_millis(900));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff(pub(super) BackoffOptions);

/// The backoff state of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackoffState {
    waits: u32,
    previous: Option<Duration>,
}

impl Backoff {
    /// The next wait of this request.
    #[must_use]
    pub fn next(&self, state: &mut BackoffState, draw: Draw) -> Duration {
        let BackoffOptions { base_delay, max_delay, jitter } = self.0;
        let exponential = doubled(base_delay, state.waits).min(max_delay);
        let wait = match jitter {
            Jitter::None => exponential,
            Jitter::Full => draw.between(Duration::ZERO, exponential),
            Jitter::Equal => draw.between(exponential / 2, exponential),
            Jitter::Decorrelated => {
                let previous = state.previous.unwrap_or(base_delay);
                draw.between(base_delay, previous.saturating_mul(3)).min(max_delay)
            }
            Jitter::Multiplicative { low, high } => {
                draw.between(low.times(exponential), high.times(exponential))
            }
        };
        let (min, max) = self.bounds();
        enforce(backoff_within_bounds(wait, min, max));
        state.waits = state.waits.saturating_add(1);
        state.previous = Some(wait);
        wait
    }
}

impl Backoff {
    /// The shortest and the longest wait of any request.
    fn bounds(&self) -> (Duration, Duration) {
        let BackoffOptions { base_delay, max_delay, jitter } = self.0;
        match jitter {
            Jitter::None | Jitter::Decorrelated => (base_delay, max_delay),
            Jitter::Full => (Duration::ZERO, max_delay),
            Jitter::Equal => (base_delay / 2, max_delay),
            Jitter::Multiplicative { low, high } => (low.times(base_delay), high.times(max_delay)),
        }
    }
}

fn doubled(base_delay: Duration, times: u32) -> Duration {
    // Past 2^64 nanoseconds every cap has been reached.
    2_u32.checked_pow(times).map_or(Duration::MAX, |factor| base_delay.saturating_mul(factor))
}
