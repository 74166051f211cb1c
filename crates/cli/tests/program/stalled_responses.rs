//! Answers that are not read and idle connections: they are abandoned and closed, and delay no other caller.

use crate::http2::Http2;
use crate::running::{KEY, Running, caller, file, seawall, settings};
use anyhow::{Context as _, ensure};
use seawall_testkit::{exchange, now, pause, wait_until};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::Duration;

const OTHER: &str = "sk-other-0123456789abcdef";
const MIB: usize = 1 << 20;

fn question(text: &str, stream: bool) -> String {
    let messages = format!(r#"[{{"role":"user","content":"{text}"}}]"#);
    format!(r#"{{"model":"manga","max_tokens":5,"stream":{stream},"messages":{messages}}}"#)
}

/// A vendor that answers "large" with this many bytes, streams without an end, and answers everything else briefly.
fn vendor(bytes: usize) -> anyhow::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}", listener.local_addr()?);
    std::thread::Builder::new().spawn(move || {
        for connection in listener.incoming().flatten() {
            // The thread ends with its connection.
            let _ = std::thread::Builder::new().spawn(move || answer(connection, bytes));
        }
    })?;
    Ok(url)
}

fn answer(mut connection: TcpStream, bytes: usize) -> Option<()> {
    loop {
        let mut request = Vec::new();
        let mut piece = [0; 16_384];
        while !request.ends_with(b"}]}") {
            let read = connection.read(&mut piece).ok().filter(|read| *read > 0)?;
            request.extend_from_slice(piece.get(..read)?);
        }
        let request = String::from_utf8_lossy(&request);
        let event = |name: &str, data: &str| format!("event: {name}\ndata: {data}\n\n");
        if request.contains("\"stream\":true") {
            let start = r#"{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":9,"output_tokens":1}}}"#;
            let block =
                r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
            let delta =
                r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"word "}}"#;
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
            write!(
                connection,
                "{head}{}{}",
                event("message_start", start),
                event("content_block_start", block)
            )
            .ok()?;
            loop {
                connection.write_all(event("content_block_delta", delta).as_bytes()).ok()?;
                pause(Duration::from_millis(20));
            }
        }
        let text = "x".repeat(if request.contains("large") { bytes } else { 5 });
        let body = format!(
            r#"{{"id":"m","type":"message","role":"assistant","model":"m","content":[{{"type":"text","text":"{text}"}}],"stop_reason":"end_turn","stop_sequence":null,"usage":{{"input_tokens":9,"output_tokens":5}}}}"#
        );
        write!(
            connection,
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .ok()?;
    }
}

fn start(test: &str, more: &str) -> anyhow::Result<Running> {
    let more = format!("callers.guests = false\n{}{more}", caller("other", OTHER));
    Running::gateway_with(test, &vendor(4 * MIB)?, ["sonnet", "haiku"], &more, |text| text)
}

fn status(gateway: &Running, key: &str) -> anyhow::Result<u16> {
    let body = question("hello", false);
    let answer = gateway.send("POST", "/v1/messages", &format!("x-api-key: {key}\r\n"), body.as_bytes())?;
    Ok(answer.status)
}

#[test]
fn large_unread_responses_count_against_their_caller_and_are_aborted() -> anyhow::Result<()> {
    let more = "server.body_memory = \"16MiB\"\nserver.send_timeout = \"3s\"\n";
    let gateway = start("unread-large", more)?;
    let mut connection = Http2::open(&gateway.url, 0)?;
    for _ in 0..3 {
        let stream = connection.ask("POST", "/v1/messages", KEY, true)?;
        connection.send(stream, question("large", false).as_bytes(), true)?;
    }
    wait_until("three answers have come", || Ok(connection.answers.load(Ordering::SeqCst) == 3))?;
    // 12 MiB wait to be read, and one caller may use half of 16 MiB.
    ensure!(status(&gateway, KEY)? == 429, "it is to read first");
    ensure!(status(&gateway, OTHER)? == 200, "others are not concerned");
    wait_until("the answers are given up", || Ok(status(&gateway, KEY)? == 200))
}

