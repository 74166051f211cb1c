//! The ledger in memory.

use crate::ledger::{DayTotals, EventPage, LeaseAsk, Ledger, Posted, Totals};
use crate::usage::{CallId, UsageEvent};
use crate::{StoreError, lock};
use seawall_core::budget::{
    BudgetLimits, Lease, LeaseBook, LeaseDecision, LeaseId, LeaseReport, Recall, ReconcileDecision,
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
const DAY_LIFE: Duration = Duration::from_secs(48 * 3_600);
/// The most calls that are forgotten at a time, so that no posting pays for a whole day.
const SLICE: usize = 64;

/// The ledger of a fleet that is a single process. Its contents are lost when the process ends.
#[derive(Debug)]
pub struct MemoryLedger(Mutex<Authority>);

#[derive(Debug)]
struct Authority {
    leases: LeaseBook,
    days: BTreeMap<u64, Day>,
    events: BTreeMap<(UtcTime, CallId), UsageEvent>,
    /// When each call ended, which is the first part of its key among the events.
    calls: BTreeMap<CallId, UtcTime>,
    /// Calls of forgotten days that have not been removed yet.
    leaving: Vec<BTreeSet<CallId>>,
    /// The first time stamp that was passed in, and the time since then. Posting passes none.
    began: Option<Timestamp>,
    passed: Duration,
}

#[derive(Debug, Default)]
struct Day {
    tiers: [Totals; 3],
    models: BTreeMap<Arc<str>, Totals>,
    callers: BTreeMap<u64, Totals>,
    calls: BTreeSet<CallId>,
    used: Duration,
}

impl MemoryLedger {
    /// An empty ledger with these caps.
    #[must_use]
    pub fn new(limits: BudgetLimits) -> Self {
        Self(Mutex::new(Authority {
            leases: LeaseBook::new(limits),
            days: BTreeMap::new(),
            events: BTreeMap::new(),
            calls: BTreeMap::new(),
            leaving: Vec::new(),
            began: None,
            passed: Duration::ZERO,
        }))
    }
}

impl Authority {
    fn post(&mut self, event: &UsageEvent) -> bool {
        if self.calls.contains_key(&event.id) {
            return false;
        }
        self.calls.insert(event.id, event.at);
        self.events.insert((event.at, event.id), event.clone());
        let day = self.days.entry(event.day).or_default();
        day.used = self.passed;
        day.calls.insert(event.id);
        day.tiers[event.tier.index()].add(event);
        day.models.entry(Arc::clone(&event.model)).or_default().add(event);
        day.callers.entry(event.caller).or_default().add(event);
        true
    }

    /// Advances the clock: days that are over are forgotten at once, their calls a few at a time.
    fn hear(&mut self, now: Timestamp) {
        let began = *self.began.get_or_insert(now);
        self.passed = self.passed.max(now - began);
        let is_over = |day: &Day| self.passed.saturating_sub(day.used) >= DAY_LIFE;
        while let Some(number) = self.days.iter().find(|(_, day)| is_over(day)).map(|(number, _)| *number) {
            self.leaving.extend(self.days.remove(&number).map(|day| day.calls));
        }
        self.clear_away();
    }

    fn clear_away(&mut self) {
        for _ in 0..SLICE {
            let Some(calls) = self.leaving.last_mut() else { return };
            match calls.pop_first() {
                Some(id) => {
                    if let Some(at) = self.calls.remove(&id) {
                        self.events.remove(&(at, id));
                    }
                }
                None => {
                    self.leaving.pop();
                }
            }
        }
    }
}

impl Ledger for MemoryLedger {
    async fn lease(&self, ask: &LeaseAsk, now: Now) -> Result<LeaseDecision, StoreError> {
        let mut authority = lock(&self.0);
        authority.hear(now.monotonic);
        Ok(authority.leases.grant(ask.lease, ask.total, ask.lasts, now.monotonic))
    }

    async fn report(&self, reports: &[LeaseReport], now: Now) -> Result<Vec<Lease>, StoreError> {
        let mut authority = lock(&self.0);
        authority.hear(now.monotonic);
        Ok(reports.iter().map(|report| authority.leases.report(report)).collect())
    }

    async fn expire(&self, now: Now) -> Result<Vec<Lease>, StoreError> {
        let mut authority = lock(&self.0);
        authority.hear(now.monotonic);
        Ok(authority.leases.expire(now.monotonic))
    }

    async fn reconcile(
        &self,
        lease: LeaseId,
        spent: Money,
        now: Now,
    ) -> Result<ReconcileDecision, StoreError> {
        let mut authority = lock(&self.0);
        authority.hear(now.monotonic);
        Ok(authority.leases.reconcile(lease, spent))
    }

    async fn set_limits(&self, limits: BudgetLimits, day: u64) -> Result<Vec<Recall>, StoreError> {
        Ok(lock(&self.0).leases.set_limits(limits, day))
    }

    async fn post(&self, events: &[UsageEvent]) -> Result<Posted, StoreError> {
        let mut authority = lock(&self.0);
        authority.clear_away();
        let new = events.iter().filter(|event| authority.post(event)).count();
        Ok(Posted { new, known: events.len().saturating_sub(new) })
    }

    async fn day(&self, day: u64) -> Result<DayTotals, StoreError> {
        let authority = lock(&self.0);
        let lent = Tier::ALL.map(|tier| authority.leases.tier(day, tier));
        let Some(day) = authority.days.get(&day) else {
            return Ok(DayTotals { lent, ..DayTotals::default() });
        };
        let models = day.models.iter().map(|(model, totals)| (Arc::clone(model), *totals)).collect();
        Ok(DayTotals { tiers: day.tiers, models, lent, callers: day.callers.len() as u64 })
    }

    async fn caller(&self, day: u64, caller: u64) -> Result<Totals, StoreError> {
        let authority = lock(&self.0);
        let day = authority.days.get(&day);
        Ok(day.and_then(|day| day.callers.get(&caller)).copied().unwrap_or_default())
    }

    async fn top_spenders(&self, day: u64, how_many: usize) -> Result<Vec<(u64, Totals)>, StoreError> {
        let authority = lock(&self.0);
        let Some(day) = authority.days.get(&day) else { return Ok(Vec::new()) };
        let mut all: Vec<_> = day.callers.iter().map(|(caller, totals)| (*caller, *totals)).collect();
        all.sort_unstable_by_key(|(caller, totals)| (Reverse(totals.cost), *caller));
        all.truncate(how_many);
        Ok(all)
    }

    async fn events(
        &self,
        time: Range<UtcTime>,
        from: Option<(UtcTime, CallId)>,
        most: usize,
    ) -> Result<EventPage, StoreError> {
        let first = (time.start, CallId { request: 0, attempt: 0 });
        let first = from.map_or(first, |from| from.max(first));
        let authority = lock(&self.0);
        let mut rest = authority.events.range(first..).take_while(|((at, _), _)| *at < time.end);
        let events = rest.by_ref().take(most).map(|(_, event)| event.clone()).collect();
        Ok(EventPage { events, next: rest.next().map(|(place, _)| *place) })
    }
}

#[cfg(test)]
mod tests {
    use super::{DAY_LIFE, MemoryLedger, SLICE};
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
            certainty: Certainty::Told,
        }
    }

    #[test]
    fn a_day_is_forgotten_48_hours_after_its_last_call_and_its_calls_a_few_at_a_time() {
        let ledger = MemoryLedger::new(BudgetOptions::default().check().unwrap());
        let mut authority = lock(&ledger.0);
        for request in 0..=SLICE as u128 {
            assert!(authority.post(&event(request, 3)));
        }
        // A clock may start anywhere: an entry's age must not be measured from zero.
        let start = Timestamp::ZERO + DAY_LIFE * 10;
        authority.hear(start);
        assert!(authority.post(&event(1_000, 4)));
        authority.hear(start + DAY_LIFE - Duration::from_nanos(1));
        assert_eq!((authority.days.len(), authority.calls.len()), (2, SLICE + 2));
        assert!(authority.post(&event(1_001, 4)));
        authority.hear(start + DAY_LIFE);
        assert_eq!(authority.days.keys().copied().collect::<Vec<_>>(), [4]);
        assert_eq!((authority.calls.len(), authority.events.len()), (3, 3));
        authority.clear_away();
        assert_eq!((authority.calls.len(), authority.events.len()), (2, 2));
        assert!(!authority.post(&event(1_000, 4)) && authority.post(&event(0, 3)));
    }
}
