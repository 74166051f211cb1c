//! Checkpoints: applies the journal to the database.
//!
//! A checkpoint reads full segments, posts their calls, brings the snapshot up to date, and records in the same
//! transaction from which segment on the journal has to be replayed. No segment is deleted before that is durable;
//! afterwards, leftovers are deleted whenever they are found. Opening a data directory is a checkpoint, too, after
//! which no reservation is open.

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

/// The number of calls that are sorted together.
const TOGETHER: usize = 4_096;

/// Orders a checkpoint of every segment before this one, which are then deleted.
pub(super) fn order(shared: &Shared, next: u64) {
    shared.ordered.store(next, Ordering::Release);
    order_counted(shared, next, 1);
}

/// Repeats a checkpoint that failed. The segments were already counted as pending.
pub(super) fn order_again(shared: &Shared) {
    order_counted(shared, shared.ordered.load(Ordering::Acquire), 0);
}

fn order_counted(shared: &Shared, next: u64, segments: u64) {
    let folder = shared.folder.path().to_path_buf();
    let gone = folder.clone();
    let options = EmbeddedOptions { groups: lock(&shared.groups).clone(), ..shared.options.clone() };
    let untaken = Arc::clone(&shared.untaken);
    let reply = move |outcome: Result<(), StoreError>| {
        if outcome.is_ok() {
            untaken.store(0, Ordering::Release);
            delete_before(&gone, next);
        } else {
            // The segments are still there. They are read by the next checkpoint, or when the directory is opened.
            untaken.fetch_add(segments, Ordering::AcqRel);
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

/// Deletes segments that a checkpoint has covered. If that fails, the next checkpoint deletes them.
pub(super) fn delete_before(folder: &Path, next: u64) {
    for number in segment::list(folder).unwrap_or_default() {
        if number < next {
            let _ = fs::remove_file(segment_path(folder, number));
        }
    }
}

/// The state of a data directory when it was opened.
#[derive(Debug)]
pub(super) struct Recovery {
    shadow: Shadow,
    events: Vec<UsageEvent>,
    last: Option<u64>,
    pub(super) replayed: usize,
    pub(super) cut: Option<(PathBuf, u64)>,
}

impl Recovery {
    /// Reads the snapshot and replays the journal after it. Modifies nothing.
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
        // No segment can be missing, because a segment is created before the database refers to it.
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

    /// Reads segments, the last first: only the end of the last written segment may be truncated. Empty segments may
    /// follow it, left by processes that were stopped while they opened the directory.
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
            // The segment from which replay starts was complete before the database referred to it.
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

    /// Charges the calls that were in flight at their worst-case cost.
    pub(super) fn charge_open(&mut self, now: UtcTime) -> Vec<UsageEvent> {
        let charged = self.shadow.charge_open(now);
        self.events.extend(charged.iter().cloned());
        charged
    }

    /// The number of the segment to create.
    pub(super) fn next_segment(&self) -> u64 {
        self.last.map_or(0, |last| last.max(self.shadow.first_segment())).saturating_add(1)
    }

    /// Makes the recovery durable. It is idempotent: opening the directory again before the commit gives the same
    /// result, and after the commit nothing is left to do.
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
