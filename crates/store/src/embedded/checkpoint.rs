//! Checkpoints: applies the journal to the database.
//!
//! A checkpoint reads full segments, posts their calls, brings the snapshot up to date, and records in the same
//! transaction from which segment on the journal has to be replayed. No segment is deleted before that is durable;
//! afterwards, leftovers are deleted whenever they are found. Opening a data directory is a checkpoint, too, after
//! which no reservation is open.

use super::counts::JournaledCounts;
use super::data_dir::{DataDir, ValidatedDatabase, migrate_format};
use super::import::LedgerImport;
use super::open_error::OpenError;
use super::replica::LedgerReplica;
use super::rows::{Batch, View, catch_panic, store_error};
use super::segment::{self, SegmentContent, segment_path};
use super::writer::begin;
use super::{EmbeddedOptions, EmbeddedState};
use crate::usage::UsageEvent;
use crate::{StoreError, lock};
use redb::Database;
use seawall_core::budget::BudgetLedger;
use seawall_core::time::UtcTime;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The number of calls that are sorted together.
const CALLS_PER_SORT: usize = 4_096;

/// Schedules a checkpoint of every segment before this one. These segments are then deleted.
pub(super) fn schedule(shared: &EmbeddedState, next: u64) {
    shared.scheduled.store(next, Ordering::Release);
    schedule_segments(shared, next, 1);
}

/// Repeats a checkpoint that failed. The segments were already counted as pending.
pub(super) fn reschedule(shared: &EmbeddedState) {
    schedule_segments(shared, shared.scheduled.load(Ordering::Acquire), 0);
}

fn schedule_segments(shared: &EmbeddedState, next: u64, segments: u64) {
    let data_dir = shared.data_dir.path().to_path_buf();
    let deleted_from = data_dir.clone();
    let options = EmbeddedOptions { groups: lock(&shared.groups).clone(), ..shared.options.clone() };
    let failed_checkpoints = Arc::clone(&shared.failed_checkpoints);
    let reply = move |outcome: Result<(), StoreError>| {
        if outcome.is_ok() {
            failed_checkpoints.store(0, Ordering::Release);
            delete_before(&deleted_from, next);
        } else {
            // The segments are still there. They are read by the next checkpoint, or when the directory is opened.
            failed_checkpoints.fetch_add(segments, Ordering::AcqRel);
        }
    };
    shared.writer.write_then(move |batch, _| apply_segments(batch, &data_dir, &options, next), reply);
}

fn apply_segments(
    batch: &mut Batch<'_>,
    data_dir: &Path,
    options: &EmbeddedOptions,
    next: u64,
) -> Result<(), StoreError> {
    let mut replica = LedgerReplica::load(batch, options)?;
    let mut import = LedgerImport::new(batch, next)?;
    let mut events = Vec::new();
    for number in replica.first_segment()..next {
        let path = segment_path(data_dir, number);
        let mut failed = Ok(());
        let read = segment::for_each_frame(&path, number, |frame| {
            replica.replay(&path, frame, &mut events)?;
            if events.len() >= CALLS_PER_SORT && failed.is_ok() {
                failed = import.add(batch, &mut events);
            }
            Ok(())
        });
        read.map_err(|error| StoreError::failed(super::codec::STORE, error))?;
        failed?;
    }
    import.add(batch, &mut events)?;
    import.write(batch)?;
    replica.save(batch, next, None)
}

/// Deletes segments that a checkpoint has covered. If that fails, the next checkpoint deletes them.
pub(super) fn delete_before(data_dir: &Path, next: u64) {
    for number in segment::list(data_dir).unwrap_or_default() {
        if number < next {
            let _ = fs::remove_file(segment_path(data_dir, number));
        }
    }
}

/// The state of a data directory when it was opened.
#[derive(Debug)]
pub(super) struct Recovery {
    replica: LedgerReplica,
    events: Vec<UsageEvent>,
    last_segment: Option<u64>,
    pub(super) replayed: usize,
    pub(super) truncated: Option<(PathBuf, u64)>,
}

