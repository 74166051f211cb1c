//! Which caller's failures open a breaker, and for which callers.

use super::super::{
    Breaker, BreakerDecision, BreakerPermit, BreakerPhase, CallerKey, RejectReason, TripReason,
};
use super::{answered_after, at, bad, failed, good, phase, sonnet};
use crate::deadline::Deadline;
use crate::failure::{AttemptOutcome, FailureKind};
use crate::time::Timestamp;
use proptest::collection::vec;
use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
use std::time::Duration;

const HOSTILE: Option<CallerKey> = Some(CallerKey(1));
const HOLDER: Option<CallerKey> = Some(CallerKey(2));
const THIRD: Option<CallerKey> = Some(CallerKey(3));

fn ask(
    breaker: &mut Breaker,
    caller: Option<CallerKey>,
    now: Timestamp,
) -> Result<BreakerPermit, RejectReason> {
    match breaker.acquire_for(caller, now, Deadline::after(now, Duration::from_secs(25))) {
        BreakerDecision::Permitted(permit) => Ok(permit),
        BreakerDecision::Rejected { reason, .. } => Err(reason),
    }
}

fn call(breaker: &mut Breaker, caller: Option<CallerKey>, outcome: &AttemptOutcome, now: Timestamp) {
    let permit = ask(breaker, caller, now).unwrap();
    breaker.report(permit, outcome, now);
}

/// A breaker opened by five failures of one caller.
fn opened_by_one() -> Breaker {
    let mut breaker = sonnet();
    (0..5).for_each(|_| call(&mut breaker, HOSTILE, &bad(), at(0)));
    assert_eq!(phase(&breaker, at(0)), BreakerPhase::Open);
    assert!(breaker.peek(at(0)).is_open_for_one_caller);
    let reason = RejectReason::Open(TripReason::ConsecutiveFailures);
    assert_eq!(ask(&mut breaker, HOSTILE, at(1)), Err(reason));
    breaker
}

#[test]
fn a_successful_probe_of_another_caller_closes_the_breaker_for_others() {
    let mut breaker = opened_by_one();
    let probe = ask(&mut breaker, HOLDER, at(1)).unwrap();
    assert_eq!(ask(&mut breaker, THIRD, at(1)), Err(RejectReason::ProbesInFlight));
    breaker.report(probe, &good(), at(2));
    for now in [3, 59_999, 60_000, 120_000] {
        for caller in [HOLDER, THIRD, None] {
            call(&mut breaker, caller, &good(), at(now));
        }
        assert_eq!(phase(&breaker, at(now)), BreakerPhase::Closed);
    }
    // The quarantined caller has its own trial: one, three, ten probes.
    let probe = ask(&mut breaker, HOSTILE, at(120_000)).unwrap();
    assert_eq!(ask(&mut breaker, HOSTILE, at(120_000)), Err(RejectReason::ProbesInFlight));
    breaker.report(probe, &good(), at(120_000));
    (0..13).for_each(|_| call(&mut breaker, HOSTILE, &good(), at(120_000)));
    assert!(!breaker.peek(at(120_000)).is_open_for_one_caller);
}

#[test]
fn a_failed_probe_of_another_caller_opens_the_breaker_for_all() {
    let mut breaker = opened_by_one();
    call(&mut breaker, HOLDER, &bad(), at(1_000));
    let peek = breaker.peek(at(1_000));
    assert_eq!((peek.phase, peek.is_open_for_one_caller), (BreakerPhase::Open, false));
    for caller in [HOSTILE, HOLDER, THIRD] {
        assert!(ask(&mut breaker, caller, at(60_999)).is_err());
    }
    assert!(ask(&mut breaker, THIRD, at(61_000)).is_ok());
}

#[test]
fn a_probe_without_information_frees_its_slot() {
    let mut breaker = opened_by_one();
    let probe = ask(&mut breaker, HOLDER, at(1)).unwrap();
    breaker.abandon(probe);
    call(&mut breaker, THIRD, &failed(FailureKind::BadRequest), at(2));
    let lost = ask(&mut breaker, HOLDER, at(3)).unwrap();
    // A probe without a result counts as failed.
    assert_eq!(
        breaker.peek_for(THIRD, at(26_003)).rejects,
        Some(RejectReason::Open(TripReason::ProbeExpired))
    );
    breaker.report(lost, &good(), at(26_003));
    assert_eq!(breaker.late_results(), 1);
}

