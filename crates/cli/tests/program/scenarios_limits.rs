//! Rate limits and the ledger end to end.

use crate::requests::{NO_LIMITS, at_once, question};
use crate::running::{KEY, Running};
use anyhow::Context as _;
use seawall_testkit::{HttpReply, wait_until};
use serde_json::Value;
use std::io::Read as _;

fn start(test: &str, models: [&str; 2], more: &str) -> anyhow::Result<(Running, Running)> {
    let model = Running::model(test, "[]")?;
    let guests = r#"routes.manga.guest_faces = ["anthropic", "chat"]"#;
    let gateway = Running::gateway(test, &model, models, &format!("{more}\n{guests}\n"))?;
    Ok((model, gateway))
}

/// Sends a request without a key.
fn ask_as_guest(gateway: &Running, headers: &str) -> anyhow::Result<HttpReply> {
    gateway.send("POST", "/v1/messages", headers, question(1, false).to_string().as_bytes())
}

/// The cookie that a new guest sends from now on.
fn cookie_of(answer: &HttpReply) -> anyhow::Result<String> {
    let set = answer.header("set-cookie").context("no cookie")?;
    Ok(format!("cookie: {}\r\n", set.split(';').next().unwrap_or_default()))
}

fn remaining(gateway: &Running, caller: &str, tier: &str) -> anyhow::Result<Value> {
    let mut limits = gateway.operators(&format!("/admin/limits?caller={caller}&tier={tier}"))?;
    Ok(limits["limits"].take())
}

#[test]
fn a_flooding_guest_gets_no_more_than_its_limit() -> anyhow::Result<()> {
    let (model, gateway) = start("limits-guest", ["instant", "instant"], "")?;
    let first = ask_as_guest(&gateway, "")?;
    assert_eq!(first.status, 200);
    let cookie = cookie_of(&first)?;
    let caller = gateway.requests(1)?[0]["caller"].as_str().context("no caller")?.to_owned();
    let statuses = at_once(10, |_| {
        (0..50).map(|_| Ok(ask_as_guest(&gateway, &cookie)?.status)).collect::<anyhow::Result<Vec<_>>>()
    })?;
    let statuses: Vec<u16> = statuses.into_iter().flatten().collect();
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 11);
    assert_eq!(statuses.iter().filter(|status| **status == 429).count(), 489);
    assert_eq!(model.bill("instant")?["requests"], 12);
    let limits = remaining(&gateway, &caller, "guest")?;
    let left = |name: &str| {
        let limits = limits.as_array().into_iter().flatten();
        let limit = limits.clone().find(|limit| limit["limit"] == name);
        limit.and_then(|limit| limit["remaining"].as_u64())
    };
    assert_eq!((left("minute"), left("hour"), left("day")), (Some(0), Some(38), Some(4_988)), "{limits}");
    // Another guest of the same address, and an authenticated caller, are not affected.
    assert_eq!(ask_as_guest(&gateway, "")?.status, 200);
    let answer = gateway.ask(KEY, &question(1, false))?;
    assert_eq!((answer.status, answer.header("ratelimit")), (200, Some("\"minute\";r=69")));
    Ok(())
}

#[test]
fn discarding_the_cookie_gains_at_most_the_limits_of_five_guests() -> anyhow::Result<()> {
    let (model, gateway) = start("limits-cookie", ["instant", "instant"], "")?;
    let statuses = at_once(10, |_| {
        (0..20).map(|_| Ok(ask_as_guest(&gateway, "")?.status)).collect::<anyhow::Result<Vec<_>>>()
    })?;
    assert_eq!(statuses.iter().flatten().filter(|status| **status == 200).count(), 60);
    assert_eq!(model.bill("instant")?["requests"], 60);
    Ok(())
}

#[test]
fn no_request_field_raises_the_tier_of_a_guest() -> anyhow::Result<()> {
    let (_model, gateway) = start("limits-tier", ["instant", "instant"], "")?;
    let claims =
        "x-user-tier: prime\r\nx-seawall-tier: prime\r\nx-user-id: test\r\nx-forwarded-for: 10.0.0.1\r\n";
    let answer = ask_as_guest(&gateway, claims)?;
    assert_eq!(answer.status, 200);
    let policy = answer.header("ratelimit-policy").context("no policy")?;
    assert!(policy.starts_with("\"minute\";q=12;w=60, \"hour\";q=50;w=3600"), "{policy}");
    let mut body = question(1, false);
    body["metadata"] = serde_json::json!({ "user_id": "test" });
    let answer = gateway.send("POST", "/v1/messages", claims, body.to_string().as_bytes())?;
    assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
    for record in gateway.requests(2)? {
        assert_eq!((&record["tier"], &record["tier_origin"]), (&"guest".into(), &"guest".into()), "{record}");
    }
    Ok(())
}

