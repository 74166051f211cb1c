//! The events of requests: which, and in which order; and what the record of a request keeps of them.

use crate::shop::{GUEST, Numbers, PRIME, Seen, Shop, body, callers, question};
use crate::target::{ScriptedReply, ScriptedTarget};
use seawall_core::failure::FailureKind;
use seawall_core::money::Money;
use seawall_core::retry::HedgeOptions;
use seawall_core::vocabulary::Mode;
use seawall_pipeline::event::EventTopic;
use seawall_pipeline::{AttemptCause, AttemptOutcomeKind, RequestRecord, RequestStage, SkipKind, Tier};
use seawall_sim::World;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

fn shop_with(numbers: Numbers, strong: &[ScriptedReply], then: ScriptedReply) -> (Shop, Arc<ScriptedTarget>) {
    let world = World::new(3);
    let strong = ScriptedTarget::new(&world, strong, then);
    let fast = ScriptedTarget::new(&world, &[], ScriptedReply::Answer);
    let models = [
        ("strong-model", 3_000_000_000, Arc::<ScriptedTarget>::clone(&strong) as Arc<_>),
        ("fast-model", 1_000_000_000, Arc::<ScriptedTarget>::clone(&fast) as Arc<_>),
    ];
    let known = callers(&[(PRIME, Tier::Prime), (GUEST, Tier::Guest)]);
    let numbers = Numbers { records_events: true, ..numbers };
    (Shop::with_options(&world, known, models, &numbers), strong)
}

fn shop(strong: &[ScriptedReply], then: ScriptedReply) -> Shop {
    shop_with(Numbers::default(), strong, then).0
}

/// The texts of all events from this one on.
fn texts(shop: &Shop, from: usize) -> Vec<String> {
    shop.events().into_iter().skip(from).map(|(_, text)| text).collect()
}

fn only_record(shop: &Shop) -> RequestRecord {
    let mut records = shop.records();
    assert_eq!(records.len(), 1);
    records.remove(0)
}

/// The stages that a request reached, with their milliseconds. Together they are its duration.
fn stages(record: &RequestRecord) -> Vec<(&'static str, u128)> {
    assert_eq!(record.stages.iter().map(|(_, time)| time).sum::<Duration>(), record.duration);
    record.stages.iter().map(|(stage, time)| (stage.name(), time.as_millis())).collect()
}

const ADMITTED: [&str; 6] = [
    "received anthropic",
    "stage receive",
    "stage identify",
    "limit global minute Granted",
    "stage admit",
    "stage plan",
];

fn after_admission(events: &[&str]) -> Vec<String> {
    ADMITTED.iter().chain(events).map(ToString::to_string).collect()
}

#[test]
fn a_plain_request_and_a_stream_have_the_same_events_in_the_same_order() {
    for (stream, answer, relay) in [(false, 300, 0), (true, 350, 100)] {
        let shop = shop(&[], ScriptedReply::Answer);
        shop.ask_and_wait(PRIME, &body(stream));
        let expected = after_admission(&[
            "budget Node Reserved",
            "attempt 0 at strong: first",
            "stage answer",
            "attempt 0 ended: succeeded",
            "stage relay",
            "completed Answered",
        ]);
        assert_eq!(texts(&shop, 0), expected, "stream: {stream}");
        let record = only_record(&shop);
        let before = [("receive", 0), ("identify", 0), ("admit", 0), ("plan", 0)];
        assert_eq!(stages(&record), [&before[..], &[("answer", answer), ("relay", relay)]].concat());
        assert!(record.is_plain() && record.plan.is_none());
        let attempt = &record.first_attempts[0];
        assert_eq!((&*attempt.target, attempt.cause), ("strong", AttemptCause::First));
        assert_eq!(Duration::from(attempt.duration).as_millis(), answer + relay);
    }
}

