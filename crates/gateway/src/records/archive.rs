//! The directory of segments: appends records, finds one by its id, and deletes what is too old or too much.
//!
//! **Only the newest segment is appended to**, and a start begins a new one. A complete segment gets an index and is never
//! changed again. A process that was killed leaves a segment without an index, perhaps with half a record at its end: the
//! next start cuts that off and writes the index.
//!
//! **Records give way.** They share a disk with the ledger's journal, without which nothing is served. If little space is
//! left, the oldest segments are deleted, and after them nothing more is written.
//!
//! **What it does not do.** It does not make records durable: they survive the end of the process, not of the machine.

use super::index::SegmentIndex;
use super::segment::{MARKER, RecordFrame, frame_at, frames};
use crate::diagnostic;
use seawall_core::time::UtcTime;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Files and directories are for the owner alone, like the rest of the data directory.
const PRIVATE_FILE: u32 = 0o600;
const PRIVATE_DIRECTORY: u32 = 0o700;
/// The part of the file system that is left free, and the most that is.
const FREE_SHARE: u64 = 20;
const MAX_FREE: u64 = 1 << 30;
/// Segments per archive. More of them follow the limits more closely, and are slower to search.
const SEGMENTS: u64 = 64;
const MAX_SEGMENT: u64 = 16 << 20;
const MIN_SEGMENT: u64 = 64 << 10;

/// How much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ArchiveLimits {
    /// In bytes, indexes included.
    pub(crate) max_size: u64,
    pub(crate) max_age: Duration,
}

impl ArchiveLimits {
    fn segment_size(self) -> u64 {
        (self.max_size / SEGMENTS).clamp(MIN_SEGMENT, MAX_SEGMENT)
    }

    fn segment_age(self) -> Duration {
        self.max_age / 16
    }
}

/// A segment as it can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentSummary {
    /// Numbers grow with time.
    pub(super) number: u64,
    /// The intact bytes.
    pub(super) size: u64,
    /// The earliest and the latest end of a request, in nanoseconds since 1970.
    pub(super) oldest: u64,
    pub(super) newest: u64,
    /// The bytes on disk, with the index.
    stored: u64,
}

/// The records in one directory.
#[derive(Debug)]
pub(crate) struct RecordArchive {
    directory: PathBuf,
    limits: ArchiveLimits,
    state: Mutex<ArchiveState>,
}

#[derive(Debug, Default)]
struct ArchiveState {
    /// The oldest first.
    complete: Vec<SegmentSummary>,
    active: Option<ActiveSegment>,
    /// The number of the next segment.
    next: u64,
}

#[derive(Debug)]
struct ActiveSegment {
    file: File,
    number: u64,
    size: u64,
    frames: Vec<RecordFrame>,
}

impl ActiveSegment {
    fn summary(&self) -> SegmentSummary {
        let ends = || self.frames.iter().map(|frame| frame.ended);
        SegmentSummary {
            number: self.number,
            size: self.size,
            oldest: ends().min().unwrap_or_default(),
            newest: ends().max().unwrap_or_default(),
            stored: self.size,
        }
    }
}

