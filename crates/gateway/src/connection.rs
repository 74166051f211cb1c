//! One client connection, from accept to close.

use crate::body::ReplyBody;
use crate::connection_limiter::ConnectionEnd;
use crate::core_registry::{ConnectionTimeouts, CoreRegistry, RegisteredWaker};
use crate::edge::CheckedStream;
use crate::face::GatewayState;
use crate::head_limit::MAX_HEAD;
use crate::listen::spawn;
use crate::tls::ReloadableTls;
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

/// Checks (one a second) between the graceful close of an idle HTTP/2 connection and its hard close.
const GRACEFUL_CLOSE_CHECKS: u32 = 5;

/// The response to a connection over the limit. It is sent only where TLS is off.
const CONNECTION_LIMIT_RESPONSE: &[u8] =
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
pub(crate) struct ConnectionState {
    pub(crate) waker_slot: RegisteredWaker,
    pub(crate) since: Timestamp,
    has_received_request: AtomicBool,
    signal: AtomicU8,
    /// Whether it speaks HTTP/2, where requests in flight are counted. HTTP/1.1 has a header timeout instead.
    is_http2: AtomicBool,
    /// Requests in flight, until their responses have been sent.
    in_flight: AtomicU32,
    /// Checks since the last request ended. Every request resets it.
    idle: AtomicU32,
    /// Whether sent bytes wait to be read by the client, and a counter of the writes that made progress.
    sending: WriteProgress,
    /// The progress counter at the last check, and the number of checks for which it has not moved.
    stalled: (AtomicU32, AtomicU32),
}

/// The state of outgoing bytes.
#[derive(Default)]
struct WriteProgress {
    is_blocked: AtomicBool,
    progress: AtomicU32,
}

/// One HTTP/2 request in flight. Dropped together with its response.
pub(crate) struct InFlightRequest(Arc<ConnectionState>);

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A signal to a connection. A later variant overrides an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionSignal {
    /// Continue.
    Continue = 0,
    /// Finish the requests in flight, then close.
    Drain = 1,
    /// Close now.
    Close = 2,
}

impl ConnectionState {
    pub(crate) fn new(now: Timestamp) -> Self {
        Self {
            waker_slot: RegisteredWaker::default(),
            since: now,
            has_received_request: AtomicBool::new(false),
            signal: AtomicU8::new(0),
            is_http2: AtomicBool::new(false),
            in_flight: AtomicU32::new(0),
            idle: AtomicU32::new(0),
            sending: WriteProgress::default(),
            stalled: Default::default(),
        }
    }

    /// Records a request. An HTTP/2 request is counted until its response has been sent.
    fn begin_request(self: &Arc<Self>, version: Version) -> Option<InFlightRequest> {
        self.has_received_request.store(true, Ordering::Relaxed);
        if version < Version::HTTP_2 {
            return None;
        }
        self.is_http2.store(true, Ordering::Relaxed);
        self.idle.store(0, Ordering::Relaxed);
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        Some(InFlightRequest(Arc::clone(self)))
    }

    /// Counts one check. Returns the signal for a connection that was idle or stalled for too long, and the reason.
    pub(crate) fn check(
        &self,
        timeouts: &ConnectionTimeouts,
    ) -> Option<(ConnectionSignal, Option<ConnectionEnd>)> {
        let progress = self.sending.progress.load(Ordering::Relaxed);
        let was = self.stalled.0.swap(progress, Ordering::Relaxed);
        if !self.sending.is_blocked.load(Ordering::Relaxed) || was != progress {
            self.stalled.1.store(0, Ordering::Relaxed);
        } else if self.stalled.1.fetch_add(1, Ordering::Relaxed) + 1 >= timeouts.max_stalled_checks {
            return Some((ConnectionSignal::Close, Some(ConnectionEnd::Stalled)));
        }
        if !self.is_http2.load(Ordering::Relaxed) || self.in_flight.load(Ordering::Relaxed) > 0 {
            self.idle.store(0, Ordering::Relaxed);
            return None;
        }
        let idle = self.idle.fetch_add(1, Ordering::Relaxed) + 1;
        // A client that ignores the graceful close is closed shortly afterwards.
        if idle >= timeouts.max_idle_checks.saturating_add(GRACEFUL_CLOSE_CHECKS) {
            return Some((ConnectionSignal::Close, None));
        }
        (idle >= timeouts.max_idle_checks).then_some((ConnectionSignal::Drain, Some(ConnectionEnd::Idle)))
    }

    /// Whether the first request has arrived.
    pub(crate) fn has_received_request(&self) -> bool {
        self.has_received_request.load(Ordering::Relaxed)
    }

    /// Sends this signal, unless the same or a stronger one was sent before. Returns whether it was new.
    pub(crate) fn send_signal(&self, signal: ConnectionSignal) -> bool {
        let is_new = self.signal.fetch_max(signal as u8, Ordering::AcqRel) < signal as u8;
        if is_new {
            self.waker_slot.wake();
        }
        is_new
    }

