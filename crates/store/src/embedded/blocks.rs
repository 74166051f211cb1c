//! Calls from the journal, stored as blocks of some hundred calls per row.
//!
//! One row per call would cost more than everything else about storing it. So calls that ended in the same second share
//! rows, sorted by time and call id. The key of a row is the time of its first call and a unique number. Rows may
//! overlap, but no row extends into the next second. A query for a time range therefore starts at the beginning of its
//! first second, and sorts the calls of each second.
//!
//! **What it does not do.** There is no index from a call id to its row; a call can only be found by its time.

use super::codec::{RowDecoder, RowEncoder};
use super::rows::{KeyValue, Rows, TableKind};
use crate::StoreError;
use crate::encoding::{ByteReader, put_text, put_varint};
use crate::node_ledger::{
    certainty_byte, put_call, put_labels, put_usage, read_call, read_certainty, read_hash, read_labels,
    read_money, read_tier, read_usage, tier_byte,
};
use crate::usage::{CallId, SpendLabels, UsageEvent};
use seawall_core::time::UtcTime;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, Range};
use std::sync::Arc;

const SECOND: u64 = 1_000_000_000;
/// A row that has reached this length is closed: a little less than four pages of the database.
const MAX_ROW_BYTES: usize = 15_000;
/// The number of rows that are read at a time.
const ROWS_PER_READ: usize = 64;

/// Begins the list of names of a row in which calls have labels. Rows from before labels existed begin with the number
/// of their models, which is never zero.
const LABELLED: u8 = 0;

/// The model of a call, and its labels.
type CallNames = (Arc<str>, SpendLabels);

/// The sort key of calls: when a call ended, and its id.
pub(super) type CallSortKey = (UtcTime, CallId);

pub(super) const fn sort_key(event: &UsageEvent) -> CallSortKey {
    (event.at, event.id)
}

const fn second(at: UtcTime) -> u64 {
    at.as_nanos() / SECOND
}

/// The key at which the rows of a second begin. A second beyond the representable range has no rows.
fn first_key(second: u64) -> Vec<u8> {
    RowEncoder::default().u64(second.saturating_mul(SECOND)).key()
}

/// A builder of rows.
#[derive(Debug)]
pub(super) struct Blocks {
    /// The journal segment up to which calls are included. Together with the index of a row it is unique.
    number: u64,
    rows: Vec<KeyValue>,
    calls: Vec<u8>,
    names: Vec<CallNames>,
    /// When the first and the last call of the open row ended.
    open_range: Option<(UtcTime, UtcTime)>,
}

impl Blocks {
    pub(super) const fn new(number: u64) -> Self {
        Self { number, rows: Vec::new(), calls: Vec::new(), names: Vec::new(), open_range: None }
    }

    /// Adds calls to rows.
    pub(super) fn add(&mut self, events: &mut [UsageEvent]) {
        events.sort_unstable_by_key(sort_key);
        for event in &*events {
            self.put(event);
        }
        self.close();
    }

    fn put(&mut self, event: &UsageEvent) {
        let is_other_second = self.open_range.is_some_and(|(first, _)| second(first) != second(event.at));
        if is_other_second || self.calls.len() >= MAX_ROW_BYTES {
            self.close();
        }
        let (first, last) = self.open_range.unwrap_or((event.at, event.at));
        self.open_range = Some((first, event.at));
        let is_same = |(model, labels): &CallNames| *model == event.model && *labels == event.labels;
        let names = self.names.iter().position(is_same).unwrap_or_else(|| {
            self.names.push((Arc::clone(&event.model), event.labels.clone()));
            self.names.len() - 1
        });
        put_varint(&mut self.calls, event.at.as_nanos() - last.as_nanos());
        put_call(&mut self.calls, event.id);
        put_varint(&mut self.calls, event.day);
        self.calls.extend_from_slice(&event.caller.to_le_bytes());
        self.calls.push(tier_byte(event.tier));
        put_varint(&mut self.calls, names as u64);
        put_usage(&mut self.calls, &event.usage);
        put_varint(&mut self.calls, event.cost.as_nanos());
        self.calls.push(certainty_byte(event.certainty));
    }

    fn close(&mut self) {
        let Some((first, last)) = self.open_range.take() else { return };
        let mut names = vec![LABELLED];
        put_varint(&mut names, self.names.len() as u64);
        for (model, labels) in self.names.drain(..) {
            put_text(&mut names, &model);
            put_labels(&mut names, &labels);
        }
        let index = u32::try_from(self.rows.len()).unwrap_or(u32::MAX);
        let key = RowEncoder::default().time(first).u64(self.number).u32(index).key();
        let length = size_of::<u64>() + names.len() + self.calls.len();
        let row = RowEncoder::with_room(length).time(last).bytes(&names).bytes(&self.calls).row();
        self.calls.clear();
        self.rows.push((key, row));
    }

