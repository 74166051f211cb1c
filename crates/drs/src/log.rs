//! Structured log: one JSON object per line for every event other than a first attempt that succeeds.

use crate::event::{EventError, GuardEvent, GuardEventKind, GuardObserver};
use crate::text::rfc3339;
use serde::Serialize;
use std::io::Write;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How bad an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum EventSeverity {
    /// Normal operation.
    Info,
    /// Handled, but slower than usual.
    Warning,
    /// A call failed.
    Error,
    /// A call failed although everything was tried; people should look.
    Critical,
}

#[derive(Serialize)]
struct LoggedError<'a> {
    code: &'a str,
    message: &'a str,
    kind: &'static str,
}

impl<'a> From<&'a EventError> for LoggedError<'a> {
    fn from(error: &'a EventError) -> Self {
        Self { code: &error.code, message: &error.message, kind: error.failure.kind.label() }
    }
}

#[derive(Default, Serialize)]
struct LogDetails<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<LoggedError<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_in_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    job_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    current_jobs: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_jobs: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waited_seconds: Option<f64>,
}

#[derive(Serialize)]
struct LogEntry<'a> {
    timestamp: String,
    severity: EventSeverity,
    event: &'static str,
    operation: &'a str,
    region: &'a str,
    account: &'a str,
    correlation_id: &'a str,
    #[serde(flatten)]
    details: LogDetails<'a>,
}

/// The line of an event, without a line feed; `None` for a first attempt that succeeded.
#[must_use]
pub fn log_line(event: &GuardEvent) -> Option<String> {
    let (severity, name, details) = describe(&event.kind)?;
    let entry = LogEntry {
        timestamp: rfc3339(event.at),
        severity,
        event: name,
        operation: &event.labels.operation,
        region: &event.labels.region,
        account: &event.labels.account,
        correlation_id: &event.labels.correlation_id,
        details,
    };
    serde_json::to_string(&entry).ok()
}

fn describe(kind: &GuardEventKind) -> Option<(EventSeverity, &'static str, LogDetails<'_>)> {
    let none = LogDetails::default;
    let seconds = |duration: &Duration| Some(duration.as_secs_f64());
    Some(match kind {
        GuardEventKind::AttemptSucceeded { attempt: 1 } => return None,
        GuardEventKind::AttemptSucceeded { attempt } => {
            let details = LogDetails { attempt: Some(*attempt), ..none() };
            (EventSeverity::Info, "retry_succeeded", details)
        }
        GuardEventKind::AttemptFailed { attempt, error, retry_after } => {
            let (severity, name) = match retry_after {
                Some(_) => (EventSeverity::Warning, "attempt_failed_and_is_retried"),
                None => (EventSeverity::Error, "attempt_failed"),
            };
            let details = LogDetails {
                attempt: Some(*attempt),
                error: Some(error.into()),
                retry_in_seconds: retry_after.as_ref().and_then(seconds),
                ..none()
            };
            (severity, name, details)
        }
        GuardEventKind::TokenAwaited { waited, .. } => {
            let details = LogDetails { waited_seconds: seconds(waited), ..none() };
            (EventSeverity::Info, "rate_token_awaited", details)
        }
        GuardEventKind::TokenTimeout { attempts, timeout, .. } => {
            let message = "no rate token was free in time; the API was not called";
            let error = LoggedError { code: crate::metric::TOKEN_TIMEOUT_ERROR, message, kind: "throttled" };
            let details = LogDetails {
                attempts: Some(*attempts),
                error: Some(error),
                waited_seconds: seconds(timeout),
                ..none()
            };
            (EventSeverity::Error, "rate_token_timeout", details)
        }
        GuardEventKind::Exhausted { attempts, error, stopped } => {
            let details = LogDetails {
                attempts: Some(*attempts),
                error: Some(error.into()),
                stopped: Some(stopped.label()),
                ..none()
            };
            (EventSeverity::Critical, "retries_exhausted", details)
        }
        GuardEventKind::JobLookedUp { job_id } => {
            let name = if job_id.is_some() { "job_found" } else { "job_not_found" };
            (EventSeverity::Warning, name, LogDetails { job_id: job_id.as_deref(), ..none() })
        }
        GuardEventKind::CapacityAwaited { current_jobs, max_jobs, next_poll } => {
            let details = LogDetails {
                current_jobs: Some(*current_jobs),
                max_jobs: Some(*max_jobs),
                retry_in_seconds: seconds(next_poll),
                ..none()
            };
            (EventSeverity::Warning, "job_capacity_awaited", details)
        }
        GuardEventKind::CapacityAvailable { current_jobs, max_jobs, waited } => {
            let details = LogDetails {
                current_jobs: Some(*current_jobs),
                max_jobs: Some(*max_jobs),
                waited_seconds: seconds(waited),
                ..none()
            };
            (EventSeverity::Info, "job_capacity_available", details)
        }
        GuardEventKind::CapacityTimedOut { current_jobs, max_jobs, waited } => {
            let details = LogDetails {
                current_jobs: Some(*current_jobs),
                max_jobs: Some(*max_jobs),
                waited_seconds: seconds(waited),
                ..none()
            };
            (EventSeverity::Error, "job_capacity_timeout", details)
        }
        GuardEventKind::CapacityUnknown { reason } => {
            let error = LoggedError { code: "JobCountFailed", message: reason, kind: "unrecognized" };
            (EventSeverity::Critical, "job_capacity_unknown", LogDetails { error: Some(error), ..none() })
        }
    })
}

/// Writes the log lines of events.
///
/// Lines are written on the thread of the call: give it a writer that does not block for long.
pub struct EventLog<W>(Mutex<W>);

impl<W: Write + Send> EventLog<W> {
    /// A log to this writer.
    pub const fn new(writer: W) -> Self {
        Self(Mutex::new(writer))
    }
}

impl<W: Write + Send> GuardObserver for EventLog<W> {
    fn observe(&self, event: &GuardEvent) {
        if let Some(line) = log_line(event) {
            // A log that cannot be written must not fail the call.
            let _ = writeln!(self.0.lock().unwrap_or_else(PoisonError::into_inner), "{line}");
        }
    }
}
