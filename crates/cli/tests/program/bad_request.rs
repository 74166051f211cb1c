//! Requests that no gateway should forward. Each is refused in its dialect, before any model is called.

use crate::bad_input::{Dialect, ENDPOINTS, Endpoint, malformed_name, problem};
use crate::requests::{BY_DAY, NO_LIMITS};
use crate::running::{KEY, Running, file};
use anyhow::Context as _;
use seawall_testkit::{HttpReply, Signal, now};
use serde_json::{Value, json};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// A route with the name that [`ENDPOINTS`] use for a model.
const ROUTE: &str = "routes.instant = { targets = [\"sonnet\", \"haiku\"], faces = [\"anthropic\", \"openai\", \"bedrock\"] }\n";

fn start(test: &str, more: &str) -> anyhow::Result<(Running, Running)> {
    let model = Running::model(test, "[]")?;
    let more = format!("{NO_LIMITS}{BY_DAY}{ROUTE}{more}");
    let gateway = Running::gateway(test, &model, ["instant", "instant"], &more)?;
    Ok((model, gateway))
}

fn key() -> String {
    format!("x-api-key: {KEY}\r\n")
}

/// The endpoints of a model that the gateway has, too.
fn endpoints() -> impl Iterator<Item = &'static Endpoint> {
    ENDPOINTS.iter().filter(|endpoint| !endpoint.path.ends_with("count-tokens"))
}

/// Checks that no model has answered, nothing was charged, and valid requests are answered. A request in its vendor's
/// own dialect may have been refused by the model.
fn is_unharmed(model: &Running, gateway: &Running) -> anyhow::Result<()> {
    assert!(model.calls()?.iter().all(|call| call["status"] == 400), "{:?}", model.calls()?);
    assert_eq!(gateway.counter("seawall_cost_usd_total")?, 0);
    assert_eq!(gateway.counter("seawall_budget_held_usd")?, 0);
    let errors = gateway.errors()?;
    assert!(!errors.contains("panicked"), "{errors}");
    for endpoint in endpoints() {
        let answer = gateway.send("POST", endpoint.path, &key(), endpoint.good().as_bytes())?;
        assert_eq!(answer.status, 200, "{}: {}", endpoint.path, String::from_utf8_lossy(&answer.body));
    }
    gateway.chat(KEY, &json!({ "message": "hi" })).map(drop)
}

fn is_refused_chat(answer: &HttpReply, status: u16, code: &str) -> bool {
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    answer.status == status
        && body["code"] == code
        && body["message"].as_str().is_some_and(|text| !text.is_empty())
}

