//! A node's side of leases.

use super::BudgetLedger;
use crate::budget::day::HeldLease;
use crate::budget::entry::{ApplyDecision, BudgetEntry};
use crate::budget::lease_id::{BudgetLease, LeaseId, LeaseReport};
use crate::money::Money;
use crate::time::Timestamp;
use crate::vocabulary::Tier;
use std::collections::BTreeMap;
use std::time::Duration;

impl BudgetLedger {
    /// Records the authority's reply to a request sent at `requested_at`. The lease runs from the request and not from the
    /// reply, less a margin for clocks that run at different speeds. Returns the entry to journal, already applied, if
    /// the totals changed.
    pub fn set_lease(
        &mut self,
        lease: &BudgetLease,
        requested_at: Timestamp,
        margin: Duration,
    ) -> Option<BudgetEntry> {
        let entry = BudgetEntry::Leased { lease: lease.id, granted: lease.granted, returned: lease.returned };
        let is_news = self.apply(&entry) != ApplyDecision::Unchanged;
        // The end of a lease is not journaled: it is valid on this process's clock only.
        if let Some(held) = self.held_lease_mut(lease.id) {
            held.until = held.until.max((requested_at + lease.term) - margin);
        }
        is_news.then_some(entry)
    }

    /// The entry that brings the total given back of a tier's current lease to `total`, or as close to it as the
    /// unposted and unheld remainder allows; [`Money::MAX`] gives back all of it. Journal it before reporting to the
    /// authority. `None` when there is nothing to give back.
    #[must_use]
    pub fn decide_return(&self, day: u64, tier: Tier, total: Money) -> Option<BudgetEntry> {
        let held = self.held_lease(day, tier)?;
        let total = total.min(held.returned.saturating_add(held.available()));
        (total > held.returned).then_some(BudgetEntry::Returned { lease: held.id, total })
    }

    /// [Decides](Self::decide_return) and applies a return. Returns the total given back of the current lease.
    pub fn give_back(&mut self, day: u64, tier: Tier, total: Money) -> Money {
        if let Some(entry) = self.decide_return(day, tier, total) {
            let _ = self.apply(&entry);
        }
        self.held_lease(day, tier).map_or(Money::ZERO, |held| held.returned)
    }

    /// The lease that pays for a tier's requests on a day; empty until one is granted. `None` without leases.
    #[must_use]
    pub fn held_lease(&self, day: u64, tier: Tier) -> Option<HeldLease> {
        let node = self.node()?;
        let held = self.days.get(&day).and_then(|day| day.lease(tier)).copied();
        Some(held.unwrap_or(HeldLease::new(LeaseId { day, tier, node, generation: 0 })))
    }

    /// Reports for the authority on all leases of a day. Ended leases are included, because their calls may settle
    /// late.
    #[must_use]
    pub fn lease_reports(&self, day: u64) -> Vec<LeaseReport> {
        let report = |held: &HeldLease| LeaseReport {
            lease: held.id,
            posted: held.account.posted,
            returned: held.returned,
        };
        let leases = self.days.get(&day).into_iter().flat_map(|day| &day.leases);
        leases.flat_map(BTreeMap::values).map(report).collect()
    }

    /// Changes a lease of this node, unless a later generation has replaced it.
    pub(super) fn change_lease(&mut self, id: LeaseId, how: impl FnOnce(&mut HeldLease)) -> ApplyDecision {
        let newest = self.held_lease(id.day, id.tier).map(|held| held.id);
        let is_ours = newest.is_some_and(|newest| newest.node == id.node && id >= newest);
        if !is_ours {
            return ApplyDecision::Unchanged;
        }
        let leases = &mut self.day_ledger(id.day).leases[id.tier.index()];
        let before = leases.get(&id.generation).copied();
        let mut held = before.unwrap_or(HeldLease::new(id));
        how(&mut held);
        leases.insert(id.generation, held);
        if before == Some(held) { ApplyDecision::Unchanged } else { ApplyDecision::Applied }
    }

    /// The current lease, if it has this id.
    fn held_lease_mut(&mut self, id: LeaseId) -> Option<&mut HeldLease> {
        let leases = &mut self.days.get_mut(&id.day)?.leases[id.tier.index()];
        let newest = leases.last_entry()?.into_mut();
        (newest.id == id).then_some(newest)
    }
}
