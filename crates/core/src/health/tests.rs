use super::{DOUBT, HealthEvidence, HealthTransition, PROBE_INTERVAL, TargetCondition, TargetHealth};
use crate::failure::{AttemptOutcome, Failure, FailureKind};
use crate::time::{Now, Timestamp};
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_assert_eq, prop_oneof, proptest};
use std::time::Duration;

use HealthEvidence::{Answered, AnsweredSlowly, Problem};
use TargetCondition::{CredentialRejected, Failing, Healthy, Slow, Unknown, UnknownModel, Unreachable};

fn at(seconds: u64) -> Now {
    Now::default() + Duration::from_secs(seconds)
}

/// Records evidence of a call that took no time. Returns the new condition if it changed.
fn record(health: &mut TargetHealth, evidence: HealthEvidence, seconds: u64) -> Option<TargetCondition> {
    let now = at(seconds);
    health.record(evidence, now.monotonic, now, || "error".into()).map(|change| change.to)
}

#[test]
fn one_rejection_of_the_credential_is_enough_and_one_answer_ends_it() {
    let mut health = TargetHealth::new(at(0));
    assert_eq!(record(&mut health, Answered, 1), None);
    assert_eq!(health.condition(), Healthy);
    assert_eq!(record(&mut health, Problem(CredentialRejected), 100), Some(CredentialRejected));
    assert_eq!(record(&mut health, Problem(CredentialRejected), 101), None);
    assert_eq!((health.occurrences(), health.since()), (2, at(100)));
    assert_eq!(health.last_error().map(|error| (error.at, &*error.text)), Some((at(101), "error")));
    assert_eq!(record(&mut health, Answered, 400), Some(Healthy));
}

#[test]
fn a_statement_that_the_next_answer_disproves_is_doubted_for_a_while() {
    let mut health = TargetHealth::new(at(0));
    record(&mut health, Answered, 1);
    assert_eq!(record(&mut health, Problem(UnknownModel), 10), Some(UnknownModel));
    assert_eq!(record(&mut health, Answered, 11), Some(Healthy));
    for second in 12..20 {
        assert_eq!(record(&mut health, Problem(UnknownModel), second), None);
        assert_eq!(record(&mut health, Answered, second), None);
    }
    assert_eq!([21, 22].map(|second| record(&mut health, Problem(UnknownModel), second)), [None; 2]);
    assert_eq!(record(&mut health, Problem(UnknownModel), 23), Some(UnknownModel));
    assert_eq!(record(&mut health, Answered, 24), Some(Healthy), "three in a row are no odd request");
    assert_eq!(record(&mut health, Problem(UnknownModel), 12 + DOUBT.as_secs()), Some(UnknownModel));
}

#[test]
fn other_problems_need_three_calls_over_five_seconds_without_a_good_answer() {
    let mut health = TargetHealth::new(at(0));
    assert_eq!([0, 1, 2, 3, 4].map(|second| record(&mut health, Problem(Failing), second)), [None; 5]);
    assert_eq!(record(&mut health, Answered, 4), None);
    assert_eq!([5, 6, 9].map(|second| record(&mut health, Problem(Failing), second)), [None; 3]);
    assert_eq!(record(&mut health, Problem(Unreachable), 10), Some(Unreachable), "the latest names it");
    assert_eq!(health.occurrences(), 1);
    assert_eq!([11, 12].map(|second| record(&mut health, Problem(Failing), second)), [None; 2]);
    assert_eq!(record(&mut health, Problem(Failing), 16), Some(Failing));
}

#[test]
fn an_answer_to_a_call_from_before_the_rejection_proves_nothing() {
    let mut health = TargetHealth::new(at(0));
    record(&mut health, Problem(CredentialRejected), 10);
    let late = health.record(Answered, at(9).monotonic, at(20), || "".into());
    assert_eq!((late, health.condition()), (None, CredentialRejected));
}

#[test]
fn a_slow_answer_shows_that_the_credential_is_accepted() {
    let mut health = TargetHealth::new(at(0));
    record(&mut health, Problem(CredentialRejected), 10);
    assert_eq!(record(&mut health, AnsweredSlowly, 20), Some(Healthy));
    assert_eq!(
        [21, 23, 26].map(|second| record(&mut health, AnsweredSlowly, second)),
        [None, None, Some(Slow)]
    );
}

