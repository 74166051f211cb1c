//! The ledger in memory.

use crate::ledger::{
    DayTotals, EventPage, KeyUsage, LeaseRequest, Ledger, PostSummary, SpendDimension, SpendItem, SpendRow,
    Totals,
};
use crate::usage::{CallId, SpendLabels, UsageEvent};
use crate::{StoreFuture, lock};
use seawall_core::budget::{
    BudgetLease, BudgetLimits, LeaseDecision, LeaseId, LeaseLedger, LeaseRecall, LeaseReport,
    ReconcileDecision,
};
use seawall_core::money::Money;
use seawall_core::time::{Now, Timestamp, UtcTime};
use seawall_core::vocabulary::Tier;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A day to which nothing was posted for this long is forgotten, its calls included.
const DAY_TTL: Duration = Duration::from_secs(48 * 3_600);
/// The most calls that are forgotten at a time, so that no posting pays for a whole day.
const MAX_REMOVALS: usize = 64;

/// The ledger of a fleet that is a single process. Its contents are lost when the process ends.
#[derive(Debug)]
pub struct MemoryLedger(Mutex<MemoryLedgerState>);

#[derive(Debug)]
struct MemoryLedgerState {
    leases: LeaseLedger,
    days: BTreeMap<u64, LedgerDay>,
    events: BTreeMap<(UtcTime, CallId), UsageEvent>,
    /// When each call ended, which is the first part of its key among the events.
    calls: BTreeMap<CallId, UtcTime>,
    /// Calls of forgotten days that have not been removed yet.
    removing: Vec<BTreeSet<CallId>>,
    keys: BTreeMap<u64, KeyUsage>,
    /// The first time stamp that was passed in, and the time since then. Posting passes none.
    started_at: Option<Timestamp>,
    elapsed: Duration,
}

#[derive(Debug, Default)]
struct LedgerDay {
    tiers: [Totals; 3],
    models: BTreeMap<Arc<str>, Totals>,
    callers: BTreeMap<u64, Totals>,
    targets: BTreeMap<Arc<str>, Totals>,
    routes: BTreeMap<Arc<str>, Totals>,
    teams: BTreeMap<Arc<str>, Totals>,
    tags: BTreeMap<Arc<str>, Totals>,
    calls: BTreeSet<CallId>,
    last_used: Duration,
}

impl MemoryLedger {
    /// An empty ledger with these caps.
    #[must_use]
    pub fn new(limits: BudgetLimits) -> Self {
        Self(Mutex::new(MemoryLedgerState {
            leases: LeaseLedger::new(limits),
            days: BTreeMap::new(),
            events: BTreeMap::new(),
            calls: BTreeMap::new(),
            removing: Vec::new(),
            keys: BTreeMap::new(),
            started_at: None,
            elapsed: Duration::ZERO,
        }))
    }
}

impl MemoryLedgerState {
    fn post(&mut self, event: &UsageEvent) -> bool {
        if self.calls.contains_key(&event.id) {
            return false;
        }
        self.calls.insert(event.id, event.at);
        self.events.insert((event.at, event.id), event.clone());
        let day = self.days.entry(event.day).or_default();
        day.last_used = self.elapsed;
        day.calls.insert(event.id);
        day.tiers[event.tier.index()].add(event);
        day.models.entry(Arc::clone(&event.model)).or_default().add(event);
        day.callers.entry(event.caller).or_default().add(event);
        let SpendLabels { target, route, key } = &event.labels;
        for (names, name) in [(&mut day.targets, target), (&mut day.routes, route)] {
            if !name.is_empty() {
                names.entry(Arc::clone(name)).or_default().add(event);
            }
        }
        if let Some(key) = key {
            if let Some(team) = &key.team {
                day.teams.entry(team.as_ref().into()).or_default().add(event);
            }
            for (name, value) in &key.tags {
                day.tags.entry(format!("{name}={value}").into()).or_default().add(event);
            }
            self.keys.entry(event.caller).or_default().add(event);
        }
        true
    }

    /// Advances the clock: days that are over are forgotten at once, their calls a few at a time.
    fn advance_clock(&mut self, now: Timestamp) {
        let started_at = *self.started_at.get_or_insert(now);
        self.elapsed = self.elapsed.max(now - started_at);
        let is_over = |day: &LedgerDay| self.elapsed.saturating_sub(day.last_used) >= DAY_TTL;
        while let Some(number) = self.days.iter().find(|(_, day)| is_over(day)).map(|(number, _)| *number) {
            self.removing.extend(self.days.remove(&number).map(|day| day.calls));
        }
        self.remove_some();
    }