#[test]
fn a_thousand_concurrent_settlements_are_all_in_the_ledger() -> anyhow::Result<()> {
    let model = Running::start(&["model", "--listen", "127.0.0.1:0", "--json", "--pace", "instant"])?;
    let more = format!("{NO_LIMITS}budget.caller_day = \"$1,000/day\"\n");
    let gateway = Running::gateway("limits-books", &model, ["sonnet", "haiku"], &more)?;
    at_once(50, |number| {
        for _ in 0..20 {
            assert_eq!(gateway.ask(KEY, &question(20, number % 2 == 0))?.status, 200);
        }
        Ok(())
    })?;
    let bill = model.bill("sonnet")?;
    assert_eq!(bill["requests"], 1_000);
    wait_until("nothing is held", || Ok(gateway.counter("seawall_budget_held_usd")? == 0))?;
    assert_eq!(Some(gateway.counter("seawall_budget_posted_usd")?), bill["nano_dollars"].as_u64());
    assert_eq!(Some(gateway.counter("seawall_output_tokens_total")?), bill["output_tokens"].as_u64());
    let own = gateway.requests(1)?[0]["caller"].as_str().context("no caller")?.to_owned();
    let spend = gateway.operators(&format!("/admin/spend?caller={own}"))?;
    assert_eq!((&spend["posted_nanos"], &spend["held_nanos"]), (&bill["nano_dollars"], &0.into()));
    Ok(())
}

#[test]
fn the_ledger_matches_the_bill_with_abandoned_and_retried_requests() -> anyhow::Result<()> {
    let throttled = r#"[{"every":10,"fault":{"kind":"status","status":429}}]"#;
    let model = Running::model("limits-bill", throttled)?;
    let more = format!("{NO_LIMITS}budget.caller_day = \"$1,000/day\"\n");
    let gateway = Running::gateway("limits-bill", &model, ["sonnet", "haiku"], &more)?;
    at_once(60, |number| {
        match number % 6 {
            // A caller that disconnects in the middle.
            0 => {
                let mut connection = gateway.post(KEY, &question(200, true).to_string())?;
                let mut seen = String::new();
                while !seen.contains("content_block_delta") {
                    let mut piece = [0; 1_024];
                    let read = connection.read(&mut piece)?;
                    anyhow::ensure!(read > 0, "it ended: {seen}");
                    seen += &String::from_utf8_lossy(&piece[..read]);
                }
            }
            kind => assert_eq!(gateway.ask(KEY, &question(20, kind < 3))?.status, 200),
        }
        Ok(())
    })?;
    wait_until("all are over", || Ok(gateway.requests(100)?.len() == 60))?;
    let calls = model.calls()?;
    assert!(calls.iter().filter(|call| call["status"] == 429).count() >= 6, "nobody was throttled");
    let billed = |end: &str| -> u64 {
        let ended = calls.iter().filter(|call| call["end"] == end);
        ended.filter_map(|call| call["nano_dollars"].as_u64()).sum()
    };
    let records = gateway.requests(100)?;
    // An answer of the fast target is degraded, and just as complete.
    let is = |record: &Value, outcome: &str| {
        record["outcome"] == outcome || (outcome == "answered" && record["outcome"] == "degraded")
    };
    let of = |outcome: &'static str| records.iter().filter(move |record| is(record, outcome));
    let posted =
        |outcome: &'static str| of(outcome).filter_map(|record| record["cost_nanos"].as_u64()).sum::<u64>();
    assert_eq!((of("answered").count(), of("abandoned").count()), (50, 10));
    // Complete answers are posted exactly as billed, to the nano-dollar.
    assert_eq!(posted("answered"), billed("complete"));
    // A caller that disconnects is charged for the delivered output, and never less than the bill.
    assert!(of("abandoned").all(|record| record["cost_nanos"].as_u64() > Some(0)));
    assert!(
        posted("abandoned") >= billed("caller_gone"),
        "{} {}",
        posted("abandoned"),
        billed("caller_gone")
    );
    assert_eq!(gateway.counter("seawall_budget_posted_usd")?, posted("answered") + posted("abandoned"));
    assert_eq!(gateway.counter("seawall_budget_held_usd")?, 0);
    Ok(())
}
