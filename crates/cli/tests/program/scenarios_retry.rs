//! Retries and deadlines end to end.

use crate::requests::{BY_DAY, NO_LIMITS, at_once, question};
use crate::running::{KEY, Running, seawall};
use anyhow::Context as _;
use seawall_testkit::{now, wait_until};
use serde_json::{Value, json};
use std::io::Read as _;
use std::time::Duration;

/// Tolerance for a machine that is busy with other tests.
const SLACK: Duration = Duration::from_millis(150);

fn start(test: &str, more: &str) -> anyhow::Result<(Running, Running)> {
    let model = Running::start(&["model", "--listen", "127.0.0.1:0", "--json", "--pace", "instant"])?;
    let gateway = Running::gateway(test, &model, ["sonnet", "haiku"], &format!("{NO_LIMITS}{BY_DAY}{more}"))?;
    Ok((model, gateway))
}

/// Breakers that never open.
const NO_BREAKERS: &str = "breakers.sonnet = { failure_threshold = 100000, min_calls = 100000 }\n\
                           breakers.haiku = { failure_threshold = 100000, min_calls = 100000 }\n";

#[test]
fn a_model_that_throttles_twice_is_called_three_times_with_backoff() -> anyhow::Result<()> {
    let (model, gateway) = start("retry-twice", "")?;
    let throttles = |every: u32| json!({ "every_nth": every, "fault": { "kind": "status", "status": 429 } });
    // The first call is throttled, and the fifth and the sixth are.
    model.set_faults(&json!([throttles(4), throttles(5)]))?;
    for _ in 0..3 {
        assert_eq!(gateway.ask(KEY, &question(5, false))?.status, 200);
    }
    let began = now();
    let answer = gateway.ask(KEY, &question(5, false))?;
    let took = now() - began;
    assert_eq!((answer.status, answer.header("x-seawall-attempts")), (200, Some("3")));
    assert_eq!(answer.header("x-seawall-target"), Some("sonnet"));
    assert!(took < Duration::from_secs(3), "{took:?}");
    let calls = model.calls()?;
    let statuses: Vec<_> = calls.iter().skip(4).map(|call| call["status"].as_u64()).collect();
    assert_eq!(statuses, [Some(429), Some(429), Some(200)]);
    let at = |number: usize| calls[number]["at_ms"].as_u64().context("no time");
    let (first, second) = (at(5)? - at(4)?, at(6)? - at(5)?);
    // A fifth more under slight pressure, and the round trip.
    assert!((99..=360 + 150).contains(&first), "{first}");
    assert!((99..=1_080 + 150).contains(&second), "{second}");
    assert_eq!(gateway.counter("seawall_retries_total")?, 3);
    Ok(())
}

#[test]
fn a_hanging_strong_model_is_replaced_by_the_fast_one_in_time() -> anyhow::Result<()> {
    let (model, gateway) = start("retry-hangs", "")?;
    model.set_faults(&json!([{ "model": "sonnet", "fault": { "kind": "hang", "after": 0 } }]))?;
    for stream in [false, true] {
        let asked = model.calls()?.len();
        let began = now();
        let body = json!({ "message": format!("what next? {stream}"), "stream": stream }).to_string();
        let answer = gateway.send("POST", "/chat", &format!("x-api-key: {KEY}\r\n"), body.as_bytes())?;
        let took = now() - began;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("x-seawall-rung"), Some("fast_model"), "{}", answer.head);
        assert!(took <= Duration::from_secs(3), "{took:?}");
        let calls = model.calls()?;
        let (strong, fast) = (&calls[asked], &calls[asked + 1]);
        assert_eq!((&strong["model"], &fast["model"]), (&"sonnet".into(), &"haiku".into()));
        let waited =
            fast["at_ms"].as_u64().context("no time")? - strong["at_ms"].as_u64().context("no time")?;
        assert!(waited <= 1_900 + 150, "{waited}");
        // The model sees that its call was cancelled.
        wait_until("the strong call is cancelled", || Ok(model.calls()?[asked]["end"] == "caller_gone"))?;
    }
    Ok(())
}

#[test]
fn with_every_model_hanging_all_are_answered_in_time() -> anyhow::Result<()> {
    let (model, gateway) = start("retry-all-hang", "")?;
    model.set_faults(&json!([{ "fault": { "kind": "hang", "after": 0 } }]))?;
    for round in 0..2 {
        let answers = at_once(150, |number| {
            gateway.chat(KEY, &json!({ "message": format!("question {round} {number}") }))
        })?;
        for answer in &answers {
            assert_eq!(
                (&answer["rung"], &answer["confidence"]),
                (&"apology".into(), &0.1.into()),
                "{answer}"
            );
        }
    }
    // By the gateway's own clock: starting so many threads takes this machine a while.
    for record in gateway.requests(300)? {
        let took = Duration::from_micros(record["duration_us"].as_u64().context("no time")?);
        assert!(took <= Duration::from_secs(3) + SLACK, "{record}");
    }
    let ended = |outcome: &str| gateway.counter(&format!("seawall_requests_total{{outcome=\"{outcome}\"}}"));
    assert_eq!(ended("answered")? + ended("degraded")?, 300);
    wait_until("nothing is held", || Ok(gateway.counter("seawall_budget_held_usd")? == 0))
}

