//! A manual clock, servers written in the test, and a stream that plays a script.

use crate::http1::{
    BodyFailure, Connect, Endpoint, Http1Pool, Http1Response, HttpLimits, HttpRequest, PoolOptions, Scheme,
    TcpConnect, Timer,
};
use bytes::Bytes;
use seawall_core::time::Timestamp;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::yield_now;

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// Every phase has a different timeout, so that a test can tell which one fired.
pub(crate) const LIMITS: HttpLimits = HttpLimits {
    connect_timeout: Duration::from_secs(10),
    write_timeout: Duration::from_secs(20),
    head_timeout: Duration::from_secs(30),
    idle_timeout: Duration::from_secs(40),
    max_body_bytes: 1 << 20,
};

/// A clock that stands still until it is advanced. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct HandTimer {
    clock: Arc<Mutex<Clock>>,
}

#[derive(Default)]
struct Clock {
    now: Timestamp,
    started: usize,
    waiting: Vec<Waker>,
}

impl HandTimer {
    /// The number of sleeps started so far.
    pub(crate) fn started(&self) -> usize {
        self.clock.lock().unwrap().started
    }

    pub(crate) fn advance(&self, by: Duration) {
        let waiting = {
            let mut clock = self.clock.lock().unwrap();
            clock.now = clock.now + by;
            std::mem::take(&mut clock.waiting)
        };
        waiting.iter().for_each(Waker::wake_by_ref);
    }

    /// Advances the clock once a task waits for it.
    pub(crate) async fn advance_when_awaited(&self, by: Duration) {
        while self.clock.lock().unwrap().waiting.is_empty() {
            yield_now().await;
        }
        self.advance(by);
    }
}

impl Timer for HandTimer {
    fn monotonic(&self) -> Timestamp {
        self.clock.lock().unwrap().now
    }

    fn sleep_until(&self, at: Timestamp) -> impl Future<Output = ()> + Send + 'static {
        let clock = Arc::clone(&self.clock);
        clock.lock().unwrap().started += 1;
        poll_fn(move |context| {
            let mut clock = clock.lock().unwrap();
            if clock.now >= at {
                return Poll::Ready(());
            }
            clock.waiting.push(context.waker().clone());
            Poll::Pending
        })
    }
}

pub(crate) fn endpoint(address: SocketAddr) -> Endpoint {
    Endpoint::new(Scheme::Http, "localhost", address.port()).unwrap()
}

pub(crate) fn pool_to(address: SocketAddr, timer: &HandTimer) -> Http1Pool<TcpConnect, HandTimer> {
    Http1Pool::new(endpoint(address), TcpConnect(address), timer.clone(), PoolOptions::default())
}

/// A listener on loopback, a pool that connects to it, and the pool's clock.
pub(crate) async fn listen() -> (TcpListener, Http1Pool<TcpConnect, HandTimer>, HandTimer) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let timer = HandTimer::default();
    let pool = pool_to(listener.local_addr().unwrap(), &timer);
    (listener, pool, timer)
}

pub(crate) fn get() -> HttpRequest<'static> {
    HttpRequest { method: "GET", path: "/", headers: &[], body: Bytes::new(), resend_on_stale: true }
}

pub(crate) fn post(body: impl Into<Bytes>) -> HttpRequest<'static> {
    HttpRequest { method: "POST", body: body.into(), ..get() }
}

/// Collects a body.
pub(crate) async fn collect<C: Connect, T: Timer>(
    response: &mut Http1Response<C, T>,
) -> Result<Vec<u8>, BodyFailure> {
    let mut whole = Vec::new();
    while let Some(chunk) = response.body.chunk().await {
        let chunk = chunk?;
        assert!(!chunk.is_empty(), "a frame is never empty");
        whole.extend_from_slice(&chunk);
    }
    assert!(response.body.is_done());
    Ok(whole)
}

/// Reads one request, head and body; `None` if the client has closed the connection.
pub(crate) async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut received = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&received);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                return Some(text.into_owned());
            }
        }
        if stream.read_buf(&mut received).await.unwrap_or(0) == 0 {
            return None;
        }
    }
}

/// Accepts a connection, reads a request, sends `answer` and returns the connection.
pub(crate) async fn answer_one(listener: &TcpListener, answer: impl AsRef<[u8]>) -> TcpStream {
    let (mut stream, _) = listener.accept().await.unwrap();
    stream.set_nodelay(true).unwrap();
    read_request(&mut stream).await.unwrap();
    stream.write_all(answer.as_ref()).await.unwrap();
    stream
}

/// Runs all tasks that are ready.
pub(crate) async fn settle() {
    for _ in 0..8 {
        yield_now().await;
    }
}

/// What a scripted stream does at the end of its pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    Close,
    Reset,
    Wait,
}

/// A peer that sends these pieces, one per read, whatever it receives.
pub(crate) struct Script {
    pub(crate) pieces: VecDeque<Bytes>,
    pub(crate) then: Then,
}

impl AsyncRead for Script {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(mut piece) = self.pieces.pop_front() {
            into.put_slice(&piece.split_to(piece.len().min(into.remaining())));
            if !piece.is_empty() {
                self.pieces.push_front(piece);
            }
            return Poll::Ready(Ok(()));
        }
        match self.then {
            Then::Close => Poll::Ready(Ok(())),
            Then::Reset => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            Then::Wait => Poll::Pending,
        }
    }
}

impl AsyncWrite for Script {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Returns scripted streams, one per connection.
#[derive(Default)]
pub(crate) struct Scripts {
    scripts: Mutex<VecDeque<Script>>,
}

impl Connect for Scripts {
    type Stream = Script;

    async fn connect(&self) -> io::Result<Script> {
        self.scripts.lock().unwrap().pop_front().ok_or_else(|| io::ErrorKind::ConnectionRefused.into())
    }
}

/// A pool whose first connection plays this script.
pub(crate) fn scripted(pieces: &[&[u8]], then: Then) -> Http1Pool<Scripts, HandTimer> {
    let pieces = pieces.iter().filter(|piece| !piece.is_empty());
    let script = Script { pieces: pieces.map(|piece| Bytes::copy_from_slice(piece)).collect(), then };
    let scripts = Scripts { scripts: Mutex::new(VecDeque::from([script])) };
    let address = SocketAddr::from(([127, 0, 0, 1], 80));
    Http1Pool::new(endpoint(address), scripts, HandTimer::default(), PoolOptions::default())
}

/// Runs a future that never has to wait.
pub(crate) fn at_once<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("waits for something that never comes"),
    }
}
