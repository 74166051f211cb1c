//! The guard of one API in one account and region: a rate token before every attempt, and retries that do no harm.
//!
//! [`ApiGuard::call`] is all that most callers need. It owns the retries, so the client below must not retry: the SDK's
//! own retries are switched off. Each attempt, retries and pages included, takes a token of the bucket first, so that a
//! storm of retries never exceeds the rate either. A caller that cannot have a token in time gets a typed error and
//! makes no call.
//!
//! Callers that need more between attempts (another look, another wait) use the [`GuardedAttempts`] of one call directly.

use crate::bucket::{BucketKey, RateBucket, RatePermit};
use crate::error::{ApiError, GuardError, RetryExhausted};
use crate::event::{CallLabels, EventError, GuardEvent, GuardEventKind, GuardObserver};
use crate::pacing::AdaptivePacer;
use crate::preset::GuardSettings;
use seawall_core::deadline::Deadline;
use seawall_core::failure::{DRS, ErrorTable, FailureKind};
use seawall_core::retry::{Retries, RetryDecision, RetrySituation, StopReason};
use seawall_core::runtime::{Runtime, timeout_at};
use std::fmt::Write as _;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// A wait for a rate token that is longer than this is reported while it lasts, so that nobody takes it for a hang.
const TOKEN_WAIT_NOTICE: Duration = Duration::from_secs(1);

/// One call to make.
#[derive(Clone, Debug)]
pub struct ApiCall {
    /// The operation, in the notation of the SDK: `describe_jobs`.
    pub operation: &'static str,
    /// Whether executing it twice does no harm. If not, it is repeated only after errors that prove that it was not
    /// executed.
    pub repeatable: bool,
    /// When the call must have ended. Without one, all retries are made.
    pub deadline: Deadline,
    /// What connects the lines of this call in the log; drawn at random if there is none.
    pub correlation_id: Option<Arc<str>>,
}

impl ApiCall {
    /// A call that may be repeated, without a deadline.
    #[must_use]
    pub const fn read(operation: &'static str) -> Self {
        Self { operation, repeatable: true, deadline: Deadline::NEVER, correlation_id: None }
    }

    /// A call that must not be executed twice.
    #[must_use]
    pub const fn once(operation: &'static str) -> Self {
        Self { operation, repeatable: false, deadline: Deadline::NEVER, correlation_id: None }
    }

    /// The same with a deadline.
    #[must_use]
    pub fn with_deadline(self, deadline: Deadline) -> Self {
        Self { deadline, ..self }
    }
}

/// Guards one API in one account and region. Clones share the bucket.
#[derive(Clone)]
pub struct ApiGuard<R: Runtime> {
    runtime: R,
    bucket: RateBucket<R>,
    settings: GuardSettings,
    table: &'static ErrorTable,
    pacer: Option<AdaptivePacer<R>>,
    observer: Arc<dyn GuardObserver>,
}

impl<R: Runtime> ApiGuard<R> {
    /// A guard that takes its tokens from `bucket` and classifies errors as DRS does.
    #[must_use]
    pub fn new(
        runtime: R,
        bucket: RateBucket<R>,
        settings: GuardSettings,
        observer: Arc<dyn GuardObserver>,
    ) -> Self {
        let pacer = settings.adaptive.then(|| AdaptivePacer::new(runtime.clone()));
        Self { runtime, bucket, settings, table: &DRS, pacer, observer }
    }

    /// The same with another vendor's error names.
    #[must_use]
    pub fn with_error_table(self, table: &'static ErrorTable) -> Self {
        Self { table, ..self }
    }

    /// The bucket.
    pub const fn bucket(&self) -> &RateBucket<R> {
        &self.bucket
    }

    /// The account and region.
    pub const fn key(&self) -> &BucketKey {
        self.bucket.key()
    }

    /// The runtime.
    pub const fn runtime(&self) -> &R {
        &self.runtime
    }

