//! The job throttler: waits until the service has room for another job.
//!
//! DRS runs at most twenty jobs at once in an account and region and refuses more. The throttler counts the active jobs
//! (PENDING or STARTED) before a job is started, and waits while there are eighteen or more.
//!
//! **Reservations.** Between the count and the start of a job another caller may count as well. A caller that is let
//! through therefore holds a [`JobSlot`], which counts as an active job until it is dropped, after the job has been
//! started. A count that was under way at that moment still counts the slot, because it may have missed the job.
//!
//! **Failing open.** If the jobs cannot be counted, the job is started all the same: the service has its own limit, and
//! a recovery must not depend on a listing. The event is an alarm.

use crate::event::{CallLabels, GuardEvent, GuardEventKind, GuardObserver};
use seawall_core::deadline::Deadline;
use seawall_core::runtime::{Runtime, timeout_at};
use seawall_core::setting::SettingError;
use seawall_core::time::Timestamp;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The concurrent jobs that the service allows in an account and region.
pub const MAX_CONCURRENT_JOBS: u32 = 20;

/// How long the last count may take beyond the time-out.
const FINAL_COUNT_GRACE: Duration = Duration::from_secs(1);

/// When to wait for room, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThrottlerSettings {
    /// From this many active jobs on, a caller waits. Zero never lets a job start.
    pub threshold: u32,
    /// The wait between two counts. Zero counts again at once, at the pace of the rate bucket.
    pub poll_interval: Duration,
    /// How long a caller waits. Zero does not wait.
    pub timeout: Duration,
}

impl Default for ThrottlerSettings {
    fn default() -> Self {
        Self { threshold: 18, poll_interval: Duration::from_secs(30), timeout: Duration::from_secs(600) }
    }
}

impl ThrottlerSettings {
    /// Reads JOB_THROTTLE_THRESHOLD, JOB_POLL_INTERVAL and JOB_THROTTLE_TIMEOUT; the last two are seconds. A variable
    /// that is not set keeps its default; zero is a value.
    ///
    /// ```
    /// use seawall_drs::ThrottlerSettings;
    /// use std::time::Duration;
    ///
    /// let settings = ThrottlerSettings::from_variables(|name| {
    ///     (name == "JOB_THROTTLE_TIMEOUT").then(|| "0".to_owned())
    /// })?;
    /// assert_eq!((settings.threshold, settings.timeout), (18, Duration::ZERO));
    /// # Ok::<(), seawall_core::setting::SettingError>(())
    /// ```
    pub fn from_variables(variable: impl Fn(&'static str) -> Option<String>) -> Result<Self, SettingError> {
        let read = |name: &'static str| match variable(name) {
            None => Ok(None),
            Some(text) => text.trim().parse::<u32>().map(Some).map_err(|_| {
                SettingError::new(name, format!("{text:?} is not a whole number from 0 to {}", u32::MAX))
            }),
        };
        let seconds = |number: u32| Duration::from_secs(u64::from(number));
        let default = Self::default();
        let settings = Self {
            threshold: read("JOB_THROTTLE_THRESHOLD")?.unwrap_or(default.threshold),
            poll_interval: read("JOB_POLL_INTERVAL")?.map_or(default.poll_interval, seconds),
            timeout: read("JOB_THROTTLE_TIMEOUT")?.map_or(default.timeout, seconds),
        };
        if settings.threshold > MAX_CONCURRENT_JOBS {
            let problem = format!(
                "{} is more than {MAX_CONCURRENT_JOBS}, the jobs that the service allows",
                settings.threshold
            );
            return Err(SettingError::new("JOB_THROTTLE_THRESHOLD", problem));
        }
        Ok(settings)
    }
}

/// The jobs of an account and region, and the room for more.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JobCapacity {
    /// The active jobs, reservations included.
    pub current_jobs: u32,
    /// The limit of the service.
    pub max_jobs: u32,
    /// The jobs that the service would still accept.
    pub available_slots: u32,
    /// Whether a new job has to wait.
    pub throttling_active: bool,
    /// Whether the service would refuse a new job.
    pub at_capacity: bool,
}

/// What the throttler found when it let a caller through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum CapacityStatus {
    /// There is room.
    #[serde(rename = "CAPACITY_AVAILABLE")]
    Available,
    /// The jobs could not be counted.
    #[serde(rename = "CAPACITY_UNKNOWN")]
    Unknown,
}

