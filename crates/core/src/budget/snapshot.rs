//! Snapshots of the ledger, so that a journal can be truncated.
//!
//! The owner of a journal writes a snapshot from time to time and drops the entries before it. A ledger restored from a
//! snapshot continues as if it had never stopped. An inconsistent snapshot is rejected as a whole: money that cannot
//! be accounted for is worse than a ledger that does not open.
//!
//! **What does not survive.** Monotonic timestamps are valid in one process only. Open reservations keep theirs and
//! must be expired once the rest of the journal has been replayed. The end of a node's lease is not saved, so that
//! nothing is spent from it until it is renewed. Leases that the authority has lent get a fresh term.

use super::account::{BudgetAccount, SessionTokens};
use super::entry::{BudgetReservation, ReservationId};
use super::lease_id::{BudgetLease, LeaseId};
use super::window::{CalendarHour, WindowKey};
use crate::money::Money;
use crate::time::Timestamp;
use std::time::Duration;

/// The complete state of a [`BudgetLedger`](super::BudgetLedger).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BudgetSnapshot {
    /// Number of the next reservation.
    pub next: u64,
    /// How long the ledger had been in use; `used` fields are on the same scale.
    pub uptime: Duration,
    /// Uptime at which the next eviction scan is due.
    pub next_sweep: Duration,
    /// Session at which the current eviction scan continues, if one is in progress.
    pub session_sweep: Option<u64>,
    /// Ledgers per day.
    pub days: Vec<SavedDay>,
    /// Token usage per session.
    pub sessions: Vec<SavedSession>,
    /// Reservations that are open.
    pub open: Vec<BudgetReservation>,
    /// Expired reservations, charged at their maximum cost, whose actual cost may still arrive.
    pub expired: Vec<BudgetReservation>,
    /// The accounts of budgets by calendar window.
    pub windows: SavedWindows,
}

/// The accounts of budgets by calendar window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavedWindows {
    /// The hour of the last reservation.
    pub hour: CalendarHour,
    /// Account at which the current eviction scan continues, if one is in progress.
    pub sweep: Option<WindowKey>,
    /// All accounts.
    pub all: Vec<SavedWindow>,
}

/// The account of one window of one budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedWindow {
    /// Identifies the account.
    pub key: WindowKey,
    /// Uptime at the last use.
    pub used: Duration,
    /// What is posted and held.
    pub account: BudgetAccount,
}

/// The ledger of one day.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavedDay {
    /// Days since 1970.
    pub day: u64,
    /// Uptime at the last use.
    pub used: Duration,
    /// Account of each tier.
    pub tiers: [BudgetAccount; 3],
    /// Cost above the reserved amount, per tier.
    pub overrun: [Money; 3],
    /// Account of each caller.
    pub callers: Vec<SavedCaller>,
    /// Leases held by the node.
    pub leases: Vec<SavedHeldLease>,
}

/// One caller's account of a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedCaller {
    /// The caller's number.
    pub caller: u64,
    /// What the caller has posted and holds.
    pub account: BudgetAccount,
    /// The single-source alarm for this caller has been raised.
    pub alarm_raised: bool,
}

/// A lease held by the node, without its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedHeldLease {
    /// Identifies the lease.
    pub id: LeaseId,
    /// Total granted.
    pub granted: Money,
    /// Total given back.
    pub returned: Money,
    /// What the node has posted and holds against it.
    pub account: BudgetAccount,
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

/// The complete state of a [`LeaseLedger`](super::LeaseLedger). Sums per tier are recomputed from the leases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseSnapshot {
    /// The latest time that the ledger had seen, on the clock of the leases' expiry.
    pub at: Timestamp,
    /// How long the ledger had been in use; `used` fields are on the same scale.
    pub uptime: Duration,
    /// Leases per day.
    pub days: Vec<SavedLeaseDay>,
}

/// One day of the authority's ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavedLeaseDay {
    /// Days since 1970.
    pub day: u64,
    /// Uptime at the last use.
    pub used: Duration,
    /// All leases of the day.
    pub leases: Vec<BudgetLease>,
}

/// Why a snapshot was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// An item occurs more than once.
    #[error("duplicate {what} {number}")]
    Duplicate {
        /// Kind of the item.
        what: &'static str,
        /// Number of the item.
        number: u64,
    },
    /// A lease occurs more than once.
    #[error("duplicate lease {0:?}")]
    DuplicateLease(LeaseId),
    /// A reservation's number is beyond the last one issued.
    #[error("reservation {} has a number that was never issued", .0.0)]
    UnissuedReservation(ReservationId),
    /// The next reservation number is out of range.
    #[error("the next reservation number, {0}, is out of range")]
    NextTooLarge(u64),
    /// An account disagrees with the reservations that it covers.
    #[error("the account of {what} on day {day} does not match its reservations")]
    AccountMismatch {
        /// Kind of the account.
        what: &'static str,
        /// Day of the account.
        day: u64,
    },
    /// A session's held tokens disagree with its open reservations.
    #[error("the held tokens of session {0} do not match its reservations")]
    SessionMismatch(u64),
    /// The held amounts of budget windows disagree with the open reservations.
    #[error("the held amounts of budget windows do not match the reservations")]
    WindowMismatch,
    /// The sums of a day overflow.
    #[error("the sums of day {0} overflow")]
    Overflow(u64),
    /// A lease of another node or day, or a lease in a ledger without leases.
    #[error("the lease {0:?} belongs to another node or day")]
    ForeignLease(LeaseId),
    /// An item was used after the snapshot was taken.
    #[error("{what} {number} was used after the snapshot was taken")]
    UsedAfterSnapshot {
        /// Kind of the item.
        what: &'static str,
        /// Number of the item.
        number: u64,
    },
}
