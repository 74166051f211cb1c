//! How an open breaker closes again.

use super::super::{BreakerOptions, BreakerPhase, BreakerProfile, RejectReason, TripReason};
use super::{answered_after, ask, at, bad, call, failed, good, opened, phase, sonnet};
use crate::breaker::machine::BreakerState;
use crate::breaker::types::PermitKind;
use crate::breaker::{Breaker, BreakerDecision};
use crate::deadline::Deadline;
use crate::failure::{AttemptOutcome, FailureKind};
use crate::invariant::Invariant;
use std::time::Duration;

fn with_stages(half_open_stages: Vec<u32>) -> Breaker {
    let options = BreakerOptions { half_open_stages, ..BreakerProfile::Sonnet.options() };
    let mut breaker = Breaker::new(options.check().unwrap());
    for _ in 0..5 {
        call(&mut breaker, &bad(), at(0));
    }
    breaker
}

#[test]
fn each_profile_stays_open_for_its_time() {
    for (profile, seconds) in BreakerProfile::ALL.into_iter().zip([60, 30, 45, 30, 15]) {
        let mut breaker = Breaker::new(profile.options().check().unwrap());
        while let Ok(permit) = ask(&mut breaker, at(0)) {
            breaker.report(permit, &bad(), at(0));
        }
        assert_eq!(phase(&breaker, at(seconds * 1_000 - 1)), BreakerPhase::Open);
        let peek = breaker.peek(at(0));
        assert_eq!(peek.retry_after, Some(Duration::from_secs(seconds)));
        assert_eq!(phase(&breaker, at(seconds * 1_000)), BreakerPhase::HalfOpen { stage: 0 });
    }
}

#[test]
fn one_then_three_then_ten_probes_pass_and_fourteen_successes_close_it() {
    let mut breaker = opened(at(0));
    let now = at(60_000);
    for (stage, size) in [1, 3, 10].into_iter().enumerate() {
        assert_eq!(phase(&breaker, now), BreakerPhase::HalfOpen { stage });
        let permits: Vec<_> = (0..size).map(|_| ask(&mut breaker, now).unwrap()).collect();
        for _ in 0..200 {
            assert_eq!(ask(&mut breaker, now), Err(RejectReason::ProbesInFlight));
        }
        for permit in permits {
            breaker.report(permit, &good(), now);
        }
    }
    assert_eq!(phase(&breaker, now), BreakerPhase::Closed);
    let phases: Vec<BreakerPhase> = breaker.take_transitions().iter().map(|change| change.to).collect();
    assert_eq!(
        phases,
        [
            BreakerPhase::Open,
            BreakerPhase::HalfOpen { stage: 0 },
            BreakerPhase::HalfOpen { stage: 1 },
            BreakerPhase::HalfOpen { stage: 2 },
            BreakerPhase::Closed,
        ]
    );
}

#[test]
fn a_stage_sends_no_more_probes_than_it_needs() {
    let mut breaker = with_stages(vec![4]);
    let now = at(60_000);
    let first = ask(&mut breaker, now).unwrap();
    breaker.report(first, &good(), now);
    let permits: Vec<_> = (0..3).map(|_| ask(&mut breaker, now).unwrap()).collect();
    assert_eq!(ask(&mut breaker, now), Err(RejectReason::ProbesInFlight));
    drop(permits);
}

#[test]
fn a_failed_probe_opens_again_with_a_fresh_timer() {
    let mut breaker = opened(at(0));
    call(&mut breaker, &good(), at(60_000));
    let permits: Vec<_> = (0..3).map(|_| ask(&mut breaker, at(61_000)).unwrap()).collect();
    let mut permits = permits.into_iter();
    breaker.report(permits.next().unwrap(), &bad(), at(62_000));
    assert_eq!(breaker.peek(at(62_000)).rejects, Some(RejectReason::Open(TripReason::ProbeFailed)));
    // The other two succeed, but they belong to a trial that has ended.
    for permit in permits {
        breaker.report(permit, &good(), at(62_500));
    }
    assert_eq!(breaker.late_results(), 2);
    assert_eq!(phase(&breaker, at(121_999)), BreakerPhase::Open);
    assert_eq!(phase(&breaker, at(122_000)), BreakerPhase::HalfOpen { stage: 0 });
}

#[test]
fn abandoned_probes_free_their_slots_one_by_one() {
    let mut breaker = with_stages(vec![4]);
    let now = at(60_000);
    let mut permits: Vec<_> = (0..4).map(|_| ask(&mut breaker, now).unwrap()).collect();
    assert_eq!(ask(&mut breaker, now), Err(RejectReason::ProbesInFlight));
    assert_eq!(ask(&mut breaker, now), Err(RejectReason::ProbesInFlight));
    breaker.abandon(permits.pop().unwrap());
    permits.push(ask(&mut breaker, now).unwrap());
    assert_eq!(ask(&mut breaker, now), Err(RejectReason::ProbesInFlight));
    // An outcome that says nothing about health frees its slot as well.
    breaker.report(permits.pop().unwrap(), &failed(FailureKind::BadRequest), now);
    permits.push(ask(&mut breaker, now).unwrap());
    assert_eq!(ask(&mut breaker, now), Err(RejectReason::ProbesInFlight));
    // Opened and half-open again, it has four probe slots again.
    breaker.report(permits.pop().unwrap(), &bad(), now);
    let later = at(120_000);
    let again: Vec<_> = (0..4).map(|_| ask(&mut breaker, later).unwrap()).collect();
    assert_eq!(ask(&mut breaker, later), Err(RejectReason::ProbesInFlight));
    drop(again);
}

