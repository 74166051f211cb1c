//! Real response headers compared with the OpenAPI document that describes them, and the admin API.

use crate::running::{KEY, Running, seawall};
use anyhow::{Context as _, ensure};
use seawall_testkit::{HttpReply, Signal};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

/// Headers that the server adds to any response and that are not documented.
const ANY: [&str; 6] =
    ["content-type", "content-length", "transfer-encoding", "date", "connection", "server"];

const ANTHROPIC: &str = r#"{"model":"manga","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#;
const OPENAI: &str = r#"{"model":"manga","messages":[{"role":"user","content":"hi"}]}"#;
const CONVERSE: &str =
    r#"{"messages":[{"role":"user","content":[{"text":"hi"}]}],"inferenceConfig":{"maxTokens":9}}"#;
const INVOKE: &str = r#"{"anthropic_version":"bedrock-2023-05-31","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#;

/// A path, its template in the document, and a valid body.
const CALLS: [(&str, &str, &str); 6] = [
    ("/v1/messages", "/v1/messages", ANTHROPIC),
    ("/v1/chat/completions", "/v1/chat/completions", OPENAI),
    ("/model/manga/invoke", "/model/{modelId}/invoke", INVOKE),
    ("/model/manga/invoke-with-response-stream", "/model/{modelId}/invoke-with-response-stream", INVOKE),
    ("/model/manga/converse", "/model/{modelId}/converse", CONVERSE),
    ("/model/manga/converse-stream", "/model/{modelId}/converse-stream", CONVERSE),
];

fn names(answer: &HttpReply) -> BTreeSet<String> {
    let lines = answer.head.lines().skip(1).filter_map(|line| line.split_once(':'));
    lines.map(|(name, _)| name.to_lowercase()).filter(|name| !ANY.contains(&name.as_str())).collect()
}

fn ask(gateway: &Running, path: &str, key: &str, body: &str) -> anyhow::Result<HttpReply> {
    gateway.send("POST", path, &format!("x-api-key: {key}\r\n"), body.as_bytes())
}

/// Checks that the document lists every header of this response.
fn is_documented(document: &Value, path: &str, answer: &HttpReply) -> anyhow::Result<()> {
    let response = &document["paths"][path]["post"]["responses"][answer.status.to_string()];
    let known =
        response["headers"].as_object().with_context(|| format!("{path} has no {}", answer.status))?;
    for name in names(answer) {
        ensure!(known.contains_key(&name), "{path} {}: {name} is not in the document", answer.status);
    }
    let kind = answer.header("content-type").context("no type")?;
    ensure!(response["content"][kind].is_object(), "{path} {}: {kind}", answer.status);
    Ok(())
}

/// A name with its parameters.
type Item = (String, Vec<(char, u64)>);

/// Parses a list of a structured field (RFC 9651) whose items are strings with integer parameters: the names, and the
/// parameters of each.
fn read_field(text: &str) -> anyhow::Result<Vec<Item>> {
    let mut members = Vec::new();
    for member in text.split(", ") {
        let mut parts = member.split(';');
        let name = parts.next().and_then(|name| name.strip_prefix('"')?.strip_suffix('"'));
        let name = name.with_context(|| format!("no string: {member}"))?;
        ensure!(
            !name.is_empty()
                && name.bytes().all(|byte| (0x20..0x7f).contains(&byte) && !b"\"\\".contains(&byte))
        );
        let mut parameters = Vec::new();
        for part in parts {
            let (key, value) = part.split_once('=').with_context(|| format!("no parameter: {part}"))?;
            ensure!(
                key.len() == 1 && value.len() <= 15 && value.bytes().all(|byte| byte.is_ascii_digit()),
                "{part}"
            );
            parameters.push((key.chars().next().unwrap_or_default(), value.parse()?));
        }
        members.push((name.to_owned(), parameters));
    }
    Ok(members)
}

