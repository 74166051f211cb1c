//! The write-ahead journal of this node's ledger.
//!
//! When [`write`](Journal::write) returns, the records are with the operating system, so that they survive the end of
//! this process, however sudden. They are synced some milliseconds later, together with all that was written meanwhile;
//! only then do they survive a power cut.
//!
//! Buffered records wait for the next write and are written with it, in one system call; if none comes, the flusher
//! writes them. Dropping the journal writes and syncs everything.
//!
//! When a segment is full, the next one is created, and the writer applies the full ones to the database: their calls
//! to the ledger, their changes to the snapshot. They are deleted only when that is durable. Reservations do not wait
//! for it.
//!
//! **When a write fails.** A partial write is truncated, because it would hide what comes after it; so a disk that was
//! full for a while is used again when it has room. Buffered records stay buffered, as far as a frame has room.
//!
//! **What it does not do.** It does not write after a partial write that could not be truncated, or after a failed
//! sync, because an operating system reports a failed sync only once: every write then fails until the directory is
//! opened again. Nor does it grow without bound while the database cannot be written: after
//! `MAX_FAILED_CHECKPOINTS` failed checkpoints in a row, writes fail until a checkpoint succeeds, without a restart.

use super::EmbeddedState;
use super::checkpoint;
use super::codec::STORE;
use super::data_dir::{DataDir, PRIVATE_FILE};
use super::flusher::Flusher;
use super::segment::{HEADER_BYTES, close_frame, header, open_frame, segment_path};
#[cfg(test)]
use super::threads::UnsupervisedThreads;
use crate::node_ledger::{Journal, JournalPosition, JournalRecord};
use crate::{StoreError, lock};
use seawall_core::budget::BudgetSource;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::{Arc, Mutex};

/// The most segments in a row whose checkpoint may fail before the journal stops accepting writes.
const MAX_FAILED_CHECKPOINTS: u64 = 16;
/// How much free space there must be after a failed write before further writes are tried.
const FREE_SPACE_PROBE: [u8; 1 << 14] = [0; 1 << 14];
const SYNC_FAILED: &str = "cannot sync the journal; check the disk and restart the gateway";
const TOO_LARGE: &str = "the records are too large for one journal frame of 64 KiB";

/// Creates the file of a segment.
pub(super) fn create_segment(data_dir: &DataDir, number: u64) -> io::Result<File> {
    let path = segment_path(data_dir.path(), number);
    let mut file = OpenOptions::new().append(true).create_new(true).mode(PRIVATE_FILE).open(&path)?;
    let mut write_header = || {
        file.write_all(&header(number))?;
        file.sync_all()?;
        File::open(data_dir.path())?.sync_all()
    };
    if let Err(error) = write_header() {
        // Nothing refers to it yet, and it must not block the next attempt.
        let _ = fs::remove_file(&path);
        return Err(error);
    }
    Ok(file)
}

/// The end of the journal, which the writing threads and the flusher share.
#[derive(Debug)]
struct Tail {
    file: Arc<File>,
    length: u64,
    /// The open frame: records that were buffered and not written.
    frame: Vec<u8>,
    /// The length of an empty frame.
    empty_length: usize,
    /// How many records were buffered so far, and how many of them were written.
    buffered: u64,
    written: u64,
    failed: Option<StoreError>,
    /// The last write failed, and its partial data could be truncated.
    has_failed_write: bool,
    /// Something was written that a power cut would lose.
    is_unsynced: bool,
    /// A sync failed, in this segment or an earlier one.
    has_failed_sync: bool,
    /// The flusher is running passes and need not be woken.
    is_flusher_awake: bool,
}

impl Tail {
    fn new(file: File) -> Self {
        let mut frame = Vec::new();
        let start = open_frame(&mut frame);
        let empty_length = frame.len() - start;
        let (length, file) = (HEADER_BYTES as u64, Arc::new(file));
        Self {
            file,
            length,
            frame,
            empty_length,
            buffered: 0,
            written: 0,
            failed: None,
            has_failed_write: false,
            is_unsynced: false,
            has_failed_sync: false,
            is_flusher_awake: false,
        }
    }

    /// Fails if nothing may be written any more.
    fn check(&self) -> Result<(), StoreError> {
        match &self.failed {
            Some(error) => Err(error.clone()),
            None if self.has_failed_sync => Err(StoreError::unavailable(STORE, SYNC_FAILED)),
            None => Ok(()),
        }
    }

    const fn has_buffered(&self) -> bool {
        self.frame.len() > self.empty_length
    }

    /// Refuses all writes from now on.
    fn fail(&mut self, error: &io::Error) -> StoreError {
        let error = StoreError::unavailable(
            STORE,
            format_args!("cannot write the journal: {error}; check the disk and restart the gateway"),
        );
        self.failed = Some(error.clone());
        error
    }

