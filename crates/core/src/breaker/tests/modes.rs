//! The operator's modes.

use super::super::{BreakerMode, BreakerPhase, RejectReason, TripReason};
use super::{ask, at, bad, call, good, opened, phase, sonnet};
use std::time::Duration;

#[test]
fn forced_open_blocks_and_never_begins_a_trial() {
    let mut breaker = sonnet();
    let early = ask(&mut breaker, at(0)).unwrap();
    breaker.set_mode(BreakerMode::ForcedOpen, at(0));
    breaker.report(early, &good(), at(1));
    for hour in 0..48 {
        let now = at(hour * 3_600_000);
        assert_eq!(ask(&mut breaker, now), Err(RejectReason::ForcedOpen));
        let peek = breaker.peek(now);
        assert_eq!((peek.rejects, peek.retry_after), (Some(RejectReason::ForcedOpen), None));
        assert_eq!(peek.mode, BreakerMode::ForcedOpen);
    }
    // After release the breaker probes before it closes.
    let now = at(200_000_000);
    breaker.set_mode(BreakerMode::Automatic, now);
    assert_eq!(phase(&breaker, now), BreakerPhase::HalfOpen { stage: 0 });
    let probe = ask(&mut breaker, now).unwrap();
    assert_eq!(ask(&mut breaker, now), Err(RejectReason::ProbesInFlight));
    breaker.report(probe, &good(), now);
    assert_eq!(phase(&breaker, now), BreakerPhase::HalfOpen { stage: 1 });
}

#[test]
fn forced_closed_passes_everything_and_is_judged_afresh_afterwards() {
    let mut breaker = opened(at(0));
    breaker.set_mode(BreakerMode::ForcedClosed, at(1_000));
    for _ in 0..100 {
        call(&mut breaker, &bad(), at(1_000));
    }
    breaker.trip(TripReason::SustainedPressure, at(1_000));
    assert_eq!(breaker.peek(at(1_000)).rejects, None);
    assert_eq!(phase(&breaker, at(1_000)), BreakerPhase::Closed);
    breaker.set_mode(BreakerMode::Automatic, at(2_000));
    for _ in 0..4 {
        call(&mut breaker, &bad(), at(2_000));
    }
    assert_eq!(phase(&breaker, at(2_000)), BreakerPhase::Closed);
    call(&mut breaker, &bad(), at(2_000));
    assert_eq!(phase(&breaker, at(2_000)), BreakerPhase::Open);
}

#[test]
fn from_forced_open_to_forced_closed_passes_at_once() {
    let mut breaker = sonnet();
    breaker.set_mode(BreakerMode::ForcedOpen, at(0));
    breaker.set_mode(BreakerMode::ForcedClosed, at(0));
    call(&mut breaker, &good(), at(0));
    breaker.set_mode(BreakerMode::ForcedOpen, at(0));
    assert_eq!(ask(&mut breaker, at(0)), Err(RejectReason::ForcedOpen));
}

#[test]
fn setting_the_same_mode_again_changes_nothing() {
    let mut breaker = opened(at(0));
    breaker.take_transitions();
    breaker.set_mode(BreakerMode::Automatic, at(1));
    assert!(breaker.take_transitions().is_empty());
    assert_eq!(phase(&breaker, at(1)), BreakerPhase::Open);
}

#[test]
fn observing_reports_the_rejection_without_enforcing_it() {
    let mut breaker = sonnet();
    breaker.set_mode(BreakerMode::Observing, at(0));
    for _ in 0..5 {
        call(&mut breaker, &bad(), at(0));
    }
    let permit = ask(&mut breaker, at(1_000)).unwrap();
    let reason = RejectReason::Open(TripReason::ConsecutiveFailures);
    assert_eq!(permit.would_reject(), Some(reason));
    assert_eq!(breaker.peek(at(1_000)).rejects, None);
    // Results of calls that only passed because of the mode do not count.
    breaker.report(permit, &good(), at(1_000));
    assert_eq!(phase(&breaker, at(59_999)), BreakerPhase::Open);
    let probe = ask(&mut breaker, at(60_000)).unwrap();
    let beside = ask(&mut breaker, at(60_000)).unwrap();
    assert_eq!((probe.would_reject(), beside.would_reject()), (None, Some(RejectReason::ProbesInFlight)));
    breaker.report(beside, &bad(), at(60_000));
    assert_eq!(phase(&breaker, at(60_000)), BreakerPhase::HalfOpen { stage: 0 });
    let beside = ask(&mut breaker, at(60_000)).unwrap();
    breaker.abandon(beside);
    breaker.report(probe, &good(), at(60_000));
    assert_eq!(phase(&breaker, at(60_000)), BreakerPhase::HalfOpen { stage: 1 });
    // From here on it enforces, and rejects what it only recorded before.
    breaker.set_mode(BreakerMode::Automatic, at(60_000));
    let permits: Vec<_> = (0..3).map(|_| ask(&mut breaker, at(60_000)).unwrap()).collect();
    assert_eq!(ask(&mut breaker, at(60_000)), Err(RejectReason::ProbesInFlight));
    drop(permits);
    let later = at(60_000) + Duration::from_secs(26);
    assert_eq!(phase(&breaker, later), BreakerPhase::Open);
}
