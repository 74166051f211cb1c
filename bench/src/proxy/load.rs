//! The load generator: keep-alive connections, each sending in a closed loop or at a fixed rate, verifying every
//! answer.

use super::content::{ANSWER_TEXT, body};
use super::message::{ChunkedBody, MessageFraming, find, framing, head_end, read_chunks};
use super::requests::BenchRequest;
use super::start;
use crate::measure::{now, since};
use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

/// What to send.
#[derive(Clone, Copy, clap::Args)]
pub(crate) struct LoadArguments {
    /// Where.
    #[arg(long)]
    pub(crate) to: SocketAddr,
    #[command(flatten)]
    pub(crate) request: BenchRequest,
    /// How many callers take turns.
    #[arg(long, default_value_t = 1)]
    pub(crate) callers: usize,
    /// Kept connections.
    #[arg(long, default_value_t = 32)]
    pub(crate) connections: u32,
    /// For how long.
    #[arg(long)]
    pub(crate) seconds: f64,
    /// Requests a second over all connections; without it, each asks again once it is answered.
    #[arg(long)]
    pub(crate) rate: Option<f64>,
    /// Ends after this many requests, if that is earlier.
    #[arg(long)]
    pub(crate) count: Option<u64>,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct LoadResult {
    pub(crate) requests: u64,
    pub(crate) seconds: f64,
    /// In microseconds.
    pub(crate) p50: f64,
    /// In microseconds.
    pub(crate) p99: f64,
}

/// The state that the connections share.
struct LoadState {
    arguments: LoadArguments,
    started: Instant,
    expected: ExpectedAnswer,
    /// The credential of each caller; generated before the load begins.
    credentials: Vec<String>,
    sent: AtomicU64,
}

/// What an answer must contain.
enum ExpectedAnswer {
    /// The responder's answer, byte for byte.
    Exact(Vec<u8>),
    /// A translated answer that contains this text.
    Contains(&'static [u8]),
}

impl ExpectedAnswer {
    fn of(request: BenchRequest) -> Self {
        if request.is_translated() {
            Self::Contains(ANSWER_TEXT.as_bytes())
        } else {
            Self::Exact(body(request.dialect, request.kind))
        }
    }
}

/// Loads the target. Any answer that is not exactly the expected one ends the run with an error.
pub(crate) async fn run(arguments: LoadArguments) -> anyhow::Result<LoadResult> {
    let credentials =
        (0..arguments.callers.max(1)).map(|caller| arguments.request.credential.value(caller)).collect();
    let expected = ExpectedAnswer::of(arguments.request);
    let shared =
        Arc::new(LoadState { arguments, started: now(), expected, credentials, sent: AtomicU64::new(0) });
    let (over, mut ended) = mpsc::unbounded_channel();
    for index in 0..arguments.connections {
        let (shared, over) = (Arc::clone(&shared), over.clone());
        start(async move {
            // Sending fails only after the first failure was reported and the receiver dropped.
            let _ = over.send(connection(&shared, index).await);
        });
    }
    drop(over);
    let mut nanos: Vec<u32> = Vec::new();
    while let Some(outcome) = ended.recv().await {
        nanos.append(&mut outcome?);
    }
    let seconds = since(shared.started).as_secs_f64();
    nanos.sort_unstable();
    let at =
        |percent: usize| nanos.get(nanos.len() * percent / 100).map_or(0.0, |nanos| f64::from(*nanos) / 1e3);
    Ok(LoadResult { requests: nanos.len() as u64, seconds, p50: at(50), p99: at(99) })
}

async fn connection(shared: &LoadState, index: u32) -> anyhow::Result<Vec<u32>> {
    let arguments = &shared.arguments;
    let mut stream = TcpStream::connect(arguments.to).await.context("cannot connect")?;
    stream.set_nodelay(true)?;
    let mut request = arguments.request.request(&arguments.to.to_string());
    let first = arguments.request.credential.value(0);
    let credential_at = find(&request, first.as_bytes()).context("the request has no credential")?;
    let mut received = Vec::with_capacity(32 << 10);
    let (mut turn, mut nanos) = (0_u32, Vec::new());
    while since(shared.started).as_secs_f64() < arguments.seconds
        && arguments.count.is_none_or(|count| shared.sent.load(Ordering::Relaxed) < count)
    {
        let began = match arguments.rate {
            Some(rate) => {
                let after = f64::from(turn * arguments.connections + index) / rate;
                let at = shared.started + Duration::from_secs_f64(after);
                wait_for_turn(at).await
            }
            None => now(),
        };
        turn += 1;
        let number = shared.sent.fetch_add(1, Ordering::Relaxed);
        let caller = &shared.credentials[usize::try_from(number).unwrap_or(0) % shared.credentials.len()];
        request[credential_at..credential_at + caller.len()].copy_from_slice(caller.as_bytes());
        stream.write_all(&request).await?;
        received.clear();
        while !is_complete(&received, &shared.expected)? {
            if stream.read_buf(&mut received).await? == 0 {
                bail!("the connection was closed in the middle of an answer");
            }
        }
        let took = u32::try_from(since(began).as_nanos()).unwrap_or(u32::MAX);
        nanos.push(took);
    }
    Ok(nanos)
}

/// The start time of a request's latency. Tokio's timer is coarse, so a request on schedule counts from when it was
/// sent; a request delayed by the previous answer counts from when it was due, which avoids coordinated omission.
#[expect(clippy::disallowed_methods, reason = "a load is paced in real time")]
async fn wait_for_turn(at: Instant) -> Instant {
    if at <= now() {
        return at;
    }
    tokio::time::sleep_until(at.into()).await;
    now()
}

/// Whether the answer is complete. An answer that is not the expected one is an error.
fn is_complete(received: &[u8], expected: &ExpectedAnswer) -> anyhow::Result<bool> {
    let Some(head) = head_end(received) else { return Ok(false) };
    if !received.starts_with(b"HTTP/1.1 200") {
        bail!("unexpected response: {}", String::from_utf8_lossy(&received[..received.len().min(600)]));
    }
    let (is_there, matches) =
        match framing(&received[..head]).context("response without length or chunked encoding")? {
            MessageFraming::Length(length) => {
                let Some(body) = received.get(head..head + length) else { return Ok(false) };
                let matches = match expected {
                    ExpectedAnswer::Exact(expected) => body == expected,
                    ExpectedAnswer::Contains(text) => find(body, text).is_some(),
                };
                (received.len() == head + length, matches)
            }
            MessageFraming::Chunked => {
                let ExpectedAnswer::Exact(expected) = expected else {
                    bail!("a translated response must not be chunked")
                };
                match read_chunks(&received[head..], expected).context("invalid chunked encoding")? {
                    ChunkedBody::Incomplete => return Ok(false),
                    ChunkedBody::Whole { end, matches } => (received.len() == head + end, matches),
                }
            }
        };
    if !is_there || !matches {
        bail!("response differs from what the responder sent");
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::{ExpectedAnswer, is_complete};

    #[test]
    fn an_answer_is_taken_only_as_it_was_sent() {
        let head = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n";
        let exact = ExpectedAnswer::Exact(b"ab".to_vec());
        assert!(is_complete(format!("{head}ab").as_bytes(), &exact).unwrap());
        assert!(!is_complete(format!("{head}a").as_bytes(), &exact).unwrap());
        assert!(is_complete(format!("{head}ax").as_bytes(), &exact).is_err());
        assert!(is_complete(format!("{head}abc").as_bytes(), &exact).is_err());
        assert!(is_complete(b"HTTP/1.1 429 Too Many\r\ncontent-length: 2\r\n\r\nab", &exact).is_err());
    }

    #[test]
    fn a_translated_answer_must_say_the_same() {
        let contains = ExpectedAnswer::Contains(b"tide");
        let answer = |text: &str| format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{text}", text.len());
        assert!(is_complete(answer("the tide comes").as_bytes(), &contains).unwrap());
        assert!(is_complete(answer("the moon comes").as_bytes(), &contains).is_err());
    }
}
