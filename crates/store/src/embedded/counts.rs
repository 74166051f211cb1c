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

use super::codec::{RowDecoder, RowEncoder, STORE};
use super::rows::{Batch, Rows, TableKind};
use crate::StoreError;
use crate::encoding::{ByteReader, put_varint};
use crate::memory::MemoryQuotas;
use crate::node_ledger::{IdempotencyRecord, JournalRecord, LimitCharge};
use seawall_core::quota::{
    QuotaGroup, QuotaKey, QuotaScope, QuotaUnit, QuotaUnits, RateLimiter, SavedGroup, SavedQuota,
};
use seawall_core::setting::SettingError;
use seawall_core::time::{Now, Timestamp, UtcTime};
use std::collections::BTreeMap;

const HEADER_KEY: &[u8] = b"header";
/// The first byte of rows with callers and of rows with idempotency keys. The index of the group and a number follow.
const CALLERS: u8 = 1;
const KEYS: u8 = 2;
/// The size of one row, in bytes.
const MAX_ROW_BYTES: usize = 1 << 16;

/// An idempotency key, and whether its request has been answered. If not, it was in flight.
#[derive(Clone, Copy, Debug)]
struct SavedIdempotencyKey {
    fingerprint: u64,
    is_done: bool,
    expires: UtcTime,
}

/// The counts as recorded in the journal.
#[derive(Debug)]
pub(super) struct JournaledCounts {
    /// None in a directory that has never stored counts.
    limiter: Option<RateLimiter>,
    groups: Vec<QuotaGroup>,
    keys: BTreeMap<[u8; 32], SavedIdempotencyKey>,
    /// The latest time in any record.
    latest_utc: UtcTime,
}

/// Uses the wall clock for both clocks.
const fn wall_clock(utc: UtcTime) -> Now {
    Now::new(Timestamp::from_nanos(utc.as_nanos()), utc)
}

fn store_error(error: SettingError) -> StoreError {
    StoreError::failed(STORE, error)
}

impl JournaledCounts {
    /// Loads the last snapshot and converts it to these limits; without any, it keeps its own limits.
    pub(super) fn load(rows: &mut impl Rows, configured: Option<&[QuotaGroup]>) -> Result<Self, StoreError> {
        let mut counts = Self {
            limiter: None,
            groups: configured.unwrap_or_default().to_vec(),
            keys: BTreeMap::new(),
            latest_utc: UtcTime::default(),
        };
        let Some(header) = rows.get(TableKind::Counts, HEADER_KEY)? else {
            counts.limiter = configured
                .map(|groups| RateLimiter::new(groups.to_vec(), 0))
                .transpose()
                .map_err(store_error)?;
            return Ok(counts);
        };
        let (saved_at, saved) = read_header(&header)?;
        counts.latest_utc = saved_at;
        let groups: Result<Vec<_>, _> = saved.iter().map(SavedGroup::to_group).collect();
        let groups = groups.map_err(store_error)?;
        let limiter = RateLimiter::new(groups.clone(), 0).map_err(store_error)?;
        for (key, row) in rows.with_prefix(TableKind::Counts, &[CALLERS], usize::MAX)? {
            let group = group_of(&key).and_then(|index| groups.get(usize::from(index)));
            let id = group.and_then(|group| limiter.group(group.name()));
            let group = id.ok_or_else(|| RowDecoder::key("counts", &key).invalid())?;
            read_callers(&row, |key, numbers| {
                limiter.restore(
                    QuotaScope { group, key: QuotaKey(key) },
                    numbers,
                    wall_clock(saved_at),
                    wall_clock(saved_at),
                )
            })?;
        }
        for (_, row) in rows.with_prefix(TableKind::Counts, &[KEYS], usize::MAX)? {
            read_keys(&row, |key_hash, saved| {
                counts.keys.insert(key_hash, saved);
            })?;
        }
        match configured {
            Some(configured) => {
                drop(limiter.change_limits(configured.to_vec(), wall_clock(saved_at)).map_err(store_error)?);
            }
            None => counts.groups = groups,
        }
        counts.limiter = Some(limiter);
        Ok(counts)
    }

