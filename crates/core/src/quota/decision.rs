//! The types of a quota request and of the decision on it.

use super::rule::{QuotaGroup, QuotaUnit};
use crate::setting::SettingError;
use smallvec::SmallVec;
use std::time::Duration;

/// The most groups that may apply to one request: its scopes. Settings that could exceed it are rejected by
/// [`check_request_groups`], and a decision over more returns [`ScopeError::TooMany`].
pub const MAX_SCOPES: usize = 16;

/// The scopes of one request. Most requests have up to four, which need no allocation.
pub type ScopeList = SmallVec<[QuotaScope; 4]>;

/// Rejects groups that can all apply to the same request and are more than [`MAX_SCOPES`].
pub fn check_request_groups<'a>(
    groups: impl IntoIterator<Item = &'a QuotaGroup>,
) -> Result<(), SettingError> {
    let names: Vec<&str> = groups.into_iter().map(QuotaGroup::name).collect();
    match names.get(MAX_SCOPES..) {
        None | Some([]) => Ok(()),
        Some(excess) => {
            let problem = format!(
                "{} groups of limits can apply to one request, more than {MAX_SCOPES}: remove {}",
                names.len(),
                excess.join(", ")
            );
            Err(SettingError::new("groups", problem))
        }
    }
}

/// The identifier of a group of limits in a limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupId(pub(super) u16);

impl GroupId {
    /// The group at this index in the list of groups.
    #[must_use]
    pub const fn from_index(index: u16) -> Self {
        Self(index)
    }

    /// The group's index in the list of groups.
    #[must_use]
    pub const fn index(self) -> u16 {
        self.0
    }
}

/// One subject of a group's limits: a caller, a network, a route. Derive it with a keyed hash (a secret), so that no
/// caller can choose a key that collides with another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QuotaKey(pub u64);

/// One key in one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaScope {
    /// The group whose limits apply.
    pub group: GroupId,
    /// The subject that is charged.
    pub key: QuotaKey,
}

/// What a request takes from limits, in each unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaUnits {
    /// The number of requests.
    pub requests: u32,
    /// The number of model tokens.
    pub tokens: u32,
}

impl QuotaUnits {
    /// Nothing, to read limits without charging them.
    pub const NOTHING: Self = Self { requests: 0, tokens: 0 };
    /// One request, no tokens.
    pub const REQUEST: Self = Self { requests: 1, tokens: 0 };

    /// One request with this many tokens.
    #[must_use]
    pub const fn tokens(tokens: u32) -> Self {
        Self { requests: 1, tokens }
    }

    pub(super) const fn units(self, unit: QuotaUnit) -> u32 {
        match unit {
            QuotaUnit::Request => self.requests,
            QuotaUnit::Token => self.tokens,
        }
    }
}

/// The identifier of one limit of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LimitId {
    /// The group of the limit.
    pub group: GroupId,
    /// The limit's number in the group, in the order in which the group's limits were first defined. A name keeps its
    /// number across changes.
    pub quota: usize,
}

/// What remains of one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitView {
    /// The limit described.
    pub limit: LimitId,
    /// The most units the limit admits at once.
    pub capacity: u32,
    /// The units that remain of the capacity.
    pub remaining: u32,
}

/// Why a request was refused for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaRefusal {
    /// The limit with the longest wait, and what remains of it.
    pub binding: LimitView,
    /// The time until the same request would fit, if nothing else is admitted meanwhile.
    pub wait: Duration,
}

/// The decision on a request.
#[derive(Debug, PartialEq, Eq)]
pub enum QuotaDecision {
    /// Every limit had room and was charged.
    Granted {
        /// What was charged; settle it when the cost is known.
        reservation: QuotaReservation,
        /// The limit with the fewest units left.
        tightest: LimitView,
    },
    /// A limit had no room; nothing was charged.
    RetryAfter(QuotaRefusal),
    /// The request exceeds a limit's capacity, so waiting does not help; nothing was charged.
    TooLarge {
        /// The limit that refused the request.
        limit: LimitId,
        /// The capacity of that limit.
        capacity: u32,
    },
}

/// What one request was charged. Settle it with the actual cost; dropped, it stays charged as reserved.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a reservation that is not settled stays charged in full"]
pub struct QuotaReservation {
    pub(super) cost: QuotaUnits,
    pub(super) scopes: SmallVec<[ChargedScope; 4]>,
    /// Where the units were charged (slice, period or time), one mark per limit in the order of the scopes.
    pub(super) marks: SmallVec<[u64; 12]>,
}

impl QuotaReservation {
    /// The cost that was charged.
    #[must_use]
    pub const fn cost(&self) -> QuotaUnits {
        self.cost
    }

    /// The scopes that were charged.
    pub fn scopes(&self) -> impl Iterator<Item = QuotaScope> {
        self.scopes.iter().map(|scope| QuotaScope { group: scope.group, key: scope.key })
    }
}

/// A scope that was charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChargedScope {
    pub(super) key: QuotaKey,
    /// The version of the rules in force when it was charged.
    pub(super) version: u32,
    pub(super) group: GroupId,
    /// The number of limits at that time, each of which has a mark.
    pub(super) limits: u8,
}

/// Why no decision is possible over a set of scopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScopeError {
    /// No scope was given, which would admit everything.
    #[error("a request must name at least one group")]
    None,
    /// The request has more groups than one decision supports.
    #[error("a request must not name more than {MAX_SCOPES} groups")]
    TooMany,
    /// A group was given twice, which would charge its limits twice.
    #[error("a request must not name a group twice")]
    Repeated(GroupId),
    /// The group holds its maximum of about a thousand million callers and cannot add one.
    #[error("the rate limiter has no room for another caller")]
    Full(GroupId),
    /// The group belongs to another limiter, or was removed.
    #[error("the rate limiter has no such group")]
    Unknown(GroupId),
}
