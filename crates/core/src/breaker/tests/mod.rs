//! Tests of the breaker, by what they show.

mod callers;
mod change;
mod fleet;
mod last_resort;
mod model;
mod modes;
mod settings;
mod shared;
mod trial;
mod trip;

use super::{
    Breaker, BreakerDecision, BreakerOptions, BreakerPermit, BreakerPhase, BreakerProfile, RejectReason,
};
use crate::deadline::Deadline;
use crate::failure::{AttemptOutcome, Failure, FailureKind};
use crate::time::Timestamp;
use std::time::Duration;

pub(super) fn at(millis: u64) -> Timestamp {
    Timestamp::ZERO + Duration::from_millis(millis)
}

pub(super) fn good() -> AttemptOutcome {
    answered_after(0)
}

pub(super) fn answered_after(millis: u64) -> AttemptOutcome {
    AttemptOutcome::Succeeded { time_to_first_content: Duration::from_millis(millis) }
}

pub(super) fn bad() -> AttemptOutcome {
    failed(FailureKind::Overloaded)
}

pub(super) fn failed(kind: FailureKind) -> AttemptOutcome {
    AttemptOutcome::Failed(Failure::of(kind))
}

pub(super) fn sonnet() -> Breaker {
    Breaker::new(BreakerProfile::Sonnet.options().check().unwrap())
}

/// A breaker that opens only by rate.
pub(super) fn by_rate(min_calls: u32, percent: f64, window_secs: u64) -> Breaker {
    let options = BreakerOptions {
        failure_threshold: 1_000_000,
        failure_percent: percent,
        min_calls: Some(min_calls),
        window: Duration::from_secs(window_secs),
        ..BreakerProfile::Sonnet.options()
    };
    Breaker::new(options.check().unwrap())
}

pub(super) fn ask(breaker: &mut Breaker, now: Timestamp) -> Result<BreakerPermit, RejectReason> {
    match breaker.acquire(now, Deadline::after(now, Duration::from_secs(25))) {
        BreakerDecision::Permitted(permit) => Ok(permit),
        BreakerDecision::Rejected { reason, .. } => Err(reason),
    }
}

pub(super) fn call(breaker: &mut Breaker, outcome: &AttemptOutcome, now: Timestamp) {
    let permit = ask(breaker, now).unwrap();
    breaker.report(permit, outcome, now);
}

pub(super) fn phase(breaker: &Breaker, now: Timestamp) -> BreakerPhase {
    breaker.peek(now).phase
}

/// A Sonnet breaker, opened by five failures at `now`.
pub(super) fn opened(now: Timestamp) -> Breaker {
    let mut breaker = sonnet();
    for _ in 0..5 {
        call(&mut breaker, &bad(), now);
    }
    assert_eq!(phase(&breaker, now), BreakerPhase::Open);
    breaker
}