    fn remove_some(&mut self) {
        for _ in 0..MAX_REMOVALS {
            let Some(calls) = self.removing.last_mut() else { return };
            match calls.pop_first() {
                Some(id) => {
                    if let Some(at) = self.calls.remove(&id) {
                        self.events.remove(&(at, id));
                    }
                }
                None => {
                    self.removing.pop();
                }
            }
        }
    }
}

impl Ledger for MemoryLedger {
    fn lease<'a>(&'a self, request: &'a LeaseRequest, now: Now) -> StoreFuture<'a, LeaseDecision> {
        StoreFuture::run(|| {
            let mut state = lock(&self.0);
            state.advance_clock(now.monotonic);
            Ok(state.leases.grant(request.lease, request.total, request.term, now.monotonic))
        })
    }

    fn report<'a>(&'a self, reports: &'a [LeaseReport], now: Now) -> StoreFuture<'a, Vec<BudgetLease>> {
        StoreFuture::run(|| {
            let mut state = lock(&self.0);
            state.advance_clock(now.monotonic);
            Ok(reports.iter().map(|report| state.leases.report(report)).collect())
        })
    }

    fn expire(&self, now: Now) -> StoreFuture<'_, Vec<BudgetLease>> {
        StoreFuture::run(|| {
            let mut state = lock(&self.0);
            state.advance_clock(now.monotonic);
            Ok(state.leases.expire(now.monotonic))
        })
    }

    fn reconcile(&self, lease: LeaseId, spent: Money, now: Now) -> StoreFuture<'_, ReconcileDecision> {
        StoreFuture::run(|| {
            let mut state = lock(&self.0);
            state.advance_clock(now.monotonic);
            Ok(state.leases.reconcile(lease, spent))
        })
    }

    fn set_limits(&self, limits: BudgetLimits, day: u64) -> StoreFuture<'_, Vec<LeaseRecall>> {
        StoreFuture::run(|| Ok(lock(&self.0).leases.set_limits(limits, day)))
    }

    fn post<'a>(&'a self, events: &'a [UsageEvent]) -> StoreFuture<'a, PostSummary> {
        StoreFuture::run(|| {
            let mut state = lock(&self.0);
            state.remove_some();
            let inserted = events.iter().filter(|event| state.post(event)).count();
            Ok(PostSummary { inserted, duplicates: events.len().saturating_sub(inserted) })
        })
    }

    fn day(&self, day: u64) -> StoreFuture<'_, DayTotals> {
        StoreFuture::run(|| {
            let state = lock(&self.0);
            let leases = Tier::ALL.map(|tier| state.leases.tier(day, tier));
            let Some(day) = state.days.get(&day) else {
                return Ok(DayTotals { leases, ..DayTotals::default() });
            };
            let models = day.models.iter().map(|(model, totals)| (Arc::clone(model), *totals)).collect();
            Ok(DayTotals { tiers: day.tiers, models, leases, callers: day.callers.len() as u64 })
        })
    }

    fn caller(&self, day: u64, caller: u64) -> StoreFuture<'_, Totals> {
        StoreFuture::run(|| {
            let state = lock(&self.0);
            let day = state.days.get(&day);
            Ok(day.and_then(|day| day.callers.get(&caller)).copied().unwrap_or_default())
        })
    }

    fn top_spenders(&self, day: u64, limit: usize) -> StoreFuture<'_, Vec<(u64, Totals)>> {
        StoreFuture::run(|| {
            let state = lock(&self.0);
            let Some(day) = state.days.get(&day) else { return Ok(Vec::new()) };
            let mut all: Vec<_> = day.callers.iter().map(|(caller, totals)| (*caller, *totals)).collect();
            all.sort_unstable_by_key(|(caller, totals)| (Reverse(totals.cost), *caller));
            all.truncate(limit);
            Ok(all)
        })
    }

    fn spend(&self, days: Range<u64>, by: SpendDimension) -> StoreFuture<'_, Vec<SpendRow>> {
        StoreFuture::run(|| {
            let state = lock(&self.0);
            let mut all: BTreeMap<SpendItem, Totals> = BTreeMap::new();
            let mut add = |item, totals: &Totals| all.entry(item).or_default().join(totals);
            for (number, day) in state.days.range(days) {
                let tiers = || Tier::ALL.into_iter().zip(&day.tiers).filter(|(_, totals)| totals.calls > 0);
                let names = match by {
                    SpendDimension::Caller => {
                        day.callers
                            .iter()
                            .for_each(|(caller, totals)| add(SpendItem::Caller(*caller), totals));
                        continue;
                    }
                    SpendDimension::Tier => {
                        tiers().for_each(|(tier, totals)| add(SpendItem::Name(tier.name().into()), totals));
                        continue;
                    }
                    SpendDimension::Day => {
                        tiers().for_each(|(_, totals)| add(SpendItem::Day(*number), totals));
                        continue;
                    }
                    SpendDimension::Team => &day.teams,
                    SpendDimension::Model => &day.models,
                    SpendDimension::Target => &day.targets,
                    SpendDimension::Route => &day.routes,
                    SpendDimension::Tag => &day.tags,
                };
                names.iter().for_each(|(name, totals)| add(SpendItem::Name(Arc::clone(name)), totals));
            }
            Ok(all.into_iter().map(|(item, totals)| SpendRow { item, totals }).collect())
        })
    }

    fn key_usage(&self, caller: u64) -> StoreFuture<'_, KeyUsage> {
        StoreFuture::run(|| Ok(lock(&self.0).keys.get(&caller).copied().unwrap_or_default()))
    }

    fn flush(&self) -> StoreFuture<'_, ()> {
        StoreFuture::run(|| Ok(()))
    }

    fn events(
        &self,
        time: Range<UtcTime>,
        from: Option<(UtcTime, CallId)>,
        max: usize,
    ) -> StoreFuture<'_, EventPage> {
        StoreFuture::run(|| {
            let first = (time.start, CallId { request: 0, attempt: 0 });
            let first = from.map_or(first, |from| from.max(first));
            let state = lock(&self.0);
            let mut rest = state.events.range(first..).take_while(|((at, _), _)| *at < time.end);
            let events = rest.by_ref().take(max).map(|(_, event)| event.clone()).collect();
            Ok(EventPage { events, next: rest.next().map(|(cursor, _)| *cursor) })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{DAY_TTL, MAX_REMOVALS, MemoryLedger};
    use crate::lock;
    use crate::usage::{CallId, Certainty, UsageEvent};
    use seawall_core::budget::BudgetOptions;
    use seawall_core::money::{Money, Usage};
    use seawall_core::time::{Timestamp, UtcTime};
    use seawall_core::vocabulary::Tier;
    use std::time::Duration;

    fn event(request: u128, day: u64) -> UsageEvent {
        UsageEvent {
            id: CallId { request, attempt: 0 },
            at: UtcTime::start_of_day(day),
            day,
            caller: 1,
            tier: Tier::Prime,
            model: "strong".into(),
            usage: Usage::default(),
            cost: Money::from_nanos(1),
            certainty: Certainty::Reported,
            labels: Default::default(),
        }
    }

    #[test]
    fn a_day_is_forgotten_48_hours_after_its_last_call_and_its_calls_a_few_at_a_time() {
        let ledger = MemoryLedger::new(BudgetOptions::default().check().unwrap());
        let mut state = lock(&ledger.0);
        for request in 0..=MAX_REMOVALS as u128 {
            assert!(state.post(&event(request, 3)));
        }
        // A clock may start anywhere: an entry's age must not be measured from zero.
        let start = Timestamp::ZERO + DAY_TTL * 10;
        state.advance_clock(start);
        assert!(state.post(&event(1_000, 4)));
        state.advance_clock(start + DAY_TTL - Duration::from_nanos(1));
        assert_eq!((state.days.len(), state.calls.len()), (2, MAX_REMOVALS + 2));
        assert!(state.post(&event(1_001, 4)));
        state.advance_clock(start + DAY_TTL);
        assert_eq!(state.days.keys().copied().collect::<Vec<_>>(), [4]);
        assert_eq!((state.calls.len(), state.events.len()), (3, 3));
        state.remove_some();
        assert_eq!((state.calls.len(), state.events.len()), (2, 2));
        assert!(!state.post(&event(1_000, 4)) && state.post(&event(0, 3)));
    }
}
