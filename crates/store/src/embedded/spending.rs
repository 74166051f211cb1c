//! Breakdowns of spending, and what each API key has used.
//!
//! Totals by day and dimension are rows that every call is added to ([`totals`](super::totals)), so that a breakdown
//! reads no calls. The usage of a key over all days is a row of its own.

use super::codec::{RowDecoder, RowEncoder};
use super::rows::{Batch, Rows, TableKind};
use super::totals::{dimension_byte, key, read_row};
use crate::StoreError;
use crate::ledger::{KeyUsage, SpendDimension, SpendItem, SpendRow, Totals};
use seawall_core::time::UtcTime;
use seawall_core::vocabulary::Tier;
use std::collections::BTreeMap;
use std::ops::Range;

/// Returns what was spent on these days, by one dimension.
pub(super) fn spend(
    rows: &mut impl Rows,
    days: Range<u64>,
    by: SpendDimension,
) -> Result<Vec<SpendRow>, StoreError> {
    let mut all: BTreeMap<SpendItem, Totals> = BTreeMap::new();
    for day in days {
        let prefix = key(day, dimension_byte(by)).key();
        for (key, row) in rows.with_prefix(TableKind::Totals, &prefix, usize::MAX)? {
            let mut input = RowDecoder::key("totals", &key[prefix.len()..]);
            let item = match by {
                SpendDimension::Caller => {
                    let caller = input.u64()?;
                    SpendItem::Caller(input.end(caller)?)
                }
                SpendDimension::Tier => {
                    let tier = input.choice(&Tier::ALL)?;
                    SpendItem::Name(input.end(tier)?.name().into())
                }
                SpendDimension::Day => SpendItem::Day(day),
                _ => SpendItem::Name(input.rest_text()?.into()),
            };
            all.entry(item).or_default().join(&read_row(&row)?);
        }
    }
    Ok(all.into_iter().map(|(item, totals)| SpendRow { item, totals }).collect())
}

/// Returns what an API key has used.
pub(super) fn key_usage(rows: &mut impl Rows, caller: u64) -> Result<KeyUsage, StoreError> {
    let Some(row) = rows.get(TableKind::KeyUsage, &RowEncoder::default().u64(caller).key())? else {
        return Ok(KeyUsage::default());
    };
    let mut input = RowDecoder::row("key_usage", &row)?;
    let totals = Totals { calls: input.u64()?, usage: input.usage()?, cost: input.money()? };
    let last_used = input.optional()?.map(UtcTime::from_nanos);
    input.end(KeyUsage { totals, last_used })
}

pub(super) fn put_key_usage(batch: &mut Batch<'_>, caller: u64, usage: &KeyUsage) -> Result<(), StoreError> {
    let KeyUsage { totals: Totals { calls, usage, cost }, last_used } = usage;
    let row = RowEncoder::default().u64(*calls).usage(usage).money(*cost);
    let row = row.optional(last_used.map(UtcTime::as_nanos)).row();
    batch.put(TableKind::KeyUsage, &RowEncoder::default().u64(caller).key(), &row)
}
