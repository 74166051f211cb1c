//! Retry policy: how many retries each kind of failure gets.

use super::backoff::{Backoff, BackoffOptions};
use super::retry_after::{RetryAfterOptions, RetryAfterRule};
use crate::failure::FailureKind;
use crate::setting::SettingError;
use crate::strategy::{FailureClass, FailureRow};
use std::time::Duration;

/// The maximum retries on one target, by kind of failure. Kinds that are not listed are not retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryLimits {
    /// The vendor limits our rate, has no capacity, or is loading the model.
    pub throttled: u32,
    /// The vendor took too long.
    pub timed_out: u32,
    /// The vendor failed, could not be reached, or interrupted the stream.
    pub transient: u32,
    /// A quota that refills in time, if the vendor's error table classifies it so.
    pub quota_exhausted: u32,
}

impl RetryLimits {
    /// The limits from the strategy table, from the column that `retries` selects.
    fn from_table(retries: fn(FailureRow) -> u32) -> Self {
        let limit = |class: FailureClass| retries(class.row());
        Self {
            throttled: limit(FailureClass::Throttled),
            timed_out: limit(FailureClass::TimedOut),
            transient: limit(FailureClass::Transient),
            quota_exhausted: limit(FailureClass::QuotaExhausted),
        }
    }

    pub(super) const fn of(&self, kind: FailureKind) -> u32 {
        match FailureClass::of(kind) {
            FailureClass::Throttled => self.throttled,
            FailureClass::TimedOut => self.timed_out,
            FailureClass::Transient => self.transient,
            FailureClass::QuotaExhausted => self.quota_exhausted,
            // Never worth a retry on the same target, whatever the settings are.
            FailureClass::StartTimeout
            | FailureClass::Blocked
            | FailureClass::CallerFault
            | FailureClass::Other => 0,
        }
    }
}

/// An unchecked retry policy; [`RetryOptions::check`] validates it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryOptions {
    /// The backoff between attempts.
    pub backoff: BackoffOptions,
    /// The maximum retries on one target, for any failure.
    pub max_retries: u32,
    /// The maximum retries on one target, by kind of failure.
    pub limits: RetryLimits,
    /// How Retry-After is applied.
    pub retry_after: RetryAfterOptions,
    /// The minimum time for an attempt; with less time left, no attempt is made.
    pub min_attempt_time: Duration,
}

impl RetryOptions {
    /// For a user who is waiting.
    #[must_use]
    pub fn interactive() -> Self {
        Self {
            backoff: BackoffOptions::interactive(),
            max_retries: 5,
            limits: RetryLimits::from_table(|row| row.interactive_retries),
            retry_after: RetryAfterOptions::default(),
            min_attempt_time: Duration::from_millis(100),
        }
    }

    /// For background work: five retries of any retryable failure.
    #[must_use]
    pub fn background() -> Self {
        Self {
            backoff: BackoffOptions::background(),
            max_retries: 5,
            limits: RetryLimits::from_table(|row| row.background_retries),
            retry_after: RetryAfterOptions::default(),
            min_attempt_time: Duration::from_secs(1),
        }
    }

    /// Validates the policy, including its backoff and its Retry-After rule.
    pub fn check(self) -> Result<RetryPolicy, SettingError> {
        if self.max_retries > 100 {
            let problem = format!("{} is more than 100", self.max_retries);
            return Err(SettingError::new("max_retries", problem));
        }
        Ok(RetryPolicy {
            backoff: self.backoff.check()?,
            max_retries: self.max_retries,
            limits: self.limits,
            retry_after: self.retry_after.check()?,
            min_attempt_time: self.min_attempt_time,
        })
    }
}

/// A validated retry policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    pub(super) backoff: Backoff,
    max_retries: u32,
    limits: RetryLimits,
    pub(super) retry_after: RetryAfterRule,
    pub(super) min_attempt_time: Duration,
}

impl RetryPolicy {
    /// Whether a Retry-After of this length is plausible. One that is not must not be passed on to the caller either.
    #[must_use]
    pub fn is_plausible_retry_after(&self, retry_after: Duration) -> bool {
        self.retry_after.is_plausible(retry_after)
    }

    /// The maximum retries on one target after a failure of this kind.
    pub(super) fn retries(&self, kind: FailureKind) -> u32 {
        self.limits.of(kind).min(self.max_retries)
    }
}
