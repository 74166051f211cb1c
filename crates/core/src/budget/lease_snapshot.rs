//! Saves and restores the authority's ledger.

use super::lease::{LeaseDay, LeaseLedger, LeaseTotals};
use super::lease_id::{BudgetLease, LeaseState};
use super::limits::BudgetLimits;
use super::snapshot::{LeaseSnapshot, SavedLeaseDay, SnapshotError};
use super::uptime::Uptime;
use crate::money::Money;
use crate::time::Timestamp;

impl LeaseLedger {
    /// The complete state. Limits are settings and are not part of it.
    #[must_use]
    pub fn snapshot(&self) -> LeaseSnapshot {
        let day = |(number, day): (&u64, &LeaseDay)| SavedLeaseDay {
            day: *number,
            used: day.used,
            leases: self.of_day(*number).copied().collect(),
        };
        LeaseSnapshot {
            at: self.uptime.latest().unwrap_or(Timestamp::ZERO),
            uptime: self.uptime.get(),
            days: self.days.iter().map(day).collect(),
        }
    }

    /// Restores the ledger at `now`. Fails if the snapshot is inconsistent.
    ///
    /// The length of the authority's outage is unknown, and nodes may spend their leases until these end. Every
    /// running lease therefore gets a fresh term: its usual duration, or what was left of it if that was longer.
    pub fn from_snapshot(
        limits: BudgetLimits,
        snapshot: &LeaseSnapshot,
        now: Timestamp,
    ) -> Result<Self, SnapshotError> {
        let mut ledger = Self::new(limits);
        ledger.uptime = Uptime::since(snapshot.uptime);
        ledger.uptime.observe(now);
        for saved in &snapshot.days {
            if saved.used > snapshot.uptime {
                return Err(SnapshotError::UsedAfterSnapshot { what: "day", number: saved.day });
            }
            let mut day = LeaseDay { used: saved.used, ..LeaseDay::default() };
            for lease in &saved.leases {
                if lease.id.day != saved.day {
                    return Err(SnapshotError::ForeignLease(lease.id));
                }
                let expires = match lease.state {
                    LeaseState::Running => now + lease.term.max(lease.expires - snapshot.at),
                    LeaseState::WrittenOff | LeaseState::Closed => Timestamp::ZERO,
                };
                let lease = BudgetLease { expires, ..*lease };
                add(&mut day.tiers[lease.id.tier.index()], &lease)
                    .ok_or(SnapshotError::Overflow(saved.day))?;
                if ledger.leases.insert(lease.id, lease).is_some() {
                    return Err(SnapshotError::DuplicateLease(lease.id));
                }
                if lease.state == LeaseState::Running && lease.remainder() > Money::ZERO {
                    ledger.by_expiry.insert((expires, lease.id));
                }
            }
            let sums = day.tiers.iter().map(|tier| [tier.leased, tier.written_off]);
            let total = sums.flatten().try_fold(Money::ZERO, Money::checked_add);
            total.ok_or(SnapshotError::Overflow(saved.day))?;
            if ledger.days.insert(saved.day, day).is_some() {
                return Err(SnapshotError::Duplicate { what: "day", number: saved.day });
            }
        }
        Ok(ledger)
    }
}

/// Adds a lease to the sums of its tier. The remainder was lent from a cap, so that its sum must not overflow; the
/// posted amount is whatever nodes have reported and saturates.
fn add(totals: &mut LeaseTotals, lease: &BudgetLease) -> Option<()> {
    totals.posted = totals.posted.saturating_add(lease.posted);
    let remainder = totals.remainder_mut(lease.state);
    *remainder = remainder.checked_add(lease.remainder())?;
    Some(())
}
