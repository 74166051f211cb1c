use super::{
    KeyCondition, KeyEvidence, KeyPool, KeyReport, MAX_SET_ASIDE, PROBE_TIMEOUT, REJECTED_FOR, THROTTLED_FOR,
};
use crate::failure::{Failure, FailureKind};
use crate::time::{Now, Timestamp};
use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, proptest};
use std::time::Duration;

fn at(seconds: u64) -> Now {
    Now::default() + Duration::from_secs(seconds)
}

fn fail(pool: &mut KeyPool, key: usize, failure: Failure, seconds: u64) -> KeyReport {
    let now = at(seconds);
    pool.record(key, KeyEvidence::Failed(failure), now.monotonic, now, || "error".into())
}

fn throttled(seconds: u64) -> Failure {
    Failure::of(FailureKind::Throttled).with_retry_after(Duration::from_secs(seconds))
}

fn chosen(pool: &mut KeyPool, seconds: u64) -> usize {
    pool.choose(at(seconds).monotonic)
}

#[test]
fn a_rejected_key_is_set_aside_and_then_probed_by_one_call() {
    let mut pool = KeyPool::new(2, at(0));
    let report = fail(&mut pool, 0, Failure::of(FailureKind::Unauthorized), 10);
    assert!(report.spares_target && report.transition.is_some());
    let due = 10 + REJECTED_FOR.as_secs();
    assert_eq!([11, due - 1, due, due, due + 1].map(|second| chosen(&mut pool, second)), [1, 1, 0, 1, 1]);
    // A probe without an outcome does not keep the key aside for ever.
    assert_eq!(chosen(&mut pool, due + PROBE_TIMEOUT.as_secs()), 0);
    let accepted = pool.record(0, KeyEvidence::Accepted, at(due).monotonic, at(due + 40), || "".into());
    assert_eq!(accepted.transition.map(|change| change.to), Some(KeyCondition::Usable));
    assert_eq!(chosen(&mut pool, due + 41), 0);
}

#[test]
fn a_throttled_key_is_set_aside_for_the_wait_that_the_vendor_names() {
    let mut pool = KeyPool::new(2, at(0));
    assert!(fail(&mut pool, 0, throttled(7), 0).spares_target);
    assert_eq!([6, 7].map(|second| chosen(&mut pool, second)), [1, 0]);
    fail(&mut pool, 0, Failure::of(FailureKind::Throttled), 10);
    let end = 10 + THROTTLED_FOR.as_secs();
    assert_eq!([end - 1, end].map(|second| chosen(&mut pool, second)), [1, 0]);
}

#[test]
fn with_all_keys_set_aside_the_soonest_is_used_and_the_target_is_told_when() {
    let mut pool = KeyPool::new(2, at(0));
    fail(&mut pool, 0, throttled(20), 0);
    let report = fail(&mut pool, 1, throttled(60), 1);
    assert_eq!((report.spares_target, report.available_in), (false, Some(Duration::from_secs(19))));
    assert_eq!([2, 19].map(|second| chosen(&mut pool, second)), [0, 0]);
    let views = pool.views(at(20).monotonic);
    let states: Vec<_> =
        views.iter().map(|view| (view.condition, view.set_aside_for.map(|left| left.as_secs()))).collect();
    assert_eq!(states, [(KeyCondition::Usable, None), (KeyCondition::Throttled, Some(41))]);
}

#[test]
fn a_failure_of_the_vendor_says_nothing_about_a_key() {
    let mut pool = KeyPool::new(2, at(0));
    for kind in [FailureKind::ServerFault, FailureKind::Overloaded, FailureKind::BadRequest] {
        assert_eq!(fail(&mut pool, 0, Failure::of(kind), 0), KeyReport::default());
    }
    assert_eq!(chosen(&mut pool, 0), 0);
}

#[test]
fn an_answer_to_a_call_from_before_the_rejection_restores_nothing() {
    let mut pool = KeyPool::new(2, at(0));
    fail(&mut pool, 0, Failure::of(FailureKind::Unauthorized), 10);
    let late = pool.record(0, KeyEvidence::Accepted, at(9).monotonic, at(11), || "".into());
    assert_eq!((late, chosen(&mut pool, 12)), (KeyReport::default(), 1));
}

/// Keeps every failure of every key since it last was accepted.
#[derive(Clone, Debug, Default)]
struct Key {
    condition: Option<KeyCondition>,
    since: u64,
    until: u64,
    probed_until: u64,
}

