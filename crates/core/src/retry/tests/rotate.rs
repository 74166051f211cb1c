//! Another attempt with another key.

use super::super::{RetryOptions, RetrySituation};
use super::{answer, at, free, retries};
use crate::credit::{RetryBudget, RetryBudgetOptions};
use crate::deadline::Deadline;
use crate::failure::{Failure, FailureKind};
use crate::random::Draw;

#[test]
fn a_rotation_has_no_backoff_and_needs_no_retry_of_its_kind_or_pressure() {
    let mut retries = retries(RetryOptions::interactive());
    let situation = RetrySituation { pressure: Some(crate::pressure::Pressure::Open), ..free() };
    for attempt in 1..4 {
        let rejected = Failure::of(FailureKind::Unauthorized);
        let (_, event) = retries.rotate(&rejected, &situation, None).unwrap();
        assert_eq!(
            (event.attempt, event.delay, event.stopped),
            (attempt, Some(std::time::Duration::ZERO), None)
        );
    }
    // What follows is decided as if there had been none.
    let throttled = Failure::of(FailureKind::Throttled);
    assert!(answer(&retries.decide(&throttled, &free(), None, Draw::MIDDLE).0).is_ok());
}

#[test]
fn a_rotation_is_refused_where_no_attempt_may_follow() {
    let rejected = Failure::of(FailureKind::Unauthorized);
    let mut retries = retries(RetryOptions::interactive());
    for situation in [
        RetrySituation { committed: true, ..free() },
        RetrySituation { breaker_passes: false, ..free() },
        RetrySituation { deadline: Deadline::at(at(0)), ..free() },
    ] {
        assert!(retries.rotate(&rejected, &situation, None).is_none(), "{situation:?}");
    }
    let unsafe_call = RetrySituation { repeatable: false, ..free() };
    assert!(retries.rotate(&rejected, &unsafe_call, None).is_some(), "the vendor executed nothing");
    assert!(retries.rotate(&Failure::of(FailureKind::BadRequest), &free(), None).is_none());
}

#[test]
fn every_rotation_takes_a_credit() {
    let budget = RetryBudget::new(RetryBudgetOptions::default()).unwrap();
    let mut retries = retries(RetryOptions::interactive());
    let rejected = Failure::of(FailureKind::Unauthorized);
    let granted: Vec<_> =
        std::iter::from_fn(|| retries.rotate(&rejected, &free(), Some(&budget))).take(1_000).collect();
    assert!((1..1_000).contains(&granted.len()), "{}", granted.len());
}
