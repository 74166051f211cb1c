//! Rate buckets by account and region, and waiting for them.
//!
//! AWS counts calls per account and region, so that is the key of a bucket: two accounts do not slow each other down, and
//! all clients of one account and region share one bucket. The bucket itself is [`seawall_core::waiting`]: first come,
//! first served, never in debt. This module adds the waiting: a caller sleeps until its turn on the runtime's timer, and
//! leaves the queue when it is dropped.

use crate::shared_bucket::{SharedBucket, SharedBucketDecision};
use seawall_core::deadline::Deadline;
use seawall_core::runtime::{Runtime, timeout_at};
use seawall_core::time::Timestamp;
use seawall_core::waiting::{
    BucketConflict, Grant, Ticket, WaitingAcquireDecision, WaitingBucket, WaitingBuckets, WaitingPollDecision,
    WaitingSettings,
};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// The account and region whose calls a bucket counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BucketKey {
    account: Arc<str>,
    region: Arc<str>,
}

impl BucketKey {
    /// The key of this account and region.
    #[must_use]
    pub fn new(account: &str, region: &str) -> Self {
        Self { account: account.into(), region: region.into() }
    }

    /// The account.
    #[must_use]
    pub fn account(&self) -> &str {
        &self.account
    }

    /// The region.
    #[must_use]
    pub fn region(&self) -> &str {
        &self.region
    }
}

impl fmt::Display for BucketKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "account {}, region {}", self.account, self.region)
    }
}

/// All buckets of a process. Clones share the same buckets; make one and pass it to every client.
///
/// ```
/// use seawall_core::waiting::WaitingSettings;
/// use seawall_drs::{BucketKey, RateBuckets, SystemRuntime};
/// use std::time::Duration;
///
/// let buckets = RateBuckets::new(SystemRuntime::new());
/// let tokyo = BucketKey::new("123456789012", "ap-northeast-1");
/// let bucket = buckets.bucket(tokyo.clone(), WaitingSettings::recovery_api())?;
/// assert_eq!(bucket.available(), 20);
/// assert!(bucket.try_acquire().is_some());
///
/// // A second client cannot silently change the rate of the first.
/// let faster = WaitingSettings::new(50, Duration::from_secs(1), 100)?;
/// assert!(buckets.bucket(tokyo, faster).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct RateBuckets<R> {
    runtime: R,
    buckets: Arc<Mutex<WaitingBuckets<BucketKey>>>,
    /// Signals that somebody left a queue or returned a token, so that waiters may move up.
    moved_up: Arc<Notify>,
    shared: Option<Arc<dyn SharedBucket>>,
    shared_failures: Arc<AtomicU64>,
}

impl<R: Runtime> RateBuckets<R> {
    /// Creates an empty set of buckets, for this process alone.
    #[must_use]
    pub fn new(runtime: R) -> Self {
        Self {
            runtime,
            buckets: Arc::default(),
            moved_up: Arc::default(),
            shared: None,
            shared_failures: Arc::default(),
        }
    }

    /// The same, with a bucket behind it that several processes share.
    ///
    /// Every call then needs a token of both. While the shared bucket cannot be reached, the local one alone decides;
    /// [`RateBuckets::shared_failures`] counts how often.
    #[must_use]
    pub fn with_shared(self, shared: Arc<dyn SharedBucket>) -> Self {
        Self { shared: Some(shared), ..self }
    }

    /// The bucket of `key`, created full on first use. Fails if it exists with other settings.
    pub fn bucket(&self, key: BucketKey, settings: WaitingSettings) -> Result<RateBucket<R>, BucketConflict> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        buckets.get_or_create(key.clone(), settings, self.runtime.monotonic())?;
        Ok(RateBucket { buckets: self.clone(), key, settings })
    }

    /// How often the shared bucket could not be reached.
    #[must_use]
    pub fn shared_failures(&self) -> u64 {
        self.shared_failures.load(Ordering::Relaxed)
    }
}

/// The bucket of one account and region. Clones share it.
#[derive(Clone)]
pub struct RateBucket<R> {
    buckets: RateBuckets<R>,
    key: BucketKey,
    settings: WaitingSettings,
}

/// No token could be had in time. Nothing was consumed and nothing was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no rate token within {timeout:?}: the next one is free in {would_wait:?}")]
pub struct RateWaitTimeout {
    /// How long the caller was willing to wait.
    pub timeout: Duration,
    /// How long it would have had to wait.
    pub would_wait: Duration,
}

/// The right to make one call. Dropping it spends the token; [`RatePermit::refund`] returns it.
#[must_use = "a permit is spent when it is dropped; refund it if no call was made"]
pub struct RatePermit<R: Runtime> {
    bucket: RateBucket<R>,
    grant: Grant,
}

impl<R: Runtime> RatePermit<R> {
    /// Returns the token because no call was made. The bucket never exceeds its capacity.
    ///
    /// A token of the shared bucket is not returned: other processes have already been scheduled behind it.
    pub fn refund(self) {
        let Self { bucket, grant } = self;
        bucket.with(|waiting, now| waiting.refund(grant, now));
        bucket.buckets.moved_up.notify_waiters();
    }
}

