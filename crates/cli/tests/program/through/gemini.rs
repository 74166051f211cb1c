//! Google's client libraries against the gateway: rejections, failures, and credentials in every place where a client
//! of the Gemini API sends them.

use super::{Pair, ROUTES, sees};
use crate::client::Client;
use crate::running::KEY;
use serde_json::{Value, json};

/// The exception of each library for a status.
const fn exception(client: Client, status: u16) -> &'static str {
    match (client, status) {
        (Client::GeminiPython, 400..500) => "ClientError",
        (Client::GeminiPython, _) => "ServerError",
        _ => "ApiError",
    }
}

#[test]
fn a_rejection_or_a_failure_raises_with_its_status_and_name() -> anyhow::Result<()> {
    let strict =
        "limits.tiers.standard = { minute = \"1/min\", burst = 0, hour = \"1/h\", day = \"1/day\" }\n";
    let pair = Pair::start("through-gemini", "instant", strict, &Client::GEMINI)?;
    for (number, client) in Client::GEMINI.into_iter().enumerate() {
        let mut session = client.open(&pair.gateway.url)?;
        let limited = &pair.strict[number];
        let first = sees(&mut session, limited, &json!({ "model": ROUTES[0] }))?;
        assert_eq!(
            (&first["error"], &first["complete"]),
            (&Value::Null, &json!(true)),
            "{client:?}: {first}"
        );
        let (nobody, known) = (json!({ "key": "sk-nobody-0123456789" }), json!({ "key": KEY }));
        for stream in [false, true] {
            for (proof, model, fault, status, name) in [
                (&nobody, ROUTES[0], Value::Null, 401, "UNAUTHENTICATED"),
                (&known, "nobody", Value::Null, 404, "NOT_FOUND"),
                (limited, ROUTES[0], Value::Null, 429, "RESOURCE_EXHAUSTED"),
                (&known, ROUTES[4], json!({ "kind": "status", "status": 400 }), 400, "INVALID_ARGUMENT"),
                (&known, ROUTES[4], json!({ "kind": "status", "status": 429 }), 429, "RESOURCE_EXHAUSTED"),
                (&known, ROUTES[0], json!({ "kind": "status", "status": 500 }), 500, "INTERNAL"),
                (&known, ROUTES[4], json!({ "kind": "reset" }), 503, "UNAVAILABLE"),
            ] {
                let faults = if fault.is_null() { json!([]) } else { json!([{ "fault": fault }]) };
                pair.model.set_faults(&faults)?;
                let requests = pair.requests()?;
                let seen = sees(&mut session, proof, &json!({ "model": model, "stream": stream }))?;
                let which = format!("{client:?}, stream: {stream}, {name}, {fault}: {seen}");
                assert_eq!(seen["error"]["kinds"][0], exception(client, status), "{which}");
                assert_eq!(seen["error"]["status"], status, "{which}");
                assert!(seen["error"]["text"].as_str().is_some_and(|text| text.contains(name)), "{which}");
                assert_eq!((&seen["text"], pair.requests()?), (&json!(""), requests + 1), "{which}");
            }
        }
        pair.model.set_faults(&json!([]))?;
    }
    assert_eq!(pair.gateway.counter("seawall_budget_held_usd")?, 0);
    Ok(())
}

#[test]
fn a_key_is_accepted_in_the_header_and_a_stream_must_be_of_events() -> anyhow::Result<()> {
    let pair = Pair::start("through-gemini-raw", "instant", "", &[])?;
    let body = br#"{"contents":[{"parts":[{"text":"hi"}]}],"generationConfig":{"maxOutputTokens":5}}"#;
    let header = format!("x-goog-api-key: {KEY}\r\n");
    let send = |path: &str, headers: &str| pair.gateway.send("POST", path, headers, body);
    for version in ["v1", "v1beta"] {
        let model = format!("/{version}/models/{}", ROUTES[4]);
        for (path, headers) in [
            (format!("{model}:generateContent"), header.as_str()),
            (format!("{model}:streamGenerateContent?alt=sse"), &header),
            (format!("{model}:countTokens"), &header),
        ] {
            let reply = send(&path, headers)?;
            assert_eq!(reply.status, 200, "{path}: {reply:?}");
        }
        for (path, headers, status, problem) in [
            (format!("{model}:streamGenerateContent"), header.as_str(), 400, "alt=sse"),
            (format!("{model}:generateContent"), "", 401, "UNAUTHENTICATED"),
            (format!("{model}:generateContent?key={KEY}"), &header, 401, "UNAUTHENTICATED"),
            (format!("{model}:embedContent"), &header, 404, "NOT_FOUND"),
        ] {
            let reply = send(&path, headers)?;
            let error: Value = serde_json::from_slice(&reply.body)?;
            assert_eq!((reply.status, &error["error"]["code"]), (status, &json!(status)), "{path}: {error}");
            assert!(error.to_string().contains(problem), "{path}: {error}");
        }
    }
    Ok(())
}
