//! Availability while targets are throttled, slow or briefly unreachable.

use crate::shop::{Numbers, PRIME, Seen, Shop, body, callers};
use crate::target::whole;
use seawall_core::failure::{ANTHROPIC, FailureKind};
use seawall_core::money::Money;
use seawall_core::time::Timestamp;
use seawall_model::engine::{Engine, ModelOptions, Pace, read_faults};
use seawall_pipeline::{AttemptOutcomeKind, Rejection, RequestRecord, Tier};
use seawall_provider::{Call, CallFuture, Target, UpstreamResponse};
use seawall_sim::{ModelTarget, World};
use seawall_wire::dialect::DialectId;
use std::sync::Arc;
use std::time::Duration;

/// A deployment with this many targets, all played by one model with these faults.
pub(crate) fn shop(targets: usize, faults: &str) -> Shop {
    shop_with(&Numbers { targets, ..Numbers::default() }, faults)
}

fn shop_with(numbers: &Numbers, faults: &str) -> Shop {
    let world = World::new(11);
    let faults = read_faults(faults.as_bytes()).unwrap();
    let model =
        ModelTarget::new(&world, Engine::new(ModelOptions { seed: 5, faults, pace: Pace::Real }).unwrap());
    let models = [
        ("sonnet", 3_000_000_000, Arc::new(model.clone()) as Arc<_>),
        ("haiku", 250_000_000, Arc::new(model) as Arc<_>),
    ];
    Shop::with_options(&world, callers(&[(PRIME, Tier::Prime)]), models, numbers)
}

/// Sends this many requests at this interval, and returns the records when all have ended.
pub(crate) fn play(shop: &Shop, requests: u64, apart: Duration, stream: bool) -> Vec<RequestRecord> {
    let began = shop.world.now();
    for number in 0..requests {
        shop.world.run_until(began + apart * u32::try_from(number).unwrap());
        shop.ask(PRIME, &body(stream), None);
    }
    assert_eq!(shop.world.run(), 0, "nobody waits for ever");
    let records = shop.records();
    assert_eq!(records.len() as u64, requests);
    records
}

pub(crate) fn answered(records: &[RequestRecord]) -> usize {
    records.iter().filter(|record| record.outcome.is_answered()).count()
}

fn wave(from: u64, to: u64, retry_after: &str) -> String {
    format!(
        r#"[{{"from": "{from}s", "to": "{to}s",
            "fault": {{"kind": "status", "status": 429, "retry_after": "{retry_after}"}}}}]"#
    )
}

#[test]
fn a_wave_of_throttles_with_a_hint_is_waited_out() {
    // The wave of throttles comes after calls have been measured, or before any was.
    for from in [20, 0] {
        for stream in [false, true] {
            let shop = shop(1, &wave(from, from + 5, "2s"));
            let records = play(&shop, 180, Duration::from_millis(500), stream);
            let count = answered(&records);
            assert!(count >= 173, "{count} of 180 were answered");
            let slowest = records.iter().map(|record| record.duration).max().unwrap();
            assert!(slowest < Duration::from_secs(20), "{slowest:?}");
            let target = &shop.pipeline.targets()[0];
            assert!(target.breaker.rejects.is_none() && target.pacing.rate.is_none());
        }
    }
}

#[test]
fn a_request_that_cannot_wait_gets_the_providers_retry_after() {
    // Longer than the deadline of a request.
    let numbers = Numbers { targets: 1, api: Duration::from_secs(28), ..Numbers::default() };
    let shop = shop_with(&numbers, &wave(0, 60, "29s"));
    let throttled = shop.ask_and_wait(PRIME, &body(false));
    let Seen::Rejected(Rejection::UpstreamFailed { failure, .. }) = throttled else {
        panic!("{throttled:?}")
    };
    assert_eq!(failure.honoured_retry_after(), Some(Duration::from_secs(29)));
    let refused = shop.ask_and_wait(PRIME, &body(false));
    let Seen::Rejected(Rejection::Unavailable { retry_after, should_retry, .. }) = refused else {
        panic!("{refused:?}")
    };
    let held = shop.pipeline.targets()[0].pacing.retry_after;
    assert_eq!((retry_after, should_retry), (Some(held), true));
    assert!(Duration::from_secs(28) < held && held <= Duration::from_secs(29), "{held:?}");
}

