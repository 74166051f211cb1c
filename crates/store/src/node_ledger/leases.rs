//! The leases that a node on a fleet spends.

use super::{JournalRecord, NodeLedger};
use crate::{StoreError, lock};
use seawall_core::budget::{BudgetLease, HeldLease, LeaseReport};
use seawall_core::money::Money;
use seawall_core::time::Timestamp;
use seawall_core::vocabulary::Tier;
use std::time::Duration;

impl NodeLedger {
    /// Applies the ledger's response to a lease request that was sent at `requested_at`. The lease runs from that moment, less
    /// a margin for clocks that run at different speeds.
    pub fn set_lease(&self, lease: &BudgetLease, requested_at: Timestamp, margin: Duration) {
        let mut state = lock(&self.0);
        if let Some(entry) = state.ledger.set_lease(lease, requested_at, margin) {
            // If the write fails, a ledger that is read back spends less than it may, which is safe.
            let _ = state.write(&[JournalRecord::Entry(entry)]);
        }
    }

    /// The reports to the ledger about all leases of a day.
    #[must_use]
    pub fn lease_reports(&self, day: u64) -> Vec<LeaseReport> {
        lock(&self.0).ledger.lease_reports(day)
    }

    /// The lease that pays for a tier's calls of a day. `None` where caps are spent.
    #[must_use]
    pub fn held_lease(&self, day: u64, tier: Tier) -> Option<HeldLease> {
        lock(&self.0).ledger.held_lease(day, tier)
    }

    /// Gives back up to `total` of the current lease of a tier's day, counted from the start of the lease, as far as it
    /// is neither posted nor held. It is journaled first: otherwise a ledger that is read back would spend money that
    /// another node has. Returns the total that has been given back.
    pub fn return_lease(&self, day: u64, tier: Tier, total: Money) -> Result<Money, StoreError> {
        let mut state = lock(&self.0);
        if let Some(entry) = state.ledger.decide_return(day, tier, total) {
            state.write(&[JournalRecord::Entry(entry)])?;
            state.apply(&entry);
        }
        Ok(state.ledger.held_lease(day, tier).map_or(Money::ZERO, |held| held.returned))
    }
}
