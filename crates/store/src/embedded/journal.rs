//! The journal of this node's books.
//!
//! What is written is with the system when [`write`](Journal::write) returns, so that it survives the end of this process,
//! however sudden. It is made durable, against the end of the machine, a few milliseconds later for all that was written
//! meanwhile.
//!
//! When a segment is full, the next is begun and the writer takes the full ones into the books: their calls into the ledger,
//! their changes into the snapshot. Only when that is durable are they deleted. Whoever reserves does not wait for it.
//!
//! **When a write fails.** What was written in part is cut off again, because it would hide what comes after it; so a disk
//! that is full for a while is written to again when it has room.
//!
//! **What it will not do.** It does not write behind what it could not cut off, or could not make durable: a system says
//! that once and forgets it. Nor does it grow for ever while the books cannot take it in. Everything is then refused until
//! the folder is opened again.

use super::Shared;
use super::checkpoint;
use super::codec::STORE;
use super::folder::Folder;
use super::segment::{HEADER, close_frame, header, open_frame, segment_path};
use super::writer::{Sync, SyncBell};
use crate::StoreError;
use crate::books::{Journal, JournalRecord};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// So many segments in a row may fail to be taken into the books before nothing more is written.
const MOST_UNTAKEN: u64 = 16;

/// What the writer makes durable.
#[derive(Debug)]
pub(super) struct Segment {
    file: File,
    is_unsynced: AtomicBool,
}

impl Segment {
    pub(super) fn create(folder: &Folder, number: u64) -> io::Result<Self> {
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
        Ok(Self::new(file))
    }

    const fn new(file: File) -> Self {
        Self { file, is_unsynced: AtomicBool::new(false) }
    }

    fn sync(&self, has_failed: &AtomicBool) {
        // First the mark, then the work: what is written during the work is marked again.
        if self.is_unsynced.swap(false, Ordering::AcqRel) && self.file.sync_data().is_err() {
            has_failed.store(true, Ordering::Release);
        }
    }
}

/// The journal of this node's books. There is one for a folder.
#[derive(Debug)]
pub struct EmbeddedJournal {
    segment: Arc<Segment>,
    number: u64,
    length: u64,
    failed: Option<StoreError>,
    /// Something that was written could not be made durable, in this segment or one before it.
    is_lost: Arc<AtomicBool>,
    buffer: Vec<u8>,
    record: Vec<u8>,
    bell: SyncBell,
    shared: Arc<Shared>,
}

impl EmbeddedJournal {
    pub(super) fn new(shared: &Arc<Shared>, segment: Segment, number: u64) -> Self {
        Self {
            segment: Arc::new(segment),
            number,
            length: HEADER as u64,
            failed: None,
            is_lost: Arc::new(AtomicBool::new(false)),
            buffer: Vec::new(),
            record: Vec::new(),
            bell: shared.writer.bell(),
            shared: Arc::clone(shared),
        }
    }

    /// Whether something was written that a power cut would take back.
    #[cfg(test)]
    pub(super) fn is_unsynced(&self) -> bool {
        self.segment.is_unsynced.load(Ordering::Acquire)
    }

    /// Goes on with this file in the place of the present segment.
    #[cfg(test)]
    pub(super) fn put_segment(&mut self, file: File) {
        self.segment = Arc::new(Segment::new(file));
        self.length = HEADER as u64;
    }

    /// Begins the next segment and has the writer take the full ones into the books.
    fn rotate(&mut self) -> Result<(), StoreError> {
        if self.shared.untaken.load(Ordering::Acquire) >= MOST_UNTAKEN {
            return Err(StoreError::away(STORE, "the journal is full: the books cannot take it in"));
        }
        // The end of a segment that has a successor must be whole. Asked again, the system would say that it is.
        if let Err(error) = self.segment.file.sync_data() {
            return Err(self.fail(away(&error)));
        }
        let number = self.number.saturating_add(1);
        let segment = Segment::create(&self.shared.folder, number).map_err(|error| away(&error))?;
        self.segment = Arc::new(segment);
        self.number = number;
        self.length = HEADER as u64;
        checkpoint::order(&self.shared, self.number);
        Ok(())
    }

    /// Nothing is written from now on.
    fn fail(&mut self, error: StoreError) -> StoreError {
        self.failed = Some(error.clone());
        error
    }

    fn append(&mut self, records: &[JournalRecord]) -> Result<(), StoreError> {
        self.buffer.clear();
        let start = open_frame(&mut self.buffer);
        for record in records {
            self.record.clear();
            record.encode(&mut self.record);
            let length = u32::try_from(self.record.len()).unwrap_or(u32::MAX);
            self.buffer.extend(length.to_be_bytes());
            self.buffer.extend_from_slice(&self.record);
        }
        if !close_frame(&mut self.buffer, start) {
            return Err(StoreError::broken(STORE, "so much cannot be written to the journal at once"));
        }
        if self.length >= self.shared.options.segment {
            self.rotate()?;
        }
        if let Err(error) = (&self.segment.file).write_all(&self.buffer) {
            let error = away(&error);
            let is_whole = self.segment.file.set_len(self.length).is_ok();
            return Err(if is_whole { error } else { self.fail(error) });
        }
        self.length = self.length.saturating_add(self.buffer.len() as u64);
        if !self.segment.is_unsynced.swap(true, Ordering::AcqRel) {
            let (segment, is_lost) = (Arc::clone(&self.segment), Arc::clone(&self.is_lost));
            let sync: Sync = Arc::new(move || segment.sync(&is_lost));
            self.bell.ring(sync);
        }
        Ok(())
    }
}

fn away(error: &io::Error) -> StoreError {
    StoreError::away(STORE, format_args!("the journal: {error}"))
}

impl Journal for EmbeddedJournal {
    fn write(&mut self, records: &[JournalRecord]) -> Result<(), StoreError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        if self.is_lost.load(Ordering::Acquire) {
            return Err(StoreError::away(STORE, "the journal could not be made durable"));
        }
        if records.is_empty() {
            return Ok(());
        }
        self.append(records)
    }
}
