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

use crate::metrics::Metrics;
use crate::runtime::TokioRuntime;
use seawall_core::breaker::{BreakerPhase, Transition};
use seawall_pipeline::{AttemptRecord, CredentialStatus, Observer, RequestRecord, Runtime as _};
use std::io::Write;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long lines are batched, unless there are many. Readers of a log do not notice the delay, and twenty wake-ups a
/// second cost nothing noticeable.
const BATCH_DELAY: Duration = Duration::from_millis(50);
/// How long shutdown waits for the last lines to be written.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum size of a batch in bytes, so that its memory does not grow with the request rate.
const MAX_BATCH_SIZE: usize = 1 << 20;
/// Records taken per lock: requests wait for that long.
const RECORDS_PER_LOCK: usize = 64;

/// Observes requests, attempts and targets: updates the metrics, keeps the newest records, queues them for the access
/// log, and writes changes of breakers and credentials to standard error. When dropped, it waits for the last lines of
/// the access log, with a timeout.
#[derive(Debug)]
pub struct TelemetryObserver {
    metrics: Arc<Metrics>,
    recent: Arc<RecentRequests>,
    /// Whether state changes of targets are written to standard error.
    has_diagnostics: bool,
    /// Closed when the writer thread ends.
    ended: Option<Mutex<Receiver<()>>>,
}

impl TelemetryObserver {
    /// Counts records, and writes lines to `sink` if there is one, with times by this clock. `pseudonym` maps a caller
    /// to its pseudonym.
    pub fn new(
        metrics: Arc<Metrics>,
        clock: TokioRuntime,
        sink: Option<Box<dyn Write + Send>>,
        pseudonym: impl Fn(u64) -> u64 + Send + 'static,
    ) -> Result<Self, std::io::Error> {
        let recent = Arc::new(RecentRequests::new(sink.is_some()));
        let has_diagnostics = true;
        let Some(sink) = sink else { return Ok(Self { metrics, recent, has_diagnostics, ended: None }) };
        let (end, ended) = channel::<()>();
        let records = Arc::clone(&recent);
        std::thread::Builder::new().name("log".to_owned()).spawn(move || {
            write_lines(&records, clock, sink, pseudonym);
            drop(end);
        })?;
        Ok(Self { metrics, recent, has_diagnostics, ended: Some(Mutex::new(ended)) })
    }

    /// The same observer, without messages about targets on standard error.
    #[must_use]
    pub(crate) fn without_diagnostics(mut self) -> Self {
        self.has_diagnostics = false;
        self
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
            _ if !self.has_diagnostics => {}
            CredentialStatus::Rejected => {
                eprintln!(
                    "seawall: target {target}: the provider rejects our API key; check targets.{target}.api_key"
                );
            }
            CredentialStatus::Accepted | CredentialStatus::Unknown => {
                eprintln!("seawall: target {target}: the provider accepts our API key again");
            }
        }
    }

    fn breaker_changed(&self, target: &Arc<str>, transition: &Transition) {
        if let Some(message) = breaker_message(transition).filter(|_| self.has_diagnostics) {
            eprintln!("seawall: target {target}: {message}");
        }
    }
}

/// The message for a state change of a breaker, if it is worth one. All stages of a half-open trial are one phase.
fn breaker_message(transition: &Transition) -> Option<String> {
    let name = |phase| match phase {
        BreakerPhase::Closed => "closed",
        BreakerPhase::Open => "opened",
        BreakerPhase::HalfOpen { .. } => "half-open",
    };
    let (from, to) = (name(transition.from), name(transition.to));
    let reason = transition.reason.map(|reason| format!(": {}", reason.label())).unwrap_or_default();
    // A failed probe reopens the breaker without a change of phase name, and is worth a line: hence the test of the
    // reason.
    (from != to || transition.reason.is_some()).then(|| format!("breaker {to}{reason}"))
}

impl Drop for TelemetryObserver {
    fn drop(&mut self) {
        let Some(ended) = &mut self.ended else { return };
        self.recent.close();
        // The thread sends nothing; when it ends, the channel is closed.
        let _ = ended.get_mut().unwrap_or_else(PoisonError::into_inner).recv_timeout(DRAIN_TIMEOUT);
    }
}

/// Writes lines in batches until the log is closed.
fn write_lines(
    recent: &RecentRequests,
    clock: TokioRuntime,
    mut sink: Box<dyn Write + Send>,
    pseudonym: impl Fn(u64) -> u64,
) {
    let (mut records, mut batch) = (Vec::with_capacity(RECORDS_PER_LOCK), String::new());
    loop {
        let is_end = recent.wait(BATCH_DELAY);
        batch.clear();
        let now = clock.now();
        loop {
            recent.take(RECORDS_PER_LOCK, &mut records);
            records.iter().for_each(|record| write_line(&mut batch, record, now, &pseudonym));
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