#[test]
fn slow_probes_open_it_although_none_failed() {
    let mut breaker = with_stages(vec![4]);
    let now = at(60_000);
    for millis in [5_000, 5_000, 100] {
        call(&mut breaker, &answered_after(millis), now);
        assert_eq!(phase(&breaker, now), BreakerPhase::HalfOpen { stage: 0 });
    }
    call(&mut breaker, &answered_after(5_000), now);
    assert_eq!(breaker.peek(now).rejects, Some(RejectReason::Open(TripReason::ProbesSlow)));
}

#[test]
fn a_timed_out_probe_is_no_success_and_another_may_pass() {
    let mut breaker = with_stages(vec![4]);
    let now = at(60_000);
    for outcome in [failed(FailureKind::StartTimeout), good(), good(), good()] {
        call(&mut breaker, &outcome, now);
    }
    assert_eq!(phase(&breaker, now), BreakerPhase::HalfOpen { stage: 0 });
    call(&mut breaker, &good(), now);
    assert_eq!(phase(&breaker, now), BreakerPhase::Closed);
}

#[test]
fn a_lost_probe_counts_as_failed_when_its_permit_expires() {
    let mut breaker = opened(at(0));
    let attempt = Deadline::at(at(85_000));
    let BreakerDecision::Permitted(lost) = breaker.acquire(at(60_000), attempt) else { panic!("no probe") };
    assert_eq!(phase(&breaker, at(85_999)), BreakerPhase::HalfOpen { stage: 0 });
    // It opened when the probe expired, however late the state is read.
    assert_eq!(breaker.peek(at(86_000)).rejects, Some(RejectReason::Open(TripReason::ProbeExpired)));
    assert_eq!(phase(&breaker, at(145_999)), BreakerPhase::Open);
    let next = ask(&mut breaker, at(146_000)).unwrap();
    breaker.report(lost, &good(), at(146_000));
    assert_eq!(phase(&breaker, at(146_000)), BreakerPhase::HalfOpen { stage: 0 });
    breaker.report(next, &good(), at(146_000));
    assert_eq!(phase(&breaker, at(146_000)), BreakerPhase::HalfOpen { stage: 1 });
}

#[test]
fn a_lost_probe_without_deadline_does_not_block_for_ever() {
    let mut breaker = opened(at(0));
    assert!(matches!(breaker.acquire(at(60_000), Deadline::NEVER), BreakerDecision::Permitted(_)));
    assert_eq!(phase(&breaker, at(360_999)), BreakerPhase::HalfOpen { stage: 0 });
    assert_eq!(phase(&breaker, at(361_000)), BreakerPhase::Open);
}

#[test]
fn the_earliest_of_several_lost_probes_decides() {
    let mut breaker = with_stages(vec![2]);
    for deadline in [90_000, 70_000] {
        let decision = breaker.acquire(at(60_000), Deadline::at(at(deadline)));
        assert!(matches!(decision, BreakerDecision::Permitted(_)));
    }
    assert_eq!(phase(&breaker, at(70_999)), BreakerPhase::HalfOpen { stage: 0 });
    assert_eq!(phase(&breaker, at(71_000)), BreakerPhase::Open);
    assert_eq!(phase(&breaker, at(131_000)), BreakerPhase::HalfOpen { stage: 0 });
}

#[test]
fn peeking_uses_no_probe() {
    let mut breaker = opened(at(0));
    for _ in 0..1_000 {
        assert_eq!(phase(&breaker, at(60_000)), BreakerPhase::HalfOpen { stage: 0 });
        assert_eq!(breaker.peek(at(60_000)).rejects, None);
    }
    let permit = ask(&mut breaker, at(60_000)).unwrap();
    assert_eq!(breaker.peek(at(60_000)).rejects, Some(RejectReason::ProbesInFlight));
    assert_eq!(breaker.peek(at(60_000)).retry_after, None);
    breaker.abandon(permit);
    assert_eq!(breaker.peek(at(60_000)).rejects, None);
}

#[test]
fn late_results_change_nothing() {
    let mut breaker = sonnet();
    let early: Vec<_> = (0..4).map(|_| ask(&mut breaker, at(0)).unwrap()).collect();
    let mut early = early.into_iter();
    for _ in 0..5 {
        call(&mut breaker, &bad(), at(1_000));
    }
    // While open: a success does not close it, a failure does not keep it open longer.
    breaker.report(early.next().unwrap(), &good(), at(2_000));
    breaker.report(early.next().unwrap(), &bad(), at(30_000));
    assert_eq!(phase(&breaker, at(60_999)), BreakerPhase::Open);
    // Half-open: a success of an earlier generation passes no stage, and a failure ends nothing.
    let probe = ask(&mut breaker, at(61_000)).unwrap();
    breaker.report(early.next().unwrap(), &good(), at(61_000));
    breaker.report(early.next().unwrap(), &bad(), at(61_000));
    assert_eq!(phase(&breaker, at(61_000)), BreakerPhase::HalfOpen { stage: 0 });
    breaker.report(probe, &good(), at(61_000));
    assert_eq!(phase(&breaker, at(61_000)), BreakerPhase::HalfOpen { stage: 1 });
    assert_eq!(breaker.late_results(), 4);
}