/// A position in the queue, left when dropped.
struct QueuedTicket<'a, R: Runtime> {
    bucket: &'a RateBucket<R>,
    ticket: Option<Ticket>,
}

impl<R: Runtime> Drop for QueuedTicket<'_, R> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.bucket.with(|waiting, now| waiting.cancel(ticket, now));
            self.bucket.buckets.moved_up.notify_waiters();
        }
    }
}

impl<R: Runtime> RateBucket<R> {
    /// The account and region.
    #[must_use]
    pub const fn key(&self) -> &BucketKey {
        &self.key
    }

    /// Takes a token, waiting in line for at most `timeout`.
    ///
    /// A turn is known in advance, so a caller that would have to wait longer is refused at once.
    pub async fn acquire(&self, timeout: Duration) -> Result<RatePermit<R>, RateWaitTimeout> {
        let started = self.buckets.runtime.monotonic();
        let permit = self.acquire_local(started, timeout).await?;
        let Some(shared) = &self.buckets.shared else { return Ok(permit) };
        let left = (started + timeout) - self.buckets.runtime.monotonic();
        match shared.reserve(&self.key, self.settings, left).await {
            Ok(SharedBucketDecision::Granted { wait }) => {
                let runtime = &self.buckets.runtime;
                runtime.sleep_until(runtime.monotonic() + wait).await;
                Ok(permit)
            }
            Ok(SharedBucketDecision::Refused { would_wait }) => {
                permit.refund();
                Err(RateWaitTimeout { timeout, would_wait })
            }
            Err(_) => {
                self.buckets.shared_failures.fetch_add(1, Ordering::Relaxed);
                Ok(permit)
            }
        }
    }

    async fn acquire_local(
        &self,
        started: Timestamp,
        timeout: Duration,
    ) -> Result<RatePermit<R>, RateWaitTimeout> {
        let give_up_at = started + timeout;
        let (ticket, mut until) = match self.with(|waiting, now| waiting.acquire(now, 1, give_up_at)) {
            WaitingAcquireDecision::Granted(grant) => return Ok(self.permit(grant)),
            WaitingAcquireDecision::Wait { ticket, until } => (ticket, until),
            WaitingAcquireDecision::Refused { would_wait_until } => {
                return Err(RateWaitTimeout { timeout, would_wait: would_wait_until - started });
            }
            // One token is never more than a capacity of at least one.
            WaitingAcquireDecision::TooLarge => {
                return Err(RateWaitTimeout { timeout, would_wait: Duration::MAX });
            }
        };
        let mut queued = QueuedTicket { bucket: self, ticket: Some(ticket) };
        loop {
            // Registered before the poll, so that no departure is missed in between.
            let moved_up = self.buckets.moved_up.notified();
            match self.with(|waiting, now| waiting.poll(ticket, now)) {
                WaitingPollDecision::Ready(grant) => {
                    queued.ticket = None;
                    return Ok(self.permit(grant));
                }
                WaitingPollDecision::Wait { until: later } => until = later,
                WaitingPollDecision::Unknown => {
                    queued.ticket = None;
                    return Err(RateWaitTimeout { timeout, would_wait: until - started });
                }
            }
            let _ = timeout_at(&self.buckets.runtime, Deadline::at(until), moved_up).await;
        }
    }

    /// Takes a token if one is free at once and nobody waits. The shared bucket is not asked.
    pub fn try_acquire(&self) -> Option<RatePermit<R>> {
        match self.with(|waiting, now| waiting.try_acquire(now, 1)) {
            WaitingAcquireDecision::Granted(grant) => Some(self.permit(grant)),
            _ => None,
        }
    }

    /// The tokens that a new caller could take now.
    #[must_use]
    pub fn available(&self) -> u64 {
        self.with(|waiting, now| waiting.available(now))
    }

    /// The tokens taken so far, less refunds.
    #[must_use]
    pub fn consumed(&self) -> u64 {
        self.with(|waiting, _| waiting.consumed())
    }

    const fn permit_of(bucket: Self, grant: Grant) -> RatePermit<R> {
        RatePermit { bucket, grant }
    }

    fn permit(&self, grant: Grant) -> RatePermit<R> {
        Self::permit_of(self.clone(), grant)
    }

    fn with<T>(&self, use_bucket: impl FnOnce(&mut WaitingBucket, Timestamp) -> T) -> T {
        let now = self.buckets.runtime.monotonic();
        let mut buckets = self.buckets.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        match buckets.get_mut(&self.key) {
            Some(bucket) => use_bucket(bucket, now),
            // Buckets are never removed, so this one was created together with the handle.
            None => use_bucket(&mut WaitingBucket::new(self.settings, now), now),
        }
    }
}

impl<R> fmt::Debug for RateBucket<R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RateBucket").field("key", &self.key).field("settings", &self.settings).finish()
    }
}