#[test]
fn retries_and_failovers_are_attempts_with_their_causes_and_delays() {
    let shop = shop(&[ScriptedReply::Status(529), ScriptedReply::Status(401)], ScriptedReply::Answer);
    shop.ask_and_wait(PRIME, &body(false));
    let expected = after_admission(&[
        "budget Node Reserved",
        "attempt 0 at strong: first",
        "pressure strong slight",
        "attempt 0 ended: overloaded",
        "budget Node Reserved",
        "attempt 1 at strong: retry",
        "health strong credential_rejected",
        "attempt 1 ended: unauthorized",
        "budget Node Reserved",
        "attempt 2 at fast: failover",
        "stage answer",
        "attempt 2 ended: succeeded",
        "stage relay",
        "completed Degraded",
    ]);
    assert_eq!(texts(&shop, 0), expected);
    let record = only_record(&shop);
    assert!(!record.is_plain());
    let [first, second, third] = &record.first_attempts[..] else { panic!("{record:?}") };
    let outcomes = [first, second, third].map(|attempt| (&*attempt.target, attempt.cause, attempt.outcome));
    let failed = AttemptOutcomeKind::Failed;
    assert_eq!(
        outcomes,
        [
            ("strong", AttemptCause::First, failed(FailureKind::Overloaded)),
            ("strong", AttemptCause::Retry, failed(FailureKind::Unauthorized)),
            ("fast", AttemptCause::Failover(None), AttemptOutcomeKind::Succeeded),
        ]
    );
    // Each failure took 100 ms, and only the retry was preceded by a backoff.
    assert!(first.delay.is_zero() && third.delay.is_zero() && !second.delay.is_zero());
    let millis = |duration| Duration::from(duration).as_millis();
    assert_eq!([first, second, third].map(|attempt| millis(attempt.duration)), [100, 100, 300]);
    assert_eq!(millis(second.start), 100 + millis(second.delay));
    assert_eq!(Duration::from(third.start) - Duration::from(second.start), Duration::from_millis(100));
}

#[test]
fn a_limit_that_rejects_is_named_and_ends_the_request_in_its_stage() {
    let (rejected, _) = shop_with(Numbers::default(), &[], ScriptedReply::Answer);
    let (observed, _) =
        shop_with(Numbers { limits: Mode::Observe, ..Numbers::default() }, &[], ScriptedReply::Answer);
    for shop in [&rejected, &observed] {
        // Ten a minute and a burst of two.
        for _ in 0..12 {
            shop.ask_and_wait(GUEST, &body(false));
        }
    }
    let before = rejected.events().len();
    let Seen::Rejected(_) = rejected.ask_and_wait(GUEST, &body(false)) else { panic!("admitted") };
    let expected = [
        "received anthropic",
        "stage receive",
        "stage identify",
        "limit caller minute Rejected",
        "stage admit",
        "completed Rejected(\"rate_limited\")",
    ];
    assert_eq!(texts(&rejected, before), expected);
    let record = rejected.records().pop().unwrap();
    assert_eq!(record.stages.get(RequestStage::Admit), Some(Duration::ZERO));
    assert_eq!(record.stages.get(RequestStage::Plan), None);
    let before = observed.events().len();
    let Seen::Unstreamed(_) = observed.ask_and_wait(GUEST, &body(false)) else { panic!("rejected") };
    assert_eq!(texts(&observed, before)[3], "limit caller minute Observed");
    // Plans are made twice while a protection is observed; this one is the same both times.
    assert_eq!(observed.records().pop().unwrap().plan, None);
}

#[test]
fn a_budget_that_refuses_is_an_event_of_each_target_it_was_asked_for() {
    let shop =
        shop_with(Numbers { cap: Money::from_nanos(1), ..Numbers::default() }, &[], ScriptedReply::Answer).0;
    let Seen::Rejected(_) = shop.ask_and_wait(PRIME, &body(false)) else { panic!("answered") };
    let expected = after_admission(&[
        "budget Node Refused(BudgetExhausted)",
        "skipped strong budget_exhausted",
        "budget Node Refused(BudgetExhausted)",
        "skipped fast budget_exhausted",
        "stage answer",
        "completed Rejected(\"budget_exhausted\")",
    ]);
    assert_eq!(texts(&shop, 0), expected);
    assert!(only_record(&shop).first_attempts.is_empty());
}

