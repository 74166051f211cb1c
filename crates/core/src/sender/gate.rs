//! Holding back from a target that throttles us and says for how long.
//!
//! **Why not the breaker?** A 429 with `Retry-After: 2` comes from a service that works: it names the moment from which it
//! answers again. A breaker would close the target for a minute. [`ThrottleGate`] holds calls back until that moment and
//! lets them pass at the pace of [`SenderRate`] afterwards, until a minute has gone by without a throttle.
//!
//! **When it gives up.** A throttle without a hint, with a hint longer than [`MAX_HOLD`](crate::failure::MAX_HOLD), or of a
//! call that was sent after three hints in a row were waited for, is an ordinary failure ([`ThrottleVerdict::Failed`]).
//! Calls that were under way when a hint came say nothing new: they lengthen the hold and count as the same hint.
//!
//! ```
//! use seawall_core::failure::{Failure, FailureKind};
//! use seawall_core::sender::{SendDecision, ThrottleGate, ThrottleVerdict};
//! use seawall_core::time::Timestamp;
//! use std::time::Duration;
//!
//! let (start, wait) = (Timestamp::ZERO, Duration::from_secs(2));
//! let mut gate = ThrottleGate::new(start);
//! let throttled = Failure::of(FailureKind::Throttled).with_retry_after(wait);
//! assert_eq!(gate.throttled(&throttled, start, start), ThrottleVerdict::HeldBack);
//! assert_eq!(gate.acquire(start), SendDecision::Wait(wait));
//! assert_eq!(gate.acquire(start + wait), SendDecision::Go);
//! ```

use super::{SendDecision, SenderRate};
use crate::failure::Failure;
use crate::time::Timestamp;
use std::time::Duration;

/// So many hints in a row are waited for before throttles count as failures again.
const MAX_HINTS: u32 = 3;

/// Calls are paced for this long after the last throttle. For ever would slow every burst down: the pace follows the rate
/// of calls so far.
const PACED_FOR: Duration = Duration::from_secs(60);

/// What a throttle says of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThrottleVerdict {
    /// It is busy and has said until when: pressure, and no failure.
    HeldBack,
    /// It counts as any other failure.
    Failed,
}

/// Whether calls may go to a target that throttles.
#[derive(Clone, Debug)]
pub struct ThrottleGate {
    held_until: Timestamp,
    /// Hints in a row: each to a call that was sent after the hold of the one before had ended.
    hints: u32,
    last_throttle: Option<Timestamp>,
    sender: SenderRate,
}

impl ThrottleGate {
    /// An open gate.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        Self { held_until: now, hints: 0, last_throttle: None, sender: SenderRate::new(now) }
    }

    /// Asks to send one call. Who must wait takes nothing.
    pub fn acquire(&mut self, now: Timestamp) -> SendDecision {
        self.rest(now);
        if now < self.held_until {
            return SendDecision::Wait(self.held_until - now);
        }
        self.sender.acquire(now)
    }

    /// A call that was sent at `sent` has been answered, throttles aside.
    pub fn answered(&mut self, sent: Timestamp, now: Timestamp) {
        self.sender.report(now, false);
        // An answer to a call from before the hold does not show that the throttling is over.
        if sent >= self.held_until {
            self.hints = 0;
        }
        self.rest(now);
    }

    /// A call that was sent at `sent` was throttled.
    pub fn throttled(&mut self, failure: &Failure, sent: Timestamp, now: Timestamp) -> ThrottleVerdict {
        let hold = failure.hold();
        // Pacing begins with the first hint: who gives none is left to the breaker, as any failure is.
        let is_paced = hold.is_some() || self.is_active();
        self.sender.report(now, is_paced);
        if is_paced {
            self.last_throttle = Some(now);
        }
        let Some(wait) = hold else { return ThrottleVerdict::Failed };
        if sent >= self.held_until {
            self.hints = self.hints.saturating_add(1);
        }
        if self.hints > MAX_HINTS {
            return ThrottleVerdict::Failed;
        }
        let held_before = self.held_until.max(now);
        self.held_until = held_before.max(now + wait);
        self.sender.pause(self.held_until - held_before);
        ThrottleVerdict::HeldBack
    }

    /// How long calls are still held back because the target asked for it.
    #[must_use]
    pub fn held_for(&self, now: Timestamp) -> Duration {
        self.held_until - now
    }

    /// Calls a second that are let through, while calls are paced.
    #[must_use]
    pub fn paced_rate(&self) -> Option<f64> {
        self.sender.is_limiting().then(|| self.sender.rate())
    }

    /// Whether a call may have to wait: while this is false nobody needs to ask.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.sender.is_limiting()
    }

    fn rest(&mut self, now: Timestamp) {
        if self.last_throttle.is_some_and(|last| now - last >= PACED_FOR && now >= self.held_until) {
            self.last_throttle = None;
            self.hints = 0;
            self.sender.stop_limiting();
        }
    }
}
