//! Property test of the gate against a slow reference model that keeps every event.

use super::{SendDecision, ThrottleDecision, ThrottleGate};
use crate::failure::{Failure, FailureKind};
use crate::time::Timestamp;
use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use std::time::Duration;

fn at(millis: u64) -> Timestamp {
    Timestamp::ZERO + Duration::from_millis(millis)
}

fn hinted(millis: u64) -> Failure {
    Failure::of(FailureKind::Throttled).with_retry_after(Duration::from_millis(millis))
}

fn gate() -> ThrottleGate {
    ThrottleGate::new(at(0))
}

#[test]
fn only_a_busy_vendor_with_a_short_retry_after_is_paused() {
    use ThrottleDecision::{Failed, Paused};
    for (failure, verdict) in [
        (hinted(2_000), Paused),
        (hinted(30_000), Paused),
        (Failure::of(FailureKind::Overloaded).with_retry_after(Duration::from_secs(1)), Paused),
        (Failure::of(FailureKind::NotReady).with_retry_after(Duration::from_secs(1)), Paused),
        (hinted(30_001), Failed),
        (hinted(0), Failed),
        (Failure::of(FailureKind::Throttled), Failed),
        (Failure::of(FailureKind::ServerFault).with_retry_after(Duration::from_secs(1)), Failed),
    ] {
        let mut gate = gate();
        assert_eq!(gate.throttled(&failure, at(0), at(0)), verdict, "{failure:?}");
        assert_eq!(gate.is_active(), verdict == Paused, "{failure:?}");
        assert_eq!(gate.acquire(at(0)) == SendDecision::Send, verdict == Failed, "{failure:?}");
    }
}

#[test]
fn a_fourth_hint_in_a_row_is_a_failure_and_a_success_begins_anew() {
    let mut gate = gate();
    for round in 0..3 {
        let sent = at(round * 2_000);
        // Ten calls that were in flight together count as one Retry-After.
        for _ in 0..10 {
            assert_eq!(gate.throttled(&hinted(2_000), sent, sent), ThrottleDecision::Paused);
        }
        assert_eq!(gate.paused_for(sent), Duration::from_secs(2));
    }
    let mut others = gate.clone();
    assert_eq!(gate.throttled(&hinted(2_000), at(6_000), at(6_000)), ThrottleDecision::Failed);
    assert_eq!(gate.paused_for(at(6_000)), Duration::ZERO);

    // A response to a call from before the pause does not count; one to a call after it does.
    others.answered(at(5_000), at(6_000));
    let mut still = others.clone();
    assert_eq!(still.throttled(&hinted(2_000), at(6_100), at(6_100)), ThrottleDecision::Failed);
    others.answered(at(6_000), at(6_100));
    assert_eq!(others.throttled(&hinted(2_000), at(6_100), at(6_100)), ThrottleDecision::Paused);
}

#[test]
fn a_burst_of_throttles_cuts_the_pace_once() {
    let mut one = gate();
    for tick in 0..100 {
        one.answered(at(tick * 50), at(tick * 50));
    }
    let mut many = one.clone();
    one.throttled(&hinted(1_000), at(4_990), at(5_000));
    for _ in 0..10 {
        many.throttled(&hinted(1_000), at(4_990), at(5_000));
    }
    let (one, once) = (one.paced_rate().unwrap(), many.paced_rate().unwrap());
    assert!((once - one).abs() < 1e-9, "{once} after ten, {one} after one");
    // A throttle of a call sent afterwards is a new signal.
    many.throttled(&hinted(1_000), at(6_000), at(6_010));
    assert!(many.paced_rate().unwrap() < once, "{many:?}");
}

