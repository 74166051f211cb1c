//! Money held for one call.

use super::{Attempt, Books, JournalRecord, Noted, ReserveError};
use crate::lock;
use crate::usage::{Certainty, UsageEvent};
use seawall_core::budget::{Entry, Reservation};
use seawall_core::money::{Money, Usage};
use seawall_core::time::{Now, Timestamp, UtcTime};

/// Money held for one call. A hold that is dropped without being posted or voided is charged at its worst-case cost,
/// because the call may have cost that much and its real cost is unknown.
#[derive(Debug)]
#[must_use = "dropping a hold charges it at its worst"]
pub struct Hold {
    books: Books,
    reservation: Reservation,
    began: Timestamp,
    /// None once the hold has ended.
    attempt: Option<Attempt>,
}

impl Hold {
    pub(super) const fn new(
        books: Books,
        reservation: Reservation,
        attempt: Attempt,
        began: Timestamp,
    ) -> Self {
        Self { books, reservation, began, attempt: Some(attempt) }
    }

    /// The amount that is held.
    #[must_use]
    pub const fn amount(&self) -> Money {
        self.reservation.worst
    }

    /// Posts the usage and cost of the call. A cost above the hold is posted all the same, because it has been spent.
    pub fn post(mut self, usage: Usage, cost: Money, certainty: Certainty, now: Now) {
        self.settle(usage, cost, certainty, Some(now));
    }

    /// Releases the hold: no call was made, or it cost nothing.
    pub fn void(mut self) {
        if self.attempt.take().is_some() {
            let voided = JournalRecord::Entry(Entry::Voided(self.reservation.id));
            lock(&self.books.0).settle(&voided);
        }
    }

    fn settle(&mut self, usage: Usage, cost: Money, certainty: Certainty, now: Option<Now>) {
        let Some(Attempt { id, model }) = self.attempt.take() else { return };
        let Reservation { id: reservation, day, caller, tier, .. } = self.reservation;
        let mut desk = lock(&self.books.0);
        if let Some(now) = now {
            desk.hear(now);
            desk.learn_hold(now.monotonic - self.began);
        }
        let at = now.map_or(desk.heard, |now: Now| -> UtcTime { now.utc });
        desk.settle(&JournalRecord::Ended { reservation, at, usage, cost, certainty });
        desk.tell(|| UsageEvent { id, at, day, caller, tier, model, usage, cost, certainty });
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let Reservation { input, output, worst, .. } = self.reservation;
        let usage = Usage { input, output, ..Usage::default() };
        self.settle(usage, worst, Certainty::Worst, None);
    }
}

/// Money held for one call whose reservation is not journaled yet: the call must not be made before it is. One journal
/// write covers several reservations (group commit), so callers should let others reserve before they write. Dropping
/// it releases the money.
#[derive(Debug)]
#[must_use = "dropping it gives the money back"]
pub struct Unwritten {
    /// None once it has been written, or given back.
    hold: Option<Hold>,
    noted: Noted,
}

impl Unwritten {
    pub(super) const fn new(hold: Hold, noted: Noted) -> Self {
        Self { hold: Some(hold), noted }
    }

    /// Whether nothing is left to be written, so that waiting for others gains nothing.
    #[must_use]
    pub fn is_written(&self) -> bool {
        self.noted == Noted::WRITTEN
    }

    /// Writes the reservation to the journal. If the write fails, the money is not held.
    pub fn write(mut self) -> Result<Hold, ReserveError> {
        let Some(hold) = self.hold.take() else { return Err(ReserveError::Journal(gone())) };
        if self.is_written() {
            return Ok(hold);
        }
        let written = lock(&hold.books.0).write_noted(self.noted);
        match written {
            Ok(()) => Ok(hold),
            Err(error) => {
                hold.void();
                Err(ReserveError::Journal(error))
            }
        }
    }
}

impl Drop for Unwritten {
    fn drop(&mut self) {
        if let Some(hold) = self.hold.take() {
            hold.void();
        }
    }
}

/// Unreachable: writing or giving back consumes the value.
fn gone() -> crate::StoreError {
    crate::StoreError::broken("book", "what was given back cannot be written")
}
