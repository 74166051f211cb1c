//! The ledger: leases, calls and sums.
//!
//! Sums are rows that every call is added to in its own transaction, so that no query about a day has to read its
//! calls.
//!
//! A posted call is a row of its own, and an index leads from its id to its time, so that a duplicate is recognised.
//! Calls from the journal are stored in blocks. A duplicate of one of those is recognised by its id and time, because a
//! post of the same call has the same end.

use super::EmbeddedStore;
use super::blocks;
use super::codec::{Input, Output};
use super::rows::{Batch, Kind, Rows};
use super::sums::{Sums, day_totals, spenders, totals_of_caller};
use crate::ledger::{DayTotals, EventPage, LeaseAsk, Ledger, Posted, Totals};
use crate::usage::{CallId, Certainty, UsageEvent};
use crate::{StoreError, lock};
use seawall_core::budget::{
    BudgetLimits, Lease, LeaseDecision, LeaseId, LeaseReport, Recall, ReconcileDecision,
};
use seawall_core::money::Money;
use seawall_core::time::{Now, UtcTime};
use seawall_core::vocabulary::Tier;
use std::collections::BTreeMap;
use std::ops::{Bound, Range};

pub(super) fn call_key(id: CallId) -> Vec<u8> {
    Output::default().long(id.request).short(id.attempt).key()
}

fn event_key(at: UtcTime, id: CallId) -> Vec<u8> {
    Output::default().moment(at).long(id.request).short(id.attempt).key()
}

fn event_row(event: &UsageEvent) -> Vec<u8> {
    let certainty = Certainty::ALL.iter().position(|known| *known == event.certainty);
    Output::default()
        .number(event.day)
        .number(event.caller)
        .tier(event.tier)
        .text(&event.model)
        .usage(&event.usage)
        .money(event.cost)
        .place(certainty.unwrap_or(Certainty::ALL.len()))
        .row()
}

fn read_name(key: &[u8]) -> Result<(UtcTime, CallId), StoreError> {
    let mut input = Input::key("events", key);
    let (at, request, attempt) = (input.moment()?, input.long()?, input.short()?);
    input.end((at, CallId { request, attempt }))
}

fn read_event(key: &[u8], row: &[u8]) -> Result<UsageEvent, StoreError> {
    let (at, id) = read_name(key)?;
    let mut input = Input::row("events", row)?;
    let (day, caller, tier) = (input.number()?, input.number()?, input.word(&Tier::ALL)?);
    let (model, usage, cost) = (input.text()?.into(), input.usage()?, input.money()?);
    let certainty = input.word(&Certainty::ALL)?;
    input.end(UsageEvent { id, at, day, caller, tier, model, usage, cost, certainty })
}

/// Posts calls to the ledger.
pub(super) fn post(batch: &mut Batch<'_>, events: &[UsageEvent]) -> Result<Posted, StoreError> {
    // Everything is read before anything is written, so that a failed read has changed nothing.
    let mut new: BTreeMap<CallId, &UsageEvent> = BTreeMap::new();
    let mut sums = Sums::default();
    let in_blocks = blocks::known(batch, events)?;
    for event in events {
        let is_known = new.contains_key(&event.id)
            || in_blocks.contains(&blocks::name(event))
            || batch.get(Kind::Calls, &call_key(event.id))?.is_some();
        if !is_known {
            sums.add(event);
            new.insert(event.id, event);
        }
    }
    let sums = sums.on_top_of(batch)?;
    for event in new.values() {
        batch.put(Kind::Events, &event_key(event.at, event.id), &event_row(event))?;
        batch.put(Kind::Calls, &call_key(event.id), &Output::default().moment(event.at).row())?;
    }
    sums.write(batch)?;
    Ok(Posted { new: new.len(), known: events.len() - new.len() })
}

impl Ledger for EmbeddedStore {
    async fn lease(&self, ask: &LeaseAsk, now: Now) -> Result<LeaseDecision, StoreError> {
        let LeaseAsk { lease, total, lasts } = *ask;
        let work = move |batch: &mut Batch<'_>, shelf: &mut super::shelf::Shelf| {
            let decision = shelf.leases.grant(lease, total, lasts, now.monotonic);
            shelf.keep(batch, lease)?;
            Ok(decision)
        };
        self.write(work).await
    }

    async fn report(&self, reports: &[LeaseReport], _: Now) -> Result<Vec<Lease>, StoreError> {
        let reports = reports.to_vec();
        let work = move |batch: &mut Batch<'_>, shelf: &mut super::shelf::Shelf| {
            let mut leases = Vec::with_capacity(reports.len());
            for report in &reports {
                leases.push(shelf.leases.report(report));
                shelf.keep(batch, report.lease)?;
            }
            Ok(leases)
        };
        self.write(work).await
    }

    async fn expire(&self, now: Now) -> Result<Vec<Lease>, StoreError> {
        let work = move |batch: &mut Batch<'_>, shelf: &mut super::shelf::Shelf| {
            let expired = shelf.leases.expire(now.monotonic);
            for lease in &expired {
                shelf.keep(batch, lease.id)?;
            }
            shelf.forget(batch)?;
            Ok(expired)
        };
        self.write(work).await
    }

    async fn reconcile(&self, lease: LeaseId, spent: Money, _: Now) -> Result<ReconcileDecision, StoreError> {
        let work = move |batch: &mut Batch<'_>, shelf: &mut super::shelf::Shelf| {
            let decision = shelf.leases.reconcile(lease, spent);
            shelf.keep(batch, lease)?;
            Ok(decision)
        };
        self.write(work).await
    }

    async fn set_limits(&self, limits: BudgetLimits, day: u64) -> Result<Vec<Recall>, StoreError> {
        self.write(move |_, shelf| Ok(shelf.leases.set_limits(limits, day))).await
    }

    async fn post(&self, events: &[UsageEvent]) -> Result<Posted, StoreError> {
        let events = events.to_vec();
        self.write(move |batch, _| post(batch, &events)).await
    }

    async fn day(&self, day: u64) -> Result<DayTotals, StoreError> {
        let lent = {
            let shelf = lock(&self.shared.shelf);
            Tier::ALL.map(|tier| shelf.leases.tier(day, tier))
        };
        self.read(|view| day_totals(view, day, lent))
    }

    async fn caller(&self, day: u64, caller: u64) -> Result<Totals, StoreError> {
        self.read(|view| totals_of_caller(view, day, caller))
    }

    async fn top_spenders(&self, day: u64, how_many: usize) -> Result<Vec<(u64, Totals)>, StoreError> {
        self.read(|view| spenders(view, day, how_many))
    }

    async fn events(
        &self,
        time: Range<UtcTime>,
        from: Option<(UtcTime, CallId)>,
        most: usize,
    ) -> Result<EventPage, StoreError> {
        let first = Output::default().moment(time.start).key();
        let first = from.map_or(first.clone(), |(at, id)| first.max(event_key(at, id)));
        let end = Output::default().moment(time.end).key();
        let bounds = (Bound::Included(first.as_slice()), Bound::Excluded(end.as_slice()));
        let enough = most.saturating_add(1);
        let (posted, mut events) = self.read(|view| {
            Ok((view.range(Kind::Events, bounds, enough)?, blocks::calls_in(view, time, from, enough)?))
        })?;
        for (key, row) in &posted {
            let event = read_event(key, row)?;
            events.insert(blocks::name(&event), event);
        }
        let next = events.keys().nth(most).copied();
        Ok(EventPage { events: events.into_values().take(most).collect(), next })
    }
}