#[test]
fn retries_do_not_multiply_the_load_while_everything_fails() -> anyhow::Result<()> {
    // Neither breakers nor pressure interfere, so that only the retry rules apply.
    let more = format!(
        "{NO_BREAKERS}pressure = {{ high = \"99%\", high_exit = \"98%\", sustained = \"99%\", min_calls = 200 }}\n"
    );
    let (model, gateway) = start("retry-load", &more)?;
    model.set_faults(&json!([{ "fault": { "kind": "status", "status": 429 } }]))?;
    let attempts = at_once(200, |_| {
        let answer = gateway.ask(KEY, &question(5, false))?;
        assert_eq!(answer.status, 429);
        answer.header("x-seawall-attempts").context("no attempts")?.parse::<usize>().context("no number")
    })?;
    assert!(attempts.iter().all(|attempts| (2..=8).contains(attempts)), "{attempts:?}");
    let calls = model.calls()?.len();
    assert_eq!(calls, attempts.iter().sum::<usize>());
    // Each target once per request, and a hundred retries.
    assert_eq!(gateway.counter("seawall_failovers_total")?, 200);
    assert!(calls <= 400 + 100, "{calls}");
    assert_eq!(gateway.counter("seawall_retries_total")?, calls as u64 - 400);
    assert!(gateway.counter("seawall_retry_stops_total{reason=\"retry_budget\"}")? > 0);
    Ok(())
}

#[test]
fn pressure_that_rises_meanwhile_ends_the_retries_of_a_request() -> anyhow::Result<()> {
    let more = format!("{NO_BREAKERS}retry.base_delay = \"1s\"\nretry.budget.min_concurrency = 1000\n");
    let (model, gateway) = start("retry-pressure", &more)?;
    model.set_faults(&json!([{ "fault": { "kind": "status", "status": 429 } }]))?;
    let (first, _) = std::thread::scope(|scope| -> anyhow::Result<_> {
        let first = scope.spawn(|| gateway.ask(KEY, &question(5, false)));
        wait_until("the first attempt has failed", || Ok(gateway.counter("seawall_retries_total")? == 1))?;
        // While it backs off, many others fail.
        let others = at_once(30, |_| gateway.ask(KEY, &question(5, false)))?;
        let first = first.join().map_err(|_| anyhow::anyhow!("a thread broke"))??;
        Ok((first, others))
    })?;
    assert_eq!(first.status, 429);
    assert!(gateway.counter("seawall_retry_stops_total{reason=\"pressure\"}")? > 0);
    // Alone it would have called each model four times.
    let attempts: u32 = first.header("x-seawall-attempts").context("no attempts")?.parse()?;
    assert!((2..=4).contains(&attempts), "{attempts}");
    Ok(())
}

#[test]
fn times_that_do_not_fit_into_each_other_are_refused_at_the_start() -> anyhow::Result<()> {
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--set", "deadlines.attempt=31s"];
    let output = seawall(&arguments).output()?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{complaint}");
    assert!(complaint.contains("deadlines") && complaint.contains("attempt"), "{complaint}");
    Ok(())
}

#[test]
fn a_stream_that_fails_after_the_first_text_reports_what_was_delivered() -> anyhow::Result<()> {
    // At real pace: a broken answer that arrives in one piece is replaced before the caller sees any of it.
    let model = Running::model("retry-broken", r#"[{"fault":{"kind":"cut","after":4}}]"#)?;
    let gateway =
        Running::gateway("retry-broken", &model, ["haiku", "haiku"], &format!("{NO_LIMITS}{BY_DAY}"))?;
    let body = json!({ "message": "what next?", "stream": true }).to_string();
    let mut connection = std::net::TcpStream::connect(gateway.url.trim_start_matches("http://"))?;
    let head = format!(
        "POST /chat HTTP/1.0\r\nhost: test\r\nx-api-key: {KEY}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    std::io::Write::write_all(&mut connection, format!("{head}{body}").as_bytes())?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    let (_, events) = answer.split_once("\r\n\r\n").context("no body")?;
    let events: Vec<(&str, Value)> = events
        .split("\n\n")
        .filter_map(|event| event.split_once('\n'))
        .map(|(name, data)| {
            let data = data.strip_prefix("data: ").context("no data")?;
            Ok((name.trim_start_matches("event: "), serde_json::from_str(data)?))
        })
        .collect::<anyhow::Result<_>>()?;
    let text: String = events.iter().filter_map(|(_, data)| data["text"].as_str()).collect();
    let (name, end) = events.last().context("no event")?;
    assert!(!text.is_empty());
    assert_eq!((*name, &end["delivered"]), ("interrupted", &text.chars().count().into()), "{end}");
    assert_eq!(events.iter().filter(|(name, _)| *name != "text").count(), 1);
    assert_eq!(model.calls()?.len(), 1);
    Ok(())
}