#[test]
fn a_connection_that_reads_nothing_is_closed_after_the_send_timeout() -> anyhow::Result<()> {
    let gateway = start("unread-plain", "server.send_timeout = \"2s\"\n")?;
    let body = question("large", false);
    let mut unread = gateway.post(KEY, &body)?;
    wait_until("it is closed", || {
        Ok(gateway.counter("seawall_connections_ended_total{reason=\"send_timeout\"}")? == 1)
    })?;
    let mut rest = Vec::new();
    let _ = unread.read_to_end(&mut rest);
    ensure!(rest.len() < 4 * MIB, "nothing was left to be sent");
    // A caller that reads gets all of it.
    let mut answer = Vec::new();
    gateway.post(KEY, &body)?.read_to_end(&mut answer)?;
    ensure!(answer.len() > 4 * MIB, "{} bytes", answer.len());
    Ok(())
}

#[test]
fn stalled_streams_of_one_caller_leave_slots_for_others_and_are_aborted() -> anyhow::Result<()> {
    let more = "server.send_timeout = \"4s\"\nqueue.ttl = \"20s\"\ncallers.guests = false\n";
    let more = format!("{}{more}", caller("other", OTHER));
    let few = |text: String| text.replace("region = \"none\"", "region = \"none\", concurrency = 10");
    let url = vendor(4 * MIB)?;
    let gateway = Running::gateway_with("unread-streams", &url, ["sonnet", "haiku"], &more, few)?;
    let mut connection = Http2::open(&gateway.url, 0)?;
    for _ in 0..12 {
        let stream = connection.ask("POST", "/v1/messages", KEY, true)?;
        connection.send(stream, question("hello", true).as_bytes(), true)?;
    }
    wait_until("its streams have begun", || Ok(gateway.counter("seawall_in_flight")? >= 9))?;
    let sent_at = now();
    ensure!(status(&gateway, OTHER)? == 200, "another caller is answered");
    ensure!(
        now().duration_since(sent_at) < Duration::from_secs(2),
        "and does not wait: {:?}",
        now().duration_since(sent_at)
    );
    ensure!(gateway.counter("seawall_in_flight")? == 9, "a tenth is left for others");
    wait_until("the streams are given up", || Ok(gateway.counter("seawall_in_flight")? == 0))
}

#[test]
fn idle_connections_are_closed_and_lock_nobody_out() -> anyhow::Result<()> {
    let more = "server.idle_timeout = \"2s\"\nserver.max_connections_per_address = 60\n";
    let gateway = start("idle-connections", more)?;
    let mut open = Vec::new();
    for _ in 0..50 {
        let mut connection = Http2::open(&gateway.url, 65_535)?;
        connection.ask("GET", "/livez", "", false)?;
        open.push(connection);
    }
    let answered = || open.iter().filter(|one| one.answers.load(Ordering::SeqCst) == 1).count();
    wait_until("each was answered", || Ok(answered() == 50))?;
    ensure!(status(&gateway, KEY)? == 200);
    // The number of connections is limited.
    let more: Vec<_> = (0..30).filter_map(|_| Http2::open(&gateway.url, 65_535).ok()).collect();
    let refused = "seawall_connections_ended_total{reason=\"max_connections_per_address\"}";
    wait_until("some were refused", || {
        let page = String::from_utf8(
            exchange(
                gateway.admin.trim_start_matches("http://"),
                b"GET /admin/status HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
            )?
            .body,
        )?;
        ensure!(!page.is_empty(), "operators are answered");
        Ok(more.iter().filter(|one| one.closed.load(Ordering::SeqCst) == 1).count() >= 15)
    })?;
    drop(more);
    let closed = || open.iter().filter(|one| one.closed.load(Ordering::SeqCst) == 1).count();
    wait_until("idle ones are closed", || Ok(closed() == 50))?;
    ensure!(status(&gateway, KEY)? == 200);
    ensure!(
        gateway.counter(refused)? >= 15
            && gateway.counter("seawall_connections_ended_total{reason=\"idle_timeout\"}")? >= 50
    );
    Ok(())
}

#[test]
fn the_soft_limit_of_files_is_raised_at_the_start() -> anyhow::Result<()> {
    let text = settings("http://127.0.0.1:9", ["sonnet", "haiku"]);
    let path = file("raised-files.toml", &text)?;
    let program = seawall(&[]);
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -Sn 128; exec \"$0\" serve --json --config \"$1\""]);
    shell.arg(program.get_program()).arg(&path);
    let running = Running::started(shell)?;
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", running.process()))?;
    let line = limits.lines().find(|line| line.starts_with("Max open files")).context("no limit")?;
    let [soft, hard] = [3, 4].map(|place| line.split_whitespace().nth(place));
    ensure!(soft == hard && soft != Some("128"), "{line}");
    Ok(())
}
