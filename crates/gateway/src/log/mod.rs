//! The request log: a sink of events that keeps the newest requests, and writes the access log, one line of JSON per
//! request.
//!
//! A request leaves a copy of its record and continues. A separate thread formats the records and writes them. A sink
//! that is too slow loses lines, which are counted; it never delays a request. A line contains no key, no address and
//! no text of a message: a caller appears as a pseudonym ([`Pseudonyms`](crate::identity::Pseudonyms)).
//!
//! Waking that thread costs more than everything else about a line. It is therefore woken for the first line only,
//! waits a moment for more, and writes them in one batch.

mod decision;
mod line;
mod reopenable_file;
#[cfg(test)]
mod tests;

pub(crate) use line::{LineDetail, Rfc3339, end_time, write_line};
pub(crate) use reopenable_file::ReopenableFile;

use crate::runtime::TokioRuntime;
use crate::sink_queue::{QueueSize, RingWriter, SinkQueue};
use crate::supervisor::{ShutdownStage, Supervisor, ThreadOptions};
use seawall_pipeline::event::{Event, EventSink, EventTopic, EventTopics};
use seawall_pipeline::{RequestRecord, Runtime as _};
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of records to display.
pub(crate) const MAX_SHOWN: usize = 1_000;
/// Maximum number of records that wait to be written: some seconds of a busy gateway.
const MAX_UNWRITTEN: usize = 10_000;
/// How long lines are batched, unless there are many. Readers of a log do not notice the delay, and twenty wake-ups a
/// second cost nothing noticeable.
pub(crate) const BATCH_DELAY: Duration = Duration::from_millis(50);
/// Maximum size of a batch in bytes, so that its memory does not grow with the request rate.
pub(crate) const MAX_BATCH_SIZE: usize = 1 << 20;
/// Records taken per lock: requests wait for that long.
pub(crate) const RECORDS_PER_LOCK: usize = 64;

/// The newest records: those to display, and those still to be written.
pub(crate) type RecentRequests = SinkQueue<RequestRecord>;

/// The writers of [`RecentRequests`].
pub(crate) const ACCESS_LOG: RingWriter = RingWriter(0);
pub(crate) const DECISION_RECORDS: RingWriter = RingWriter(1);

/// `is_logged` and `is_recorded` say which writers exist.
pub(crate) fn recent_requests(is_logged: bool, is_recorded: bool) -> RecentRequests {
    let writers = [is_logged, is_recorded];
    SinkQueue::new(QueueSize { unwritten: MAX_UNWRITTEN, retained: MAX_SHOWN, writers })
}

/// Keeps the newest records of requests, and queues them for the access log.
#[derive(Debug)]
pub struct RequestLog {
    recent: Arc<RecentRequests>,
}

impl RequestLog {
    /// Writes lines to `sink` if there is one, with times by this clock. `is_recorded` says whether decision records are
    /// written from the same ring. `pseudonym` maps a caller to its pseudonym. The
    /// supervisor's shutdown writes the last lines.
    pub fn new(
        clock: TokioRuntime,
        sink: Option<Box<dyn Write + Send>>,
        is_recorded: bool,
        pseudonym: impl Fn(u64) -> u64 + Send + 'static,
        supervisor: &Supervisor,
    ) -> Result<Self, std::io::Error> {
        let recent = Arc::new(recent_requests(sink.is_some(), is_recorded));
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
        Ok(Self { recent })
    }

    /// The newest records.
    pub(crate) fn recent(&self) -> Arc<RecentRequests> {
        Arc::clone(&self.recent)
    }
}

impl EventSink for RequestLog {
    fn name(&self) -> &'static str {
        "access_log"
    }

    fn topics(&self) -> EventTopics {
        EventTopics::of(&[EventTopic::RequestCompleted])
    }

    fn accept(&self, event: &Event<'_>) {
        if let Event::RequestCompleted(record) = event {
            self.recent.push((*record).clone());
        }
    }

    fn dropped(&self) -> Option<u64> {
        Some(self.recent.dropped(ACCESS_LOG))
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
        let is_end = recent.wait(ACCESS_LOG, Duration::MAX, BATCH_DELAY);
        batch.clear();
        let now = clock.now();
        loop {
            recent.take(ACCESS_LOG, RECORDS_PER_LOCK, &mut records);
            records
                .iter()
                .for_each(|record| write_line(&mut batch, record, now, LineDetail::Compact, pseudonym));
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
