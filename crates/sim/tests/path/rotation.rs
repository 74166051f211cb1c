//! Several keys of one target: which one is used, and what is seen of the others.

use crate::shop::{Numbers, PRIME, Seen, Shop, body, callers};
use crate::target::{ScriptedReply, ScriptedTarget, whole};
use seawall_core::failure::FailureKind;
use seawall_core::health::TargetCondition;
use seawall_core::key_pool::{KeyCondition, REJECTED_FOR};
use seawall_pipeline::{AttemptCause, AttemptOutcomeKind, Tier};
use seawall_sim::World;
use std::sync::Arc;
use std::time::Duration;

/// A target with two keys, each of which reaches a scripted target of its own, and a fast one beside it.
struct TwoKeys {
    shop: Shop,
    first: Arc<ScriptedTarget>,
    second: Arc<ScriptedTarget>,
    fast: Arc<ScriptedTarget>,
}

impl TwoKeys {
    fn new(first: ScriptedReply, second: ScriptedReply) -> Self {
        let world = World::new(5);
        let target = |reply| ScriptedTarget::new(&world, &[], reply);
        let (first, second, fast) = (target(first), target(second), target(ScriptedReply::Answer));
        let models = [
            ("strong-model", 3_000_000_000, Arc::<ScriptedTarget>::clone(&first) as Arc<_>),
            ("fast-model", 1_000_000_000, Arc::<ScriptedTarget>::clone(&fast) as Arc<_>),
        ];
        let more_keys = vec![Arc::<ScriptedTarget>::clone(&second) as Arc<_>];
        let numbers = Numbers { more_keys, records_events: true, ..Numbers::default() };
        let shop = Shop::with_options(&world, callers(&[(PRIME, Tier::Prime)]), models, &numbers);
        Self { shop, first, second, fast }
    }

    fn ask(&self) -> Seen {
        self.shop.ask_and_wait(PRIME, &body(false))
    }

    fn wait(&self, time: Duration) {
        let world = &self.shop.world;
        world.spawn(world.sleep(time));
        world.run();
    }

    fn calls(&self) -> [usize; 3] {
        [&self.first, &self.second, &self.fast].map(|target| target.calls())
    }

    fn keys(&self) -> Vec<KeyCondition> {
        self.shop.pipeline.targets().iter().flat_map(|target| &target.keys).map(|key| key.condition).collect()
    }

    fn condition(&self) -> TargetCondition {
        let targets = self.shop.pipeline.targets();
        targets.iter().find(|target| &*target.name == "strong").unwrap().health.condition
    }
}

#[test]
fn a_rejected_key_costs_one_attempt_and_its_target_stays_healthy() {
    for (status, condition, kind) in [
        (401, KeyCondition::Rejected, FailureKind::Unauthorized),
        (403, KeyCondition::Rejected, FailureKind::Unauthorized),
        (402, KeyCondition::QuotaExhausted, FailureKind::QuotaExhausted),
        (429, KeyCondition::Throttled, FailureKind::Throttled),
    ] {
        let pair = TwoKeys::new(ScriptedReply::Status(status), ScriptedReply::Answer);
        for _ in 0..3 {
            assert_eq!(pair.ask(), Seen::Unstreamed(whole()), "{status}");
        }
        assert_eq!(pair.calls(), [1, 3, 0], "{status}");
        assert_eq!(pair.keys(), [condition, KeyCondition::Usable]);
        assert_eq!(pair.condition(), TargetCondition::Healthy);
        let records = pair.shop.records();
        let attempts: Vec<_> =
            records[0].first_attempts.iter().map(|attempt| (attempt.cause, attempt.outcome)).collect();
        assert_eq!(
            attempts,
            [
                (AttemptCause::First, AttemptOutcomeKind::Failed(kind)),
                (AttemptCause::Rotation, AttemptOutcomeKind::Succeeded)
            ]
        );
        assert!(records[0].first_attempts[1].delay.is_zero(), "another key is used at once");
        assert_eq!(records[1].first_attempts[0].cause, AttemptCause::First);
        let events = pair.shop.events();
        let expected = format!("key 1 of strong {}", condition.name());
        assert_eq!(events.iter().filter(|(_, text)| *text == expected).count(), 1);
        assert!(
            !events.iter().any(|(_, text)| text.starts_with("health strong") || text.starts_with("pressure"))
        );
    }
}

