//! Rate-limit counts and idempotency keys as recorded in the journal.
//!
//! The live counts are in memory and change with every request. This is the copy that a crash would leave: the last
//! snapshot and all records since. Its clock is the wall clock, because that is the only one two processes share.
//!
//! **Size.** A snapshot contains only keys that still count in some window, about thirty bytes each, in rows of some
//! thousand. It is rewritten with every checkpoint; idle callers cost nothing.
//!
//! **Changed limits.** A snapshot records the limits it was counted by. Its counts are carried over to the current
//! limits as on a reload; journal records are counted by the current limits from the start.

use super::codec::{Input, Output, STORE};
use super::rows::{Batch, Kind, Rows};
use crate::StoreError;
use crate::books::{JournalRecord, LimitCharge, NameMark};
use crate::encoding::{Reader, put_number};
use crate::memory::MemoryQuotas;
use seawall_core::quota::{Cost, QuotaBook, QuotaGroup, QuotaKey, SavedGroup, SavedQuota, Scope, Unit};
use seawall_core::setting::SettingError;
use seawall_core::time::{Now, Timestamp, UtcTime};
use std::collections::BTreeMap;

const HEADER_KEY: &[u8] = b"header";
/// The first byte of rows with callers and of rows with idempotency keys. The index of the group and a number follow.
const CALLERS: u8 = 1;
const NAMES: u8 = 2;
/// The size of one row, in bytes.
const ROW: usize = 1 << 16;

/// An idempotency key, and whether its request has been answered. If not, it was in flight.
#[derive(Clone, Copy, Debug)]
struct SavedName {
    fingerprint: u64,
    is_done: bool,
    until: UtcTime,
}

/// The counts as recorded in the journal.
#[derive(Debug)]
pub(super) struct Counts {
    /// None in a directory that has never stored counts.
    book: Option<QuotaBook>,
    groups: Vec<QuotaGroup>,
    names: BTreeMap<[u8; 32], SavedName>,
    /// The latest time in any record.
    heard: UtcTime,
}

/// Uses the wall clock for both clocks.
const fn at(utc: UtcTime) -> Now {
    Now::new(Timestamp::from_nanos(utc.as_nanos()), utc)
}

fn broken(error: SettingError) -> StoreError {
    StoreError::broken(STORE, error)
}

impl Counts {
    /// Loads the last snapshot and converts it to these limits; without any, it keeps its own limits.
    pub(super) fn load(rows: &mut impl Rows, wanted: Option<&[QuotaGroup]>) -> Result<Self, StoreError> {
        let mut counts = Self {
            book: None,
            groups: wanted.unwrap_or_default().to_vec(),
            names: BTreeMap::new(),
            heard: UtcTime::default(),
        };
        let Some(header) = rows.get(Kind::Counts, HEADER_KEY)? else {
            counts.book =
                wanted.map(|groups| QuotaBook::new(groups.to_vec(), 0)).transpose().map_err(broken)?;
            return Ok(counts);
        };
        let (saved_at, saved) = read_header(&header)?;
        counts.heard = saved_at;
        let groups: Result<Vec<_>, _> = saved.iter().map(SavedGroup::group).collect();
        let groups = groups.map_err(broken)?;
        let book = QuotaBook::new(groups.clone(), 0).map_err(broken)?;
        for (key, row) in rows.beginning(Kind::Counts, &[CALLERS], usize::MAX)? {
            let group = group_of(&key).and_then(|place| groups.get(usize::from(place)));
            let id = group.and_then(|group| book.group(group.name()));
            let group = id.ok_or_else(|| Input::key("counts", &key).wrong())?;
            read_callers(&row, |key, numbers| {
                book.restore(Scope { group, key: QuotaKey(key) }, numbers, at(saved_at), at(saved_at))
            })?;
        }
        for (_, row) in rows.beginning(Kind::Counts, &[NAMES], usize::MAX)? {
            read_names(&row, |name, saved| {
                counts.names.insert(name, saved);
            })?;
        }
        match wanted {
            Some(wanted) => drop(book.change(wanted.to_vec(), at(saved_at)).map_err(broken)?),
            None => counts.groups = groups,
        }
        counts.book = Some(book);
        Ok(counts)
    }

