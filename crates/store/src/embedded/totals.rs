//! The totals of a day's calls: by tier, by model, by caller, and the top spenders.
//!
//! A row's key is the day, one byte for what is counted, and the item. Callers are also indexed by the rank of their
//! spending, highest first, so that the first rows of a day give the top spenders. There are eight ranks per doubling
//! of the amount, so that a caller's index row changes now and then, and not with every call.

use super::codec::{RowDecoder, RowEncoder};
use super::fast_map::FastMap;
use super::rows::{Batch, Rows, TableKind};
use super::spending::{key_usage, put_key_usage};
use crate::StoreError;
use crate::ledger::{DayTotals, KeyUsage, SpendDimension, Totals};
use crate::usage::{KeyLabels, UsageEvent};
use seawall_core::budget::LeaseTotals;
use seawall_core::money::Money;
use seawall_core::vocabulary::Tier;
use std::cmp::Reverse;
use std::collections::{BTreeMap, btree_map};
use std::ops::Bound;
use std::sync::Arc;

const CALLERS: u8 = 0;
const TIER: u8 = 1;
const MODEL: u8 = 2;
const CALLER: u8 = 3;
const TARGET: u8 = 4;
const ROUTE: u8 = 5;
const TEAM: u8 = 6;
const TAG: u8 = 7;

/// What the totals of a day are stored by, and the first byte behind the day.
pub(super) const fn dimension_byte(by: SpendDimension) -> u8 {
    match by {
        SpendDimension::Caller => CALLER,
        SpendDimension::Team => TEAM,
        SpendDimension::Tier | SpendDimension::Day => TIER,
        SpendDimension::Model => MODEL,
        SpendDimension::Target => TARGET,
        SpendDimension::Route => ROUTE,
        SpendDimension::Tag => TAG,
    }
}

pub(super) fn key(day: u64, kind: u8) -> RowEncoder {
    RowEncoder::default().u64(day).byte(kind)
}

fn caller_key(day: u64, caller: u64) -> Vec<u8> {
    key(day, CALLER).u64(caller).key()
}

/// The number of ranks from an amount to its double.
const RANKS: u64 = 8;
/// The number of rank rows that are read at a time.
const ROWS_PER_READ: usize = 256;

/// The rank of an amount, which is monotonic. It is determined by the highest four bits.
fn rank(cost: Money) -> u64 {
    let nanos = cost.as_nanos();
    match nanos.checked_ilog2().and_then(|highest| highest.checked_sub(RANKS.ilog2())) {
        None => nanos,
        Some(shift) => RANKS * u64::from(shift) + (nanos >> shift),
    }
}

fn rank_key(day: u64, rank: u64, caller: u64) -> Vec<u8> {
    RowEncoder::default().u64(day).u64(!rank).u64(caller).key()
}

/// The day, rank and caller of a row.
fn read_rank(key: &[u8]) -> Result<(u64, u64, u64), StoreError> {
    let mut input = RowDecoder::key("ranks", key);
    let (day, rank, caller) = (input.u64()?, !input.u64()?, input.u64()?);
    input.end((day, rank, caller))
}

/// Migrates databases of the previous format, which index callers by their exact amounts.
pub(super) fn rank_spenders(batch: &mut Batch<'_>) -> Result<(), StoreError> {
    for (key, _) in batch.with_prefix(TableKind::Spenders, &[], usize::MAX)? {
        let (day, nanos, caller) = read_rank(&key)?;
        batch.put(TableKind::Ranks, &rank_key(day, rank(Money::from_nanos(nanos)), caller), &[])?;
        batch.remove(TableKind::Spenders, &key)?;
    }
    Ok(())
}

fn row(totals: &Totals) -> Vec<u8> {
    RowEncoder::default().u64(totals.calls).usage(&totals.usage).money(totals.cost).row()
}

pub(super) fn read_row(row: &[u8]) -> Result<Totals, StoreError> {
    let mut input = RowDecoder::row("totals", row)?;
    let (calls, usage, cost) = (input.u64()?, input.usage()?, input.money()?);
    input.end(Totals { calls, usage, cost })
}

