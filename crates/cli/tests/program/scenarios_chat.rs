//! Our own chat face end to end: what is cached, for which callers, and single flight.

use crate::requests::{BY_DAY, NO_LIMITS, at_once};
use crate::running::{KEY, Running, caller};
use anyhow::Context as _;
use seawall_testkit::pause;
use serde_json::{Value, json};
use std::time::Duration;

const OTHER_KEY: &str = "sk-test-other-0123456789";

fn start(test: &str, more: &str) -> anyhow::Result<(Running, Running)> {
    let model = Running::model(test, "[]")?;
    let more = format!("{NO_LIMITS}{BY_DAY}retry.max_retries = 0\n{}{more}", caller("other", OTHER_KEY));
    let gateway = Running::gateway(test, &model, ["instant", "haiku"], &more)?;
    Ok((model, gateway))
}

fn down(models: &[&str]) -> Value {
    let one = |model: &&str| json!({ "model": model, "fault": { "kind": "status", "status": 503 } });
    models.iter().map(one).collect()
}

#[test]
fn no_caller_receives_an_answer_meant_for_another() -> anyhow::Result<()> {
    let (model, gateway) = start("chat-others", "")?;
    let order = json!({ "message": "where is my order" });
    let own = gateway.chat(KEY, &order)?;
    assert_eq!(own["rung"], "strong_model");
    model.set_faults(&down(&["instant", "haiku"]))?;
    let other = gateway.chat(OTHER_KEY, &order)?;
    assert_eq!(other["rung"], "apology");
    assert_ne!(other["answer"], own["answer"]);
    let guest = gateway.send("POST", "/chat", "", order.to_string().as_bytes())?;
    let guest: Value = serde_json::from_slice(&guest.body)?;
    assert_ne!(guest["answer"], own["answer"]);
    // The caller that got the answer still gets it from the cache.
    assert_eq!(gateway.chat(KEY, &order)?["answer"], own["answer"]);
    Ok(())
}

#[test]
fn a_stale_answer_is_served_as_stale_while_models_fail() -> anyhow::Result<()> {
    let (model, gateway) = start("chat-stale", "cache.max_age = \"1s\"\n")?;
    let order = json!({ "message": "where is my order" });
    let fresh = gateway.chat(KEY, &order)?;
    assert_eq!(fresh["rung"], "strong_model");
    pause(Duration::from_millis(1_100));
    model.set_faults(&down(&["instant", "haiku"]))?;
    let stale = gateway.chat(KEY, &order)?;
    assert_eq!((&stale["rung"], &stale["stale"]), (&"stale_cache".into(), &true.into()), "{stale}");
    assert_eq!((&stale["confidence"], &stale["degraded"]), (&0.4.into(), &true.into()));
    assert_eq!((&stale["answer"], &stale["cost"]), (&fresh["answer"], &"0.000000000".into()));
    model.set_faults(&json!([]))?;
    let calls_before = model.calls()?.len();
    let again = gateway.chat(KEY, &order)?;
    assert_eq!((&again["rung"], &again["stale"]), (&"strong_model".into(), &false.into()));
    assert_eq!(model.calls()?.len(), calls_before + 1);
    Ok(())
}

#[test]
fn a_lower_grade_answer_does_not_replace_a_cached_one_and_partial_answers_are_not_cached()
-> anyhow::Result<()> {
    let strong_model = Running::model("chat-grades", "[]")?;
    // It has another seed, so that its texts differ.
    let fast_model = Running::start(&["model", "--listen", "127.0.0.1:0", "--json", "--seed", "77"])?;
    let more = format!("{NO_LIMITS}{BY_DAY}retry.max_retries = 0\n");
    let gateway =
        Running::gateway_with("chat-grades", &strong_model.url, ["instant", "haiku"], &more, |settings| {
            let (before, after) = settings.split_once("targets.haiku").unwrap_or_default();
            format!("{before}targets.haiku{}", after.replacen(&strong_model.url, &fast_model.url, 1))
        })?;
    let order = json!({ "message": "where is my order" });
    let strong = gateway.chat(KEY, &order)?;
    assert_eq!(strong["rung"], "strong_model");
    strong_model.set_faults(&down(&["instant"]))?;
    let fast = gateway.chat(KEY, &order)?;
    assert_eq!(fast["rung"], "fast_model");
    assert_ne!(fast["answer"], strong["answer"], "the two answers are equal");
    fast_model.set_faults(&down(&["haiku"]))?;
    let cached = gateway.chat(KEY, &order)?;
    assert_eq!(cached["answer"], strong["answer"], "{cached}");

    strong_model.set_faults(&json!([]))?;
    let short = json!({ "message": "tell me more", "max_tokens": 5 });
    let cut = gateway.chat(KEY, &short)?;
    assert_eq!((&cut["finish"], &cut["usage"]["output"]), (&"length".into(), &5.into()));
    strong_model.set_faults(&down(&["instant"]))?;
    assert_eq!(gateway.chat(KEY, &short)?["rung"], "apology");
    Ok(())
}

