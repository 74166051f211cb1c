//! The books of one day.

use super::account::Account;
use super::accounts::Accounts;
use super::entry::{Reservation, ReservationId};
use super::lease_id::LeaseId;
use crate::money::Money;
use crate::time::Timestamp;
use crate::vocabulary::Tier;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A lease, as its node sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldLease {
    /// Its name.
    pub id: LeaseId,
    /// What was granted in all.
    pub granted: Money,
    /// What was given back in all.
    pub returned: Money,
    /// What was spent and is held of it.
    pub account: Account,
    /// From when on nothing may be reserved from it, on the node's own clock.
    pub until: Timestamp,
}

impl HeldLease {
    pub(super) const fn new(id: LeaseId) -> Self {
        let account = Account { posted: Money::ZERO, held: Money::ZERO };
        Self { id, granted: Money::ZERO, returned: Money::ZERO, account, until: Timestamp::ZERO }
    }

    /// What may be spent of it in all.
    #[must_use]
    pub const fn cap(&self) -> Money {
        self.granted.saturating_sub(self.returned)
    }

    /// What can be reserved from it or given back, as long as it runs.
    #[must_use]
    pub const fn free(&self) -> Money {
        self.account.free(self.cap())
    }
}

#[derive(Debug, Default)]
pub(super) struct Day {
    pub(super) tiers: [Account; 3],
    /// What calls of each tier have cost beyond what was reserved for them.
    pub(super) overrun: [Money; 3],
    pub(super) callers: Accounts,
    /// Callers of whom somebody was told that they stand out. They are few: each has spent a good part of the day's money.
    pub(super) told: BTreeSet<u64>,
    /// By generation; the last is the one to spend from.
    pub(super) leases: [BTreeMap<u64, HeldLease>; 3],
    pub(super) open: u64,
    /// Charged at their worst, until the truth is known.
    pub(super) given_up: BTreeSet<ReservationId>,
    pub(super) used: Duration,
}

impl Day {
    /// Nothing spent, with accounts of callers laid out by this seed.
    pub(super) fn seeded(seed: u64) -> Self {
        Self { callers: Accounts::seeded(seed), ..Self::default() }
    }

    pub(super) fn all(&self) -> Account {
        let sum = |part: fn(&Account) -> Money| self.tiers.iter().map(part).sum();
        Account { posted: sum(|tier| tier.posted), held: sum(|tier| tier.held) }
    }

    /// The lease to spend from.
    pub(super) fn lease(&self, tier: Tier) -> Option<&HeldLease> {
        self.leases[tier.index()].last_key_value().map(|(_, lease)| lease)
    }

    /// What the leases of a tier come to: what was spent of those that are over, and all of the present one.
    pub(super) fn leased(&self, tier: Tier) -> Money {
        let mut leases = self.leases[tier.index()].values().rev();
        let present = leases.next().map_or(Money::ZERO, HeldLease::cap);
        leases.map(|lease| lease.account.committed()).sum::<Money>().saturating_add(present)
    }

    /// Changes every account that a reservation is part of. Returns the caller's.
    pub(super) fn change(
        &mut self,
        reservation: &Reservation,
        node: Option<u64>,
        how: impl Fn(&mut Account),
    ) -> &mut Account {
        let Reservation { day, tier, caller, generation, .. } = *reservation;
        how(&mut self.tiers[tier.index()]);
        if let Some(node) = node {
            let id = LeaseId { day, tier, node, generation };
            let leases = &mut self.leases[tier.index()];
            how(&mut leases.entry(generation).or_insert_with(|| HeldLease::new(id)).account);
        }
        let account = self.callers.open(caller);
        how(account);
        account
    }

    /// A call of this tier, for which `reserved` was held, has cost this.
    pub(super) fn note_overrun(&mut self, tier: Tier, reserved: Money, cost: Money) {
        let sum = &mut self.overrun[tier.index()];
        *sum = sum.saturating_add(cost.saturating_sub(reserved));
    }

    /// Takes one thing out of a day that is over. Returns `None` when nothing is left of it.
    pub(super) fn dismantle(&mut self) -> Option<Option<ReservationId>> {
        if self.callers.dismantle() {
            return Some(None);
        }
        self.given_up.pop_first().map(Some)
    }
}
