//! The ledger: leases, calls and totals.
//!
//! Totals are rows that every call is added to in its own transaction, so that no query about a day has to read its
//! calls.
//!
//! A posted call is a row of its own, and an index leads from its id to its time, so that a duplicate is recognised.
//! Calls from the journal are stored in blocks. A duplicate of one of those is recognised by its id and time, because a
//! post of the same call has the same end.

use super::EmbeddedStore;
use super::blocks;
use super::codec::{RowDecoder, RowEncoder};
use super::rows::{Batch, Rows, TableKind};
use super::spending::{key_usage, spend};
use super::totals::{PendingTotals, day_totals, spenders, totals_of_caller};
use crate::encoding::ByteReader;
use crate::ledger::{
    DayTotals, EventPage, KeyUsage, LeaseRequest, Ledger, PostSummary, SpendDimension, SpendRow, Totals,
};
use crate::node_ledger::{put_labels, read_labels};
use crate::usage::{CallId, Certainty, SpendLabels, UsageEvent};
use crate::{StoreError, StoreFuture, lock};
use seawall_core::budget::{
    BudgetLease, BudgetLimits, LeaseDecision, LeaseId, LeaseRecall, LeaseReport, ReconcileDecision,
};
use seawall_core::money::Money;
use seawall_core::time::{Now, UtcTime};
use seawall_core::vocabulary::Tier;
use std::collections::BTreeMap;
use std::ops::{Bound, Range};

pub(super) fn call_key(id: CallId) -> Vec<u8> {
    RowEncoder::default().u128(id.request).u32(id.attempt).key()
}

fn event_key(at: UtcTime, id: CallId) -> Vec<u8> {
    RowEncoder::default().time(at).u128(id.request).u32(id.attempt).key()
}

fn event_row(event: &UsageEvent) -> Vec<u8> {
    let certainty = Certainty::ALL.iter().position(|known| *known == event.certainty);
    let mut labels = Vec::new();
    if event.labels != SpendLabels::default() {
        put_labels(&mut labels, &event.labels);
    }
    RowEncoder::default()
        .u64(event.day)
        .u64(event.caller)
        .tier(event.tier)
        .text(&event.model)
        .usage(&event.usage)
        .money(event.cost)
        .index(certainty.unwrap_or(Certainty::ALL.len()))
        .bytes(&labels)
        .row()
}

fn read_event_key(key: &[u8]) -> Result<(UtcTime, CallId), StoreError> {
    let mut input = RowDecoder::key("events", key);
    let (at, request, attempt) = (input.time()?, input.u128()?, input.u32()?);
    input.end((at, CallId { request, attempt }))
}

fn read_event(key: &[u8], row: &[u8]) -> Result<UsageEvent, StoreError> {
    let (at, id) = read_event_key(key)?;
    let mut input = RowDecoder::row("events", row)?;
    let (day, caller, tier) = (input.u64()?, input.u64()?, input.choice(&Tier::ALL)?);
    let (model, usage, cost) = (input.text()?.into(), input.usage()?, input.money()?);
    let certainty = input.choice(&Certainty::ALL)?;
    // Rows of calls without labels, and from before labels existed, end here.
    let labels = if input.is_at_end() {
        SpendLabels::default()
    } else {
        let invalid = input.invalid();
        let mut reader = ByteReader::new(input.rest());
        let labels = read_labels(&mut reader).filter(|_| reader.end().is_some());
        labels.ok_or(invalid)?
    };
    Ok(UsageEvent { id, at, day, caller, tier, model, labels, usage, cost, certainty })
}

/// Posts calls to the ledger.
pub(super) fn post(batch: &mut Batch<'_>, events: &[UsageEvent]) -> Result<PostSummary, StoreError> {
    // Everything is read before anything is written, so that a failed read has changed nothing.
    let mut new: BTreeMap<CallId, &UsageEvent> = BTreeMap::new();
    let mut totals = PendingTotals::default();
    let in_blocks = blocks::stored_calls(batch, events)?;
    for event in events {
        let is_known = new.contains_key(&event.id)
            || in_blocks.contains(&blocks::sort_key(event))
            || batch.get(TableKind::Calls, &call_key(event.id))?.is_some();
        if !is_known {
            totals.add(event);
            new.insert(event.id, event);
        }
    }
    let totals = totals.merge_stored(batch)?;
    for event in new.values() {
        batch.put(TableKind::Events, &event_key(event.at, event.id), &event_row(event))?;
        batch.put(TableKind::Calls, &call_key(event.id), &RowEncoder::default().time(event.at).row())?;
    }
    totals.write(batch)?;
    Ok(PostSummary { inserted: new.len(), duplicates: events.len() - new.len() })
}