#[test]
fn five_hundred_identical_concurrent_requests_make_one_call() -> anyhow::Result<()> {
    let (model, gateway) = start("chat-same", "")?;
    // So that all of them are in flight before the first is answered.
    model.set_faults(&json!([{ "fault": { "kind": "slow", "by": "1s" } }]))?;
    let answers = at_once(500, |_| gateway.chat(KEY, &json!({ "message": "what next?" })))?;
    for answer in &answers {
        assert_eq!(answer["answer"], answers[0]["answer"]);
    }
    assert_eq!(model.calls()?.len(), 1);
    Ok(())
}

#[test]
fn a_request_of_the_same_name_is_answered_once() -> anyhow::Result<()> {
    let (model, gateway) = start("chat-named", "")?;
    model.set_faults(&json!([{ "fault": { "kind": "slow", "by": "500ms" } }]))?;
    let ask = |path: &str, headers: &str, body: &Value| {
        let headers = format!("x-api-key: {KEY}\r\n{headers}");
        gateway.send("POST", path, &headers, body.to_string().as_bytes())
    };
    let chat = json!({ "message": "what next?", "request_id": "r-1" });
    let messages = crate::requests::question(5, false);
    for (path, headers, body) in
        [("/chat", "", &chat), ("/v1/messages", "idempotency-key: k-1\r\n", &messages)]
    {
        let calls_before = model.calls()?.len();
        let statuses = at_once(20, |_| Ok(ask(path, headers, body)?.status))?;
        assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{path}: {statuses:?}");
        assert_eq!(statuses.iter().filter(|status| **status == 409).count(), 19, "{path}: {statuses:?}");
        assert_eq!(model.calls()?.len(), calls_before + 1);
        // Later, too; and a different request cannot reuse the key.
        assert_eq!(ask(path, headers, body)?.status, 409);
        let mut other = body.clone();
        other["max_tokens"] = 6.into();
        let refused = ask(path, headers, &other)?;
        assert_eq!(refused.status, 409);
        assert!(String::from_utf8_lossy(&refused.body).contains("different request"), "{path}");
        assert_eq!(model.calls()?.len(), calls_before + 1);
    }
    // Idempotency keys are scoped to their caller.
    let headers = format!("x-api-key: {OTHER_KEY}\r\n");
    let answer = gateway.send("POST", "/chat", &headers, chat.to_string().as_bytes())?;
    assert_eq!(answer.status, 200);
    Ok(())
}

#[test]
fn a_long_history_is_trimmed_and_a_message_that_is_too_long_is_refused_for_nothing() -> anyhow::Result<()> {
    let (model, gateway) = start("chat-long", "")?;
    let turn = |role: &str| json!({ "role": role, "text": "word ".repeat(1_000) });
    let history = [turn("user"), turn("assistant"), turn("user"), turn("assistant")];
    let answer = gateway.chat(KEY, &json!({ "message": "what next?", "history": history }))?;
    assert_eq!(answer["rung"], "strong_model");
    let tokens = model.calls()?[0]["input_tokens"].as_u64().context("no tokens")?;
    assert!((1_000..=4_000).contains(&tokens), "{tokens}");
    let long = json!({ "message": "漫".repeat(15_900) }).to_string();
    let refused = gateway.send("POST", "/chat", &format!("x-api-key: {KEY}\r\n"), long.as_bytes())?;
    let error: Value = serde_json::from_slice(&refused.body)?;
    assert_eq!((refused.status, &error["code"]), (413, &"INPUT_TOO_LARGE".into()), "{error}");
    assert_eq!(model.calls()?.len(), 1);
    Ok(())
}

#[test]
fn concurrent_requests_cannot_exceed_the_daily_budget_of_a_caller() -> anyhow::Result<()> {
    let model = Running::model("chat-budget", "[]")?;
    let other = caller("other", OTHER_KEY);
    let more = format!("{NO_LIMITS}{BY_DAY}{other}budget.caller_day = \"$0.10/day\"\n");
    let gateway = Running::gateway("chat-budget", &model, ["sonnet", "haiku"], &more)?;
    let answers = at_once(50, |number| {
        let session = format!("s-{number}");
        gateway.chat(
            KEY,
            &json!({ "message": format!("question {number}"), "session": session, "max_tokens": 1_000 }),
        )
    })?;
    let of = |rung: &str| answers.iter().filter(|answer| answer["rung"] == rung).count();
    let (strong, fast, apology) = (of("strong_model"), of("fast_model"), of("apology"));
    assert!(strong > 0 && apology > 0, "{strong} {fast} {apology}");
    assert_eq!(strong + fast + apology, 50);
    let billed = |name: &str| Ok::<_, anyhow::Error>(model.bill(name)?["nano_dollars"].as_u64().unwrap_or(0));
    let bill = billed("sonnet")? + billed("haiku")?;
    assert!(bill <= 100_000_000, "{bill}");
    assert_eq!(gateway.counter("seawall_budget_posted_usd")?, bill);
    assert_eq!(gateway.counter("seawall_budget_held_usd")?, 0);
    // Other callers are not affected.
    assert_eq!(gateway.chat(OTHER_KEY, &json!({ "message": "what next?" }))?["rung"], "strong_model");
    Ok(())
}
