//! The day's money, lent out to the nodes of a fleet in slices.
//!
//! One book is the authority. A node takes a lease before it spends, spends from it without asking anybody, and reports
//! what calls have cost later, in batches. What is posted, lent and written off together never passes the cap that was in
//! force when a lease was last raised, whatever crashes: a node that falls silent takes its rest with it, and the rest
//! counts as gone until somebody has found out what it really spent.
//!
//! **When it acts.** A node has one running lease of each tier's day and asks for its total to be raised. Asking for what it
//! has, or less, renews it. Everything that is said is a total, so that a message that comes twice, late or not at all
//! changes nothing that the next one does not put right.
//!
//! **How a lease ends.** One that was not renewed is [written off](LeaseBook::expire); if its node was only slow, it has it
//! again by asking. When it has been found out what was spent, it is [closed](LeaseBook::reconcile): its rest can be lent
//! again, so its node must not spend it any more. The node has stopped by then, because its own book lets a lease end no
//! later than the authority does, and it learns from the next generation number that it has to start anew.
//!
//! **What it will not do.** It takes nothing back by force. Lowering a cap asks leases back; what nodes hold is theirs.
//! Money that was spent is booked whenever it becomes known, even for a lease that is closed or forgotten.

use super::lease_id::{Lease, LeaseDecision, LeaseId, LeaseReport, LeaseState, Recall, ReconcileDecision};
use super::limits::BudgetLimits;
use super::uptime::Uptime;
use crate::money::Money;
use crate::time::Timestamp;
use crate::vocabulary::Tier;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

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

    /// Where the rest of a lease in this state is kept; a closed one has none.
    pub(super) const fn rests(&mut self, state: LeaseState) -> &mut Money {
        match state {
            LeaseState::Running => &mut self.lent,
            LeaseState::WrittenOff | LeaseState::Closed => &mut self.written_off,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct LentDay {
    pub(super) tiers: [LentBooks; 3],
    pub(super) used: Duration,
}

/// The authority's books.
///
/// ```
/// use seawall_core::budget::{BudgetOptions, LeaseBook, LeaseDecision, LeaseId, LeaseReport};
/// use seawall_core::money::Money;
/// use seawall_core::time::Timestamp;
/// use seawall_core::vocabulary::Tier;
/// use std::time::Duration;
///
/// let dollars = Money::from_dollars;
/// let mut book = LeaseBook::new(BudgetOptions::default().check().unwrap());
/// let lease = LeaseId { day: 0, tier: Tier::Guest, node: 1, generation: 0 };
/// let lasts = Duration::from_secs(30);
/// let LeaseDecision::Granted(granted) = book.grant(lease, dollars(900), lasts, Timestamp::ZERO) else { panic!() };
/// assert_eq!(granted.rest(), dollars(750)); // all that guests have
/// let report = LeaseReport { lease, posted: dollars(10), returned: Money::ZERO };
/// book.report(&report);
/// book.report(&report); // and again, because the reply was lost
/// book.expire(Timestamp::ZERO + lasts);
/// assert_eq!(book.tier(0, Tier::Guest).written_off, dollars(740));
/// ```
#[derive(Debug)]
pub struct LeaseBook {
    limits: BudgetLimits,
    pub(super) days: BTreeMap<u64, LentDay>,
    pub(super) leases: BTreeMap<LeaseId, Lease>,
    /// Running leases with a rest.
    pub(super) by_expiry: BTreeSet<(Timestamp, LeaseId)>,
    pub(super) uptime: Uptime,
}

impl LeaseBook {
    /// Empty books.
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

    /// Raises what was granted of a lease to `total`, as far as the caps allow, and renews it. Where `total` has been
    /// granted before, it is only renewed.
    pub fn grant(&mut self, id: LeaseId, total: Money, lasts: Duration, now: Timestamp) -> LeaseDecision {
        self.uptime.hear(now);
        let generation = self.generation(id);
        if id.generation != generation {
            let next = LeaseId { generation, ..id };
            let lease = self.leases.get(&next).copied().unwrap_or(Lease::new(next));
            return LeaseDecision::Over(Lease { lasts: Duration::ZERO, ..lease });
        }
        let before = self.leases.get(&id).copied().unwrap_or(Lease::new(id));
        // What was spent beyond the lease is booked already and pays for nothing new.
        let used_up = before.posted.saturating_add(before.returned);
        let most = before.granted.max(used_up).saturating_add(self.free(id.day, id.tier));
        let granted = total.min(most).max(before.granted);
        let expires = before.expires.max(now + lasts);
        let lease = Lease { granted, lasts, expires, state: LeaseState::Running, ..before };
        if granted > Money::ZERO {
            self.put(lease);
        }
        if granted < total && granted == before.granted {
            LeaseDecision::Spent(lease)
        } else {
            LeaseDecision::Granted(lease)
        }
    }

    /// A node tells what it has spent and given back. More than was granted is booked all the same: it has been spent.
    /// Of a lease that is closed or forgotten only what was spent is of interest. The largest figure counts that was ever
    /// told: a node that charged a call at its worst and learns that it was cheaper may spend the difference, but it is not
    /// given back. Returns how the lease stands now.
    pub fn report(&mut self, report: &LeaseReport) -> Lease {
        let before = self.leases.get(&report.lease).copied().unwrap_or(Lease::new(report.lease));
        let posted = before.posted.max(report.posted);
        let returned = match before.state {
            LeaseState::Closed => before.returned,
            LeaseState::Running | LeaseState::WrittenOff => before.returned.max(report.returned),
        };
        let lease = Lease { posted, returned, ..before };
        if lease != before {
            self.put(lease);
        }
        lease
    }

    /// It has been found out what the calls on a lease cost in all, that was written off: that is booked, the rest is free
    /// and the lease is closed. To be done when no call on it can be under way any more. Of one that is closed already, or
    /// that nobody remembers, the cost is booked.
    pub fn reconcile(&mut self, id: LeaseId, spent: Money) -> ReconcileDecision {
        let known = self.leases.get(&id).copied();
        if known.is_some_and(|lease| lease.state == LeaseState::Running) {
            return ReconcileDecision::Running;
        }
        let before = known.unwrap_or(Lease::new(id));
        let lease = Lease { posted: before.posted.max(spent), state: LeaseState::Closed, ..before };
        self.put(lease);
        let committed = |lease: &Lease| lease.posted.saturating_add(lease.rest());
        ReconcileDecision::Closed { freed: committed(&before).saturating_sub(committed(&lease)) }
    }

    /// Writes off what nodes have left that did not renew in time, and forgets days that nobody has used for 48 hours
    /// unless a rest of theirs is still out. To be called every second or so. Returns what was written off.
    pub fn expire(&mut self, now: Timestamp) -> Vec<Lease> {
        self.uptime.hear(now);
        let mut expired = Vec::new();
        while let Some(&(at, id)) = self.by_expiry.first() {
            if at > now {
                break;
            }
            self.by_expiry.pop_first();
            if let Some(lease) = self.leases.get(&id) {
                let lease = Lease { state: LeaseState::WrittenOff, ..*lease };
                self.put(lease);
                expired.push(lease);
            }
        }
        self.forget();
        expired
    }

    /// Other caps from now on. Returns what must come back for the caps of `day` to hold, the largest rests first, so that
    /// few nodes are asked; they can give back only what they do not hold.
    pub fn set_limits(&mut self, limits: BudgetLimits, day: u64) -> Vec<Recall> {
        self.limits = limits;
        let mut leases: Vec<&Lease> =
            self.of_day(day).filter(|lease| lease.state == LeaseState::Running).collect();
        leases.sort_by_key(|lease| (Reverse(lease.rest()), lease.id));
        let mut wanted: BTreeMap<LeaseId, Money> = BTreeMap::new();
        let mut over_all = self.all(day).committed().saturating_sub(self.limits.day_cap(day));
        for tier in Tier::ALL {
            let over = self.tier(day, tier).committed().saturating_sub(self.limits.tier_cap(day, tier));
            let of_tier = leases.iter().copied().filter(|lease| lease.id.tier == tier);
            over_all = over_all.saturating_sub(recall(of_tier, over, &mut wanted));
        }
        recall(leases.iter().copied(), over_all, &mut wanted);
        let back = |lease: &&Lease| {
            let more = wanted.get(&lease.id)?;
            Some(Recall { lease: lease.id, returned: lease.returned.saturating_add(*more) })
        };
        leases.iter().filter_map(back).collect()
    }

    /// A lease, unless it is forgotten.
    #[must_use]
    pub fn lease(&self, id: LeaseId) -> Option<&Lease> {
        self.leases.get(&id)
    }

    /// A tier's books on a day.
    #[must_use]
    pub fn tier(&self, day: u64, tier: Tier) -> LentBooks {
        self.days.get(&day).map(|day| day.tiers[tier.index()]).unwrap_or_default()
    }

    /// Everybody's books on a day.
    #[must_use]
    pub fn all(&self, day: u64) -> LentBooks {
        self.days.get(&day).map(|day| LentBooks::sum(&day.tiers)).unwrap_or_default()
    }

    /// What can still be lent.
    fn free(&self, day: u64, tier: Tier) -> Money {
        let of_tier = self.limits.tier_cap(day, tier).saturating_sub(self.tier(day, tier).committed());
        let of_all = self.limits.day_cap(day).saturating_sub(self.all(day).committed());
        of_tier.min(of_all)
    }

    /// The generation that a node's lease of a tier's day is in.
    fn generation(&self, id: LeaseId) -> u64 {
        let (first, last) = (LeaseId { generation: 0, ..id }, LeaseId { generation: u64::MAX, ..id });
        let newest = self.leases.range(first..=last).next_back();
        newest.map_or(0, |(id, lease)| match lease.state {
            LeaseState::Closed => id.generation.saturating_add(1),
            LeaseState::Running | LeaseState::WrittenOff => id.generation,
        })
    }

    pub(super) fn of_day(&self, day: u64) -> impl Iterator<Item = &Lease> {
        let first = LeaseId { day, tier: Tier::ALL[0], node: 0, generation: 0 };
        self.leases.range(first..).map(|(_, lease)| lease).take_while(move |lease| lease.id.day == day)
    }

    /// Replaces what is known of a lease: the one place in which the books change.
    fn put(&mut self, lease: Lease) {
        let before = self.leases.insert(lease.id, lease).unwrap_or(Lease::new(lease.id));
        let day = self.days.entry(lease.id.day).or_default();
        day.used = self.uptime.get();
        let books = &mut day.tiers[lease.id.tier.index()];
        books.posted = books.posted.saturating_sub(before.posted).saturating_add(lease.posted);
        let rests = books.rests(before.state);
        *rests = rests.saturating_sub(before.rest());
        let rests = books.rests(lease.state);
        *rests = rests.saturating_add(lease.rest());
        self.by_expiry.remove(&(before.expires, lease.id));
        if lease.state == LeaseState::Running && lease.rest() > Money::ZERO {
            self.by_expiry.insert((lease.expires, lease.id));
        }
    }

    fn forget(&mut self) {
        let has_rest = |day: u64| self.of_day(day).any(|lease| lease.rest() > Money::ZERO);
        let is_over = |(number, day): (&u64, &LentDay)| {
            (self.uptime.has_outlived(day.used) && !has_rest(*number)).then_some(*number)
        };
        let over: Vec<u64> = self.days.iter().filter_map(is_over).collect();
        for day in over {
            self.days.remove(&day);
            self.leases.retain(|id, _| id.day != day);
        }
    }
}

/// Wants up to `amount` back from `leases`, on top of what is wanted already; returns how much it comes to.
fn recall<'a>(
    leases: impl Iterator<Item = &'a Lease>,
    amount: Money,
    wanted: &mut BTreeMap<LeaseId, Money>,
) -> Money {
    let mut missing = amount;
    for lease in leases {
        let already = wanted.get(&lease.id).copied().unwrap_or_default();
        let more = missing.min(lease.rest().saturating_sub(already));
        if more > Money::ZERO {
            wanted.insert(lease.id, already.saturating_add(more));
            missing = missing.saturating_sub(more);
        }
    }
    amount.saturating_sub(missing)
}