    /// Applies a record, if it concerns counts.
    pub(super) fn apply(&mut self, record: &JournalRecord) {
        match record {
            JournalRecord::Admitted { charge, key } => {
                self.latest_utc = self.latest_utc.max(charge.at);
                self.for_each_scope(charge, |limiter, scope| {
                    limiter.charge(scope, charge.cost, wall_clock(charge.at));
                });
                if let Some(key) = key {
                    self.put_key(key, false);
                }
            }
            JournalRecord::ChargeCorrected { charge, at: now, actual } => {
                self.latest_utc = self.latest_utc.max(*now);
                let change: (QuotaUnits, QuotaUnits) = (charge.cost, *actual);
                self.for_each_scope(charge, |limiter, scope| {
                    limiter.correct(scope, wall_clock(charge.at), change, wall_clock(*now));
                });
            }
            JournalRecord::KeyCompleted(key) => self.put_key(key, true),
            JournalRecord::KeyReleased(key_hash) => {
                self.keys.remove(key_hash);
            }
            _ => {}
        }
    }

    fn for_each_scope(&self, charge: &LimitCharge, visit: impl Fn(&RateLimiter, QuotaScope)) {
        let Some(limiter) = &self.limiter else { return };
        for (tag, key) in &charge.scopes {
            // A group that was removed no longer counts anything.
            if let Some(group) = limiter.group_with_tag(*tag) {
                visit(limiter, QuotaScope { group, key: QuotaKey(*key) });
            }
        }
    }

    fn put_key(&mut self, record: &IdempotencyRecord, is_done: bool) {
        let IdempotencyRecord { key_hash, fingerprint, expires } = *record;
        self.keys.insert(key_hash, SavedIdempotencyKey { fingerprint, is_done, expires });
    }

    /// Replaces the snapshot, as of this time or of the latest time in any record.
    pub(super) fn save(&mut self, batch: &mut Batch<'_>, now: Option<UtcTime>) -> Result<(), StoreError> {
        let Some(limiter) = &self.limiter else { return Ok(()) };
        let now = now.unwrap_or(self.latest_utc);
        for (key, _) in batch.with_prefix(TableKind::Counts, &[], usize::MAX)? {
            batch.remove(TableKind::Counts, &key)?;
        }
        let saved: Vec<SavedGroup> = self.groups.iter().map(SavedGroup::from_group).collect();
        batch.put(TableKind::Counts, HEADER_KEY, &header(now, &saved))?;
        for (index, group) in self.groups.iter().enumerate() {
            let Some(id) = limiter.group(group.name()) else { continue };
            let mut builder = RowBuilder::new(CALLERS, u16::try_from(index).unwrap_or(u16::MAX));
            limiter.for_each_usage(id, wall_clock(now), |key, numbers| builder.put(&[key.0], numbers));
            builder.write(batch)?;
        }
        self.keys.retain(|_, saved| saved.expires > now);
        let mut builder = RowBuilder::new(KEYS, 0);
        for (key_hash, SavedIdempotencyKey { fingerprint, is_done, expires }) in &self.keys {
            let words = key_hash.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
            let mut hashes: Vec<u64> = words.collect();
            hashes.push(*fingerprint);
            builder.put(&hashes, &[u64::from(*is_done), expires.as_nanos()]);
        }
        builder.write(batch)
    }

    /// The live counts to continue with, in a process whose clock shows `now`.
    pub(super) fn into_quotas(self, seed: u64, now: Now) -> Result<Option<MemoryQuotas>, StoreError> {
        let Self { limiter: Some(limiter), groups, keys, .. } = self else { return Ok(None) };
        let quotas = MemoryQuotas::new(groups.clone(), seed).map_err(store_error)?;
        for group in &groups {
            let (Some(from), Some(to)) = (limiter.group(group.name()), quotas.limiter().group(group.name()))
            else {
                continue;
            };
            limiter.for_each_usage(from, wall_clock(now.utc), |key, numbers| {
                quotas.limiter().restore(QuotaScope { group: to, key }, numbers, wall_clock(now.utc), now);
            });
        }
        for (key_hash, SavedIdempotencyKey { fingerprint, is_done, expires }) in keys {
            let remaining = expires.since(now.utc);
            if !remaining.is_zero() {
                quotas.restore_key(key_hash, fingerprint, is_done, now.monotonic + remaining);
            }
        }
        Ok(Some(quotas))
    }
}

fn header(now: UtcTime, groups: &[SavedGroup]) -> Vec<u8> {
    let output = RowEncoder::default().time(now).u64(groups.len() as u64);
    let put_quota = |output: RowEncoder, quota: &SavedQuota| {
        let unit = u8::from(quota.unit == QuotaUnit::Token);
        let output = output.text(&quota.name).byte(unit).byte(quota.kind);
        output.u64(quota.nanos[0]).u64(quota.nanos[1]).u32(quota.max_units)
    };
    let put_group = |output: RowEncoder, group: &SavedGroup| {
        let output = output.text(&group.name).u64(group.quotas.len() as u64);
        group.quotas.iter().fold(output, put_quota)
    };
    groups.iter().fold(output, put_group).row()
}