#[test]
fn a_throttled_target_leaves_its_requests_to_the_next() {
    let shop = shop(2, &wave(0, 30, "5s").replace("\"from\"", "\"model\": \"sonnet\", \"from\""));
    let records = play(&shop, 40, Duration::from_millis(500), true);
    assert_eq!(answered(&records), 40);
    let slowest = records.iter().map(|record| record.duration).max().unwrap();
    assert!(slowest < Duration::from_secs(4), "{slowest:?}");
}

#[test]
fn throttles_without_a_hint_open_the_breaker_as_before() {
    let faults = r#"[{"to": "60s", "fault": {"kind": "status", "status": 429}}]"#;
    let shop = shop(1, faults);
    let ends = Timestamp::ZERO + Duration::from_secs(20);
    while shop.world.now() < ends {
        shop.ask_and_wait(PRIME, &body(false));
        shop.world.run_until(shop.world.now() + Duration::from_millis(500));
    }
    let target = &shop.pipeline.targets()[0];
    assert!(target.breaker.rejects.is_some(), "{target:?}");
    assert_eq!((target.pacing.rate, target.pacing.retry_after), (None, Duration::ZERO));
}

#[test]
fn a_provider_that_goes_on_throttling_after_three_hints_counts_as_failing() {
    let shop = shop(1, &wave(0, 600, "1s"));
    let records = play(&shop, 240, Duration::from_millis(500), false);
    assert_eq!(answered(&records), 0);
    assert!(shop.pipeline.targets()[0].breaker.rejects.is_some());
}

