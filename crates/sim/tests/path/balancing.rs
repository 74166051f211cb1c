//! Balancing among targets of the same model, with the simulated model's real faults and its prompt cache.

use crate::shop::{Numbers, PRIME, Shop, callers};
use crate::target::{ScriptedReply, ScriptedTarget};
use seawall_core::balance::BalanceStrategy;
use seawall_model::engine::{Engine, ModelOptions, Pace};
use seawall_model::prompt_cache::PromptCacheOptions;
use seawall_model::shared::SharedModel;
use seawall_pipeline::{RequestOutcome, Tier};
use seawall_provider::Target;
use seawall_sim::{ModelTarget, World};
use seawall_wire::dialect::DialectId;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Three targets of one model, and a fast one that stands between the first and the others in the route.
struct Replicas {
    shop: Shop,
    strong: Vec<Arc<ScriptedTarget>>,
    fast: Arc<ScriptedTarget>,
}

impl Replicas {
    fn new(strategy: BalanceStrategy, weights: &[u32]) -> Self {
        let world = World::new(11);
        let target = |_| ScriptedTarget::new(&world, &[], ScriptedReply::Answer);
        let (strong, fast): (Vec<_>, _) = ((0..3).map(target).collect(), target(3));
        let upstream = |index: usize| Arc::<ScriptedTarget>::clone(&strong[index]) as Arc<_>;
        let models = [
            ("strong-model", 3_000_000_000, upstream(0)),
            ("fast-model", 1_000_000_000, Arc::<ScriptedTarget>::clone(&fast) as Arc<_>),
        ];
        // The second position is the fast target's.
        let weights = [&weights[..1], &[1], &weights[1..]].concat();
        let numbers = Numbers {
            replicas: vec![upstream(1), upstream(2)],
            balance: (strategy, weights),
            ..Numbers::default()
        };
        let shop = Shop::with_options(&world, callers(&[(PRIME, Tier::Prime)]), models, &numbers);
        Self { shop, strong, fast }
    }

    fn ask(&self, conversation: usize) {
        let text = format!("question of conversation {conversation}");
        let messages = json!([{ "role": "user", "content": text }]);
        let body = json!({ "model": "manga", "max_tokens": 100, "messages": messages });
        self.shop.ask_and_wait(PRIME, &body.to_string());
    }

    fn calls(&self) -> Vec<usize> {
        self.strong.iter().map(|target| target.calls()).collect()
    }

    fn all_answered(&self) -> bool {
        // Degraded, if a target of a lower grade answered.
        let is_answered =
            |outcome: &RequestOutcome| matches!(outcome, RequestOutcome::Answered | RequestOutcome::Degraded);
        self.shop.records().iter().all(|record| is_answered(&record.outcome))
    }
}

#[test]
fn an_ordered_route_sends_everything_to_its_first_target() {
    let replicas = Replicas::new(BalanceStrategy::Ordered, &[1, 1, 1]);
    (0..50).for_each(|number| replicas.ask(number));
    assert_eq!((replicas.calls(), replicas.fast.calls()), (vec![50, 0, 0], 0));
}

#[test]
fn weights_share_the_requests_and_another_model_gets_none() {
    let replicas = Replicas::new(BalanceStrategy::Weighted, &[6, 3, 1]);
    (0..1_000).for_each(|number| replicas.ask(number));
    for (calls, share) in replicas.calls().into_iter().zip([0.6, 0.3, 0.1]) {
        let (expected, sigma) = (1_000.0 * share, f64::sqrt(1_000.0 * share * (1.0 - share)));
        assert!((calls as f64 - expected).abs() < 4.0 * sigma, "{calls} of {expected}");
    }
    assert_eq!(replicas.fast.calls(), 0);
}

#[test]
fn the_other_members_of_a_group_come_before_the_next_group() {
    for strategy in [BalanceStrategy::Weighted, BalanceStrategy::LeastLatency, BalanceStrategy::Affinity] {
        let replicas = Replicas::new(strategy, &[1, 1, 1]);
        replicas.strong[1].then(ScriptedReply::Status(401));
        (0..60).for_each(|number| replicas.ask(number));
        assert!(replicas.all_answered());
        // One rejection, and one probe a minute: the requests take 18 s together.
        assert_eq!((replicas.strong[1].calls(), replicas.fast.calls()), (1, 0), "{strategy:?}");
        replicas.strong.iter().for_each(|target| target.then(ScriptedReply::Status(401)));
        replicas.ask(0);
        assert!(replicas.all_answered() && replicas.fast.calls() == 1, "{strategy:?}");
    }
}

