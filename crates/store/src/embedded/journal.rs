//! The write-ahead journal of this node's books.
//!
//! When [`write`](Journal::write) returns, the records are with the operating system, so that they survive the end of
//! this process, however sudden. They are synced some milliseconds later, together with all that was written meanwhile;
//! only then do they survive a power cut.
//!
//! Noted records wait for the next write and are written with it, in one system call; if none comes, the flusher writes
//! them. Dropping the journal writes and syncs everything.
//!
//! When a segment is full, the next one is created, and the writer applies the full ones to the database: their calls
//! to the ledger, their changes to the snapshot. They are deleted only when that is durable. Reservations do not wait
//! for it.
//!
//! **When a write fails.** A partial write is truncated, because it would hide what comes after it; so a disk that was
//! full for a while is used again when it has room. Noted records stay buffered, as far as a frame has room.
//!
//! **What it does not do.** It does not write after a partial write that could not be truncated, or after a failed
//! sync: an operating system reports a failed sync once and then forgets it. Nor does it grow without bound while the
//! database cannot be written. Every write then fails until the directory is opened again.

use super::Shared;
use super::caretaker::Caretaker;
use super::checkpoint;
use super::codec::STORE;
use super::folder::{Folder, PRIVATE_FILE};
use super::segment::{HEADER, close_frame, header, open_frame, segment_path};
use crate::books::{Journal, JournalRecord, Noted};
use crate::{StoreError, lock};
use seawall_core::budget::BudgetSource;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::{Arc, Mutex};

/// The most segments in a row whose checkpoint may fail before the journal stops accepting writes.
const MOST_UNTAKEN: u64 = 16;
/// How much free space there must be after a failed write before further writes are tried.
const ROOM: [u8; 1 << 14] = [0; 1 << 14];
const TOO_MUCH: &str = "so much cannot be written to the journal at once";

