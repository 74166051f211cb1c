//! Information about rejections for callers and operators: which limit, in which language, whose key.

use crate::requests::{BY_DAY, NO_LIMITS, question};
use crate::running::{KEY, Running};
use seawall_testkit::{HttpReply, wait_until};
use serde_json::{Value, json};

fn send(gateway: &Running, path: &str, headers: &str, body: &Value) -> anyhow::Result<HttpReply> {
    let headers = format!("x-api-key: {KEY}\r\n{headers}");
    gateway.send("POST", path, &headers, body.to_string().as_bytes())
}

fn text(answer: &HttpReply) -> String {
    String::from_utf8_lossy(&answer.body).into_owned()
}

#[test]
fn a_limit_that_refuses_is_named_on_every_face_and_to_operators() -> anyhow::Result<()> {
    let model = Running::model("why-limit", "[]")?;
    let limit = "limits.tiers.prime = { minute = \"2/min\", burst = 1, hour = \"50/h\", day = \"50/day\" }\n";
    let gateway = Running::gateway("why-limit", &model, ["instant", "instant"], limit)?;
    for _ in 0..3 {
        assert_eq!(gateway.ask(KEY, &question(1, false))?.status, 200);
    }
    let messages = json!([{ "role": "user", "content": "hello" }]);
    let faces = [
        ("/v1/messages", question(1, false)),
        ("/v1/chat/completions", json!({ "model": "manga", "messages": messages })),
        (
            "/model/manga/converse",
            json!({ "messages": [{ "role": "user", "content": [{ "text": "hello" }] }] }),
        ),
        (
            "/model/manga/invoke",
            json!({ "max_tokens": 5, "messages": messages, "anthropic_version": "bedrock-2023-05-31" }),
        ),
        ("/chat", json!({ "message": "hello there" })),
    ];
    for (path, body) in faces {
        let refused = send(&gateway, path, "", &body)?;
        let message = text(&refused);
        assert_eq!(
            refused.status,
            if path.starts_with("/model") { refused.status } else { 429 },
            "{path}: {message}"
        );
        assert!(matches!(refused.status, 429 | 400), "{path}: {}", refused.status);
        assert!(
            message
                .contains("rate limit exceeded: 3 requests per minute (per caller, tier prime); retry in "),
            "{path}: {message}"
        );
        let header = refused.header("ratelimit").unwrap_or_default();
        assert!(header.starts_with("\"minute\";r=0;t="), "{path}: {header}");
        let policy = refused.header("ratelimit-policy").unwrap_or_default();
        assert!(policy.starts_with("\"minute\";q=3;w=60, \"hour\";q=50;w=3600"), "{path}: {policy}");
    }
    let newest = &gateway.requests(1)?[0];
    assert_eq!((&newest["limit"], &newest["limit_scope"]), (&"minute".into(), &"caller".into()), "{newest}");
    assert_eq!(
        gateway.counter("seawall_rate_limited_total{limit=\"minute\",scope=\"caller\",mode=\"enforce\"}")?,
        5
    );
    Ok(())
}

#[test]
fn the_chat_refuses_in_its_callers_language() -> anyhow::Result<()> {
    let model = Running::model("why-language", "[]")?;
    let limit = "limits.tiers.prime = { minute = \"1/min\", burst = 0 }\n";
    let gateway = Running::gateway("why-language", &model, ["instant", "instant"], limit)?;
    gateway.chat(KEY, &json!({ "message": "hello" }))?;
    let message = |headers: &str, body: &Value| -> anyhow::Result<String> {
        let refused = send(&gateway, "/chat", headers, body)?;
        assert!(refused.status >= 400, "{}", refused.status);
        let body: Value = serde_json::from_slice(&refused.body)?;
        assert!(!body["detail"].as_str().unwrap_or_default().is_empty(), "{body}");
        Ok(body["message"].as_str().unwrap_or_default().to_owned())
    };
    let is_japanese = |text: &str| text.chars().any(|sign| matches!(sign, 'ぁ'..='ん'));
    // By the message, by its own language field and, if the body cannot be parsed, by the `accept-language` header.
    assert!(is_japanese(&message("", &json!({ "message": "こんにちは" }))?));
    assert!(!is_japanese(&message("", &json!({ "message": "hello again" }))?));
    assert!(is_japanese(&message("", &json!({ "message": "hello", "locale": "ja-JP" }))?));
    assert!(!is_japanese(&message("accept-language: en-GB,ja;q=0.5\r\n", &json!({ "nothing": 1 }))?));
    assert!(is_japanese(&message("accept-language: fr, ja\r\n", &json!({ "nothing": 1 }))?));
    Ok(())
}

#[test]
fn a_vendors_guardrail_intervention_is_passed_on_and_not_retried() -> anyhow::Result<()> {
    // A vendor's content filter as an error, which must not be bypassed by calling another model.
    let fault = json!({ "kind": "status", "status": 400, "error": "content_filter" });
    let model = Running::model("why-guardrail", "[]")?;
    let more = format!("{NO_LIMITS}{BY_DAY}");
    let gateway =
        Running::gateway_with("why-guardrail", &model.url, ["instant", "haiku"], &more, |settings| {
            let settings = settings.replace("provider = \"anthropic\"", "provider = \"openai\"");
            settings.replace(&model.url, &format!("{}/v1", model.url))
        })?;
    model.set_faults(&json!([{ "model": "instant", "fault": fault }]))?;
    let answer = gateway.chat(KEY, &json!({ "message": "tell me something bad" }))?;
    assert_eq!((&answer["rung"], &answer["finish"]), (&"apology".into(), &"refused".into()), "{answer}");
    assert_eq!(answer["reasons"], json!(["guardrail:vendor"]), "{answer}");
    assert!(answer["answer"].as_str().unwrap_or_default().contains("questions about manga"), "{answer}");
    assert_eq!((model.calls_of("instant")?, model.calls_of("haiku")?), (1, 0));
    Ok(())
}

