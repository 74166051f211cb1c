//! Connection pool of one server, with stream accounting per connection.

use super::heard::{HeardLine, LastHeard};
use super::outgoing::Outgoing;
use crate::http1::{HEAD_LIMIT, PoolOptions, SendFailure};
use crate::tasks::TokioTasks;
use crate::way::Place;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use seawall_core::handle::Timer;
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
pub(crate) struct Pool<T> {
    connections: Mutex<Vec<Kept<T>>>,
    /// Held while a connection is opened, so that concurrent requests open a single one.
    pub(crate) opening: tokio::sync::Mutex<()>,
    timer: T,
    /// Maximum number of streams per connection, regardless of the peer's limit.
    streams: usize,
    max_idle_age: Duration,
}

struct Kept<T> {
    sender: SendRequest<Outgoing<T>>,
    state: Arc<State>,
}

struct State {
    place: Option<Place>,
    streams: AtomicUsize,
    /// The peer's limit of concurrent streams.
    peer_takes: AtomicUsize,
    /// Gets no further requests.
    is_retired: AtomicBool,
    has_answered: AtomicBool,
    heard: LastHeard,
    /// When the last stream ended, in nanoseconds.
    idle_since: AtomicU64,
}

/// A stream reserved for a request. Dropping it releases the stream.
pub(crate) struct Lease<T: Timer> {
    pub(super) sender: SendRequest<Outgoing<T>>,
    state: Arc<State>,
    pub(super) timer: T,
    began: Timestamp,
    /// Whether the peer ended the exchange, successfully or not.
    has_ended: bool,
}

impl<T: Timer + Unpin> Pool<T> {
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
    pub(crate) fn take(&self, now: Timestamp) -> Option<Lease<T>> {
        let mut connections = self.lock();
        connections.retain(|kept| !kept.sender.is_closed() && kept.state.may_be_used(now, self.max_idle_age));
        let free = connections.iter().find(|kept| {
            kept.state.streams.load(Ordering::Relaxed)
                < self.streams.min(kept.state.peer_takes.load(Ordering::Relaxed))
        })?;
        Some(self.lease(free))
    }

    /// The number of open connections, as far as known.
    #[cfg(test)]
    pub(super) fn open(&self) -> usize {
        self.lock().iter().filter(|kept| !kept.sender.is_closed()).count()
    }

    /// Performs the HTTP/2 handshake on a new connection and reserves its first stream.
    pub(crate) async fn begin<S>(&self, stream: S, place: Option<Place>) -> Result<Lease<T>, SendFailure>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let heard = LastHeard::new(self.timer.monotonic());
        let head_limit = u32::try_from(HEAD_LIMIT).unwrap_or(u32::MAX);
        let handshake = Builder::new(TokioTasks)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(head_limit)
            .handshake(TokioIo::new(HeardLine { stream, timer: self.timer.clone(), heard: heard.clone() }));
        let (sender, connection) =
            handshake.await.map_err(|error| SendFailure::Connect(io::Error::other(error)))?;
        let state = Arc::new(State {
            place,
            streams: AtomicUsize::new(0),
            peer_takes: AtomicUsize::new(connection.current_max_send_streams()),
            is_retired: AtomicBool::new(false),
            has_answered: AtomicBool::new(false),
            heard,
            idle_since: AtomicU64::new(self.timer.monotonic().as_nanos()),
        });
        let watched = Arc::clone(&state);
        TokioTasks.start(async move {
            let mut connection = pin!(connection);
            poll_fn(|wake| {
                let polled = connection.as_mut().poll(wake).map(drop);
                watched.peer_takes.store(connection.current_max_send_streams(), Ordering::Relaxed);
                polled
            })
            .await;
        });
        let kept = Kept { sender, state };
        let lease = self.lease(&kept);
        self.lock().push(kept);
        Ok(lease)
    }

    fn lease(&self, kept: &Kept<T>) -> Lease<T> {
        kept.state.streams.fetch_add(1, Ordering::Relaxed);
        Lease {
            sender: kept.sender.clone(),
            state: Arc::clone(&kept.state),
            timer: self.timer.clone(),
            began: self.timer.monotonic(),
            has_ended: false,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Kept<T>>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn may_be_used(&self, now: Timestamp, max_idle_age: Duration) -> bool {
        let idle_since = Timestamp::from_nanos(self.idle_since.load(Ordering::Relaxed));
        let is_idle = self.streams.load(Ordering::Relaxed) == 0;
        !self.is_retired.load(Ordering::Relaxed)
            && self.place.as_ref().is_none_or(Place::is_current)
            && !(is_idle && now - idle_since >= max_idle_age)
    }
}

impl<T: Timer> Lease<T> {
    /// Records that the peer ended the exchange.
    pub(super) const fn ended(&mut self) {
        self.has_ended = true;
    }

    /// Whether the connection has carried a response before.
    pub(super) fn has_answered(&self) -> bool {
        self.state.has_answered.load(Ordering::Relaxed)
    }

    pub(super) fn answered(&self) {
        self.state.has_answered.store(true, Ordering::Relaxed);
    }
}

impl<T: Timer> Drop for Lease<T> {
    fn drop(&mut self) {
        let now = self.timer.monotonic();
        let silent_since = self.began.max(self.state.heard.moment());
        if !self.has_ended && now - silent_since >= SUSPECT_AFTER {
            self.state.is_retired.store(true, Ordering::Relaxed);
        }
        self.state.idle_since.store(now.as_nanos(), Ordering::Relaxed);
        self.state.streams.fetch_sub(1, Ordering::Relaxed);
    }
}
