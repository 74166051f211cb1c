//! Behaviour at the edge: keep-alives of silent streams, errors that name every target, trace headers, wrong methods, the
//! drain delay, and log files that are renamed.

use crate::requests::{BY_DAY, NO_LIMITS, question};
use crate::running::{KEY, Running, scratch_dir};
use anyhow::{Context as _, ensure};
use seawall_testkit::{HttpReply, Signal, pause, wait_until};
use serde_json::{Value, json};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Longer than the interval between two keep-alives, and the time until it is noticed.
const SILENCE: Duration = Duration::from_millis(3_500);

/// A vendor that does what the last message of a request says, and records the heads of requests.
struct Vendor {
    url: String,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Vendor {
    fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("http://{}", listener.local_addr()?);
        let heads = Arc::<Mutex<Vec<String>>>::default();
        let recorded = Arc::clone(&heads);
        std::thread::Builder::new().spawn(move || {
            for connection in listener.incoming().flatten() {
                let recorded = Arc::clone(&recorded);
                // The thread ends with its connection.
                let _ = std::thread::Builder::new().spawn(move || answer(connection, &recorded));
            }
        })?;
        Ok(Self { url, heads })
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn gateway(&self, test: &str, more: &str) -> anyhow::Result<Running> {
        self.gateway_with(test, more, |text| text)
    }

    fn gateway_with(
        &self,
        test: &str,
        more: &str,
        change: impl FnOnce(String) -> String,
    ) -> anyhow::Result<Running> {
        let more = format!("{NO_LIMITS}{BY_DAY}retry.max_retries = 0\n{more}");
        Running::gateway_with(test, &self.url, ["sonnet", "haiku"], &more, change)
    }
}

/// Reads one request and does what it says.
fn answer(mut connection: TcpStream, heads: &Mutex<Vec<String>>) -> Option<()> {
    let (mut seen, mut buffer) = (Vec::new(), [0; 8_192]);
    let request = loop {
        let count = connection.read(&mut buffer).ok().filter(|count| *count > 0)?;
        seen.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&seen).into_owned();
        let length = text.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
        let length: usize = length.and_then(|length| length.parse().ok()).unwrap_or(0);
        if text.split_once("\r\n\r\n").is_some_and(|(_, body)| body.len() >= length) {
            break text;
        }
    };
    let (head, body) = request.split_once("\r\n\r\n")?;
    heads.lock().unwrap_or_else(PoisonError::into_inner).push(head.to_owned());
    let is_strong = body.contains("\"sonnet\"");
    if body.contains("late") && is_strong {
        pause(SILENCE);
    }
    if body.contains("fail") || (body.contains("switch") && is_strong) {
        let (status, kind) =
            if is_strong { (401, "authentication_error") } else { (529, "overloaded_error") };
        let body = json!({ "type": "error", "error": { "type": kind, "message": "the vendor's own words" } });
        return respond(&mut connection, &format!("{status} No"), "application/json", &body.to_string());
    }
    if !body.contains("\"stream\":true") {
        let body = json!({
            "id": "m", "type": "message", "role": "assistant", "model": "m",
            "content": [{ "type": "text", "text": "hello" }], "stop_reason": "end_turn", "stop_sequence": null,
            "usage": { "input_tokens": 9, "output_tokens": 2 },
        });
        return respond(&mut connection, "200 OK", "application/json", &body.to_string());
    }
    connection
        .write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
        .ok()?;
    let mut event = |data: Value| {
        let name = data["type"].as_str().unwrap_or_default().to_owned();
        write!(connection, "event: {name}\ndata: {data}\n\n").ok()
    };
    let usage = json!({ "input_tokens": 9, "output_tokens": 1 });
    let message = json!({
        "id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": null,
        "stop_sequence": null, "usage": usage,
    });
    event(json!({ "type": "message_start", "message": message }))?;
    event(
        json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } }),
    )?;
    let delta = |text: &str| json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": text } });
    event(delta("first-half"))?;
    if body.contains("late") {
        pause(SILENCE);
    }
    event(delta("second-half"))?;
    event(json!({ "type": "content_block_stop", "index": 0 }))?;
    let end = json!({ "stop_reason": "end_turn", "stop_sequence": null });
    event(json!({ "type": "message_delta", "delta": end, "usage": { "output_tokens": 2 } }))?;
    event(json!({ "type": "message_stop" }))
}

fn respond(connection: &mut TcpStream, status: &str, content: &str, body: &str) -> Option<()> {
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: {content}\r\ncontent-length: {length}\r\n");
    write!(connection, "{head}connection: close\r\n\r\n{body}").ok()
}

