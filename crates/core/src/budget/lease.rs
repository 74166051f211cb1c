//! The day's money, lent out to the nodes of a fleet in slices.
//!
//! One book is the authority. A node takes a lease before it spends, spends from it without asking anybody, and posts
//! what calls have cost later, in batches. What is posted, lent and written off together never passes the cap that was in
//! force when the last lease was granted, whatever crashes: a node that falls silent takes its rest with it, and the rest
//! counts as gone until somebody has found out what it really spent.
//!
//! A lease belongs to its day. Lowering a cap asks leases back; it cannot take what nodes already hold.

use super::limits::BudgetLimits;
use crate::money::Money;
use crate::time::Timestamp;
use crate::vocabulary::Tier;
use std::collections::BTreeMap;

/// The name of a lease, never used twice in one book.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub u64);

/// A slice of a day's money in the hands of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Its name.
    pub id: LeaseId,
    /// Who has it.
    pub node: u64,
    /// Whose money it is.
    pub tier: Tier,
    /// The day whose money it is, counted from 1970.
    pub day: u64,
    /// What has been neither posted nor given back.
    pub rest: Money,
    /// When its node is taken for dead unless it renews.
    pub expires: Timestamp,
    /// Its node was taken for dead.
    pub written_off: bool,
}

/// The books of one tier on one day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LentBooks {
    /// What calls have cost.
    pub posted: Money,
    /// In the hands of nodes.
    pub lent: Money,
    /// Lost with nodes that fell silent.
    pub written_off: Money,
}

impl LentBooks {
    /// What cannot be lent again.
    #[must_use]
    pub const fn committed(&self) -> Money {
        self.posted.saturating_add(self.lent).saturating_add(self.written_off)
    }

    fn sum(books: &[Self; 3]) -> Self {
        let part = |of: fn(&Self) -> Money| books.iter().map(of).sum();
        Self {
            posted: part(|tier| tier.posted),
            lent: part(|tier| tier.lent),
            written_off: part(|tier| tier.written_off),
        }
    }
}

/// The answer to a node that wants money.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a lease that nobody uses is lost until it expires"]
pub enum LeaseDecision {
    /// Spend it; it may be less than was asked for.
    Granted(Lease),
    /// There is nothing left: the tier's day is spent.
    Spent,
}

/// A node is to give back what it does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recall {
    /// Which lease.
    pub lease: LeaseId,
    /// Who has it.
    pub node: u64,
    /// How much is wanted back.
    pub amount: Money,
}

/// The authority's books.
///
/// ```
/// use seawall_core::budget::{BudgetOptions, LeaseBook, LeaseDecision};
/// use seawall_core::money::Money;
/// use seawall_core::time::Timestamp;
/// use seawall_core::vocabulary::Tier;
///
/// let mut book = LeaseBook::new(BudgetOptions::default().check().unwrap());
/// let later = Timestamp::from_nanos(30_000_000_000);
/// let LeaseDecision::Granted(lease) = book.grant(1, Tier::Guest, 0, Money::from_dollars(900), later) else { panic!() };
/// assert_eq!(lease.rest, Money::from_dollars(750)); // all that guests have
/// book.post(lease.id, Money::from_dollars(10));
/// book.expire(later);
/// assert_eq!(book.tier(0, Tier::Guest).written_off, Money::from_dollars(740));
/// ```
#[derive(Debug)]
pub struct LeaseBook {
    limits: BudgetLimits,
    days: BTreeMap<u64, [LentBooks; 3]>,
    leases: BTreeMap<LeaseId, Lease>,
    next: u64,
}

impl LeaseBook {
    /// Empty books.
    #[must_use]
    pub fn new(limits: BudgetLimits) -> Self {
        Self { limits, days: BTreeMap::new(), leases: BTreeMap::new(), next: 0 }
    }

    /// Lends a node up to `wanted` of a tier's day, until `expires` unless it renews.
    pub fn grant(
        &mut self,
        node: u64,
        tier: Tier,
        day: u64,
        wanted: Money,
        expires: Timestamp,
    ) -> LeaseDecision {
        let of_tier = self.limits.tier_cap(day, tier).saturating_sub(self.tier(day, tier).committed());
        let of_all = self.limits.day_cap(day).saturating_sub(self.all(day).committed());
        let rest = wanted.min(of_tier).min(of_all);
        if rest == Money::ZERO {
            return LeaseDecision::Spent;
        }
        let id = LeaseId(self.next);
        self.next = self.next.saturating_add(1);
        let lease = Lease { id, node, tier, day, rest, expires, written_off: false };
        let books = &mut self.days.entry(day).or_default()[tier.index()];
        books.lent = books.lent.saturating_add(rest);
        self.leases.insert(id, lease);
        LeaseDecision::Granted(lease)
    }

    /// The node is alive. A lease that was written off is its node's again. Returns whether there is such a lease.
    pub fn renew(&mut self, id: LeaseId, expires: Timestamp) -> bool {
        let Some(lease) = self.leases.get_mut(&id) else { return false };
        lease.expires = lease.expires.max(expires);
        if lease.written_off {
            lease.written_off = false;
            let books = &mut self.days.entry(lease.day).or_default()[lease.tier.index()];
            books.written_off = books.written_off.saturating_sub(lease.rest);
            books.lent = books.lent.saturating_add(lease.rest);
        }
        true
    }