fn totals_at(rows: &mut impl Rows, key: &[u8]) -> Result<Option<Totals>, StoreError> {
    rows.get(TableKind::Totals, key)?.map(|row| read_row(&row)).transpose()
}

fn caller_count(rows: &mut impl Rows, day: u64) -> Result<u64, StoreError> {
    let Some(row) = rows.get(TableKind::Totals, &key(day, CALLERS).key())? else { return Ok(0) };
    let mut input = RowDecoder::row("totals", &row)?;
    let callers = input.u64()?;
    input.end(callers)
}

/// The totals of calls that are to be added to the stored totals.
#[derive(Debug, Default)]
pub(super) struct PendingTotals {
    /// By day, tier, model, target and route. There are few combinations, and the last one is the most likely match.
    by_model: Vec<(CallGroup, Totals)>,
    callers: FastMap<(u64, u64), Totals>,
    /// By day and labels of the key.
    by_labels: BTreeMap<(u64, Arc<KeyLabels>), Totals>,
    /// Of callers with an API key.
    keys: FastMap<u64, KeyUsage>,
}

/// What calls have in common that are summed together.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CallGroup {
    day: u64,
    tier: Tier,
    model: Arc<str>,
    target: Arc<str>,
    route: Arc<str>,
}

impl CallGroup {
    fn of(event: &UsageEvent) -> Self {
        Self {
            day: event.day,
            tier: event.tier,
            model: Arc::clone(&event.model),
            target: Arc::clone(&event.labels.target),
            route: Arc::clone(&event.labels.route),
        }
    }

    fn contains(&self, event: &UsageEvent) -> bool {
        let is_same = |one: &Arc<str>, other: &Arc<str>| Arc::ptr_eq(one, other) || one == other;
        self.day == event.day
            && self.tier == event.tier
            && is_same(&self.model, &event.model)
            && is_same(&self.target, &event.labels.target)
            && is_same(&self.route, &event.labels.route)
    }
}

impl PendingTotals {
    /// Adds a call. Nothing is written yet.
    pub(super) fn add(&mut self, event: &UsageEvent) {
        let UsageEvent { day, caller, labels, .. } = event;
        match self.by_model.iter_mut().rev().find(|(group, _)| group.contains(event)) {
            Some((_, totals)) => totals.add(event),
            None => {
                let mut totals = Totals::default();
                totals.add(event);
                self.by_model.push((CallGroup::of(event), totals));
            }
        }
        self.callers.entry((*day, *caller)).or_default().add(event);
        if let Some(key) = &labels.key {
            self.keys.entry(*caller).or_default().add(event);
            if key.team.is_some() || !key.tags.is_empty() {
                self.by_labels.entry((*day, Arc::clone(key))).or_default().add(event);
            }
        }
    }

    /// Adds these totals to the stored ones, to be written later.
    pub(super) fn merge_stored(self, rows: &mut impl Rows) -> Result<UpdatedTotals, StoreError> {
        let mut updated = UpdatedTotals::default();
        let mut by_model: BTreeMap<Vec<u8>, Totals> = BTreeMap::new();
        let named = |day, kind, name: &str| key(day, kind).bytes(name.as_bytes()).key();
        for (CallGroup { day, tier, model, target, route }, totals) in self.by_model {
            by_model.entry(key(day, TIER).tier(tier).key()).or_default().join(&totals);
            for (kind, name) in [(MODEL, model), (TARGET, target), (ROUTE, route)] {
                if kind == MODEL || !name.is_empty() {
                    by_model.entry(named(day, kind, &name)).or_default().join(&totals);
                }
            }
        }
        for ((day, labels), totals) in self.by_labels {
            if let Some(team) = &labels.team {
                by_model.entry(named(day, TEAM, team)).or_default().join(&totals);
            }
            for (name, value) in &labels.tags {
                by_model.entry(named(day, TAG, &format!("{name}={value}"))).or_default().join(&totals);
            }
        }
        for (key, mut sum) in by_model {
            sum.join(&totals_at(rows, &key)?.unwrap_or_default());
            updated.rows.push((key, sum));
        }
        let mut keys: Vec<_> = self.keys.into_iter().collect();
        keys.sort_unstable_by_key(|(caller, _)| *caller);
        for (caller, mut usage) in keys {
            usage.join(&key_usage(rows, caller)?);
            updated.keys.push((caller, usage));
        }
        // In key order, which is the fastest way to update a B-tree.
        let mut callers: Vec<_> = self.callers.into_iter().collect();
        callers.sort_unstable_by_key(|(caller, _)| *caller);
        for ((day, caller), mut sum) in callers {
            let key = caller_key(day, caller);
            let stored = totals_at(rows, &key)?;
            sum.join(&stored.unwrap_or_default());
            updated.spenders.push((day, caller, stored.map(|stored| stored.cost), sum.cost));
            updated.rows.push((key, sum));
            if stored.is_none() {
                let callers = match updated.days.entry(day) {
                    btree_map::Entry::Occupied(entry) => entry.into_mut(),
                    btree_map::Entry::Vacant(entry) => entry.insert(caller_count(rows, day)?),
                };
                *callers = callers.saturating_add(1);
            }
        }
        Ok(updated)
    }
}

