//! Which gate stops a retry, and what follows.

use super::super::{Retries, RetryOptions, RetrySituation, StopReason};
use super::{SECOND, answer, at, free, millis, plain, retries, throttled};
use crate::credit::{CreditRefusal, RetryBudget, RetryBudgetOptions};
use crate::deadline::Deadline;
use crate::failure::{BEDROCK, DRS, Failure, FailureKind, Retryability};
use crate::invariant::{Invariant, attempt_fits_deadline, attempts_within_limit, backoff_within_bounds};
use crate::pressure::Pressure;
use crate::random::Draw;
use proptest::collection::vec;
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
use std::collections::BTreeSet;
use std::time::Duration;

fn stop(failure: &Failure, situation: &RetrySituation) -> (StopReason, bool) {
    let mut retries = retries(RetryOptions::interactive());
    answer(&retries.decide(failure, situation, None, Draw::MIDDLE).0).unwrap_err()
}

#[test]
fn each_gate_stops_by_its_own_reason_and_fails_over_where_that_can_help() {
    let with_other = RetrySituation { has_other_target: true, ..free() };
    let of = Failure::of;
    for (failure, situation, reason, fails_over) in [
        (throttled(), RetrySituation { committed: true, ..with_other }, StopReason::Committed, false),
        (of(FailureKind::BadRequest), with_other, StopReason::NotRetryable, false),
        (of(FailureKind::Filtered), with_other, StopReason::NotRetryable, false),
        (of(FailureKind::ModelFault), with_other, StopReason::NotRetryable, true),
        (of(FailureKind::Unrecognised), with_other, StopReason::NotRetryable, true),
        (of(FailureKind::StartTimeout), with_other, StopReason::NotRetryable, true),
        (of(FailureKind::StartTimeout), free(), StopReason::NotRetryable, false),
        (
            of(FailureKind::ServerFault),
            RetrySituation { repeatable: false, ..with_other },
            StopReason::MayHaveExecuted,
            false,
        ),
        (
            throttled(),
            RetrySituation { pressure: Some(Pressure::Open), ..with_other },
            StopReason::Pressure,
            true,
        ),
        (
            throttled(),
            RetrySituation { breaker_passes: false, pressure: Some(Pressure::Open), ..with_other },
            StopReason::BreakerOpen,
            true,
        ),
        (throttled(), RetrySituation { breaker_passes: false, ..free() }, StopReason::BreakerOpen, false),
        (
            throttled(),
            RetrySituation { deadline: Deadline::at(at(299)), ..with_other },
            StopReason::NoTime,
            true,
        ),
    ] {
        assert_eq!(stop(&failure, &situation), (reason, fails_over), "{} {reason:?}", failure.kind.label());
    }
    // A call that is not idempotent may still be retried if it was refused before execution.
    let once = RetrySituation { repeatable: false, ..free() };
    assert!(
        answer(&retries(RetryOptions::interactive()).decide(&throttled(), &once, None, Draw::MIDDLE).0)
            .is_ok()
    );
}

#[test]
fn a_target_that_named_its_wait_is_waited_for_unless_another_is_ready() {
    let held = |seconds| RetrySituation {
        throttled_for: Some(SECOND * seconds),
        pressure: Some(Pressure::High),
        has_other_target: true,
        ..free()
    };
    let failure = throttled().with_retry_after(SECOND * 2);
    let mut retries = retries(RetryOptions::interactive());
    // Pressure would allow one retry; the target has named its time, so all three are allowed.
    for _ in 0..3 {
        let after = answer(&retries.decide(&failure, &held(8), None, Draw::MIDDLE).0).unwrap();
        assert!(after >= SECOND * 8, "{after:?}");
    }
    assert_eq!(
        answer(&retries.decide(&failure, &held(8), None, Draw::MIDDLE).0),
        Err((StopReason::AttemptsUsed, true))
    );
    let ready = RetrySituation { other_is_ready: true, ..held(2) };
    assert_eq!(stop(&failure, &ready), (StopReason::Throttled, true));
    // A short pause costs less than starting again elsewhere.
    let short = RetrySituation { other_is_ready: true, ..held(1) };
    assert!(
        answer(&self::retries(RetryOptions::interactive()).decide(&failure, &short, None, Draw::MIDDLE).0)
            .is_ok()
    );
    let late = RetrySituation { deadline: Deadline::at(at(7_999)), ..held(8) };
    assert_eq!(stop(&failure, &late), (StopReason::NoTime, true));
}