/// How a wait for capacity ended.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CapacityGrant {
    /// `CAPACITY_AVAILABLE`, or `CAPACITY_UNKNOWN` if the jobs could not be counted.
    pub status: CapacityStatus,
    /// The active jobs before this one, reservations included; `None` if they could not be counted.
    pub current_jobs: Option<u32>,
    /// The limit of the service.
    pub max_jobs: u32,
    /// How long the caller waited, in seconds.
    #[serde(serialize_with = "in_seconds")]
    pub wait_time: Duration,
}

fn in_seconds<S: serde::Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64())
}

/// There was no room for a job in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no capacity for another job after {} s: {current_jobs} of {max_jobs} jobs are active; \
     wait for jobs to complete, or raise JOB_THROTTLE_TIMEOUT",
    waited.as_secs()
)]
pub struct CapacityTimeout {
    /// The active jobs, reservations included.
    pub current_jobs: u32,
    /// The limit of the service.
    pub max_jobs: u32,
    /// How long the caller waited.
    pub waited: Duration,
}

/// The body of a response for [`CapacityTimeout`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CapacityTimeoutBody {
    /// `JOB_CAPACITY_TIMEOUT`.
    pub error: &'static str,
    /// What happened, in words.
    pub message: String,
    /// The active jobs.
    pub current_jobs: u32,
}

impl CapacityTimeout {
    /// The HTTP status for it: the caller should come back later.
    pub const STATUS: u16 = 429;

    /// The response body for it.
    #[must_use]
    pub fn body(&self) -> CapacityTimeoutBody {
        CapacityTimeoutBody {
            error: "JOB_CAPACITY_TIMEOUT",
            message: self.to_string(),
            current_jobs: self.current_jobs,
        }
    }
}

#[derive(Debug, Default)]
struct SlotTable {
    next_number: u64,
    /// The slots in use, by number.
    held: BTreeSet<u64>,
    /// The counts under way, by number; a slot released during a count stays counted for it.
    counting: BTreeMap<u64, u32>,
}

impl SlotTable {
    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    fn held(&self) -> u32 {
        u32::try_from(self.held.len()).unwrap_or(u32::MAX)
    }
}

/// The throttler of one account and region. Clones share the reservations; use one for all callers of a process.
#[derive(Clone)]
pub struct JobThrottler<R> {
    runtime: R,
    settings: ThrottlerSettings,
    slots: Arc<Mutex<SlotTable>>,
    observer: Arc<dyn GuardObserver>,
}

/// A reserved job: counts as active until it is dropped.
#[derive(Debug)]
#[must_use = "the reservation ends when it is dropped: hold it until the job has been started"]
pub struct JobSlot {
    slots: Arc<Mutex<SlotTable>>,
    number: u64,
}

impl Drop for JobSlot {
    fn drop(&mut self) {
        let mut slots = lock(&self.slots);
        slots.held.remove(&self.number);
        for missed in slots.counting.values_mut() {
            *missed = missed.saturating_add(1);
        }
    }
}

/// A count that is under way. Dropped when it ends or is cancelled.
struct CountInProgress<'a> {
    slots: &'a Mutex<SlotTable>,
    number: u64,
}

impl Drop for CountInProgress<'_> {
    fn drop(&mut self) {
        lock(self.slots).counting.remove(&self.number);
    }
}

fn lock(slots: &Mutex<SlotTable>) -> MutexGuard<'_, SlotTable> {
    slots.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The outcome of one look at the jobs.
enum CapacityDecision {
    Proceed(JobSlot, CapacityGrant),
    Full { current_jobs: u32 },
}

impl<R: Runtime> JobThrottler<R> {
    /// A throttler without reservations.
    #[must_use]
    pub fn new(runtime: R, settings: ThrottlerSettings, observer: Arc<dyn GuardObserver>) -> Self {
        Self { runtime, settings, slots: Arc::default(), observer }
    }

    /// The settings.
    pub const fn settings(&self) -> ThrottlerSettings {
        self.settings
    }

    /// Counts the jobs once, without waiting.
    pub async fn check_capacity<E, F>(&self, count: impl FnOnce() -> F) -> Result<JobCapacity, E>
    where
        F: Future<Output = Result<u32, E>>,
    {
        let in_progress = self.begin_count();
        let counted = count().await?;
        let current_jobs = counted.saturating_add(self.reserved(&in_progress));
        Ok(JobCapacity {
            current_jobs,
            max_jobs: MAX_CONCURRENT_JOBS,
            available_slots: MAX_CONCURRENT_JOBS.saturating_sub(current_jobs),
            throttling_active: current_jobs >= self.settings.threshold,
            at_capacity: current_jobs >= MAX_CONCURRENT_JOBS,
        })
    }

