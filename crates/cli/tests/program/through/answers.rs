//! Without faults, every client gets from every target the model's answer and its cost.

use super::{Bill, Pair, ROUTES, every_client, header, is_amazons, is_googles, is_openais};
use crate::client::{Client, Session};
use crate::running::KEY;
use serde_json::{Value, json};

/// The dialect's stop reasons: by itself, at the output limit, and with a tool call.
const fn finishes(client: Client) -> [&'static str; 3] {
    match client {
        Client::GeminiPython | Client::GeminiNode => ["STOP", "MAX_TOKENS", "STOP"],
        Client::OpenaiPython | Client::OpenaiNode => ["stop", "length", "tool_calls"],
        Client::ResponsesPython | Client::ResponsesNode => ["completed", "max_output_tokens", "completed"],
        _ => ["end_turn", "max_tokens", "tool_use"],
    }
}

#[test]
fn every_client_receives_the_text_and_usage_of_every_target() -> anyhow::Result<()> {
    let pair = Pair::start("through-answers", "instant", "", &[])?;
    for client in every_client() {
        // One process for all calls: starting a client takes longer than anything it does.
        let mut session = client.open(&pair.gateway.url)?;
        for route in ROUTES {
            let which = format!("{client:?} {route}");
            reads_the_same_whole_and_in_pieces(client, route, &mut session, &pair, &which)?;
            gets_the_call_that_it_demands(client, route, &mut session, &pair, &which)?;
        }
        lists_and_counts_without_asking_the_model(client, &mut session, &pair)?;
    }
    // The ledger agrees with the model's bill, to the nano-dollar.
    let bill = pair.bill()?;
    assert_eq!(pair.gateway.counter("seawall_input_tokens_total")?, bill.input);
    assert_eq!(pair.gateway.counter("seawall_output_tokens_total")?, bill.output);
    assert_eq!(pair.gateway.counter("seawall_budget_posted_usd")?, bill.nano_dollars);
    assert_eq!(pair.gateway.counter("seawall_budget_held_usd")?, 0);
    assert_eq!((bill.requests, pair.requests()?), (bill.answers, bill.answers));
    Ok(())
}

/// The result of one call as its user sees it, and its entry on the bill, whose numbers must agree.
fn answered(session: &mut Session, pair: &Pair, call: &Value, which: &str) -> anyhow::Result<(Value, Bill)> {
    let before = pair.bill()?;
    let seen = pair.sees(session, call)?;
    let cost = pair.bill()?.since(before);
    assert_eq!((&seen["error"], &seen["complete"]), (&Value::Null, &json!(true)), "{which}: {seen}");
    assert_eq!((cost.requests, cost.answers), (1, 1), "{which}: {seen}");
    assert_eq!(
        (&seen["input"], &seen["output"]),
        (&json!(cost.input), &json!(cost.output)),
        "{which}: {seen}"
    );
    Ok((seen, cost))
}

fn reads_the_same_whole_and_in_pieces(
    client: Client,
    route: &str,
    session: &mut Session,
    pair: &Pair,
    which: &str,
) -> anyhow::Result<()> {
    let [by_itself, at_limit, _] = finishes(client);
    for (question, opening) in [
        ("What should I read next?", "This is a simulator speaking"),
        ("次は何を読もう？", "これはシミュレーター"),
    ] {
        let call = |stream| json!({ "model": route, "question": question, "stream": stream, "raw": true });
        let (whole, cost) = answered(session, pair, &call(false), which)?;
        let (pieces, _) = answered(session, pair, &call(true), which)?;
        for seen in [&whole, &pieces] {
            let text = seen["text"].as_str().unwrap_or_default();
            assert!(text.starts_with(opening), "{which}: {seen}");
            assert_eq!((&seen["finish"], &seen["output"]), (&json!(at_limit), &json!(40)), "{which}: {seen}");
            tells_how_it_came_about(seen, route, which);
        }
        assert_eq!(whole["text"], pieces["text"], "{which}");
        assert!(pieces["pieces"].as_u64() > Some(5), "{which}: {pieces}");
        // The cost of a stream is not known when its head is sent.
        let dollars =
            format!("{}.{:09}", cost.nano_dollars / 1_000_000_000, cost.nano_dollars % 1_000_000_000);
        assert_eq!(header(&whole, "x-seawall-cost"), Some(&*dollars), "{which}: {whole}");
        assert_eq!(header(&pieces, "x-seawall-cost"), None, "{which}: {pieces}");
    }
    let mut texts = Vec::new();
    for (stream, put_together) in [(false, false), (true, false), (true, true)] {
        let call =
            json!({ "model": route, "max_tokens": 4_000, "stream": stream, "put_together": put_together });
        let (seen, _) = answered(session, pair, &call, which)?;
        assert_eq!(seen["finish"], by_itself, "{which}: {seen}");
        texts.push(seen["text"].clone());
    }
    assert!(texts.iter().all(|text| *text == texts[0]), "{which}: {texts:?}");
    Ok(())
}

