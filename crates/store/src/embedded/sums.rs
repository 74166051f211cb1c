//! What the calls of a day come to: by tier, by model, by caller, and who has spent most.
//!
//! A row's key is the day, one byte for what is counted, and which. Callers also lie in the order of what they have spent, the
//! highest first, so that the first rows of a day are the answer.

use super::codec::{Input, Output};
use super::rows::{Batch, Kind, Rows};
use crate::StoreError;
use crate::ledger::{DayTotals, Totals};
use crate::usage::UsageEvent;
use seawall_core::budget::LentBooks;
use seawall_core::money::Money;
use seawall_core::vocabulary::Tier;
use std::collections::BTreeMap;

const CALLERS: u8 = 0;
const TIER: u8 = 1;
const MODEL: u8 = 2;
const CALLER: u8 = 3;

fn key(day: u64, what: u8) -> Output {
    Output::default().number(day).byte(what)
}

fn caller_key(day: u64, caller: u64) -> Vec<u8> {
    key(day, CALLER).number(caller).key()
}

fn spender_key(day: u64, cost: Money, caller: u64) -> Vec<u8> {
    Output::default().number(day).number(!cost.as_nanos()).number(caller).key()
}

fn row(totals: &Totals) -> Vec<u8> {
    Output::default().number(totals.calls).usage(&totals.usage).money(totals.cost).row()
}

fn read_row(row: &[u8]) -> Result<Totals, StoreError> {
    let mut input = Input::row("totals", row)?;
    let (calls, usage, cost) = (input.number()?, input.usage()?, input.money()?);
    input.end(Totals { calls, usage, cost })
}

fn totals_at(rows: &mut impl Rows, key: &[u8]) -> Result<Option<Totals>, StoreError> {
    rows.get(Kind::Totals, key)?.map(|row| read_row(&row)).transpose()
}

fn callers_of(rows: &mut impl Rows, day: u64) -> Result<u64, StoreError> {
    let Some(row) = rows.get(Kind::Totals, &key(day, CALLERS).key())? else { return Ok(0) };
    let mut input = Input::row("totals", &row)?;
    let callers = input.number()?;
    input.end(callers)
}

/// Sums to which calls are added, until they are written all at once.
#[derive(Debug, Default)]
pub(super) struct Sums {
    rows: BTreeMap<Vec<u8>, Totals>,
    /// What each caller of a day had spent before, if there was such a caller.
    callers: BTreeMap<(u64, u64), Option<Money>>,
    /// How many callers each day had before.
    days: BTreeMap<u64, u64>,
}

impl Sums {
    /// Adds a call. Nothing is written yet.
    pub(super) fn add(&mut self, rows: &mut impl Rows, event: &UsageEvent) -> Result<(), StoreError> {
        let UsageEvent { day, caller, .. } = *event;
        let of_tier = key(day, TIER).tier(event.tier).key();
        let of_model = key(day, MODEL).fixed(event.model.as_bytes()).key();
        let of_caller = caller_key(day, caller);
        for key in [&of_tier, &of_model, &of_caller] {
            if !self.rows.contains_key(key) {
                let before = totals_at(rows, key)?;
                if *key == of_caller {
                    self.callers.insert((day, caller), before.map(|totals| totals.cost));
                }
                self.rows.insert(key.clone(), before.unwrap_or_default());
            }
        }
        if let std::collections::btree_map::Entry::Vacant(place) = self.days.entry(day) {
            place.insert(callers_of(rows, day)?);
        }
        for key in [of_tier, of_model, of_caller] {
            self.rows.entry(key).or_default().add(event);
        }
        Ok(())
    }

    /// Writes what has come together.
    pub(super) fn write(mut self, batch: &mut Batch<'_>) -> Result<(), StoreError> {
        for ((day, caller), before) in self.callers {
            let Some(now) = self.rows.get(&caller_key(day, caller)) else { continue };
            match before {
                Some(before) if before == now.cost => continue,
                Some(before) => batch.remove(Kind::Spenders, &spender_key(day, before, caller))?,
                None => {
                    let callers = self.days.entry(day).or_default();
                    *callers = callers.saturating_add(1);
                    batch.put(
                        Kind::Totals,
                        &key(day, CALLERS).key(),
                        &Output::default().number(*callers).row(),
                    )?;
                }
            }
            batch.put(Kind::Spenders, &spender_key(day, now.cost, caller), &[])?;
        }
        for (key, totals) in &self.rows {
            batch.put(Kind::Totals, key, &row(totals))?;
        }
        Ok(())
    }
}

/// The books of a day.
pub(super) fn day_totals(
    rows: &mut impl Rows,
    day: u64,
    lent: [LentBooks; 3],
) -> Result<DayTotals, StoreError> {
    let mut tiers = [Totals::default(); 3];
    for (tier, totals) in Tier::ALL.into_iter().zip(&mut tiers) {
        *totals = totals_at(rows, &key(day, TIER).tier(tier).key())?.unwrap_or_default();
    }
    let prefix = key(day, MODEL).key();
    let mut models = Vec::new();
    for (key, row) in rows.beginning(Kind::Totals, &prefix, usize::MAX)? {
        let name = Input::key("totals", &key[prefix.len()..]).rest_text()?;
        models.push((name.into(), read_row(&row)?));
    }
    Ok(DayTotals { tiers, models, lent, callers: callers_of(rows, day)? })
}

/// What one caller has spent on a day.
pub(super) fn totals_of_caller(rows: &mut impl Rows, day: u64, caller: u64) -> Result<Totals, StoreError> {
    Ok(totals_at(rows, &caller_key(day, caller))?.unwrap_or_default())
}

/// Who has spent most on a day.
pub(super) fn spenders(
    rows: &mut impl Rows,
    day: u64,
    how_many: usize,
) -> Result<Vec<(u64, Totals)>, StoreError> {
    let mut spenders = Vec::new();
    for (key, _) in rows.beginning(Kind::Spenders, &Output::default().number(day).key(), how_many)? {
        let mut input = Input::key("spenders", &key);
        let (_, _, caller) = (input.number()?, input.number()?, input.number()?);
        let caller = input.end(caller)?;
        spenders.push((caller, totals_of_caller(rows, day, caller)?));
    }
    Ok(spenders)
}
