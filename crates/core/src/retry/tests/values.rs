//! Reference values that the tests of other clients pin.

use super::{SECOND, answer, free, millis, plain, retries, throttled};
use crate::credit::{BucketOptions, Credit, CreditCosts, RetryBudget, RetryBudgetOptions};
use crate::failure::{Failure, FailureKind};
use crate::random::Draw;
use crate::retry::{RetryDecision, StopReason};
use std::time::Duration;

fn bucket(capacity: u32, costs: CreditCosts) -> RetryBudget {
    let bucket = Some(BucketOptions { capacity });
    RetryBudget::new(RetryBudgetOptions { ratio: None, rate_cap: None, bucket, costs }).unwrap()
}

/// Fails this often. Returns the waits, the bucket level after each decision, and the last credit.
fn fail(
    policy: crate::retry::RetryOptions,
    failure: &Failure,
    times: usize,
    budget: &RetryBudget,
) -> (Vec<Result<Duration, StopReason>>, Vec<u32>, Option<Credit>) {
    let mut retries = retries(policy);
    let (mut waits, mut levels, mut last) = (Vec::new(), Vec::new(), None);
    for _ in 0..times {
        let (decision, _) = retries.decide(failure, &free(), Some(budget), Draw::MIDDLE);
        waits.push(answer(&decision).map_err(|(reason, _)| reason));
        levels.push(budget.bucket_level().unwrap());
        if let RetryDecision::RetrySame { credit, .. } = decision {
            last = credit;
        }
    }
    (waits, levels, last)
}

#[test]
fn two_failures_then_success() {
    let budget = bucket(500, CreditCosts::CLASSIC);
    let fault = Failure::of(FailureKind::ServerFault);
    let (waits, levels, last) = fail(plain(SECOND, SECOND * 20, 2), &fault, 2, &budget);
    assert_eq!((waits, levels), (vec![Ok(SECOND), Ok(SECOND * 2)], vec![495, 490]));
    last.unwrap().record_success();
    assert_eq!(budget.bucket_level(), Some(495));
}

#[test]
fn no_more_attempts_after_the_third() {
    let budget = bucket(500, CreditCosts::CLASSIC);
    let fault = Failure::of(FailureKind::ServerFault);
    let (waits, levels, _) = fail(plain(SECOND, SECOND * 20, 2), &fault, 3, &budget);
    assert_eq!(waits, [Ok(SECOND), Ok(SECOND * 2), Err(StopReason::AttemptsUsed)]);
    assert_eq!(levels, [495, 490, 490]);
}

#[test]
fn no_credit_although_attempts_are_left() {
    let budget = bucket(5, CreditCosts { standard: 5, throttled: 5, timed_out: 5 });
    let fault = Failure::of(FailureKind::ServerFault);
    let (waits, levels, _) = fail(plain(SECOND, SECOND * 20, 9), &fault, 2, &budget);
    assert_eq!((waits, levels), (vec![Ok(SECOND), Err(StopReason::Budget)], vec![0, 0]));
}

#[test]
fn a_timeout_costs_twice_as_much() {
    let budget = bucket(100, CreditCosts::CLASSIC);
    let timed_out = Failure::of(FailureKind::TimedOut);
    let (_, levels, last) = fail(plain(SECOND, SECOND * 20, 2), &timed_out, 2, &budget);
    assert_eq!(levels, [90, 80]);
    last.unwrap().record_success();
    assert_eq!(budget.bucket_level(), Some(90));
}

#[test]
fn waits_double_until_the_attempts_or_the_cap_end_it() {
    let fault = Failure::of(FailureKind::ServerFault);
    let budget = bucket(500, CreditCosts::CLASSIC);
    let (waits, levels, _) = fail(plain(SECOND, SECOND * 20, 4), &fault, 5, &budget);
    assert_eq!(waits[..4], [1, 2, 4, 8].map(|seconds| Ok(SECOND * seconds)));
    assert_eq!((waits[4], levels[4]), (Err(StopReason::AttemptsUsed), 480));

    let budget = bucket(500, CreditCosts::CLASSIC);
    let (waits, _, _) = fail(plain(SECOND, SECOND * 3, 4), &fault, 4, &budget);
    assert_eq!(waits, [1, 2, 3, 3].map(|seconds| Ok(SECOND * seconds)));
}

#[test]
fn three_failures_at_25_ms_wait_175_ms_over_four_attempts() {
    let mut retries = retries(plain(millis(25), SECOND * 20, 3));
    for _ in 0..3 {
        assert!(answer(&retries.decide(&throttled(), &free(), None, Draw::MIDDLE).0).is_ok());
    }
    let exhausted = retries.exhausted(throttled());
    assert_eq!((exhausted.attempts, exhausted.waited, exhausted.last), (3, millis(175), throttled()));
    assert_eq!(exhausted.to_string(), "gave up after 3 attempts and 175ms of waiting: throttled");
}

#[test]
fn a_servers_hint_lengthens_a_wait_within_bounds() {
    for (hint, expected) in [
        (SECOND * 3, SECOND * 3),
        (millis(10), millis(50)),
        (SECOND * 10, millis(5_050)),
        (SECOND * 300, millis(5_050)),
        (SECOND * 301, millis(50)),
        (Duration::ZERO, millis(50)),
        (Duration::MAX, millis(50)),
    ] {
        let mut retries = retries(plain(millis(50), SECOND * 20, 3));
        let (decision, _) = retries.decide(&throttled().with_retry_after(hint), &free(), None, Draw::MIDDLE);
        assert_eq!(answer(&decision), Ok(expected), "{hint:?}");
    }
}

#[test]
fn a_hint_is_believed_from_a_moment_to_five_minutes() {
    let policy = plain(millis(50), SECOND, 3).check().unwrap();
    for (hint, expected) in [
        (Duration::ZERO, false),
        (Duration::from_nanos(1), true),
        (Duration::from_secs(300), true),
        (Duration::from_secs(300) + Duration::from_nanos(1), false),
        (Duration::MAX, false),
    ] {
        assert_eq!(policy.is_plausible_retry_after(hint), expected, "{hint:?}");
    }
}

#[test]
fn hints_are_spread_upwards_only() {
    let mut options = plain(millis(50), SECOND * 20, 3);
    options.retry_after.jitter_percent = Some(10.0);
    let wait = |hint, draw| {
        let (decision, _) = retries(options).decide(&throttled().with_retry_after(hint), &free(), None, draw);
        answer(&decision).unwrap()
    };
    assert_eq!(wait(SECOND * 3, Draw::LOWEST), SECOND * 3);
    assert_eq!(wait(SECOND * 3, Draw::HIGHEST), millis(3_300));
    assert_eq!(wait(SECOND * 5, Draw::HIGHEST), millis(5_050));
}
