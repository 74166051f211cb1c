//! Requests that no target answers: the record names every target with its cause.

use crate::shop::{Numbers, PRIME, Seen, Shop, body, callers};
use crate::target::{ScriptedReply, ScriptedTarget};
use seawall_core::money::Money;
use seawall_pipeline::Tier;
use seawall_sim::World;
use std::sync::Arc;

fn failed_targets(numbers: &Numbers, strong: ScriptedReply, fast: ScriptedReply) -> Option<String> {
    let world = World::new(3);
    let target = |reply| ScriptedTarget::new(&world, &[], reply) as Arc<_>;
    let models =
        [("strong-model", 3_000_000_000, target(strong)), ("fast-model", 1_000_000_000, target(fast))];
    let shop = Shop::with_options(&world, callers(&[(PRIME, Tier::Prime)]), models, numbers);
    let Seen::Rejected(_) = shop.ask_and_wait(PRIME, &body(true)) else { panic!("answered") };
    let record = shop.records().pop().unwrap();
    record.failed_targets.map(|targets| targets.as_ref().to_owned())
}

#[test]
fn every_target_is_named_with_how_it_failed_however_long_it_took() {
    let found = failed_targets(&Numbers::default(), ScriptedReply::Status(401), ScriptedReply::Hang).unwrap();
    assert!(
        found.starts_with("all targets failed: strong ") && found.contains("(key rejected), fast ("),
        "{found}"
    );
    assert!(found.ends_with("(timed out)") || found.ends_with("(no answer in time)"), "{found}");
}

#[test]
fn a_target_that_was_not_reached_is_not_said_to_have_failed() {
    let found =
        failed_targets(&Numbers::default(), ScriptedReply::Status(400), ScriptedReply::Answer).unwrap();
    assert!(
        found.starts_with("no target answered: strong ")
            && found.ends_with("(request rejected), fast not tried"),
        "{found}"
    );
}

#[test]
fn a_reason_that_the_rejection_names_for_all_is_not_repeated() {
    let numbers = Numbers { cap: Money::from_nanos(1), ..Numbers::default() };
    assert_eq!(failed_targets(&numbers, ScriptedReply::Answer, ScriptedReply::Answer), None);
}