    /// Waits until there is room for a job, and reserves it. `count` counts the active jobs.
    pub async fn wait_for_capacity<E, F>(
        &self,
        labels: &CallLabels,
        mut count: impl FnMut() -> F,
    ) -> Result<(JobSlot, CapacityGrant), CapacityTimeout>
    where
        E: std::fmt::Display,
        F: Future<Output = Result<u32, E>>,
    {
        let started = self.runtime.monotonic();
        let give_up_at = started + self.settings.timeout;
        let mut last_known = None;
        loop {
            let in_progress = self.begin_count();
            // The first count may take its time. A later one must not delay the time-out noticeably.
            let limit = last_known.map_or(Deadline::NEVER, |_| Deadline::at(give_up_at + FINAL_COUNT_GRACE));
            let counted = timeout_at(&self.runtime, limit, count()).await;
            let now = self.runtime.monotonic();
            let waited = now - started;
            let current_jobs = match counted {
                Some(counted) => match self.decide(labels, &in_progress, counted, waited) {
                    CapacityDecision::Proceed(slot, grant) => return Ok((slot, grant)),
                    CapacityDecision::Full { current_jobs } => current_jobs,
                },
                // The time is up while the jobs are being counted: the last count stands.
                None => last_known.unwrap_or(0),
            };
            last_known = Some(current_jobs);
            drop(in_progress);
            let max_jobs = MAX_CONCURRENT_JOBS;
            if now >= give_up_at {
                self.observe(labels, GuardEventKind::CapacityTimedOut { current_jobs, max_jobs, waited });
                return Err(CapacityTimeout { current_jobs, max_jobs, waited });
            }
            // The last wait is clipped, so that the time-out comes on time.
            let next_look: Timestamp = (now + self.settings.poll_interval).min(give_up_at);
            let next_poll = next_look - now;
            self.observe(labels, GuardEventKind::CapacityAwaited { current_jobs, max_jobs, next_poll });
            self.runtime.sleep_until(next_look).await;
        }
    }

    fn decide<E: std::fmt::Display>(
        &self,
        labels: &CallLabels,
        in_progress: &CountInProgress<'_>,
        counted: Result<u32, E>,
        waited: Duration,
    ) -> CapacityDecision {
        let max_jobs = MAX_CONCURRENT_JOBS;
        let grant = |status, current_jobs| CapacityGrant { status, current_jobs, max_jobs, wait_time: waited };
        let counted = match counted {
            Ok(counted) => counted,
            Err(error) => {
                self.observe(labels, GuardEventKind::CapacityUnknown { reason: error.to_string() });
                return CapacityDecision::Proceed(self.reserve(), grant(CapacityStatus::Unknown, None));
            }
        };
        // Counting and reserving under one lock: of several callers that see the last room, one gets it.
        let mut slots = lock(&self.slots);
        let missed = slots.counting.get(&in_progress.number).copied().unwrap_or(0);
        let current_jobs = counted.saturating_add(slots.held()).saturating_add(missed);
        if current_jobs >= self.settings.threshold {
            return CapacityDecision::Full { current_jobs };
        }
        let number = slots.number();
        slots.held.insert(number);
        drop(slots);
        self.observe(labels, GuardEventKind::CapacityAvailable { current_jobs, max_jobs, waited });
        let slot = JobSlot { slots: Arc::clone(&self.slots), number };
        CapacityDecision::Proceed(slot, grant(CapacityStatus::Available, Some(current_jobs)))
    }

    fn reserve(&self) -> JobSlot {
        let mut slots = lock(&self.slots);
        let number = slots.number();
        slots.held.insert(number);
        JobSlot { slots: Arc::clone(&self.slots), number }
    }

    fn begin_count(&self) -> CountInProgress<'_> {
        let mut slots = lock(&self.slots);
        let number = slots.number();
        slots.counting.insert(number, 0);
        CountInProgress { slots: &self.slots, number }
    }

    fn reserved(&self, in_progress: &CountInProgress<'_>) -> u32 {
        let slots = lock(&self.slots);
        let missed = slots.counting.get(&in_progress.number).copied().unwrap_or(0);
        slots.held().saturating_add(missed)
    }

    fn observe(&self, labels: &CallLabels, kind: GuardEventKind) {
        let event = GuardEvent { at: self.runtime.now().utc, labels: labels.clone(), kind };
        self.observer.observe(&event);
    }
}