impl Recovery {
    /// Reads the snapshot and replays the journal after it. Modifies nothing.
    pub(super) fn read(
        data_dir: &DataDir,
        database: &ValidatedDatabase,
        segments: &[u64],
        options: &EmbeddedOptions,
    ) -> Result<Self, OpenError> {
        let damaged = |error: StoreError| OpenError::damaged(&database.path, error);
        let replica = catch_panic(|| LedgerReplica::load(&mut View::new(&database.database)?, options))
            .map_err(damaged)?;
        let first = replica.first_segment();
        let last_segment = segments.last().copied();
        let mut recovery = Self { replica, events: Vec::new(), last_segment, replayed: 0, truncated: None };
        // No segment can be missing, because a segment is created before the database refers to it.
        let end_segment = last_segment
            .map_or(first, |last| last.saturating_add(1))
            .max(first.saturating_add(u64::from(first > 0)));
        for number in first.max(1)..end_segment {
            if segments.binary_search(&number).is_err() {
                return Err(OpenError::damaged(
                    &segment_path(data_dir.path(), number),
                    "the segment is missing",
                ));
            }
        }
        let contents = recovery.read_segments(data_dir, first.max(1)..end_segment)?;
        let has_records = contents.iter().any(|(_, content)| content.frames().next().is_some());
        recovery
            .replica
            .set_source(options, has_records)
            .map_err(|source| OpenError::source_mismatch(&database.path, source, options.source))?;
        for (path, content) in contents {
            if content.truncated > 0 {
                recovery.truncated = Some((path.clone(), content.truncated));
            }
            for frame in content.frames() {
                recovery.replayed += recovery.replica.replay(&path, frame, &mut recovery.events)?;
            }
        }
        Ok(recovery)
    }

    /// Reads segments, the last first: only the end of the last written segment may be truncated. Empty segments may
    /// follow it, left by processes that were stopped while they opened the directory.
    fn read_segments(
        &self,
        data_dir: &DataDir,
        numbers: std::ops::Range<u64>,
    ) -> Result<Vec<(PathBuf, SegmentContent)>, OpenError> {
        let mut contents = Vec::new();
        let mut is_last = true;
        for number in numbers.rev() {
            let path = segment_path(data_dir.path(), number);
            let content = segment::read(&path, number, is_last)?;
            // The segment from which replay starts was complete before the database referred to it.
            if number == self.replica.first_segment() && !content.has_header() {
                let reason = "the journal is replayed from this segment, but the segment is empty: what was \
                              reserved since the last checkpoint is lost";
                return Err(OpenError::damaged(&path, reason));
            }
            is_last &= content.frames().next().is_none();
            contents.push((path, content));
        }
        contents.reverse();
        Ok(contents)
    }

    /// Charges the calls that were in flight at their maximum cost.
    pub(super) fn charge_open_reservations(&mut self, now: UtcTime) -> Vec<UsageEvent> {
        let charged = self.replica.charge_open_reservations(now);
        self.events.extend(charged.iter().cloned());
        charged
    }

    /// The number of the segment to create.
    pub(super) fn next_segment(&self) -> u64 {
        self.last_segment.map_or(0, |last| last.max(self.replica.first_segment())).saturating_add(1)
    }

    /// Makes the recovery durable. It is idempotent: opening the directory again before the commit gives the same
    /// result, and after the commit nothing is left to do.
    pub(super) fn commit(&mut self, database: &Database, next: u64, now: UtcTime) -> Result<(), StoreError> {
        let transaction = begin(database)?;
        let mut batch = Batch::new(&transaction);
        migrate_format(&mut batch)?;
        let mut import = LedgerImport::new(&mut batch, next)?;
        import.add(&mut batch, &mut self.events)?;
        import.write(&mut batch)?;
        self.replica.save(&mut batch, next, Some(now))?;
        drop(batch);
        transaction.commit().map_err(store_error)
    }

    pub(super) fn into_parts(self) -> (BudgetLedger, JournaledCounts) {
        self.replica.into_parts()
    }
}