    /// Applies a record, if it concerns counts.
    pub(super) fn apply(&mut self, record: &JournalRecord) {
        match record {
            JournalRecord::Counted { charge, name } => {
                self.heard = self.heard.max(charge.at);
                self.each_scope(charge, |book, scope| book.charge(scope, charge.cost, at(charge.at)));
                if let Some(name) = name {
                    self.put_name(name, false);
                }
            }
            JournalRecord::Recounted { charge, at: now, actual } => {
                self.heard = self.heard.max(*now);
                let change: (Cost, Cost) = (charge.cost, *actual);
                self.each_scope(charge, |book, scope| book.correct(scope, at(charge.at), change, at(*now)));
            }
            JournalRecord::Done(name) => self.put_name(name, true),
            JournalRecord::Released(name) => {
                self.names.remove(name);
            }
            _ => {}
        }
    }

    fn each_scope(&self, charge: &LimitCharge, each: impl Fn(&QuotaBook, Scope)) {
        let Some(book) = &self.book else { return };
        for (tag, key) in &charge.scopes {
            // A group that was removed no longer counts anything.
            if let Some(group) = book.tagged(*tag) {
                each(book, Scope { group, key: QuotaKey(*key) });
            }
        }
    }

    fn put_name(&mut self, mark: &NameMark, is_done: bool) {
        let NameMark { name, fingerprint, until } = *mark;
        self.names.insert(name, SavedName { fingerprint, is_done, until });
    }

    /// Replaces the snapshot, as of this time or of the latest time in any record.
    pub(super) fn save(&mut self, batch: &mut Batch<'_>, now: Option<UtcTime>) -> Result<(), StoreError> {
        let Some(book) = &self.book else { return Ok(()) };
        let now = now.unwrap_or(self.heard);
        for (key, _) in batch.beginning(Kind::Counts, &[], usize::MAX)? {
            batch.remove(Kind::Counts, &key)?;
        }
        let saved: Vec<SavedGroup> = self.groups.iter().map(SavedGroup::of).collect();
        batch.put(Kind::Counts, HEADER_KEY, &header(now, &saved))?;
        for (place, group) in self.groups.iter().enumerate() {
            let Some(id) = book.group(group.name()) else { continue };
            let mut chunks = Chunks::new(CALLERS, u16::try_from(place).unwrap_or(u16::MAX));
            book.each_use(id, at(now), |key, numbers| chunks.put(&[key.0], numbers));
            chunks.write(batch)?;
        }
        self.names.retain(|_, saved| saved.until > now);
        let mut chunks = Chunks::new(NAMES, 0);
        for (name, SavedName { fingerprint, is_done, until }) in &self.names {
            let words = name.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
            let mut fixed: Vec<u64> = words.collect();
            fixed.push(*fingerprint);
            chunks.put(&fixed, &[u64::from(*is_done), until.as_nanos()]);
        }
        chunks.write(batch)
    }

    /// The live counts to continue with, in a process whose clock shows `now`.
    pub(super) fn into_quotas(self, seed: u64, now: Now) -> Result<Option<MemoryQuotas>, StoreError> {
        let Self { book: Some(book), groups, names, .. } = self else { return Ok(None) };
        let quotas = MemoryQuotas::new(groups.clone(), seed).map_err(broken)?;
        for group in &groups {
            let (Some(from), Some(to)) = (book.group(group.name()), quotas.book().group(group.name())) else {
                continue;
            };
            book.each_use(from, at(now.utc), |key, numbers| {
                quotas.book().restore(Scope { group: to, key }, numbers, at(now.utc), now);
            });
        }
        for (name, SavedName { fingerprint, is_done, until }) in names {
            let lasts = until.since(now.utc);
            if !lasts.is_zero() {
                quotas.restore_name(name, fingerprint, is_done, now.monotonic + lasts);
            }
        }
        Ok(Some(quotas))
    }
}

fn header(now: UtcTime, groups: &[SavedGroup]) -> Vec<u8> {
    let output = Output::default().moment(now).number(groups.len() as u64);
    let put_quota = |output: Output, quota: &SavedQuota| {
        let unit = u8::from(quota.unit == Unit::Token);
        let output = output.text(&quota.name).byte(unit).byte(quota.kind);
        output.number(quota.nanos[0]).number(quota.nanos[1]).short(quota.most)
    };
    let put_group = |output: Output, group: &SavedGroup| {
        let output = output.text(&group.name).number(group.quotas.len() as u64);
        group.quotas.iter().fold(output, put_quota)
    };
    groups.iter().fold(output, put_group).row()
}

