//! Breakers end to end: what opens one, what closes it, and what does neither.

use crate::requests::{BY_DAY, NO_LIMITS, at_once, question};
use crate::running::{KEY, Running};
use seawall_testkit::{now, pause, wait_until};
use serde_json::{Value, json};
use std::io::Read as _;
use std::time::Duration;

/// A strong model without latency and a fast one with, and a gateway that calls each once, the strong one first. The
/// strong target's breaker stays open for `open_for`.
fn start(test: &str, open_for: &str, more: &str) -> anyhow::Result<(Running, Running)> {
    let model = Running::model(test, "[]")?;
    let quick = format!("retry.max_retries = 0\nbreakers.sonnet.open_for = \"{open_for}\"\n");
    let more = format!("{NO_LIMITS}{BY_DAY}{quick}{more}");
    let gateway = Running::gateway(test, &model, ["instant", "haiku"], &more)?;
    Ok((model, gateway))
}

fn down() -> Value {
    json!([{ "model": "instant", "fault": { "kind": "status", "status": 503 } }])
}

/// Sends concurrent requests whose strong attempts fail; all are answered.
fn fail(gateway: &Running, times: usize) -> anyhow::Result<()> {
    at_once(times, |_| {
        let answer = gateway.ask(KEY, &question(5, false))?;
        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
        assert_eq!(answer.header("x-seawall-target"), Some("haiku"));
        Ok(())
    })
    .map(drop)
}

/// Waits until a probe would be admitted.
fn wait_for_trial(gateway: &Running) -> anyhow::Result<()> {
    wait_until("a probe is let through", || {
        Ok(gateway.target("sonnet")?["breaker"]["reject_reason"].is_null())
    })
}

/// Sends concurrent requests, and returns how many of them the strong model received.
fn strong_among(gateway: &Running, model: &Running, count: usize) -> anyhow::Result<usize> {
    let before = model.calls_of("instant")?;
    let statuses = at_once(count, |_| Ok(gateway.ask(KEY, &question(5, false))?.status))?;
    assert!(statuses.iter().all(|status| *status == 200), "{statuses:?}");
    Ok(model.calls_of("instant")? - before)
}

#[test]
fn five_failures_in_a_row_open_it_and_the_fast_model_serves_everybody() -> anyhow::Result<()> {
    let (model, gateway) = start("breaker-five", "30s", "")?;
    model.set_faults(&down())?;
    // The first call ever fails, which is not enough to trip.
    for _ in 0..4 {
        fail(&gateway, 1)?;
        assert_eq!(gateway.phase("sonnet")?, "closed");
    }
    fail(&gateway, 1)?;
    assert_eq!(gateway.phase("sonnet")?, "open");
    fail(&gateway, 20)?;
    assert_eq!((model.calls_of("instant")?, model.calls_of("haiku")?), (5, 25));
    assert_eq!(gateway.phase("haiku")?, "closed");
    assert_eq!(gateway.counter("seawall_requests_total{outcome=\"degraded\"}")?, 25);
    Ok(())
}

#[test]
fn many_successes_before_do_not_delay_it() -> anyhow::Result<()> {
    let (model, gateway) = start("breaker-after", "30s", "")?;
    for _ in 0..10 {
        assert_eq!(strong_among(&gateway, &model, 40)?, 40);
    }
    model.set_faults(&down())?;
    fail(&gateway, 4)?;
    assert_eq!(gateway.phase("sonnet")?, "closed");
    fail(&gateway, 1)?;
    assert_eq!(gateway.phase("sonnet")?, "open");
    fail(&gateway, 5)?;
    assert_eq!(model.calls_of("instant")?, 405);
    Ok(())
}

#[test]
fn few_failures_never_open_it_and_more_than_half_soon_do() -> anyhow::Result<()> {
    let (model, gateway) = start("breaker-rate", "30s", "")?;
    model.set_faults(
        &json!([{ "model": "instant", "every_nth": 100, "fault": { "kind": "status", "status": 500 } }]),
    )?;
    for _ in 0..20 {
        assert_eq!(strong_among(&gateway, &model, 25)?, 25);
        assert_eq!(gateway.phase("sonnet")?, "closed");
    }
    // A new gateway, without earlier successes in its window.
    let (model, gateway) = start("breaker-rate-bad", "30s", "")?;
    model.set_faults(&json!([{ "model": "instant", "percent": 55, "seed": 7, "fault": { "kind": "status", "status": 500 } }]))?;
    let began = now();
    while gateway.phase("sonnet")? == "closed" {
        assert!(now() - began < Duration::from_secs(2), "still closed");
        gateway.ask(KEY, &question(5, false))?;
    }
    Ok(())
}

#[test]
fn client_errors_do_not_count_against_a_target() -> anyhow::Result<()> {
    let (model, gateway) = start("breaker-mistakes", "1s", "")?;
    model.set_faults(&json!([{ "fault": { "kind": "status", "status": 400 } }]))?;
    for _ in 0..20 {
        for status in at_once(50, |_| Ok(gateway.ask(KEY, &question(5, false))?.status))? {
            assert_eq!(status, 400);
        }
    }
    let target = gateway.target("sonnet")?;
    assert_eq!((&target["breaker"]["phase"], &target["pressure"]), (&"closed".into(), &"normal".into()));
    // A caller's mistake is neither retried nor sent to another target.
    assert_eq!((model.calls()?.len(), model.calls_of("haiku")?), (1_000, 0));
    Ok(())
}

