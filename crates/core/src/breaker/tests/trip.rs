//! When a closed breaker opens, and when it must not.

use super::super::{BreakerPhase, RejectReason, TripReason};
use super::{answered_after, ask, at, bad, by_rate, call, failed, good, opened, phase, sonnet};
use crate::failure::{AttemptOutcome, FailureKind};

#[test]
fn the_first_failure_ever_does_not_open() {
    let mut breaker = sonnet();
    call(&mut breaker, &bad(), at(0));
    assert_eq!(phase(&breaker, at(0)), BreakerPhase::Closed);
}

#[test]
fn the_fifth_failure_in_a_row_opens_and_the_sixth_call_is_blocked() {
    let mut breaker = sonnet();
    for _ in 0..4 {
        call(&mut breaker, &bad(), at(0));
    }
    assert_eq!(phase(&breaker, at(0)), BreakerPhase::Closed);
    call(&mut breaker, &bad(), at(7));
    let reason = TripReason::ConsecutiveFailures;
    assert_eq!(ask(&mut breaker, at(7)), Err(RejectReason::Open(reason)));
    let transitions = breaker.take_transitions();
    assert_eq!(transitions.len(), 1);
    assert_eq!((transitions[0].at, transitions[0].reason), (at(7), Some(reason)));
    assert_eq!((transitions[0].from, transitions[0].to), (BreakerPhase::Closed, BreakerPhase::Open));
    assert!(breaker.take_transitions().is_empty());
}

#[test]
fn a_million_successes_do_not_delay_opening() {
    let mut breaker = sonnet();
    for call_number in 0..1_000_000_u64 {
        call(&mut breaker, &good(), at(call_number / 100));
    }
    for _ in 0..5 {
        call(&mut breaker, &bad(), at(10_000));
    }
    assert_eq!(phase(&breaker, at(10_000)), BreakerPhase::Open);
}

#[test]
fn a_success_resets_the_streak_but_a_timeout_or_a_bad_request_does_not() {
    let mut breaker = sonnet();
    for _ in 0..4 {
        call(&mut breaker, &bad(), at(0));
    }
    call(&mut breaker, &good(), at(0));
    for _ in 0..4 {
        call(&mut breaker, &bad(), at(0));
    }
    // Nine calls: below `min_calls`, so the rate does not apply yet.
    assert_eq!(phase(&breaker, at(0)), BreakerPhase::Closed);

    let mut breaker = sonnet();
    for _ in 0..4 {
        call(&mut breaker, &bad(), at(0));
        call(&mut breaker, &failed(FailureKind::StartTimeout), at(0));
        call(&mut breaker, &failed(FailureKind::BadRequest), at(0));
        call(&mut breaker, &AttemptOutcome::Abandoned, at(0));
    }
    assert_eq!(phase(&breaker, at(0)), BreakerPhase::Closed);
    call(&mut breaker, &bad(), at(0));
    assert_eq!(phase(&breaker, at(0)), BreakerPhase::Open);
}

#[test]
fn rare_failures_never_open_and_many_open_within_two_seconds() {
    let mut breaker = sonnet();
    for call_number in 0..60_000_u64 {
        let outcome = if call_number % 1_000 == 0 { bad() } else { good() };
        call(&mut breaker, &outcome, at(call_number * 10));
    }
    let now = at(600_000);
    assert_eq!(phase(&breaker, now), BreakerPhase::Closed);

    // 55 %: eleven of twenty, never five in a row.
    let pattern = [true, false, true, true, false, true, false, true, false, true];
    let mut breaker = sonnet();
    let mut calls = 0;
    while let Ok(permit) = ask(&mut breaker, at(calls * 10)) {
        let is_bad = pattern[usize::try_from(calls % 10).unwrap()];
        breaker.report(permit, &if is_bad { bad() } else { good() }, at(calls * 10));
        calls += 1;
        assert!(calls < 200, "still closed after two seconds");
    }
    assert_eq!(breaker.peek(at(calls * 10)).rejects, Some(RejectReason::Open(TripReason::FailureRate)));
}