#[test]
fn a_response_has_only_documented_headers() -> anyhow::Result<()> {
    let model = Running::model("headers-answers", "[]")?;
    let gateway = Running::gateway("headers-answers", &model, ["instant", "instant"], "")?;
    let document: Value = serde_json::from_str(&gateway.get("/openapi.json")?)?;
    for (path, documented, body) in CALLS {
        let answer = ask(&gateway, path, KEY, body)?;
        assert_eq!(answer.status, 200, "{path}: {}", String::from_utf8_lossy(&answer.body));
        is_documented(&document, documented, &answer)?;
        for name in
            ["rung", "target", "attempts", "overhead-ms", "level"].map(|name| format!("x-seawall-{name}"))
        {
            assert!(answer.header(&name).is_some(), "{path}: {name}");
        }
        let header = |name: &str| answer.header(name).unwrap_or_default();
        assert_eq!((header("x-seawall-rung"), header("x-seawall-target")), ("strong_model", "sonnet"));
        assert_eq!((header("x-seawall-attempts"), header("x-seawall-level")), ("1", "0"));
        // The cost of a stream is not known when its head is sent.
        assert_eq!(answer.header("x-seawall-cost").is_none(), path.contains("stream"), "{path}");
        assert!(
            header("x-seawall-overhead-ms")
                .parse::<f64>()
                .is_ok_and(|millis| (0.0..1_000.0).contains(&millis))
        );
        let id = ["request-id", "x-request-id", "x-amzn-requestid"]
            .into_iter()
            .find_map(|name| answer.header(name));
        assert!(id.is_some_and(|id| id.len() == 20 && id.starts_with("req_")), "{path}: {id:?}");
    }
    // Six requests were sent; the limit per minute is the tightest.
    let answer = ask(&gateway, "/v1/messages", KEY, ANTHROPIC)?;
    let body: Value = serde_json::from_slice(&answer.body)?;
    let tokens = |name: &str| body["usage"][name].as_u64().context(name.to_owned());
    let nanos = tokens("input_tokens")? * 3_000 + tokens("output_tokens")? * 15_000;
    assert_eq!(answer.header("x-seawall-cost"), Some(format!("0.{nanos:09}").as_str()));
    let limits = read_field(answer.header("ratelimit").unwrap_or_default())?;
    assert_eq!(limits, [("minute".to_owned(), vec![('r', 63)])]);
    let policy = read_field(answer.header("ratelimit-policy").unwrap_or_default())?;
    assert_eq!(policy[0], ("minute".to_owned(), vec![('q', 70), ('w', 60)]));
    assert_eq!(policy[1], ("hour".to_owned(), vec![('q', 500), ('w', 3_600)]));
    assert!(
        policy.iter().all(|(_, numbers)| numbers.iter().map(|(key, _)| *key).eq(['q', 'w'])),
        "{policy:?}"
    );
    Ok(())
}

#[test]
fn a_rejection_has_only_a_documented_status_and_headers() -> anyhow::Result<()> {
    let down = r#"[{"fault":{"kind":"status","status":503}}]"#;
    let model = Running::model("headers-refusals", down)?;
    let gateway = Running::gateway("headers-refusals", &model, ["instant", "instant"], "")?;
    let document: Value = serde_json::from_str(&gateway.get("/openapi.json")?)?;
    let mut seen = BTreeSet::new();
    for (path, documented, body) in CALLS {
        for (key, body) in [("wrong-key-0123456789", body), (KEY, "{"), (KEY, body)] {
            let answer = ask(&gateway, path, key, body)?;
            assert!(answer.status >= 400, "{path}");
            is_documented(&document, documented, &answer)?;
            seen.extend(names(&answer));
        }
        let answer = ask(&gateway, &path.replace("manga", "novel"), KEY, &body.replace("manga", "novel"))?;
        assert_eq!(answer.status, 404, "{path}");
        is_documented(&document, documented, &answer)?;
    }
    // Until the rate limit rejects, too.
    let limited = (0..80).map(|_| ask(&gateway, "/v1/messages", KEY, ANTHROPIC));
    for answer in limited {
        let answer = answer?;
        is_documented(&document, "/v1/messages", &answer)?;
        seen.extend(names(&answer));
    }
    for expected in
        ["retry-after", "retry-after-ms", "x-should-retry", "x-amzn-errortype", "x-seawall-attempts"]
    {
        assert!(seen.contains(expected), "{expected} in {seen:?}");
    }
    Ok(())
}

#[test]
fn the_ready_output_names_the_admin_listener() -> anyhow::Result<()> {
    let free = "127.0.0.1:0";
    let quiet = ["--set", "store.kind=memory", "--set", "telemetry.access_log=none"];
    let arguments = [&["serve", "--json", "--listen", free, "--admin-listen", free][..], &quiet].concat();
    let mut running = Running::start(&arguments)?;
    let data = std::mem::replace(&mut running.url, running.admin.clone());
    assert_ne!(data, running.admin);
    // The host name that this client sends is not a loopback name.
    assert_eq!(running.send("GET", "/admin/status", "", b"")?.status, 403);
    let head =
        format!("GET /admin/status HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", &running.admin[7..]);
    let answer = running.send_raw(head.as_bytes())?;
    let status: Value = serde_json::from_slice(&answer.body)?;
    assert_eq!(status["addresses"]["server"], data["http://".len()..]);
    assert_eq!(status["addresses"]["admin"], running.admin["http://".len()..]);
    assert_eq!(running.end_with(Signal::TERM)?.code(), Some(0));

    let arguments = [&["serve", "--listen", free, "--admin-listen", free][..], &quiet].concat();
    let mut child = seawall(&arguments).stdout(Stdio::piped()).spawn()?;
    let mut lines = BufReader::new(child.stdout.take().context("no output")?).lines();
    let line = lines.by_ref().take(3).last().context("no third line")??;
    child.kill()?;
    child.wait()?;
    assert!(
        line.starts_with("admin:           http://127.0.0.1:")
            && line.ends_with("/metrics")
            && line.contains("/admin/status, "),
        "{line}"
    );
    Ok(())
}

#[test]
fn a_public_admin_listener_without_a_credential_is_refused() -> anyhow::Result<()> {
    let output = seawall(&["serve", "--listen", "127.0.0.1:0", "--admin-listen", "0.0.0.0:0"]).output()?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{complaint}");
    assert!(complaint.contains("admin.credential is not set"), "{complaint}");
    Ok(())
}