/// Creates the file of a segment.
pub(super) fn create_segment(folder: &Folder, number: u64) -> io::Result<File> {
    let path = segment_path(folder.path(), number);
    let mut file = OpenOptions::new().append(true).create_new(true).mode(PRIVATE_FILE).open(&path)?;
    let mut begin = || {
        file.write_all(&header(number))?;
        file.sync_all()?;
        File::open(folder.path())?.sync_all()
    };
    if let Err(error) = begin() {
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
    /// The open frame: records that were noted and not written.
    frame: Vec<u8>,
    /// The length of an empty frame.
    empty: usize,
    /// How many records were noted so far, and how many of them were written.
    noted: u64,
    written: u64,
    failed: Option<StoreError>,
    /// The last write failed, and its partial data could be truncated.
    is_refused: bool,
    /// Something was written that a power cut would lose.
    is_unsynced: bool,
    /// A sync failed, in this segment or an earlier one.
    is_lost: bool,
    /// The flusher is making passes.
    is_watched: bool,
}

impl Tail {
    fn new(file: File) -> Self {
        let mut frame = Vec::new();
        let start = open_frame(&mut frame);
        let empty = frame.len() - start;
        let (length, file) = (HEADER as u64, Arc::new(file));
        Self {
            file,
            length,
            frame,
            empty,
            noted: 0,
            written: 0,
            failed: None,
            is_refused: false,
            is_unsynced: false,
            is_lost: false,
            is_watched: false,
        }
    }

    /// Fails if nothing may be written any more.
    fn check(&self) -> Result<(), StoreError> {
        match &self.failed {
            Some(error) => Err(error.clone()),
            None if self.is_lost => Err(StoreError::away(STORE, "the journal could not be made durable")),
            None => Ok(()),
        }
    }

    const fn has_notes(&self) -> bool {
        self.frame.len() > self.empty
    }

    /// Refuses all writes from now on.
    fn fail(&mut self, error: StoreError) -> StoreError {
        self.failed = Some(error.clone());
        error
    }

    /// Adds records to the open frame. Returns whether they fit; if not, nothing has changed.
    fn put(&mut self, records: &[JournalRecord]) -> bool {
        let before = self.frame.len();
        for record in records {
            let start = self.frame.len();
            self.frame.extend([0; 4]);
            record.encode(&mut self.frame);
            let length = u32::try_from(self.frame.len() - start - 4).unwrap_or(u32::MAX);
            if let Some(place) = self.frame.get_mut(start..start + 4) {
                place.copy_from_slice(&length.to_be_bytes());
            }
        }
        let fits = self.frame.len() - self.empty <= super::segment::MOST_IN_A_FRAME;
        if !fits {
            self.frame.truncate(before);
        }
        fits
    }

    /// Adds records to the open frame, after those that were noted. If both do not fit, the noted ones are written
    /// first. Returns the length of the noted records in the frame.
    fn put_after_notes(&mut self, records: &[JournalRecord]) -> Result<usize, StoreError> {
        let noted = self.frame.len();
        if self.put(records) {
            return Ok(noted);
        }
        if self.has_notes() {
            self.flush(noted)?;
        }
        let is_put = self.put(records);
        if is_put { Ok(self.empty) } else { Err(StoreError::broken(STORE, TOO_MUCH)) }
    }

    /// Writes the open frame with one system call. If that fails, its first `kept` bytes stay buffered.
    fn flush(&mut self, kept: usize) -> Result<(), StoreError> {
        if !close_frame(&mut self.frame, 0) {
            self.frame.truncate(kept);
            return Err(StoreError::broken(STORE, TOO_MUCH));
        }
        if let Err(error) = (&*self.file).write_all(&self.frame) {
            self.frame.truncate(kept);
            self.is_refused = true;
            let error = away(&error);
            let is_whole = self.file.set_len(self.length).is_ok();
            return Err(if is_whole { error } else { self.fail(error) });
        }
        self.is_refused = false;
        self.length = self.length.saturating_add(self.frame.len() as u64);
        self.frame.truncate(self.empty);
        self.written = self.noted;
        self.is_unsynced = true;
        Ok(())
    }

    /// Tests whether the disk has room again: writes zeros and truncates them. If the process ends in between, recovery
    /// truncates them, too.
    fn look_for_room(&mut self) -> Result<(), StoreError> {
        let written = (&*self.file).write_all(&ROOM);
        if let Err(error) = self.file.set_len(self.length) {
            return Err(self.fail(away(&error)));
        }
        written.map_err(|error| away(&error))?;
        self.is_refused = false;
        Ok(())
    }

    /// Writes the noted records. If that fails, they wait for the next attempt; calls whose end is never written are
    /// charged at their worst-case cost.
    fn flush_notes(&mut self) {
        if self.has_notes() && self.check().is_ok() {
            let _ = self.flush(self.frame.len());
        }
    }
}

/// The journal of this node's books. A data directory has exactly one.
#[derive(Debug)]
pub struct EmbeddedJournal {
    tail: Arc<Mutex<Tail>>,
    number: u64,
    caretaker: Caretaker,
    shared: Arc<Shared>,
}

impl EmbeddedJournal {
    pub(super) fn new(shared: &Arc<Shared>, file: File, number: u64) -> Self {
        let tail = Arc::new(Mutex::new(Tail::new(file)));
        let looked_at = Arc::clone(&tail);
        let caretaker = Caretaker::start(move |is_due| look(&looked_at, is_due));
        Self { tail, number, caretaker, shared: Arc::clone(shared) }
    }

    /// Whether something was noted or written that a power cut would lose.
    #[cfg(test)]
    pub(super) fn is_unsynced(&self) -> bool {
        let tail = lock(&self.tail);
        tail.is_unsynced || tail.has_notes()
    }

    /// Stops the flusher.
    #[cfg(test)]
    pub(super) fn dismiss_caretaker(&mut self) {
        self.caretaker = Caretaker::start(|_| false);
    }

    /// Replaces the file of the current segment.
    #[cfg(test)]
    pub(super) fn put_segment(&mut self, file: File) {
        let mut tail = lock(&self.tail);
        tail.file = Arc::new(file);
        tail.length = HEADER as u64;
    }

    /// Wakes the flusher, unless it is making passes.
    fn watch(&self, tail: &mut Tail) {
        if !tail.is_watched {
            tail.is_watched = true;
            self.caretaker.call();
        }
    }

    /// Starts the next segment and orders a checkpoint of the full ones.
    fn rotate(shared: &Shared, number: &mut u64, tail: &mut Tail) -> Result<(), StoreError> {
        if shared.untaken.load(std::sync::atomic::Ordering::Acquire) >= MOST_UNTAKEN {
            return Err(StoreError::away(STORE, "the journal is full: the books cannot take it in"));
        }
        // A segment with a successor must be complete. If the sync were retried, the system would report success.
        if let Err(error) = tail.file.sync_data() {
            return Err(tail.fail(away(&error)));
        }
        let next = number.saturating_add(1);
        tail.file = Arc::new(create_segment(&shared.folder, next).map_err(|error| away(&error))?);
        tail.length = HEADER as u64;
        tail.is_unsynced = false;
        *number = next;
        checkpoint::order(shared, next);
        Ok(())
    }
}

/// One pass of the flusher: writes the noted records and, if due, syncs. Returns whether anything was written since the
/// last sync; if not, no further pass is needed before the next call.
fn look(tail: &Mutex<Tail>, is_due: bool) -> bool {
    let mut end = lock(tail);
    end.flush_notes();
    if !end.is_unsynced {
        end.is_watched = false;
        return false;
    }
    if is_due {
        // The flag is cleared before the sync, so that writes during the sync set it again.
        end.is_unsynced = false;
        let file = Arc::clone(&end.file);
        drop(end);
        if file.sync_data().is_err() {
            lock(tail).is_lost = true;
        }
    }
    true
}

fn away(error: &io::Error) -> StoreError {
    StoreError::away(STORE, format_args!("the journal: {error}"))
}

impl Journal for EmbeddedJournal {
    fn write(&mut self, records: &[JournalRecord]) -> Result<(), StoreError> {
        let mut tail = lock(&self.tail);
        tail.check()?;
        if records.is_empty() {
            return Ok(());
        }
        if tail.length >= self.shared.options.segment {
            Self::rotate(&self.shared, &mut self.number, &mut tail)?;
        }
        let kept = tail.put_after_notes(records)?;
        tail.flush(kept)?;
        self.watch(&mut tail);
        Ok(())
    }

    fn note(&mut self, records: &[JournalRecord]) -> Result<Noted, StoreError> {
        let mut tail = lock(&self.tail);
        tail.check()?;
        tail.put_after_notes(records)?;
        tail.noted += 1;
        self.watch(&mut tail);
        Ok(Noted(tail.noted))
    }

    fn write_noted(&mut self, noted: Noted) -> Result<(), StoreError> {
        let mut tail = lock(&self.tail);
        if tail.written >= noted.0 {
            return Ok(());
        }
        tail.check()?;
        if tail.length >= self.shared.options.segment {
            Self::rotate(&self.shared, &mut self.number, &mut tail)?;
        }
        let kept = tail.frame.len();
        tail.flush(kept)
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        let mut tail = lock(&self.tail);
        tail.check()?;
        if tail.length >= self.shared.options.segment {
            Self::rotate(&self.shared, &mut self.number, &mut tail)?;
        }
        if tail.has_notes() {
            let kept = tail.frame.len();
            tail.flush(kept)?;
            self.watch(&mut tail);
        } else if tail.is_refused {
            // With nothing to write, the journal would appear to work until the next reservation.
            tail.look_for_room()?;
        }
        Ok(())
    }

    fn keeps_counts(&self) -> bool {
        self.shared.options.groups.is_some()
    }

    /// The calls of a single node go to the ledger in this directory. A fleet has its ledger elsewhere.
    fn feeds_ledger(&self) -> bool {
        self.shared.options.source == BudgetSource::Caps
    }
}

impl Drop for EmbeddedJournal {
    fn drop(&mut self) {
        // The flusher, which is dropped with the journal, syncs it.
        lock(&self.tail).flush_notes();
    }
}
