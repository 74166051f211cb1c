//! Retry counters over all requests.

use super::{RetryEvent, StopReason};
use crate::failure::FailureKind;
use crate::histogram::Histogram;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Lock-free counters shared by all requests.
#[derive(Debug)]
pub struct RetryCounters {
    attempts: AtomicU64,
    retries: AtomicU64,
    failovers: AtomicU64,
    successes: AtomicU64,
    failures: AtomicU64,
    stops: [AtomicU64; StopReason::ALL.len()],
    /// The index of the last failure in [`FailureKind::ALL`] plus one; zero is none.
    last_failure: AtomicUsize,
    retried_for: Histogram,
}

/// A snapshot of the counters.
#[derive(Clone, Debug, PartialEq)]
pub struct RetrySnapshot {
    /// Attempts made.
    pub attempts: u64,
    /// Attempts that were retries on the same target.
    pub retries: u64,
    /// Attempts that were failovers to another target.
    pub failovers: u64,
    /// Requests that succeeded.
    pub successes: u64,
    /// Requests that gave up.
    pub failures: u64,
    /// Retries that were not made because the breaker blocked them.
    pub breaker_stops: u64,
    /// The share of requests that succeeded; `None` before the first.
    pub success_rate: Option<f64>,
    /// Mean time from the first failure to the end, over requests with more than one attempt.
    pub mean_retried_for: Option<Duration>,
    /// The p99 of the same, to within an eighth.
    pub p99_retried_for: Option<Duration>,
    /// The kind of the last failed attempt.
    pub last_failure: Option<FailureKind>,
}

impl RetryCounters {
    /// Creates the counters at zero.
    #[must_use]
    pub fn new() -> Self {
        Self {
            attempts: AtomicU64::new(0),
            retries: AtomicU64::new(0),
            failovers: AtomicU64::new(0),
            successes: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            stops: std::array::from_fn(|_| AtomicU64::new(0)),
            last_failure: AtomicUsize::new(0),
            retried_for: Histogram::new(),
        }
    }

    /// Counts a failed attempt and the decision on it.
    pub fn attempt_failed(&self, event: &RetryEvent) {
        add(&self.attempts);
        let position = FailureKind::ALL.iter().position(|kind| *kind == event.kind);
        self.last_failure.store(position.map_or(0, |position| position + 1), Ordering::Relaxed);
        if let Some(reason) = event.stopped {
            add(&self.stops[reason.index()]);
            add(if event.fails_over { &self.failovers } else { &self.failures });
        } else {
            add(&self.retries);
        }
    }

    /// Counts a request that succeeded; `retried_for` is the time since its first failure, if there was one.
    pub fn request_succeeded(&self, retried_for: Option<Duration>) {
        add(&self.attempts);
        add(&self.successes);
        if let Some(retried_for) = retried_for {
            self.retried_for.record(retried_for);
        }
    }

    /// Records the time from a request's first failure until it gave up.
    pub fn request_gave_up(&self, retried_for: Duration) {
        self.retried_for.record(retried_for);
    }

    /// How often a retry was not made for this reason.
    #[must_use]
    pub fn stops(&self, reason: StopReason) -> u64 {
        self.stops[reason.index()].load(Ordering::Relaxed)
    }

    /// All counters. Each is exact, but they are not read atomically together.
    #[must_use]
    pub fn snapshot(&self) -> RetrySnapshot {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (successes, failures) = (read(&self.successes), read(&self.failures));
        let requests = successes.saturating_add(failures);
        let last_failure = self.last_failure.load(Ordering::Relaxed).checked_sub(1);
        RetrySnapshot {
            attempts: read(&self.attempts),
            retries: read(&self.retries),
            failovers: read(&self.failovers),
            successes,
            failures,
            breaker_stops: self.stops(StopReason::BreakerOpen),
            success_rate: (requests > 0).then(|| successes as f64 / requests as f64),
            mean_retried_for: self.retried_for.mean(),
            p99_retried_for: self.retried_for.quantile(0.99),
            last_failure: last_failure.and_then(|position| FailureKind::ALL.get(position).copied()),
        }
    }
}

impl Default for RetryCounters {
    fn default() -> Self {
        Self::new()
    }
}

fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
