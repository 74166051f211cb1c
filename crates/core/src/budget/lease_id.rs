//! Identity and messages of leases between the nodes and the authority.
//!
//! All figures are totals since the lease began. The receiver keeps the maximum, so that messages are idempotent: any
//! of them may be duplicated, reordered or resent when in doubt.

use crate::money::Money;
use crate::time::Timestamp;
use crate::vocabulary::Tier;
use std::time::Duration;

/// Identifies a lease.
///
/// A node has one lease per tier and day, whose total it raises. `node` identifies one incarnation of a node with
/// an intact ledger: a node that has lost its ledger cannot know what it has spent, and must come back under another
/// number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId {
    /// The day that pays, in days since 1970.
    pub day: u64,
    /// The tier that pays.
    pub tier: Tier,
    /// The node that holds the lease.
    pub node: u64,
    /// How many earlier leases of this node, tier and day were closed.
    pub generation: u64,
}

/// Lifecycle state of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseState {
    /// The node may spend it.
    Running,
    /// Not renewed in time: the node is presumed dead and the remainder counts as spent.
    WrittenOff,
    /// Its actual spend is known. A closed lease never runs again.
    Closed,
}

/// A slice of a day's budget lent to one node, in the authority's ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetLease {
    /// Identifies the lease.
    pub id: LeaseId,
    /// Total granted.
    pub granted: Money,
    /// Total cost of calls, as far as reported.
    pub posted: Money,
    /// Total given back, as far as reported.
    pub returned: Money,
    /// How long the node may spend it, counted from the moment the node sent its request.
    pub term: Duration,
    /// When it is written off unless renewed, on the authority's clock.
    pub expires: Timestamp,
    /// Lifecycle state.
    pub state: LeaseState,
}

impl BudgetLease {
    pub(super) const fn new(id: LeaseId) -> Self {
        Self {
            id,
            granted: Money::ZERO,
            posted: Money::ZERO,
            returned: Money::ZERO,
            term: Duration::ZERO,
            expires: Timestamp::ZERO,
            state: LeaseState::Running,
        }
    }

    /// The remainder: neither posted nor given back.
    #[must_use]
    pub const fn remainder(&self) -> Money {
        match self.state {
            LeaseState::Closed => Money::ZERO,
            LeaseState::Running | LeaseState::WrittenOff => {
                self.granted.saturating_sub(self.returned).saturating_sub(self.posted)
            }
        }
    }
}

/// The authority's reply to a node that asks for a lease. Each variant carries the lease for the node's own ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an unused lease is unavailable to other nodes until it expires"]
pub enum LeaseDecision {
    /// Raised, perhaps by less than was asked for, or renewed.
    Granted(BudgetLease),
    /// Renewed, but the caps leave nothing to raise it by.
    Exhausted(BudgetLease),
    /// The requested lease was closed. This is its successor, which may not be spent until it has been granted.
    Superseded(BudgetLease),
}

impl LeaseDecision {
    /// The lease to pass to the node's ledger.
    #[must_use]
    pub const fn lease(&self) -> &BudgetLease {
        match self {
            Self::Granted(lease) | Self::Exhausted(lease) | Self::Superseded(lease) => lease,
        }
    }
}

/// A node's report on one of its leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseReport {
    /// The lease that is reported on.
    pub lease: LeaseId,
    /// Total cost of calls on it.
    pub posted: Money,
    /// Total given back.
    pub returned: Money,
}

/// Asks a node to give back what it does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseRecall {
    /// The lease to give back from.
    pub lease: LeaseId,
    /// Total that should have been given back.
    pub returned: Money,
}

/// Result of an attempt to close a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a lease that runs was not closed"]
pub enum ReconcileDecision {
    /// The lease is closed.
    Closed {
        /// The amount that can be lent again.
        freed: Money,
    },
    /// The lease has not been written off, so its node may still spend it. Nothing changed.
    Running,
}