#[test]
fn a_caller_with_80_percent_of_failures_is_quarantined() {
    for (of_one, is_for_one) in [(8, true), (7, false)] {
        let mut breaker = super::by_rate(10, 50.0, 60);
        for number in 0..10 {
            let caller = if number < of_one { HOSTILE } else { HOLDER };
            call(&mut breaker, caller, &bad(), at(number));
        }
        let peek = breaker.peek(at(10));
        assert_eq!(
            (peek.phase, peek.is_open_for_one_caller),
            (BreakerPhase::Open, is_for_one),
            "{of_one} of 10"
        );
    }
}

#[test]
fn slow_calls_of_one_caller_do_not_block_others() {
    let mut breaker = sonnet();
    for number in 0..20 {
        call(&mut breaker, HOLDER, &good(), at(number));
    }
    let mut slow = 0;
    while phase(&breaker, at(100)) == BreakerPhase::Closed {
        call(&mut breaker, HOSTILE, &answered_after(9_000), at(100));
        slow += 1;
    }
    assert_eq!(slow, 20);
    call(&mut breaker, HOLDER, &good(), at(101));
    assert_eq!(phase(&breaker, at(101)), BreakerPhase::Closed);
}

#[test]
fn failures_of_others_besides_the_quarantined_caller_open_it_for_all() {
    let mut breaker = opened_by_one();
    call(&mut breaker, HOLDER, &good(), at(1));
    for _ in 0..5 {
        call(&mut breaker, HOLDER, &bad(), at(2));
    }
    let peek = breaker.peek(at(2));
    assert_eq!((peek.phase, peek.is_open_for_one_caller), (BreakerPhase::Open, false));
}

proptest! {
    /// Attribution makes no difference while all calls come from one caller.
    #[test]
    fn with_one_caller_the_breaker_behaves_as_without_quarantine(steps in vec((0_usize..5, 0_u64..30_000, 0_usize..64), 1..200)) {
        let (mut plain, mut named) = (sonnet(), sonnet());
        let mut held: Vec<(BreakerPermit, BreakerPermit)> = Vec::new();
        let outcomes = [good(), bad(), bad(), answered_after(9_000), failed(FailureKind::StartTimeout)];
        let mut now = 0;
        for (step, wait, which) in steps {
            match step {
                0 => now += wait,
                1 | 2 => match (ask(&mut plain, None, at(now)), ask(&mut named, HOSTILE, at(now))) {
                    (Ok(one), Ok(other)) => held.push((one, other)),
                    (one, other) => prop_assert_eq!(one.err(), other.err()),
                },
                3 if !held.is_empty() => {
                    let (one, other) = held.swap_remove(which % held.len());
                    plain.report(one, &outcomes[which % 5], at(now));
                    named.report(other, &outcomes[which % 5], at(now));
                }
                4 if !held.is_empty() => {
                    let (one, other) = held.swap_remove(which % held.len());
                    plain.abandon(one);
                    named.abandon(other);
                }
                _ => {}
            }
            let (one, other) = (plain.peek(at(now)), named.peek(at(now)));
            prop_assert_eq!((one.phase, one.rejects, one.retry_after), (other.phase, other.rejects, other.retry_after));
        }
    }

    /// However one caller fails, another that always succeeds is blocked only by a probe in flight.
    #[test]
    fn a_caller_that_always_succeeds_is_never_blocked_by_another(steps in vec((0_usize..3, 0_u64..5_000), 1..200)) {
        let mut breaker = sonnet();
        let mut now = 0;
        for (step, wait) in steps {
            now += wait;
            match step {
                0 => call(&mut breaker, HOLDER, &good(), at(now)),
                _ => {
                    if let Ok(permit) = ask(&mut breaker, HOSTILE, at(now)) {
                        breaker.report(permit, &bad(), at(now));
                    }
                }
            }
            let free = breaker.peek_for(HOLDER, at(now));
            prop_assert!(free.rejects.is_none(), "{:?}", free);
        }
    }
}
