//! Writes decision records: takes completed requests from the ring, selects, formats and appends them.
//!
//! A thread does this whenever there is something to write. A query does it first, too, so that it sees what has
//! completed before it.

use super::archive::{ArchiveLimits, RecordArchive};
use super::segment::append_frame;
use super::selection::{FoldedRejections, RecordSampler, RejectionFolder};
use crate::diagnostic;
use crate::log::{
    DECISION_RECORDS, LineDetail, MAX_BATCH_SIZE, RECORDS_PER_LOCK, RecentRequests, end_time, write_line,
};
use crate::runtime::TokioRuntime;
use seawall_core::time::Now;
use seawall_pipeline::{RequestRecord, Runtime as _};
use std::fmt;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Maps a caller to its pseudonym.
pub(crate) type CallerPseudonym = Box<dyn Fn(u64) -> u64 + Send + Sync>;

/// What a recorder is made of.
pub(crate) struct RecorderOptions {
    pub(crate) clock: TokioRuntime,
    pub(crate) recent: Arc<RecentRequests>,
    /// The directory of the records.
    pub(crate) directory: PathBuf,
    pub(crate) limits: ArchiveLimits,
    /// Maximum number of ordinary answers per second.
    pub(crate) max_rate: u64,
    pub(crate) pseudonym: CallerPseudonym,
}

/// Writes the records of one gateway.
pub(crate) struct Recorder {
    clock: TokioRuntime,
    recent: Arc<RecentRequests>,
    directory: PathBuf,
    limits: ArchiveLimits,
    pseudonym: CallerPseudonym,
    state: Mutex<RecorderState>,
    /// Records that could not be written.
    lost: AtomicU64,
    is_failing: AtomicBool,
}

struct RecorderState {
    /// `None` until the directory could be opened.
    archive: Option<Arc<RecordArchive>>,
    sampler: RecordSampler,
    folder: RejectionFolder,
    taken: Vec<RequestRecord>,
    batch: RecordBatch,
}

#[derive(Default)]
struct RecordBatch {
    frames: Vec<u8>,
    count: u64,
    line: String,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Recorder").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl Recorder {
    pub(crate) fn new(options: RecorderOptions) -> Self {
        let RecorderOptions { clock, recent, directory, limits, max_rate, pseudonym } = options;
        let state = RecorderState {
            archive: None,
            sampler: RecordSampler::new(max_rate),
            folder: RejectionFolder::default(),
            taken: Vec::with_capacity(RECORDS_PER_LOCK),
            batch: RecordBatch::default(),
        };
        Self {
            clock,
            recent,
            directory,
            limits,
            pseudonym,
            state: Mutex::new(state),
            lost: AtomicU64::new(0),
            is_failing: AtomicBool::new(false),
        }
    }

    /// Records that could not be written.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// The archive, unless it cannot be written.
    pub(crate) fn archive(&self) -> Option<Arc<RecordArchive>> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.archive.clone().filter(|_| !self.is_failing.load(Ordering::Relaxed))
    }

    /// Writes everything that has completed. `is_end` says that nothing more will.
    pub(crate) fn drain(&self, is_end: bool) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *state;
        let now = self.clock.now();
        loop {
            let RecorderState { sampler, taken, .. } = state;
            let is_wanted = |record: &RequestRecord| sampler.is_kept(record);
            if self.recent.take_if(DECISION_RECORDS, RECORDS_PER_LOCK, taken, is_wanted) == 0 {
                break;
            }
            for record in std::mem::take(taken) {
                if let Some(record) = state.folder.add(record) {
                    self.add(&mut state.batch, &record, now, None);
                }
            }
            if state.batch.frames.len() >= MAX_BATCH_SIZE {
                self.write(state, now);
            }
        }
        let folded = if is_end { state.folder.take_all() } else { state.folder.take_ended(now.monotonic) };
        for FoldedRejections { last, count } in folded {
            self.add(&mut state.batch, &last, now, Some(count));
        }
        self.write(state, now);
        if let Some(archive) = &state.archive {
            if is_end { archive.close() } else { archive.maintain(now.utc) }
        }
    }

    /// Formats a record. `repeats` is the number of rejections that it stands for, if it counts them.
    fn add(&self, batch: &mut RecordBatch, record: &RequestRecord, now: Now, repeats: Option<u64>) {
        let RecordBatch { frames, count, line } = batch;
        line.clear();
        write_line(line, record, now, LineDetail::Full, &self.pseudonym);
        let length = line.trim_end().len();
        line.truncate(length);
        if let Some(repeats) = repeats {
            line.pop();
            // Writing to a string cannot fail.
            let _ = write!(line, ",\"repeats\":{repeats}}}");
        }
        if append_frame(frames, record.id, end_time(record, now), line.as_bytes()) {
            *count += 1;
        }
    }

    fn write(&self, state: &mut RecorderState, now: Now) {
        let RecorderState { archive, batch, .. } = state;
        let opened = match archive {
            Some(archive) => Ok(Arc::clone(archive)),
            None => RecordArchive::open(&self.directory, self.limits).map(Arc::new),
        };
        let written = opened.and_then(|opened| {
            let archive = archive.insert(opened);
            if batch.frames.is_empty() {
                Ok(false)
            } else {
                archive.append(&batch.frames, now.utc).map(|()| true)
            }
        });
        let path = self.directory.display();
        match written {
            Ok(false) => {}
            Ok(true) => {
                if self.is_failing.swap(false, Ordering::Relaxed) {
                    diagnostic!(RECORDS_AVAILABLE, path = %path, "decision records are written to {path} again");
                }
            }
            Err(error) => {
                self.lost.fetch_add(batch.count, Ordering::Relaxed);
                if !self.is_failing.swap(true, Ordering::Relaxed) {
                    diagnostic!(
                        RECORDS_UNAVAILABLE,
                        path = %path,
                        reason = %error,
                        "decision records cannot be written to {path}: {error}; they are lost, and requests are served"
                    );
                }
            }
        }
        batch.frames.clear();
        batch.count = 0;
    }
}
