//! One connection, from its first byte to its last.

use crate::face::Face;
use crate::listen::serve;
use crate::stopping::{Cut, Listener};
use crate::tls::Door;
use hyper::rt::Executor;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use seawall_core::time::Timestamp;
use seawall_pipeline::Timer as _;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::task::Poll;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

/// The windows of HTTP/2: how much may be under way to us on a connection, and on one of its streams.
const MIN_WINDOW: u64 = 64 << 10;
const MAX_WINDOW: u64 = 1 << 20;
const MAX_STREAM_WINDOW: u32 = 256 << 10;

/// The window of a connection, where bodies may take so much memory together.
fn http2_window(body_memory: u64) -> u32 {
    let window = (body_memory / 256).clamp(MIN_WINDOW, MAX_WINDOW);
    u32::try_from(window).unwrap_or(u32::MAX)
}

/// What others know of a conversation, and can tell it.
pub(crate) struct Conversation {
    pub(crate) listener: Listener,
    /// When it began.
    pub(crate) since: Timestamp,
    has_asked: AtomicBool,
    word: AtomicU8,
}

/// What a conversation is told, the later word the stronger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// Go on.
    None = 0,
    /// Answer what was asked, and close.
    Finish = 1,
    /// Close now.
    Leave = 2,
}

impl Conversation {
    pub(crate) fn new(now: Timestamp) -> Self {
        let (listener, has_asked, word) = (Listener::default(), AtomicBool::new(false), AtomicU8::new(0));
        Self { listener, since: now, has_asked, word }
    }

    /// Whether a first request has come.
    pub(crate) fn has_asked(&self) -> bool {
        self.has_asked.load(Ordering::Relaxed)
    }

    /// Tells it this, unless it has heard as much before.
    pub(crate) fn tell(&self, word: Word) {
        if self.word.fetch_max(word as u8, Ordering::AcqRel) < word as u8 {
            self.listener.wake();
        }
    }

    fn word(&self) -> Word {
        match self.word.load(Ordering::Acquire) {
            0 => Word::None,
            1 => Word::Finish,
            _ => Word::Leave,
        }
    }
}

/// How connections are let in.
#[derive(Clone)]
pub(crate) struct Entrance {
    pub(crate) face: Arc<Face>,
    /// What they are encrypted with.
    pub(crate) door: Arc<Door>,
    pub(crate) cut: Cut,
    /// Each connection holds one of these, so that the last one to end is noticed.
    pub(crate) open: mpsc::Sender<Infallible>,
}

impl Entrance {
    pub(crate) fn let_in(&self, stream: TcpStream, peer: SocketAddr) {
        let _ = stream.set_nodelay(true);
        let (entrance, lock) = (self.clone(), self.door.lock());
        serve(async move {
            let Some(lock) = lock else { return entrance.converse(stream, peer).await };
            if let Some(stream) = lock.close(stream, entrance.face.runtime).await {
                entrance.converse(stream, peer).await;
            }
        });
    }

    /// Answers what comes over a connection, until it ends.
    async fn converse(self, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static, peer: SocketAddr) {
        let Self { face, cut, open, .. } = self;
        let head_limit = face.path.arrival().1.head;
        let body_memory = face.sight.body_memory.capacity();
        let conversation = cut.converse(face.runtime.monotonic());
        let tasks = TasksOf(cut.clone());
        let asks = Arc::clone(&conversation);
        let service = service_fn(move |request| {
            asks.has_asked.store(true, Ordering::Relaxed);
            Arc::clone(&face).handle(request, peer.ip(), cut.clone())
        });
        let mut builder = auto::Builder::new(tasks);
        let mut http1 = builder.http1();
        // Without a timer the limit on reading a head is silently off.
        http1.timer(TokioTimer::new()).header_read_timeout(head_limit).max_headers(100);
        // Answers and events are small: one buffer is cheaper to send than a list of them.
        http1.writev(false);
        // What a client may send before anybody reads it is memory that nobody has counted yet.
        let window = http2_window(body_memory);
        let mut http2 = builder.http2();
        http2.timer(TokioTimer::new()).max_concurrent_streams(100);
        http2
            .initial_connection_window_size(window)
            .initial_stream_window_size(window.min(MAX_STREAM_WINDOW));
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        let (mut is_finishing, mut last) = (false, None);
        poll_fn(|context| {
            // Before anything else, so that no word is missed.
            conversation.listener.listen(context, &mut last);
            loop {
                // A connection that breaks has told its requests by dropping them.
                if connection.as_mut().poll(context).is_ready() {
                    return Poll::Ready(());
                }
                match conversation.word() {
                    Word::Finish if !is_finishing => {
                        is_finishing = true;
                        connection.as_mut().graceful_shutdown();
                    }
                    Word::None | Word::Finish => return Poll::Pending,
                    Word::Leave => return Poll::Ready(()),
                }
            }
        })
        .await;
        drop(open);
    }
}

/// Where requests of one connection run that do not wait for each other.
#[derive(Clone)]
struct TasksOf(Cut);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for TasksOf {
    fn execute(&self, work: F) {
        serve(self.0.clone().hearing(work));
    }
}
