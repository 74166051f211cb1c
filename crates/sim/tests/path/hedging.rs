//! Hedging: a second attempt beside one that is slow to start.

use crate::shop::{GUEST, Numbers, PRIME, Seen, Shop, body, callers};
use crate::target::{ScriptedReply, ScriptedTarget, pieces};
use seawall_core::money::Money;
use seawall_core::retry::HedgeOptions;
use seawall_core::time::Timestamp;
use seawall_pipeline::{RequestOutcome, Tier};
use seawall_sim::World;
use std::sync::Arc;
use std::time::Duration;

/// A strong model that answers this many times and then does `then`, with a fast one beside it.
pub(crate) fn slow_shop(
    enabled: bool,
    answers: usize,
    then: ScriptedReply,
) -> (Shop, Arc<ScriptedTarget>, Arc<ScriptedTarget>) {
    let world = World::new(13);
    let strong = ScriptedTarget::new(&world, &vec![ScriptedReply::Answer; answers], then);
    let fast = ScriptedTarget::new(&world, &[], ScriptedReply::Answer);
    let models = [
        ("strong-model", 3_000_000_000, Arc::<ScriptedTarget>::clone(&strong) as Arc<_>),
        ("fast-model", 1_000_000_000, Arc::<ScriptedTarget>::clone(&fast) as Arc<_>),
    ];
    let hedge = HedgeOptions { enabled, percent: 50.0, min_delay: Duration::from_millis(100) };
    let numbers = Numbers { hedge, ..Numbers::default() };
    let known = callers(&[(PRIME, Tier::Prime), (GUEST, Tier::Guest)]);
    (Shop::with_options(&world, known, models, &numbers), strong, fast)
}

#[test]
fn a_slow_start_is_hedged_once_it_is_known_what_is_slow() {
    let (shop, strong, fast) = slow_shop(true, 40, ScriptedReply::Hang);
    for _ in 0..40 {
        assert_eq!(shop.ask_and_wait(PRIME, &body(true)), Seen::Stream(pieces()));
    }
    assert_eq!((strong.calls(), fast.calls()), (40, 0), "nothing was slow");
    let sent_at = shop.world.now();
    assert_eq!(shop.ask_and_wait(PRIME, &body(true)), Seen::Stream(pieces()));
    assert_eq!((strong.calls(), fast.calls()), (41, 1));
    // The p95 of the first content is 350 ms, rounded up to an eighth; the hedge is sent then.
    let hedged = fast.call_log.lock().unwrap().calls[0].0 - sent_at;
    assert!((Duration::from_millis(350)..Duration::from_millis(450)).contains(&hedged), "{hedged:?}");
    let record = shop.records().pop().unwrap();
    assert_eq!(
        (&record.outcome, record.attempts, record.target.as_deref()),
        (&RequestOutcome::Degraded, 2, Some("fast"))
    );
    // The losing attempt is settled, too, although its cost is unknown.
    assert_eq!((shop.ledger.open_reservations(), shop.day().held), (0, Money::ZERO));
    assert_eq!(shop.day().posted, shop.records().iter().map(|record| record.cost).sum());
}

#[test]
fn no_hedges_while_hedging_is_off() {
    let (shop, _, fast) = slow_shop(false, 40, ScriptedReply::Hang);
    for _ in 0..40 {
        assert_eq!(shop.ask_and_wait(PRIME, &body(true)), Seen::Stream(pieces()));
    }
    let sent_at = shop.world.now();
    assert_eq!(shop.ask_and_wait(PRIME, &body(true)), Seen::Stream(pieces()));
    let failed_over = fast.call_log.lock().unwrap().calls[0].0;
    assert_eq!(failed_over - sent_at, Duration::from_secs(5));
}

#[test]
fn if_both_attempts_fail_one_failure_is_reported_and_both_are_settled() {
    let (shop, strong, fast) = slow_shop(true, 40, ScriptedReply::StallAfter(1));
    for _ in 0..40 {
        shop.ask_and_wait(PRIME, &body(true));
    }
    fast.then(ScriptedReply::Status(503));
    let before = shop.records().len();
    let Seen::Rejected(_) = shop.ask_and_wait(PRIME, &body(true)) else { panic!("answered") };
    assert!(strong.calls() >= 41 && fast.calls() >= 1);
    assert_eq!(shop.records().len(), before + 1);
    assert_eq!((shop.ledger.open_reservations(), shop.day().held), (0, Money::ZERO));
    assert!(shop.world.now() > Timestamp::ZERO);
}
