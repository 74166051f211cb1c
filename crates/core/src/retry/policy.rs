//! How often each kind of failure is worth trying again.

use super::backoff::{Backoff, BackoffOptions};
use super::hint::{HintOptions, HintRule};
use crate::failure::FailureKind;
use crate::setting::SettingError;
use crate::strategy::{FailureClass, FailureRow};
use std::time::Duration;

/// Retries on one target, by what went wrong. What is not listed is not retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryLimits {
    /// The vendor limits our rate, has no capacity, or is loading the model.
    pub throttled: u32,
    /// The vendor took too long.
    pub timed_out: u32,
    /// The vendor failed, could not be reached, or broke off.
    pub transient: u32,
    /// A quota that is given back in time, where a vendor's table says that it is.
    pub quota_exhausted: u32,
}

impl RetryLimits {
    /// The limits that the strategy's table gives, by the column that `retries` reads.
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
            // Never worth another try on the same target, whatever the settings say.
            FailureClass::NotStarted
            | FailureClass::Blocked
            | FailureClass::CallerFault
            | FailureClass::Other => 0,
        }
    }
}

/// A retry policy as somebody wrote it; [`RetryOptions::check`] makes it usable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryOptions {
    /// How long to wait.
    pub backoff: BackoffOptions,
    /// Retries on one target, whatever went wrong.
    pub most_retries: u32,
    /// Retries on one target, by what went wrong.
    pub limits: RetryLimits,
    /// What a server's word is worth.
    pub hint: HintOptions,
    /// An attempt that has less time than this is not worth making.
    pub least_attempt: Duration,
}

impl RetryOptions {
    /// For a person who waits.
    #[must_use]
    pub fn interactive() -> Self {
        Self {
            backoff: BackoffOptions::interactive(),
            most_retries: 5,
            limits: RetryLimits::from_table(|row| row.interactive_retries),
            hint: HintOptions::default(),
            least_attempt: Duration::from_millis(100),
        }
    }

    /// For work that nobody waits for: five retries of whatever can be retried.
    #[must_use]
    pub fn background() -> Self {
        Self {
            backoff: BackoffOptions::background(),
            most_retries: 5,
            limits: RetryLimits::from_table(|row| row.background_retries),
            hint: HintOptions::default(),
            least_attempt: Duration::from_secs(1),
        }
    }

    /// Refuses a policy with a backoff or a hint rule that makes no sense.
    pub fn check(self) -> Result<RetryPolicy, SettingError> {
        if self.most_retries > 100 {
            let problem = format!("{} is more than 100", self.most_retries);
            return Err(SettingError::new("most_retries", problem));
        }
        Ok(RetryPolicy {
            backoff: self.backoff.check()?,
            most_retries: self.most_retries,
            limits: self.limits,
            hint: self.hint.check()?,
            least_attempt: self.least_attempt,
        })
    }
}

/// A checked retry policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    pub(super) backoff: Backoff,
    most_retries: u32,
    limits: RetryLimits,
    pub(super) hint: HintRule,
    pub(super) least_attempt: Duration,
}

impl RetryPolicy {
    /// Whether a server's word about when to come back is believed. One that is not is worth telling to nobody.
    #[must_use]
    pub fn believes(&self, hint: Duration) -> bool {
        self.hint.believes(hint)
    }

    /// Retries on one target after a failure of this kind.
    pub(super) fn retries(&self, kind: FailureKind) -> u32 {
        self.limits.of(kind).min(self.most_retries)
    }
}