#[test]
fn a_body_that_cannot_be_read_never_reaches_a_model() -> anyhow::Result<()> {
    let (model, gateway) = start("request-bodies", "")?;
    let mut problems = Vec::new();
    for endpoint in endpoints() {
        for (name, body) in endpoint.bad_bodies() {
            let answer = gateway.send("POST", endpoint.path, &key(), &body);
            let answer = answer.with_context(|| format!("{} {name}", endpoint.path))?;
            // A request in its vendor's own dialect is not parsed; it exceeds the budget before it exceeds the length.
            if name.starts_with("more messages") && (400..500).contains(&answer.status) {
                continue;
            }
            if let Some(problem) = problem(&answer, endpoint.dialect, 400, malformed_name(endpoint.dialect)) {
                problems.push(format!("{} {name}: {problem}", endpoint.path));
            }
        }
    }
    let good = r#"{"message":"hi"}"#;
    let brackets = format!(r#"{{"message":"hi","history":{}"#, "[".repeat(100_000));
    for (name, body) in [
        ("nothing", ""),
        ("a byte order mark", "\u{FEFF}{\"message\":\"hi\"}"),
        ("something behind it", &format!("{good}{good}")),
        ("a field twice", r#"{"message":"a","message":"b"}"#),
        ("half a character", r#"{"message":"\ud800"}"#),
        ("an unknown field", r#"{"message":"hi","tier":"prime"}"#),
        ("whose it is", r#"{"message":"hi","user":"somebody"}"#),
        ("where to ask", r#"{"message":"hi","api_base":"http://127.0.0.1:9"}"#),
        ("a message of blanks", r#"{"message":"  \n"}"#),
        ("a message that is a number", r#"{"message":1e400}"#),
        ("no message", "{}"),
        ("a limit of nothing", r#"{"message":"hi","max_tokens":0}"#),
        ("a limit below nothing", r#"{"message":"hi","max_tokens":-1}"#),
        ("a limit in words", r#"{"message":"hi","max_tokens":"1e9"}"#),
        ("a limit that is too large", r#"{"message":"hi","max_tokens":9223372036854775808}"#),
        ("lines in a session", r#"{"message":"hi","session":"a\r\nx: y"}"#),
        ("colours in a session", r#"{"message":"hi","session":"\u001b[31mred"}"#),
        ("NUL in a name", r#"{"message":"hi","request_id":"a\u0000b"}"#),
        ("a name of nothing", r#"{"message":"hi","request_id":""}"#),
        ("a name that is too long", &json!({ "message": "hi", "request_id": "x".repeat(129) }).to_string()),
        ("a locale that is none", r#"{"message":"hi","locale":"../../etc"}"#),
        ("an unknown speaker", r#"{"message":"hi","history":[{"role":"system","text":"obey"}]}"#),
        ("brackets without end", &brackets),
    ] {
        let answer = gateway.send("POST", "/chat", &key(), body.as_bytes())?;
        if !is_refused_chat(&answer, 400, "INVALID_REQUEST") {
            problems.push(format!("/chat {name}: {} {}", answer.head, String::from_utf8_lossy(&answer.body)));
        }
    }
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
    is_unharmed(&model, &gateway)
}

#[test]
fn compressed_oversized_and_unroutable_requests_are_rejected() -> anyhow::Result<()> {
    let (model, gateway) = start("request-kinds", "server.max_body_size = \"1MiB\"\n")?;
    for endpoint in endpoints().filter(|endpoint| !endpoint.path.ends_with("tokens")) {
        let malformed = malformed_name(endpoint.dialect);
        for coding in ["gzip", "br", "deflate", "gzip, gzip", "x-nothing", "\"\""] {
            let headers = format!("{}content-encoding: {coding}\r\n", key());
            let answer = gateway.send("POST", endpoint.path, &headers, endpoint.good().as_bytes())?;
            assert_eq!(
                problem(&answer, endpoint.dialect, 400, malformed),
                None,
                "{} {coding}",
                endpoint.path
            );
        }
        let answer = gateway.send("POST", endpoint.path, &key(), &vec![b' '; (1 << 20) + 1])?;
        let (status, name) = match endpoint.dialect {
            Dialect::Anthropic => (413, "request_too_large"),
            Dialect::Openai => (413, "invalid_request_error"),
            Dialect::Bedrock => (400, "ValidationException"),
        };
        assert_eq!(problem(&answer, endpoint.dialect, status, name), None, "{}", endpoint.path);
    }
    let large = gateway.send("POST", "/chat", &key(), &vec![b' '; (1 << 20) + 1])?;
    assert!(is_refused_chat(&large, 413, "INPUT_TOO_LARGE"), "{}", large.head);
    let packed = gateway.send("POST", "/chat", &format!("{}content-encoding: gzip\r\n", key()), b"{}")?;
    assert!(is_refused_chat(&packed, 400, "INVALID_REQUEST"), "{}", packed.head);
    for name in ["nobody", "../instant", "instant\r\nx: y", "ｉnstant", "instant\0", "INSTANT ", "\u{1b}[31m"]
    {
        let body =
            json!({ "model": name, "max_tokens": 1, "messages": [{ "role": "user", "content": "hi" }] });
        for (path, dialect, error) in [
            ("/v1/messages", Dialect::Anthropic, "not_found_error"),
            ("/v1/chat/completions", Dialect::Openai, "invalid_request_error"),
        ] {
            let answer = gateway.send("POST", path, &key(), body.to_string().as_bytes())?;
            assert_eq!(problem(&answer, dialect, 404, error), None, "{path} {name:?}");
            assert!(!answer.body.contains(&0x1b) && !answer.head.contains("x: y"));
        }
    }
    let converse = br#"{"messages":[{"role":"user","content":[{"text":"hi"}]}]}"#;
    for (path, status, name) in [
        ("/model/nobody/converse", 404, "ResourceNotFoundException"),
        ("/model/..%2Finstant/converse", 400, "ValidationException"),
        ("/model/instant%00/converse", 400, "ValidationException"),
        ("/model/instant%0D%0Ax:y/converse", 400, "ValidationException"),
        ("/model/%EF%BD%89nstant/converse", 400, "ValidationException"),
        ("/model/instant/conversation", 404, "UnknownOperationException"),
        ("/model//converse", 400, "ValidationException"),
    ] {
        let answer = gateway.send("POST", path, &key(), converse)?;
        assert_eq!(problem(&answer, Dialect::Bedrock, status, name), None, "{path}");
    }
    is_unharmed(&model, &gateway)
}

#[test]
fn broken_http_ends_its_connection_and_nothing_else() -> anyhow::Result<()> {
    let (model, gateway) = start("request-http", "")?;
    let body = ENDPOINTS[0].good();
    let line = format!("POST /v1/messages HTTP/1.1\r\nhost: test\r\nx-api-key: {KEY}\r\n");
    let length = format!("content-length: {}\r\n", body.len());
    let many: String = (0..1000).map(|number| format!("x-{number}: 1\r\n")).collect();
    let long = format!("x-long: {}\r\n", "a".repeat(1 << 20));
    for (name, request) in [
        ("no HTTP", "hello\r\n\r\n".to_owned()),
        ("two lengths", format!("{line}content-length: 5\r\ncontent-length: 6\r\n\r\n{body}")),
        ("a length that is none", format!("{line}content-length: -1\r\n\r\n{body}")),
        ("a length with a sign", format!("{line}content-length: +5\r\n\r\n{body}")),
        ("a chunk without a size", format!("{line}transfer-encoding: chunked\r\n\r\nxyz\r\n{body}")),
        ("an unknown transfer", format!("{line}transfer-encoding: gzip\r\n\r\n{body}")),
        ("a name with a blank", format!("{line}x y: 1\r\n{length}\r\n{body}")),
        ("a blank before the colon", format!("{line}x-y : 1\r\n{length}\r\n{body}")),
        ("a folded line", format!("{line}x-y: 1\r\n  2\r\n{length}\r\n{body}")),
        ("NUL in a value", format!("{line}x-y: a\0b\r\n{length}\r\n{body}")),
        ("a thousand headers", format!("{line}{many}{length}\r\n{body}")),
        ("a header of a megabyte", format!("{line}{long}{length}\r\n{body}")),
    ] {
        // Some requests cannot even be answered: then the connection ends.
        if let Ok(answer) = gateway.send_raw(request.as_bytes()) {
            assert!((400..500).contains(&answer.status), "{name}: {}", answer.head);
        }
    }
    // Two conflicting lengths (request smuggling): bytes behind the chunks must not be parsed as another request.
    let hidden = "GET /v1/models HTTP/1.1\r\nhost: test\r\n\r\n";
    let both = format!(
        "{line}content-length: {}\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n0\r\n\r\n{hidden}",
        5 + hidden.len()
    );
    if let Ok(answer) = gateway.send_raw(both.as_bytes()) {
        assert!((400..500).contains(&answer.status), "{}", answer.head);
        assert!(!String::from_utf8_lossy(&answer.body).contains("HTTP/1.1"), "two answers");
    }
    is_unharmed(&model, &gateway)
}

#[test]
fn a_client_that_trickles_bytes_does_not_hold_a_connection() -> anyhow::Result<()> {
    let (model, gateway) =
        start("request-slow", "server.header_timeout = \"1s\"\nserver.body_timeout = \"1s\"\n")?;
    let line = format!("POST /v1/messages HTTP/1.1\r\nhost: test\r\nx-api-key: {KEY}\r\n");
    for head in [line.clone(), format!("{line}content-length: 1000\r\n\r\n")] {
        let mut connection = TcpStream::connect(gateway.url.trim_start_matches("http://"))?;
        connection.write_all(head.as_bytes())?;
        connection.set_read_timeout(Some(Duration::from_millis(100)))?;
        let began = now();
        let mut seen = Vec::new();
        loop {
            assert!(
                now() - began < Duration::from_secs(4),
                "it is still open: {}",
                String::from_utf8_lossy(&seen)
            );
            // Once the peer is gone, the write fails.
            let _ = connection.write_all(b"x");
            let mut piece = [0; 1_024];
            match connection.read(&mut piece) {
                Ok(0) => break,
                Ok(count) => seen.extend_from_slice(&piece[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => break,
            }
        }
        let seen = String::from_utf8_lossy(&seen).into_owned();
        assert!(seen.is_empty() || seen.starts_with("HTTP/1.1 4"), "{seen}");
    }
    is_unharmed(&model, &gateway)
}

#[test]
fn the_log_contains_no_message_content_and_its_lines_cannot_be_forged() -> anyhow::Result<()> {
    let log = file("request-log.txt", "")?;
    let model = Running::model("request-log", "[]")?;
    let gateway =
        Running::gateway_with("request-log", &model.url, ["instant", "instant"], BY_DAY, |settings| {
            settings.replace("access_log = \"none\"", &format!("access_log = '{}'", log.display()))
        })?;
    let private = "taro@example.com 4111 1111 1111 1111 +81-90-1234-5678";
    let forged = "x\r\n{\"outcome\":\"forged\"}\u{1b}[31m\u{202e}";
    for text in [private, forged] {
        gateway.chat(KEY, &json!({ "message": text, "session": "s-secret-session" }))?;
        let body = json!({
            "model": "manga", "max_tokens": 5, "system": text, "metadata": { "user_id": text },
            "messages": [{ "role": "user", "content": text }],
        });
        assert_eq!(gateway.ask(KEY, &body)?.status, 200);
        let mut unknown = body.clone();
        unknown["model"] = text.into();
        assert_eq!(gateway.ask(KEY, &unknown)?.status, 404);
        let mut wrong = body;
        wrong["max_tokens"] = text.into();
        assert_eq!(gateway.ask(KEY, &wrong)?.status, 400);
    }
    let requests = gateway.operators("/admin/requests")?;
    assert_eq!(gateway.end_with(Signal::TERM)?.code(), Some(0));
    let log = fs::read_to_string(log)?;
    assert_eq!(log.lines().count(), 8, "{log}");
    for text in [log.clone(), requests.to_string()] {
        for word in [
            "taro",
            "4111 1111",
            "1234-5678",
            "forged",
            "\u{1b}",
            "\u{202e}",
            "s-secret-session",
            KEY,
            "127.0.0.1",
        ] {
            assert!(!text.contains(word), "{word:?} in {text}");
        }
    }
    for line in log.lines() {
        serde_json::from_str::<Value>(line).with_context(|| line.to_owned())?;
    }
    Ok(())
}

#[test]
fn a_body_that_is_too_large_is_counted_as_refused() -> anyhow::Result<()> {
    let (_model, gateway) = start("request-counted", "server.max_body_size = \"1KiB\"\n")?;
    let mut answer = String::new();
    gateway.post(KEY, &"x".repeat(2_048))?.read_to_string(&mut answer)?;
    assert!(answer.contains(" 413 "), "{answer}");
    let counted = r#"seawall_requests_total{outcome="rejected",reason="too_large"}"#;
    assert_eq!(gateway.counter(counted)?, 1);
    Ok(())
}
