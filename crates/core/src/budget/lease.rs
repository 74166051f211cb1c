//! Leases: the authority lends slices of the day's budget to the nodes of a fleet.
//!
//! One ledger is the authority. A node takes a lease before it spends, spends from it without a round trip, and reports
//! the cost of its calls later, in batches. Invariant: posted + lent + written off never exceeds the cap that was in
//! force when a lease was last raised, whatever crashes. A node that stops reporting takes the remainder of its lease
//! with it, and that remainder counts as spent until it is reconciled.
//!
//! **When it acts.** A node has one running lease per tier and day and asks for its total to be raised. Asking for the
//! present total or less renews the lease. All messages carry totals and are idempotent: a duplicated, delayed or lost
//! message is repaired by the next one.
//!
//! **How a lease ends.** A lease that is not renewed in time is [written off](LeaseLedger::expire); a node that was only
//! slow revives it by asking again. Once the actual spend is known, the lease is [closed](LeaseLedger::reconcile): its
//! remainder can be lent again, so its node must no longer spend it. The node has stopped by then, because its own
//! ledger ends a lease no later than the authority does. It learns from the next generation number that it has to start
//! over.
//!
//! **What it does not do.** It revokes nothing by force. Lowering a cap recalls leases, but money that a node holds
//! stays with it. Spent money is posted whenever it becomes known, even for a lease that is closed or evicted.

use super::lease_id::{
    BudgetLease, LeaseDecision, LeaseId, LeaseRecall, LeaseReport, LeaseState, ReconcileDecision,
};
use super::limits::BudgetLimits;
use super::uptime::Uptime;
use crate::money::Money;
use crate::time::Timestamp;
use crate::vocabulary::Tier;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Sums of one tier on one day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseTotals {
    /// Cost of calls, as reported by nodes.
    pub posted: Money,
    /// Unspent remainders of running leases.
    pub leased: Money,
    /// Unspent remainders of leases that were not renewed in time.
    pub written_off: Money,
}

impl LeaseTotals {
    /// What cannot be lent again: posted, lent and written off.
    #[must_use]
    pub const fn committed(&self) -> Money {
        self.posted.saturating_add(self.leased).saturating_add(self.written_off)
    }

    fn sum(totals: &[Self; 3]) -> Self {
        let part = |of: fn(&Self) -> Money| totals.iter().map(of).sum();
        Self {
            posted: part(|tier| tier.posted),
            leased: part(|tier| tier.leased),
            written_off: part(|tier| tier.written_off),
        }
    }