fn slow(by: &str) -> String {
    format!(r#"[{{"fault": {{"kind": "slow", "by": "{by}"}}}}]"#)
}

#[test]
fn targets_that_take_five_seconds_to_start_answer_all_requests() {
    for targets in [1, 2] {
        let shop = shop(targets, &slow("5s"));
        let records = play(&shop, 60, Duration::from_millis(500), true);
        assert_eq!(answered(&records), 60, "with {targets} targets");
        let panic_calls: u64 = shop.pipeline.targets().iter().map(|target| target.panic_calls).sum();
        assert!(targets == 2 || panic_calls > 0, "it was blocked for slow answers");
    }
}

#[test]
fn whole_answers_that_take_long_open_no_breaker() {
    let shop = shop(1, &slow("6s"));
    let records = play(&shop, 14, Duration::from_secs(1), false);
    assert_eq!(answered(&records), 14);
    let target = &shop.pipeline.targets()[0];
    assert!(target.breaker.rejects.is_none() && target.panic_calls == 0, "{target:?}");
}

#[test]
fn whole_answers_that_become_slow_are_noticed_by_their_time_per_token() {
    let shop = shop(1, r#"[{"from": "100s", "fault": {"kind": "slow", "by": "12s"}}]"#);
    let records = play(&shop, 300, Duration::from_millis(500), false);
    assert_eq!(answered(&records), 300, "slow is not dead");
    assert!(shop.pipeline.targets()[0].panic_calls > 0);
}

#[test]
fn an_attempt_that_sends_nothing_in_its_time_has_failed() {
    let shop = shop(1, r#"[{"fault": {"kind": "hang"}}]"#);
    for stream in [true, false] {
        assert!(matches!(
            shop.ask_and_wait(PRIME, &body(stream)),
            Seen::Rejected(Rejection::UpstreamFailed { .. })
        ));
    }
    let endings: Vec<_> = shop.attempts().iter().map(|attempt| attempt.2).collect();
    assert_eq!(endings, [AttemptOutcomeKind::Failed(FailureKind::TimedOut); 2]);
}

#[test]
fn a_first_target_that_hangs_costs_five_seconds_and_not_its_whole_time() {
    let hang = r#"[{"from": "60s", "model": "sonnet", "fault": {"kind": "hang"}}]"#;
    for (stream, warm, max_seconds) in [(true, 0, 8), (true, 60, 8), (false, 60, 10)] {
        let faults = if warm == 0 { hang.replace("60s", "0s") } else { hang.to_owned() };
        let shop = shop(2, &faults);
        for _ in 0..warm {
            shop.ask_and_wait(PRIME, &body(stream));
        }
        shop.world.run_until(
            shop.world.now().max(Timestamp::ZERO + Duration::from_secs(if warm == 0 { 0 } else { 200 })),
        );
        let before = shop.world.now();
        assert!(!matches!(shop.ask_and_wait(PRIME, &body(stream)), Seen::Rejected(_)));
        let took = shop.records().last().unwrap().duration;
        assert!(
            took <= Duration::from_secs(max_seconds),
            "{took:?} (stream {stream}, warm {warm}) at {before:?}"
        );
        assert_eq!(shop.records().last().unwrap().target.as_deref(), Some("fast"));
    }
}

#[test]
fn a_blip_closes_a_single_target_for_five_seconds_and_not_for_a_minute() {
    let blip = r#"[{"from": "20000ms", "to": "20300ms", "fault": {"kind": "status", "status": 500}}]"#;
    let shop = shop(1, blip);
    let began = Timestamp::ZERO + Duration::from_secs(20);
    shop.world.run_until(began);
    (0..8).for_each(|_| drop(shop.ask(PRIME, &body(false), None)));
    shop.world.run_until(began + Duration::from_millis(400));
    let target = &shop.pipeline.targets()[0];
    assert!(target.breaker.rejects.is_some(), "{target:?}");
    for number in 1..40 {
        shop.world.run_until(began + Duration::from_millis(400 + number * 250));
        shop.ask(PRIME, &body(false), None);
    }
    assert_eq!(shop.world.run(), 0);
    let refused = shop.arrivals().into_iter().filter(|(_, record)| !record.outcome.is_answered());
    let last = refused.map(|(arrived, _)| arrived - began).max().unwrap();
    // Five seconds from when the breaker opened, and one call.
    assert!(Duration::from_secs(4) < last && last < Duration::from_millis(8_500), "{last:?}");
}

#[test]
fn a_blip_of_the_last_target_is_short_while_the_other_is_ejected() {
    let faults = r#"[
        {"model": "sonnet", "to": "50s", "fault": {"kind": "overlong", "tokens": 400, "at_once": true}},
        {"model": "haiku", "from": "60s", "to": "60300ms", "fault": {"kind": "status", "status": 500}}]"#;
    let shop = shop(2, faults);
    for _ in 0..3 {
        shop.ask_and_wait(PRIME, &body(false));
    }
    let [fast, strong] = &shop.pipeline.targets()[..] else { panic!("two targets") };
    assert!(strong.overruns.1.is_some() && fast.overruns.1.is_none(), "{strong:?}");
    let began = Timestamp::ZERO + Duration::from_secs(60);
    shop.world.run_until(began);
    (0..8).for_each(|_| drop(shop.ask(PRIME, &body(false), None)));
    for number in 1..80 {
        shop.world.run_until(began + Duration::from_millis(400 + number * 250));
        shop.ask(PRIME, &body(false), None);
    }
    assert_eq!(shop.world.run(), 0);
    let refused = shop.arrivals().into_iter().filter(|(_, record)| !record.outcome.is_answered());
    let last = refused.map(|(arrived, _)| arrived - began).max().unwrap();
    assert!(last < Duration::from_millis(8_500), "{last:?}");
}

#[test]
fn answers_that_take_long_are_not_paced_down_after_a_throttle() {
    let faults = r#"[
        {"from": "10s", "to": "11s", "fault": {"kind": "status", "status": 429, "retry_after": "1s"}},
        {"from": "11s", "fault": {"kind": "slow", "by": "20s"}}]"#;
    let shop = shop(1, faults);
    play(&shop, 200, Duration::from_millis(200), true);
    // Once the pace has recovered, requests are sent at once: only the answer itself takes time.
    let later = shop.arrivals().into_iter().filter(|(at, _)| *at > Timestamp::ZERO + Duration::from_secs(18));
    let slowest = later.map(|(_, record)| record.first_content.unwrap()).max().unwrap();
    assert!(slowest < Duration::from_millis(21_500), "{slowest:?}");
}

#[test]
fn a_spent_budget_is_reported_although_an_ejected_target_returns_later() {
    let faults = r#"[{"model": "sonnet", "fault": {"kind": "overlong", "tokens": 400, "at_once": true}}]"#;
    let eject = |caller_cap| {
        let shop = shop_with(&Numbers { caller_cap: Some(caller_cap), ..Numbers::default() }, faults);
        (0..3).for_each(|_| drop(shop.ask_and_wait(PRIME, &body(false))));
        assert!(shop.pipeline.targets()[1].overruns.1.is_some());
        shop
    };
    // What is left pays for no call of any target, so there is nothing to wait for.
    let left = Money::from_nanos(1_000);
    let posted = eject(Money::from_dollars(1)).day().posted;
    let refused = eject(posted.saturating_add(left)).ask_and_wait(PRIME, &body(false));
    assert!(
        matches!(refused, Seen::Rejected(Rejection::BudgetExhausted { remaining, .. }) if remaining == left),
        "{refused:?}"
    );
}

/// A target that fails for everybody until this time, and then on one caller's content only.
struct Touchy(World, Timestamp);

impl Target for Touchy {
    fn dialect(&self) -> DialectId {
        DialectId::ANTHROPIC_MESSAGES
    }

    fn call(&self, call: Call) -> CallFuture<'_> {
        Box::pin(async move {
            self.0.sleep(Duration::from_millis(50)).await;
            if self.0.now() < self.1 || call.body.windows(5).any(|bytes| bytes == b"crash") {
                return Err(ANTHROPIC.classify(500, None).into());
            }
            Ok(UpstreamResponse::Unstreamed { body: whole(), report: None })
        })
    }
}

