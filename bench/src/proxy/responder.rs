//! The upstream behind every target: answers as fast as a socket can be written to.

use super::content::chunks;
use super::message::{MessageFraming, framing, head_end};
use super::requests::{BenchDialect, BenchRequestKind, recognise};
use super::start;
use anyhow::Context as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A prebuilt answer.
struct CannedAnswer {
    dialect: BenchDialect,
    kind: BenchRequestKind,
    chunks: Vec<Vec<u8>>,
}

/// The interval between two events of a paced stream.
const PACE: Duration = Duration::from_millis(5);

/// The response to an unknown request, so that a mistake is noticed at once.
const UNKNOWN: &[u8] = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n";

/// Serves until it is killed.
pub(crate) async fn run(listen: SocketAddr) -> anyhow::Result<()> {
    let listener = TcpListener::bind(listen).await.context("cannot listen")?;
    let kinds = [BenchRequestKind::Plain, BenchRequestKind::Burst, BenchRequestKind::Paced];
    let answers = BenchDialect::ALL.into_iter().flat_map(|dialect| {
        kinds.into_iter().map(move |kind| CannedAnswer { dialect, kind, chunks: chunks(dialect, kind) })
    });
    let answers: Arc<[CannedAnswer]> = answers.collect();
    loop {
        let (stream, _) = listener.accept().await.context("cannot accept")?;
        let answers = Arc::clone(&answers);
        start(async move {
            // A broken connection is closed by its other end.
            let _ = serve_connection(stream, &answers).await;
        });
    }
}

async fn serve_connection(mut stream: TcpStream, answers: &[CannedAnswer]) -> std::io::Result<()> {
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
        let recognised = recognise(&received[..whole]);
        received.drain(..whole);
        let answer = answers.iter().find(|answer| Some((answer.dialect, answer.kind)) == recognised);
        let Some(answer) = answer else {
            stream.write_all(UNKNOWN).await?;
            continue;
        };
        for chunk in &answer.chunks {
            stream.write_all(chunk).await?;
            if answer.kind == BenchRequestKind::Paced {
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
        Some(MessageFraming::Length(length)) => Some(head + length),
        Some(MessageFraming::Chunked) | None => Some(head),
    }
}
