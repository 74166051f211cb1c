//! Unauthenticated clients that do not finish or do not read: they cost next to nothing, and delay no other caller.

use crate::http2::Http2;
use crate::running::{KEY, Running, caller};
use anyhow::{Context as _, ensure};
use seawall_testkit::pause;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

const MADE_UP: &str = "sk-made-up-0123456789abcdef";
const QUESTION: &str = r#"{"model":"manga","max_tokens":5,"messages":[{"role":"user","content":"hello"}]}"#;
const MIB: u64 = 1 << 20;

/// Resident memory of the process, in bytes.
pub(crate) fn memory(running: &Running) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", running.process()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no memory")?;
    let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kibibytes * 1_024)
}

fn start(test: &str, more: &str) -> anyhow::Result<(Running, Running)> {
    let model = Running::model(test, "[]")?;
    let more = format!("callers.guests = false\n{}{more}", caller("other", "sk-other-0123456789abcdef"));
    let gateway = Running::gateway(test, &model, ["instant", "instant"], &more)?;
    // Memory of the first request is not counted as growth.
    assert_answered(&gateway, KEY)?;
    Ok((model, gateway))
}

fn assert_answered(gateway: &Running, key: &str) -> anyhow::Result<()> {
    let headers = format!("x-api-key: {key}\r\n");
    let answer = gateway.send("POST", "/v1/messages", &headers, QUESTION.as_bytes())?;
    ensure!(answer.status == 200, "{}: {}", answer.status, String::from_utf8_lossy(&answer.body));
    Ok(())
}

/// A request with a body of 8 MiB of which half is sent, as far as it is accepted.
fn unfinished(gateway: &Running, path: &str, headers: &str) -> anyhow::Result<TcpStream> {
    let mut connection = TcpStream::connect(gateway.url.trim_start_matches("http://"))?;
    connection.set_write_timeout(Some(Duration::from_millis(200)))?;
    connection.set_read_timeout(Some(Duration::from_secs(10)))?;
    let length = 8 * MIB;
    write!(connection, "POST {path} HTTP/1.1\r\nhost: test\r\n{headers}content-length: {length}\r\n\r\n")?;
    let piece = vec![b' '; 64 << 10];
    for _ in 0..64 {
        if connection.write_all(&piece).is_err() {
            break;
        }
    }
    Ok(connection)
}

fn status(connection: &mut TcpStream) -> Option<u16> {
    let mut start = [0; 12];
    connection.read_exact(&mut start).ok()?;
    std::str::from_utf8(&start).ok()?.split(' ').nth(1)?.parse().ok()
}

#[test]
fn a_body_with_an_invalid_key_is_rejected_and_not_buffered() -> anyhow::Result<()> {
    let (_model, gateway) = start("strangers-keys", "")?;
    let before = memory(&gateway)?;
    let made_up = format!("x-api-key: {MADE_UP}\r\n");
    let cases = [("/v1/messages", made_up.as_str()), ("/v1/messages/count_tokens", ""), ("/chat", "")];
    let mut open = Vec::new();
    for (path, headers) in cases {
        for _ in 0..10 {
            open.push((path, unfinished(&gateway, path, headers)?));
        }
        assert_answered(&gateway, KEY)?;
    }
    let grown = memory(&gateway)?.saturating_sub(before);
    for (path, connection) in &mut open {
        ensure!(status(connection) == Some(401), "{path}");
    }
    // Before callers were authenticated first, 30 bodies of 4 MiB each were buffered.
    ensure!(grown < 24 * MIB, "grown by {} MiB", grown / MIB);
    Ok(())
}

#[test]
fn many_streams_with_invalid_keys_on_one_connection_are_not_buffered() -> anyhow::Result<()> {
    let (_model, gateway) = start("strangers-streams", "")?;
    let before = memory(&gateway)?;
    let piece = vec![b' '; 224 << 10];
    let mut open = Vec::new();
    for _ in 0..4 {
        let mut connection = Http2::open(&gateway.url, 65_535)?;
        for _ in 0..90 {
            let stream = connection.ask("POST", "/v1/messages", MADE_UP, true)?;
            connection.send(stream, &piece, false)?;
        }
        open.push(connection);
    }
    assert_answered(&gateway, KEY)?;
    let grown = memory(&gateway)?.saturating_sub(before);
    // 360 streams of 224 KiB: 79 MiB before.
    ensure!(grown < 24 * MIB, "grown by {} MiB", grown / MIB);
    Ok(())
}