#[test]
fn kinds_are_worth_their_number_of_retries() {
    for (kind, worth) in [
        (FailureKind::Throttled, 3),
        (FailureKind::Overloaded, 3),
        (FailureKind::NotReady, 3),
        (FailureKind::TimedOut, 1),
        (FailureKind::ServerFault, 2),
        (FailureKind::Unreachable, 2),
        (FailureKind::StreamInterrupted, 2),
        (FailureKind::QuotaExhausted, 0),
        (FailureKind::ModelFault, 0),
        (FailureKind::Filtered, 0),
        (FailureKind::Unrecognised, 0),
    ] {
        let mut retries = retries(RetryOptions::interactive());
        let made = (0..10).take_while(|_| {
            answer(&retries.decide(&Failure::of(kind), &free(), None, Draw::LOWEST).0).is_ok()
        });
        assert_eq!(made.count(), worth, "{}", kind.label());
    }
}

#[test]
fn pressure_limits_retries_and_stretches_waits() {
    for (pressure, worth, first) in [
        (Pressure::Normal, 3, 100),
        (Pressure::Slight, 2, 120),
        (Pressure::High, 1, 200),
        (Pressure::Recovery, 1, 150),
    ] {
        let mut retries = retries(RetryOptions::interactive());
        let situation = RetrySituation { pressure: Some(pressure), ..free() };
        let waits: Vec<_> = (0..10)
            .map_while(|_| answer(&retries.decide(&throttled(), &situation, None, Draw::LOWEST).0).ok())
            .collect();
        assert_eq!((waits.len(), waits[0]), (worth, millis(first)), "{pressure:?}");
    }
}

#[test]
fn pressure_that_rises_in_the_middle_stops_and_never_retries_at_once() {
    let mut retries = retries(RetryOptions::interactive());
    let calm = RetrySituation { pressure: Some(Pressure::Normal), ..free() };
    for _ in 0..2 {
        assert!(answer(&retries.decide(&throttled(), &calm, None, Draw::LOWEST).0).unwrap() >= millis(100));
    }
    for pressure in [Pressure::High, Pressure::Recovery, Pressure::Open] {
        let tense = RetrySituation { pressure: Some(pressure), ..free() };
        assert_eq!(
            answer(&retries.decide(&throttled(), &tense, None, Draw::LOWEST).0),
            Err((StopReason::Pressure, false))
        );
    }
}

#[test]
fn wait_and_attempt_must_fit_before_the_deadline() {
    let fits = |deadline, usual_attempt| {
        let situation =
            RetrySituation { usual_attempt, ..RetrySituation::new(at(0), Deadline::at(at(deadline))) };
        answer(&retries(RetryOptions::interactive()).decide(&throttled(), &situation, None, Draw::LOWEST).0)
            .is_ok()
    };
    assert!(fits(200, None) && !fits(199, None));
    assert!(fits(500, Some(millis(400))) && !fits(499, Some(millis(400))));
    // The usual attempt time is raised to the minimum.
    assert!(fits(200, Some(millis(1))) && !fits(199, Some(millis(1))));
}