fn tells_how_it_came_about(seen: &Value, route: &str, which: &str) {
    let request = seen["request"].as_str().unwrap_or_default();
    assert!(request.starts_with("req_") && request.len() == 20, "{which}: {seen}");
    assert_eq!(header(seen, "x-seawall-target"), Some(route), "{which}: {seen}");
    assert_eq!(header(seen, "x-seawall-attempts"), Some("1"), "{which}: {seen}");
    assert_eq!(header(seen, "x-seawall-rung"), Some("fast_model"), "{which}: {seen}");
}

fn gets_the_call_that_it_demands(
    client: Client,
    route: &str,
    session: &mut Session,
    pair: &Pair,
    which: &str,
) -> anyhow::Result<()> {
    let tool = json!({
        "name": "recommend",
        "schema": {
            "type": "object",
            "properties": {
                "title": { "type": "string" },
                "volumes": { "type": "integer" },
                "finished": { "type": "boolean" },
            },
            "required": ["title", "volumes", "finished"],
        },
    });
    let [_, _, called] = finishes(client);
    let question = "次は何を読もう？";
    let filled = json!({ "title": question, "volumes": 1, "finished": true });
    for stream in [false, true] {
        let call = json!({
            "model": route, "tool": tool, "question": question, "stream": stream, "max_tokens": 200,
        });
        let (seen, _) = answered(session, pair, &call, which)?;
        assert_eq!(seen["tool"], json!({ "name": "recommend", "input": filled }), "{which}: {seen}");
        assert_eq!((&seen["finish"], &seen["text"]), (&json!(called), &json!("")), "{which}: {seen}");
        assert!(seen["tool_id"].as_str().is_some_and(|id| !id.is_empty()), "{which}: {seen}");

        let call = json!({ "model": route, "tool": tool, "result": filled, "stream": stream });
        let (after, _) = answered(session, pair, &call, which)?;
        let text = after["text"].as_str().unwrap_or_default();
        assert!(text.starts_with("This is a simulator speaking"), "{which}: {after}");
        assert_eq!(after["tool"], Value::Null, "{which}: {after}");
    }
    Ok(())
}

fn lists_and_counts_without_asking_the_model(
    client: Client,
    session: &mut Session,
    pair: &Pair,
) -> anyhow::Result<()> {
    let (before, requests) = (pair.bill()?, pair.requests()?);
    if !is_amazons(client) && !is_googles(client) {
        let seen = pair.sees(session, &json!({ "list": true }))?;
        let names = seen["models"].as_array().cloned().unwrap_or_default();
        for route in ROUTES {
            assert!(names.contains(&json!(route)), "{client:?}: {seen}");
        }
    }
    if !is_amazons(client) && !is_openais(client) {
        let count = |question: &str| json!({ "count": true, "model": ROUTES[0], "question": question });
        let short = pair.sees(session, &count("次は？"))?;
        let long = pair.sees(session, &count("次は何を読もう？次は何を読もう？次は何を読もう？"))?;
        assert_eq!((&short["error"], &long["error"]), (&Value::Null, &Value::Null), "{client:?}: {short}");
        assert!(
            short["input"].as_u64() > Some(0) && long["input"].as_u64() > short["input"].as_u64(),
            "{client:?}: {short} {long}"
        );
    }
    assert_eq!((pair.bill()?, pair.requests()?), (before, requests), "{client:?}");
    Ok(())
}

#[test]
fn a_list_and_a_count_have_a_name_and_a_count_knows_which_models_there_are() -> anyhow::Result<()> {
    let pair = Pair::start("through-lists", "instant", "", &[])?;
    let count = |model: &str| {
        let body =
            json!({ "model": model, "messages": [{ "role": "user", "content": "次は？" }] }).to_string();
        let proof = format!("x-api-key: {KEY}\r\n");
        pair.gateway.send("POST", "/v1/messages/count_tokens", &proof, body.as_bytes())
    };
    let list = |version: &str| {
        let headers = format!("x-api-key: {KEY}\r\n{version}");
        pair.gateway.send("GET", "/v1/models", &headers, b"")
    };
    let one = |name: &str| {
        let headers = format!("x-api-key: {KEY}\r\nanthropic-version: 2023-06-01\r\n");
        pair.gateway.send("GET", &format!("/v1/models/{name}"), &headers, b"")
    };
    for (answer, status, name) in [
        (list("anthropic-version: 2023-06-01\r\n")?, 200, "request-id"),
        (list("")?, 200, "x-request-id"),
        (one(ROUTES[3])?, 200, "request-id"),
        (one("nobody")?, 404, "request-id"),
        (count(ROUTES[3])?, 200, "request-id"),
        (count("nobody")?, 404, "request-id"),
    ] {
        let body = String::from_utf8_lossy(&answer.body);
        assert_eq!(answer.status, status, "{body}");
        assert!(answer.header(name).is_some_and(|id| id.starts_with("req_")), "{}{body}", answer.head);
        assert_eq!(status == 404, body.contains("not_found_error") && body.contains("nobody"), "{body}");
    }
    Ok(())
}