    fn signal(&self) -> ConnectionSignal {
        match self.signal.load(Ordering::Acquire) {
            0 => ConnectionSignal::Continue,
            1 => ConnectionSignal::Drain,
            _ => ConnectionSignal::Close,
        }
    }
}

/// Admits connections and serves them.
#[derive(Clone)]
pub(crate) struct ConnectionAcceptor {
    pub(crate) state: Arc<GatewayState>,
    /// The TLS configuration for new connections.
    pub(crate) tls: Arc<ReloadableTls>,
    pub(crate) core: CoreRegistry,
    /// Every connection holds a clone, so that the receiver notices when the last one has ended.
    pub(crate) open: mpsc::Sender<Infallible>,
}

impl ConnectionAcceptor {
    pub(crate) fn accept(&self, stream: TcpStream, peer: SocketAddr) {
        let network = self.state.authenticator.load().network(peer.ip());
        let (acceptor, handshake) = (self.clone(), self.tls.handshake());
        let Ok(admitted) = self.state.status.connections.admit(network) else {
            // Never wait here: a response that cannot be written at once is not sent.
            if handshake.is_none()
                && let Ok(mut stream) = stream.into_std()
            {
                let _ = stream.write(CONNECTION_LIMIT_RESPONSE);
            }
            return;
        };
        let _ = stream.set_nodelay(true);
        spawn(async move {
            let _admitted = admitted;
            let Some(handshake) = handshake else { return acceptor.serve_connection(stream, peer).await };
            if let Some(stream) = handshake.accept(stream, acceptor.state.runtime).await {
                acceptor.serve_connection(stream, peer).await;
            }
        });
    }

    /// Serves the requests of one connection until it ends.
    async fn serve_connection(
        self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        peer: SocketAddr,
    ) {
        let Self { state, core, open, .. } = self;
        let header_timeout = state.pipeline.receive_limits().1.header_timeout;
        let body_memory = state.status.body_memory.capacity();
        let connection_state = core.register_connection(state.runtime.monotonic());
        let tasks = RequestExecutor(core.clone());
        let (runtime, status) = (state.runtime, Arc::clone(&state.status));
        let on_flood = move || status.connections.record_end(ConnectionEnd::Http2Flood);
        let stream = CheckedStream::new(stream, move || runtime.monotonic(), on_flood);
        let request_counter = Arc::clone(&connection_state);
        let service = service_fn(move |request: Request<Incoming>| {
            let in_flight = request_counter.begin_request(request.version());
            let response = Arc::clone(&state).handle(request, peer.ip(), core.clone());
            async move {
                match (response.await, in_flight) {
                    (Ok(response), Some(in_flight)) => Ok(response
                        .map(|body| ReplyBody::Counted { body: Box::new(body), _in_flight: in_flight })),
                    (response, _) => response,
                }
            }
        });
        let mut builder = auto::Builder::new(tasks);
        let mut http1 = builder.http1();
        // Without a timer, hyper silently disables the header timeout.
        http1.timer(TokioTimer::new()).header_read_timeout(header_timeout).max_headers(100);
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
        let stream =
            StallDetector { stream, connection_state: Arc::clone(&connection_state), is_blocked: false };
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        let (mut is_finishing, mut last) = (false, None);
        poll_fn(|context| {
            // Before anything else, so that no signal is missed.
            connection_state.waker_slot.register(context, &mut last);
            loop {
                // A broken connection has already cancelled its requests by dropping them.
                if connection.as_mut().poll(context).is_ready() {
                    return Poll::Ready(());
                }
                match connection_state.signal() {
                    ConnectionSignal::Drain if !is_finishing => {
                        is_finishing = true;
                        connection.as_mut().graceful_shutdown();
                    }
                    ConnectionSignal::Continue | ConnectionSignal::Drain => return Poll::Pending,
                    ConnectionSignal::Close => return Poll::Ready(()),
                }
            }
        })
        .await;
        drop(open);
    }
}

/// Wraps a connection and records whether the client reads what is sent. Costs nothing while it does.
struct StallDetector<S> {
    stream: S,
    connection_state: Arc<ConnectionState>,
    is_blocked: bool,
}

impl<S> StallDetector<S> {
    fn record_write<T>(&mut self, polled: Poll<T>) -> Poll<T> {
        if polled.is_pending() != self.is_blocked {
            let sending = &self.connection_state.sending;
            if self.is_blocked {
                sending.progress.fetch_add(1, Ordering::Relaxed);
            }
            self.is_blocked = !self.is_blocked;
            sending.is_blocked.store(self.is_blocked, Ordering::Relaxed);
        }
        polled
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for StallDetector<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for StallDetector<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.record_write(polled)
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
        this.record_write(polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// Spawns the concurrent requests of one HTTP/2 connection.
#[derive(Clone)]
struct RequestExecutor(CoreRegistry);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for RequestExecutor {
    fn execute(&self, work: F) {
        spawn(self.0.clone().run_registered(work));
    }
}
