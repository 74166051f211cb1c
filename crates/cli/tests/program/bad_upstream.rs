//! Invalid model responses. The caller gets a proper response, no other host is contacted, and the gateway keeps
//! running.

use crate::requests::{NO_LIMITS, question};
use crate::running::{KEY, Running};
use anyhow::Context as _;
use seawall_testkit::now;
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A server that answers every request with the same bytes.
struct Upstream {
    url: String,
    requests: Arc<AtomicUsize>,
    answer: Arc<Mutex<Vec<u8>>>,
    ends: Arc<AtomicBool>,
}

impl Upstream {
    fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("http://{}", listener.local_addr()?);
        let (requests, answer) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
        let ends = Arc::new(AtomicBool::new(false));
        let state = (Arc::clone(&requests), Arc::clone(&answer), Arc::clone(&ends));
        std::thread::Builder::new().spawn(move || {
            let (requests, answer, ends) = state;
            for stream in listener.incoming() {
                if ends.load(Ordering::SeqCst) {
                    return;
                }
                requests.fetch_add(1, Ordering::SeqCst);
                let bytes = answer.lock().unwrap_or_else(PoisonError::into_inner).clone();
                // The client may close before it has read everything.
                let _ = stream.and_then(|stream| serve(stream, &bytes));
            }
        })?;
        Ok(Self { url, requests, answer, ends })
    }

    fn says(&self, bytes: impl Into<Vec<u8>>) {
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = bytes.into();
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        // Unblocks the last accept.
        let _ = TcpStream::connect(self.url.trim_start_matches("http://"));
    }
}

/// Reads one request and sends this response.
fn serve(mut stream: TcpStream, answer: &[u8]) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let (mut seen, mut buffer) = (Vec::new(), [0; 8_192]);
    loop {
        let count = stream.read(&mut buffer)?;
        seen.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&seen).to_lowercase();
        let length = text.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
        let length: usize = length.and_then(|length| length.parse().ok()).unwrap_or(0);
        let whole = text.split_once("\r\n\r\n").is_some_and(|(_, body)| body.len() >= length);
        if whole || count == 0 {
            break;
        }
    }
    stream.write_all(answer)
}

fn http(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let head =
        format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

fn answer(usage: &Value) -> Vec<u8> {
    let body = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "instant",
        "content": [{ "type": "text", "text": "hello" }],
        "stop_reason": "end_turn", "stop_sequence": null, "usage": usage,
    });
    http("200 OK", "content-type: application/json\r\n", body.to_string().as_bytes())
}

fn start(test: &str) -> anyhow::Result<(Upstream, Running)> {
    let upstream = Upstream::start()?;
    let breakers = "breakers.sonnet = { failure_threshold = 100000, min_calls = 100000 }\n\
                    breakers.haiku = { failure_threshold = 100000, min_calls = 100000 }\n";
    let more = format!("{NO_LIMITS}retry.max_retries = 0\n{breakers}");
    let gateway = Running::gateway_with(test, &upstream.url, ["instant", "instant"], &more, |text| text)?;
    Ok((upstream, gateway))
}

fn lives(upstream: &Upstream, gateway: &Running) -> anyhow::Result<()> {
    upstream.says(answer(&json!({ "input_tokens": 5, "output_tokens": 2 })));
    let good = gateway.ask(KEY, &question(5, false))?;
    assert_eq!(good.status, 200, "{}", String::from_utf8_lossy(&good.body));
    assert_eq!(gateway.counter("seawall_budget_held_usd")?, 0);
    let errors = gateway.errors()?;
    assert!(!errors.contains("panicked"), "{errors}");
    Ok(())
}

#[test]
fn a_redirect_is_not_followed() -> anyhow::Result<()> {
    let (upstream, gateway) = start("upstream-redirect")?;
    let trap = Upstream::start()?;
    trap.says(answer(&json!({ "input_tokens": 5, "output_tokens": 2 })));
    for status in ["301 Moved", "302 Found", "303 Other", "307 Temporary", "308 Permanent"] {
        upstream.says(http(status, &format!("location: {}/v1/messages\r\n", trap.url), b""));
        for stream in [false, true] {
            let refused = gateway.ask(KEY, &question(5, stream))?;
            let body: Value = serde_json::from_slice(&refused.body)?;
            assert!(refused.status >= 500, "{status}: {}", refused.head);
            assert_eq!((&body["type"], body["error"]["type"].is_string()), (&"error".into(), true), "{body}");
            assert!(!body.to_string().contains(&trap.url), "{body}");
        }
    }
    assert_eq!(trap.requests(), 0);
    lives(&upstream, &gateway)
}