    /// Adds records to the open frame. Returns whether they fit; if not, nothing has changed.
    fn encode(&mut self, records: &[JournalRecord]) -> bool {
        let before = self.frame.len();
        for record in records {
            let start = self.frame.len();
            self.frame.extend([0; 4]);
            record.encode(&mut self.frame);
            let length = u32::try_from(self.frame.len() - start - 4).unwrap_or(u32::MAX);
            if let Some(prefix) = self.frame.get_mut(start..start + 4) {
                prefix.copy_from_slice(&length.to_be_bytes());
            }
        }
        let fits = self.frame.len() - self.empty_length <= super::segment::MAX_FRAME_BYTES;
        if !fits {
            self.frame.truncate(before);
        }
        fits
    }

    /// Adds records to the open frame, after those that were buffered. If both do not fit, the buffered ones are written
    /// first. Returns the length of the buffered records in the frame.
    fn append_records(&mut self, records: &[JournalRecord]) -> Result<usize, StoreError> {
        let buffered = self.frame.len();
        if self.encode(records) {
            return Ok(buffered);
        }
        if self.has_buffered() {
            self.flush(buffered)?;
        }
        let is_encoded = self.encode(records);
        if is_encoded { Ok(self.empty_length) } else { Err(StoreError::failed(STORE, TOO_LARGE)) }
    }

    /// Writes the open frame with one system call. If that fails, its first `keep_bytes` bytes stay buffered.
    fn flush(&mut self, keep_bytes: usize) -> Result<(), StoreError> {
        if !close_frame(&mut self.frame, 0) {
            self.frame.truncate(keep_bytes);
            return Err(StoreError::failed(STORE, TOO_LARGE));
        }
        if let Err(error) = (&*self.file).write_all(&self.frame) {
            self.frame.truncate(keep_bytes);
            self.has_failed_write = true;
            let is_truncated = self.file.set_len(self.length).is_ok();
            return Err(if is_truncated { unavailable(&error) } else { self.fail(&error) });
        }
        self.has_failed_write = false;
        self.length = self.length.saturating_add(self.frame.len() as u64);
        self.frame.truncate(self.empty_length);
        self.written = self.buffered;
        self.is_unsynced = true;
        Ok(())
    }

    /// Tests whether the disk has room again: writes zeros and truncates them. If the process ends in between, recovery
    /// truncates them, too.
    fn probe_free_space(&mut self) -> Result<(), StoreError> {
        let written = (&*self.file).write_all(&FREE_SPACE_PROBE);
        if let Err(error) = self.file.set_len(self.length) {
            return Err(self.fail(&error));
        }
        written.map_err(|error| unavailable(&error))?;
        self.has_failed_write = false;
        Ok(())
    }

    /// Writes the buffered records. If that fails, they wait for the next attempt; calls whose end is never written are
    /// charged at their maximum cost.
    fn flush_buffered(&mut self) {
        if self.has_buffered() && self.check().is_ok() {
            let _ = self.flush(self.frame.len());
        }
    }
}

/// The journal of this node's ledger. A data directory has exactly one.
#[derive(Debug)]
pub struct EmbeddedJournal {
    tail: Arc<Mutex<Tail>>,
    number: u64,
    flusher: Flusher,
    shared: Arc<EmbeddedState>,
}

impl EmbeddedJournal {
    pub(super) fn new(shared: &Arc<EmbeddedState>, file: File, number: u64) -> io::Result<Self> {
        let tail = Arc::new(Mutex::new(Tail::new(file)));
        let shared_tail = Arc::clone(&tail);
        let (threads, data_dir) = (&*shared.options.threads, Arc::clone(&shared.data_dir));
        let flusher =
            Flusher::start(threads, data_dir, move |sync_is_due| run_pass(&shared_tail, sync_is_due))?;
        Ok(Self { tail, number, flusher, shared: Arc::clone(shared) })
    }

    /// Whether something was buffered or written that a power cut would lose.
    #[cfg(test)]
    pub(super) fn is_unsynced(&self) -> bool {
        let tail = lock(&self.tail);
        tail.is_unsynced || tail.has_buffered()
    }

    /// Stops the flusher.
    #[cfg(test)]
    pub(super) fn stop_flusher(&mut self) {
        let data_dir = Arc::clone(&self.shared.data_dir);
        self.flusher = Flusher::start(&UnsupervisedThreads, data_dir, |_| false).unwrap();
    }

    /// Replaces the file of the current segment.
    #[cfg(test)]
    pub(super) fn put_segment(&mut self, file: File) {
        let mut tail = lock(&self.tail);
        tail.file = Arc::new(file);
        tail.length = HEADER_BYTES as u64;
    }

    /// Wakes the flusher, unless it is running passes.
    fn wake_flusher(&self, tail: &mut Tail) {
        if !tail.is_flusher_awake {
            tail.is_flusher_awake = true;
            self.flusher.wake();
        }
    }

