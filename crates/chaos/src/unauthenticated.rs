//! Unauthenticated clients: they begin bodies without finishing them, connect without sending a request, and read no
//! responses.
//!
//! Each node gets all of them at once for some seconds. Meanwhile its memory is measured, and an authenticated caller
//! sends requests that cost nothing. An invariant judges the result.

use crate::history::AttackResult;
use crate::node::GatewayNode;
use crate::traffic::ChaosCaller;
use seawall_core::deadline::Deadline;
use seawall_core::runtime::{Timer as _, timeout_at};
use seawall_core::time::Timestamp;
use seawall_core::vocabulary::Tier;
use seawall_gateway::TokioRuntime;
use seawall_testkit::resident_bytes;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Unfinished bodies under invented keys, and the bytes sent of each.
const UNFINISHED: usize = 60;
const SENT: usize = 1 << 20;
/// HTTP/2 connections with one request, and requests per connection whose responses are blocked by flow control.
const IDLE: usize = 60;
const STALLED_STREAMS: u32 = 50;
/// Timeout for one of them to send its bytes.
const SEND_TIMEOUT: Duration = Duration::from_millis(200);
/// Interval of the authenticated requests, and their timeout on a busy machine.
const REQUEST_INTERVAL: Duration = Duration::from_millis(500);
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Attacks a node for this long. Returns the result, or `None` if the node did not run all the time.
pub(crate) async fn attack(
    node: &GatewayNode,
    number: usize,
    lasts: Duration,
    runtime: TokioRuntime,
) -> Option<AttackResult> {
    let id = node.process_id()?;
    let (before, address) = (resident_bytes(id)?, node.address());
    let end = runtime.monotonic() + lasts;
    let mut open = Vec::new();
    for number in 0..UNFINISHED.max(IDLE) {
        let deadline = || Deadline::after(runtime.monotonic(), SEND_TIMEOUT);
        if number < UNFINISHED {
            open.extend(
                timeout_at(&runtime, deadline(), send_unfinished_body(address)).await.and_then(Result::ok),
            );
        }
        if number < IDLE {
            open.extend(
                timeout_at(&runtime, deadline(), open_idle(address, number % 4 == 0))
                    .await
                    .and_then(Result::ok),
            );
        }
    }
    let mut result = AttackResult { node: number, memory_growth: 0, requests: 0, failures: Vec::new() };
    loop {
        let sent_at = runtime.monotonic();
        let response =
            timeout_at(&runtime, Deadline::after(sent_at, RESPONSE_TIMEOUT), list_models(address)).await;
        result.requests += 1;
        match response {
            Some(Ok(200)) => {}
            Some(Ok(status)) => result.failures.push(format!("node {number} answered {status}")),
            Some(Err(error)) => result.failures.push(format!("node {number}: {error}")),
            None => result.failures.push(format!("node {number} did not answer in {RESPONSE_TIMEOUT:?}")),
        }
        result.memory_growth =
            result.memory_growth.max(resident_bytes(id).unwrap_or(0).saturating_sub(before));
        let now: Timestamp = runtime.monotonic();
        if now >= end {
            break;
        }
        runtime.sleep_until((now + REQUEST_INTERVAL).min(end)).await;
    }
    drop(open);
    // A node that was stopped or killed meanwhile could not answer.
    (node.process_id() == Some(id)).then_some(result)
}

/// The beginning of a large body under an unknown key.
async fn send_unfinished_body(address: SocketAddr) -> io::Result<TcpStream> {
    let mut connection = TcpStream::connect(address).await?;
    let head = "POST /v1/messages HTTP/1.1\r\nhost: chaos\r\nx-api-key: sk-nobody-has-this-key-0000\r\n\
                content-length: 16777216\r\n\r\n";
    connection.write_all(head.as_bytes()).await?;
    // If the node rejects it early, as it should, not everything can be sent.
    let _ = connection.write_all(&vec![b' '; SENT]).await;
    Ok(connection)
}

/// An HTTP/2 connection with one request; or with many whose responses are blocked by flow control.
async fn open_idle(address: SocketAddr, is_stalled: bool) -> io::Result<TcpStream> {
    let mut connection = TcpStream::connect(address).await?;
    let window: u32 = if is_stalled { 0 } else { 65_535 };
    let mut settings = vec![0, 4];
    settings.extend(window.to_be_bytes());
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(4, 0, 0, &settings));
    let (path, streams) = if is_stalled { ("/openapi.json", STALLED_STREAMS) } else { ("/livez", 1) };
    let fields = [(":method", "GET"), (":scheme", "http"), (":path", path), (":authority", "chaos")];
    let block: Vec<u8> = fields.iter().flat_map(|(name, value)| field(name, value)).collect();
    for stream in 0..streams {
        bytes.extend(frame(1, 5, 2 * stream + 1, &block));
    }
    connection.write_all(&bytes).await?;
    Ok(connection)
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, length @ ..] = u32::try_from(payload.len()).unwrap_or(0).to_be_bytes();
    [&length[..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A header field in HPACK, literal and not indexed.
fn field(name: &str, value: &str) -> Vec<u8> {
    let length = |text: &str| u8::try_from(text.len()).unwrap_or(0);
    [&[0, length(name)], name.as_bytes(), &[length(value)], value.as_bytes()].concat()
}

/// The status of an authenticated request for the model list.
async fn list_models(address: SocketAddr) -> io::Result<u16> {
    let key = ChaosCaller { tier: Tier::Prime, number: 0 }.key();
    let mut connection = TcpStream::connect(address).await?;
    let head =
        format!("GET /v1/models HTTP/1.1\r\nhost: chaos\r\nx-api-key: {key}\r\nconnection: close\r\n\r\n");
    connection.write_all(head.as_bytes()).await?;
    let mut response = Vec::new();
    connection.read_to_end(&mut response).await?;
    let text = String::from_utf8_lossy(&response);
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
    status.ok_or_else(|| io::Error::other("no response"))
}
