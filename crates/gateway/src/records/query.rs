//! Lists records: filters, cursors, and bounds on how much is read.
//!
//! A listing without a cursor begins with the newest record. Its `next` continues with older ones, and its `follow` begins
//! with what comes after it: that is how a client follows live. A cursor is the place of a record, so a page costs what
//! it shows and not what was shown before.

use super::archive::{RecordArchive, SegmentSummary};
use super::segment::{MARKER, frames};
use crate::log::{LineDetail, MAX_SHOWN, RecentRequests, end_time, write_line};
use memchr::memmem;
use seawall_core::time::{Now, UtcTime};
use serde_json::Value;
use std::fmt;

/// Bytes that one listing reads at most.
const MAX_SCANNED: u64 = 64 << 20;

/// Which records are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecordFilter {
    /// The caller's pseudonym, in hexadecimal digits.
    pub(crate) caller: Option<String>,
    /// The name of the caller's key, where records have it.
    pub(crate) key: Option<String>,
    /// Any of these; all if empty.
    pub(crate) outcomes: Vec<String>,
    pub(crate) target: Option<String>,
    pub(crate) rung: Option<String>,
    /// When the request ended, inclusive.
    pub(crate) since: Option<UtcTime>,
    pub(crate) until: Option<UtcTime>,
}

impl RecordFilter {
    fn covers(&self, ended: u64) -> bool {
        self.since.is_none_or(|since| ended >= since.as_nanos())
            && self.until.is_none_or(|until| ended <= until.as_nanos())
    }

    /// Whether the payload may match: searching bytes is much cheaper than parsing them.
    fn may_match(&self, payload: &[u8]) -> bool {
        let has = |key: &str, value: &str| {
            memmem::find(payload, format!("\"{key}\":\"{value}\"").as_bytes()).is_some()
        };
        self.caller.as_ref().is_none_or(|caller| has("caller", caller))
            && (self.outcomes.is_empty() || self.outcomes.iter().any(|outcome| has("outcome", outcome)))
    }

    fn matches(&self, record: &Value) -> bool {
        let is = |key: &str, wanted: &Option<String>| {
            wanted.as_deref().is_none_or(|wanted| record[key].as_str() == Some(wanted))
        };
        let called =
            || record["attempt_details"].as_array().into_iter().flatten().any(|call| is_target(call, self));
        is("caller", &self.caller)
            && is("key", &self.key)
            && is("rung", &self.rung)
            && (is("target", &self.target) || called())
            && (self.outcomes.is_empty()
                || record["outcome"].as_str().is_some_and(|own| self.outcomes.iter().any(|one| one == own)))
    }
}

fn is_target(attempt: &Value, filter: &RecordFilter) -> bool {
    attempt["target"].as_str() == filter.target.as_deref()
}

/// Where a listing continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordCursor {
    /// With the oldest record.
    Oldest,
    /// With the records from this place of a segment on, the oldest first.
    Newer { segment: u64, offset: u64 },
    /// With the records before this place, the newest first.
    Older { segment: u64, offset: u64 },
    /// With the records in memory from this position on, of the process with this number.
    Memory { process: u64, position: u64 },
}

impl RecordCursor {
    /// Reads what [`Display`](fmt::Display) writes.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text == "oldest" {
            return Some(Self::Oldest);
        }
        let mut parts = text.split('.');
        let kind = parts.next()?;
        let mut number = || parts.next()?.parse().ok();
        let (one, other) = (number()?, number()?);
        let cursor = match kind {
            "newer" => Self::Newer { segment: one, offset: other },
            "older" => Self::Older { segment: one, offset: other },
            "memory" => Self::Memory { process: one, position: other },
            _ => return None,
        };
        parts.next().is_none().then_some(cursor)
    }
}