#[test]
fn a_target_whose_key_is_accepted_again_is_found_by_a_probe() {
    let replicas = Replicas::new(BalanceStrategy::Weighted, &[1, 1, 1]);
    replicas.strong[2].then(ScriptedReply::Status(401));
    (0..60).for_each(|number| replicas.ask(number));
    assert_eq!(replicas.strong[2].calls(), 1);
    replicas.strong[2].then(ScriptedReply::Answer);
    let world = &replicas.shop.world;
    world.spawn(world.sleep(Duration::from_secs(60)));
    world.run();
    (0..60).for_each(|number| replicas.ask(number));
    assert!(replicas.strong[2].calls() > 10, "{:?}", replicas.calls());
}

#[test]
fn a_broken_member_gets_only_probes_and_callers_do_not_notice() {
    let replicas = Replicas::new(BalanceStrategy::LeastLatency, &[1, 1, 1]);
    replicas.strong[0].then(ScriptedReply::Status(500));
    (0..300).for_each(|number| replicas.ask(number));
    assert!(replicas.all_answered());
    let calls = replicas.calls();
    assert!(calls[0] < 20 && calls[1] > 50 && calls[2] > 50, "{calls:?}");
}

#[test]
fn a_conversation_stays_at_one_target_and_conversations_are_spread() {
    let replicas = Replicas::new(BalanceStrategy::Affinity, &[1, 1, 1]);
    for number in 0..90 {
        let before = replicas.calls();
        (0..3).for_each(|_| replicas.ask(number));
        let after = replicas.calls();
        let more: Vec<usize> = after.iter().zip(&before).map(|(after, before)| after - before).collect();
        assert!(more.contains(&3), "{more:?}");
    }
    let used: BTreeSet<bool> =
        replicas.calls().into_iter().map(|calls| (30..=170).contains(&calls)).collect();
    assert_eq!(used, BTreeSet::from([true]), "{:?}", replicas.calls());
}

/// The share of input tokens that the prompt caches of three simulated replicas serve, for conversations of several turns
/// that share a system prompt and grow with every turn.
fn cached_share(strategy: BalanceStrategy) -> f64 {
    let world = World::new(23);
    let replica = || {
        let engine = Engine::new(ModelOptions { pace: Pace::Instant, ..ModelOptions::default() }).unwrap();
        let model = SharedModel::new(engine, world.clone()).with_prompt_cache(PromptCacheOptions::default());
        Arc::new(ModelTarget::sharing(model, DialectId::ANTHROPIC_MESSAGES, "")) as Arc<dyn Target>
    };
    let models = [("sonnet", 3_000_000_000, replica()), ("haiku", 1_000_000_000, replica())];
    let numbers = Numbers {
        replicas: vec![replica(), replica()],
        replica_model: "sonnet",
        balance: (strategy, vec![1; 4]),
        ..Numbers::default()
    };
    let shop = Shop::with_options(&world, callers(&[(PRIME, Tier::Prime)]), models, &numbers);
    let system = "You answer questions about manga, in the language of the customer. ".repeat(8);
    for turn in 0..8 {
        for conversation in 0..40 {
            let text = |turn: usize| format!("Turn {turn} of conversation {conversation}. ").repeat(20);
            let role = |turn: usize| if turn.is_multiple_of(2) { "user" } else { "assistant" };
            let message = |turn| json!({ "role": role(turn), "content": text(turn) });
            let messages: Vec<_> = (0..=2 * turn).map(message).collect();
            let body = json!({ "model": "manga", "max_tokens": 20, "system": system, "messages": messages });
            shop.ask_and_wait(PRIME, &body.to_string());
        }
    }
    let records = shop.records();
    assert!(records.iter().all(|record| record.outcome == RequestOutcome::Answered));
    let (cached, all) = records.iter().fold((0, 0), |(cached, all), record| {
        (cached + record.usage.cache_read, all + record.usage.total_input())
    });
    cached as f64 / all as f64
}

#[test]
fn affinity_raises_the_share_of_cached_input_tokens() {
    use BalanceStrategy::{Affinity, Ordered, Weighted};
    // All requests at one replica are the most that any balancing can reach.
    let [most, without, with] = [Ordered, Weighted, Affinity].map(cached_share);
    println!(
        "share of cached input tokens: {without:.3} at random, {with:.3} with affinity, {most:.3} at one replica"
    );
    assert!(with > most - 0.03 && without < with - 0.2, "{without:.3} {with:.3} {most:.3}");
}
