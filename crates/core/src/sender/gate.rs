//! Pauses calls to a target that throttles us with a Retry-After.
//!
//! **Why not the breaker?** A 429 with `Retry-After: 2` comes from a service that works and names the time from which
//! it will answer again. A breaker would block the target for a minute. [`ThrottleGate`] pauses calls until that
//! time and then paces them at the rate of [`SenderRate`], until a minute has passed without a throttle.
//!
//! **When it gives up.** A throttle is an ordinary failure ([`ThrottleDecision::Failed`]) if it has no Retry-After, or
//! one longer than [`MAX_RETRY_AFTER`](crate::failure::MAX_RETRY_AFTER), or if the call was sent after three consecutive Retry-Afters
//! were honoured. Calls that were in flight when a Retry-After arrived are not a new signal: theirs extend the pause and
//! count as the same one.
//!
//! ```
//! use seawall_core::failure::{Failure, FailureKind};
//! use seawall_core::sender::{SendDecision, ThrottleGate, ThrottleDecision};
//! use seawall_core::time::Timestamp;
//! use std::time::Duration;
//!
//! let (start, wait) = (Timestamp::ZERO, Duration::from_secs(2));
//! let mut gate = ThrottleGate::new(start);
//! let throttled = Failure::of(FailureKind::Throttled).with_retry_after(wait);
//! assert_eq!(gate.throttled(&throttled, start, start), ThrottleDecision::Paused);
//! assert_eq!(gate.acquire(start), SendDecision::Wait(wait));
//! assert_eq!(gate.acquire(start + wait), SendDecision::Send);
//! ```

use super::{SendDecision, SenderRate};
use crate::failure::Failure;
use crate::time::Timestamp;
use std::time::Duration;

/// The number of consecutive Retry-Afters that are honoured before throttles count as failures again.
const MAX_RETRY_AFTERS: u32 = 3;

/// How long calls are paced after the last throttle. Pacing forever would slow down every burst, because the pace
/// follows the rate of calls so far.
const PACED_FOR: Duration = Duration::from_secs(60);

/// How a throttle counts for a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThrottleDecision {
    /// The target is busy and has named a time: pressure, but no failure.
    Paused,
    /// It counts as any other failure.
    Failed,
}

/// Decides whether calls may be sent to a target that throttles.
#[derive(Clone, Debug)]
pub struct ThrottleGate {
    paused_until: Timestamp,
    /// Consecutive Retry-Afters, each on a call that was sent after the previous pause had ended.
    retry_afters: u32,
    last_throttle: Option<Timestamp>,
    sender: SenderRate,
}

impl ThrottleGate {
    /// Creates an open gate.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        Self { paused_until: now, retry_afters: 0, last_throttle: None, sender: SenderRate::new(now) }
    }

    /// Requests to send one call. A call that must wait takes nothing.
    pub fn acquire(&mut self, now: Timestamp) -> SendDecision {
        self.stop_pacing_if_quiet(now);
        if now < self.paused_until {
            return SendDecision::Wait(self.paused_until - now);
        }
        self.sender.acquire(now)
    }

    /// Records that a call sent at `sent` got a response other than a throttle.
    pub fn answered(&mut self, sent: Timestamp, now: Timestamp) {
        self.sender.report(now, false);
        // A response to a call from before the pause does not show that the throttling is over.
        if sent >= self.paused_until {
            self.retry_afters = 0;
        }
        self.stop_pacing_if_quiet(now);
    }

    /// Records that a call sent at `sent` was throttled.
    pub fn throttled(&mut self, failure: &Failure, sent: Timestamp, now: Timestamp) -> ThrottleDecision {
        let retry_after = failure.honoured_retry_after();
        // Pacing begins with the first Retry-After: throttles without one are left to the breaker, as any failure is.
        let is_paced = retry_after.is_some() || self.is_active();
        // A throttle of a call from before the last cut is not a new signal: a burst of throttles cuts the rate once.
        let is_news = !self.is_active() || sent >= self.sender.last_throttle;
        self.sender.report(now, is_paced && is_news);
        if is_paced {
            self.last_throttle = Some(now);
        }
        let Some(wait) = retry_after else { return ThrottleDecision::Failed };
        if sent >= self.paused_until {
            self.retry_afters = self.retry_afters.saturating_add(1);
        }
        if self.retry_afters > MAX_RETRY_AFTERS {
            return ThrottleDecision::Failed;
        }
        let paused_before = self.paused_until.max(now);
        self.paused_until = paused_before.max(now + wait);
        self.sender.pause(self.paused_until - paused_before);
        ThrottleDecision::Paused
    }

    /// How much longer calls are paused because of a Retry-After.
    #[must_use]
    pub fn paused_for(&self, now: Timestamp) -> Duration {
        self.paused_until - now
    }

    /// The allowed calls per second; `None` while calls are not paced.
    #[must_use]
    pub fn paced_rate(&self) -> Option<f64> {
        self.sender.is_limiting().then(|| self.sender.rate())
    }

    /// Whether a call may have to wait: while this is false, [`acquire`](Self::acquire) need not be called.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.sender.is_limiting()
    }

    fn stop_pacing_if_quiet(&mut self, now: Timestamp) {
        if self.last_throttle.is_some_and(|last| now - last >= PACED_FOR && now >= self.paused_until) {
            self.last_throttle = None;
            self.retry_afters = 0;
            self.sender.stop_limiting();
        }
    }
}