impl fmt::Display for RecordCursor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Oldest => formatter.write_str("oldest"),
            Self::Newer { segment, offset } => write!(formatter, "newer.{segment}.{offset}"),
            Self::Older { segment, offset } => write!(formatter, "older.{segment}.{offset}"),
            Self::Memory { process, position } => write!(formatter, "memory.{process}.{position}"),
        }
    }
}

/// A page of a listing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RecordPage {
    pub(crate) records: Vec<Value>,
    /// Where the same listing continues; `None` at its end.
    pub(crate) next: Option<RecordCursor>,
    /// Where a follower of new records begins.
    pub(crate) follow: RecordCursor,
    /// Whether records between the cursor and this page are gone.
    pub(crate) has_gap: bool,
}

/// Lists records of the archive.
pub(crate) fn list_archive(
    archive: &RecordArchive,
    filter: &RecordFilter,
    cursor: Option<RecordCursor>,
    limit: usize,
) -> RecordPage {
    let (segment, offset) = archive.end();
    let follow = RecordCursor::Newer { segment, offset };
    let segments = archive.segments();
    match cursor {
        None => list_older(archive, &segments, filter, (u64::MAX, u64::MAX), limit, follow),
        Some(RecordCursor::Older { segment, offset }) => {
            list_older(archive, &segments, filter, (segment, offset), limit, follow)
        }
        Some(RecordCursor::Newer { segment, offset }) => {
            let has_gap = segments.first().is_some_and(|first| first.number > segment);
            RecordPage { has_gap, ..list_newer(archive, &segments, filter, (segment, offset), limit, follow) }
        }
        Some(RecordCursor::Oldest) => list_newer(archive, &segments, filter, (0, 0), limit, follow),
        // A cursor of the time when records were only in memory.
        Some(RecordCursor::Memory { .. }) => {
            RecordPage { has_gap: true, ..list_newer(archive, &segments, filter, (0, 0), limit, follow) }
        }
    }
}

fn parsed(bytes: &[u8], filter: &RecordFilter) -> Option<Value> {
    if !filter.may_match(bytes) {
        return None;
    }
    serde_json::from_slice(bytes).ok().filter(|record| filter.matches(record))
}

fn list_older(
    archive: &RecordArchive,
    segments: &[SegmentSummary],
    filter: &RecordFilter,
    (last, end): (u64, u64),
    limit: usize,
    follow: RecordCursor,
) -> RecordPage {
    let (mut records, mut scanned) = (Vec::new(), 0);
    let page = |records, next| RecordPage { records, next, follow, has_gap: false };
    for segment in segments.iter().rev().filter(|segment| segment.number <= last) {
        if filter.since.is_some_and(|since| segment.newest < since.as_nanos()) {
            break;
        }
        let end = if segment.number == last { end } else { u64::MAX };
        if filter.until.is_some_and(|until| segment.oldest > until.as_nanos()) {
            continue;
        }
        if scanned >= MAX_SCANNED {
            return page(records, Some(RecordCursor::Older { segment: segment.number, offset: end }));
        }
        let bytes = archive.read(segment, 0);
        scanned += bytes.len() as u64;
        for frame in frames(&bytes, MARKER.len()).iter().rev() {
            let offset = frame.range.start as u64;
            if offset >= end || !filter.covers(frame.ended) {
                continue;
            }
            let Some(record) = parsed(&bytes[frame.payload()], filter) else { continue };
            if records.len() == limit {
                // This one is the first of the next page.
                let offset = frame.range.end as u64;
                return page(records, Some(RecordCursor::Older { segment: segment.number, offset }));
            }
            records.push(record);
        }
    }
    page(records, None)
}

