use super::super::{HedgeDecision, HedgeOptions, HedgePolicy, HedgeRefusal, HedgeSituation};
use super::{at, millis};
use crate::credit::{CreditUse, RetryBudget, RetryBudgetOptions};
use crate::pressure::Pressure;

fn on() -> HedgePolicy {
    let policy = HedgePolicy::new(HedgeOptions { enabled: true, ..HedgeOptions::default() }).unwrap();
    for _ in 0..100 {
        policy.first_attempt(at(0));
    }
    policy
}

fn budget() -> RetryBudget {
    RetryBudget::new(RetryBudgetOptions::default()).unwrap()
}

fn slow() -> HedgeSituation {
    HedgeSituation {
        now: at(1_000),
        started: at(0),
        slow_start: Some(millis(800)),
        pressure: Pressure::Normal,
        has_content: false,
        has_other_target: true,
        extra_calls_barred: false,
    }
}

fn refusal(decision: &HedgeDecision) -> Option<HedgeRefusal> {
    match decision {
        HedgeDecision::No(refusal) => Some(*refusal),
        HedgeDecision::Hedge(_) | HedgeDecision::Wait(_) => None,
    }
}

#[test]
fn it_is_off_unless_switched_on() {
    let off = HedgePolicy::new(HedgeOptions::default()).unwrap();
    assert_eq!(refusal(&off.decide(&slow(), &budget())), Some(HedgeRefusal::Off));
}

#[test]
fn each_reason_against_a_hedge_is_named() {
    for (situation, expected) in [
        (HedgeSituation { has_content: true, ..slow() }, HedgeRefusal::HasContent),
        (HedgeSituation { has_other_target: false, ..slow() }, HedgeRefusal::NoOtherTarget),
        (HedgeSituation { extra_calls_barred: true, ..slow() }, HedgeRefusal::ExtraCallsBarred),
        (HedgeSituation { pressure: Pressure::Slight, ..slow() }, HedgeRefusal::Pressure),
        (HedgeSituation { slow_start: None, ..slow() }, HedgeRefusal::Unmeasured),
    ] {
        assert_eq!(refusal(&on().decide(&situation, &budget())), Some(expected));
    }
}

#[test]
fn it_comes_when_the_first_is_slower_than_usual_and_not_before() {
    let wait = |now, slow_start| match on()
        .decide(&HedgeSituation { now: at(now), slow_start, ..slow() }, &budget())
    {
        HedgeDecision::Wait(wait) => Some(wait),
        HedgeDecision::Hedge(_) => None,
        HedgeDecision::No(refusal) => panic!("{refusal:?}"),
    };
    assert_eq!(wait(300, Some(millis(800))), Some(millis(500)));
    assert_eq!(wait(799, Some(millis(800))), Some(millis(1)));
    assert_eq!(wait(800, Some(millis(800))), None);
    // A target that usually answers instantly still gets the minimum wait.
    assert_eq!(wait(20, Some(millis(5))), Some(millis(80)));
    assert_eq!(wait(100, Some(millis(5))), None);
}

#[test]
fn hedges_add_at_most_a_twentieth_and_draw_on_the_retry_budget() {
    let (policy, budget) = (on(), budget());
    for _ in 0..1_000 {
        budget.deposit(at(1_000));
    }
    let held: Vec<HedgeDecision> = (0..6).map(|_| policy.decide(&slow(), &budget)).collect();
    let hedged = held.iter().filter(|decision| matches!(decision, HedgeDecision::Hedge(_))).count();
    assert_eq!(hedged, 5);
    assert_eq!(refusal(&held[5]), Some(HedgeRefusal::Share));
    assert_eq!(budget.in_flight(), 5, "the sixth took no credit");
    drop(held);
    assert_eq!(budget.in_flight(), 0);

    // With the retry budget spent there is no hedge, and the share is not charged.
    let (policy, empty) = (on(), self::budget());
    let credits: Vec<_> = (0..3).map(|_| empty.withdraw(CreditUse::Hedge, at(1_000)).unwrap()).collect();
    assert_eq!(refusal(&policy.decide(&slow(), &empty)), Some(HedgeRefusal::Budget));
    drop(credits);
    let hedges = (0..9).filter(|_| matches!(policy.decide(&slow(), &empty), HedgeDecision::Hedge(_))).count();
    assert_eq!(hedges, 5);
}

#[test]
fn a_share_that_makes_no_sense_cannot_be_built() {
    let error = HedgePolicy::new(HedgeOptions { percent: 0.0, ..HedgeOptions::default() }).unwrap_err();
    assert_eq!(error.to_string(), "percent: 0% must be more than 0%");
}