#[test]
fn a_thousand_bad_requests_or_blocked_answers_leave_it_closed() {
    for kind in
        [FailureKind::BadRequest, FailureKind::TooLong, FailureKind::Filtered, FailureKind::Unauthorized]
    {
        let mut breaker = sonnet();
        for _ in 0..1_000 {
            call(&mut breaker, &failed(kind), at(0));
        }
        assert_eq!(phase(&breaker, at(0)), BreakerPhase::Closed, "{}", kind.label());
    }
}

#[test]
fn the_rate_counts_from_the_fifth_call_and_is_judged_on_successes_too() {
    // Three good, two bad: 40 %. The sixth, bad: 50 %.
    let mut breaker = by_rate(5, 50.0, 20);
    for outcome in [good(), good(), good(), bad(), bad()] {
        call(&mut breaker, &outcome, at(0));
    }
    assert_eq!(phase(&breaker, at(0)), BreakerPhase::Closed);
    call(&mut breaker, &bad(), at(0));
    assert_eq!(phase(&breaker, at(0)), BreakerPhase::Open);

    // Bad, bad, bad, good, good: opens at the fifth call, not at the third.
    let mut breaker = by_rate(5, 50.0, 20);
    for outcome in [bad(), bad(), bad(), good()] {
        call(&mut breaker, &outcome, at(0));
        assert_eq!(phase(&breaker, at(0)), BreakerPhase::Closed);
    }
    call(&mut breaker, &good(), at(0));
    assert_eq!(phase(&breaker, at(0)), BreakerPhase::Open);
}

#[test]
fn the_rate_needs_its_minimum_of_calls() {
    // (calls, failures, opens) with `min_calls` ten and a threshold of 10 %.
    for (calls, failures, opens) in
        [(10, 0, false), (10, 1, true), (11, 2, true), (9, 1, false), (9, 9, false)]
    {
        let mut breaker = by_rate(10, 10.0, 60);
        for call_number in 0..calls {
            let outcome = if call_number >= calls - failures { bad() } else { good() };
            if let Ok(permit) = ask(&mut breaker, at(0)) {
                breaker.report(permit, &outcome, at(0));
            }
        }
        let expected = if opens { BreakerPhase::Open } else { BreakerPhase::Closed };
        assert_eq!(phase(&breaker, at(0)), expected, "{calls} calls, {failures} failures");
    }
}

#[test]
fn failures_leave_the_window_and_are_forgotten() {
    let mut breaker = by_rate(10, 50.0, 60);
    for _ in 0..9 {
        call(&mut breaker, &bad(), at(0));
    }
    call(&mut breaker, &bad(), at(60_000));
    assert_eq!(phase(&breaker, at(60_000)), BreakerPhase::Closed);
}

#[test]
fn slow_calls_open_it_although_none_failed() {
    let mut breaker = by_rate(5, 50.0, 60);
    for millis in [3_801, 3_800, 3_801, 100, 3_801] {
        call(&mut breaker, &answered_after(millis), at(0));
    }
    assert_eq!(breaker.peek(at(0)).rejects, Some(RejectReason::Open(TripReason::SlowRate)));

    // Attempts that we cut short count as slow, too.
    let mut breaker = by_rate(5, 50.0, 60);
    for outcome in [good(), good(), failed(FailureKind::StartTimeout), failed(FailureKind::StartTimeout)] {
        call(&mut breaker, &outcome, at(0));
    }
    assert_eq!(phase(&breaker, at(0)), BreakerPhase::Closed);
    call(&mut breaker, &failed(FailureKind::StartTimeout), at(0));
    assert_eq!(phase(&breaker, at(0)), BreakerPhase::Open);
}

#[test]
fn an_external_reason_opens_only_a_closed_breaker() {
    let mut breaker = sonnet();
    breaker.trip(TripReason::SustainedPressure, at(10));
    assert_eq!(breaker.peek(at(10)).rejects, Some(RejectReason::Open(TripReason::SustainedPressure)));
    let mut breaker = opened(at(0));
    breaker.trip(TripReason::SustainedPressure, at(30_000));
    assert_eq!(phase(&breaker, at(60_000)), BreakerPhase::HalfOpen { stage: 0 });
}
