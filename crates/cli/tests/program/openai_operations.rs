//! What else OpenAI's clients ask for: Responses by Vercel's SDK and by WebSocket, compaction, embeddings, and what the
//! gateway does not carry.

use crate::client::Client;
use crate::running::{KEY, Running, settings};
use serde_json::{Value, json};

const CREDENTIALS: [(&str, &str); 2] =
    [("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"), ("AWS_SECRET_ACCESS_KEY", "secret")];

/// A model, and a gateway with chat targets in two dialects and embedding targets at two vendors.
fn start(test: &str) -> anyhow::Result<(Running, Running)> {
    let model = Running::model(test, "[]")?;
    let url = &model.url;
    let mut more = format!(
        r#"
        models."gpt-4o-mini" = {{ input = "$0.25/M", output = "$1.25/M", context_window = 128_000, max_output = 16_000 }}
        targets.gpt = {{ provider = "openai", base_url = "{url}/v1", model = "gpt-4o-mini", api = "both", api_key = "env:PATH", grade = "fast", breaker = "haiku" }}
        routes.gpt = {{ targets = ["gpt"], faces = ["openai"] }}
        routes.claude = {{ targets = ["haiku"], faces = ["openai"] }}
        routes.fallback = {{ targets = ["haiku", "openai-embed"], faces = ["openai"] }}
        "#
    );
    for (route, provider, model) in [
        ("openai-embed", "openai", "text-embedding-3-small"),
        ("titan", "bedrock", "amazon.titan-embed-text-v2:0"),
        ("cohere", "bedrock", "cohere.embed-v4:0"),
    ] {
        let own = if provider == "openai" {
            format!(r#"base_url = "{url}/v1", api_key = "env:PATH""#)
        } else {
            format!(r#"base_url = "{url}", region = "us-east-1""#)
        };
        more += &format!(
            r#"
            models."{model}" = {{ input = "$0.02/M", max_output = 0, context_window = 8_192 }}
            targets.{route} = {{ provider = "{provider}", model = "{model}", {own}, grade = "fast", breaker = "haiku" }}
            routes.{route} = {{ targets = ["{route}"], faces = ["openai", "bedrock"] }}
            "#
        );
    }
    let gateway = Running::gateway_in(test, &(settings(url, ["instant", "instant"]) + &more), &CREDENTIALS)?;
    Ok((model, gateway))
}

fn post(gateway: &Running, path: &str, body: &Value) -> anyhow::Result<(u16, Value)> {
    let proof = format!("authorization: Bearer {KEY}\r\n");
    let answer = gateway.send("POST", path, &proof, body.to_string().as_bytes())?;
    Ok((answer.status, serde_json::from_slice(&answer.body)?))
}

/// The length of a vector, squared. The simulated models normalize theirs.
fn norm(vector: &Value) -> f64 {
    vector.as_array().into_iter().flatten().filter_map(Value::as_f64).map(|number| number * number).sum()
}

#[test]
fn embeddings_come_from_every_kind_of_target_and_are_charged_to_the_nano_dollar() -> anyhow::Result<()> {
    let (model, gateway) = start("operations-embeddings")?;
    let texts = ["次は何を読もう？", "Something with trains"];
    let input_on_bill = || anyhow::Ok(model.bill("embedding")?["input_tokens"].as_u64().unwrap_or(0));
    for client in [Client::OpenaiPython, Client::OpenaiNode, Client::Vercel] {
        let mut session = client.open(&gateway.url)?;
        let mut first: Option<f64> = None;
        for (route, count) in [("openai-embed", 2), ("cohere", 2), ("titan", 1)] {
            for encoding in [Value::Null, json!("float"), json!("base64")] {
                let call = json!({"key": KEY, "model": route, "embed": texts[..count], "encoding": encoding});
                let which = format!("{client:?} {route} {encoding}");
                let before = input_on_bill()?;
                let seen = session.sees(&call)?;
                assert_eq!((&seen["error"], &seen["complete"]), (&Value::Null, &json!(true)), "{which}");
                assert_eq!(seen["input"], input_on_bill()? - before, "{which}");
                let vectors = seen["vectors"].as_array().cloned().unwrap_or_default();
                assert_eq!(vectors.len(), count, "{which}");
                if vectors[0].is_string() {
                    // The libraries do not decode what was requested by name.
                    assert_eq!(encoding, "base64", "{which}");
                    continue;
                }
                for vector in &vectors {
                    assert_eq!(vector.as_array().map(Vec::len), Some(1_536), "{which}");
                    assert!((norm(vector) - 1.0).abs() < 1e-3, "{which}");
                }
                // Every target has the same vectors, because it is the same simulated model.
                let number = vectors[0][0].as_f64().unwrap_or_default();
                assert!((*first.get_or_insert(number) - number).abs() < 1e-6, "{which}: {number}");
            }
        }
    }
    let cost = model.bill("embedding")?["nano_dollars"].as_u64().unwrap_or(0);
    assert_eq!(gateway.counter("seawall_budget_posted_usd")?, cost);
    assert_eq!(gateway.counter("seawall_output_tokens_total")?, 0);
    assert_eq!(gateway.counter("seawall_budget_held_usd")?, 0);
    Ok(())
}

#[test]
fn an_embedding_that_no_target_can_make_is_refused_by_name_and_costs_nothing() -> anyhow::Result<()> {
    let (model, gateway) = start("operations-unsupported")?;
    let two = json!(["a", "b"]);
    let unsupported = "Not supported by the target model";
    for (route, input, expected) in [
        ("claude", json!("a"), [format!("input: {unsupported} "), ": embeddings".to_owned()]),
        (
            "titan",
            two.clone(),
            [format!("input: {unsupported} "), ": more than one text per request".to_owned()],
        ),
        (
            "cohere",
            json!([[1]]),
            [format!("input.0: {unsupported} "), ": token numbers; send the text itself".to_owned()],
        ),
        ("openai-embed", json!([]), ["input: at least one text is required".to_owned(), String::new()]),
    ] {
        let (status, body) = post(&gateway, "/v1/embeddings", &json!({"model": route, "input": input}))?;
        let message = body["error"]["message"].as_str().unwrap_or_default();
        let is_expected = expected.iter().all(|part| message.contains(part));
        assert!(status == 400 && is_expected, "{route}: {status} {body}");
    }
    assert_eq!(gateway.counter("seawall_budget_posted_usd")?, 0);
    // A model that only embeds is not asked for an answer, which would have no price.
    let chat = json!({"model": "titan", "messages": [{"role": "user", "content": "a"}], "max_tokens": 5});
    let (status, body) = post(&gateway, "/v1/chat/completions", &chat)?;
    let message = body["error"]["message"].as_str().unwrap_or_default();
    assert!(status == 400 && message.contains("generates no answers"), "{body}");
    assert_eq!(gateway.counter("seawall_budget_posted_usd")?, 0);
    // Its own format passes through InvokeModel, at the price of its input.
    let (status, body) = post(&gateway, "/model/titan/invoke", &json!({"inputText": "a"}))?;
    assert!(status == 200 && body["embedding"].is_array(), "{status} {body}");
    // A target that cannot embed is passed over.
    let (status, body) = post(&gateway, "/v1/embeddings", &json!({"model": "fallback", "input": two}))?;
    assert_eq!((status, body["data"].as_array().map(Vec::len)), (200, Some(2)), "{body}");
    // A failing target is retried like any other, and no reservation is left.
    model.set_faults(&json!([{ "fault": { "kind": "status", "status": 500 } }]))?;
    let (status, body) = post(&gateway, "/v1/embeddings", &json!({"model": "openai-embed", "input": "a"}))?;
    assert_eq!((status, &body["error"]["type"]), (500, &json!("server_error")), "{body}");
    for fault in [
        json!({"kind": "truncate", "after": 0}),
        json!({"kind": "malformed", "after": 0}),
        json!({"kind": "html"}),
    ] {
        model.set_faults(&json!([{ "fault": fault }]))?;
        let (status, body) = post(&gateway, "/v1/embeddings", &json!({"model": "titan", "input": "a"}))?;
        assert_eq!(status, 500, "{fault}: {body}");
    }
    assert_eq!(gateway.counter("seawall_budget_held_usd")?, 0);
    Ok(())
}

#[test]
fn a_conversation_is_compacted_where_the_target_can() -> anyhow::Result<()> {
    let (model, gateway) = start("operations-compact")?;
    let request =
        |model: &str| json!({"model": model, "input": [{"role": "user", "content": "次は何を読もう？"}]});
    let (status, body) = post(&gateway, "/v1/responses/compact", &request("gpt"))?;
    assert_eq!((status, &body["object"]), (200, &json!("response.compaction")), "{body}");
    assert_eq!(body["output"][0]["type"], "compaction");
    let bill = model.bill("haiku")?;
    assert_eq!(body["usage"]["output_tokens"], bill["output_tokens"]);
    let cost = bill["nano_dollars"].as_u64().unwrap_or(0);
    assert_eq!(gateway.counter("seawall_budget_posted_usd")?, cost);
    let (status, body) = post(&gateway, "/v1/responses/compact", &request("claude"))?;
    let message = body["error"]["message"].as_str().unwrap_or_default();
    assert!(status == 400 && message.contains("compaction"), "{body}");
    Ok(())
}

#[test]
fn what_is_stored_at_openai_is_only_asked_of_a_target_with_that_api() -> anyhow::Result<()> {
    let (_model, gateway) = start("operations-stored")?;
    for (field, value) in [("store", json!(true)), ("previous_response_id", json!("resp_1"))] {
        let mut body = json!({"model": "claude", "input": "a", "max_output_tokens": 5});
        body[field] = value;
        let (status, answer) = post(&gateway, "/v1/responses", &body)?;
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(status == 400 && message.contains(field), "{field}: {status} {answer}");
    }
    for store in [Value::Null, json!(false)] {
        let body = json!({"model": "claude", "input": "a", "max_output_tokens": 5, "store": store});
        assert_eq!(post(&gateway, "/v1/responses", &body)?.0, 200);
    }
    let body = json!({"model": "gpt", "input": "a", "max_output_tokens": 5, "store": true});
    let (status, answer) = post(&gateway, "/v1/responses", &body)?;
    assert_eq!(status, 200, "{answer}");
    Ok(())
}

#[test]
fn vercels_sdk_reads_answers_streams_tools_and_errors() -> anyhow::Result<()> {
    let (model, gateway) = start("operations-vercel")?;
    let mut session = Client::Vercel.open(&gateway.url)?;
    let tool = json!({
        "name": "recommend",
        "schema": {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]},
    });
    for route in ["gpt", "claude"] {
        let mut texts = Vec::new();
        for stream in [false, true] {
            let call = json!({"key": KEY, "model": route, "stream": stream, "max_tokens": 4_000});
            let seen = session.sees(&call)?;
            assert_eq!((&seen["error"], &seen["finish"]), (&Value::Null, &json!("stop")), "{route}: {seen}");
            assert!(seen["output"].as_u64() > Some(5), "{route}: {seen}");
            texts.push(seen["text"].clone());
            let call = json!({"key": KEY, "model": route, "stream": stream, "max_tokens": 200, "tool": tool});
            let seen = session.sees(&call)?;
            let filled = json!({"name": "recommend", "input": {"title": "What should I read next?"}});
            assert_eq!((&seen["tool"], &seen["finish"]), (&filled, &json!("tool-calls")), "{route}: {seen}");
        }
        assert!(texts[0] == texts[1] && texts[0] != "", "{texts:?}");
        let seen = session.sees(&json!({"key": "sk-wrong-0123456789abcdef", "model": route}))?;
        assert_eq!(seen["error"]["status"], 401, "{seen}");
    }
    model.set_faults(&json!([{ "fault": { "kind": "end_early", "after": 4 } }]))?;
    for route in ["gpt", "claude"] {
        let seen = session.sees(&json!({"key": KEY, "model": route, "stream": true}))?;
        assert!(seen["error"].is_object() && seen["complete"] == false, "{route}: {seen}");
    }
    Ok(())
}

#[test]
fn frameworks_in_responses_mode_read_answers_streams_tools_and_errors() -> anyhow::Result<()> {
    let (model, gateway) = start("operations-frameworks")?;
    let tool = json!({
        "name": "recommend",
        "schema": {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]},
    });
    let input = json!({ "title": "Harbour Trains" });
    let rule = json!({ "fault": { "kind": "tool_call", "tool": "recommend", "input": input } });
    for client in [Client::LangchainResponses, Client::PydanticResponses] {
        let mut session = client.open(&gateway.url)?;
        for route in ["gpt", "claude"] {
            let mut texts = Vec::new();
            for stream in [false, true] {
                let which = format!("{client:?} {route}, stream: {stream}");
                let mut call = json!({"key": KEY, "model": route, "stream": stream, "max_tokens": 4_000});
                model.set_faults(&json!([]))?;
                let seen = session.sees(&call)?;
                assert_eq!(
                    (&seen["error"], &seen["complete"]),
                    (&Value::Null, &json!(true)),
                    "{which}: {seen}"
                );
                assert!(seen["output"].as_u64() > Some(5), "{which}: {seen}");
                assert!(!stream || seen["pieces"].as_u64() > Some(2), "{which}: {seen}");
                texts.push(seen["text"].clone());
                model.set_faults(&json!([rule]))?;
                call["tool"] = tool.clone();
                let seen = session.sees(&call)?;
                let called = json!({ "name": "recommend", "input": input });
                assert_eq!((&seen["error"], &seen["tool"]), (&Value::Null, &called), "{which}: {seen}");
            }
            assert!(texts[0] == texts[1] && texts[0] != "", "{client:?} {route}: {texts:?}");
            model.set_faults(&json!([{ "fault": { "kind": "status", "status": 503 } }]))?;
            for (key, status) in [("sk-wrong-0123456789abcdef", 401), (KEY, 500)] {
                let before = gateway.counter("seawall_requests_total")?;
                let seen = session.sees(&json!({"key": key, "model": route, "retries": 2}))?;
                assert_eq!(seen["error"]["status"], status, "{client:?} {route}: {seen}");
                let requests = gateway.counter("seawall_requests_total")? - before;
                assert_eq!(requests, 1, "{client:?} {route}: asked again: {seen}");
            }
        }
    }
    Ok(())
}

