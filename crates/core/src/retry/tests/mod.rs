//! Tests of retrying, by what they show.

mod backoff;
mod counters;
mod decide;
mod hedge;
mod rotate;
mod values;

use super::{
    BackoffOptions, Jitter, Retries, RetryAfterOptions, RetryDecision, RetryLimits, RetryOptions,
    RetrySituation, StopReason,
};
use crate::deadline::Deadline;
use crate::failure::{Failure, FailureKind};
use crate::time::Timestamp;
use std::time::Duration;

pub(super) const SECOND: Duration = Duration::from_secs(1);

pub(super) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(super) fn at(after: u64) -> Timestamp {
    Timestamp::ZERO + millis(after)
}

pub(super) fn throttled() -> Failure {
    Failure::of(FailureKind::Throttled)
}

/// A situation in which every gate agrees, without a deadline.
pub(super) fn free() -> RetrySituation {
    RetrySituation::new(Timestamp::ZERO, Deadline::NEVER)
}

/// Waits without jitter: base, twice that, and so on.
pub(super) fn plain(base_delay: Duration, max_delay: Duration, retries: u32) -> RetryOptions {
    RetryOptions {
        backoff: BackoffOptions { base_delay, max_delay, jitter: Jitter::None },
        max_retries: retries,
        limits: RetryLimits {
            throttled: retries,
            timed_out: retries,
            transient: retries,
            quota_exhausted: retries,
        },
        retry_after: RetryAfterOptions { jitter_percent: None, ..RetryAfterOptions::default() },
        min_attempt_time: Duration::ZERO,
    }
}

pub(super) fn retries(options: RetryOptions) -> Retries {
    Retries::new(options.check().unwrap())
}

/// The wait, or the stop reason and whether another target is called.
pub(super) fn answer(decision: &RetryDecision) -> Result<Duration, (StopReason, bool)> {
    match decision {
        RetryDecision::RetrySame { after, .. } => Ok(*after),
        RetryDecision::FailOver(reason) => Err((*reason, true)),
        RetryDecision::GiveUp(reason) => Err((*reason, false)),
    }
}
