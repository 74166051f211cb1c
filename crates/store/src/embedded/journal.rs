//! The journal of this node's books.
//!
//! What is written is with the system when [`write`](Journal::write) returns, so that it survives the end of this process,
//! however sudden. It is made durable, against the end of the machine, a few milliseconds later for all that was written
//! meanwhile.
//!
//! When a segment is full, the next is begun and the writer takes the full ones into the books: their calls into the ledger,
//! their changes into the snapshot. Only when that is durable are they deleted. Whoever reserves does not wait for it.
//!
//! **What it will not do.** It does not write behind something that it could not write: after a failure everything is
//! refused until the folder is opened again, because what has been written in part would hide what comes after it.

use super::Shared;
use super::checkpoint;
use super::codec::STORE;
use super::folder::Folder;
use super::segment::{HEADER, close_frame, header, open_frame, segment_path};
use super::writer::{Sync, SyncBell};
use crate::StoreError;
use crate::books::{Journal, JournalRecord};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What the writer makes durable.
#[derive(Debug)]
pub(super) struct Segment {
    file: File,
    is_unsynced: AtomicBool,
    has_failed: AtomicBool,
}

impl Segment {
    pub(super) fn create(folder: &Folder, number: u64) -> io::Result<Self> {
        let path = segment_path(folder.path(), number);
        let mut file = OpenOptions::new().append(true).create_new(true).open(path)?;
        file.write_all(&header(number))?;
        file.sync_all()?;
        File::open(folder.path())?.sync_all()?;
        Ok(Self { file, is_unsynced: AtomicBool::new(false), has_failed: AtomicBool::new(false) })
    }

    fn sync(&self) {
        // First the mark, then the work: what is written during the work is marked again.
        if self.is_unsynced.swap(false, Ordering::AcqRel) && self.file.sync_data().is_err() {
            self.has_failed.store(true, Ordering::Release);
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

    /// Begins the next segment and has the writer take the full ones into the books.
    fn rotate(&mut self) -> io::Result<()> {
        // The end of a segment that has a successor must be whole.
        self.segment.file.sync_data()?;
        self.segment = Arc::new(Segment::create(&self.shared.folder, self.number + 1)?);
        self.number += 1;
        self.length = HEADER as u64;
        checkpoint::order(&self.shared, self.number);
        Ok(())
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
        let away = |error: io::Error| StoreError::away(STORE, format_args!("the journal: {error}"));
        if self.length >= self.shared.options.segment {
            self.rotate().map_err(away)?;
        }
        let written = (&self.segment.file).write_all(&self.buffer);
        if let Err(error) = written {
            let error = away(error);
            self.failed = Some(error.clone());
            return Err(error);
        }
        self.length = self.length.saturating_add(self.buffer.len() as u64);
        if !self.segment.is_unsynced.swap(true, Ordering::AcqRel) {
            let segment = Arc::clone(&self.segment);
            let sync: Sync = Arc::new(move || segment.sync());
            self.bell.ring(sync);
        }
        Ok(())
    }
}

impl Journal for EmbeddedJournal {
    fn write(&mut self, records: &[JournalRecord]) -> Result<(), StoreError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        if self.segment.has_failed.load(Ordering::Acquire) {
            return Err(StoreError::away(STORE, "the journal could not be made durable"));
        }
        if records.is_empty() {
            return Ok(());
        }
        self.append(records)
    }
}