impl Ledger for EmbeddedStore {
    fn lease<'a>(&'a self, request: &'a LeaseRequest, now: Now) -> StoreFuture<'a, LeaseDecision> {
        StoreFuture::boxed(async move {
            let LeaseRequest { lease, total, term } = *request;
            let work = move |batch: &mut Batch<'_>, leases: &mut super::leases::StoredLeases| {
                let decision = leases.ledger.grant(lease, total, term, now.monotonic);
                leases.save(batch, lease)?;
                Ok(decision)
            };
            self.write(work).await
        })
    }

    fn report<'a>(&'a self, reports: &'a [LeaseReport], _: Now) -> StoreFuture<'a, Vec<BudgetLease>> {
        StoreFuture::boxed(async move {
            let reports = reports.to_vec();
            let work = move |batch: &mut Batch<'_>, leases: &mut super::leases::StoredLeases| {
                let mut reported = Vec::with_capacity(reports.len());
                for report in &reports {
                    reported.push(leases.ledger.report(report));
                    leases.save(batch, report.lease)?;
                }
                Ok(reported)
            };
            self.write(work).await
        })
    }

    fn expire(&self, now: Now) -> StoreFuture<'_, Vec<BudgetLease>> {
        StoreFuture::boxed(async move {
            let work = move |batch: &mut Batch<'_>, leases: &mut super::leases::StoredLeases| {
                let expired = leases.ledger.expire(now.monotonic);
                for lease in &expired {
                    leases.save(batch, lease.id)?;
                }
                leases.remove_evicted(batch)?;
                Ok(expired)
            };
            self.write(work).await
        })
    }

    fn reconcile(&self, lease: LeaseId, spent: Money, _: Now) -> StoreFuture<'_, ReconcileDecision> {
        StoreFuture::boxed(async move {
            let work = move |batch: &mut Batch<'_>, leases: &mut super::leases::StoredLeases| {
                let decision = leases.ledger.reconcile(lease, spent);
                leases.save(batch, lease)?;
                Ok(decision)
            };
            self.write(work).await
        })
    }

    fn set_limits(&self, limits: BudgetLimits, day: u64) -> StoreFuture<'_, Vec<LeaseRecall>> {
        StoreFuture::boxed(async move {
            self.write(move |_, leases| Ok(leases.ledger.set_limits(limits, day))).await
        })
    }

    fn post<'a>(&'a self, events: &'a [UsageEvent]) -> StoreFuture<'a, PostSummary> {
        StoreFuture::boxed(async move {
            let events = events.to_vec();
            self.write(move |batch, _| post(batch, &events)).await
        })
    }

    fn day(&self, day: u64) -> StoreFuture<'_, DayTotals> {
        StoreFuture::run(|| {
            let lease_totals = {
                let leases = lock(&self.shared.leases);
                Tier::ALL.map(|tier| leases.ledger.tier(day, tier))
            };
            self.read(|view| day_totals(view, day, lease_totals))
        })
    }

    fn caller(&self, day: u64, caller: u64) -> StoreFuture<'_, Totals> {
        StoreFuture::run(|| self.read(|view| totals_of_caller(view, day, caller)))
    }

    fn top_spenders(&self, day: u64, limit: usize) -> StoreFuture<'_, Vec<(u64, Totals)>> {
        StoreFuture::run(|| self.read(|view| spenders(view, day, limit)))
    }

    fn spend(&self, days: Range<u64>, by: SpendDimension) -> StoreFuture<'_, Vec<SpendRow>> {
        StoreFuture::run(|| self.read(|view| spend(view, days, by)))
    }

    fn key_usage(&self, caller: u64) -> StoreFuture<'_, KeyUsage> {
        StoreFuture::run(|| self.read(|view| key_usage(view, caller)))
    }

    fn flush(&self) -> StoreFuture<'_, ()> {
        // The writer carries out what was scheduled before in order.
        StoreFuture::boxed(async move { self.write(|_, _| Ok(())).await })
    }

    fn events(
        &self,
        time: Range<UtcTime>,
        from: Option<(UtcTime, CallId)>,
        max: usize,
    ) -> StoreFuture<'_, EventPage> {
        StoreFuture::run(|| {
            let first = RowEncoder::default().time(time.start).key();
            let first = from.map_or(first.clone(), |(at, id)| first.max(event_key(at, id)));
            let end = RowEncoder::default().time(time.end).key();
            let bounds = (Bound::Included(first.as_slice()), Bound::Excluded(end.as_slice()));
            let enough = max.saturating_add(1);
            let (posted, mut events) = self.read(|view| {
                Ok((
                    view.range(TableKind::Events, bounds, enough)?,
                    blocks::calls_in(view, time, from, enough)?,
                ))
            })?;
            for (key, row) in &posted {
                let event = read_event(key, row)?;
                events.insert(blocks::sort_key(&event), event);
            }
            let next = events.keys().nth(max).copied();
            Ok(EventPage { events: events.into_values().take(max).collect(), next })
        })
    }
}
