//! The ledger of one day: accounts per tier, per caller and per lease.

use super::account::BudgetAccount;
use super::accounts::AccountTable;
use super::entry::{BudgetReservation, ReservationId};
use super::lease_id::LeaseId;
use crate::money::Money;
use crate::time::Timestamp;
use crate::vocabulary::Tier;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A lease in the ledger of the node that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldLease {
    /// Identifies the lease to the authority.
    pub id: LeaseId,
    /// Total granted since the lease began.
    pub granted: Money,
    /// Total given back since the lease began.
    pub returned: Money,
    /// What the node has posted and holds against this lease.
    pub account: BudgetAccount,
    /// When the lease ends on the node's own clock; nothing may be reserved from it afterwards.
    pub until: Timestamp,
}

impl HeldLease {
    pub(super) const fn new(id: LeaseId) -> Self {
        let account = BudgetAccount { posted: Money::ZERO, held: Money::ZERO };
        Self { id, granted: Money::ZERO, returned: Money::ZERO, account, until: Timestamp::ZERO }
    }

    /// The spending limit of this lease: granted minus returned.
    #[must_use]
    pub const fn cap(&self) -> Money {
        self.granted.saturating_sub(self.returned)
    }

    /// What can still be reserved or given back while the lease runs.
    #[must_use]
    pub const fn available(&self) -> Money {
        self.account.available(self.cap())
    }
}

#[derive(Debug, Default)]
pub(super) struct DayLedger {
    pub(super) tiers: [BudgetAccount; 3],
    /// Cost above the reserved amount, per tier.
    pub(super) overrun: [Money; 3],
    pub(super) callers: AccountTable,
    /// Callers that have already raised a single-source alarm. The set stays small: each has spent a large share of
    /// the day's budget.
    pub(super) alarmed: BTreeSet<u64>,
    /// Keyed by generation; reservations draw on the last one.
    pub(super) leases: [BTreeMap<u64, HeldLease>; 3],
    pub(super) open: u64,
    /// Expired reservations, charged at their maximum cost until the actual cost is known.
    pub(super) expired: BTreeSet<ReservationId>,
    pub(super) used: Duration,
}

impl DayLedger {
    /// An empty day whose hash table of caller accounts uses this seed.
    pub(super) fn seeded(seed: u64) -> Self {
        Self { callers: AccountTable::seeded(seed), ..Self::default() }
    }

    pub(super) fn all(&self) -> BudgetAccount {
        let sum = |part: fn(&BudgetAccount) -> Money| self.tiers.iter().map(part).sum();
        BudgetAccount { posted: sum(|tier| tier.posted), held: sum(|tier| tier.held) }
    }

    /// The lease that new reservations draw on.
    pub(super) fn lease(&self, tier: Tier) -> Option<&HeldLease> {
        self.leases[tier.index()].last_key_value().map(|(_, lease)| lease)
    }

    /// A tier's spending limit from leases: what ended leases have committed, plus all of the current lease.
    pub(super) fn leased(&self, tier: Tier) -> Money {
        let mut leases = self.leases[tier.index()].values().rev();
        let present = leases.next().map_or(Money::ZERO, HeldLease::cap);
        leases.map(|lease| lease.account.committed()).sum::<Money>().saturating_add(present)
    }

    /// Applies a change to every account of a reservation: tier, lease and caller. Returns the caller's account.
    pub(super) fn change(
        &mut self,
        reservation: &BudgetReservation,
        node: Option<u64>,
        how: impl Fn(&mut BudgetAccount),
    ) -> &mut BudgetAccount {
        let BudgetReservation { day, tier, caller, generation, .. } = *reservation;
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

    /// Records how far the cost of a call exceeded its reservation.
    pub(super) fn note_overrun(&mut self, tier: Tier, reserved: Money, cost: Money) {
        let sum = &mut self.overrun[tier.index()];
        *sum = sum.saturating_add(cost.saturating_sub(reserved));
    }

    /// Removes one item of an evicted day, so that no single request pays for all of it. Returns `None` when nothing
    /// is left.
    pub(super) fn evict_one(&mut self) -> Option<Option<ReservationId>> {
        if self.callers.remove_any() {
            return Some(None);
        }
        self.expired.pop_first().map(Some)
    }
}