#[test]
fn an_invalid_upstream_response_is_an_error_and_is_not_forwarded() -> anyhow::Result<()> {
    let (upstream, gateway) = start("upstream-nonsense")?;
    let before = gateway.counter("process_resident_memory_bytes")?;
    let long = [b"data: ".to_vec(), vec![b'a'; 10 << 20]].concat();
    let json = "content-type: application/json\r\n";
    let events = "content-type: text/event-stream\r\n";
    for (name, bytes) in [
        ("a page", http("200 OK", "content-type: text/html\r\n", b"<html>sk-secret-of-theirs</html>")),
        ("a page as JSON", http("200 OK", json, b"<html>sk-secret-of-theirs</html>")),
        ("nothing", http("200 OK", json, b"")),
        ("a page as events", http("200 OK", events, b"<html>sk-secret-of-theirs</html>\n\n")),
        ("a line without end", http("200 OK", events, &long)),
        ("ten megabytes of JSON that is none", http("200 OK", json, &long)),
        (
            "compressed",
            http(
                "200 OK",
                &format!("{json}content-encoding: gzip\r\n"),
                b"\x1f\x8b\x08\0\0\0\0\0\0\x03sk-secret-of-theirs",
            ),
        ),
        ("no HTTP", b"sk-secret-of-theirs\r\n\r\n".to_vec()),
        ("half a head", b"HTTP/1.1 200 OK\r\ncontent-le".to_vec()),
        (
            "an endless head",
            [b"HTTP/1.1 200 OK\r\n".to_vec(), b"x-more: sk-secret-of-theirs\r\n".repeat(100_000)].concat(),
        ),
        (
            "an event that is none",
            http("200 OK", events, b"event: message_start\ndata: {\"sk-secret-of-theirs\"\n\n"),
        ),
    ] {
        upstream.says(bytes);
        for stream in [false, true] {
            let refused = gateway.ask(KEY, &question(5, stream))?;
            let shown = String::from_utf8_lossy(&refused.body).into_owned();
            assert!(refused.status >= 500, "{name}, {stream}: {} {shown:.300}", refused.status);
            assert!(!shown.contains("sk-secret-of-theirs"), "{name}: {shown}");
            let body: Value = serde_json::from_str(&shown)?;
            assert_eq!(body["type"], "error", "{name}");
        }
    }
    let after = gateway.counter("process_resident_memory_bytes")?;
    assert!(after < before + (64 << 20), "{before} bytes of memory became {after}");
    lives(&upstream, &gateway)
}

#[test]
fn an_invalid_usage_figure_is_charged_neither_too_little_nor_too_much() -> anyhow::Result<()> {
    let (upstream, gateway) = start("upstream-usage")?;
    let posted = || gateway.counter("seawall_budget_posted_usd");
    for usage in [
        json!({ "input_tokens": -5, "output_tokens": -1 }),
        json!({ "input_tokens": 5, "output_tokens": -1 }),
        json!({}),
        Value::Null,
        json!({ "input_tokens": "many" }),
        json!({ "input_tokens": 1e308, "output_tokens": 2 }),
    ] {
        upstream.says(answer(&usage));
        let before = posted()?;
        let given = gateway.ask(KEY, &question(5, false))?;
        let cost = posted()? - before;
        // An implausible answer may be an error or not; in either case the request is charged once.
        assert!(given.status == 200 || given.status >= 500, "{usage}: {}", given.status);
        assert!(cost > 0, "{usage}");
        // Two attempts with some hundred bytes each and five tokens of output.
        assert!(cost < 10_000_000, "{usage}: {cost}");
    }
    lives(&upstream, &gateway)
}

#[test]
fn an_invalid_retry_after_causes_no_wait() -> anyhow::Result<()> {
    let upstream = Upstream::start()?;
    let more = format!(
        "{NO_LIMITS}breakers.sonnet.failure_threshold = 100000\nbreakers.haiku.failure_threshold = 100000\n"
    );
    let gateway =
        Running::gateway_with("upstream-wait", &upstream.url, ["instant", "instant"], &more, |text| text)?;
    let body = br#"{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}"#;
    for retry_after in
        ["-1", "0", "1000000000000", "Thu, 01 Jan 1970 00:00:00 GMT", "soon", "", "1e309", "NaN", "\u{7}"]
    {
        upstream.says(http(
            "429 Too Many",
            &format!("content-type: application/json\r\nretry-after: {retry_after}\r\n"),
            body,
        ));
        let began = now();
        let refused = gateway.ask(KEY, &question(5, false))?;
        assert!(now() - began < Duration::from_secs(8), "{retry_after}: {:?}", now() - began);
        assert!(refused.status == 429 || refused.status >= 500, "{retry_after}: {}", refused.status);
        if let Some(wait) = refused.header("retry-after") {
            let wait: u64 = wait.parse().with_context(|| format!("{retry_after}: {wait}"))?;
            assert!(wait <= 300, "{retry_after}: {wait}");
        }
    }
    Ok(())
}

#[test]
fn no_request_field_selects_the_upstream_address() -> anyhow::Result<()> {
    let trap = Upstream::start()?;
    let (upstream, gateway) = start("upstream-elsewhere")?;
    upstream.says(answer(&json!({ "input_tokens": 5, "output_tokens": 2 })));
    let port = trap.url.rsplit(':').next().context("no port")?;
    let decimal = format!("http://2130706433:{port}");
    let mapped = format!("http://[::ffff:7f00:1]:{port}");
    for place in [trap.url.as_str(), &decimal, &mapped, "http://169.254.169.254/latest/meta-data"] {
        for field in ["api_base", "base_url", "endpoint", "api_url", "proxy"] {
            for nested in [false, true] {
                let mut body = question(5, false);
                if nested {
                    body["metadata"] = json!({ field: place });
                } else {
                    body[field] = place.into();
                }
                for path in ["/v1/messages", "/v1/chat/completions"] {
                    let answer = gateway.send(
                        "POST",
                        path,
                        &format!("x-api-key: {KEY}\r\n{field}: {place}\r\n"),
                        body.to_string().as_bytes(),
                    )?;
                    assert!([200, 400].contains(&answer.status), "{path} {field}: {}", answer.status);
                }
            }
        }
    }
    assert_eq!(trap.requests(), 0);
    lives(&upstream, &gateway)
}
