//! A guard on a virtual clock, and a vendor that fails on demand.

use crate::clock::VirtualClock;
use seawall_core::runtime::Timer as _;
use seawall_core::time::Timestamp;
use seawall_drs::{
    ApiError, ApiGuard, BucketKey, ErrorDescription, GuardEvent, GuardObserver, GuardSettings, RateBuckets,
};
use std::sync::{Arc, Mutex};

/// The codes that are worth a retry, with their statuses.
pub(crate) const RETRYABLE: [(u16, &str); 5] = [
    (429, "ThrottlingException"),
    (503, "RequestLimitExceeded"),
    (503, "ServiceUnavailable"),
    (500, "InternalServerException"),
    (402, "ServiceQuotaExceededException"),
];

/// Codes that are not.
pub(crate) const FINAL: [(u16, &str); 5] = [
    (400, "ValidationException"),
    (403, "AccessDeniedException"),
    (404, "ResourceNotFoundException"),
    (409, "ConflictException"),
    (400, "UninitializedAccountException"),
];

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}")]
pub(crate) struct VendorError {
    pub status: u16,
    pub code: &'static str,
    /// Tells errors of the same code apart.
    pub number: usize,
}

impl VendorError {
    pub(crate) fn new((status, code): (u16, &'static str), number: usize) -> Self {
        Self { status, code, number }
    }
}

impl ApiError for VendorError {
    fn describe(&self) -> ErrorDescription {
        ErrorDescription {
            status: Some(self.status),
            code: Some(self.code.to_owned()),
            message: format!("error number {}", self.number),
            ..ErrorDescription::default()
        }
    }
}

/// Keeps every event.
#[derive(Default)]
pub(crate) struct EventRecorder(pub Mutex<Vec<GuardEvent>>);

impl EventRecorder {
    pub(crate) fn events(&self) -> Vec<GuardEvent> {
        self.0.lock().unwrap().clone()
    }
}

impl GuardObserver for EventRecorder {
    fn observe(&self, event: &GuardEvent) {
        self.0.lock().unwrap().push(event.clone());
    }
}

/// A guard on a virtual clock, and what it reports.
pub(crate) struct TestGuard {
    pub clock: VirtualClock,
    pub guard: ApiGuard<VirtualClock>,
    pub recorder: Arc<EventRecorder>,
}

impl TestGuard {
    pub(crate) fn new(seed: u64, settings: GuardSettings) -> Self {
        let clock = VirtualClock::new(seed);
        let buckets = RateBuckets::new(clock.clone());
        let bucket = buckets.bucket(BucketKey::new("111122223333", "eu-west-1"), settings.rate).unwrap();
        let recorder = Arc::new(EventRecorder::default());
        let observer = Arc::clone(&recorder) as Arc<dyn GuardObserver>;
        let guard = ApiGuard::new(clock.clone(), bucket, settings, observer);
        Self { clock, guard, recorder }
    }
}

/// The times of calls, and what each returns.
pub(crate) struct Script {
    clock: VirtualClock,
    answers: Vec<Result<u32, VendorError>>,
    pub calls: Mutex<Vec<Timestamp>>,
}

impl Script {
    /// Answers in order; the last one from then on.
    pub(crate) fn new(clock: &VirtualClock, answers: Vec<Result<u32, VendorError>>) -> Self {
        Self { clock: clock.clone(), answers, calls: Mutex::default() }
    }

    pub(crate) fn next(&self) -> Result<u32, VendorError> {
        let mut calls = self.calls.lock().unwrap();
        calls.push(self.clock.monotonic());
        self.answers[(calls.len() - 1).min(self.answers.len() - 1)].clone()
    }

    pub(crate) fn calls(&self) -> Vec<Timestamp> {
        self.calls.lock().unwrap().clone()
    }
}
