//! The question a book is asked and the answers it gives.

use super::rule::Unit;
use arrayvec::ArrayVec;
use std::time::Duration;

/// The most groups one request may touch.
pub(super) const MOST_SCOPES: usize = 4;
/// The most limits one request may touch, over all its groups.
pub(super) const MOST_LIMITS: usize = 16;

/// A group of the book.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupId(pub(super) u16);

impl GroupId {
    /// The group at this place of a list of groups.
    #[must_use]
    pub const fn at(place: u16) -> Self {
        Self(place)
    }

    /// Its place among the groups it was made with.
    #[must_use]
    pub const fn place(self) -> u16 {
        self.0
    }
}

/// Somebody inside a group: a caller, an address, a route. Whoever makes it should hash with a secret, so that
/// nobody can choose to share another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QuotaKey(pub u64);

/// One key of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    /// The group.
    pub group: GroupId,
    /// Who.
    pub key: QuotaKey,
}

/// What a request costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Requests.
    pub requests: u32,
    /// Model tokens.
    pub tokens: u32,
}

impl Cost {
    /// Nothing, to look without taking.
    pub const NOTHING: Self = Self { requests: 0, tokens: 0 };
    /// One request, no tokens.
    pub const REQUEST: Self = Self { requests: 1, tokens: 0 };

    /// One request of this many tokens.
    #[must_use]
    pub const fn tokens(tokens: u32) -> Self {
        Self { requests: 1, tokens }
    }

    pub(super) const fn units(self, unit: Unit) -> u32 {
        match unit {
            Unit::Request => self.requests,
            Unit::Token => self.tokens,
        }
    }
}

/// One limit of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LimitId {
    /// The group.
    pub group: GroupId,
    /// Its number in the group: its place in the order in which the group's limits first came. A name keeps its number,
    /// whatever else changes.
    pub quota: usize,
}

/// What is left of one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitView {
    /// Which limit.
    pub limit: LimitId,
    /// The most it ever admits at once.
    pub capacity: u32,
    /// What is left of that.
    pub remaining: u32,
}

/// Why a request was refused, for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The limit that binds longest, and what is left of it.
    pub binding: LimitView,
    /// When the same request would fit, if nothing else is admitted meanwhile.
    pub wait: Duration,
}

/// The answer of a book.
#[derive(Debug, PartialEq, Eq)]
pub enum QuotaDecision {
    /// Every limit had room and was charged.
    Granted {
        /// What was taken, to be settled.
        reservation: Reservation,
        /// The limit with the least left.
        tightest: LimitView,
    },
    /// Some limit had no room; nothing was charged.
    RetryAfter(Refusal),
    /// Some limit is smaller than the request itself; waiting does not help, and nothing was charged.
    TooLarge {
        /// Which.
        limit: LimitId,
        /// Its size.
        capacity: u32,
    },
}

/// What one request has taken. Settle it with the true cost; dropped, it stays charged as reserved.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a reservation that is not settled stays charged in full"]
pub struct Reservation {
    pub(super) cost: Cost,
    pub(super) scopes: ArrayVec<Taken, MOST_SCOPES>,
    /// Where the units were taken from, limit by limit in the order of the scopes.
    pub(super) marks: ArrayVec<u64, MOST_LIMITS>,
}

impl Reservation {
    /// What was taken.
    #[must_use]
    pub const fn cost(&self) -> Cost {
        self.cost
    }

    /// Where it was taken from.
    pub fn scopes(&self) -> impl Iterator<Item = Scope> {
        self.scopes.iter().map(|taken| Scope { group: taken.group, key: taken.key })
    }
}

/// A scope that units were taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) key: QuotaKey,
    /// Of the rules that were in force.
    pub(super) version: u32,
    pub(super) group: GroupId,
    /// How many limits there were, each of which has a mark.
    pub(super) limits: u8,
}

/// A set of scopes that no decision can be taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScopeError {
    /// None were given: that would admit everything.
    #[error("a request must name at least one group")]
    None,
    /// More than can be handled at once.
    #[error("a request must not name more than {MOST_SCOPES} groups with {MOST_LIMITS} limits")]
    TooMany,
    /// One group was named twice, which would charge its limits twice.
    #[error("a request must not name a group twice")]
    Repeated(GroupId),
    /// Nobody new can be remembered: a thousand million callers are.
    #[error("the book has no room for another caller")]
    Full(GroupId),
    /// A group of another book, or one that is gone.
    #[error("the book has no such group")]
    Unknown(GroupId),
}