fn read_header(row: &[u8]) -> Result<(UtcTime, Vec<SavedGroup>), StoreError> {
    let mut input = RowDecoder::row("counts", row)?;
    let (saved_at, count) = (input.time()?, input.u64()?);
    let mut groups = Vec::new();
    for _ in 0..count {
        let (name, count) = (input.text()?.to_owned(), input.u64()?);
        let mut quotas = Vec::new();
        for _ in 0..count {
            let name = input.text()?.to_owned();
            let unit = input.choice(&[QuotaUnit::Request, QuotaUnit::Token])?;
            let (kind, nanos, max_units) = (input.byte()?, [input.u64()?, input.u64()?], input.u32()?);
            quotas.push(SavedQuota { name, unit, kind, nanos, max_units });
        }
        groups.push(SavedGroup { name, quotas });
    }
    input.end((saved_at, groups))
}

/// The index of the group of a row with callers.
fn group_of(key: &[u8]) -> Option<u16> {
    key.get(1..3)?.try_into().ok().map(u16::from_be_bytes)
}

struct RowBuilder {
    kind: u8,
    group: u16,
    rows: Vec<Vec<u8>>,
}

impl RowBuilder {
    const fn new(kind: u8, group: u16) -> Self {
        Self { kind, group, rows: Vec::new() }
    }

    /// Adds an entry: fixed-width hashes, the number of small integers, and those integers.
    fn put(&mut self, hashes: &[u64], numbers: &[u64]) {
        if self.rows.last().is_none_or(|row| row.len() >= MAX_ROW_BYTES) {
            self.rows.push(Vec::new());
        }
        let Some(row) = self.rows.last_mut() else { return };
        hashes.iter().for_each(|hash| row.extend_from_slice(&hash.to_le_bytes()));
        put_varint(row, numbers.len() as u64);
        numbers.iter().for_each(|number| put_varint(row, *number));
    }

    fn write(self, batch: &mut Batch<'_>) -> Result<(), StoreError> {
        let start = [self.kind].into_iter().chain(self.group.to_be_bytes());
        for (number, row) in (0_u32..).zip(&self.rows) {
            let key: Vec<u8> = start.clone().chain(number.to_be_bytes()).collect();
            batch.put(TableKind::Counts, &key, &RowEncoder::with_room(row.len()).bytes(row).row())?;
        }
        Ok(())
    }
}

/// Decodes the entries of a row, each of which has `WORDS` fixed-width hashes.
fn read_entries<const WORDS: usize>(
    row: &[u8],
    mut visit: impl FnMut([u64; WORDS], &[u64]) -> bool,
) -> Result<(), StoreError> {
    let input = RowDecoder::row("counts", row)?;
    let invalid = input.invalid();
    let mut reader = ByteReader::new(input.rest());
    let mut numbers = Vec::new();
    let mut entry = || -> Option<bool> {
        if reader.is_empty() {
            return Some(false);
        }
        let mut hashes = [0; WORDS];
        for hash in &mut hashes {
            *hash = u64::from_le_bytes(reader.array()?);
        }
        numbers.clear();
        for _ in 0..reader.varint()? {
            numbers.push(reader.varint()?);
        }
        visit(hashes, &numbers).then_some(true)
    };
    loop {
        match entry() {
            Some(true) => {}
            Some(false) => return Ok(()),
            None => return Err(invalid),
        }
    }
}

fn read_callers(row: &[u8], mut visit: impl FnMut(u64, &[u64]) -> bool) -> Result<(), StoreError> {
    read_entries(row, |[key]: [u64; 1], numbers| visit(key, numbers))
}

fn read_keys(row: &[u8], mut visit: impl FnMut([u8; 32], SavedIdempotencyKey)) -> Result<(), StoreError> {
    read_entries(row, |[key_words @ .., fingerprint]: [u64; 5], numbers| {
        let [is_done @ 0..=1, expires] = *numbers else { return false };
        let mut bytes = [0; 32];
        for (chunk, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(key_words) {
            *chunk = word.to_le_bytes();
        }
        let (is_done, expires) = (is_done == 1, UtcTime::from_nanos(expires));
        visit(bytes, SavedIdempotencyKey { fingerprint, is_done, expires });
        true
    })
}
