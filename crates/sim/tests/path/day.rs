//! A hundred thousand requests under a schedule of faults.

use crate::shop::{Shop, at_face, callers};
use seawall_core::invariant::window_within_limit;
use seawall_core::money::Money;
use seawall_core::random::SeededRandom;
use seawall_core::time::Timestamp;
use seawall_model::engine::{Engine, ModelOptions, Pace, read_faults};
use seawall_pipeline::dialect::Face;
use seawall_pipeline::{RequestOutcome, RequestRecord, Tier};
use seawall_sim::{ModelTarget, World};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

/// Throttled, then down, then slow and broken in every way, with healthy times in between.
const FAULTS: &[u8] = br#"[
    {"from": "600s", "to": "1200s", "model": "sonnet", "percent": 30, "fault": {"kind": "status", "status": 429, "retry_after": "1s"}},
    {"from": "1800s", "to": "2700s", "model": "sonnet", "every": 1, "fault": {"kind": "status", "status": 503}},
    {"from": "3000s", "to": "3600s", "percent": 5, "fault": {"kind": "hang"}},
    {"from": "3000s", "to": "4200s", "percent": 10, "fault": {"kind": "cut", "after": 6}},
    {"from": "4200s", "to": "4800s", "percent": 10, "fault": {"kind": "error", "after": 4}},
    {"from": "4800s", "to": "5400s", "percent": 10, "fault": {"kind": "end_early", "after": 5}},
    {"from": "5400s", "to": "6000s", "every": 1, "fault": {"kind": "status", "status": 529}},
    {"from": "6600s", "to": "7200s", "percent": 10, "fault": {"kind": "reset"}}
]"#;

struct Played {
    shop: Shop,
    model: ModelTarget,
    records: Vec<RequestRecord>,
    /// A hash of everything that happened.
    hash: u64,
}

/// Sends this many requests, one every 90 ms on average, of 400 callers and 40 guests. With `leave`, every tenth caller
/// of a stream disconnects midway.
fn play(seed: u64, requests: u64, faults: &[u8], leave: bool) -> Played {
    let world = World::new(seed);
    let engine = Engine::new(ModelOptions { seed, faults: read_faults(faults).unwrap(), pace: Pace::Real });
    let model = ModelTarget::new(&world, engine.unwrap());
    let key = |caller: u64| format!("sk-caller-{caller:010}");
    let keys: Vec<_> = (0..440).map(key).collect();
    let tier = |caller| if caller < 400 { Tier::Prime } else { Tier::Guest };
    let callers = callers(
        &keys.iter().enumerate().map(|(number, key)| (key.as_str(), tier(number))).collect::<Vec<_>>(),
    );
    let models = [
        ("sonnet", 3_000_000_000, Arc::new(model.clone()) as Arc<_>),
        ("haiku", 250_000_000, Arc::new(model.clone()) as Arc<_>),
    ];
    let shop = Shop::with(&world, callers, models, Money::from_dollars(5_000));
    let mut chance = SeededRandom::new(seed ^ 0xDA7);
    let mut now = Timestamp::ZERO;
    for _ in 0..requests {
        now = now + chance.draw().between(Duration::ZERO, Duration::from_millis(180));
        world.run_until(now);
        let stream = chance.draw().below(2) == 0;
        let give_up = leave && chance.draw().below(10) == 0;
        let give_up_after = give_up.then(|| usize::try_from(chance.draw().below(8)).unwrap());
        let key = key(chance.draw().below(440));
        let face = Face::ALL[usize::try_from(chance.draw().below(Face::ALL.len() as u64)).unwrap()];
        shop.ask_face_at(now, &key, at_face(face, stream), give_up_after);
    }
    assert_eq!(world.run(), 0, "nobody waits for ever");
    let records = shop.records();
    let mut hasher = DefaultHasher::new();
    format!("{records:?}").hash(&mut hasher);
    Played { shop, model, records, hash: hasher.finish() }
}

#[test]
fn a_hundred_thousand_requests_are_each_settled_once_and_the_books_agree() {
    let played = play(7, 100_000, FAULTS, true);
    let Played { shop, model, records, .. } = &played;
    assert_eq!(records.len(), 100_000, "every request is settled once");
    let ledger = shop.day();
    assert_eq!((ledger.held, shop.ledger.open_reservations()), (Money::ZERO, 0));
    assert_eq!(ledger.posted, records.iter().map(|record| record.cost).sum());
    let bill = model.bill().nano_dollars();
    let posted = ledger.posted.as_nanos();
    assert!(bill <= posted && posted < bill + bill / 5, "billed {bill}, posted {posted}");

    // Every outcome occurred.
    let mut outcomes: BTreeMap<String, u32> = BTreeMap::new();
    for record in records {
        *outcomes.entry(format!("{:?}", record.outcome)).or_default() += 1;
    }
    for outcome in
        ["Answered", "Abandoned", "Interrupted(Failed(StreamInterrupted))", "Rejected(\"rate_limited\")"]
    {
        assert!(outcomes.get(outcome).is_some_and(|count| *count > 100), "{outcome}: {outcomes:?}");
    }
    // Both models are down for ten minutes of two and a half hours; nearly all other requests are answered.
    assert!(outcomes["Answered"] + outcomes["Degraded"] > 80_000, "{outcomes:?}");

    // No guest gets more than twelve requests in any minute, nor more than fifty in any hour. A refusal without a call
    // to a model is free.
    let mut admitted: BTreeMap<u64, Vec<(Timestamp, u64)>> = BTreeMap::new();
    for (arrived, record) in shop.arrivals() {
        if let Some((caller, Tier::Guest, _)) = record.caller
            && !(matches!(record.outcome, RequestOutcome::Rejected(_)) && record.attempts == 0)
        {
            admitted.entry(caller).or_default().push((arrived, 1));
        }
    }
    assert_eq!(admitted.len(), 40);
    for mut times in admitted.into_values() {
        times.sort();
        assert_eq!(window_within_limit(&times, 12, Duration::from_secs(60)), Ok(()));
        assert_eq!(window_within_limit(&times, 50, Duration::from_secs(3_600)), Ok(()));
    }
    let minutes = (shop.world.now() - Timestamp::ZERO).as_secs() / 60;
    let retries = shop.pipeline.retry_counters().snapshot().retries;
    assert!(retries > 100 && retries <= 100 * (minutes + 1), "{retries} retries in {minutes} minutes");
}

#[test]
fn one_seed_is_one_day_and_another_is_another() {
    let day = |seed| play(seed, 5_000, FAULTS, true).hash;
    assert_eq!(day(1), day(1));
    assert_ne!(day(1), day(2));
}

#[test]
fn without_faults_the_ledger_is_the_bill_to_the_nano_dollar() {
    let played = play(3, 5_000, b"[]", false);
    assert_eq!(played.shop.day().posted.as_nanos(), played.model.bill().nano_dollars());
    let ended = |record: &RequestRecord| {
        record.outcome.is_answered() || record.outcome == RequestOutcome::Rejected("rate_limited")
    };
    assert!(played.records.iter().all(ended));
}