/// A streamed request in each dialect that is served as events: its name, path and body.
fn requests(says: &str) -> [(&'static str, &'static str, Value); 4] {
    let messages = json!([{ "role": "user", "content": says }]);
    [
        (
            "anthropic",
            "/v1/messages",
            json!({ "model": "manga", "max_tokens": 50, "stream": true, "messages": messages }),
        ),
        ("openai", "/v1/chat/completions", json!({ "model": "manga", "stream": true, "messages": messages })),
        ("responses", "/v1/responses", json!({ "model": "manga", "stream": true, "input": says })),
        (
            "gemini",
            "/v1beta/models/manga:streamGenerateContent?alt=sse",
            json!({ "contents": [{ "role": "user", "parts": [{ "text": says }] }] }),
        ),
    ]
}

fn send(gateway: &Running, path: &str, body: &Value) -> anyhow::Result<HttpReply> {
    let headers = format!("authorization: Bearer {KEY}\r\ncontent-type: application/json\r\n");
    gateway.send("POST", path, &headers, body.to_string().as_bytes())
}

/// All dialects at once, because each takes some seconds.
fn send_all(gateway: &Running, says: &str) -> anyhow::Result<Vec<(&'static str, HttpReply)>> {
    std::thread::scope(|scope| {
        let sending =
            requests(says).map(|(name, path, body)| (name, scope.spawn(move || send(gateway, path, &body))));
        let receive =
            |(name, thread): (&'static str, std::thread::ScopedJoinHandle<'_, anyhow::Result<HttpReply>>)| {
                Ok((name, thread.join().map_err(|_| anyhow::anyhow!("a client panicked"))??))
            };
        sending.into_iter().map(receive).collect()
    })
}

#[test]
fn a_silent_stream_is_kept_alive_as_its_clients_accept_it() -> anyhow::Result<()> {
    let vendor = Vendor::start()?;
    let gateway = vendor.gateway("edge-silent", "server.keep_alive_interval = \"1s\"\n")?;
    for (name, reply) in send_all(&gateway, "late")? {
        let text = reply.text().into_owned();
        ensure!(reply.status == 200 && text.contains("second-half"), "{name}: {} {text}", reply.head);
        let first = text.find("first-half").context(text.clone())?;
        let (before, after) = text.split_at(first);
        let (comment, ping) = (": keep-alive\n\n", "event: ping\ndata: {\"type\": \"ping\"}\n\n");
        match name {
            "gemini" => {
                ensure!(!text.contains("keep-alive") && !text.contains("ping"), "{text}");
                ensure!(reply.header("x-seawall-target") == Some("sonnet"), "{}", reply.head);
                continue;
            }
            "anthropic" => {
                ensure!(before.contains(comment) && !before.contains(ping), "{text}");
                ensure!(after.contains(ping) && !after.contains(comment), "{text}");
            }
            _ => ensure!(before.contains(comment) && after.contains(comment), "{name}: {text}"),
        }
        ensure!(reply.header("content-type") == Some("text/event-stream"), "{name}: {}", reply.head);
        // What is known only with the answer cannot be sent before it.
        ensure!(reply.header("x-seawall-target").is_none(), "{name}: {}", reply.head);
        ensure!(reply.head.contains("request-id: req_"), "{name}: {}", reply.head);
    }
    wait_until("all are recorded", || {
        Ok(gateway.counter("seawall_requests_total{outcome=\"answered\"}")? == 4)
    })
}

#[test]
fn keep_alives_can_be_switched_off() -> anyhow::Result<()> {
    let vendor = Vendor::start()?;
    let gateway = vendor.gateway("edge-off", "server.keep_alive_interval = \"none\"\n")?;
    for (name, reply) in send_all(&gateway, "late")? {
        ensure!(
            !reply.text().contains("keep-alive") && !reply.text().contains("ping"),
            "{name}: {}",
            reply.text()
        );
        ensure!(reply.header("x-seawall-target") == Some("sonnet"), "{name}: {}", reply.head);
    }
    Ok(())
}

