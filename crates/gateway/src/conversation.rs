//! One client connection, from accept to close.

use crate::body::ReplyBody;
use crate::connections::ConnectionEnd;
use crate::edge::CheckedStream;
use crate::face::Face;
use crate::head_limit::MAX_HEAD;
use crate::listen::serve;
use crate::stopping::{ConnectionPatience, Cut, Listener};
use crate::tls::Door;
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::service::service_fn;
use hyper::{Request, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use seawall_core::time::Timestamp;
use seawall_pipeline::Timer as _;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

/// Checks (one a second) between the polite close of an idle HTTP/2 connection and its hard close.
const GOODBYE_LOOKS: u32 = 5;

/// The response to a connection over the limit. It is sent only where TLS is off.
const NO_ROOM: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// HTTP/2 flow-control windows: unread bytes that a client may send per connection, and per stream.
const MIN_WINDOW: u64 = 64 << 10;
const MAX_WINDOW: u64 = 1 << 20;
const MAX_STREAM_WINDOW: u32 = 256 << 10;

/// The flow-control window of a connection, given the memory limit for all request bodies together.
fn http2_window(body_memory: u64) -> u32 {
    let window = (body_memory / 256).clamp(MIN_WINDOW, MAX_WINDOW);
    u32::try_from(window).unwrap_or(u32::MAX)
}

/// The state of a connection that other tasks can read and signal.
pub(crate) struct Conversation {
    pub(crate) listener: Listener,
    pub(crate) since: Timestamp,
    has_asked: AtomicBool,
    word: AtomicU8,
    /// Whether it speaks HTTP/2, where requests in flight are counted. HTTP/1.1 has a header timeout instead.
    is_http2: AtomicBool,
    /// Requests in flight, until their responses have been sent.
    in_use: AtomicU32,
    /// Checks since the last request ended. Every request resets it.
    idle: AtomicU32,
    /// Whether sent bytes wait to be read by the client, and a counter of the writes that made progress.
    sending: Sending,
    /// The progress counter at the last check, and the number of checks for which it has not moved.
    unread: (AtomicU32, AtomicU32),
}

/// The state of outgoing bytes.
#[derive(Default)]
struct Sending {
    is_stuck: AtomicBool,
    progress: AtomicU32,
}

/// One HTTP/2 request in flight. Dropped together with its response.
pub(crate) struct RequestInUse(Arc<Conversation>);

impl Drop for RequestInUse {
    fn drop(&mut self) {
        self.0.in_use.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A signal to a connection. A later variant overrides an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// Continue.
    None = 0,
    /// Finish the requests in flight, then close.
    Finish = 1,
    /// Close now.
    Leave = 2,
}

impl Conversation {
    pub(crate) fn new(now: Timestamp) -> Self {
        Self {
            listener: Listener::default(),
            since: now,
            has_asked: AtomicBool::new(false),
            word: AtomicU8::new(0),
            is_http2: AtomicBool::new(false),
            in_use: AtomicU32::new(0),
            idle: AtomicU32::new(0),
            sending: Sending::default(),
            unread: Default::default(),
        }
    }

    /// Records a request. An HTTP/2 request is counted until its response has been sent.
    fn begin(self: &Arc<Self>, version: Version) -> Option<RequestInUse> {
        self.has_asked.store(true, Ordering::Relaxed);
        if version < Version::HTTP_2 {
            return None;
        }
        self.is_http2.store(true, Ordering::Relaxed);
        self.idle.store(0, Ordering::Relaxed);
        self.in_use.fetch_add(1, Ordering::Relaxed);
        Some(RequestInUse(Arc::clone(self)))
    }

    /// Counts one check. Returns the signal for a connection that was idle or stalled for too long, and the reason.
    pub(crate) fn look(&self, patience: &ConnectionPatience) -> Option<(Word, Option<ConnectionEnd>)> {
        let progress = self.sending.progress.load(Ordering::Relaxed);
        let was = self.unread.0.swap(progress, Ordering::Relaxed);
        if !self.sending.is_stuck.load(Ordering::Relaxed) || was != progress {
            self.unread.1.store(0, Ordering::Relaxed);
        } else if self.unread.1.fetch_add(1, Ordering::Relaxed) + 1 >= patience.max_unread {
            return Some((Word::Leave, Some(ConnectionEnd::Unread)));
        }
        if !self.is_http2.load(Ordering::Relaxed) || self.in_use.load(Ordering::Relaxed) > 0 {
            self.idle.store(0, Ordering::Relaxed);
            return None;
        }
        let idle = self.idle.fetch_add(1, Ordering::Relaxed) + 1;
        // A client that ignores the polite close is closed shortly afterwards.
        if idle >= patience.max_idle.saturating_add(GOODBYE_LOOKS) {
            return Some((Word::Leave, None));
        }
        (idle >= patience.max_idle).then_some((Word::Finish, Some(ConnectionEnd::Idle)))
    }

    /// Whether the first request has arrived.
    pub(crate) fn has_asked(&self) -> bool {
        self.has_asked.load(Ordering::Relaxed)
    }

    /// Sends this signal, unless the same or a stronger one was sent before. Returns whether it was new.
    pub(crate) fn tell(&self, word: Word) -> bool {
        let is_news = self.word.fetch_max(word as u8, Ordering::AcqRel) < word as u8;
        if is_news {
            self.listener.wake();
        }
        is_news
    }

    fn word(&self) -> Word {
        match self.word.load(Ordering::Acquire) {
            0 => Word::None,
            1 => Word::Finish,
            _ => Word::Leave,
        }
    }
}

/// Admits connections and serves them.
#[derive(Clone)]
pub(crate) struct Entrance {
    pub(crate) face: Arc<Face>,
    /// The TLS configuration for new connections.
    pub(crate) door: Arc<Door>,
    pub(crate) cut: Cut,
    /// Every connection holds a clone, so that the receiver notices when the last one has ended.
    pub(crate) open: mpsc::Sender<Infallible>,
}

impl Entrance {
    pub(crate) fn let_in(&self, stream: TcpStream, peer: SocketAddr) {
        let address = self.face.gate.load().network(peer.ip());
        let (entrance, lock) = (self.clone(), self.door.lock());
        let Ok(admitted) = self.face.sight.connections.admit(address) else {
            // Never wait here: a response that cannot be written at once is not sent.
            if lock.is_none()
                && let Ok(mut stream) = stream.into_std()
            {
                let _ = stream.write(NO_ROOM);
            }
            return;
        };
        let _ = stream.set_nodelay(true);
        serve(async move {
            let _admitted = admitted;
            let Some(lock) = lock else { return entrance.converse(stream, peer).await };
            if let Some(stream) = lock.close(stream, entrance.face.runtime).await {
                entrance.converse(stream, peer).await;
            }
        });
    }

    /// Serves the requests of one connection until it ends.
    async fn converse(self, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static, peer: SocketAddr) {
        let Self { face, cut, open, .. } = self;
        let head_limit = face.path.arrival().1.head;
        let body_memory = face.sight.body_memory.capacity();
        let conversation = cut.converse(face.runtime.monotonic());
        let tasks = TasksOf(cut.clone());
        let (runtime, sight) = (face.runtime, Arc::clone(&face.sight));
        let on_flood = move || sight.connections.count(ConnectionEnd::Http2Flood);
        let stream = CheckedStream::new(stream, move || runtime.monotonic(), on_flood);
        let asks = Arc::clone(&conversation);
        let service = service_fn(move |request: Request<Incoming>| {
            let in_use = asks.begin(request.version());
            let answering = Arc::clone(&face).handle(request, peer.ip(), cut.clone());
            async move {
                let response = answering.await;
                match (response, in_use) {
                    (Ok(response), Some(in_use)) => {
                        Ok(response.map(|body| ReplyBody::Counted { body: Box::new(body), _in_use: in_use }))
                    }
                    (response, _) => response,
                }
            }
        });
        let mut builder = auto::Builder::new(tasks);
        let mut http1 = builder.http1();
        // Without a timer, hyper silently disables the header timeout.
        http1.timer(TokioTimer::new()).header_read_timeout(head_limit).max_headers(100);
        // This bounds the pieces in which bodies are read; larger ones are not faster.
        http1.max_buf_size(MAX_HEAD);
        // Responses and events are small: one flat buffer is cheaper to write than a vectored list.
        http1.writev(false);
        // Bytes that a client may send before they are read are memory not yet charged to any caller.
        let window = http2_window(body_memory);
        let mut http2 = builder.http2();
        http2.timer(TokioTimer::new()).max_concurrent_streams(100);
        http2.max_header_list_size(u32::try_from(MAX_HEAD).unwrap_or(u32::MAX));
        http2
            .initial_connection_window_size(window)
            .initial_stream_window_size(window.min(MAX_STREAM_WINDOW));
        let stream = Watching { stream, conversation: Arc::clone(&conversation), is_stuck: false };
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        let (mut is_finishing, mut last) = (false, None);
        poll_fn(|context| {
            // Before anything else, so that no signal is missed.
            conversation.listener.listen(context, &mut last);
            loop {
                // A broken connection has already cancelled its requests by dropping them.
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

/// Wraps a connection and records whether the client reads what is sent. Costs nothing while it does.
struct Watching<S> {
    stream: S,
    conversation: Arc<Conversation>,
    is_stuck: bool,
}

impl<S> Watching<S> {
    fn sent<T>(&mut self, polled: Poll<T>) -> Poll<T> {
        if polled.is_pending() != self.is_stuck {
            let sending = &self.conversation.sending;
            if self.is_stuck {
                sending.progress.fetch_add(1, Ordering::Relaxed);
            }
            self.is_stuck = !self.is_stuck;
            sending.is_stuck.store(self.is_stuck, Ordering::Relaxed);
        }
        polled
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watching<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watching<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.sent(polled)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_write_vectored(context, slices);
        this.sent(polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// Spawns the concurrent requests of one HTTP/2 connection.
#[derive(Clone)]
struct TasksOf(Cut);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for TasksOf {
    fn execute(&self, work: F) {
        serve(self.0.clone().hearing(work));
    }
}
