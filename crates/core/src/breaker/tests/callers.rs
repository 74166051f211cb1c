//! Which caller's failures open a breaker, and for which callers.

use super::super::{
    Breaker, BreakerDecision, BreakerPermit, BreakerPhase, CallerKey, LastResort, RejectReason, TripReason,
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

/// A breaker that is open for slow answers of everybody.
fn opened_for_slow_answers() -> Breaker {
    let mut breaker = sonnet();
    for number in 0..10 {
        let caller = [HOSTILE, HOLDER, THIRD][number % 3];
        call(&mut breaker, caller, &answered_after(9_000), at(0));
    }
    let peek = breaker.peek(at(0));
    assert_eq!(peek.rejects, Some(RejectReason::Open(TripReason::SlowRate)));
    assert!(!peek.is_open_for_one_caller);
    breaker
}

fn last(
    breaker: &mut Breaker,
    caller: Option<CallerKey>,
    now: Timestamp,
) -> Result<BreakerPermit, RejectReason> {
    let deadline = Deadline::after(now, Duration::from_secs(25));
    let allowed = LastResort { single_probe: true, panic: true };
    match breaker.acquire_last_resort(caller, now, deadline, allowed) {
        BreakerDecision::Permitted(permit) => Ok(permit),
        BreakerDecision::Rejected { reason, .. } => Err(reason),
    }
}

#[test]
fn failed_panic_calls_of_one_caller_do_not_end_those_of_others() {
    let mut breaker = opened_for_slow_answers();
    for _ in 0..5 {
        let permit = last(&mut breaker, HOSTILE, at(1)).unwrap();
        breaker.report(permit, &bad(), at(2));
    }
    let failing = RejectReason::Open(TripReason::ConsecutiveFailures);
    assert_eq!(last(&mut breaker, HOSTILE, at(3)), Err(failing));
    for caller in [HOLDER, THIRD] {
        let permit = last(&mut breaker, caller, at(3)).unwrap();
        breaker.report(permit, &answered_after(9_000), at(3));
    }
    // The trial is not the quarantined caller's either, whose own timer began later.
    assert_eq!(ask(&mut breaker, HOSTILE, at(60_001)), Err(failing));
    (0..14).for_each(|_| call(&mut breaker, HOLDER, &good(), at(60_001)));
    assert_eq!(breaker.peek_for(THIRD, at(60_001)).phase, BreakerPhase::Closed);
    // Failures of two callers open it for all.
    let mut breaker = opened_for_slow_answers();
    for caller in [HOSTILE, HOLDER, HOSTILE, HOLDER, HOSTILE] {
        let permit = last(&mut breaker, caller, at(1)).unwrap();
        breaker.report(permit, &bad(), at(2));
    }
    assert_eq!(last(&mut breaker, THIRD, at(3)), Err(failing));
}

#[test]
fn a_failed_probe_of_one_caller_interrupts_the_trial_for_that_caller_only() {
    for (outcome, reason) in [
        (bad(), TripReason::ProbeFailed),
        (answered_after(9_000), TripReason::ProbesSlow),
        (failed(FailureKind::StartTimeout), TripReason::StartTimeout),
    ] {
        let mut breaker = super::opened(at(0));
        call(&mut breaker, HOSTILE, &outcome, at(60_000));
        assert_eq!(ask(&mut breaker, HOSTILE, at(60_001)), Err(RejectReason::Open(reason)));
        // The trial goes on with the others where it was: one probe, then three, then ten.
        let probe = ask(&mut breaker, HOLDER, at(60_001)).unwrap();
        assert_eq!(ask(&mut breaker, THIRD, at(60_001)), Err(RejectReason::ProbesInFlight));
        breaker.report(probe, &good(), at(60_002));
        assert_eq!(breaker.peek_for(THIRD, at(60_002)).phase, BreakerPhase::HalfOpen { stage: 1 });
        (0..3).for_each(|_| call(&mut breaker, THIRD, &good(), at(60_003)));
        assert_eq!(breaker.peek_for(THIRD, at(60_003)).phase, BreakerPhase::HalfOpen { stage: 2 });
        (0..10).for_each(|_| call(&mut breaker, HOLDER, &good(), at(60_004)));
        assert_eq!(breaker.peek(at(60_004)).phase, BreakerPhase::Closed);
        assert_eq!(ask(&mut breaker, HOSTILE, at(60_004)), Err(RejectReason::Open(reason)));
        assert!(ask(&mut breaker, HOSTILE, at(120_000)).is_ok());
    }
}

#[test]
fn failed_probes_of_two_callers_open_it_for_all() {
    let mut breaker = super::opened(at(0));
    call(&mut breaker, HOSTILE, &bad(), at(60_000));
    call(&mut breaker, HOLDER, &bad(), at(60_001));
    for caller in [HOSTILE, HOLDER, THIRD] {
        assert_eq!(ask(&mut breaker, caller, at(120_000)), Err(RejectReason::Open(TripReason::ProbeFailed)));
    }
}

#[test]
fn a_failed_panic_call_during_a_trial_does_not_end_it_for_others() {
    let mut breaker = opened_for_slow_answers();
    let probe = ask(&mut breaker, HOLDER, at(60_000)).unwrap();
    let beside = last(&mut breaker, HOSTILE, at(60_000)).unwrap();
    breaker.report(beside, &bad(), at(60_001));
    breaker.report(probe, &good(), at(60_002));
    (0..14).for_each(|_| call(&mut breaker, THIRD, &good(), at(60_003)));
    assert_eq!(breaker.peek(at(60_003)).phase, BreakerPhase::Closed);
}

#[test]
fn after_one_callers_single_probe_failed_another_caller_need_not_wait() {
    let mut breaker = super::opened(at(0));
    let probe = last(&mut breaker, HOSTILE, at(5_000)).unwrap();
    breaker.report(probe, &bad(), at(5_001));
    assert!(last(&mut breaker, HOSTILE, at(5_002)).is_err());
    // A call without a caller waits.
    assert!(last(&mut breaker, None, at(5_002)).is_err());
    let probe = last(&mut breaker, HOLDER, at(5_002)).unwrap();
    assert!(last(&mut breaker, THIRD, at(5_003)).is_err());
    breaker.report(probe, &bad(), at(5_003));
    // Two callers have failed: it is the target.
    for caller in [HOSTILE, HOLDER, THIRD] {
        assert!(last(&mut breaker, caller, at(10_002)).is_err());
    }
    let probe = last(&mut breaker, HOSTILE, at(10_003)).unwrap();
    breaker.report(probe, &bad(), at(10_003));
    let probe = last(&mut breaker, THIRD, at(10_004)).unwrap();
    breaker.report(probe, &good(), at(10_005));
    assert_eq!(breaker.peek(at(10_005)).phase, BreakerPhase::HalfOpen { stage: 1 });
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

    /// Nor, once the breaker has opened for all, does another's failing keep it open.
    #[test]
    fn a_caller_that_always_succeeds_closes_an_open_breaker_whatever_another_does(
        is_slow in proptest::bool::ANY, steps in vec((0_usize..3, 0_u64..1_000), 0..100),
    ) {
        let mut breaker = if is_slow { opened_for_slow_answers() } else { super::opened(at(0)) };
        let mut now = 0;
        for (step, wait) in steps {
            now += wait;
            let caller = if step == 0 { HOLDER } else { HOSTILE };
            if let Ok(permit) = last(&mut breaker, caller, at(now)) {
                breaker.report(permit, &if step == 0 { good() } else { bad() }, at(now));
            }
        }
        // One call of each caller every second, the failing one first.
        for _ in 0..30 {
            now += 1_000;
            if let Ok(permit) = last(&mut breaker, HOSTILE, at(now)) {
                breaker.report(permit, &bad(), at(now));
            }
            if let Ok(permit) = last(&mut breaker, HOLDER, at(now)) {
                breaker.report(permit, &good(), at(now));
            }
        }
        let phase = breaker.peek_for(HOLDER, at(now)).phase;
        prop_assert_eq!(phase, BreakerPhase::Closed);
    }
}