#[test]
fn one_then_three_then_ten_probes_are_admitted_and_status_reads_use_none() -> anyhow::Result<()> {
    let (model, gateway) = start("breaker-stages", "1s", "")?;
    model.set_faults(&down())?;
    fail(&gateway, 5)?;
    assert_eq!(gateway.phase("sonnet")?, "open");
    // Recovered but slow, so that a batch is concurrent.
    model.set_faults(&json!([{ "model": "instant", "fault": { "kind": "slow", "by": "500ms" } }]))?;
    wait_for_trial(&gateway)?;
    for _ in 0..200 {
        assert_eq!(gateway.get("/readyz")?, "ready\n");
        gateway.phase("sonnet")?;
    }
    assert_eq!(model.calls_of("instant")?, 5);
    for expected in [1, 3, 10] {
        assert_ne!(gateway.phase("sonnet")?, "closed");
        assert_eq!(strong_among(&gateway, &model, 20)?, expected);
    }
    assert_eq!(gateway.phase("sonnet")?, "closed");
    assert_eq!(strong_among(&gateway, &model, 20)?, 20);
    Ok(())
}

#[test]
fn a_failure_in_the_second_stage_opens_it_for_its_whole_time() -> anyhow::Result<()> {
    let (model, gateway) = start("breaker-again", "2s", "")?;
    model.set_faults(&down())?;
    fail(&gateway, 5)?;
    model.set_faults(&json!([]))?;
    wait_for_trial(&gateway)?;
    assert_eq!(strong_among(&gateway, &model, 1)?, 1);
    assert_eq!(gateway.phase("sonnet")?, "half_open");
    model.set_faults(&json!([{ "model": "instant", "fault": { "kind": "status", "status": 500 } }]))?;
    assert_eq!(strong_among(&gateway, &model, 1)?, 1);
    let target = gateway.target("sonnet")?;
    assert_eq!(target["breaker"]["phase"], "open");
    let wait = target["breaker"]["retry_after_ms"].as_u64().unwrap_or_default();
    assert!((1_200..=2_000).contains(&wait), "{wait}");
    assert_eq!(strong_among(&gateway, &model, 20)?, 0);
    // The trial starts with one probe again.
    model.set_faults(&json!([{ "model": "instant", "fault": { "kind": "slow", "by": "300ms" } }]))?;
    wait_for_trial(&gateway)?;
    assert_eq!(strong_among(&gateway, &model, 10)?, 1);
    Ok(())
}

#[test]
fn a_prober_that_goes_away_or_gets_no_answer_leaves_the_probe_to_the_next() -> anyhow::Result<()> {
    let (model, gateway) = start("breaker-prober", "1s", "routes.manga.start_timeout = \"500ms\"\n")?;
    model.set_faults(&down())?;
    fail(&gateway, 5)?;
    let hangs = json!([{ "model": "instant", "fault": { "kind": "hang", "after": 0 } }]);
    model.set_faults(&hangs)?;
    wait_for_trial(&gateway)?;
    // The caller of the first probe disconnects before its answer.
    let abandoned = gateway.post(KEY, &question(5, true).to_string())?;
    wait_until("it is probed", || Ok(model.calls_of("instant")? == 6))?;
    drop(abandoned);
    wait_for_trial(&gateway)?;
    assert_eq!(gateway.counter("seawall_in_flight{target=\"sonnet\"}")?, 0);
    // The second probe times out, and its request is answered by the other model.
    let mut answer = String::new();
    gateway.post(KEY, &question(5, true).to_string())?.read_to_string(&mut answer)?;
    assert!(answer.contains("x-seawall-target: haiku"), "{answer}");
    assert_eq!(model.calls_of("instant")?, 7);
    assert_eq!(gateway.counter("seawall_in_flight{target=\"sonnet\"}")?, 0);
    // Whatever the outcome, the breaker is not stuck.
    model.set_faults(&json!([]))?;
    wait_for_trial(&gateway)?;
    wait_until("it is closed", || {
        gateway.ask(KEY, &question(5, false))?;
        Ok(gateway.phase("sonnet")? == "closed")
    })
}

#[test]
fn a_call_from_before_the_trip_does_not_count_as_a_probe() -> anyhow::Result<()> {
    let (model, gateway) = start("breaker-before", "1s", "")?;
    // A stream that lasts over everything that follows.
    model.set_faults(&json!([{ "model": "instant", "fault": { "kind": "drip", "every": "150ms" } }]))?;
    let mut early = gateway.post(KEY, &question(60, true).to_string())?;
    let mut first = [0; 64];
    early.read_exact(&mut first)?;
    model.set_faults(&down())?;
    fail(&gateway, 5)?;
    assert_eq!(gateway.phase("sonnet")?, "open");
    wait_for_trial(&gateway)?;
    let mut rest = String::new();
    early.read_to_string(&mut rest)?;
    assert!(rest.contains("message_stop"), "{rest}");
    // It succeeded, and that changed nothing: the trial is still at one probe.
    pause(Duration::from_millis(50));
    assert_ne!(gateway.phase("sonnet")?, "closed");
    model.set_faults(&json!([{ "model": "instant", "fault": { "kind": "slow", "by": "300ms" } }]))?;
    assert_eq!(strong_among(&gateway, &model, 10)?, 1);
    Ok(())
}
