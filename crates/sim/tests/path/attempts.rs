//! Attempt records: one per attempt, with the usage and cost of the ledger.

use crate::shop::{GUEST, PRIME, Shop, body};
use crate::target::{ScriptedReply, ScriptedTarget};
use seawall_core::failure::FailureKind;
use seawall_core::money::{Money, Usage};
use seawall_pipeline::{AttemptOutcomeKind, Tier};
use seawall_sim::World;
use std::sync::Arc;

fn shop(strong: &[ScriptedReply], then: ScriptedReply) -> Shop {
    let world = World::new(3);
    let (strong, fast) =
        (ScriptedTarget::new(&world, strong, then), ScriptedTarget::new(&world, &[], ScriptedReply::Answer));
    let (strong, fast) = (Arc::<ScriptedTarget>::clone(&strong), Arc::<ScriptedTarget>::clone(&fast));
    Shop::new(&world, strong, fast, Money::from_dollars(1_000))
}

/// The total cost of all recorded attempts.
fn reported_cost(shop: &Shop) -> Money {
    shop.attempts().iter().fold(Money::ZERO, |sum, (.., cost)| sum.saturating_add(*cost))
}

#[test]
fn every_attempt_is_recorded_once_with_its_target_tier_and_outcome() {
    let shop = shop(&[ScriptedReply::Status(429), ScriptedReply::Status(529)], ScriptedReply::Answer);
    shop.ask_and_wait(PRIME, &body(true));
    shop.ask_and_wait(GUEST, &body(false));
    let usage = Usage { input: 20, output: 8, ..Usage::default() };
    let cost = Money::from_nanos(20 * 3_000 + 8 * 15_000);
    let failed = |kind| {
        ("strong".to_owned(), Tier::Prime, AttemptOutcomeKind::Failed(kind), Usage::default(), Money::ZERO)
    };
    let answered = |tier| ("strong".to_owned(), tier, AttemptOutcomeKind::Succeeded, usage, cost);
    assert_eq!(
        shop.attempts(),
        [
            failed(FailureKind::Throttled),
            failed(FailureKind::Overloaded),
            answered(Tier::Prime),
            answered(Tier::Guest)
        ]
    );
    assert_eq!(reported_cost(&shop), shop.day().posted);
}

#[test]
fn attempt_records_match_the_ledger_whatever_their_outcome() {
    for (reply, give_up_after, status) in [
        (ScriptedReply::CutAfter(2), None, AttemptOutcomeKind::Failed(FailureKind::StreamInterrupted)),
        (ScriptedReply::StallAfter(3), None, AttemptOutcomeKind::Failed(FailureKind::TimedOut)),
        (ScriptedReply::Answer, Some(2), AttemptOutcomeKind::Abandoned),
    ] {
        let shop = shop(&[reply], ScriptedReply::Answer);
        shop.ask(PRIME, &body(true), give_up_after);
        shop.world.run();
        let attempts = shop.attempts();
        assert_eq!((attempts.len(), attempts[0].2), (1, status));
        assert_eq!(attempts[0].3.input, 20, "reported at the beginning");
        assert!(attempts[0].3.output > 8, "not reported: the maximum is assumed");
        assert_eq!((reported_cost(&shop), reported_cost(&shop) > Money::ZERO), (shop.day().posted, true));
    }
}