    pub(super) fn into_rows(self) -> Vec<KeyValue> {
        self.rows
    }
}

/// Decodes the calls of a row; none if all of them ended before `from`.
fn read(key: &[u8], row: &[u8], from: UtcTime) -> Result<Vec<UsageEvent>, StoreError> {
    let first = RowDecoder::key("blocks", key).time()?;
    let mut input = RowDecoder::row("blocks", row)?;
    if input.time()? < from {
        return Ok(Vec::new());
    }
    let invalid = input.invalid();
    read_calls(first, ByteReader::new(input.rest())).ok_or(invalid)
}

fn read_calls(first: UtcTime, mut reader: ByteReader<'_>) -> Option<Vec<UsageEvent>> {
    let first_number = reader.varint()?;
    let has_labels = first_number == u64::from(LABELLED);
    let count = if has_labels { reader.varint()? } else { first_number };
    let mut names: Vec<CallNames> = Vec::new();
    for _ in 0..count {
        let model = reader.text()?.into();
        names.push((model, if has_labels { read_labels(&mut reader)? } else { SpendLabels::default() }));
    }
    let (mut events, mut at) = (Vec::new(), first);
    while reader.end().is_none() {
        at = UtcTime::from_nanos(at.as_nanos().checked_add(reader.varint()?)?);
        let (id, day, caller) = (read_call(&mut reader)?, reader.varint()?, read_hash(&mut reader)?);
        let tier = read_tier(&mut reader)?;
        let (model, labels) = names.get(usize::try_from(reader.varint()?).ok()?)?.clone();
        events.push(UsageEvent {
            at,
            id,
            day,
            caller,
            tier,
            model,
            labels,
            usage: read_usage(&mut reader)?,
            cost: read_money(&mut reader)?,
            certainty: read_certainty(&mut reader)?,
        });
    }
    Some(events)
}

/// Returns the calls that ended in this time range, starting at the cursor `from` if there is one: at least the first
/// `max` of them, in order.
pub(super) fn calls_in(
    rows: &mut impl Rows,
    time: Range<UtcTime>,
    from: Option<CallSortKey>,
    max: usize,
) -> Result<BTreeMap<CallSortKey, UsageEvent>, StoreError> {
    let start = from.map_or(time.start, |(at, _)| at.max(time.start));
    let end = RowEncoder::default().time(time.end).key();
    let mut next = Bound::Included(first_key(second(start)));
    let (mut calls, mut current_second) = (BTreeMap::new(), second(start));
    loop {
        let bounds = (next.as_ref().map(Vec::as_slice), Bound::Excluded(end.as_slice()));
        let batch = rows.range(TableKind::Blocks, bounds, ROWS_PER_READ)?;
        let Some((last, _)) = batch.last() else { return Ok(calls) };
        let after_last = Bound::Excluded(last.clone());
        for (key, row) in batch {
            let row_second = second(RowDecoder::key("blocks", &key).time()?);
            if row_second != current_second && calls.len() >= max {
                return Ok(calls);
            }
            current_second = row_second;
            let is_in_range = |event: &UsageEvent| {
                time.contains(&event.at) && from.is_none_or(|from| sort_key(event) >= from)
            };
            let found = read(&key, &row, start)?.into_iter().filter(is_in_range);
            calls.extend(found.map(|event| (sort_key(&event), event)));
        }
        next = after_last;
    }
}

/// Returns which of these calls are stored.
pub(super) fn stored_calls(
    rows: &mut impl Rows,
    events: &[UsageEvent],
) -> Result<BTreeSet<CallSortKey>, StoreError> {
    let mut stored = BTreeSet::new();
    // Without a journal there are no blocks.
    if rows.with_prefix(TableKind::Blocks, &[], 1)?.is_empty() {
        return Ok(stored);
    }
    let sort_keys: BTreeSet<CallSortKey> = events.iter().map(sort_key).collect();
    let seconds: BTreeSet<u64> = events.iter().map(|event| second(event.at)).collect();
    for second_number in seconds {
        let time = |second: u64| UtcTime::from_nanos(second.saturating_mul(SECOND));
        let found =
            calls_in(rows, time(second_number)..time(second_number.saturating_add(1)), None, usize::MAX)?;
        stored.extend(found.into_keys().filter(|name| sort_keys.contains(name)));
    }
    Ok(stored)
}