impl RecordArchive {
    /// Opens or creates the directory. Segments that a killed process has left are repaired.
    pub(crate) fn open(directory: &Path, limits: ArchiveLimits) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(PRIVATE_DIRECTORY).create(directory)?;
        let mut numbers: Vec<u64> = Vec::new();
        for entry in fs::read_dir(directory)? {
            numbers.extend(segment_number(&entry?.path()));
        }
        numbers.sort_unstable();
        let archive = Self { directory: directory.to_owned(), limits, state: Mutex::default() };
        let next = numbers.last().map_or(1, |last| last.saturating_add(1));
        let complete = numbers.into_iter().filter_map(|number| archive.open_segment(number)).collect();
        *archive.lock() = ArchiveState { complete, active: None, next };
        Ok(archive)
    }

    fn lock(&self) -> MutexGuard<'_, ArchiveState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn segment_path(&self, number: u64) -> PathBuf {
        self.directory.join(format!("{number:020}.records"))
    }

    fn index_path(&self, number: u64) -> PathBuf {
        self.directory.join(format!("{number:020}.index"))
    }

    /// The segment of this number; `None` if it cannot be read, which is reported.
    fn open_segment(&self, number: u64) -> Option<SegmentSummary> {
        let stored = fs::metadata(self.segment_path(number)).ok()?.len();
        let index = self.read_index(number).filter(|index| index.segment_size <= stored);
        match index.map_or_else(|| self.repair(number, stored), Ok) {
            Ok(index) => Some(SegmentSummary {
                number,
                size: index.segment_size,
                oldest: index.oldest,
                newest: index.newest,
                stored: stored + index.to_bytes().len() as u64,
            }),
            Err(error) => {
                self.report_damage(number, &error.to_string());
                None
            }
        }
    }

    /// Makes the index of a segment that has none, and cuts off what is not intact at its end.
    fn repair(&self, number: u64, stored: u64) -> io::Result<SegmentIndex> {
        let bytes = fs::read(self.segment_path(number))?;
        let is_segment = bytes.starts_with(&MARKER);
        let found = if is_segment { frames(&bytes, MARKER.len()) } else { Vec::new() };
        let size = found.last().map_or(MARKER.len(), |frame| frame.range.end) as u64;
        if !is_segment {
            self.report_damage(number, "it is not a segment");
        } else if size < stored {
            let lost = stored - size;
            self.report_damage(
                number,
                &format!("the last {lost} bytes are no complete record and are cut off"),
            );
            OpenOptions::new().write(true).open(self.segment_path(number))?.set_len(size)?;
        }
        let index = SegmentIndex::of(&found, if is_segment { size } else { 0 });
        self.write_index(number, &index)?;
        Ok(index)
    }

    fn report_damage(&self, number: u64, reason: &str) {
        let path = self.segment_path(number);
        let path = path.display();
        diagnostic!(RECORDS_DAMAGED, path = %path, reason, "decision records in {path} are damaged: {reason}");
    }

    fn read_index(&self, number: u64) -> Option<SegmentIndex> {
        SegmentIndex::from_bytes(&fs::read(self.index_path(number)).ok()?)
    }

    fn write_index(&self, number: u64, index: &SegmentIndex) -> io::Result<()> {
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create(true)
            .truncate(true)
            .mode(PRIVATE_FILE)
            .open(self.index_path(number))?;
        file.write_all(&index.to_bytes())
    }

    /// Appends frames that [`append_frame`](super::segment::append_frame) has made, all or none of them.
    pub(crate) fn append(&self, batch: &[u8], now: UtcTime) -> io::Result<()> {
        let mut state = self.lock();
        self.make_room(&mut state)?;
        let is_full = |active: &ActiveSegment| {
            let age = active.frames.first().map_or(0, |first| now.as_nanos().saturating_sub(first.ended));
            active.size >= self.limits.segment_size()
                || Duration::from_nanos(age) >= self.limits.segment_age()
        };
        if state.active.as_ref().is_some_and(is_full) {
            self.complete(&mut state);
        }
        if state.active.is_none() {
            state.active = Some(self.begin(&mut state)?);
        }
        let Some(active) = &mut state.active else { return Ok(()) };
        if let Err(error) = active.file.write_all(batch) {
            // Half a batch may be there. Without it the next one can follow; if it cannot be removed, a new segment begins.
            let is_removed = active.file.set_len(active.size).is_ok()
                && active.file.seek(SeekFrom::Start(active.size)).is_ok();
            if !is_removed {
                self.complete(&mut state);
            }
            return Err(error);
        }
        let start = usize::try_from(active.size).unwrap_or(usize::MAX);
        let shift = |frame: RecordFrame| RecordFrame {
            range: start + frame.range.start..start + frame.range.end,
            ..frame
        };
        active.frames.extend(frames(batch, 0).into_iter().map(shift));
        active.size += batch.len() as u64;
        self.delete_expired(&mut state, now);
        Ok(())
    }

    /// Deletes what has become too old, also while nothing is appended.
    pub(crate) fn maintain(&self, now: UtcTime) {
        self.delete_expired(&mut self.lock(), now);
    }

    /// Completes the newest segment, before the process ends.
    pub(crate) fn close(&self) {
        self.complete(&mut self.lock());
    }

    fn begin(&self, state: &mut ArchiveState) -> io::Result<ActiveSegment> {
        let number = state.next;
        let path = self.segment_path(number);
        let mut file =
            OpenOptions::new().read(true).write(true).create_new(true).mode(PRIVATE_FILE).open(path)?;
        state.next = number.saturating_add(1);
        file.write_all(&MARKER)?;
        Ok(ActiveSegment { file, number, size: MARKER.len() as u64, frames: Vec::new() })
    }

    fn complete(&self, state: &mut ArchiveState) {
        let Some(active) = state.active.take() else { return };
        let index = SegmentIndex::of(&active.frames, active.size);
        // An index that cannot be written is made again when it is needed.
        let _ = self.write_index(active.number, &index);
        let summary = active.summary();
        let stored = summary.stored + index.to_bytes().len() as u64;
        state.complete.push(SegmentSummary { stored, ..summary });
    }

    /// Deletes the oldest segments until enough of the file system is free.
    fn make_room(&self, state: &mut ArchiveState) -> io::Result<()> {
        loop {
            let space = rustix::fs::statvfs(&self.directory)?;
            let reserve = (space.f_blocks.saturating_mul(space.f_frsize) / FREE_SHARE).min(MAX_FREE);
            if space.f_bavail.saturating_mul(space.f_frsize) >= reserve {
                return Ok(());
            }
            if state.complete.is_empty() {
                return Err(io::Error::new(
                    io::ErrorKind::StorageFull,
                    "too little space is left on the file system",
                ));
            }
            self.delete(state.complete.remove(0).number);
        }
    }

    fn delete_expired(&self, state: &mut ArchiveState, now: UtcTime) {
        let max_age = u64::try_from(self.limits.max_age.as_nanos()).unwrap_or(u64::MAX);
        let expired = now.as_nanos().saturating_sub(max_age);
        let active = state.active.as_ref().map_or(0, |active| active.size);
        let mut total: u64 = active + state.complete.iter().map(|segment| segment.stored).sum::<u64>();
        state.complete.retain(|segment| {
            let is_kept = segment.newest >= expired && total <= self.limits.max_size;
            if !is_kept {
                total -= segment.stored;
                self.delete(segment.number);
            }
            is_kept
        });
    }

    fn delete(&self, number: u64) {
        // What cannot be deleted now is found again by the next start.
        let _ = fs::remove_file(self.segment_path(number));
        let _ = fs::remove_file(self.index_path(number));
    }

    /// The payload of the newest record with this id.
    pub(crate) fn find(&self, id: u64) -> Option<Vec<u8>> {
        let (complete, found) = {
            let state = self.lock();
            let found = state.active.as_ref().and_then(|active| {
                let frame = active.frames.iter().rev().find(|frame| frame.id == id)?;
                Some((active.number, frame.range.start as u64))
            });
            (state.complete.clone(), found)
        };
        if let Some((number, offset)) = found
            && let Some(payload) = self.read_payload(number, offset, id)
        {
            return Some(payload);
        }
        complete.iter().rev().find_map(|segment| {
            let index = self.read_index(segment.number);
            let index = index.or_else(|| self.repair(segment.number, segment.size).ok())?;
            index.find(id).find_map(|offset| self.read_payload(segment.number, offset, id))
        })
    }

    /// The payload of the frame at this offset, if it is intact and of this request.
    fn read_payload(&self, number: u64, offset: u64, id: u64) -> Option<Vec<u8>> {
        let file = File::open(self.segment_path(number)).ok()?;
        let mut length = [0; 4];
        file.read_exact_at(&mut length, offset).ok()?;
        let length = usize::try_from(u32::from_le_bytes(length)).ok()?;
        let mut bytes = vec![0; length.min(super::segment::MAX_PAYLOAD).saturating_add(FRAME_HEAD)];
        file.read_exact_at(&mut bytes, offset).ok()?;
        let frame = frame_at(&bytes, 0).filter(|frame| frame.id == id);
        if frame.is_none() {
            self.report_damage(number, &format!("the record at {offset} is not intact"));
        }
        frame.map(|frame| bytes[frame.payload()].to_vec())
    }

    /// All segments that have records, the oldest first.
    pub(super) fn segments(&self) -> Vec<SegmentSummary> {
        let state = self.lock();
        let active = state.active.as_ref().filter(|active| !active.frames.is_empty());
        state.complete.iter().copied().chain(active.map(ActiveSegment::summary)).collect()
    }

    /// The bytes of a segment from this offset on. A segment that has been deleted meanwhile is empty.
    pub(super) fn read(&self, segment: &SegmentSummary, offset: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        let read = File::open(self.segment_path(segment.number)).and_then(|mut file| {
            file.seek(SeekFrom::Start(offset))?;
            file.take(segment.size.saturating_sub(offset)).read_to_end(&mut bytes)
        });
        if let Err(error) = read
            && error.kind() != io::ErrorKind::NotFound
        {
            self.report_damage(segment.number, &error.to_string());
        }
        bytes
    }

    /// Where a follower of new records begins.
    pub(super) fn end(&self) -> (u64, u64) {
        let state = self.lock();
        state.active.as_ref().map_or((state.next, 0), |active| (active.number, active.size))
    }
}

/// The length of what precedes the payload of a frame.
const FRAME_HEAD: usize = 24;

/// The number of a segment file, or `None` for any other file.
fn segment_number(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?.strip_suffix(".records")?;
    let is_number = name.len() == 20 && name.bytes().all(|digit| digit.is_ascii_digit());
    is_number.then(|| name.parse().ok())?
}
