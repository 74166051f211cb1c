//! A bounded queue of what is to be sent elsewhere, and its delivery in the background.
//!
//! A call must not wait for, fail because of, or use unbounded memory for a sink that is down. Putting an item into the
//! queue never waits: when the queue is full, the item is dropped and counted. Delivery takes batches, sends them in
//! order, and keeps a batch until the sink has accepted it. At shutdown the rest is sent within a time limit.

use seawall_core::deadline::Deadline;
use seawall_core::runtime::{Runtime, timeout_at};
use std::collections::VecDeque;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// The first wait after a failed delivery, and the longest.
const MIN_RETRY_DELAY: Duration = Duration::from_secs(1);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(30);
/// The wait between deliveries that fail during shutdown.
const SHUTDOWN_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Why a batch was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SinkError {
    /// Whether the same batch may be accepted later. If not, it is dropped.
    pub is_temporary: bool,
    /// What went wrong.
    pub message: String,
}

/// What became of the items of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliveryReport {
    /// Items that the sink accepted.
    pub sent: u64,
    /// Items dropped because the queue was full.
    pub dropped: u64,
    /// Items that the sink refused for good, or that were left when the time at shutdown was up.
    pub lost: u64,
}

/// How items are gathered into batches, and how long shutdown may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeliverySettings {
    pub capacity: usize,
    pub max_batch: usize,
    pub max_delay: Duration,
    pub drain_timeout: Duration,
}

pub(crate) struct Outbox<T> {
    settings: DeliverySettings,
    queue: Mutex<VecDeque<T>>,
    changed: Notify,
    stopping: AtomicBool,
    sent: AtomicU64,
    dropped: AtomicU64,
    lost: AtomicU64,
}

impl<T: Clone + Send> Outbox<T> {
    pub(crate) fn new(settings: DeliverySettings) -> Arc<Self> {
        Arc::new(Self {
            settings,
            queue: Mutex::default(),
            changed: Notify::new(),
            stopping: AtomicBool::new(false),
            sent: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            lost: AtomicU64::new(0),
        })
    }

    /// Puts an item into the queue, or drops it if the queue is full.
    pub(crate) fn push(&self, item: T) {
        let mut queue = self.queue();
        if queue.len() >= self.settings.capacity {
            drop(queue);
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        queue.push_back(item);
        drop(queue);
        self.changed.notify_one();
    }

    /// The items that wait.
    pub(crate) fn len(&self) -> usize {
        self.queue().len()
    }

    /// Ends [`Outbox::deliver`] once the rest has been sent.
    pub(crate) fn shut_down(&self) {
        self.stopping.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    pub(crate) fn report(&self) -> DeliveryReport {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        DeliveryReport { sent: read(&self.sent), dropped: read(&self.dropped), lost: read(&self.lost) }
    }

    /// Delivers until shutdown. Run it once per queue.
    pub(crate) async fn deliver<R, F>(&self, runtime: &R, send: impl Fn(Vec<T>) -> F)
    where
        R: Runtime,
        F: Future<Output = Result<(), SinkError>>,
    {
        let mut retry_delay = MIN_RETRY_DELAY;
        while !self.is_stopping() {
            let batch = self.next_batch(runtime).await;
            if batch.is_empty() {
                continue;
            }
            loop {
                match send(batch.clone()).await {
                    Ok(()) => {
                        self.count_sent(batch.len());
                        break;
                    }
                    Err(error) if !error.is_temporary => {
                        self.count_lost(batch.len());
                        break;
                    }
                    Err(_) => self.pause(runtime, retry_delay).await,
                }
                retry_delay = (retry_delay * 2).min(MAX_RETRY_DELAY);
                if self.is_stopping() {
                    return self.drain(runtime, batch, send).await;
                }
            }
            retry_delay = MIN_RETRY_DELAY;
        }
        self.drain(runtime, Vec::new(), send).await;
    }

    /// Sends `batch` and what is queued, until the time is up.
    async fn drain<R, F>(&self, runtime: &R, mut batch: Vec<T>, send: impl Fn(Vec<T>) -> F)
    where
        R: Runtime,
        F: Future<Output = Result<(), SinkError>>,
    {
        let deadline = Deadline::after(runtime.monotonic(), self.settings.drain_timeout);
        loop {
            if batch.is_empty() {
                batch = self.take_batch();
            }
            if batch.is_empty() {
                return;
            }
            match timeout_at(runtime, deadline, send(batch.clone())).await {
                Some(Ok(())) => self.count_sent(std::mem::take(&mut batch).len()),
                Some(Err(error)) if !error.is_temporary => {
                    self.count_lost(std::mem::take(&mut batch).len());
                }
                Some(Err(_)) if !deadline.has_passed(runtime.monotonic()) => {
                    runtime.sleep_until(runtime.monotonic() + SHUTDOWN_RETRY_DELAY).await;
                }
                _ => {
                    let rest = std::mem::take(&mut *self.queue());
                    self.count_lost(batch.len() + rest.len());
                    return;
                }
            }
        }
    }

    /// A full batch, or what has gathered within the delay of its first item. Empty at shutdown.
    async fn next_batch<R: Runtime>(&self, runtime: &R) -> Vec<T> {
        let mut deadline = Deadline::NEVER;
        loop {
            let changed = self.changed.notified();
            let waiting = self.len();
            if self.is_stopping() {
                return Vec::new();
            }
            if waiting >= self.settings.max_batch
                || (waiting > 0 && deadline.has_passed(runtime.monotonic()))
            {
                return self.take_batch();
            }
            if waiting > 0 && deadline == Deadline::NEVER {
                deadline = Deadline::after(runtime.monotonic(), self.settings.max_delay);
            }
            let _ = timeout_at(runtime, deadline, changed).await;
        }
    }

    fn take_batch(&self) -> Vec<T> {
        let mut queue = self.queue();
        let count = queue.len().min(self.settings.max_batch);
        queue.drain(..count).collect()
    }

    /// Waits, but not beyond the beginning of shutdown.
    async fn pause<R: Runtime>(&self, runtime: &R, wait: Duration) {
        let deadline = Deadline::after(runtime.monotonic(), wait);
        while !self.is_stopping() && !deadline.has_passed(runtime.monotonic()) {
            let _ = timeout_at(runtime, deadline, self.changed.notified()).await;
        }
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    fn count_sent(&self, items: usize) {
        self.sent.fetch_add(items as u64, Ordering::Relaxed);
    }

    fn count_lost(&self, items: usize) {
        self.lost.fetch_add(items as u64, Ordering::Relaxed);
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<T>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