/// The new totals, ready to be written.
#[derive(Debug, Default)]
pub(super) struct UpdatedTotals {
    rows: Vec<(Vec<u8>, Totals)>,
    /// Day, caller, previous spending (if the caller is known on that day), and new spending.
    spenders: Vec<(u64, u64, Option<Money>, Money)>,
    /// The new number of callers, for the days that have new ones.
    days: BTreeMap<u64, u64>,
    keys: Vec<(u64, KeyUsage)>,
}

impl UpdatedTotals {
    pub(super) fn write(self, batch: &mut Batch<'_>) -> Result<(), StoreError> {
        for (day, callers) in self.days {
            batch.put(
                TableKind::Totals,
                &key(day, CALLERS).key(),
                &RowEncoder::default().u64(callers).row(),
            )?;
        }
        for (day, caller, before, now) in self.spenders {
            let (before, now) = (before.map(rank), rank(now));
            if before == Some(now) {
                continue;
            }
            if let Some(before) = before {
                batch.remove(TableKind::Ranks, &rank_key(day, before, caller))?;
            }
            batch.put(TableKind::Ranks, &rank_key(day, now, caller), &[])?;
        }
        for (key, totals) in &self.rows {
            batch.put(TableKind::Totals, key, &row(totals))?;
        }
        for (caller, usage) in &self.keys {
            put_key_usage(batch, *caller, usage)?;
        }
        Ok(())
    }
}

/// Returns the ledger of a day.
pub(super) fn day_totals(
    rows: &mut impl Rows,
    day: u64,
    leases: [LeaseTotals; 3],
) -> Result<DayTotals, StoreError> {
    let mut tiers = [Totals::default(); 3];
    for (tier, totals) in Tier::ALL.into_iter().zip(&mut tiers) {
        *totals = totals_at(rows, &key(day, TIER).tier(tier).key())?.unwrap_or_default();
    }
    let prefix = key(day, MODEL).key();
    let mut models = Vec::new();
    for (key, row) in rows.with_prefix(TableKind::Totals, &prefix, usize::MAX)? {
        let name = RowDecoder::key("totals", &key[prefix.len()..]).rest_text()?;
        models.push((name.into(), read_row(&row)?));
    }
    Ok(DayTotals { tiers, models, leases, callers: caller_count(rows, day)? })
}

/// Returns what one caller has spent on a day.
pub(super) fn totals_of_caller(rows: &mut impl Rows, day: u64, caller: u64) -> Result<Totals, StoreError> {
    Ok(totals_at(rows, &caller_key(day, caller))?.unwrap_or_default())
}

