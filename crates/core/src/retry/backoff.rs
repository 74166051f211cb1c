//! How long to wait before trying again.

use crate::chance::Draw;
use crate::setting::{Factor, SettingError, ordered, positive};
use std::time::Duration;

/// How waits are spread, so that those who failed together do not come back together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jitter {
    /// Not at all. For tests and for a single caller.
    None,
    /// Anywhere up to the exponential wait.
    Full,
    /// Between half of it and all of it.
    Equal,
    /// Between the base and three times the wait before, whatever the number of retries.
    Decorrelated,
    /// The exponential wait times a number drawn between these two. Its bound is the cap times the higher one.
    Multiplicative {
        /// At least this.
        low: Factor,
        /// At most this.
        high: Factor,
    },
}

/// A backoff as somebody wrote it; [`BackoffOptions::check`] makes it usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackoffOptions {
    /// The first wait, before it is spread.
    pub base: Duration,
    /// The longest wait, before it is multiplied.
    pub cap: Duration,
    /// How waits are spread.
    pub jitter: Jitter,
}

impl BackoffOptions {
    /// For a person who waits: 100 ms up to 10 s, decorrelated.
    #[must_use]
    pub const fn interactive() -> Self {
        Self { base: Duration::from_millis(100), cap: Duration::from_secs(10), jitter: Jitter::Decorrelated }
    }

    /// For work that nobody waits for: 1 s doubling up to 60 s, times a half to one and a half.
    #[must_use]
    pub const fn background() -> Self {
        let jitter =
            Jitter::Multiplicative { low: Factor::of_thousandths(500), high: Factor::of_thousandths(1_500) };
        Self { base: Duration::from_secs(1), cap: Duration::from_secs(60), jitter }
    }

    /// Refuses a backoff that would not wait or would not grow.
    pub fn check(self) -> Result<Backoff, SettingError> {
        positive("base", self.base)?;
        ordered(("base", self.base), ("cap", self.cap))?;
        if let Jitter::Multiplicative { low, high } = self.jitter
            && low > high
        {
            return Err(SettingError::new("jitter", format!("{low} is more than {high}")));
        }
        Ok(Backoff(self))
    }
}

/// Computes waits. Holds no state: that belongs to the request, or concurrent requests would stretch one
/// another's waits.
///
/// ```
/// use seawall_core::chance::Draw;
/// use seawall_core::retry::{BackoffOptions, BackoffState};
/// use std::time::Duration;
///
/// let backoff = BackoffOptions::interactive().check().unwrap();
/// let mut state = BackoffState::default();
/// assert_eq!(backoff.next(&mut state, Draw::HIGHEST), Duration::from_millis(300));
/// assert_eq!(backoff.next(&mut state, Draw::HIGHEST), Duration::from_millis(900));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff(BackoffOptions);

/// How far one request has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackoffState {
    waits: u32,
    previous: Option<Duration>,
}

impl Backoff {
    /// The next wait of this request.
    #[must_use]
    pub fn next(&self, state: &mut BackoffState, draw: Draw) -> Duration {
        let BackoffOptions { base, cap, jitter } = self.0;
        let exponential = doubled(base, state.waits).min(cap);
        let wait = match jitter {
            Jitter::None => exponential,
            Jitter::Full => draw.between(Duration::ZERO, exponential),
            Jitter::Equal => draw.between(exponential / 2, exponential),
            Jitter::Decorrelated => {
                let previous = state.previous.unwrap_or(base);
                draw.between(base, previous.saturating_mul(3)).min(cap)
            }
            Jitter::Multiplicative { low, high } => {
                draw.between(low.times(exponential), high.times(exponential))
            }
        };
        state.waits = state.waits.saturating_add(1);
        state.previous = Some(wait);
        wait
    }
}

fn doubled(base: Duration, times: u32) -> Duration {
    // Past 2^64 nanoseconds every cap has been reached.
    2_u32.checked_pow(times).map_or(Duration::MAX, |factor| base.saturating_mul(factor))
}