    /// Makes a call: a token, an attempt, and again after a backoff if that can help.
    ///
    /// Without a deadline a call that keeps failing is attempted exactly `max_retries + 1` times.
    ///
    /// ```
    /// # use seawall_drs::{ApiCall, ApiError, ApiGuard, BucketKey, ErrorDescription, GuardSettings, NullObserver};
    /// # use seawall_drs::{RateBuckets, SystemRuntime};
    /// # use std::sync::Arc;
    /// # #[derive(Debug, thiserror::Error)]
    /// # #[error("refused")]
    /// # struct Refused;
    /// # impl ApiError for Refused {
    /// #     fn describe(&self) -> ErrorDescription { ErrorDescription::default() }
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let runtime = SystemRuntime::new();
    /// let settings = GuardSettings::default();
    /// let key = BucketKey::new("123456789012", "eu-west-1");
    /// let bucket = RateBuckets::new(runtime.clone()).bucket(key, settings.rate)?;
    /// let guard = ApiGuard::new(runtime, bucket, settings, Arc::new(NullObserver));
    ///
    /// let answer = guard.call(ApiCall::read("list_things"), || async { Ok::<_, Refused>(42) }).await?;
    /// assert_eq!(answer, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn call<T, E, F>(
        &self,
        call: ApiCall,
        mut attempt: impl FnMut() -> F,
    ) -> Result<T, GuardError<E>>
    where
        E: ApiError,
        F: Future<Output = Result<T, E>>,
    {
        let mut attempts = self.begin(call);
        let mut last_error = None;
        loop {
            if let Err(refused) = attempts.admit().await {
                return Err(refused.into_error(last_error));
            }
            let error = match attempt().await {
                Ok(value) => {
                    attempts.succeeded();
                    return Ok(value);
                }
                Err(error) => error,
            };
            match attempts.failed(&error) {
                AttemptDecision::Retry { after, .. } => attempts.sleep(after).await,
                AttemptDecision::Stop { reason, .. } => return Err(attempts.give_up(reason, error)),
            }
            last_error = Some(error);
        }
    }

    /// Begins a call whose attempts the caller makes itself.
    #[must_use]
    pub fn begin(&self, call: ApiCall) -> GuardedAttempts<R> {
        let correlation_id = call.correlation_id.clone().unwrap_or_else(|| self.draw_correlation_id());
        let key = self.bucket.key();
        let labels = CallLabels {
            operation: call.operation.into(),
            region: key.region().into(),
            account: key.account().into(),
            correlation_id,
        };
        let retries = Retries::new(self.settings.retry);
        GuardedAttempts { guard: self.clone(), call, labels, retries, attempts: 0 }
    }

    /// Reports an event of this account and region.
    pub(crate) fn observe(&self, labels: &CallLabels, kind: GuardEventKind) {
        let at = self.runtime.now().utc;
        self.observer.observe(&GuardEvent { at, labels: labels.clone(), kind });
    }

    /// A random id of 32 hexadecimal digits.
    pub(crate) fn draw_correlation_id(&self) -> Arc<str> {
        let mut id = String::with_capacity(32);
        // Writing to a string cannot fail.
        let _ = write!(id, "{:016x}{:016x}", self.runtime.draw().bits(), self.runtime.draw().bits());
        id.into()
    }
}

/// What follows a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptDecision {
    /// Try again after this backoff.
    Retry {
        /// The backoff.
        after: Duration,
        /// What failed.
        kind: FailureKind,
        /// Whether the vendor may have executed the call all the same.
        may_have_executed: bool,
    },
    /// Make no further attempt.
    Stop {
        /// Why.
        reason: StopReason,
        /// Whether the vendor may have executed the call all the same.
        may_have_executed: bool,
    },
}

/// No rate token was free in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmissionTimeout {
    timeout: Duration,
    attempts: u32,
}

impl AdmissionTimeout {
    /// The error of the call, with the error of the last attempt if there was one.
    pub fn into_error<E>(self, last_error: Option<E>) -> GuardError<E> {
        GuardError::RateLimited { timeout: self.timeout, attempts: self.attempts, last_error }
    }
}

/// The attempts of one call.
pub struct GuardedAttempts<R: Runtime> {
    guard: ApiGuard<R>,
    call: ApiCall,
    labels: CallLabels,
    retries: Retries,
    attempts: u32,
}

impl<R: Runtime> GuardedAttempts<R> {
    /// Waits for the rate token of the next attempt. Call it once before each.
    pub async fn admit(&mut self) -> Result<(), AdmissionTimeout> {
        let guard = &self.guard;
        // A token that comes after the deadline is of no use.
        let now = guard.runtime.monotonic();
        let timeout = guard.settings.token_timeout.min(self.call.deadline.remaining(now));
        if let Some(pacer) = &guard.pacer {
            pacer.pace(now + timeout).await;
        }
        let left = (now + timeout) - guard.runtime.monotonic();
        let began = guard.runtime.monotonic();
        let mut turn = pin!(guard.bucket.acquire(left));
        let notice = Deadline::after(began, TOKEN_WAIT_NOTICE);
        let outcome = match timeout_at(&guard.runtime, notice, turn.as_mut()).await {
            Some(outcome) => outcome,
            None => {
                let waited = guard.runtime.monotonic() - began;
                self.observe(GuardEventKind::TokenAwaited { waited, timeout });
                turn.await
            }
        };
        match outcome {
            Ok(permit) => {
                // The token is spent by the attempt that follows.
                drop::<RatePermit<R>>(permit);
                self.attempts = self.attempts.saturating_add(1);
                Ok(())
            }
            Err(refused) => {
                let (attempts, would_wait) = (self.attempts, refused.would_wait);
                self.observe(GuardEventKind::TokenTimeout { attempts, timeout, would_wait });
                Err(AdmissionTimeout { timeout, attempts })
            }
        }
    }

