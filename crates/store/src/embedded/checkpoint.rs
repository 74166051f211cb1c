//! From the journal into the books.
//!
//! A checkpoint reads full segments, posts their calls, brings the snapshot up to them, and says in the same transaction
//! from which segment on the journal is to be read. Before that is durable nothing is deleted; afterwards what is left over
//! is deleted whenever it is found. Opening a folder is a checkpoint, too, after which nothing is open.

use super::counts::Counts;
use super::folder::{Folder, FoundBooks, put_header};
use super::intake::Intake;
use super::refusal::OpenError;
use super::rows::{Batch, View, failure, guarded};
use super::segment::{self, SegmentText, segment_path};
use super::shadow::Shadow;
use super::writer::begin;
use super::{EmbeddedOptions, Shared};
use crate::usage::UsageEvent;
use crate::{StoreError, lock};
use redb::Database;
use seawall_core::budget::BudgetBook;
use seawall_core::time::UtcTime;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// So many calls are put in order together.
const TOGETHER: usize = 4_096;

/// Has the writer take every segment before this one into the books, and delete it then.
pub(super) fn order(shared: &Shared, next: u64) {
    let folder = shared.folder.path().to_path_buf();
    let gone = folder.clone();
    let options = EmbeddedOptions { groups: lock(&shared.groups).clone(), ..shared.options.clone() };
    let untaken = Arc::clone(&shared.untaken);
    let reply = move |outcome: Result<(), StoreError>| {
        if outcome.is_ok() {
            untaken.store(0, Ordering::Release);
            delete_before(&gone, next);
        } else {
            // The segments are still there. They are read with the next, or when the folder is opened.
            untaken.fetch_add(1, Ordering::AcqRel);
        }
    };
    shared.writer.write_then(move |batch, _| take_in(batch, &folder, &options, next), reply);
}

fn take_in(
    batch: &mut Batch<'_>,
    folder: &Path,
    options: &EmbeddedOptions,
    next: u64,
) -> Result<(), StoreError> {
    let mut shadow = Shadow::load(batch, options)?;
    let mut intake = Intake::new(batch, next)?;
    let mut events = Vec::new();
    for number in shadow.first_segment()..next {
        let path = segment_path(folder, number);
        let mut failed = Ok(());
        let read = segment::each_frame(&path, number, |frame| {
            shadow.replay(&path, frame, &mut events)?;
            if events.len() >= TOGETHER && failed.is_ok() {
                failed = intake.add(batch, &mut events);
            }
            Ok(())
        });
        read.map_err(|error| StoreError::broken(super::codec::STORE, error))?;
        failed?;
    }
    intake.add(batch, &mut events)?;
    intake.write(batch)?;
    shadow.save(batch, next, None)
}

/// Deletes segments that have been taken into the books. One that stays is deleted the next time.
pub(super) fn delete_before(folder: &Path, next: u64) {
    for number in segment::list(folder).unwrap_or_default() {
        if number < next {
            let _ = fs::remove_file(segment_path(folder, number));
        }
    }
}

/// What a folder held when it was opened.
#[derive(Debug)]
pub(super) struct Recovery {
    shadow: Shadow,
    events: Vec<UsageEvent>,
    last: Option<u64>,
    pub(super) replayed: usize,
    pub(super) cut: Option<(PathBuf, u64)>,
}

impl Recovery {
    /// Reads the snapshot and all that was written after it. Changes nothing.
    pub(super) fn read(
        folder: &Folder,
        books: &FoundBooks,
        segments: &[u64],
        options: &EmbeddedOptions,
    ) -> Result<Self, OpenError> {
        let damaged = |error: StoreError| OpenError::damaged(&books.path, error);
        let shadow = guarded(|| Shadow::load(&mut View::new(&books.database)?, options)).map_err(damaged)?;
        let first = shadow.first_segment();
        let last = segments.last().copied();
        let mut recovery = Self { shadow, events: Vec::new(), last, replayed: 0, cut: None };
        // No segment is ever missing: the first is made before the books speak of it.
        let end =
            last.map_or(first, |last| last.saturating_add(1)).max(first.saturating_add(u64::from(first > 0)));
        for number in first.max(1)..end {
            if segments.binary_search(&number).is_err() {
                return Err(OpenError::damaged(&segment_path(folder.path(), number), "it is gone"));
            }
        }
        let texts = recovery.texts(folder, first.max(1)..end)?;
        let is_used = texts.iter().any(|(_, text)| text.frames().next().is_some());
        recovery
            .shadow
            .take_source(options, is_used)
            .map_err(|found| OpenError::other_source(&books.path, found, options.source))?;
        for (path, text) in texts {
            if text.cut > 0 {
                recovery.cut = Some((path.clone(), text.cut));
            }
            for frame in text.frames() {
                recovery.replayed += recovery.shadow.replay(&path, frame, &mut recovery.events)?;
            }
        }
        Ok(recovery)
    }

    /// Reads segments, the last first: only behind the last record there is may something be cut short. There can be empty
    /// segments behind that one, of processes that were stopped while they opened the folder.
    fn texts(
        &self,
        folder: &Folder,
        numbers: std::ops::Range<u64>,
    ) -> Result<Vec<(PathBuf, SegmentText)>, OpenError> {
        let mut texts = Vec::new();
        let mut is_last = true;
        for number in numbers.rev() {
            let path = segment_path(folder.path(), number);
            let text = segment::read(&path, number, is_last)?;
            // The segment that the books go on with was whole before they spoke of it.
            if number == self.shadow.first_segment() && !text.has_header() {
                let reason = "the books go on with this segment of the journal, and it has been emptied: what was \
                              reserved since they were last brought up to date is lost";
                return Err(OpenError::damaged(&path, reason));
            }
            is_last &= text.frames().next().is_none();
            texts.push((path, text));
        }
        texts.reverse();
        Ok(texts)
    }

    /// Charges what was under way at its worst.
    pub(super) fn charge_open(&mut self, now: UtcTime) -> Vec<UsageEvent> {
        let charged = self.shadow.charge_open(now);
        self.events.extend(charged.iter().cloned());
        charged
    }

    /// The number of the segment to begin.
    pub(super) fn next_segment(&self) -> u64 {
        self.last.map_or(0, |last| last.max(self.shadow.first_segment())).saturating_add(1)
    }

    /// Makes all of it durable. Before that, opening the folder again comes to the same; after it, there is nothing left
    /// to do.
    pub(super) fn commit(&mut self, database: &Database, next: u64, now: UtcTime) -> Result<(), StoreError> {
        let transaction = begin(database)?;
        let mut batch = Batch::new(&transaction);
        put_header(&mut batch)?;
        let mut intake = Intake::new(&mut batch, next)?;
        intake.add(&mut batch, &mut self.events)?;
        intake.write(&mut batch)?;
        self.shadow.save(&mut batch, next, Some(now))?;
        drop(batch);
        transaction.commit().map_err(failure)
    }

    pub(super) fn into_parts(self) -> (BudgetBook, Counts) {
        self.shadow.into_parts()
    }
}
