//! What nodes and the authority call a lease, and what they tell each other of it.
//!
//! All figures are totals since the lease began. Who hears the same twice, or yesterday's news after today's, takes the
//! larger figure and is right, so that any message may be sent again when in doubt.

use crate::money::Money;
use crate::time::Timestamp;
use crate::vocabulary::Tier;
use std::time::Duration;

/// The name of a lease.
///
/// A node has one lease of a tier's day and lets it be raised. `node` names one run of a node whose books are whole: who has
/// lost its books cannot know what it has spent, and comes back under another number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId {
    /// The day whose money it is, counted from 1970.
    pub day: u64,
    /// Whose money it is.
    pub tier: Tier,
    /// Who has it.
    pub node: u64,
    /// How many leases were closed before it.
    pub generation: u64,
}

/// How a lease stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseState {
    /// Its node may spend it.
    Running,
    /// Its node is taken for dead, and its rest for spent.
    WrittenOff,
    /// What it cost has been found out. It does not come back.
    Closed,
}

/// A slice of a day's money in the hands of one node, as the authority sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Its name.
    pub id: LeaseId,
    /// What was granted in all.
    pub granted: Money,
    /// What calls have cost in all, as far as is known.
    pub posted: Money,
    /// What was given back in all, as far as is known.
    pub returned: Money,
    /// For how long its node may spend it, from the moment the node asked.
    pub lasts: Duration,
    /// When its node is taken for dead unless it asks again, on the authority's clock.
    pub expires: Timestamp,
    /// How it stands.
    pub state: LeaseState,
}

impl Lease {
    pub(super) const fn new(id: LeaseId) -> Self {
        Self {
            id,
            granted: Money::ZERO,
            posted: Money::ZERO,
            returned: Money::ZERO,
            lasts: Duration::ZERO,
            expires: Timestamp::ZERO,
            state: LeaseState::Running,
        }
    }

    /// What has been neither posted nor given back.
    #[must_use]
    pub const fn rest(&self) -> Money {
        match self.state {
            LeaseState::Closed => Money::ZERO,
            LeaseState::Running | LeaseState::WrittenOff => {
                self.granted.saturating_sub(self.returned).saturating_sub(self.posted)
            }
        }
    }
}

/// The answer to a node that wants money. Each carries the lease, which the node hands to its own book.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a lease that nobody uses is lost until it expires"]
pub enum LeaseDecision {
    /// It has been raised, perhaps by less than was asked for, or renewed.
    Granted(Lease),
    /// It has been renewed, and there is nothing left to raise it by.
    Spent(Lease),
    /// That lease was closed. This is the next one, of which nothing may be spent until it has been asked for.
    Over(Lease),
}

impl LeaseDecision {
    /// The lease to hand to the node's book.
    #[must_use]
    pub const fn lease(&self) -> &Lease {
        match self {
            Self::Granted(lease) | Self::Spent(lease) | Self::Over(lease) => lease,
        }
    }
}

/// What a node tells of one of its leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseReport {
    /// Which.
    pub lease: LeaseId,
    /// What calls on it have cost in all.
    pub posted: Money,
    /// What was given back in all.
    pub returned: Money,
}

/// A node is to give back what it does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recall {
    /// Which lease.
    pub lease: LeaseId,
    /// How much is to be given back in all.
    pub returned: Money,
}

/// What became of the attempt to close a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a lease that runs was not closed"]
pub enum ReconcileDecision {
    /// It is closed, and this much can be lent again.
    Closed {
        /// How much.
        freed: Money,
    },
    /// It has not been written off, so its node may still spend it. Nothing has changed.
    Running,
}