fn read_header(row: &[u8]) -> Result<(UtcTime, Vec<SavedGroup>), StoreError> {
    let mut input = Input::row("counts", row)?;
    let (saved_at, count) = (input.moment()?, input.number()?);
    let mut groups = Vec::new();
    for _ in 0..count {
        let (name, count) = (input.text()?.to_owned(), input.number()?);
        let mut quotas = Vec::new();
        for _ in 0..count {
            let name = input.text()?.to_owned();
            let unit = input.word(&[Unit::Request, Unit::Token])?;
            let (kind, nanos, most) = (input.byte()?, [input.number()?, input.number()?], input.short()?);
            quotas.push(SavedQuota { name, unit, kind, nanos, most });
        }
        groups.push(SavedGroup { name, quotas });
    }
    input.end((saved_at, groups))
}

/// The index of the group of a row with callers.
fn group_of(key: &[u8]) -> Option<u16> {
    key.get(1..3)?.try_into().ok().map(u16::from_be_bytes)
}

/// A builder of rows.
struct Chunks {
    kind: u8,
    group: u16,
    rows: Vec<Vec<u8>>,
}

impl Chunks {
    const fn new(kind: u8, group: u16) -> Self {
        Self { kind, group, rows: Vec::new() }
    }

    /// Adds an entry: fixed-width hashes, the number of small integers, and those integers.
    fn put(&mut self, words: &[u64], numbers: &[u64]) {
        if self.rows.last().is_none_or(|row| row.len() >= ROW) {
            self.rows.push(Vec::new());
        }
        let Some(row) = self.rows.last_mut() else { return };
        words.iter().for_each(|word| row.extend_from_slice(&word.to_le_bytes()));
        put_number(row, numbers.len() as u64);
        numbers.iter().for_each(|number| put_number(row, *number));
    }

    fn write(self, batch: &mut Batch<'_>) -> Result<(), StoreError> {
        let start = [self.kind].into_iter().chain(self.group.to_be_bytes());
        for (number, row) in (0_u32..).zip(&self.rows) {
            let key: Vec<u8> = start.clone().chain(number.to_be_bytes()).collect();
            batch.put(Kind::Counts, &key, &Output::with_room(row.len()).fixed(row).row())?;
        }
        Ok(())
    }
}

/// Decodes the entries of a row, each of which has `WORDS` fixed-width hashes.
fn read_entries<const WORDS: usize>(
    row: &[u8],
    mut each: impl FnMut([u64; WORDS], &[u64]) -> bool,
) -> Result<(), StoreError> {
    let input = Input::row("counts", row)?;
    let wrong = input.wrong();
    let mut reader = Reader::new(input.rest());
    let mut numbers = Vec::new();
    let mut entry = || -> Option<bool> {
        if reader.is_empty() {
            return Some(false);
        }
        let mut words = [0; WORDS];
        for word in &mut words {
            *word = u64::from_le_bytes(reader.array()?);
        }
        numbers.clear();
        for _ in 0..reader.number()? {
            numbers.push(reader.number()?);
        }
        each(words, &numbers).then_some(true)
    };
    loop {
        match entry() {
            Some(true) => {}
            Some(false) => return Ok(()),
            None => return Err(wrong),
        }
    }
}

fn read_callers(row: &[u8], mut each: impl FnMut(u64, &[u64]) -> bool) -> Result<(), StoreError> {
    read_entries(row, |[key]: [u64; 1], numbers| each(key, numbers))
}

fn read_names(row: &[u8], mut each: impl FnMut([u8; 32], SavedName)) -> Result<(), StoreError> {
    read_entries(row, |[name @ .., fingerprint]: [u64; 5], numbers| {
        let [is_done @ 0..=1, until] = *numbers else { return false };
        let mut bytes = [0; 32];
        for (place, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(name) {
            *place = word.to_le_bytes();
        }
        let (is_done, until) = (is_done == 1, UtcTime::from_nanos(until));
        each(bytes, SavedName { fingerprint, is_done, until });
        true
    })
}
