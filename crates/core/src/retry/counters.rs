//! What all requests' tries came to.

use super::{RetryEvent, StopReason};
use crate::failure::FailureKind;
use crate::histogram::Histogram;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Counters that every request adds to without a lock.
#[derive(Debug)]
pub struct RetryCounters {
    attempts: AtomicU64,
    retries: AtomicU64,
    failovers: AtomicU64,
    successes: AtomicU64,
    failures: AtomicU64,
    stops: [AtomicU64; StopReason::ALL.len()],
    /// The last failure's place in [`FailureKind::ALL`], from one; zero is none.
    last_failure: AtomicUsize,
    retried_for: Histogram,
}

/// The counters at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct RetrySnapshot {
    /// Attempts made.
    pub attempts: u64,
    /// Of these, repeated on the same target.
    pub retries: u64,
    /// Of these, made on another target after the first.
    pub failovers: u64,
    /// Requests that were answered.
    pub successes: u64,
    /// Requests that were given up.
    pub failures: u64,
    /// Times a retry was not made because the breaker blocked it.
    pub breaker_stops: u64,
    /// The share of requests that were answered; none before the first.
    pub success_rate: Option<f64>,
    /// Mean time from the first failure to the end, of requests that were tried more than once.
    pub mean_retried_for: Option<Duration>,
    /// The 99th percentile of the same, to within an eighth.
    pub p99_retried_for: Option<Duration>,
    /// How the last failed attempt failed.
    pub last_failure: Option<FailureKind>,
}

impl RetryCounters {
    /// All zero.
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

    /// Counts a failed attempt and what was decided about it.
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

    /// Counts a request that was answered; `retried_for` is the time since its first failure, if there was one.
    pub fn request_succeeded(&self, retried_for: Option<Duration>) {
        add(&self.attempts);
        add(&self.successes);
        if let Some(retried_for) = retried_for {
            self.retried_for.record(retried_for);
        }
    }

    /// Adds the time a request spent since its first failure before it was given up.
    pub fn request_gave_up(&self, retried_for: Duration) {
        self.retried_for.record(retried_for);
    }

    /// How often a target was not tried again for this reason.
    #[must_use]
    pub fn stops(&self, reason: StopReason) -> u64 {
        self.stops[reason.index()].load(Ordering::Relaxed)
    }

    /// All counters. Each is exact; together they may be a moment apart.
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
