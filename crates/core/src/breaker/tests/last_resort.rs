//! Which calls pass when there is no other target.

use super::super::{
    Breaker, BreakerDecision, BreakerMode, BreakerPermit, BreakerPhase, LastResort, RejectReason, TripReason,
};
use super::{answered_after, at, bad, call, failed, good, opened, phase, sonnet};
use crate::deadline::Deadline;
use crate::failure::FailureKind;
use crate::time::Timestamp;
use std::time::Duration;

fn last(breaker: &mut Breaker, now: Timestamp, panic: bool) -> Result<BreakerPermit, RejectReason> {
    let allowed = LastResort { single_probe: true, panic };
    match breaker.acquire_last_resort(None, now, Deadline::after(now, Duration::from_secs(25)), allowed) {
        BreakerDecision::Permitted(permit) => Ok(permit),
        BreakerDecision::Rejected { reason, .. } => Err(reason),
    }
}

fn slow() -> Breaker {
    let mut breaker = sonnet();
    (0..10).for_each(|_| call(&mut breaker, &answered_after(5_000), at(0)));
    assert_eq!(breaker.peek(at(0)).rejects, Some(RejectReason::Open(TripReason::SlowRate)));
    breaker
}

#[test]
fn one_probe_passes_every_five_seconds_and_its_success_begins_the_trial() {
    let mut breaker = opened(at(0));
    for panic in [false, true] {
        assert!(last(&mut breaker, at(4_999), panic).is_err());
    }
    let probe = last(&mut breaker, at(5_000), false).unwrap();
    // Only one single probe is in flight at a time.
    assert!(last(&mut breaker, at(20_000), true).is_err());
    breaker.report(probe, &bad(), at(20_000));
    let open = breaker.peek(at(20_000));
    assert_eq!((open.phase, open.retry_after), (BreakerPhase::Open, Some(Duration::from_secs(40))));
    assert!(last(&mut breaker, at(24_999), false).is_err());
    let probe = last(&mut breaker, at(25_000), false).unwrap();
    breaker.report(probe, &good(), at(25_100));
    assert_eq!(phase(&breaker, at(25_100)), BreakerPhase::HalfOpen { stage: 1 });
    assert_eq!(breaker.panic_calls(), 0);
}

#[test]
fn a_single_probe_that_is_dropped_or_lost_frees_its_slot() {
    let mut breaker = opened(at(0));
    let dropped = last(&mut breaker, at(5_000), false).unwrap();
    breaker.abandon(dropped);
    let lost = last(&mut breaker, at(5_000), false).unwrap();
    assert!(last(&mut breaker, at(35_999), false).is_err());
    assert!(last(&mut breaker, at(36_000), false).is_ok());
    breaker.report(lost, &good(), at(36_000));
    assert_eq!(phase(&breaker, at(36_000)), BreakerPhase::Open);
}

#[test]
fn a_panic_call_passes_to_a_target_that_is_only_slow() {
    let mut breaker = slow();
    assert!(last(&mut breaker, at(1), false).is_err());
    for _ in 0..100 {
        let permit = last(&mut breaker, at(1), true).unwrap();
        breaker.report(permit, &answered_after(5_000), at(2));
    }
    assert_eq!((breaker.panic_calls(), phase(&breaker, at(2))), (100, BreakerPhase::Open));
    // In the trial that follows, calls that find all probes taken pass as panic calls too.
    let probe = super::ask(&mut breaker, at(60_000)).unwrap();
    let beside = last(&mut breaker, at(60_000), true).unwrap();
    breaker.report(beside, &good(), at(60_001));
    breaker.report(probe, &good(), at(60_002));
    assert_eq!(phase(&breaker, at(60_002)), BreakerPhase::HalfOpen { stage: 1 });
}

#[test]
fn failing_panic_calls_block_further_ones() {
    let mut breaker = slow();
    for _ in 0..5 {
        let permit = last(&mut breaker, at(1), true).unwrap();
        breaker.report(permit, &bad(), at(1));
    }
    assert_eq!(last(&mut breaker, at(2), true), Err(RejectReason::Open(TripReason::ConsecutiveFailures)));
    // A failed panic call during a trial ends the trial.
    let mut breaker = slow();
    let _probe = super::ask(&mut breaker, at(60_000)).unwrap();
    let beside = last(&mut breaker, at(60_000), true).unwrap();
    breaker.report(beside, &bad(), at(60_001));
    assert_eq!(last(&mut breaker, at(60_002), true), Err(RejectReason::Open(TripReason::ProbeFailed)));
}

#[test]
fn no_panic_call_passes_failures_start_timeouts_or_forced_open() {
    let mut breaker = opened(at(0));
    assert!(last(&mut breaker, at(1), true).is_err());
    let mut cut = sonnet();
    (0..10).for_each(|_| call(&mut cut, &failed(FailureKind::StartTimeout), at(0)));
    assert_eq!(last(&mut cut, at(1), true), Err(RejectReason::Open(TripReason::StartTimeout)));
    let mut forced = slow();
    forced.set_mode(BreakerMode::ForcedOpen, at(0));
    assert_eq!(last(&mut forced, at(100_000), true), Err(RejectReason::ForcedOpen));
}