#[test]
fn one_probe_per_interval_is_allowed_while_a_stated_condition_lasts() {
    let mut health = TargetHealth::new(at(0));
    assert!(!health.claim_probe(at(0).monotonic));
    record(&mut health, Problem(CredentialRejected), 10);
    let end = 10 + PROBE_INTERVAL.as_secs();
    assert_eq!(
        [10, end - 1, end, end].map(|second| health.claim_probe(at(second).monotonic)),
        [false, false, true, false]
    );
}

#[test]
fn only_a_configured_model_that_is_unknown_is_a_problem_of_the_target() {
    let of = |kind, configured| {
        HealthEvidence::of(&AttemptOutcome::Failed(Failure::of(kind)), Duration::from_secs(5), configured)
    };
    assert_eq!(of(FailureKind::NotFound, true), Some(Problem(UnknownModel)));
    assert_eq!(of(FailureKind::NotFound, false), None);
    for kind in FailureKind::ALL {
        let is_callers = matches!(kind, FailureKind::BadRequest | FailureKind::TooLong);
        assert_eq!(of(kind, true).is_none(), is_callers, "{kind:?}");
    }
}

/// Keeps everything and recomputes everything.
#[derive(Default)]
struct Model {
    /// Second and problem of every call since the last good answer.
    problems: Vec<(u64, TargetCondition)>,
    condition: Option<(TargetCondition, u64, u64)>,
    doubts_until: u64,
}

impl Model {
    fn condition(&self) -> TargetCondition {
        self.condition.map_or(Unknown, |(condition, ..)| condition)
    }

    fn record(
        &mut self,
        evidence: HealthEvidence,
        sent: u64,
        now: u64,
    ) -> Option<(TargetCondition, TargetCondition)> {
        let before = self.condition();
        let (_, since, seen) = self.condition.unwrap_or((Unknown, 0, 0));
        let problem = match evidence {
            Problem(problem) => problem,
            AnsweredSlowly if !before.is_stated() => Slow,
            _ => {
                self.problems.clear();
                if before == Healthy || before.is_problem() && sent < since {
                    return None;
                }
                if before.is_stated() && now - since < 60 && seen < 3 {
                    self.doubts_until = now + 600;
                }
                self.condition = Some((Healthy, now, 0));
                return before.is_problem().then_some((before, Healthy));
            }
        };
        self.problems.push((now, problem));
        if problem == before {
            self.condition = Some((before, since, seen + 1));
            return None;
        }
        let same: Vec<u64> =
            self.problems.iter().rev().take_while(|(_, kind)| *kind == problem).map(|(at, _)| *at).collect();
        let is_long = |times: &[u64]| times.len() >= 3 && now - times.iter().min().unwrap_or(&now) >= 5;
        let all: Vec<u64> = self.problems.iter().map(|(at, _)| *at).collect();
        let begins = if problem.is_stated() {
            now >= self.doubts_until || same.len() >= 3
        } else if before.is_problem() {
            is_long(&same)
        } else {
            is_long(&all)
        };
        if !begins {
            return None;
        }
        self.condition = Some((problem, now, same.len() as u64));
        Some((before, problem))
    }
}

fn evidence() -> impl Strategy<Value = HealthEvidence> {
    let problems = TargetCondition::ALL.into_iter().filter(|condition| condition.is_problem());
    prop_oneof![
        4 => Just(Answered),
        1 => Just(AnsweredSlowly),
        5 => proptest::sample::select(problems.collect::<Vec<_>>()).prop_map(Problem),
    ]
}

proptest! {
    #[test]
    fn health_does_what_the_model_says(steps in vec((evidence(), 0_u64..90, 0_u64..20, any::<bool>()), 1..150)) {
        let (mut health, mut model) = (TargetHealth::new(at(0)), Model::default());
        let mut now = 0;
        for (evidence, wait, took, is_fast) in steps {
            now += if is_fast { wait / 40 } else { wait };
            let sent = now.saturating_sub(took);
            let change = health.record(evidence, at(sent).monotonic, at(now), || "e".into());
            let expected = model.record(evidence, sent, now);
            prop_assert_eq!(change.map(|HealthTransition { from, to, .. }| (from, to)), expected);
            prop_assert_eq!(health.condition(), model.condition());
            let (_, since, seen) = model.condition.unwrap_or((Unknown, 0, 0));
            prop_assert_eq!((health.since(), health.occurrences()), (at(since), seen));
            prop_assert_eq!(health.is_settled(), model.condition() == Healthy && model.problems.is_empty());
            prop_assert_eq!(health.since().monotonic - Timestamp::ZERO, Duration::from_secs(since));
        }
    }
}
