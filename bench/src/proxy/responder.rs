//! The model behind every target: answers as fast as a socket can be written to.

use super::answers::{Kind, PACED_MARK, STREAM_MARK, paced_parts, response};
use super::message::{Framing, find, framing, head_end};
use super::start;
use anyhow::Context as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Both answers, made once.
struct Answers {
    plain: Vec<u8>,
    burst: Vec<u8>,
    paced: Vec<Vec<u8>>,
}

/// Between two events of a paced stream.
const PACE: Duration = Duration::from_millis(5);

/// Answers until it is killed.
pub(crate) async fn run(listen: SocketAddr) -> anyhow::Result<()> {
    let listener = TcpListener::bind(listen).await.context("cannot listen")?;
    let answers = Arc::new(Answers {
        plain: response(Kind::Plain),
        burst: response(Kind::Burst),
        paced: paced_parts(),
    });
    loop {
        let (stream, _) = listener.accept().await.context("cannot accept")?;
        let answers = Arc::clone(&answers);
        start(async move {
            // A connection that breaks is closed by its other end.
            let _ = answer_all(stream, &answers).await;
        });
    }
}

async fn answer_all(mut stream: TcpStream, answers: &Answers) -> std::io::Result<()> {
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
        let has = |mark| find(&received[..whole], mark).is_some();
        let (is_stream, is_paced) = (has(STREAM_MARK), has(PACED_MARK));
        received.drain(..whole);
        if is_paced {
            for part in &answers.paced {
                stream.write_all(part).await?;
                pause(PACE).await;
            }
        } else {
            stream.write_all(if is_stream { &answers.burst } else { &answers.plain }).await?;
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