#[test]
fn an_abandoned_permit_of_an_earlier_generation_frees_no_slot() {
    let mut breaker = sonnet();
    let early = ask(&mut breaker, at(0)).unwrap();
    for _ in 0..5 {
        call(&mut breaker, &bad(), at(0));
    }
    let probe = ask(&mut breaker, at(60_000)).unwrap();
    breaker.abandon(early);
    assert_eq!(ask(&mut breaker, at(60_000)), Err(RejectReason::ProbesInFlight));
    breaker.abandon(probe);
}

#[test]
fn a_timeout_a_cancelled_call_and_a_broken_one_each_count_once() {
    for (outcome, expected) in [
        (failed(FailureKind::Unreachable), BreakerPhase::Open),
        (failed(FailureKind::TimedOut), BreakerPhase::Open),
        (failed(FailureKind::StreamInterrupted), BreakerPhase::Open),
        (AttemptOutcome::Abandoned, BreakerPhase::HalfOpen { stage: 0 }),
    ] {
        let mut breaker = opened(at(0));
        call(&mut breaker, &outcome, at(60_000));
        assert_eq!(phase(&breaker, at(60_000)), expected);
        let opened_once = usize::from(expected == BreakerPhase::Open);
        assert_eq!(breaker.take_transitions().len(), 2 + opened_once);
    }
}

#[test]
fn the_first_good_probe_after_an_outage_does_not_open_it_again() {
    let mut breaker = opened(at(0));
    call(&mut breaker, &good(), at(60_000));
    for _ in 0..3 {
        call(&mut breaker, &good(), at(60_001));
    }
    for _ in 0..10 {
        call(&mut breaker, &good(), at(60_002));
    }
    // The failures that opened it no longer count: four more do not open it.
    for _ in 0..4 {
        call(&mut breaker, &bad(), at(60_003));
    }
    assert_eq!(phase(&breaker, at(60_003)), BreakerPhase::Closed);
}

#[test]
fn openings_in_a_row_last_longer_where_that_is_wanted() {
    let options = BreakerOptions {
        open_for: Duration::from_secs(5),
        open_multiplier: 1.5,
        half_open_stages: vec![1],
        ..BreakerProfile::Sonnet.options()
    };
    let mut breaker = Breaker::new(options.check().unwrap());
    for _ in 0..5 {
        call(&mut breaker, &bad(), at(0));
    }
    assert_eq!(phase(&breaker, at(3_000)), BreakerPhase::Open);
    assert_eq!(phase(&breaker, at(6_000)), BreakerPhase::HalfOpen { stage: 0 });
    call(&mut breaker, &bad(), at(6_000));
    assert_eq!(phase(&breaker, at(12_000)), BreakerPhase::Open);
    assert_eq!(phase(&breaker, at(13_500)), BreakerPhase::HalfOpen { stage: 0 });
    // Closed in between, the open time starts from `open_for` again.
    call(&mut breaker, &good(), at(13_500));
    for _ in 0..5 {
        call(&mut breaker, &bad(), at(20_000));
    }
    assert_eq!(phase(&breaker, at(25_000)), BreakerPhase::HalfOpen { stage: 0 });
}

#[test]
fn only_the_newest_transitions_are_kept() {
    let mut breaker = with_stages(vec![1]);
    for round in 1..10 {
        call(&mut breaker, &bad(), at(round * 60_000));
    }
    let transitions = breaker.take_transitions();
    assert_eq!((transitions.len(), breaker.transition_count()), (8, 19));
    assert_eq!(
        transitions.last().map(|change| (change.at, change.to)),
        Some((at(540_000), BreakerPhase::Open))
    );
}

#[test]
fn a_call_through_an_open_breaker_is_a_violation() {
    let mut breaker = opened(at(0));
    let permit = breaker.new_permit(None, PermitKind::Call);
    assert_eq!(breaker.check_permit(&permit, at(1)).unwrap_err().invariant, Invariant::NoCallWhileOpen);
}

#[test]
fn more_probes_than_the_stage_has_are_a_violation() {
    let mut breaker = opened(at(0));
    let permit = ask(&mut breaker, at(60_000)).unwrap();
    assert_eq!(breaker.check_permit(&permit, at(60_000)), Ok(()));
    let BreakerState::HalfOpen(trial) = &mut breaker.machine.state else { panic!("no trial") };
    trial.successes = 1;
    let violation = breaker.check_permit(&permit, at(60_000)).unwrap_err();
    assert_eq!(violation.invariant, Invariant::ProbesWithinStage);
}