#[test]
fn after_a_keep_alive_another_target_may_answer_and_a_failure_is_an_event() -> anyhow::Result<()> {
    let vendor = Vendor::start()?;
    let directory = scratch_dir("edge-late-failure")?;
    fs::create_dir_all(&directory)?;
    let log = directory.join("access.log");
    let to_file =
        |text: String| text.replace("access_log = \"none\"", &format!("access_log = \"{}\"", log.display()));
    let more = "server.keep_alive_interval = \"1s\"\n";
    let gateway = vendor.gateway_with("edge-late-failure", more, to_file)?;
    let (_, path, body) = &requests("late switch")[0];
    let reply = send(&gateway, path, body)?;
    let text = reply.text();
    ensure!(
        reply.status == 200 && text.contains(": keep-alive\n\n") && text.contains("message_stop"),
        "{text}"
    );
    // One after the other: a vendor that is overloaded is called less.
    let causes = "all targets failed: sonnet 401 (key rejected), haiku 529 (overloaded)";
    let reply = send(&gateway, path, &requests("late fail")[0].2)?;
    let text = reply.text();
    ensure!(reply.status == 200 && text.contains(": keep-alive\n\n"), "{} {text}", reply.head);
    ensure!(text.contains("event: error") && text.contains("overloaded_error"), "{text}");
    ensure!(text.contains(causes) && !text.contains("the vendor's own words"), "{text}");
    for (name, path, body) in &requests("late fail")[1..3] {
        let reply = send(&gateway, path, body)?;
        let text = reply.text();
        ensure!(reply.status == 200 && text.contains(": keep-alive\n\n"), "{name}: {} {text}", reply.head);
        ensure!(text.contains("sonnet 401 (key rejected)"), "{name}: {text}");
        let event = if *name == "responses" { "event: response.failed" } else { "data: {\"error\":" };
        ensure!(text.contains(event), "{name}: {text}");
    }
    // The record says what happened, although the status is 200.
    let rejected =
        || gateway.counter("seawall_requests_total{outcome=\"rejected\",reason=\"upstream_failed\"}");
    wait_until("the failures are recorded", || Ok(rejected()? == 3))?;
    wait_until("they are logged", || {
        let lines = fs::read_to_string(&log)?;
        Ok(lines.matches("\"outcome\":\"rejected\",\"reason\":\"upstream_failed\"").count() == 3
            && lines.contains(&format!("\"failed_targets\":\"{causes}\"")))
    })
}

#[test]
fn a_failure_before_a_keep_alive_has_its_status_and_names_every_target() -> anyhow::Result<()> {
    let vendor = Vendor::start()?;
    let gateway = vendor.gateway("edge-causes", "")?;
    for (index, (name, reply)) in send_all(&gateway, "fail")?.into_iter().enumerate() {
        ensure!(reply.status >= 429, "{name}: {}", reply.head);
        let body = reply.json()?;
        let message = body["error"]["message"].as_str().with_context(|| format!("{name}: {body}"))?;
        ensure!(message.contains("sonnet 401 (key rejected)"), "{index} {name}: {message}");
        ensure!(message.contains("haiku ") && !message.contains("own words"), "{name}: {message}");
    }
    let reply = gateway.ask(KEY, &{
        let mut body = question(5, false);
        body["messages"][0]["content"] = "fail".into();
        body
    })?;
    ensure!(reply.text().contains("sonnet 401 (key rejected)"), "{}", reply.text());
    Ok(())
}

#[test]
fn a_valid_trace_is_passed_on_and_nothing_is_invented() -> anyhow::Result<()> {
    let vendor = Vendor::start()?;
    let gateway = vendor.gateway("edge-trace", "")?;
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    for (headers, expected) in [
        (format!("traceparent: {parent}\r\ntracestate: a=b\r\ntracestate: c=d\r\n"), vec![parent, "a=b,c=d"]),
        (format!("traceparent: {parent}\r\ntracestate: no state\r\n"), vec![parent]),
        ("traceparent: 00-nothing-01\r\ntracestate: a=b\r\n".to_owned(), vec![]),
        (String::new(), vec![]),
    ] {
        let headers = format!("x-api-key: {KEY}\r\n{headers}");
        let reply =
            gateway.send("POST", "/v1/messages", &headers, question(5, false).to_string().as_bytes())?;
        ensure!(reply.status == 200, "{}", reply.text());
        let head = vendor.heads().pop().context("no request")?;
        let trace = head.lines().filter_map(|line| line.split_once(": "));
        let trace: Vec<&str> =
            trace.filter(|(name, _)| name.starts_with("trace")).map(|(_, value)| value).collect();
        ensure!(trace == expected, "{headers}: {head}");
    }
    Ok(())
}