fn list_newer(
    archive: &RecordArchive,
    segments: &[SegmentSummary],
    filter: &RecordFilter,
    (first, start): (u64, u64),
    limit: usize,
    follow: RecordCursor,
) -> RecordPage {
    let (mut records, mut scanned) = (Vec::new(), 0);
    let page = |records, next| RecordPage { records, next: Some(next), follow, has_gap: false };
    for segment in segments.iter().filter(|segment| segment.number >= first) {
        let start =
            if segment.number == first { start.max(MARKER.len() as u64) } else { MARKER.len() as u64 };
        if filter.since.is_some_and(|since| segment.newest < since.as_nanos()) {
            continue;
        }
        if scanned >= MAX_SCANNED {
            return page(records, RecordCursor::Newer { segment: segment.number, offset: start });
        }
        let bytes = archive.read(segment, start);
        scanned += bytes.len() as u64;
        for frame in frames(&bytes, 0) {
            if !filter.covers(frame.ended) {
                continue;
            }
            let Some(record) = parsed(&bytes[frame.payload()], filter) else { continue };
            if records.len() == limit {
                let offset = start + frame.range.start as u64;
                return page(records, RecordCursor::Newer { segment: segment.number, offset });
            }
            records.push(record);
        }
    }
    page(records, follow)
}

/// The records in memory, and how they are formatted.
pub(crate) struct RecordsInMemory<'a> {
    pub(crate) recent: &'a RecentRequests,
    pub(crate) now: Now,
    pub(crate) pseudonym: &'a dyn Fn(u64) -> u64,
    /// A number of this process: a cursor of another one points nowhere.
    pub(crate) process: u64,
}

impl RecordsInMemory<'_> {
    /// The record as JSON.
    pub(crate) fn format(&self, record: &seawall_pipeline::RequestRecord) -> Option<Value> {
        let mut line = String::new();
        write_line(&mut line, record, self.now, LineDetail::Full, self.pseudonym);
        serde_json::from_str(&line).ok()
    }

    /// Lists the records in memory.
    pub(crate) fn list(
        &self,
        filter: &RecordFilter,
        cursor: Option<RecordCursor>,
        limit: usize,
    ) -> RecordPage {
        // Read first: what completes meanwhile is then listed twice rather than never.
        let end = self.recent.end();
        let at = |position| RecordCursor::Memory { process: self.process, position };
        let wanted = |record: &seawall_pipeline::RequestRecord| {
            let is_covered = filter.covers(end_time(record, self.now).as_nanos());
            let formatted = is_covered.then(|| self.format(record)).flatten();
            formatted.filter(|formatted| filter.matches(formatted))
        };
        let (position, is_known) = match cursor {
            None | Some(RecordCursor::Older { .. }) => {
                let newest = self.recent.newest(MAX_SHOWN);
                let records = newest.iter().filter_map(wanted).take(limit).collect();
                return RecordPage { records, next: None, follow: at(end), has_gap: false };
            }
            Some(RecordCursor::Memory { process, position }) if process == self.process => (position, true),
            Some(RecordCursor::Oldest) => (0, true),
            Some(_) => (0, false),
        };
        let (first, candidates) = self.recent.since(position, MAX_SHOWN);
        let (mut records, mut next) = (Vec::new(), first);
        for record in &candidates {
            if records.len() == limit {
                break;
            }
            records.extend(wanted(record));
            next += 1;
        }
        let has_gap = !is_known || (first > position && cursor != Some(RecordCursor::Oldest));
        RecordPage { records, next: Some(at(next)), follow: at(end), has_gap }
    }
}

#[cfg(test)]
mod tests {
    use super::RecordCursor;

    #[test]
    fn a_cursor_is_read_as_it_is_written_and_nothing_else_is() {
        for cursor in [
            RecordCursor::Oldest,
            RecordCursor::Newer { segment: 1, offset: 2 },
            RecordCursor::Older { segment: u64::MAX, offset: 0 },
            RecordCursor::Memory { process: 7, position: 9 },
        ] {
            assert_eq!(RecordCursor::parse(&cursor.to_string()), Some(cursor));
        }
        for wrong in ["", "newer", "newer.1", "newer.1.2.3", "newer.-1.2", "later.1.2", "newer.1.x"] {
            assert_eq!(RecordCursor::parse(wrong), None, "{wrong}");
        }
    }
}
