//! Changing the settings of a live breaker.

use super::super::{BreakerMode, BreakerOptions, SharedBreaker, Transition};
use super::{
    Breaker, BreakerPhase, BreakerProfile, RejectReason, answered_after, ask, at, bad, by_rate, call, good,
    opened, phase, sonnet,
};
use crate::breaker::BreakerSettings;
use std::time::Duration;

fn sonnet_with(change: impl FnOnce(&mut BreakerOptions)) -> BreakerSettings {
    let mut options = BreakerProfile::Sonnet.options();
    change(&mut options);
    options.check().unwrap()
}

#[test]
fn an_open_breaker_stays_open_until_the_moment_it_had() {
    for seconds in [5, 250] {
        let mut breaker = opened(at(1_000));
        breaker.apply_settings(sonnet_with(|it| it.open_for = Duration::from_secs(seconds)), at(2_000));
        assert_eq!(phase(&breaker, at(60_999)), BreakerPhase::Open);
        assert_eq!(phase(&breaker, at(61_000)), BreakerPhase::HalfOpen { stage: 0 });
        // The next opening lasts as long as the new settings require.
        call(&mut breaker, &bad(), at(61_000));
        let until = 61_000 + seconds * 1_000;
        assert_eq!(phase(&breaker, at(until - 1)), BreakerPhase::Open);
        assert_eq!(phase(&breaker, at(until)), BreakerPhase::HalfOpen { stage: 0 });
    }
}

#[test]
fn transitions_due_before_the_change_use_the_old_settings() {
    let mut breaker = opened(at(0));
    breaker.take_transitions();
    breaker.apply_settings(sonnet_with(|it| it.open_for = Duration::from_secs(299)), at(70_000));
    assert_eq!(phase(&breaker, at(70_000)), BreakerPhase::HalfOpen { stage: 0 });
    assert_eq!(breaker.take_transitions().iter().map(|it| it.at).collect::<Vec<_>>(), [at(60_000)]);
}

#[test]
fn failures_in_a_row_are_judged_by_the_new_threshold_at_the_next_outcome() {
    let mut breaker = sonnet();
    for _ in 0..4 {
        call(&mut breaker, &bad(), at(0));
    }
    breaker.apply_settings(sonnet_with(|it| it.failure_threshold = 2), at(0));
    assert_eq!(phase(&breaker, at(0)), BreakerPhase::Closed);
    call(&mut breaker, &bad(), at(0));
    assert_eq!(phase(&breaker, at(0)), BreakerPhase::Open);

    let mut breaker = sonnet();
    for _ in 0..4 {
        call(&mut breaker, &bad(), at(0));
    }
    breaker.apply_settings(sonnet_with(|it| it.failure_threshold = 7), at(0));
    call(&mut breaker, &bad(), at(0));
    call(&mut breaker, &bad(), at(0));
    assert_eq!(phase(&breaker, at(0)), BreakerPhase::Closed);
    call(&mut breaker, &bad(), at(0));
    assert_eq!(phase(&breaker, at(0)), BreakerPhase::Open);
}

#[test]
fn a_window_of_the_same_length_keeps_its_outcomes_and_another_begins_empty() {
    for (seconds, ends) in [(30, BreakerPhase::Open), (31, BreakerPhase::Closed)] {
        let mut breaker = by_rate(10, 50.0, 30);
        for outcome in [good(), good(), good(), good(), good(), bad(), bad(), bad(), bad()] {
            call(&mut breaker, &outcome, at(0));
        }
        let other = sonnet_with(|it| {
            it.failure_threshold = 1_000_000;
            it.failure_percent = 40.0;
            it.min_calls = Some(10);
            it.window = Duration::from_secs(seconds);
        });
        breaker.apply_settings(other, at(0));
        assert_eq!(phase(&breaker, at(0)), BreakerPhase::Closed);
        call(&mut breaker, &good(), at(0));
        assert_eq!(phase(&breaker, at(0)), ends, "{seconds}");
    }
}

/// A breaker at the second stage of its trial, with one probe in flight.
fn at_second_stage() -> (Breaker, super::BreakerPermit) {
    let mut breaker = opened(at(0));
    call(&mut breaker, &good(), at(60_000));
    assert_eq!(phase(&breaker, at(60_000)), BreakerPhase::HalfOpen { stage: 1 });
    let probe = ask(&mut breaker, at(60_000)).unwrap();
    (breaker, probe)
}

#[test]
fn a_trial_with_other_stages_restarts_and_ignores_old_probes() {
    for stages in [vec![2], vec![1, 3], vec![1, 3, 10, 20]] {
        let (mut breaker, probe) = at_second_stage();
        breaker.take_transitions();
        let late = breaker.late_results();
        breaker.apply_settings(sonnet_with(|it| it.half_open_stages = stages.clone()), at(61_000));
        let again = Transition {
            at: at(61_000),
            from: BreakerPhase::HalfOpen { stage: 1 },
            to: BreakerPhase::HalfOpen { stage: 0 },
            reason: None,
        };
        assert_eq!(breaker.take_transitions().as_slice(), [again]);
        breaker.report(probe, &bad(), at(61_000));
        assert_eq!(
            (phase(&breaker, at(61_000)), breaker.late_results()),
            (BreakerPhase::HalfOpen { stage: 0 }, late + 1)
        );
        // The old probe does not expire either.
        assert_eq!(phase(&breaker, at(400_000)), BreakerPhase::HalfOpen { stage: 0 });
        for _ in 0..stages.iter().sum() {
            call(&mut breaker, &good(), at(62_000));
        }
        assert_eq!(phase(&breaker, at(62_000)), BreakerPhase::Closed);
    }
}

#[test]
fn a_trial_with_the_same_stages_goes_on() {
    let (mut breaker, probe) = at_second_stage();
    let count = breaker.transition_count();
    breaker.apply_settings(sonnet_with(|it| it.slow_threshold = Duration::from_millis(1)), at(61_000));
    breaker.report(probe, &answered_after(2), at(61_000));
    assert_eq!(
        (phase(&breaker, at(61_000)), breaker.transition_count()),
        (BreakerPhase::HalfOpen { stage: 1 }, count)
    );
    // With two more results in this stage, all three are slow by the new settings.
    call(&mut breaker, &answered_after(2), at(61_000));
    call(&mut breaker, &answered_after(2), at(61_000));
    assert_eq!(phase(&breaker, at(61_000)), BreakerPhase::Open);
}

#[test]
fn a_forced_breaker_stays_forced() {
    let (mut breaker, _probe) = at_second_stage();
    breaker.set_mode(BreakerMode::ForcedOpen, at(60_000));
    breaker.apply_settings(sonnet_with(|it| it.half_open_stages = vec![1]), at(60_000));
    assert_eq!(ask(&mut breaker, at(60_000)), Err(RejectReason::ForcedOpen));
    breaker.set_mode(BreakerMode::Automatic, at(60_000));
    call(&mut breaker, &good(), at(60_000));
    assert_eq!(phase(&breaker, at(60_000)), BreakerPhase::Closed);
}

#[test]
fn every_handle_of_a_shared_breaker_sees_the_change() {
    let shared = SharedBreaker::new(opened(at(0)));
    let other_handle = shared.clone();
    other_handle.apply_settings(sonnet_with(|it| it.half_open_stages = vec![1]), at(0));
    let deadline = crate::deadline::Deadline::after(at(60_000), Duration::from_secs(25));
    shared.acquire(at(60_000), deadline).unwrap().report(&good(), at(60_000));
    assert_eq!(other_handle.with(|breaker| phase(breaker, at(60_000))), BreakerPhase::Closed);
}