#[test]
fn a_wrong_method_is_rejected_with_the_right_one_in_the_dialect_of_the_path() -> anyhow::Result<()> {
    let vendor = Vendor::start()?;
    let gateway = vendor.gateway("edge-method", "")?;
    for (method, path, allow, field, value) in [
        ("GET", "/v1/messages", "POST", "/error/type", json!("invalid_request_error")),
        ("DELETE", "/v1/chat/completions", "POST", "/error/type", json!("invalid_request_error")),
        ("PUT", "/v1/responses", "POST", "/error/type", json!("invalid_request_error")),
        ("GET", "/v1beta/models/manga:generateContent", "POST", "/error/code", json!(405)),
        ("GET", "/chat", "POST", "/code", json!("INVALID_REQUEST")),
        ("POST", "/v1/models", "GET", "/error/type", json!("invalid_request_error")),
        ("OPTIONS", "/readyz", "GET", "/error/type", json!("invalid_request_error")),
    ] {
        let reply = gateway.send(method, path, "", b"")?;
        ensure!(
            (reply.status, reply.header("allow")) == (405, Some(allow)),
            "{method} {path}: {}",
            reply.head
        );
        let body = reply.json()?;
        let found = body.pointer(field).or_else(|| body["error"].pointer(field));
        ensure!(found == Some(&value), "{method} {path}: {body}");
    }
    let bedrock = gateway.send("GET", "/model/manga/converse", "", b"")?;
    ensure!((bedrock.status, bedrock.header("allow")) == (405, Some("POST")), "{}", bedrock.head);
    ensure!(bedrock.header("x-amzn-errortype") == Some("ValidationException"), "{}", bedrock.head);
    let unknown = gateway.send("DELETE", "/v1/nothing", "", b"")?;
    ensure!((unknown.status, unknown.header("allow")) == (404, None), "{}", unknown.head);
    Ok(())
}

#[test]
fn requests_are_served_during_the_drain_delay_and_another_signal_skips_it() -> anyhow::Result<()> {
    let vendor = Vendor::start()?;
    let delayed = |delay: &'static str| {
        move |text: String| text.replace("drain_delay = \"0s\"", &format!("drain_delay = \"{delay}\""))
    };
    let gateway = vendor.gateway_with("edge-drain", "", delayed("2m"))?;
    ensure!(gateway.send("GET", "/readyz", "", b"")?.status == 200);
    gateway.signal(Signal::TERM)?;
    let has_said = |words: &str| -> anyhow::Result<bool> { Ok(gateway.errors()?.contains(words)) };
    wait_until("it reports the delay", || has_said("SIGTERM received: not ready any more, still serving"))?;
    let ready = gateway.send("GET", "/readyz", "", b"")?;
    ensure!((ready.status, &*ready.text()) == (503, "draining\n"), "{}", ready.text());
    ensure!(gateway.ask(KEY, &question(5, false))?.status == 200, "it still serves");
    ensure!(!gateway.errors()?.contains("draining requests"), "{}", gateway.errors()?);
    gateway.signal(Signal::TERM)?;
    wait_until("the delay is skipped", || {
        has_said("drain delay skipped by another signal: closing the listeners")
    })?;
    wait_until("it drains", || has_said("SIGTERM received: draining requests"))?;
    ensure!(gateway.wait()?.code() == Some(0));
    let gateway = vendor.gateway_with("edge-drain-over", "", delayed("1s"))?;
    gateway.signal(Signal::TERM)?;
    wait_until("the delay is over", || {
        Ok(gateway.errors()?.contains("drain delay over: closing the listeners"))
    })?;
    ensure!(gateway.wait()?.code() == Some(0));
    Ok(())
}

#[test]
fn a_hangup_reopens_the_access_log_and_reloads_settings() -> anyhow::Result<()> {
    let vendor = Vendor::start()?;
    let directory = scratch_dir("edge-rotated")?;
    fs::create_dir_all(&directory)?;
    let (log, rotated) = (directory.join("access.log"), directory.join("access.log.1"));
    let to_file =
        |text: String| text.replace("access_log = \"none\"", &format!("access_log = \"{}\"", log.display()));
    let gateway = vendor.gateway_with("edge-rotated", "", to_file)?;
    let lines = |path: &std::path::Path| Ok::<_, anyhow::Error>(fs::read_to_string(path)?.lines().count());
    ensure!(gateway.ask(KEY, &question(5, false))?.status == 200);
    wait_until("it is logged", || Ok(lines(&log)? == 1))?;
    fs::rename(&log, &rotated)?;
    gateway.signal(Signal::HUP)?;
    wait_until("the log is reopened", || {
        let errors = gateway.errors()?;
        Ok(errors.contains("access.log reopened\n") && errors.contains("settings reloaded: "))
    })?;
    ensure!(gateway.ask(KEY, &question(5, false))?.status == 200);
    wait_until("the next line is in the new file", || Ok(lines(&log)? == 1))?;
    ensure!(lines(&rotated)? == 1, "nothing is added to the old one");
    Ok(())
}
