//! Decision records: why each request was answered, degraded or rejected.
//!
//! A completed request is in the ring of the [request log](crate::log). From there a thread takes the records that are worth
//! keeping and appends them to segments in the data directory, so that an operator can ask for one by the id that the
//! caller received. Without a data directory only the ring is searched.
//!
//! **What it does not do.** It delays no request: a disk that is slow or full loses records, which is counted. It keeps no
//! text of a message; a caller appears as a pseudonym.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `selection` | which requests get a record of their own |
//! | `recorder` | takes, selects, formats and writes |
//! | `segment`, `index` | the bytes of a segment and of its index |
//! | `archive` | the directory of segments |
//! | `query` | listings |

mod archive;
mod index;
mod query;
mod recorder;
mod segment;
mod selection;
#[cfg(test)]
mod tests;

pub(crate) use query::{RecordCursor, RecordFilter, RecordPage};
pub(crate) use recorder::CallerPseudonym;

use crate::log::{BATCH_DELAY, DECISION_RECORDS, RecentRequests};
use crate::runtime::TokioRuntime;
use crate::supervisor::{ShutdownStage, Supervisor, ThreadOptions};
use archive::ArchiveLimits;
use query::{RecordsInMemory, list_archive};
use recorder::{Recorder, RecorderOptions};
use seawall_config::RecordSettings;
use seawall_pipeline::Runtime as _;
use seawall_pipeline::event::{Event, EventSink, EventTopics};
use serde_json::Value;
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::oneshot;

/// The directory of the records, in the data directory.
const DIRECTORY: &str = "requests";
/// How long the writer sleeps if nothing completes; then it looks for counted rejections and old segments.
const IDLE_INTERVAL: Duration = Duration::from_secs(10);
/// Queries that wait for the reader.
const MAX_QUERIES: usize = 16;

type RecordJob = Box<dyn FnOnce() + Send>;

/// Why a query was not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueryError {
    /// Too many queries wait.
    Busy,
    /// The reader has stopped.
    Stopped,
}

/// The decision records of one gateway.
#[derive(Debug)]
pub(crate) struct DecisionRecords {
    clock: TokioRuntime,
    recent: Arc<RecentRequests>,
    /// A number of this process, for cursors.
    process: u64,
    stored: OnceLock<StoredRecords>,
}

#[derive(Debug)]
struct StoredRecords {
    recorder: Arc<Recorder>,
    jobs: SyncSender<RecordJob>,
}

impl DecisionRecords {
    /// Records in memory.
    pub(crate) fn new(clock: TokioRuntime, recent: Arc<RecentRequests>) -> Self {
        // Cursors are decimal text; a short number is unlikely enough to be met again.
        let process = clock.draw().below(1 << 32);
        Self { clock, recent, process, stored: OnceLock::new() }
    }

    /// Keeps records in this data directory, which no other process uses. The supervisor's shutdown writes the last ones.
    pub(crate) fn start(
        &self,
        data_dir: &Path,
        settings: &RecordSettings,
        pseudonym: CallerPseudonym,
        supervisor: &Supervisor,
    ) -> std::io::Result<()> {
        let recorder = Arc::new(Recorder::new(RecorderOptions {
            clock: self.clock,
            recent: Arc::clone(&self.recent),
            directory: data_dir.join(DIRECTORY),
            limits: ArchiveLimits { max_size: settings.max_size, max_age: settings.max_age },
            max_rate: settings.max_rate,
            pseudonym,
        }));
        // A query waits for nothing else, so this thread is the only one that a slow disk stops.
        let (jobs, waiting) = sync_channel::<RecordJob>(MAX_QUERIES);
        let wake = jobs.clone();
        let options = ThreadOptions::new("record-reader", ShutdownStage::Admin).wake(move || {
            // If the queue is full, the thread looks at the signal before it takes the next job.
            let _ = wake.try_send(Box::new(|| {}));
        });
        supervisor.spawn(options, move |shutdown| {
            while let Ok(job) = waiting.recv() {
                if shutdown.is_requested() {
                    break;
                }
                job();
            }
            Ok(())
        })?;
        let (own, recent) = (Arc::clone(&recorder), Arc::clone(&self.recent));
        let closed = Arc::clone(&self.recent);
        let options = ThreadOptions::new("records", ShutdownStage::Log).wake(move || closed.close());
        supervisor.spawn(options, move |_| {
            // Opens the directory before there is anything to write.
            own.drain(false);
            loop {
                let is_end = recent.wait(DECISION_RECORDS, IDLE_INTERVAL, BATCH_DELAY);
                own.drain(is_end);
                if is_end {
                    return Ok(());
                }
            }
        })?;
        // Called once, by the start of the gateway.
        let _ = self.stored.set(StoredRecords { recorder, jobs });
        Ok(())
    }

    /// Where records are kept: the label in the admin API.
    pub(crate) fn source(&self) -> &'static str {
        if self.stored.get().is_some() { "data_dir" } else { "memory" }
    }

    /// The record of a request, if it is known.
    pub(crate) async fn find(
        &self,
        id: u64,
        pseudonym: impl Fn(u64) -> u64 + Send + Sync,
    ) -> Result<Option<Value>, QueryError> {
        if let Some(record) = self.recent.find(|record| record.id == id) {
            return Ok(self.in_memory(&pseudonym).format(&record));
        }
        let found = self.read(move |recorder| recorder.archive()?.find(id)).await?;
        Ok(found.flatten().and_then(|payload| serde_json::from_slice(&payload).ok()))
    }

    /// Lists records.
    pub(crate) async fn list(
        &self,
        filter: RecordFilter,
        cursor: Option<RecordCursor>,
        limit: usize,
        pseudonym: impl Fn(u64) -> u64 + Send + Sync,
    ) -> Result<RecordPage, QueryError> {
        let wanted = filter.clone();
        let listed =
            self.read(move |recorder| Some(list_archive(&*recorder.archive()?, &wanted, cursor, limit)));
        match listed.await?.flatten() {
            Some(page) => Ok(page),
            // There is no data directory, or it cannot be written: the newest are in memory.
            None => Ok(self.in_memory(&pseudonym).list(&filter, cursor, limit)),
        }
    }

    fn in_memory<'a>(&'a self, pseudonym: &'a dyn Fn(u64) -> u64) -> RecordsInMemory<'a> {
        RecordsInMemory { recent: &self.recent, now: self.clock.now(), pseudonym, process: self.process }
    }

    /// Runs `work` on the reader's thread, after everything that has completed by now was written. `None` without a data
    /// directory.
    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Recorder) -> T + Send + 'static,
    ) -> Result<Option<T>, QueryError> {
        let Some(StoredRecords { recorder, jobs }) = self.stored.get() else { return Ok(None) };
        let (reply, result) = oneshot::channel();
        let recorder = Arc::clone(recorder);
        let job: RecordJob = Box::new(move || {
            recorder.drain(false);
            // The client may be gone.
            let _ = reply.send(work(&recorder));
        });
        jobs.try_send(job).map_err(|_| QueryError::Busy)?;
        result.await.map(Some).map_err(|_| QueryError::Stopped)
    }
}

/// Records are taken from the ring of the request log, so that no event is needed; only what is lost is reported here.
impl EventSink for DecisionRecords {
    fn name(&self) -> &'static str {
        "decision_records"
    }

    fn topics(&self) -> EventTopics {
        EventTopics::default()
    }

    fn accept(&self, _: &Event<'_>) {}

    fn dropped(&self) -> Option<u64> {
        let lost = self.stored.get()?.recorder.lost();
        Some(self.recent.dropped(DECISION_RECORDS) + lost)
    }
}