#[test]
fn a_caller_that_disconnects_ends_attempt_stage_and_request() {
    let start = ["budget Node Reserved", "attempt 0 at strong: first"];
    // Before the answer, and within it: the second piece arrives after 350 ms.
    for (stream, millis, tail) in [
        (false, 700, &["attempt 0 ended: abandoned", "stage answer"][..]),
        (true, 350, &["stage answer", "attempt 0 ended: abandoned", "stage relay"]),
    ] {
        let shop = shop(&[ScriptedReply::Hang; 1][usize::from(stream)..], ScriptedReply::Answer);
        if stream {
            shop.ask(PRIME, &body(true), Some(2));
        } else {
            shop.ask_for(Duration::from_millis(millis), PRIME, &body(false));
        }
        shop.world.run();
        let expected = after_admission(&[&start[..], tail, &["completed Abandoned"]].concat());
        assert_eq!(texts(&shop, 0), expected);
        let record = only_record(&shop);
        let last = tail.last().and_then(|text| text.strip_prefix("stage "));
        assert_eq!(stages(&record).last().map(|(stage, _)| *stage), last);
        let attempt = &record.first_attempts[0];
        assert_eq!(Duration::from(attempt.duration), Duration::from_millis(millis));
        assert_eq!(attempt.outcome, AttemptOutcomeKind::Abandoned);
    }
}

#[test]
fn a_target_behind_an_open_breaker_is_skipped_and_the_next_attempt_says_so() {
    let (shop, strong) = shop_with(Numbers::default(), &[], ScriptedReply::Status(500));
    let opened = |shop: &Shop| texts(shop, 0).iter().any(|text| text == "breaker strong Open");
    for _ in 0..20 {
        if !opened(&shop) {
            shop.ask_and_wait(PRIME, &body(false));
        }
    }
    assert!(opened(&shop), "{:?}", texts(&shop, 0));
    assert!(texts(&shop, 0).contains(&"pressure strong open".to_owned()));
    let (before, calls) = (shop.events().len(), strong.calls());
    shop.ask_and_wait(PRIME, &body(false));
    let expected = after_admission(&[
        "budget Node Reserved",
        "skipped strong breaker_open",
        "budget Node Reserved",
        "attempt 0 at fast: failover",
        "stage answer",
        "attempt 0 ended: succeeded",
        "stage relay",
        "completed Degraded",
    ]);
    assert_eq!((texts(&shop, before), strong.calls()), (expected, calls));
    let record = shop.records().pop().unwrap();
    assert_eq!(record.first_attempts[0].cause, AttemptCause::Failover(Some(SkipKind::BreakerOpen)));
    assert!(!record.is_plain());
}

#[test]
fn a_hedge_is_an_attempt_that_waited_for_the_first_to_be_slow() {
    let hedge = HedgeOptions { enabled: true, percent: 50.0, min_delay: Duration::from_millis(100) };
    let (shop, _) =
        shop_with(Numbers { hedge, ..Numbers::default() }, &[ScriptedReply::Answer; 40], ScriptedReply::Hang);
    for _ in 0..41 {
        shop.ask_and_wait(PRIME, &body(true));
    }
    let record = shop.records().pop().unwrap();
    let [first, hedge] = &record.first_attempts[..] else { panic!("{record:?}") };
    assert_eq!((first.cause, first.outcome), (AttemptCause::First, AttemptOutcomeKind::Abandoned));
    assert_eq!((hedge.cause, hedge.outcome), (AttemptCause::Hedge, AttemptOutcomeKind::Succeeded));
    assert_eq!(Duration::from(hedge.start), Duration::from(hedge.delay));
    assert!(Duration::from(hedge.delay) >= Duration::from_millis(350));
    assert!(texts(&shop, 0).contains(&"attempt 1 at fast: hedge".to_owned()));
}

