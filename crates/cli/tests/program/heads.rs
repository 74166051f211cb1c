//! Request heads: their maximum size, their required syntax, and the cost of unfinished ones.

use crate::http2::Http2;
use crate::running::{KEY, Running};
use crate::unauthenticated::memory;
use anyhow::ensure;
use seawall_testkit::{exchange, pause};
use std::io::Write as _;
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::Duration;

const KB: usize = 1_000;
const MIB: u64 = 1 << 20;

/// The beginning of a request with this many bytes of headers.
fn head(bytes: usize) -> String {
    head_for("test", "/livez", bytes)
}

fn head_for(host: &str, path: &str, bytes: usize) -> String {
    let line = |number: usize| format!("x-header-{number}: {}\r\n", "v".repeat(KB - 14));
    let lines: String = (10..10 + bytes / KB).map(line).collect();
    format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{lines}")
}

fn start(test: &str) -> anyhow::Result<(Running, Running)> {
    let model = Running::model(test, "[]")?;
    let gateway = Running::gateway(test, &model, ["instant", "instant"], "callers.guests = false\n")?;
    Ok((model, gateway))
}

#[test]
fn a_head_of_more_than_64_kib_is_refused_on_every_listener() -> anyhow::Result<()> {
    let (_model, gateway) = start("heads-size")?;
    for (url, path) in [(&gateway.url, "/livez"), (&gateway.admin, "/metrics")] {
        let address = url.trim_start_matches("http://");
        for (bytes, expected) in [(1, 200), (60, 200), (70, 431), (90, 431), (200, 431)] {
            let whole = head_for(address, path, bytes * KB) + "\r\n";
            let answer = exchange(address, whole.as_bytes())?;
            ensure!(answer.status == expected, "{bytes} KB at {address}: {}", answer.status);
        }
        // It is refused before it is complete.
        let answer = exchange(address, head_for(address, path, 70 * KB).as_bytes())?;
        ensure!(answer.status == 431, "unfinished, at {address}: {}", answer.status);
    }
    let one = format!("GET /livez HTTP/1.1\r\nhost: test\r\nx-long: {}\r\n\r\n", "v".repeat(70 * KB));
    ensure!(exchange(gateway.url.trim_start_matches("http://"), one.as_bytes())?.status == 431);
    Ok(())
}

#[test]
fn http2_has_the_same_limit() -> anyhow::Result<()> {
    let (_model, gateway) = start("heads-http2")?;
    for (bytes, accepted) in [(1, 1), (60, 1), (70, 0)] {
        let mut connection = Http2::open(&gateway.url, 65_535)?;
        connection.ask_with_head("/livez", bytes * KB)?;
        for _ in 0..400 {
            if connection.answers.load(Ordering::SeqCst) > 0 {
                break;
            }
            pause(Duration::from_millis(5));
        }
        let counts = [&connection.answers, &connection.accepted].map(|count| count.load(Ordering::SeqCst));
        ensure!(counts == [1, accepted], "{bytes} KB: {counts:?}");
    }
    Ok(())
}

#[test]
fn unfinished_heads_take_no_more_than_they_may() -> anyhow::Result<()> {
    let (_model, gateway) = start("heads-memory")?;
    let address = gateway.url.trim_start_matches("http://");
    ensure!(exchange(address, (head(KB) + "\r\n").as_bytes())?.status == 200);
    let before = memory(&gateway)?;
    let mut open = Vec::new();
    for _ in 0..200 {
        let mut connection = TcpStream::connect(address)?;
        connection.write_all(head(60 * KB).as_bytes())?;
        open.push(connection);
    }
    ensure!(exchange(address, (head(KB) + "\r\n").as_bytes())?.status == 200);
    let grown = memory(&gateway)?.saturating_sub(before);
    // A buffer that has grown by doubling is not twice as large as the maximum head.
    ensure!(grown < 200 * 128 * 1_024 + 8 * MIB, "grown by {} MiB", grown / MIB);
    // Nothing more is read from clients that continue.
    for connection in &mut open {
        connection.set_write_timeout(Some(Duration::from_millis(50)))?;
        let _ = connection.write_all(head(300 * KB).as_bytes());
    }
    let grown = memory(&gateway)?.saturating_sub(before);
    ensure!(grown < 200 * 128 * 1_024 + 8 * MIB, "grown by {} MiB", grown / MIB);
    ensure!(exchange(address, (head(KB) + "\r\n").as_bytes())?.status == 200);
    Ok(())
}

#[test]
fn an_ambiguous_request_head_is_rejected_and_its_connection_closed() -> anyhow::Result<()> {
    let (model, gateway) = start("heads-framing")?;
    let body = "{\"model\":\"manga\",\"max_tokens\":5,\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}";
    let chunk = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let post = format!("POST /v1/messages HTTP/1.1\r\nx-api-key: {KEY}\r\n");
    let sized = format!("content-length: {}\r\n\r\n{body}", body.len());
    let chunked = format!("transfer-encoding: chunked\r\n\r\n{chunk}");
    let behind = "GET /livez HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n";
    for (name, head) in [
        ("no host", format!("{post}{sized}")),
        ("two hosts", format!("{post}host: test\r\nhost: test\r\n{sized}")),
        ("no host at all", format!("{post}host:\r\n{sized}")),
        ("two codings", format!("{post}host: test\r\ntransfer-encoding: gzip, chunked\r\n\r\n{chunk}")),
        ("a coding twice", format!("{post}host: test\r\ntransfer-encoding: chunked\r\n{chunked}")),
        ("LF behind the request line", format!("{}host: test\r\n{sized}", post.replacen("\r\n", "\n", 1))),
        ("LF behind a header", format!("{post}host: test\n{sized}")),
        ("LF at the end", format!("{post}host: test\r\n{}", sized.replacen("\r\n\r\n", "\r\n\n", 1))),
        ("LF alone", format!("{post}host: test\r\n{sized}").replace("\r\n", "\n")),
    ] {
        let answer = gateway.send_raw(format!("{head}{behind}").as_bytes())?;
        ensure!(answer.status == 400, "{name}: {}", answer.head);
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        ensure!(!text.contains("HTTP/1.1 200"), "{name}: what is behind it was answered, too: {text}");
    }
    ensure!(model.calls()?.is_empty());
    // The second request on a connection, behind either kind of body.
    for first in [&sized, &chunked] {
        let two = format!("{post}host: test\r\n{first}GET /livez HTTP/1.1\nhost: test\r\n\r\n");
        let answer = gateway.send_raw(two.as_bytes())?;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        ensure!(answer.status == 200 && text.contains("HTTP/1.1 400"), "{}{text}", answer.head);
    }
    for right in [format!("{post}host: test\r\n{sized}"), format!("{post}host: test\r\n{chunked}")] {
        let answer = gateway.send_raw(format!("{right}{behind}").as_bytes())?;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        ensure!(answer.status == 200 && text.ends_with("ok\n"), "{}{text}", answer.head);
    }
    // HTTP/1.0 does not require a host.
    ensure!(gateway.send_raw(b"GET /livez HTTP/1.0\r\n\r\n")?.status == 200);
    let admin = gateway.admin.trim_start_matches("http://");
    let bare = format!("GET /admin/status HTTP/1.1\nhost: {admin}\r\nconnection: close\r\n\r\n");
    ensure!(exchange(admin, bare.as_bytes())?.status == 400);
    Ok(())
}