#[test]
fn a_websocket_is_declined_at_once() -> anyhow::Result<()> {
    let (_model, gateway) = start("operations-websocket")?;
    let upgrade = format!(
        "authorization: Bearer {KEY}\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    );
    let answer = gateway.send("GET", "/v1/responses", &upgrade, b"")?;
    let body: Value = serde_json::from_slice(&answer.body)?;
    assert_eq!(answer.status, 426, "{body}");
    assert!(body["error"]["message"].as_str().is_some_and(|message| message.contains("POST")), "{body}");
    assert_eq!(gateway.send("GET", "/v1/responses", "", b"")?.status, 405);
    Ok(())
}

#[test]
fn an_operation_that_is_not_carried_is_named() -> anyhow::Result<()> {
    let (_model, gateway) = start("operations-not-carried")?;
    for client in [Client::OpenaiPython, Client::OpenaiNode] {
        let seen = client.open(&gateway.url)?.sees(&json!({"key": KEY, "images": true, "retries": 2}))?;
        assert_eq!(seen["error"]["kinds"][0], "NotFoundError", "{client:?}: {seen}");
        let message = seen["error"]["text"].as_str().unwrap_or_default();
        assert!(message.contains("not supported by the gateway: images"), "{client:?}: {message}");
    }
    Ok(())
}