impl Key {
    fn is_usable(&self, now: u64) -> bool {
        self.condition.is_none() || self.condition == Some(KeyCondition::Throttled) && now >= self.until
    }
}

#[derive(Clone, Copy, Debug)]
enum Outcome {
    Accepted { took: u64 },
    Failed(FailureKind, Option<u64>),
    Lost,
}

fn outcome() -> impl Strategy<Value = Outcome> {
    let kinds = vec![
        FailureKind::Unauthorized,
        FailureKind::QuotaExhausted,
        FailureKind::Throttled,
        FailureKind::Throttled,
        FailureKind::ServerFault,
    ];
    proptest::prop_oneof![
        (0_u64..20).prop_map(|took| Outcome::Accepted { took }),
        (proptest::sample::select(kinds), proptest::option::of(1_u64..9_000))
            .prop_map(|(kind, wait)| Outcome::Failed(kind, wait)),
        proptest::prelude::Just(Outcome::Lost),
    ]
}

proptest! {
    #[test]
    fn the_pool_does_what_the_model_says(keys in 1_usize..5, steps in vec((0_u64..200, any::<bool>(), outcome()), 1..120)) {
        let (mut pool, mut model) = (KeyPool::new(keys, at(0)), vec![Key::default(); keys]);
        let mut now = 0;
        for (wait, is_fast, outcome) in steps {
            now += if is_fast { wait / 50 } else { wait };
            let due = model.iter().position(|key| {
                matches!(key.condition, Some(KeyCondition::Rejected | KeyCondition::QuotaExhausted))
                    && now >= key.until && now >= key.probed_until
            });
            let usable = model.iter().position(|key| key.is_usable(now));
            let expected = due.or(usable).unwrap_or_else(|| {
                let soonest = model.iter().map(|key| key.until).min().unwrap();
                model.iter().position(|key| key.until == soonest).unwrap()
            });
            let chosen = pool.choose(at(now).monotonic);
            prop_assert_eq!(chosen, expected);
            // A key that is set aside is never used while another one is usable, except for one probe.
            prop_assert!(model[chosen].is_usable(now) || due.is_some() || usable.is_none());
            if let Some(due) = due {
                model[due].probed_until = now + PROBE_TIMEOUT.as_secs();
            }
            match outcome {
                Outcome::Lost => {}
                Outcome::Accepted { took } => {
                    let sent = now.saturating_sub(took);
                    pool.record(chosen, KeyEvidence::Accepted, at(sent).monotonic, at(now), || "".into());
                    if sent >= model[chosen].since {
                        model[chosen] = Key::default();
                    }
                }
                Outcome::Failed(kind, wait) => {
                    let failure = Failure { retry_after: wait.map(Duration::from_secs), ..Failure::of(kind) };
                    let report = fail(&mut pool, chosen, failure, now);
                    let key = &mut model[chosen];
                    let condition = match kind {
                        FailureKind::Unauthorized => KeyCondition::Rejected,
                        FailureKind::QuotaExhausted => KeyCondition::QuotaExhausted,
                        FailureKind::Throttled => KeyCondition::Throttled,
                        _ => {
                            prop_assert_eq!(report, KeyReport::default());
                            continue;
                        }
                    };
                    let wait = if condition == KeyCondition::Throttled { wait.unwrap_or(30) } else { wait.unwrap_or(0).max(300) };
                    let until = now + wait.min(MAX_SET_ASIDE.as_secs());
                    if key.condition == Some(condition) {
                        key.until = key.until.max(until);
                    } else {
                        (key.since, key.until) = (now, until);
                    }
                    (key.condition, key.probed_until) = (Some(condition), now);
                    prop_assert_eq!(report.spares_target, model.iter().any(|key| key.is_usable(now)));
                    let throttled = model.iter().filter(|key| key.condition == Some(KeyCondition::Throttled));
                    let soonest = throttled.map(|key| Duration::from_secs(key.until.saturating_sub(now))).min();
                    prop_assert_eq!(report.available_in, soonest.filter(|_| !report.spares_target));
                }
            }
            prop_assert_eq!(pool.has_usable(at(now).monotonic), model.iter().any(|key| key.is_usable(now)));
            prop_assert!(at(now).monotonic >= Timestamp::ZERO);
        }
    }
}
