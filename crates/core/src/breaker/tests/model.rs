//! Property test of the breaker against a slow reference model that keeps every call and recomputes everything.

use super::super::{BreakerPermit, BreakerPhase};
use super::{answered_after, ask, at, bad, failed, good, phase, sonnet};
use crate::failure::{AttemptOutcome, FailureKind, Health};
use crate::invariant::{no_call_while_open, probes_within_stage};
use proptest::collection::vec;
use proptest::prelude::{Strategy, prop_assert, prop_assert_eq, prop_oneof, proptest};
use std::time::Duration;

const STAGES: [usize; 3] = [1, 3, 10];

#[derive(Clone, Debug)]
enum Step {
    Wait(u64),
    Ask,
    Answer { which: usize, outcome: usize },
    Drop { which: usize },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0_u64..4_000).prop_map(Step::Wait),
        1 => (10_000_u64..70_000).prop_map(Step::Wait),
        8 => proptest::prelude::Just(Step::Ask),
        8 => (0_usize..64, 0_usize..9).prop_map(|(which, outcome)| Step::Answer { which, outcome }),
        1 => (0_usize..64).prop_map(|which| Step::Drop { which }),
    ]
}

fn outcomes() -> [AttemptOutcome; 9] {
    [
        good(),
        answered_after(9_000),
        bad(),
        bad(),
        failed(FailureKind::StartTimeout),
        failed(FailureKind::BadRequest),
        whole(9_000, None),
        whole(9_000, Some(8_000)),
        whole(9_000, Some(10_000)),
    ]
}

fn whole(took: u64, usual: Option<u64>) -> AttemptOutcome {
    let usual = usual.map(Duration::from_millis);
    AttemptOutcome::SucceededUnstreamed { duration: Duration::from_millis(took), expected: usual }
}

/// The reference model's state.
#[derive(Default)]
struct Model {
    /// The number of states entered so far, which is the generation.
    entered: u64,
    open_until: Option<u64>,
    stage: Option<usize>,
    results: Vec<(u64, Health, bool)>,
    /// Probes in flight: name and expiry.
    probes: Vec<(u64, u64)>,
}

impl Model {
    fn enter(&mut self, open_until: Option<u64>, stage: Option<usize>) {
        *self = Self { entered: self.entered + 1, open_until, stage, ..Self::default() };
    }

    fn pass_time(&mut self, now: u64) {
        loop {
            let lost = self.probes.iter().map(|(_, expires)| *expires).min();
            if self.open_until.is_some_and(|until| until <= now) {
                self.enter(None, Some(0));
            } else if let Some(lost) = lost.filter(|lost| *lost <= now) {
                self.enter(Some(lost + 60_000), None);
            } else {
                break;
            }
        }
    }

    fn successes(&self) -> usize {
        self.results.iter().filter(|(_, health, _)| matches!(health, Health::Good | Health::Slow)).count()
    }

    fn may_pass(&self) -> bool {
        match (self.open_until, self.stage) {
            (Some(_), _) => false,
            (None, Some(stage)) => self.probes.len() + self.successes() < STAGES[stage],
            (None, None) => true,
        }
    }