#[test]
fn throttled_twice_then_answered_within_three_seconds() {
    for draw in [Draw::LOWEST, Draw::MIDDLE, Draw::HIGHEST] {
        let mut retries = retries(RetryOptions::interactive());
        let deadline = Deadline::at(at(1_900));
        let mut now = at(0);
        let bounds = [(100, 300), (100, 900)];
        for (attempt, (least, most)) in (1..).zip(bounds) {
            now = now + millis(100);
            let situation =
                RetrySituation { pressure: Some(Pressure::Normal), ..RetrySituation::new(now, deadline) };
            let (decision, event) = retries.decide(&throttled(), &situation, None, draw);
            let wait = answer(&decision).unwrap();
            assert!(millis(least) <= wait && wait <= millis(most), "{wait:?}");
            assert_eq!(
                (event.attempt, event.delay, event.kind),
                (attempt, Some(wait), FailureKind::Throttled)
            );
            assert_eq!((event.stopped, event.fails_over, event.budget), (None, false, None));
            now = now + wait;
        }
        assert!(now + millis(100) <= at(1_900));
    }
}

#[test]
fn failing_over_starts_anew_on_the_next_target_and_counts_on() {
    let mut retries = retries(plain(SECOND, SECOND * 20, 3));
    let with_other = RetrySituation { has_other_target: true, ..free() };
    let mut attempts = 0;
    for situation in [with_other, free()] {
        let waits: Vec<_> =
            (0..4).map(|_| answer(&retries.decide(&throttled(), &situation, None, Draw::MIDDLE).0)).collect();
        attempts += waits.len();
        assert_eq!(waits[..3], [1, 2, 4].map(|seconds| Ok(SECOND * seconds)));
        assert_eq!(waits[3], Err((StopReason::AttemptsUsed, situation.has_other_target)));
    }
    assert_eq!(attempts, 8, "four on each of two targets");
    let exhausted = retries.exhausted(throttled());
    assert_eq!((exhausted.attempts, exhausted.waited), (8, SECOND * 14));
}

#[test]
fn a_refused_retry_costs_nothing() {
    let budget = RetryBudget::new(RetryBudgetOptions::default()).unwrap();
    let mut tries = retries(RetryOptions::interactive());
    let shut = RetrySituation { breaker_passes: false, ..free() };
    for _ in 0..10 {
        assert!(answer(&tries.decide(&throttled(), &shut, Some(&budget), Draw::MIDDLE).0).is_err());
    }
    // Three are free; while they are in flight, the fourth is refused.
    let held: Vec<_> = (0..3)
        .map(|_| {
            let (decision, _) = retries(RetryOptions::interactive()).decide(
                &throttled(),
                &free(),
                Some(&budget),
                Draw::MIDDLE,
            );
            assert!(answer(&decision).is_ok());
            decision
        })
        .collect();
    let (decision, event) = tries.decide(&throttled(), &free(), Some(&budget), Draw::MIDDLE);
    assert_eq!(answer(&decision), Err((StopReason::Budget, false)));
    assert_eq!((event.stopped, event.budget), (Some(StopReason::Budget), Some(CreditRefusal::Ratio)));
    drop(held);
    // The refused retry has not advanced its backoff either.
    let (decision, _) = tries.decide(&throttled(), &free(), Some(&budget), Draw::HIGHEST);
    assert_eq!(answer(&decision), Ok(millis(300)));
}

#[test]
fn a_recovery_api_is_tried_six_times_and_a_validation_error_once() {
    for (name, calls) in [
        ("ThrottlingException", 6),
        ("RequestLimitExceeded", 6),
        ("ServiceUnavailable", 6),
        ("InternalServerException", 6),
        ("ServiceQuotaExceededException", 6),
        ("ValidationException", 1),
        ("ConflictException", 1),
    ] {
        let mut retries = retries(RetryOptions::background());
        let failure = DRS.classify(400, Some(name));
        let made = (0..20)
            .take_while(|_| answer(&retries.decide(&failure, &free(), None, Draw::MIDDLE).0).is_ok())
            .count();
        assert_eq!(made + 1, calls, "{name}");
        let exhausted = retries.exhausted(failure);
        assert_eq!((exhausted.attempts as usize, exhausted.last), (calls, failure));
    }
    assert_eq!(BEDROCK.classify(408, Some("ModelTimeoutException")).retryability, Retryability::SameTarget);
}

