//! Saves and restores the authority's ledger.

use super::lease::{LeaseBook, LentBooks, LentDay};
use super::lease_id::{Lease, LeaseState};
use super::limits::BudgetLimits;
use super::snapshot::{LeaseSnapshot, SavedLentDay, SnapshotError};
use super::uptime::Uptime;
use crate::money::Money;
use crate::time::Timestamp;

impl LeaseBook {
    /// The complete state. Limits are settings and are not part of it.
    #[must_use]
    pub fn snapshot(&self) -> LeaseSnapshot {
        let day = |(number, day): (&u64, &LentDay)| SavedLentDay {
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
        let mut book = Self::new(limits);
        book.uptime = Uptime::since(snapshot.uptime);
        book.uptime.hear(now);
        for saved in &snapshot.days {
            if saved.used > snapshot.uptime {
                return Err(SnapshotError::UsedLater { what: "day", number: saved.day });
            }
            let mut day = LentDay { used: saved.used, ..LentDay::default() };
            for lease in &saved.leases {
                if lease.id.day != saved.day {
                    return Err(SnapshotError::ForeignLease(lease.id));
                }
                let expires = match lease.state {
                    LeaseState::Running => now + lease.lasts.max(lease.expires - snapshot.at),
                    LeaseState::WrittenOff | LeaseState::Closed => Timestamp::ZERO,
                };
                let lease = Lease { expires, ..*lease };
                add(&mut day.tiers[lease.id.tier.index()], &lease)
                    .ok_or(SnapshotError::TooMuch(saved.day))?;
                if book.leases.insert(lease.id, lease).is_some() {
                    return Err(SnapshotError::LeaseTwice(lease.id));
                }
                if lease.state == LeaseState::Running && lease.rest() > Money::ZERO {
                    book.by_expiry.insert((expires, lease.id));
                }
            }
            let sums = day.tiers.iter().map(|tier| [tier.lent, tier.written_off]);
            let total = sums.flatten().try_fold(Money::ZERO, Money::checked_add);
            total.ok_or(SnapshotError::TooMuch(saved.day))?;
            if book.days.insert(saved.day, day).is_some() {
                return Err(SnapshotError::Twice { what: "day", number: saved.day });
            }
        }
        Ok(book)
    }
}

/// Adds a lease to the sums of its tier. The remainder was lent from a cap, so that its sum must not overflow; the
/// posted amount is whatever nodes have reported and saturates.
fn add(books: &mut LentBooks, lease: &Lease) -> Option<()> {
    books.posted = books.posted.saturating_add(lease.posted);
    let rests = books.rests(lease.state);
    *rests = rests.checked_add(lease.rest())?;
    Some(())
}