    /// Calls on a lease have cost this much. More than its rest is booked all the same: it has been spent. Returns
    /// whether there is such a lease; if there is none, [book it late](Self::post_late).
    pub fn post(&mut self, id: LeaseId, cost: Money) -> bool {
        let Some(lease) = self.leases.get_mut(&id) else { return false };
        let covered = cost.min(lease.rest);
        let books = &mut self.days.entry(lease.day).or_default()[lease.tier.index()];
        books.posted = books.posted.saturating_add(cost);
        release(books, lease, covered);
        true
    }

    /// A call has cost this much whose lease is over: it has been spent and is booked.
    pub fn post_late(&mut self, day: u64, tier: Tier, cost: Money) {
        let books = &mut self.days.entry(day).or_default()[tier.index()];
        books.posted = books.posted.saturating_add(cost);
    }

    /// The node gives back what it has not spent, in part or, when it drains, in whole. Returns what became free.
    pub fn give_back(&mut self, id: LeaseId, amount: Money) -> Money {
        let Some(lease) = self.leases.get_mut(&id) else { return Money::ZERO };
        let back = amount.min(lease.rest);
        let books = &mut self.days.entry(lease.day).or_default()[lease.tier.index()];
        release(books, lease, back);
        back
    }

    /// It has been found out what the calls on a lease cost that were never posted: that is booked, the rest is free and
    /// the lease is over. Returns what became free.
    pub fn reconcile(&mut self, id: LeaseId, cost: Money) -> Money {
        self.post(id, cost);
        let back = self.leases.get(&id).map_or(Money::ZERO, |lease| lease.rest);
        self.give_back(id, back);
        self.leases.remove(&id);
        back
    }

    /// Writes off what nodes have that did not renew in time. Returns their leases.
    pub fn expire(&mut self, now: Timestamp) -> Vec<Lease> {
        let mut expired = Vec::new();
        for lease in self.leases.values_mut() {
            if lease.written_off || lease.expires > now {
                continue;
            }
            lease.written_off = true;
            let books = &mut self.days.entry(lease.day).or_default()[lease.tier.index()];
            books.lent = books.lent.saturating_sub(lease.rest);
            books.written_off = books.written_off.saturating_add(lease.rest);
            expired.push(*lease);
        }
        expired
    }

    /// Other caps from now on. Returns what must come back for the caps of `day` to hold, the newest leases first; nodes
    /// can give back only what they do not hold.
    pub fn set_limits(&mut self, limits: BudgetLimits, day: u64) -> Vec<Recall> {
        self.limits = limits;
        let mut recalls = Vec::new();
        let excess = |committed: Money, cap: Money| committed.saturating_sub(cap);
        let mut over_all = excess(self.all(day).committed(), self.limits.day_cap(day));
        for tier in Tier::ALL {
            let over = excess(self.tier(day, tier).committed(), self.limits.tier_cap(day, tier));
            let recalled = self.recall(day, over, &mut recalls, |lease| lease.tier == tier);
            over_all = over_all.saturating_sub(recalled);
        }
        self.recall(day, over_all, &mut recalls, |_| true);
        recalls
    }

    /// Adds recalls of up to `amount` in all; returns how much they come to.
    fn recall(
        &self,
        day: u64,
        amount: Money,
        recalls: &mut Vec<Recall>,
        of: impl Fn(&Lease) -> bool,
    ) -> Money {
        let mut missing = amount;
        for lease in self.leases.values().rev() {
            if missing == Money::ZERO {
                break;
            }
            if lease.day != day || lease.written_off || !of(lease) {
                continue;
            }
            let found = recalls.iter_mut().find(|recall| recall.lease == lease.id);
            let already = found.as_ref().map_or(Money::ZERO, |recall| recall.amount);
            let more = missing.min(lease.rest.saturating_sub(already));
            match found {
                Some(recall) => recall.amount = recall.amount.saturating_add(more),
                None if more > Money::ZERO => {
                    recalls.push(Recall { lease: lease.id, node: lease.node, amount: more });
                }
                None => {}
            }
            missing = missing.saturating_sub(more);
        }
        amount.saturating_sub(missing)
    }

    /// Forgets days before `day` whose leases have all ended, and leases that are used up.
    pub fn forget_before(&mut self, day: u64) {
        self.leases.retain(|_, lease| lease.day >= day || lease.rest > Money::ZERO);
        let in_use: std::collections::BTreeSet<u64> = self.leases.values().map(|lease| lease.day).collect();
        self.days.retain(|number, _| *number >= day || in_use.contains(number));
    }

    /// A lease, unless it is over.
    #[must_use]
    pub fn lease(&self, id: LeaseId) -> Option<&Lease> {
        self.leases.get(&id)
    }

    /// A tier's books on a day.
    #[must_use]
    pub fn tier(&self, day: u64, tier: Tier) -> LentBooks {
        self.days.get(&day).map(|tiers| tiers[tier.index()]).unwrap_or_default()
    }

    /// Everybody's books on a day.
    #[must_use]
    pub fn all(&self, day: u64) -> LentBooks {
        self.days.get(&day).map(LentBooks::sum).unwrap_or_default()
    }
}

/// Takes `amount` out of what a lease still has.
fn release(books: &mut LentBooks, lease: &mut Lease, amount: Money) {
    lease.rest = lease.rest.saturating_sub(amount);
    let out_of = if lease.written_off { &mut books.written_off } else { &mut books.lent };
    *out_of = out_of.saturating_sub(amount);
}
