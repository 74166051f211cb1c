//! Connection pool of one server, with stream accounting per connection.

use super::last_received::{LastReceived, ReceiveTracker};
use super::outgoing::OutgoingBody;
use crate::connect::ResolvedAddress;
use crate::http1::{HEAD_LIMIT, PoolOptions, SendFailure};
use crate::tasks::TokioTasks;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use seawall_core::runtime::Timer;
use seawall_core::time::Timestamp;
use std::future::{Future as _, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};

/// Flow-control windows: unread bytes of one response, and of all responses of a connection together.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;
/// A request cancelled after this much silence retires its connection: a new connection costs less than a dead one.
const SUSPECT_AFTER: Duration = Duration::from_secs(2);

/// Connections with their streams.
pub(crate) struct Http2Pool<T> {
    connections: Mutex<Vec<PooledConnection<T>>>,
    /// Held while a connection is opened, so that concurrent requests open a single one.
    pub(crate) opening: tokio::sync::Mutex<()>,
    timer: T,
    /// Maximum number of streams per connection, regardless of the peer's limit.
    streams: usize,
    max_idle_age: Duration,
}

struct PooledConnection<T> {
    sender: SendRequest<OutgoingBody<T>>,
    state: Arc<Http2ConnectionState>,
}

struct Http2ConnectionState {
    address: Option<ResolvedAddress>,
    streams: AtomicUsize,
    /// The peer's limit of concurrent streams.
    peer_max_streams: AtomicUsize,
    /// Gets no further requests.
    is_retired: AtomicBool,
    has_responded: AtomicBool,
    last_received: LastReceived,
    /// When the last stream ended, in nanoseconds.
    idle_since: AtomicU64,
}

/// A stream reserved for a request. Dropping it releases the stream.
pub(crate) struct StreamLease<T: Timer> {
    pub(super) sender: SendRequest<OutgoingBody<T>>,
    state: Arc<Http2ConnectionState>,
    pub(super) timer: T,
    began: Timestamp,
    /// Whether the peer ended the exchange, successfully or not.
    has_ended: bool,
}

impl<T: Timer + Unpin> Http2Pool<T> {
    pub(crate) fn new(timer: T, streams: usize, options: PoolOptions) -> Self {
        Self {
            connections: Mutex::default(),
            opening: tokio::sync::Mutex::new(()),
            timer,
            streams: streams.max(1),
            max_idle_age: options.max_idle_age,
        }
    }

    /// Reserves a stream on an open connection, if one has room.
    pub(crate) fn take(&self, now: Timestamp) -> Option<StreamLease<T>> {
        let mut connections = self.lock();
        connections
            .retain(|pooled| !pooled.sender.is_closed() && pooled.state.is_usable(now, self.max_idle_age));
        let free = connections.iter().find(|pooled| {
            pooled.state.streams.load(Ordering::Relaxed)
                < self.streams.min(pooled.state.peer_max_streams.load(Ordering::Relaxed))
        })?;
        Some(self.lease(free))
    }

    /// The number of open connections, as far as known.
    #[cfg(test)]
    pub(super) fn open_connections(&self) -> usize {
        self.lock().iter().filter(|pooled| !pooled.sender.is_closed()).count()
    }

    /// Performs the HTTP/2 handshake on a new connection and reserves its first stream.
    pub(crate) async fn handshake<S>(
        &self,
        stream: S,
        address: Option<ResolvedAddress>,
    ) -> Result<StreamLease<T>, SendFailure>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let last_received = LastReceived::new(self.timer.monotonic());
        let head_limit = u32::try_from(HEAD_LIMIT).unwrap_or(u32::MAX);
        let handshake = Builder::new(TokioTasks)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(head_limit)
            .handshake(TokioIo::new(ReceiveTracker {
                stream,
                timer: self.timer.clone(),
                last_received: last_received.clone(),
            }));
        let (sender, connection) =
            handshake.await.map_err(|error| SendFailure::Connect(io::Error::other(error)))?;
        let state = Arc::new(Http2ConnectionState {
            address,
            streams: AtomicUsize::new(0),
            peer_max_streams: AtomicUsize::new(connection.current_max_send_streams()),
            is_retired: AtomicBool::new(false),
            has_responded: AtomicBool::new(false),
            last_received,
            idle_since: AtomicU64::new(self.timer.monotonic().as_nanos()),
        });
        let watched = Arc::clone(&state);
        TokioTasks.spawn(async move {
            let mut connection = pin!(connection);
            poll_fn(|context| {
                let polled = connection.as_mut().poll(context).map(drop);
                watched.peer_max_streams.store(connection.current_max_send_streams(), Ordering::Relaxed);
                polled
            })
            .await;
        });
        let pooled = PooledConnection { sender, state };
        let lease = self.lease(&pooled);
        self.lock().push(pooled);
        Ok(lease)
    }

    fn lease(&self, pooled: &PooledConnection<T>) -> StreamLease<T> {
        pooled.state.streams.fetch_add(1, Ordering::Relaxed);
        StreamLease {
            sender: pooled.sender.clone(),
            state: Arc::clone(&pooled.state),
            timer: self.timer.clone(),
            began: self.timer.monotonic(),
            has_ended: false,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<PooledConnection<T>>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Http2ConnectionState {
    fn is_usable(&self, now: Timestamp, max_idle_age: Duration) -> bool {
        let idle_since = Timestamp::from_nanos(self.idle_since.load(Ordering::Relaxed));
        let is_idle = self.streams.load(Ordering::Relaxed) == 0;
        !self.is_retired.load(Ordering::Relaxed)
            && self.address.as_ref().is_none_or(ResolvedAddress::is_current)
            && !(is_idle && now - idle_since >= max_idle_age)
    }
}

impl<T: Timer> StreamLease<T> {
    /// Records that the peer ended the exchange.
    pub(super) const fn mark_ended(&mut self) {
        self.has_ended = true;
    }

    /// Whether the connection has carried a response before.
    pub(super) fn has_responded(&self) -> bool {
        self.state.has_responded.load(Ordering::Relaxed)
    }

    pub(super) fn mark_responded(&self) {
        self.state.has_responded.store(true, Ordering::Relaxed);
    }
}

impl<T: Timer> Drop for StreamLease<T> {
    fn drop(&mut self) {
        let now = self.timer.monotonic();
        let silent_since = self.began.max(self.state.last_received.get());
        if !self.has_ended && now - silent_since >= SUSPECT_AFTER {
            self.state.is_retired.store(true, Ordering::Relaxed);
        }
        self.state.idle_since.store(now.as_nanos(), Ordering::Relaxed);
        self.state.streams.fetch_sub(1, Ordering::Relaxed);
    }
}