#[test]
fn a_minute_after_the_last_throttle_nobody_is_paced_any_more() {
    let mut gate = gate();
    gate.throttled(&hinted(1_000), at(0), at(0));
    gate.answered(at(1_000), at(59_999));
    assert!(gate.is_active() && gate.paced_rate().is_some());
    gate.answered(at(1_000), at(60_000));
    assert!(!gate.is_active() && gate.paced_rate().is_none());
    for _ in 0..1_000 {
        assert_eq!(gate.acquire(at(60_000)), SendDecision::Send);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Wait(u64),
    Send,
    Answer { which: usize },
    Throttle { which: usize, hint: Option<u64> },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0_u64..1_500).prop_map(Step::Wait),
        1 => (1_500_u64..90_000).prop_map(Step::Wait),
        6 => proptest::prelude::Just(Step::Send),
        3 => any::<usize>().prop_map(|which| Step::Answer { which }),
        3 => (any::<usize>(), proptest::option::of(0_u64..40_000))
            .prop_map(|(which, hint)| Step::Throttle { which, hint }),
    ]
}

/// All honoured Retry-Afters, each with the end of its pause, and where the current row began.
#[derive(Default)]
struct Model {
    holds: Vec<u64>,
    row: usize,
    last: Option<u64>,
}

impl Model {
    fn paused_until(&self) -> u64 {
        self.holds.iter().copied().max().unwrap_or(0)
    }

    fn rest(&mut self, now: u64) {
        if self.last.is_some_and(|last| now >= last + 60_000 && now >= self.paused_until()) {
            (self.last, self.row) = (None, 0);
        }
    }

    fn throttled(&mut self, hint: Option<u64>, sent: u64, now: u64) -> ThrottleDecision {
        let believed = hint.filter(|hint| (1..=30_000).contains(hint));
        if believed.is_some() || self.last.is_some() {
            self.last = Some(now);
        }
        let Some(hint) = believed else { return ThrottleDecision::Failed };
        self.row += usize::from(sent >= self.paused_until());
        if self.row > 3 {
            return ThrottleDecision::Failed;
        }
        self.holds.push(now + hint);
        ThrottleDecision::Paused
    }
}

proptest! {
    #[test]
    fn the_gate_does_what_the_model_says(steps in vec(step(), 1..120)) {
        let (mut gate, mut model) = (gate(), Model::default());
        let mut sent: Vec<u64> = Vec::new();
        let mut now = 0;
        for step in steps {
            match step {
                Step::Wait(millis) => now += millis,
                Step::Send => {
                    model.rest(now);
                    match gate.acquire(at(now)) {
                        SendDecision::Send => {
                            prop_assert!(now >= model.paused_until(), "a call passed while the target was paused");
                            sent.push(now);
                        }
                        SendDecision::Wait(wait) => {
                            prop_assert!(!wait.is_zero() && model.last.is_some());
                            let pause = model.paused_until().saturating_sub(now);
                            prop_assert!(wait >= Duration::from_millis(pause));
                            // A caller that waits as long as required gets through, if no other was first.
                            prop_assert_eq!(gate.clone().acquire(at(now) + wait.max(Duration::from_secs(2))), SendDecision::Send);
                        }
                    }
                }
                Step::Answer { which } if !sent.is_empty() => {
                    let call = sent.swap_remove(which % sent.len());
                    gate.answered(at(call), at(now));
                    if call >= model.paused_until() {
                        model.row = 0;
                    }
                    model.rest(now);
                }
                Step::Throttle { which, hint } if !sent.is_empty() => {
                    let call = sent.swap_remove(which % sent.len());
                    let failure = hint.map_or(Failure::of(FailureKind::Throttled), hinted);
                    prop_assert_eq!(gate.throttled(&failure, at(call), at(now)), model.throttled(hint, call, now));
                }
                Step::Answer { .. } | Step::Throttle { .. } => {}
            }
            prop_assert_eq!(gate.paused_for(at(now)), Duration::from_millis(model.paused_until().saturating_sub(now)));
            prop_assert_eq!(gate.is_active(), model.last.is_some());
        }
    }
}