#[test]
fn reasons_have_distinct_labels() {
    let labels: BTreeSet<&str> = StopReason::ALL.iter().map(|reason| reason.label()).collect();
    assert_eq!(labels.len(), StopReason::ALL.len());
    assert!(labels.iter().all(|label| label.len() > 4));
}

proptest! {
    /// Exactly `most + 1` calls, each wait within its bounds, whatever the failure.
    #[test]
    fn a_policy_makes_exactly_its_attempts(
        most in 0_u32..8,
        base in 1_u64..2_000,
        cap in 2_000_u64..90_000,
        kinds in vec(0_usize..5, 20),
        draws in vec(any::<u64>(), 20),
    ) {
        let names = [
            "ThrottlingException", "RequestLimitExceeded", "ServiceUnavailable", "InternalServerException",
            "ServiceQuotaExceededException",
        ];
        let mut options = plain(millis(base), millis(cap), most);
        options.backoff.jitter = RetryOptions::background().backoff.jitter;
        let mut retries = retries(options);
        let mut calls = 0;
        for (kind, draw) in kinds.into_iter().zip(draws) {
            calls += 1;
            let failure = DRS.classify(400, Some(names[kind]));
            let plain_wait = (millis(base) * 2_u32.pow(calls - 1)).min(millis(cap));
            match answer(&retries.decide(&failure, &free(), None, Draw::from_bits(draw)).0) {
                Ok(wait) => prop_assert_eq!(backoff_within_bounds(wait, plain_wait / 2, plain_wait * 3 / 2), Ok(())),
                Err((reason, _)) => {
                    prop_assert_eq!(reason, StopReason::AttemptsUsed);
                    break;
                }
            }
        }
        prop_assert_eq!(calls, most + 1);
        prop_assert_eq!(attempts_within_limit(calls, most + 1), Ok(()));
        prop_assert_eq!(retries.exhausted(throttled()).attempts, most + 1);
    }

    /// No retry is ever started that cannot finish in time.
    #[test]
    fn no_wait_ends_after_the_deadline(
        start in 0_u64..5_000,
        limit in 0_u64..5_000,
        hint in proptest::option::of(0_u64..400_000),
        usual in proptest::option::of(0_u64..3_000),
        draw in any::<u64>(),
    ) {
        let mut retries = retries(RetryOptions::interactive());
        let deadline = Deadline::after(at(start), millis(limit));
        let failure = Failure { retry_after: hint.map(millis), ..throttled() };
        let situation =
            RetrySituation { usual_attempt: usual.map(millis), ..RetrySituation::new(at(start), deadline) };
        if let Ok(wait) = answer(&retries.decide(&failure, &situation, None, Draw::from_bits(draw)).0) {
            let attempt = millis(usual.unwrap_or(0).max(100));
            prop_assert_eq!(attempt_fits_deadline(at(start), wait, attempt, deadline), Ok(()));
            prop_assert!(wait >= millis(100) && wait <= millis(5_300));
        }
        prop_assert!(retries.exhausted(throttled()).waited <= Duration::from_millis(limit));
    }
}

#[test]
fn a_retry_beyond_the_policy_or_the_deadline_is_a_violation() {
    let mut retries = retries(RetryOptions { min_attempt_time: SECOND, ..plain(SECOND, SECOND, 2) });
    let broken = |retries: &Retries, situation: &RetrySituation| {
        retries
            .check_retry(FailureKind::Throttled, situation, SECOND)
            .map_err(|violation| violation.invariant)
    };
    let late = RetrySituation { deadline: Deadline::after(at(0), millis(1_999)), ..free() };
    assert_eq!(broken(&retries, &free()), Ok(()));
    assert_eq!(broken(&retries, &late), Err(Invariant::AttemptFitsDeadline));
    retries.retries = 2;
    assert_eq!(broken(&retries, &free()), Err(Invariant::AttemptsWithinLimit));
}
