//! One connection, from its first byte to its last.

use crate::body::ReplyBody;
use crate::connections::ConnectionEnd;
use crate::face::Face;
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

/// How many looks a connection has to say goodbye.
const GOODBYE_LOOKS: u32 = 5;

/// What is sent to who cannot be let in, where that can be read.
const NO_ROOM: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

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
    /// Whether it speaks HTTP/2, where requests under way are counted. HTTP/1.1 has a limit on the wait for a head.
    is_http2: AtomicBool,
    /// Requests under way, until their answers have been sent.
    in_use: AtomicU32,
    /// Looks since then. It is set back by every request.
    idle: AtomicU32,
    /// Whether what was sent waits to be read, and how often some of it was.
    sending: Sending,
    /// How often was read at the last look, and how many looks ago that was.
    unread: (AtomicU32, AtomicU32),
}

/// What is known of bytes on their way out.
#[derive(Default)]
struct Sending {
    is_stuck: AtomicBool,
    progress: AtomicU32,
}

/// A request of a conversation that is under way. Dropped with its answer.
pub(crate) struct RequestInUse(Arc<Conversation>);

impl Drop for RequestInUse {
    fn drop(&mut self) {
        self.0.in_use.fetch_sub(1, Ordering::Relaxed);
    }
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

    /// Notes a request. One of HTTP/2 is counted until its answer has been sent.
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

    /// What it is to be told if it does nothing for too long, and why. Counts one look.
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
        // Who does not answer the goodbye is closed a moment later.
        if idle >= patience.max_idle.saturating_add(GOODBYE_LOOKS) {
            return Some((Word::Leave, None));
        }
        (idle >= patience.max_idle).then_some((Word::Finish, Some(ConnectionEnd::Idle)))
    }

    /// Whether a first request has come.
    pub(crate) fn has_asked(&self) -> bool {
        self.has_asked.load(Ordering::Relaxed)
    }

    /// Tells it this, unless it has heard as much before. Returns whether it had not.
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
        let address = self.face.gate.load().network(peer.ip());
        let (entrance, lock) = (self.clone(), self.door.lock());
        let Ok(admitted) = self.face.sight.connections.admit(address) else {
            // Nothing is waited for: what cannot be sent at once is not.
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

    /// Answers what comes over a connection, until it ends.
    async fn converse(self, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static, peer: SocketAddr) {
        let Self { face, cut, open, .. } = self;
        let head_limit = face.path.arrival().1.head;
        let body_memory = face.sight.body_memory.capacity();
        let conversation = cut.converse(face.runtime.monotonic());
        let tasks = TasksOf(cut.clone());
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
        let stream = Watching { stream, conversation: Arc::clone(&conversation), is_stuck: false };
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

/// A connection that tells whether what is sent is read. As long as it is, nothing is told.
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

/// Where requests of one connection run that do not wait for each other.
#[derive(Clone)]
struct TasksOf(Cut);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for TasksOf {
    fn execute(&self, work: F) {
        serve(self.0.clone().hearing(work));
    }
}
