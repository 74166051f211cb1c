//! What a node does with its leases.

use super::BudgetBook;
use crate::budget::day::HeldLease;
use crate::budget::entry::{ApplyDecision, Entry};
use crate::budget::lease_id::{Lease, LeaseId, LeaseReport};
use crate::money::Money;
use crate::time::Timestamp;
use crate::vocabulary::Tier;
use std::collections::BTreeMap;
use std::time::Duration;

impl BudgetBook {
    /// The authority has answered a question that was asked at `asked`. From then on, and not from the answer on, the
    /// lease lasts, less a margin for clocks that run at different speeds. Returns the entry, which has been applied, if
    /// there is something to be written down.
    pub fn set_lease(&mut self, lease: &Lease, asked: Timestamp, margin: Duration) -> Option<Entry> {
        let entry = Entry::Leased { lease: lease.id, granted: lease.granted, returned: lease.returned };
        let is_news = self.apply(&entry) != ApplyDecision::Known;
        // How long it lasts is not written down: it is true on this clock only.
        if let Some(held) = self.held_lease_mut(lease.id) {
            held.until = held.until.max((asked + lease.lasts) - margin);
        }
        is_news.then_some(entry)
    }

    /// What it takes to have given back `total` of the present lease of a tier's day, or as much of it as is neither
    /// posted nor held; [`Money::MAX`] for all of it. To be written down before the authority hears of it. `None` when there
    /// is nothing to give back.
    #[must_use]
    pub fn decide_return(&self, day: u64, tier: Tier, total: Money) -> Option<Entry> {
        let held = self.held_lease(day, tier)?;
        let total = total.min(held.returned.saturating_add(held.free()));
        (total > held.returned).then_some(Entry::Returned { lease: held.id, total })
    }

    /// Decides and applies in one. Returns what has been given back of the present lease in all.
    pub fn give_back(&mut self, day: u64, tier: Tier, total: Money) -> Money {
        if let Some(entry) = self.decide_return(day, tier, total) {
            let _ = self.apply(&entry);
        }
        self.held_lease(day, tier).map_or(Money::ZERO, |held| held.returned)
    }

    /// The lease from which a tier's requests of a day are paid, empty at first. `None` where caps are spent.
    #[must_use]
    pub fn held_lease(&self, day: u64, tier: Tier) -> Option<HeldLease> {
        let node = self.node()?;
        let held = self.days.get(&day).and_then(|day| day.lease(tier)).copied();
        Some(held.unwrap_or(HeldLease::new(LeaseId { day, tier, node, generation: 0 })))
    }

    /// What to tell the authority about all leases of a day, those that are over included: their calls may end late.
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

    /// Changes a lease of this node, unless it is over.
    pub(super) fn change_lease(&mut self, id: LeaseId, how: impl FnOnce(&mut HeldLease)) -> ApplyDecision {
        let newest = self.held_lease(id.day, id.tier).map(|held| held.id);
        let is_ours = newest.is_some_and(|newest| newest.node == id.node && id >= newest);
        if !is_ours {
            return ApplyDecision::Known;
        }
        let leases = &mut self.day_books(id.day).leases[id.tier.index()];
        let before = leases.get(&id.generation).copied();
        let mut held = before.unwrap_or(HeldLease::new(id));
        how(&mut held);
        leases.insert(id.generation, held);
        if before == Some(held) { ApplyDecision::Known } else { ApplyDecision::Applied }
    }

    /// The present lease, if it is this one.
    fn held_lease_mut(&mut self, id: LeaseId) -> Option<&mut HeldLease> {
        let leases = &mut self.days.get_mut(&id.day)?.leases[id.tier.index()];
        let newest = leases.last_entry()?.into_mut();
        (newest.id == id).then_some(newest)
    }
}