    /// Starts the next segment and schedules a checkpoint of the full ones.
    fn rotate(shared: &EmbeddedState, number: &mut u64, tail: &mut Tail) -> Result<(), StoreError> {
        if shared.failed_checkpoints.load(std::sync::atomic::Ordering::Acquire) >= MAX_FAILED_CHECKPOINTS {
            return Err(StoreError::unavailable(
                STORE,
                format_args!(
                    "the journal is full: {MAX_FAILED_CHECKPOINTS} checkpoints in a row have failed; free disk space, \
                     the checkpoint is retried automatically"
                ),
            ));
        }
        // A segment with a successor must be complete. If the sync were retried, the system would report success.
        if let Err(error) = tail.file.sync_data() {
            return Err(tail.fail(&error));
        }
        let next = number.saturating_add(1);
        tail.file = Arc::new(create_segment(&shared.data_dir, next).map_err(|error| unavailable(&error))?);
        tail.length = HEADER_BYTES as u64;
        tail.is_unsynced = false;
        *number = next;
        checkpoint::schedule(shared, next);
        Ok(())
    }
}

impl Drop for EmbeddedJournal {
    fn drop(&mut self) {
        // The flusher makes a last pass when it ends. It may have ended before the last record. If it has not, the disk
        // hangs, and would hang here, too.
        if self.flusher.stop() {
            run_pass(&self.tail, true);
        }
    }
}

/// One pass of the flusher: writes the buffered records and, if due, syncs. Returns whether anything was written since the
/// last sync; if not, no further pass is needed before the next wakeup.
fn run_pass(tail: &Mutex<Tail>, sync_is_due: bool) -> bool {
    let mut locked = lock(tail);
    locked.flush_buffered();
    if !locked.is_unsynced {
        locked.is_flusher_awake = false;
        return false;
    }
    if sync_is_due {
        // The flag is cleared before the sync, so that writes during the sync set it again.
        locked.is_unsynced = false;
        let file = Arc::clone(&locked.file);
        drop(locked);
        if file.sync_data().is_err() {
            lock(tail).has_failed_sync = true;
        }
    }
    true
}

fn unavailable(error: &io::Error) -> StoreError {
    let reason =
        format_args!("cannot write the journal: {error}; check the disk, the write is retried automatically");
    StoreError::unavailable(STORE, reason)
}

impl Journal for EmbeddedJournal {
    fn write(&mut self, records: &[JournalRecord]) -> Result<(), StoreError> {
        let mut tail = lock(&self.tail);
        tail.check()?;
        if records.is_empty() {
            return Ok(());
        }
        if tail.length >= self.shared.options.segment_bytes {
            Self::rotate(&self.shared, &mut self.number, &mut tail)?;
        }
        let keep_bytes = tail.append_records(records)?;
        tail.flush(keep_bytes)?;
        self.wake_flusher(&mut tail);
        Ok(())
    }

    fn buffer(&mut self, records: &[JournalRecord]) -> Result<JournalPosition, StoreError> {
        let mut tail = lock(&self.tail);
        tail.check()?;
        tail.append_records(records)?;
        tail.buffered += 1;
        self.wake_flusher(&mut tail);
        Ok(JournalPosition(tail.buffered))
    }

    fn write_buffered(&mut self, buffered: JournalPosition) -> Result<(), StoreError> {
        let mut tail = lock(&self.tail);
        if tail.written >= buffered.0 {
            return Ok(());
        }
        tail.check()?;
        if tail.length >= self.shared.options.segment_bytes {
            Self::rotate(&self.shared, &mut self.number, &mut tail)?;
        }
        let keep_bytes = tail.frame.len();
        tail.flush(keep_bytes)
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        let mut tail = lock(&self.tail);
        tail.check()?;
        if tail.length >= self.shared.options.segment_bytes {
            Self::rotate(&self.shared, &mut self.number, &mut tail)?;
        }
        if tail.has_buffered() {
            let keep_bytes = tail.frame.len();
            tail.flush(keep_bytes)?;
            self.wake_flusher(&mut tail);
        } else if tail.has_failed_write {
            // With nothing to write, the journal would appear to work until the next reservation.
            tail.probe_free_space()?;
        }
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<(), StoreError> {
        let mut tail = lock(&self.tail);
        tail.check()?;
        if tail.has_buffered() {
            let keep_bytes = tail.frame.len();
            tail.flush(keep_bytes)?;
        }
        if tail.length > HEADER_BYTES as u64 {
            Self::rotate(&self.shared, &mut self.number, &mut tail)?;
        }
        Ok(())
    }

    fn journals_admissions(&self) -> bool {
        self.shared.options.groups.is_some()
    }

    /// The calls of a single node go to the ledger in this directory. A fleet has its ledger elsewhere.
    fn feeds_ledger(&self) -> bool {
        self.shared.options.source == BudgetSource::Caps
    }
}