/// Returns the callers that spent most on a day.
pub(super) fn spenders(
    rows: &mut impl Rows,
    day: u64,
    limit: usize,
) -> Result<Vec<(u64, Totals)>, StoreError> {
    let mut spenders = Vec::new();
    let prefix = RowEncoder::default().u64(day).key();
    let end = RowEncoder::default().u64(day).u64(u64::MAX).u64(u64::MAX).key();
    let (mut next, mut last_rank) = (Bound::Included(prefix), None);
    'rows: loop {
        let bounds = (next.as_ref().map(Vec::as_slice), Bound::Included(end.as_slice()));
        let chunk = rows.range(TableKind::Ranks, bounds, ROWS_PER_READ)?;
        let Some((last, _)) = chunk.last() else { break };
        next = Bound::Excluded(last.clone());
        for (key, _) in chunk {
            let (_, rank, caller) = read_rank(&key)?;
            // Rows within a rank are not sorted by amount, so a rank must be read to its end.
            if spenders.len() >= limit && last_rank != Some(rank) {
                break 'rows;
            }
            last_rank = Some(rank);
            spenders.push((caller, totals_of_caller(rows, day, caller)?));
        }
    }
    spenders.sort_unstable_by_key(|(caller, totals)| (Reverse(totals.cost), *caller));
    spenders.truncate(limit);
    Ok(spenders)
}

#[cfg(test)]
mod tests {
    use super::{PendingTotals, Totals, rank};
    use crate::usage::{CallId, Certainty, SpendLabels, UsageEvent};
    use proptest::collection::vec;
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
    use seawall_core::money::{Money, Usage};
    use seawall_core::time::UtcTime;
    use seawall_core::vocabulary::Tier;
    use std::collections::BTreeMap;

    #[test]
    fn eight_ranks_double_an_amount() {
        let of = |nanos| rank(Money::from_nanos(nanos));
        assert_eq!(
            [0, 1, 7, 8, 15, 16, 17, 18, 31, 32, 36].map(of),
            [0, 1, 7, 8, 15, 16, 16, 17, 23, 24, 25]
        );
        assert_eq!((of(1 << 63), of(u64::MAX)), (8 * 61, 8 * 61 + 7));
    }

    fn event(day: u64, caller: u64, tier: Tier, model: &str, cost: u64) -> UsageEvent {
        let (id, at) = (CallId { request: 1, attempt: 0 }, UtcTime::default());
        let (usage, cost) = (Usage { output: cost, ..Usage::default() }, Money::from_nanos(cost));
        let model = model.into();
        let labels = SpendLabels::default();
        UsageEvent { id, at, day, caller, tier, model, labels, usage, cost, certainty: Certainty::Reported }
    }

    proptest! {
        /// Model names are compared by value: each call here has its own copy of the name.
        #[test]
        fn calls_are_summed_by_what_they_have_in_common(
            calls in vec((0_u64..2, 0_u64..3, 0_usize..3, 0_usize..2, 0_u64..9), 0..60),
        ) {
            let (mut pending, mut by_model, mut callers) = (PendingTotals::default(), BTreeMap::new(), BTreeMap::new());
            for (day, caller, tier, model, cost) in calls {
                let (tier, model) = (Tier::ALL[tier], ["strong", "swift"][model]);
                let event = event(day, caller, tier, model, cost);
                pending.add(&event);
                by_model.entry((day, tier, model)).or_insert(Totals::default()).add(&event);
                callers.entry((day, caller)).or_insert(Totals::default()).add(&event);
            }
            let pending_by_model = pending.by_model.iter().map(|(group, sum)| ((group.day, group.tier, &*group.model), *sum));
            prop_assert_eq!(pending_by_model.len(), by_model.len(), "each is there once");
            prop_assert_eq!(pending_by_model.collect::<BTreeMap<_, _>>(), by_model);
            prop_assert_eq!(pending.callers.into_iter().collect::<BTreeMap<_, _>>(), callers);
        }

        #[test]
        fn a_higher_amount_has_no_lower_rank(nanos in any::<u64>(), shift in 0_u32..64, more in 0_u64..9) {
            let nanos = nanos >> shift;
            let of = |nanos| rank(Money::from_nanos(nanos));
            prop_assert!(of(nanos) <= of(nanos.saturating_add(more)));
            prop_assert!(of(nanos) < of(nanos.saturating_mul(2)) || nanos == 0 || nanos > u64::MAX / 2);
        }
    }
}
