//! Money held for one call.

use super::{JournalPosition, JournalRecord, LedgerCall, NodeLedger, ReserveError};
use crate::lock;
use crate::usage::{Certainty, UsageEvent};
use seawall_core::budget::{BudgetEntry, BudgetReservation};
use seawall_core::money::{Money, Usage};
use seawall_core::time::{Now, Timestamp, UtcTime};

/// Money held for one call. A hold that is dropped without being posted or voided is charged at its maximum cost,
/// because the call may have cost that much and its real cost is unknown.
#[derive(Debug)]
#[must_use = "dropping a hold charges its maximum cost"]
pub struct Hold {
    ledger: NodeLedger,
    reservation: BudgetReservation,
    started_at: Timestamp,
    /// None once the hold has ended.
    call: Option<LedgerCall>,
}

impl Hold {
    pub(super) const fn new(
        ledger: NodeLedger,
        reservation: BudgetReservation,
        call: LedgerCall,
        started_at: Timestamp,
    ) -> Self {
        Self { ledger, reservation, started_at, call: Some(call) }
    }

    /// The amount that is held.
    #[must_use]
    pub const fn amount(&self) -> Money {
        self.reservation.max_cost
    }

    /// Posts the usage and cost of the call. A cost above the hold is posted all the same, because it has been spent.
    pub fn post(mut self, usage: Usage, cost: Money, certainty: Certainty, now: Now) {
        self.settle(usage, cost, certainty, Some(now));
    }

    /// Releases the hold: no call was made, or it cost nothing.
    pub fn release(mut self) {
        if self.call.take().is_some() {
            let voided = JournalRecord::Entry(BudgetEntry::Voided(self.reservation.id));
            lock(&self.ledger.0).settle(&voided);
        }
    }

    fn settle(&mut self, usage: Usage, cost: Money, certainty: Certainty, now: Option<Now>) {
        let Some(LedgerCall { id, model, labels }) = self.call.take() else { return };
        let BudgetReservation { id: reservation, day, caller, tier, .. } = self.reservation;
        let mut state = lock(&self.ledger.0);
        if let Some(now) = now {
            state.observe_time(now);
            state.record_hold_duration(now.monotonic - self.started_at);
        }
        let at = now.map_or(state.latest_utc, |now: Now| -> UtcTime { now.utc });
        state.settle(&JournalRecord::CallEnded { reservation, at, usage, cost, certainty });
        state.spool_event(|| UsageEvent { id, at, day, caller, tier, model, labels, usage, cost, certainty });
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let BudgetReservation { input, output, max_cost, .. } = self.reservation;
        let usage = Usage { input, output, ..Usage::default() };
        self.settle(usage, max_cost, Certainty::Maximum, None);
    }
}

/// Money held for one call whose reservation is not journaled yet: the call must not be made before it is. One journal
/// write covers several reservations (group commit), so callers should let others reserve before they write. Dropping
/// it releases the money.
#[derive(Debug)]
#[must_use = "dropping it releases the money"]
pub struct UnwrittenHold {
    /// None once it has been written or released.
    hold: Option<Hold>,
    position: JournalPosition,
}

impl UnwrittenHold {
    pub(super) const fn new(hold: Hold, position: JournalPosition) -> Self {
        Self { hold: Some(hold), position }
    }

    /// Whether nothing is left to be written, so that waiting for others gains nothing.
    #[must_use]
    pub fn is_written(&self) -> bool {
        self.position == JournalPosition::WRITTEN
    }

    /// Writes the reservation to the journal. If the write fails, the money is not held.
    pub fn write(mut self) -> Result<Hold, ReserveError> {
        let Some(hold) = self.hold.take() else { return Err(ReserveError::Journal(already_released())) };
        if self.is_written() {
            return Ok(hold);
        }
        let written = lock(&hold.ledger.0).write_buffered(self.position);
        match written {
            Ok(()) => Ok(hold),
            Err(error) => {
                hold.release();
                Err(ReserveError::Journal(error))
            }
        }
    }
}

impl Drop for UnwrittenHold {
    fn drop(&mut self) {
        if let Some(hold) = self.hold.take() {
            hold.release();
        }
    }
}

/// Unreachable: writing or releasing consumes the value.
fn already_released() -> crate::StoreError {
    crate::StoreError::failed("ledger", "a released hold cannot be written")
}
