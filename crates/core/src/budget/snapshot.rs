//! Snapshots of the books, so that a journal can be truncated.
//!
//! The owner of a journal writes a snapshot from time to time and drops the entries before it. Books restored from a
//! snapshot continue as if they had never stopped. An inconsistent snapshot is rejected as a whole: money that cannot
//! be accounted for is worse than a book that does not open.
//!
//! **What does not survive.** Monotonic timestamps are valid in one process only. Open reservations keep theirs and
//! must be expired once the rest of the journal has been replayed. The end of a node's lease is not saved, so that
//! nothing is spent from it until it is renewed. Leases that the authority has lent get a fresh term.

use super::account::{Account, SessionTokens};
use super::entry::{Reservation, ReservationId};
use super::lease_id::{Lease, LeaseId};
use crate::money::Money;
use crate::time::Timestamp;
use std::time::Duration;

/// The complete state of a [`BudgetBook`](super::BudgetBook).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BudgetSnapshot {
    /// Number of the next reservation.
    pub next: u64,
    /// How long the book had been in use; `used` fields are on the same scale.
    pub uptime: Duration,
    /// Uptime at which the next eviction scan is due.
    pub next_look: Duration,
    /// Session at which the current eviction scan continues, if one is in progress.
    pub session_round: Option<u64>,
    /// Ledgers per day.
    pub days: Vec<SavedDay>,
    /// Token usage per session.
    pub sessions: Vec<SavedSession>,
    /// Reservations that are open.
    pub open: Vec<Reservation>,
    /// Expired reservations, charged at their worst case, whose actual cost may still arrive.
    pub given_up: Vec<Reservation>,
}

/// The ledger of one day.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavedDay {
    /// Days since 1970.
    pub day: u64,
    /// Uptime at the last use.
    pub used: Duration,
    /// Account of each tier.
    pub tiers: [Account; 3],
    /// Cost above the reserved amount, per tier.
    pub overrun: [Money; 3],
    /// Account of each caller.
    pub callers: Vec<SavedCaller>,
    /// Leases held by the node.
    pub leases: Vec<SavedHolding>,
}

/// One caller's account of a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedCaller {
    /// The caller's number.
    pub caller: u64,
    /// What the caller has posted and holds.
    pub account: Account,
    /// The single-source alarm for this caller has been raised.
    pub is_told: bool,
}

/// A lease held by the node, without its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedHolding {
    /// Identifies the lease.
    pub id: LeaseId,
    /// Total granted.
    pub granted: Money,
    /// Total given back.
    pub returned: Money,
    /// What the node has posted and holds against it.
    pub account: Account,
}

/// Token usage of one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedSession {
    /// The session's number.
    pub session: u64,
    /// Uptime at the last use.
    pub used: Duration,
    /// Tokens used and held.
    pub tokens: SessionTokens,
}

/// The complete state of a [`LeaseBook`](super::LeaseBook). Sums per tier are recomputed from the leases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseSnapshot {
    /// The latest time that the book had seen, on the clock of the leases' expiry.
    pub at: Timestamp,
    /// How long the book had been in use; `used` fields are on the same scale.
    pub uptime: Duration,
    /// Leases per day.
    pub days: Vec<SavedLentDay>,
}

/// One day of the authority's ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavedLentDay {
    /// Days since 1970.
    pub day: u64,
    /// Uptime at the last use.
    pub used: Duration,
    /// All leases of the day.
    pub leases: Vec<Lease>,
}

/// Why a snapshot was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// An item occurs more than once.
    #[error("the {what} {number} is there twice")]
    Twice {
        /// Kind of the item.
        what: &'static str,
        /// Number of the item.
        number: u64,
    },
    /// A lease occurs more than once.
    #[error("the lease {0:?} is there twice")]
    LeaseTwice(LeaseId),
    /// A reservation's number is beyond the last one issued.
    #[error("the reservation {} has a number that was never given out", .0.0)]
    NeverGiven(ReservationId),
    /// The next reservation number is out of range.
    #[error("the next number, {0}, is beyond what a book counts to")]
    NextTooLarge(u64),
    /// An account disagrees with the reservations that it covers.
    #[error("the books of {what} on day {day} are not what its reservations come to")]
    DoesNotAddUp {
        /// Kind of the account.
        what: &'static str,
        /// Day of the account.
        day: u64,
    },
    /// A session's held tokens disagree with its open reservations.
    #[error("the conversation {0} does not hold what its reservations come to")]
    SessionDoesNotAddUp(u64),
    /// The sums of a day overflow.
    #[error("the sums of day {0} are more than can be counted")]
    TooMuch(u64),
    /// A lease of another node or day, or a lease in a book without leases.
    #[error("the lease {0:?} does not belong here")]
    ForeignLease(LeaseId),
    /// An item was used after the snapshot was taken.
    #[error("the {what} {number} was used later than the book")]
    UsedLater {
        /// Kind of the item.
        what: &'static str,
        /// Number of the item.
        number: u64,
    },
}