    /// Reports that the attempt succeeded.
    pub fn succeeded(&mut self) {
        if let Some(pacer) = &self.guard.pacer {
            pacer.report(false);
        }
        self.observe(GuardEventKind::AttemptSucceeded { attempt: self.attempts });
    }

    /// Reports that the attempt failed, and decides what follows.
    pub fn failed(&mut self, error: &impl ApiError) -> AttemptDecision {
        self.decide(error, self.call.repeatable)
    }

    /// The same for a caller that finds out whether the call was executed before it makes the next attempt, so that an
    /// unclear failure does not end the call.
    pub fn failed_but_checked(&mut self, error: &impl ApiError) -> AttemptDecision {
        self.decide(error, true)
    }

    fn decide(&mut self, error: &impl ApiError, repeatable: bool) -> AttemptDecision {
        let guard = &self.guard;
        let event_error = self.event_error(error);
        let failure = event_error.failure;
        if let Some(pacer) = &guard.pacer {
            pacer.report(failure.kind.is_throttle());
        }
        let now = guard.runtime.monotonic();
        let situation = RetrySituation { repeatable, ..RetrySituation::new(now, self.call.deadline) };
        let (decision, _) = self.retries.decide(&failure, &situation, None, guard.runtime.draw());
        let may_have_executed = !failure.not_executed;
        let decision = match decision {
            RetryDecision::RetrySame { after, .. } => {
                AttemptDecision::Retry { after, kind: failure.kind, may_have_executed }
            }
            RetryDecision::FailOver(reason) | RetryDecision::GiveUp(reason) => {
                // A response that cannot be read is not worth a retry, and says nothing about what was executed.
                let is_unclear = may_have_executed && !self.call.repeatable;
                let reason = match reason {
                    StopReason::NotRetryable if is_unclear => StopReason::MayHaveExecuted,
                    reason => reason,
                };
                AttemptDecision::Stop { reason, may_have_executed }
            }
        };
        let retry_after = match decision {
            AttemptDecision::Retry { after, .. } => Some(after),
            AttemptDecision::Stop { .. } => None,
        };
        let attempt = self.attempts;
        self.observe(GuardEventKind::AttemptFailed { attempt, error: event_error, retry_after });
        decision
    }

    /// The error of a call that ends here. Reports it if retries could have helped.
    pub fn give_up<E: ApiError>(&self, reason: StopReason, error: E) -> GuardError<E> {
        let attempts = self.attempts;
        match reason {
            StopReason::MayHaveExecuted => GuardError::MayHaveExecuted { error, attempts },
            StopReason::AttemptsUsed | StopReason::NoTime | StopReason::Pressure | StopReason::Budget => {
                let last = self.event_error(&error);
                self.observe(GuardEventKind::Exhausted { attempts, error: last.clone(), stopped: reason });
                let waited = self.retries.exhausted(last.failure).waited;
                GuardError::Exhausted(RetryExhausted { last_error: error, attempts, waited, stopped: reason })
            }
            _ => GuardError::Refused { error, attempts },
        }
    }

    /// Waits for a backoff.
    pub async fn sleep(&self, wait: Duration) {
        let runtime = &self.guard.runtime;
        runtime.sleep_until(runtime.monotonic() + wait).await;
    }

    /// The operation.
    pub const fn operation(&self) -> &'static str {
        self.call.operation
    }

    /// What the call is about.
    pub const fn labels(&self) -> &CallLabels {
        &self.labels
    }

    /// The attempts made so far.
    pub const fn attempts(&self) -> u32 {
        self.attempts
    }

    fn event_error(&self, error: &impl ApiError) -> EventError {
        let description = error.describe();
        let failure = description.failure(self.guard.table);
        let message =
            if description.message.is_empty() { error.to_string() } else { description.message.clone() };
        EventError { code: description.code_or_kind(&failure), message, failure }
    }

    pub(crate) fn observe(&self, kind: GuardEventKind) {
        self.guard.observe(&self.labels, kind);
    }
}