#[test]
fn a_target_that_was_skipped_is_tried_as_the_last_resort() {
    let (shop, _) = shop_with(Numbers { targets: 1, ..Numbers::default() }, &[], ScriptedReply::Status(500));
    for _ in 0..12 {
        shop.ask_and_wait(PRIME, &body(false));
        // One probe passes every five seconds.
        shop.world.run_until(shop.world.now() + Duration::from_secs(6));
    }
    let records = shop.records();
    let mut causes = records.iter().flat_map(|record| &record.first_attempts).map(|attempt| attempt.cause);
    assert!(causes.any(|cause| cause == AttemptCause::LastResort), "{records:?}");
    assert!(texts(&shop, 0).contains(&"attempt 0 at strong: last_resort".to_owned()));
}

#[test]
fn attempts_beyond_the_listed_ones_are_counted() {
    let world = World::new(3);
    let target = || ScriptedTarget::new(&world, &[], ScriptedReply::Status(529));
    let shop = Shop::new(&world, target(), target(), Money::from_dollars(1_000));
    let Seen::Rejected(_) = shop.ask_and_wait(PRIME, &body(false)) else { panic!("answered") };
    let record = only_record(&shop);
    assert!(record.attempts > 4, "{record:?}");
    assert_eq!(record.first_attempts.len(), 4);
    assert!(record.first_attempts.is_sorted_by_key(|attempt| attempt.start));
}

#[test]
fn the_reasons_of_a_plan_are_in_the_record() {
    let shop = shop(&[], ScriptedReply::Answer);
    shop.ask_as(question(1, GUEST, r#"{"message":"おすすめは？"}"#));
    shop.world.run();
    let record = only_record(&shop);
    let plan = record.plan.unwrap();
    assert!(!plan.reasons.is_empty() && plan.shadow.is_none(), "{plan:?}");
}

/// Whether the program around the pipeline emits the events of a topic. A new topic does not compile until it is here.
const fn is_of_node(topic: EventTopic) -> bool {
    match topic {
        EventTopic::RequestReceived
        | EventTopic::StageEnded
        | EventTopic::LimitDecided
        | EventTopic::BudgetDecided
        | EventTopic::TargetSkipped
        | EventTopic::AttemptStarted
        | EventTopic::AttemptEnded
        | EventTopic::RequestCompleted
        | EventTopic::BreakerChanged
        | EventTopic::PressureChanged
        | EventTopic::TargetHealthChanged
        | EventTopic::TargetKeyChanged => false,
        // Emitted by the gateway and tested there.
        EventTopic::SettingsReloaded
        | EventTopic::SettingsRejected
        | EventTopic::SharedStoreChanged
        | EventTopic::JournalChanged
        | EventTopic::DataDirChanged
        | EventTopic::DrainStarted
        | EventTopic::DrainCompleted => true,
    }
}

#[test]
fn the_pipeline_emits_every_topic_of_its_own() {
    let world = World::new(3);
    // Both keys are rejected, so that the target is.
    let key = || ScriptedTarget::new(&world, &[ScriptedReply::Status(401)], ScriptedReply::Status(500));
    let fast: Arc<ScriptedTarget> = ScriptedTarget::new(&world, &[], ScriptedReply::Answer);
    let models =
        [("strong-model", 3_000_000_000, key() as Arc<_>), ("fast-model", 1_000_000_000, fast as Arc<_>)];
    let numbers = Numbers { more_keys: vec![key()], records_events: true, ..Numbers::default() };
    let shop = Shop::with_options(&world, callers(&[(PRIME, Tier::Prime)]), models, &numbers);
    for _ in 0..20 {
        shop.ask_and_wait(PRIME, &body(false));
    }
    let seen: BTreeSet<EventTopic> = shop.events().into_iter().map(|(topic, _)| topic).collect();
    let expected: BTreeSet<EventTopic> =
        EventTopic::ALL.into_iter().filter(|topic| !is_of_node(*topic)).collect();
    assert_eq!(seen, expected);
}