#[test]
fn a_refusal_is_read_by_a_client_that_writes_all_of_its_body_first() -> anyhow::Result<()> {
    let (_model, gateway) = start("strangers-refusal", "")?;
    for size in [10, 200 << 10] {
        for _ in 0..10 {
            let answer = gateway.send(
                "POST",
                "/v1/messages",
                &format!("x-api-key: {MADE_UP}\r\n"),
                &vec![b' '; size],
            )?;
            ensure!(answer.status == 401, "{}", answer.status);
        }
    }
    Ok(())
}

#[test]
fn a_connection_is_reused_after_a_rejected_request_with_a_small_body() -> anyhow::Result<()> {
    let (_model, gateway) = start("strangers-again", "")?;
    let mut connection = TcpStream::connect(gateway.url.trim_start_matches("http://"))?;
    connection.set_read_timeout(Some(Duration::from_secs(10)))?;
    let request = |key: &str, end: &str| {
        format!(
            "POST /v1/messages HTTP/1.1\r\nhost: test\r\nx-api-key: {key}\r\ncontent-length: {}\r\n{end}\r\n{QUESTION}",
            QUESTION.len()
        )
    };
    let mut answers = String::new();
    connection.write_all(request(MADE_UP, "").as_bytes())?;
    connection.write_all(request(KEY, "connection: close\r\n").as_bytes())?;
    connection.read_to_string(&mut answers)?;
    ensure!(answers.contains("HTTP/1.1 401 ") && answers.contains("HTTP/1.1 200 "), "{answers}");
    Ok(())
}

#[test]
fn no_caller_exceeds_its_share_of_body_memory() -> anyhow::Result<()> {
    let more = "server.body_memory = \"16MiB\"\nserver.body_memory_per_address = \"100%\"\n";
    let (_model, gateway) = start("strangers-share", more)?;
    let before = memory(&gateway)?;
    let key = format!("x-api-key: {KEY}\r\n");
    let mut open = Vec::new();
    for _ in 0..12 {
        open.push(unfinished(&gateway, "/v1/messages", &key)?);
    }
    // One caller may use half of 16 MiB, so that two bodies of 4 MiB fit. The others are rejected with a Retry-After.
    let grown = memory(&gateway)?.saturating_sub(before);
    assert_answered(&gateway, "sk-other-0123456789abcdef")?;
    assert_answered(&gateway, KEY)?;
    let held = gateway.counter("seawall_body_memory_bytes")?;
    ensure!((1..=8 * MIB).contains(&held), "{held} bytes are held");
    let refused = open.iter_mut().skip(3).filter_map(status).filter(|status| *status == 429).count();
    ensure!(refused >= 8, "{refused} were rejected with a Retry-After");
    ensure!(grown < 40 * MIB, "grown by {} MiB", grown / MIB);
    drop(open);
    let mut waits = 0;
    while gateway.counter("seawall_body_memory_bytes")? > 0 {
        waits += 1;
        ensure!(waits < 100, "bytes are still held");
        pause(Duration::from_millis(50));
    }
    Ok(())
}

#[test]
fn guests_have_a_limit_of_their_own() -> anyhow::Result<()> {
    let model = Running::model("strangers-guests", "[]")?;
    let gateway =
        Running::gateway("strangers-guests", &model, ["instant", "instant"], "callers.guests = true\n")?;
    for (size, status) in [(200 << 10, 200), (300 << 10, 413)] {
        let body = serde_json::json!({ "message": "a", "locale": "ja-JP" }).to_string();
        let body = body + &" ".repeat(size);
        let answer = gateway.send("POST", "/chat", "", body.as_bytes())?;
        ensure!(answer.status == status, "{size}: {}", answer.status);
    }
    let large = QUESTION.to_owned() + &" ".repeat(300 << 10);
    let key = format!("x-api-key: {KEY}\r\n");
    let answer = gateway.send("POST", "/v1/messages", &key, large.as_bytes())?;
    ensure!(answer.status == 200, "a key holder has the usual limit, not {}", answer.status);
    Ok(())
}