#[test]
fn a_key_that_the_vendor_rejects_is_seen_everywhere_until_it_is_accepted() -> anyhow::Result<()> {
    let rejected = json!([{ "model": "instant", "fault": { "kind": "status", "status": 401 } }]);
    let model = Running::model("why-key", &rejected.to_string())?;
    let gateway = Running::gateway("why-key", &model, ["instant", "haiku"], NO_LIMITS)?;
    assert_eq!(gateway.target("sonnet")?["credential"], "unknown");
    for _ in 0..3 {
        // The other target's key is valid.
        assert_eq!(gateway.ask(KEY, &question(1, false))?.status, 200);
    }
    assert_eq!(gateway.target("sonnet")?["credential"], "rejected");
    assert_eq!(gateway.target("haiku")?["credential"], "accepted");
    assert_eq!(gateway.counter("seawall_target_credential_rejected{target=\"sonnet\"}")?, 1);
    assert_eq!(gateway.get("/readyz")?, "ready\ntarget sonnet: the provider rejects our API key\n");
    model.set_faults(&json!([]))?;
    wait_until("the key is accepted", || {
        gateway.ask(KEY, &question(1, false))?;
        Ok(gateway.target("sonnet")?["credential"] == "accepted")
    })?;
    assert_eq!(gateway.get("/readyz")?, "ready\n");
    assert_eq!(gateway.counter("seawall_target_credential_rejected{target=\"sonnet\"}")?, 0);
    let message = gateway.errors()?;
    let lines = |words: &str| message.lines().filter(|line| line.contains(words)).count();
    assert_eq!(
        (lines("the provider rejects our API key"), lines("accepts our API key again")),
        (1, 1),
        "{message}"
    );
    Ok(())
}

#[test]
fn a_guardrail_looks_at_every_text_on_every_face_of_its_route() -> anyhow::Result<()> {
    let model = Running::model("why-texts", "[]")?;
    let more = format!("{NO_LIMITS}{BY_DAY}assistant.deny = [\"forbidden fruit\"]\n");
    let gateway = Running::gateway("why-texts", &model, ["instant", "haiku"], &more)?;
    let bad = "f\u{43E}rbidden fru\u{AD}it";
    let turns = json!([{ "role": "user", "content": "hi" }, { "role": "assistant", "content": bad }, { "role": "user", "content": "go on" }]);
    let cases = [
        ("/v1/messages", json!({ "model": "manga", "max_tokens": 5, "messages": turns })),
        (
            "/v1/messages",
            json!({ "model": "manga", "max_tokens": 5, "system": bad, "messages": [{ "role": "user", "content": "hi" }] }),
        ),
        ("/v1/chat/completions", json!({ "model": "manga", "messages": turns })),
        (
            "/model/manga/converse",
            json!({ "messages": [{ "role": "user", "content": [{ "text": "hi" }, { "text": bad }] }] }),
        ),
    ];
    for (path, body) in &cases {
        let refused = send(&gateway, path, "", body)?;
        assert_eq!(refused.status, 400, "{path}: {}", text(&refused));
        assert!(text(&refused).contains("deny_list.1") && !text(&refused).contains("fruit"), "{path}");
    }
    let history = json!([{ "role": "user", "text": "hi" }, { "role": "assistant", "text": bad }]);
    let chat = gateway.chat(KEY, &json!({ "message": "go on", "history": history }))?;
    assert_eq!(chat["finish"], "blocked", "{chat}");
    assert_eq!(model.calls()?.len(), 0);
    assert_eq!(gateway.ask(KEY, &question(1, false))?.status, 200);
    Ok(())
}

#[test]
fn each_route_has_its_own_guardrail_that_joins_adjacent_texts() -> anyhow::Result<()> {
    let model = Running::model("why-routes", "[]")?;
    let route = "targets = [\"sonnet\"], faces = [\"anthropic\", \"openai\", \"bedrock\"]";
    let more = format!(
        "{NO_LIMITS}{BY_DAY}routes.guarded = {{ {route}, deny = [\"secret sauce\"] }}\nroutes.open = {{ {route} }}\n"
    );
    let gateway = Running::gateway("why-routes", &model, ["instant", "haiku"], &more)?;
    let block = |text: &str| json!({ "type": "text", "text": text });
    let split = json!([
        { "role": "user", "content": [block("the sec"), block("ret")] },
        { "role": "user", "content": [block(" sauce, please")] },
    ]);
    let converse = json!([{ "role": "user", "content": [{ "text": "the secret" }, { "text": "sauce" }] }]);
    let invoke = json!({ "max_tokens": 5, "messages": split, "anthropic_version": "bedrock-2023-05-31" });
    for (route, status) in [("guarded", 400), ("open", 200)] {
        let request = json!({ "model": route, "max_tokens": 5, "messages": split });
        for (path, body) in [
            ("/v1/messages", &request),
            ("/v1/chat/completions", &request),
            (&format!("/model/{route}/converse"), &json!({ "messages": converse })),
            (&format!("/model/{route}/invoke"), &invoke),
        ] {
            let calls = model.calls()?.len();
            let answer = send(&gateway, path, "", body)?;
            let message = text(&answer);
            assert_eq!(answer.status, status, "{path} of {route}: {message}");
            assert_eq!(message.contains("deny_list.1"), status == 400, "{path} of {route}: {message}");
            assert_eq!(model.calls()?.len() > calls, status == 200, "{path} of {route}");
        }
    }
    Ok(())
}