    fn record(&mut self, name: u64, generation: u64, outcome: &AttemptOutcome, now: u64) {
        let (health, is_unstreamed) = (outcome.health(Duration::from_millis(3_800)), outcome.is_unstreamed());
        self.probes.retain(|(probe, _)| *probe != name);
        if generation != self.entered || health == Health::Unknown {
            return;
        }
        self.results.push((now, health, is_unstreamed));
        let count = |results: &[(u64, Health, bool)], counted: &[Health]| {
            results.iter().filter(|(_, health, _)| counted.contains(health)).count()
        };
        let slow = [Health::Slow, Health::TimedOut];
        if let Some(stage) = self.stage {
            let all = self.results.len();
            let too_slow = all >= STAGES[stage] && 2 * count(&self.results, &slow) >= all;
            if health == Health::Bad || too_slow {
                self.enter(Some(now + 60_000), None);
            } else if self.successes() >= STAGES[stage] {
                self.enter(None, (stage < 2).then_some(stage + 1));
            }
            return;
        }
        let row = self
            .results
            .iter()
            .rev()
            .map(|(_, health, _)| *health)
            .filter(|health| *health != Health::TimedOut);
        let row = row.take_while(|health| *health == Health::Bad).count();
        let recent: Vec<_> =
            self.results.iter().filter(|(when, ..)| when / 6_000 + 10 > now / 6_000).copied().collect();
        let reaches = |calls: &[(u64, Health, bool)], counted: &[Health]| {
            calls.len() >= 10 && 2 * count(calls, counted) >= calls.len()
        };
        // Whole answers and streams are slow each by their own share.
        let (whole, streams): (Vec<_>, Vec<_>) =
            recent.iter().copied().partition(|(.., is_unstreamed)| *is_unstreamed);
        let rate = reaches(&recent, &[Health::Bad]) || reaches(&whole, &slow) || reaches(&streams, &slow);
        if row >= 5 || rate {
            self.enter(Some(now + 60_000), None);
        }
    }

    fn phase(&self) -> BreakerPhase {
        match (self.open_until, self.stage) {
            (Some(_), _) => BreakerPhase::Open,
            (None, Some(stage)) => BreakerPhase::HalfOpen { stage },
            (None, None) => BreakerPhase::Closed,
        }
    }
}

proptest! {
    #[test]
    fn the_breaker_matches_the_reference_model(steps in vec(step(), 1..200)) {
        let mut breaker = sonnet();
        let mut model = Model::default();
        let mut held: Vec<(BreakerPermit, u64, u64)> = Vec::new();
        let (mut now, mut name) = (0, 0);
        for step in steps {
            match step {
                Step::Wait(millis) => {
                    now += millis;
                    // A probe that has expired but was not noticed could still be returned; notice it at once, as the
                    // model does.
                    let _ = breaker.report_to_fleet(0, at(now));
                }
                Step::Ask => {
                    model.pass_time(now);
                    let permit_result = ask(&mut breaker, at(now));
                    prop_assert_eq!(permit_result.is_ok(), model.may_pass());
                    if let Ok(permit) = permit_result {
                        name += 1;
                        prop_assert_eq!(no_call_while_open(at(now), model.open_until.map(at)), Ok(()));
                        if let Some(stage) = model.stage {
                            model.probes.push((name, now + 26_000));
                            let [under_way, succeeded, size] = [model.probes.len(), model.successes(), STAGES[stage]]
                                .map(|count| u32::try_from(count).unwrap());
                            prop_assert_eq!(probes_within_stage(under_way, succeeded, size), Ok(()));
                        }
                        held.push((permit, name, model.entered));
                    }
                }
                Step::Answer { which, outcome } if !held.is_empty() => {
                    let (permit, name, generation) = held.swap_remove(which % held.len());
                    let outcome = outcomes()[outcome];
                    model.pass_time(now);
                    model.record(name, generation, &outcome, now);
                    breaker.report(permit, &outcome, at(now));
                }
                Step::Drop { which } if !held.is_empty() => {
                    let (permit, name, _) = held.swap_remove(which % held.len());
                    // Abandoning needs no clock, so nothing expires by it.
                    model.probes.retain(|(probe, _)| *probe != name);
                    breaker.abandon(permit);
                }
                Step::Answer { .. } | Step::Drop { .. } => {}
            }
            model.pass_time(now);
            prop_assert_eq!(phase(&breaker, at(now)), model.phase());
        }
        // Liveness: once lost probes and the opening have expired, a call gets through.
        prop_assert!(ask(&mut breaker, at(now + 26_000 + 60_000)).is_ok());
    }
}
