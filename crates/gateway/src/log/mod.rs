//! The observer of requests, and the access log: one line of JSON per request.
//!
//! A request leaves a copy of its record and continues. A separate thread formats the records and writes them. A sink
//! that is too slow loses lines, which are counted; it never delays a request. A line contains no key, no address and
//! no text of a message: a caller appears as a pseudonym ([`Pseudonyms`](crate::identity::Pseudonyms)).
//!
//! Waking that thread costs more than everything else about a line. It is therefore woken for the first line only,
//! waits a moment for more, and writes them in one batch.

mod line;
mod recent;
#[cfg(test)]
mod tests;

pub(crate) use line::{Rfc3339, write_line};
pub(crate) use recent::{MAX_SHOWN, RecentRequests};

use crate::diagnostic;
use crate::metrics::Metrics;
use crate::runtime::TokioRuntime;
use crate::supervisor::{ShutdownStage, Supervisor, ThreadOptions};
use seawall_core::breaker::{BreakerPhase, Transition};
use seawall_pipeline::{AttemptRecord, CredentialStatus, Observer, RequestRecord, Runtime as _};
use std::io::Write;
use std::mem::discriminant;
use std::sync::Arc;
use std::time::Duration;

/// How long lines are batched, unless there are many. Readers of a log do not notice the delay, and twenty wake-ups a
/// second cost nothing noticeable.
const BATCH_DELAY: Duration = Duration::from_millis(50);
/// Maximum size of a batch in bytes, so that its memory does not grow with the request rate.
const MAX_BATCH_SIZE: usize = 1 << 20;
/// Records taken per lock: requests wait for that long.
const RECORDS_PER_LOCK: usize = 64;

/// Observes requests, attempts and targets: updates the metrics, keeps the newest records, queues them for the access
/// log, and reports changes of breakers and credentials as diagnostics.
#[derive(Debug)]
pub struct TelemetryObserver {
    metrics: Arc<Metrics>,
    recent: Arc<RecentRequests>,
}

impl TelemetryObserver {
    /// Counts records, and writes lines to `sink` if there is one, with times by this clock. `pseudonym` maps a caller
    /// to its pseudonym. The supervisor's shutdown writes the last lines.
    pub fn new(
        metrics: Arc<Metrics>,
        clock: TokioRuntime,
        sink: Option<Box<dyn Write + Send>>,
        pseudonym: impl Fn(u64) -> u64 + Send + 'static,
        supervisor: &Supervisor,
    ) -> Result<Self, std::io::Error> {
        let recent = Arc::new(RecentRequests::new(sink.is_some()));
        if let Some(mut sink) = sink {
            let (records, closed_records) = (Arc::clone(&recent), Arc::clone(&recent));
            let options = ThreadOptions::new("access-log", ShutdownStage::Log)
                // It waits for records and not for the signal.
                .wake(move || closed_records.close());
            supervisor.spawn(options, move |_| {
                write_lines(&records, clock, &mut sink, &pseudonym);
                Ok(())
            })?;
        }
        Ok(Self { metrics, recent })
    }

    /// The ring buffer of recent records.
    pub(crate) fn recent(&self) -> Arc<RecentRequests> {
        Arc::clone(&self.recent)
    }
}

impl Observer for TelemetryObserver {
    fn request_completed(&self, record: &RequestRecord) {
        self.metrics.record_request(record);
        if self.recent.push(record) {
            self.metrics.count_dropped_line();
        }
    }

    fn attempt_completed(&self, attempt: &AttemptRecord<'_>) {
        self.metrics.record_attempt(attempt);
    }

    fn credential_changed(&self, target: &Arc<str>, status: CredentialStatus) {
        match status {
            CredentialStatus::Rejected => diagnostic!(
                CREDENTIAL_REJECTED,
                target = &**target,
                "target {target}: the provider rejects our API key; check targets.{target}.api_key"
            ),
            CredentialStatus::Accepted | CredentialStatus::Unknown => diagnostic!(
                CREDENTIAL_ACCEPTED,
                target = &**target,
                "target {target}: the provider accepts our API key again"
            ),
        }
    }

    /// Reports a change of phase. All stages of a half-open trial are one phase. A failed probe reopens the breaker
    /// without a change of phase, and is worth an event: only then there is a reason.
    fn breaker_changed(&self, target: &Arc<str>, transition: &Transition) {
        if discriminant(&transition.from) == discriminant(&transition.to) && transition.reason.is_none() {
            return;
        }
        let (target, reason) = (&**target, transition.reason.map(|reason| reason.label()));
        let suffix = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
        match transition.to {
            BreakerPhase::Open => {
                diagnostic!(BREAKER_OPENED, target, reason, "target {target}: breaker opened{suffix}");
            }
            BreakerPhase::HalfOpen { .. } => {
                diagnostic!(BREAKER_HALF_OPEN, target, reason, "target {target}: breaker half-open{suffix}");
            }
            BreakerPhase::Closed => {
                diagnostic!(BREAKER_CLOSED, target, reason, "target {target}: breaker closed{suffix}");
            }
        }
    }
}

/// Writes lines in batches until the log is closed.
fn write_lines(
    recent: &RecentRequests,
    clock: TokioRuntime,
    sink: &mut impl Write,
    pseudonym: &impl Fn(u64) -> u64,
) {
    let (mut records, mut batch) = (Vec::with_capacity(RECORDS_PER_LOCK), String::new());
    loop {
        let is_end = recent.wait(BATCH_DELAY);
        batch.clear();
        let now = clock.now();
        loop {
            recent.take(RECORDS_PER_LOCK, &mut records);
            records.iter().for_each(|record| write_line(&mut batch, record, now, pseudonym));
            if records.is_empty() || batch.len() >= MAX_BATCH_SIZE {
                break;
            }
        }
        // A failed sink is no reason to stop serving.
        let _ = sink.write_all(batch.as_bytes()).and_then(|()| sink.flush());
        if is_end && records.is_empty() {
            return;
        }
    }
}