    /// The sum that holds the remainder of a lease in this state; a closed lease has no remainder.
    pub(super) const fn remainder_mut(&mut self, state: LeaseState) -> &mut Money {
        match state {
            LeaseState::Running => &mut self.leased,
            LeaseState::WrittenOff | LeaseState::Closed => &mut self.written_off,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct LeaseDay {
    pub(super) tiers: [LeaseTotals; 3],
    pub(super) used: Duration,
}

/// The authority's ledger of leases.
///
/// ```
/// use seawall_core::budget::{BudgetOptions, LeaseLedger, LeaseDecision, LeaseId, LeaseReport};
/// use seawall_core::money::Money;
/// use seawall_core::time::Timestamp;
/// use seawall_core::vocabulary::Tier;
/// use std::time::Duration;
///
/// let dollars = Money::from_dollars;
/// let mut ledger = LeaseLedger::new(BudgetOptions::default().check().unwrap());
/// let lease = LeaseId { day: 0, tier: Tier::Guest, node: 1, generation: 0 };
/// let term = Duration::from_secs(30);
/// let LeaseDecision::Granted(granted) = ledger.grant(lease, dollars(900), term, Timestamp::ZERO) else { panic!() };
/// assert_eq!(granted.remainder(), dollars(750)); // all that guests have
/// let report = LeaseReport { lease, posted: dollars(10), returned: Money::ZERO };
/// ledger.report(&report);
/// ledger.report(&report); // and again, because the reply was lost
/// ledger.expire(Timestamp::ZERO + term);
/// assert_eq!(ledger.tier(0, Tier::Guest).written_off, dollars(740));
/// ```
#[derive(Clone, Debug)]
pub struct LeaseLedger {
    limits: BudgetLimits,
    pub(super) days: BTreeMap<u64, LeaseDay>,
    pub(super) leases: BTreeMap<LeaseId, BudgetLease>,
    /// Running leases with a remainder, by expiry.
    pub(super) by_expiry: BTreeSet<(Timestamp, LeaseId)>,
    pub(super) uptime: Uptime,
}

impl LeaseLedger {
    /// An empty ledger.
    #[must_use]
    pub fn new(limits: BudgetLimits) -> Self {
        Self {
            limits,
            days: BTreeMap::new(),
            leases: BTreeMap::new(),
            by_expiry: BTreeSet::new(),
            uptime: Uptime::default(),
        }
    }

    /// Raises the granted total of a lease to `total`, as far as the caps allow, and renews it. If `total` has been
    /// granted before, the lease is only renewed.
    pub fn grant(&mut self, id: LeaseId, total: Money, term: Duration, now: Timestamp) -> LeaseDecision {
        self.uptime.observe(now);
        let generation = self.generation(id);
        if id.generation != generation {
            let next = LeaseId { generation, ..id };
            let lease = self.leases.get(&next).copied().unwrap_or(BudgetLease::new(next));
            return LeaseDecision::Superseded(BudgetLease { term: Duration::ZERO, ..lease });
        }
        let before = self.leases.get(&id).copied().unwrap_or(BudgetLease::new(id));
        // Spend beyond the lease is posted already; it must not be charged to the new grant again.
        let used_up = before.posted.saturating_add(before.returned);
        let max = before.granted.max(used_up).saturating_add(self.available(id.day, id.tier));
        let granted = total.min(max).max(before.granted);
        let expires = before.expires.max(now + term);
        let lease = BudgetLease { granted, term, expires, state: LeaseState::Running, ..before };
        if granted > Money::ZERO {
            self.put(lease);
        }
        if granted < total && granted == before.granted {
            LeaseDecision::Exhausted(lease)
        } else {
            LeaseDecision::Granted(lease)
        }
    }

    /// Records the totals that a node has spent and given back, and returns the updated lease. Spend beyond the grant
    /// is posted all the same. For a closed or evicted lease only the spend counts. The maximum of all reports counts:
    /// a node that charged a maximum and later learns a lower cost may spend the difference itself, but the
    /// authority does not reclaim it.
    pub fn report(&mut self, report: &LeaseReport) -> BudgetLease {
        let before = self.leases.get(&report.lease).copied().unwrap_or(BudgetLease::new(report.lease));
        let posted = before.posted.max(report.posted);
        let returned = match before.state {
            LeaseState::Closed => before.returned,
            LeaseState::Running | LeaseState::WrittenOff => before.returned.max(report.returned),
        };
        let lease = BudgetLease { posted, returned, ..before };
        if lease != before {
            self.put(lease);
        }
        lease
    }

    /// Closes a written-off lease whose total spend is known: the spend is posted and the remainder is freed. Call it
    /// only when no call on the lease can still be in flight. For a lease that is already closed or evicted, the spend
    /// is posted.
    pub fn reconcile(&mut self, id: LeaseId, spent: Money) -> ReconcileDecision {
        let existing = self.leases.get(&id).copied();
        if existing.is_some_and(|lease| lease.state == LeaseState::Running) {
            return ReconcileDecision::Running;
        }
        let previous = existing.unwrap_or(BudgetLease::new(id));
        let lease = BudgetLease { posted: previous.posted.max(spent), state: LeaseState::Closed, ..previous };
        self.put(lease);
        let committed = |lease: &BudgetLease| lease.posted.saturating_add(lease.remainder());
        ReconcileDecision::Closed { freed: committed(&previous).saturating_sub(committed(&lease)) }
    }

    /// Writes off the remainders of leases that were not renewed in time, and evicts days that have been idle for 48
    /// hours and have no remainder outstanding. Call it about once a second. Returns the leases that were written off.
    pub fn expire(&mut self, now: Timestamp) -> Vec<BudgetLease> {
        self.uptime.observe(now);
        let mut expired = Vec::new();
        while let Some(&(at, id)) = self.by_expiry.first() {
            if at > now {
                break;
            }
            self.by_expiry.pop_first();
            if let Some(lease) = self.leases.get(&id) {
                let lease = BudgetLease { state: LeaseState::WrittenOff, ..*lease };
                self.put(lease);
                expired.push(lease);
            }
        }
        self.evict_idle_days();
        expired
    }

    /// Replaces the caps. Returns the recalls that make the caps of `day` hold, the largest remainders first, so that
    /// few nodes are asked. Nodes can give back only what they do not hold.
    pub fn set_limits(&mut self, limits: BudgetLimits, day: u64) -> Vec<LeaseRecall> {
        self.limits = limits;
        let mut leases: Vec<&BudgetLease> =
            self.of_day(day).filter(|lease| lease.state == LeaseState::Running).collect();
        leases.sort_by_key(|lease| (Reverse(lease.remainder()), lease.id));
        let mut recalls: BTreeMap<LeaseId, Money> = BTreeMap::new();
        let mut total_excess = self.all(day).committed().saturating_sub(self.limits.day_cap(day));
        for tier in Tier::ALL {
            let excess = self.tier(day, tier).committed().saturating_sub(self.limits.tier_cap(day, tier));
            let of_tier = leases.iter().copied().filter(|lease| lease.id.tier == tier);
            total_excess = total_excess.saturating_sub(add_recalls(of_tier, excess, &mut recalls));
        }
        add_recalls(leases.iter().copied(), total_excess, &mut recalls);
        let recall = |lease: &&BudgetLease| {
            let more = recalls.get(&lease.id)?;
            Some(LeaseRecall { lease: lease.id, returned: lease.returned.saturating_add(*more) })
        };
        leases.iter().filter_map(recall).collect()
    }

    /// A lease, unless it has been evicted.
    #[must_use]
    pub fn lease(&self, id: LeaseId) -> Option<&BudgetLease> {
        self.leases.get(&id)
    }

    /// One tier's sums on a day.
    #[must_use]
    pub fn tier(&self, day: u64, tier: Tier) -> LeaseTotals {
        self.days.get(&day).map(|day| day.tiers[tier.index()]).unwrap_or_default()
    }

    /// The global sums on a day.
    #[must_use]
    pub fn all(&self, day: u64) -> LeaseTotals {
        self.days.get(&day).map(|day| LeaseTotals::sum(&day.tiers)).unwrap_or_default()
    }

    /// What can still be lent under the tier's cap and the global cap.
    fn available(&self, day: u64, tier: Tier) -> Money {
        let of_tier = self.limits.tier_cap(day, tier).saturating_sub(self.tier(day, tier).committed());
        let of_all = self.limits.day_cap(day).saturating_sub(self.all(day).committed());
        of_tier.min(of_all)
    }

    /// The current generation of a node's lease for a tier's day.
    fn generation(&self, id: LeaseId) -> u64 {
        let (first, last) = (LeaseId { generation: 0, ..id }, LeaseId { generation: u64::MAX, ..id });
        let newest = self.leases.range(first..=last).next_back();
        newest.map_or(0, |(id, lease)| match lease.state {
            LeaseState::Closed => id.generation.saturating_add(1),
            LeaseState::Running | LeaseState::WrittenOff => id.generation,
        })
    }

    pub(super) fn of_day(&self, day: u64) -> impl Iterator<Item = &BudgetLease> {
        let first = LeaseId { day, tier: Tier::ALL[0], node: 0, generation: 0 };
        self.leases.range(first..).map(|(_, lease)| lease).take_while(move |lease| lease.id.day == day)
    }

    /// Replaces a lease and updates the sums. All changes of the ledger go through here.
    fn put(&mut self, lease: BudgetLease) {
        let before = self.leases.insert(lease.id, lease).unwrap_or(BudgetLease::new(lease.id));
        let day = self.days.entry(lease.id.day).or_default();
        day.used = self.uptime.get();
        let totals = &mut day.tiers[lease.id.tier.index()];
        totals.posted = totals.posted.saturating_sub(before.posted).saturating_add(lease.posted);
        let remainder = totals.remainder_mut(before.state);
        *remainder = remainder.saturating_sub(before.remainder());
        let remainder = totals.remainder_mut(lease.state);
        *remainder = remainder.saturating_add(lease.remainder());
        self.by_expiry.remove(&(before.expires, lease.id));
        if lease.state == LeaseState::Running && lease.remainder() > Money::ZERO {
            self.by_expiry.insert((lease.expires, lease.id));
        }
    }

    fn evict_idle_days(&mut self) {
        let has_rest = |day: u64| self.of_day(day).any(|lease| lease.remainder() > Money::ZERO);
        let is_idle = |(number, day): (&u64, &LeaseDay)| {
            (self.uptime.is_past_retention(day.used) && !has_rest(*number)).then_some(*number)
        };
        let idle_days: Vec<u64> = self.days.iter().filter_map(is_idle).collect();
        for day in idle_days {
            self.days.remove(&day);
            self.leases.retain(|id, _| id.day != day);
        }
    }
}

/// Adds recalls of up to `amount` over `leases` to `recalls`. Returns the amount covered.
fn add_recalls<'a>(
    leases: impl Iterator<Item = &'a BudgetLease>,
    amount: Money,
    recalls: &mut BTreeMap<LeaseId, Money>,
) -> Money {
    let mut missing = amount;
    for lease in leases {
        let already = recalls.get(&lease.id).copied().unwrap_or_default();
        let more = missing.min(lease.remainder().saturating_sub(already));
        if more > Money::ZERO {
            recalls.insert(lease.id, already.saturating_add(more));
            missing = missing.saturating_sub(more);
        }
    }
    amount.saturating_sub(missing)
}