#[test]
fn a_rejected_key_is_probed_by_one_request_after_some_minutes() {
    let pair = TwoKeys::new(ScriptedReply::Status(401), ScriptedReply::Answer);
    pair.ask();
    pair.wait(REJECTED_FOR);
    assert_eq!(pair.ask(), Seen::Unstreamed(whole()));
    assert_eq!(pair.calls(), [2, 2, 0]);
    pair.first.then(ScriptedReply::Answer);
    pair.ask();
    assert_eq!(pair.calls(), [2, 3, 0], "it is set aside again");
    pair.wait(REJECTED_FOR);
    pair.ask();
    pair.ask();
    assert_eq!((pair.calls(), pair.keys()), ([4, 3, 0], vec![KeyCondition::Usable; 2]));
}

#[test]
fn a_throttled_key_is_set_aside_for_half_a_minute_if_no_wait_is_named() {
    let pair = TwoKeys::new(ScriptedReply::Status(429), ScriptedReply::Answer);
    pair.ask();
    pair.first.then(ScriptedReply::Answer);
    pair.wait(Duration::from_secs(29));
    pair.ask();
    assert_eq!(pair.calls(), [1, 2, 0]);
    pair.wait(Duration::from_secs(2));
    pair.ask();
    assert_eq!(pair.calls(), [2, 2, 0]);
}

#[test]
fn with_all_keys_rejected_the_target_is_and_the_next_one_answers() {
    let pair = TwoKeys::new(ScriptedReply::Status(401), ScriptedReply::Status(401));
    assert_eq!(pair.ask(), Seen::Unstreamed(whole()));
    assert_eq!(pair.calls(), [1, 1, 1]);
    assert_eq!(pair.condition(), TargetCondition::CredentialRejected);
    let record = pair.shop.records().remove(0);
    let causes: Vec<_> = record.first_attempts.iter().map(|attempt| attempt.cause.label()).collect();
    assert_eq!(causes, ["first", "rotation", "failover"]);
    // As with a single key, the next request tries the target again.
    pair.ask();
    assert_eq!(pair.calls(), [2, 1, 2]);
}

#[test]
fn a_failure_that_no_other_key_would_avoid_is_not_rotated() {
    let pair = TwoKeys::new(ScriptedReply::Status(500), ScriptedReply::Answer);
    assert_eq!(pair.ask(), Seen::Unstreamed(whole()));
    let [_, second, _] = pair.calls();
    assert_eq!((second, pair.keys()), (0, vec![KeyCondition::Usable; 2]));
}

#[test]
fn a_rotation_takes_a_credit_and_without_one_the_next_target_is_called() {
    let pair = TwoKeys::new(ScriptedReply::Status(401), ScriptedReply::Answer);
    // All arrive before the first rejection, so each of them would rotate.
    for _ in 0..200 {
        pair.shop.ask(PRIME, &body(false), None);
    }
    pair.shop.world.run();
    let [first, second, fast] = pair.calls();
    assert_eq!((first, second + fast), (200, 200));
    assert!((3..=100).contains(&second) && fast > 0, "{second} rotations, {fast} failovers");
    let records = pair.shop.records();
    for record in records {
        use seawall_pipeline::RequestOutcome::{Answered, Degraded};
        let expected = if record.target.as_deref() == Some("fast") { Degraded } else { Answered };
        assert_eq!(record.outcome, expected, "{:?}", record.target);
    }
}
