//! The journal of this node's books.
//!
//! What is written is with the system when [`write`](Journal::write) returns, so that it survives the end of this process,
//! however sudden. It is made durable, against the end of the machine, some milliseconds later for all that was written
//! meanwhile.
//!
//! What is noted waits for the next write and goes with it, in one call to the system; if none comes, the caretaker writes
//! it down. Whoever drops the journal has all of it written and made durable.
//!
//! When a segment is full, the next is begun and the writer takes the full ones into the books: their calls into the ledger,
//! their changes into the snapshot. Only when that is durable are they deleted. Whoever reserves does not wait for it.
//!
//! **When a write fails.** What was written in part is cut off again, because it would hide what comes after it; so a disk
//! that is full for a while is written to again when it has room. What was noted waits on, as far as a frame has room.
//!
//! **What it will not do.** It does not write behind what it could not cut off, or could not make durable: a system says
//! that once and forgets it. Nor does it grow for ever while the books cannot take it in. Everything is then refused until
//! the folder is opened again.

use super::Shared;
use super::caretaker::Caretaker;
use super::checkpoint;
use super::codec::STORE;
use super::folder::Folder;
use super::segment::{HEADER, close_frame, header, open_frame, segment_path};
use crate::books::{Journal, JournalRecord, Noted};
use crate::{StoreError, lock};
use seawall_core::budget::BudgetSource;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

/// So many segments in a row may fail to be taken into the books before nothing more is written.
const MOST_UNTAKEN: u64 = 16;
const TOO_MUCH: &str = "so much cannot be written to the journal at once";

/// Begins the file of a segment.
pub(super) fn create_segment(folder: &Folder, number: u64) -> io::Result<File> {
    let path = segment_path(folder.path(), number);
    let mut file = OpenOptions::new().append(true).create_new(true).open(&path)?;
    let mut begin = || {
        file.write_all(&header(number))?;
        file.sync_all()?;
        File::open(folder.path())?.sync_all()
    };
    if let Err(error) = begin() {
        // Nobody speaks of it yet, and it must not be in the way of the next try.
        let _ = fs::remove_file(&path);
        return Err(error);
    }
    Ok(file)
}

/// The end of the journal, where those who write and its caretaker meet.
#[derive(Debug)]
struct Tail {
    file: Arc<File>,
    length: u64,
    /// A frame that is open: what was noted and has not been written.
    frame: Vec<u8>,
    /// How long a frame is that holds nothing.
    empty: usize,
    /// How much was noted so far, and how much of that was written.
    noted: u64,
    written: u64,
    failed: Option<StoreError>,
    /// Something was written that a power cut would take back.
    is_unsynced: bool,
    /// Something that was written could not be made durable, in this segment or one before it.
    is_lost: bool,
    /// The caretaker looks here every few milliseconds.
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
            is_unsynced: false,
            is_lost: false,
            is_watched: false,
        }
    }

    /// Whether anything may be written.
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

    /// Nothing is written from now on.
    fn fail(&mut self, error: StoreError) -> StoreError {
        self.failed = Some(error.clone());
        error
    }

    /// Puts records into the open frame. Whether they fit; if not, nothing has changed.
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

    /// Puts records into the open frame, behind what was noted. Where there is no room for both, that is written first. Returns
    /// how long what was noted is.
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

    /// Writes the open frame with one call. Of one that cannot be written, the first `kept` bytes wait on.
    fn flush(&mut self, kept: usize) -> Result<(), StoreError> {
        if !close_frame(&mut self.frame, 0) {
            self.frame.truncate(kept);
            return Err(StoreError::broken(STORE, TOO_MUCH));
        }
        if let Err(error) = (&*self.file).write_all(&self.frame) {
            self.frame.truncate(kept);
            let error = away(&error);
            let is_whole = self.file.set_len(self.length).is_ok();
            return Err(if is_whole { error } else { self.fail(error) });
        }
        self.length = self.length.saturating_add(self.frame.len() as u64);
        self.frame.truncate(self.empty);
        self.written = self.noted;
        self.is_unsynced = true;
        Ok(())
    }

    /// Writes what was noted. What cannot be written waits for the next who tries; in the end it is charged at its worst.
    fn flush_notes(&mut self) {
        if self.has_notes() && self.check().is_ok() {
            let _ = self.flush(self.frame.len());
        }
    }
}

/// The journal of this node's books. There is one for a folder.
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

    /// Whether something was noted or written that a power cut would take back.
    #[cfg(test)]
    pub(super) fn is_unsynced(&self) -> bool {
        let tail = lock(&self.tail);
        tail.is_unsynced || tail.has_notes()
    }

    /// Nobody looks after the end of the journal from now on.
    #[cfg(test)]
    pub(super) fn dismiss_caretaker(&mut self) {
        self.caretaker = Caretaker::start(|_| false);
    }

    /// Goes on with this file in the place of the present segment.
    #[cfg(test)]
    pub(super) fn put_segment(&mut self, file: File) {
        let mut tail = lock(&self.tail);
        tail.file = Arc::new(file);
        tail.length = HEADER as u64;
    }

    /// Has the caretaker look at the end of the journal, if it does not.
    fn watch(&self, tail: &mut Tail) {
        if !tail.is_watched {
            tail.is_watched = true;
            self.caretaker.call();
        }
    }

    /// Begins the next segment and has the writer take the full ones into the books.
    fn rotate(shared: &Shared, number: &mut u64, tail: &mut Tail) -> Result<(), StoreError> {
        if shared.untaken.load(std::sync::atomic::Ordering::Acquire) >= MOST_UNTAKEN {
            return Err(StoreError::away(STORE, "the journal is full: the books cannot take it in"));
        }
        // The end of a segment that has a successor must be whole. Asked again, the system would say that it is.
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

/// Writes what was noted and, if that is due, makes all of it durable. Whether there is or was anything; if not, nobody need
/// look again before he is called.
fn look(tail: &Mutex<Tail>, is_due: bool) -> bool {
    let mut end = lock(tail);
    end.flush_notes();
    if !end.is_unsynced {
        end.is_watched = false;
        return false;
    }
    if is_due {
        // First the mark, then the work: what is written during the work is marked again.
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
        }
        Ok(())
    }

    fn keeps_counts(&self) -> bool {
        self.shared.options.groups.is_some()
    }

    /// The calls of a node that is alone come into this folder's ledger. A fleet has its ledger elsewhere.
    fn feeds_ledger(&self) -> bool {
        self.shared.options.source == BudgetSource::Caps
    }
}

impl Drop for EmbeddedJournal {
    fn drop(&mut self) {
        // The caretaker, who ends with it, makes it durable.
        lock(&self.tail).flush_notes();
    }
}
