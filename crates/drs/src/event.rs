//! What a guard reports about its calls.

use seawall_core::failure::Failure;
use seawall_core::retry::StopReason;
use seawall_core::time::UtcTime;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

/// What a call is about; part of every metric and log line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallLabels {
    /// The operation, in the notation of the SDK: `describe_jobs`.
    pub operation: Cow<'static, str>,
    /// The region.
    pub region: Arc<str>,
    /// The account.
    pub account: Arc<str>,
    /// What connects the lines of one call.
    pub correlation_id: Arc<str>,
}

/// An error as events carry it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventError {
    /// The vendor's code, or our word for a failure without one.
    pub code: String,
    /// The vendor's message.
    pub message: String,
    /// What the failure means for retries.
    pub failure: Failure,
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq)]
pub enum GuardEventKind {
    /// An attempt succeeded. The first attempt has number 1.
    AttemptSucceeded {
        /// The number of the attempt.
        attempt: u32,
    },
    /// An attempt failed.
    AttemptFailed {
        /// The number of the attempt.
        attempt: u32,
        /// Its error.
        error: EventError,
        /// The wait before the next attempt; `None` if there is none.
        retry_after: Option<Duration>,
    },
    /// A caller has waited for a rate token for longer than a moment, and still waits. Reported once for each attempt.
    TokenAwaited {
        /// How long it has waited so far.
        waited: Duration,
        /// How long it will wait at most.
        timeout: Duration,
    },
    /// No rate token was free in time; the API was not called.
    TokenTimeout {
        /// The attempts made before.
        attempts: u32,
        /// How long the caller was willing to wait.
        timeout: Duration,
        /// How long it would have had to wait.
        would_wait: Duration,
    },
    /// The call failed for good with an error that is worth a retry.
    Exhausted {
        /// The attempts made.
        attempts: u32,
        /// The last error.
        error: EventError,
        /// Why there was no further attempt.
        stopped: StopReason,
    },
    /// A job that an unclear failure might have started was looked up.
    JobLookedUp {
        /// The job, if it exists.
        job_id: Option<String>,
    },
    /// A caller waits for job capacity.
    CapacityAwaited {
        /// The active jobs, reservations included.
        current_jobs: u32,
        /// The limit of the service.
        max_jobs: u32,
        /// The wait until the next look.
        next_poll: Duration,
    },
    /// There is room for a job.
    CapacityAvailable {
        /// The active jobs, reservations included.
        current_jobs: u32,
        /// The limit of the service.
        max_jobs: u32,
        /// How long the caller waited.
        waited: Duration,
    },
    /// There was no room for a job in time.
    CapacityTimedOut {
        /// The active jobs, reservations included.
        current_jobs: u32,
        /// The limit of the service.
        max_jobs: u32,
        /// How long the caller waited.
        waited: Duration,
    },
    /// The jobs could not be counted, and the job is started all the same. This is an alarm.
    CapacityUnknown {
        /// Why.
        reason: String,
    },
}

/// One thing that happened, when, and to which call.
#[derive(Clone, Debug, PartialEq)]
pub struct GuardEvent {
    /// When.
    pub at: UtcTime,
    /// To which call.
    pub labels: CallLabels,
    /// What.
    pub kind: GuardEventKind,
}

/// Receives events on the thread of the call. It must not block and cannot change the call.
pub trait GuardObserver: Send + Sync {
    /// Receives one event.
    fn observe(&self, event: &GuardEvent);
}

/// Observes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NullObserver;

impl GuardObserver for NullObserver {
    fn observe(&self, _: &GuardEvent) {}
}

/// Passes every event on to several observers, in order.
pub struct ObserverList(pub Vec<Arc<dyn GuardObserver>>);

impl GuardObserver for ObserverList {
    fn observe(&self, event: &GuardEvent) {
        for observer in &self.0 {
            observer.observe(event);
        }
    }
}
