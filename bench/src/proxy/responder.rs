//! The upstream behind every target: answers as fast as a socket can be written to.

use super::answers::{Dialect, Kind, recognise};
use super::content::pieces;
use super::message::{Framing, framing, head_end};
use super::start;
use anyhow::Context as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A prebuilt answer.
struct Answer {
    dialect: Dialect,
    kind: Kind,
    pieces: Vec<Vec<u8>>,
}

/// The interval between two events of a paced stream.
const PACE: Duration = Duration::from_millis(5);

/// The response to an unknown request, so that a mistake is noticed at once.
const UNKNOWN: &[u8] = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n";

/// Serves until it is killed.
pub(crate) async fn run(listen: SocketAddr) -> anyhow::Result<()> {
    let listener = TcpListener::bind(listen).await.context("cannot listen")?;
    let kinds = [Kind::Plain, Kind::Burst, Kind::Paced];
    let answers = Dialect::ALL.into_iter().flat_map(|dialect| {
        kinds.into_iter().map(move |kind| Answer { dialect, kind, pieces: pieces(dialect, kind) })
    });
    let answers: Arc<[Answer]> = answers.collect();
    loop {
        let (stream, _) = listener.accept().await.context("cannot accept")?;
        let answers = Arc::clone(&answers);
        start(async move {
            // A broken connection is closed by its other end.
            let _ = answer_all(stream, &answers).await;
        });
    }
}

async fn answer_all(mut stream: TcpStream, answers: &[Answer]) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut received = Vec::with_capacity(16 << 10);
    loop {
        let whole = loop {
            if let Some(end) = request_end(&received)
                && received.len() >= end
            {
                break end;
            }
            if stream.read_buf(&mut received).await? == 0 {
                return Ok(());
            }
        };
        let asked = recognise(&received[..whole]);
        received.drain(..whole);
        let answer = answers.iter().find(|answer| Some((answer.dialect, answer.kind)) == asked);
        let Some(answer) = answer else {
            stream.write_all(UNKNOWN).await?;
            continue;
        };
        for piece in &answer.pieces {
            stream.write_all(piece).await?;
            if answer.kind == Kind::Paced {
                pause(PACE).await;
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark runs in real time")]
async fn pause(duration: Duration) {
    tokio::time::sleep(duration).await;
}

fn request_end(received: &[u8]) -> Option<usize> {
    let head = head_end(received)?;
    match framing(&received[..head]) {
        Some(Framing::Length(length)) => Some(head + length),
        Some(Framing::Chunked) | None => Some(head),
    }
}
