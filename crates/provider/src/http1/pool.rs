//! Pool of idle keep-alive connections.
//!
//! A pool belongs to one endpoint and, in the gateway, to one core: requests on other cores have pools of their own, so
//! its lock is uncontended. It is still safe to share.
//!
//! **When it acts.** A request takes the most recently used connection (LIFO), which is the least likely to have been
//! closed. One that the peer has closed, or on which unexpected data arrived, is dropped, and the next one is taken.
//! Each returned connection evicts those that are too old, and the oldest if there are too many.
//!
//! **What it does not do.** It does not limit the number of open connections: `in_flight` in `core` does. It opens none
//! in advance and has no background task: for an unused pool, [`Http1Pool::close_expired`] must be called periodically.

use super::connection::Connection;
use super::endpoint::{Connect, Endpoint, TcpConnect};
use super::timer::TokioTimer;
use seawall_core::runtime::Timer;
use seawall_core::time::Timestamp;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How many idle connections are kept, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolOptions {
    /// Maximum number of idle connections; 0 opens a connection for each request.
    pub max_idle: usize,
    /// A connection that was idle this long is not reused. Should be slightly less than the server's keep-alive
    /// timeout.
    pub max_idle_age: Duration,
}

impl Default for PoolOptions {
    /// 64 connections for 50 s: common load balancers close idle connections after 60 s.
    fn default() -> Self {
        Self { max_idle: 64, max_idle_age: Duration::from_secs(50) }
    }
}

/// The idle connections to one endpoint, and what is needed to open more. Clones share them.
pub struct Http1Pool<C: Connect = TcpConnect, T: Timer = TokioTimer> {
    shared: Arc<Shared<C, T>>,
}

struct Shared<C: Connect, T> {
    endpoint: Endpoint,
    connect: C,
    timer: T,
    options: PoolOptions,
    /// Most recently returned at the back.
    idle: Mutex<VecDeque<IdleConnection<C::Stream>>>,
}

struct IdleConnection<S> {
    connection: Connection<S>,
    since: Timestamp,
}

impl<C: Connect, T: Timer> Http1Pool<C, T> {
    /// An empty pool.
    #[must_use]
    pub fn new(endpoint: Endpoint, connect: C, timer: T, options: PoolOptions) -> Self {
        let idle = Mutex::new(VecDeque::new());
        Self { shared: Arc::new(Shared { endpoint, connect, timer, options, idle }) }
    }

    /// The server that its connections lead to.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.shared.endpoint
    }

    /// The number of idle connections, including those that are too old or were closed by the peer.
    #[must_use]
    pub fn idle(&self) -> usize {
        self.lock().len()
    }

    /// Closes connections that have been idle too long.
    pub fn close_expired(&self, now: Timestamp) {
        self.drop_expired(&mut self.lock(), now);
    }

    /// Closes every idle connection.
    pub fn close_all(&self) {
        self.lock().clear();
    }

    pub(super) fn connect(&self) -> &C {
        &self.shared.connect
    }

    pub(crate) fn timer(&self) -> &T {
        &self.shared.timer
    }

    /// The most recently returned connection that can still be used.
    pub(super) fn take(&self, now: Timestamp) -> Option<Connection<C::Stream>> {
        let mut idle = self.lock();
        while let Some(mut newest) = idle.pop_back() {
            if self.is_expired(&newest, now) {
                // All others were returned even earlier.
                idle.clear();
                return None;
            }
            if self.connect().is_current(&newest.connection.stream, now) && newest.connection.is_reusable() {
                return Some(newest.connection);
            }
        }
        None
    }

    /// Returns a connection that can carry another request.
    pub(super) fn release(&self, mut connection: Connection<C::Stream>) {
        if self.shared.options.max_idle == 0 {
            return;
        }
        connection.timeout_timer.release_waker();
        let now = self.timer().monotonic();
        if !self.connect().is_current(&connection.stream, now) {
            return;
        }
        let mut idle = self.lock();
        self.drop_expired(&mut idle, now);
        if idle.len() >= self.shared.options.max_idle {
            idle.pop_front();
        }
        idle.push_back(IdleConnection { connection, since: now });
    }

    fn drop_expired(&self, idle: &mut VecDeque<IdleConnection<C::Stream>>, now: Timestamp) {
        while idle.front().is_some_and(|oldest| self.is_expired(oldest, now)) {
            idle.pop_front();
        }
    }

    fn is_expired(&self, idle: &IdleConnection<C::Stream>, now: Timestamp) -> bool {
        now - idle.since >= self.shared.options.max_idle_age
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<IdleConnection<C::Stream>>> {
        // Safe after a panic: each change is a single push or pop.
        self.shared.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C: Connect, T: Timer> Clone for Http1Pool<C, T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}