const HOSTILE: &str = "sk-hostile-00000002";

fn touchy_shop(down_until: Timestamp) -> Shop {
    let world = World::new(3);
    let target = || Arc::new(Touchy(world.clone(), down_until)) as Arc<dyn Target>;
    let models = [("sonnet", 3_000_000_000, target()), ("haiku", 250_000_000, target())];
    let known = callers(&[(PRIME, Tier::Prime), (HOSTILE, Tier::Prime)]);
    let numbers = Numbers { targets: 1, ..Numbers::default() };
    Shop::with_options(&world, known, models, &numbers)
}

#[test]
fn one_callers_failures_do_not_keep_a_breaker_open_that_everybodys_opened() {
    let recovered = Timestamp::ZERO + Duration::from_secs(3);
    let shop = touchy_shop(recovered);
    let crash = body(false).replace("おすすめは？", "crash");
    for number in 0..200 {
        shop.world.run_until(Timestamp::ZERO + Duration::from_millis(100 * number));
        shop.ask(HOSTILE, &crash, None);
        if number % 4 == 1 {
            shop.ask(PRIME, &body(false), None);
        }
        if number == 30 {
            let open = shop.pipeline.targets()[0].breaker;
            assert!(open.rejects.is_some() && !open.is_open_for_one_caller, "{open:?}");
        }
    }
    assert_eq!(shop.world.run(), 0);
    let prime = shop
        .arrivals()
        .into_iter()
        .filter(|(at, record)| *at > recovered + Duration::from_secs(6) && record.outcome.is_answered());
    assert_eq!(prime.count(), 27);
}

#[test]
fn one_callers_failures_close_a_route_to_that_caller_alone() {
    let shop = touchy_shop(Timestamp::ZERO);
    let crash = body(false).replace("おすすめは？", "crash");
    for _ in 0..12 {
        assert!(matches!(shop.ask_and_wait(HOSTILE, &crash), Seen::Rejected(_)));
    }
    let open = shop.pipeline.targets()[0].breaker;
    assert!(open.rejects.is_some() && open.is_open_for_one_caller, "{open:?}");
    for _ in 0..20 {
        assert_eq!(shop.ask_and_wait(PRIME, &body(false)), Seen::Unstreamed(whole()));
        assert!(matches!(shop.ask_and_wait(HOSTILE, &crash), Seen::Rejected(_)));
    }
    assert!(shop.pipeline.targets()[0].breaker.rejects.is_none());
    assert_eq!(shop.day().held, Money::ZERO);
}
