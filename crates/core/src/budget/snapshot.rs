//! Books as plain values, so that a journal need not reach back to the first day.
//!
//! Whoever keeps a journal writes a snapshot now and then and forgets the entries before it. Books that are made from it
//! go on as if they had never stopped. A snapshot that does not add up is refused as a whole: money that nobody can account
//! for is worse than a book that does not open.
//!
//! **What does not survive.** Moments belong to the clock of one process. Open reservations keep theirs and are to be given
//! up when the rest of the journal has been read; how long a node's lease lasts is not written down, so that nothing is
//! spent from it until it is renewed; and what an authority has lent gets a fresh term.

use super::account::{Account, SessionTokens};
use super::entry::{Reservation, ReservationId};
use super::lease_id::{Lease, LeaseId};
use crate::money::Money;
use crate::time::Timestamp;
use std::time::Duration;

/// All that a [`BudgetBook`](super::BudgetBook) knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BudgetSnapshot {
    /// The number of the next reservation.
    pub next: u64,
    /// How long the book had been in use. Last uses are told on the same scale.
    pub uptime: Duration,
    /// When it looks next for what can be forgotten.
    pub next_look: Duration,
    /// The conversation at which the present round of forgetting goes on, if one is under way.
    pub session_round: Option<u64>,
    /// Its days.
    pub days: Vec<SavedDay>,
    /// Its conversations.
    pub sessions: Vec<SavedSession>,
    /// Reservations that are open.
    pub open: Vec<Reservation>,
    /// Reservations that were charged at their worst, and may turn out cheaper.
    pub given_up: Vec<Reservation>,
}

/// One day of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavedDay {
    /// Counted from 1970.
    pub day: u64,
    /// When it was last used.
    pub used: Duration,
    /// What each tier has spent and holds.
    pub tiers: [Account; 3],
    /// What calls of each tier have cost beyond what was reserved for them.
    pub overrun: [Money; 3],
    /// What each caller has.
    pub callers: Vec<SavedCaller>,
    /// The leases of the node.
    pub leases: Vec<SavedHolding>,
}

/// One caller's day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedCaller {
    /// Who.
    pub caller: u64,
    /// What the caller has spent and holds.
    pub account: Account,
    /// Somebody was told that the caller stands out.
    pub is_told: bool,
}

/// A lease as its node sees it, without the moment at which it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedHolding {
    /// Its name.
    pub id: LeaseId,
    /// What was granted in all.
    pub granted: Money,
    /// What was given back in all.
    pub returned: Money,
    /// What was spent and is held of it.
    pub account: Account,
}

/// One conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedSession {
    /// Which.
    pub session: u64,
    /// When it was last used.
    pub used: Duration,
    /// What it has used and holds.
    pub tokens: SessionTokens,
}

/// All that a [`LeaseBook`](super::LeaseBook) knows. What the tiers have lent is the sum of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseSnapshot {
    /// The latest moment that the book had been told, on the clock on which its leases expire.
    pub at: Timestamp,
    /// How long the book had been in use. Last uses are told on the same scale.
    pub uptime: Duration,
    /// Its days.
    pub days: Vec<SavedLentDay>,
}

/// One day of an authority.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavedLentDay {
    /// Counted from 1970.
    pub day: u64,
    /// When it was last used.
    pub used: Duration,
    /// All leases of the day.
    pub leases: Vec<Lease>,
}

/// Why a snapshot was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// Something is there more than once.
    #[error("the {what} {number} is there twice")]
    Twice {
        /// What kind of thing.
        what: &'static str,
        /// Which.
        number: u64,
    },
    /// The lease is there more than once.
    #[error("the lease {0:?} is there twice")]
    LeaseTwice(LeaseId),
    /// A reservation has a number that the book never gave out.
    #[error("the reservation {} has a number that was never given out", .0.0)]
    NeverGiven(ReservationId),
    /// No book counts so far.
    #[error("the next number, {0}, is beyond what a book counts to")]
    NextTooLarge(u64),
    /// An account says something else than the reservations that it is about.
    #[error("the books of {what} on day {day} are not what its reservations come to")]
    DoesNotAddUp {
        /// Whose account.
        what: &'static str,
        /// On which day.
        day: u64,
    },
    /// A conversation says something else than its reservations.
    #[error("the conversation {0} does not hold what its reservations come to")]
    SessionDoesNotAddUp(u64),
    /// Sums are beyond what can be counted.
    #[error("the sums of day {0} are more than can be counted")]
    TooMuch(u64),
    /// A lease of another node or another day, or a lease where there are none.
    #[error("the lease {0:?} does not belong here")]
    ForeignLease(LeaseId),
    /// Something was used after the snapshot was made.
    #[error("the {what} {number} was used later than the book")]
    UsedLater {
        /// What kind of thing.
        what: &'static str,
        /// Which.
        number: u64,
    },
}
