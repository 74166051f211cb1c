//! What happens to the books, as values that can be written down.
//!
//! A book is what its entries make of it. Whoever writes every entry to a journal before acting on it can read the book
//! back after a crash; entries that arrive twice change nothing.

use super::lease_id::LeaseId;
use crate::history::TokenLimits;
use crate::money::{Money, Usage};
use crate::time::{Timestamp, UtcTime};
use crate::vocabulary::Tier;

/// The name of a reservation, never used twice in one book. They are counted up; no book gets to the upper half of all
/// numbers, and an entry that says so is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReservationId(pub u64);

/// What a request wants to be allowed to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Who asks.
    pub caller: u64,
    /// What the caller is entitled to.
    pub tier: Tier,
    /// The conversation, where there is one.
    pub session: Option<u64>,
    /// How large the request may be.
    pub limits: TokenLimits,
    /// Tokens of input, as well as we know.
    pub input: u64,
    /// Tokens of output at which we cut it.
    pub output: u64,
    /// The most that it can cost.
    pub worst: Money,
    /// When nobody can still be at work on it.
    pub expires: Timestamp,
}

/// Something that was taken before a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Its name.
    pub id: ReservationId,
    /// The day whose money it is, counted from 1970; whenever it is settled.
    pub day: u64,
    /// Who asked.
    pub caller: u64,
    /// The tier whose money it is.
    pub tier: Tier,
    /// The generation of the lease that pays for it; 0 where there are no leases.
    pub generation: u64,
    /// The conversation, where there is one.
    pub session: Option<u64>,
    /// Tokens of input that were expected.
    pub input: u64,
    /// Tokens of output that were allowed.
    pub output: u64,
    /// The most that it can cost.
    pub worst: Money,
    /// When it is given up.
    pub expires: Timestamp,
}

/// One change of the books.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Taken before a call.
    Reserved(Reservation),
    /// The call used and cost this.
    Posted {
        /// Which reservation.
        id: ReservationId,
        /// What it used.
        usage: Usage,
        /// What that cost.
        cost: Money,
    },
    /// No call was made, or it cost nothing.
    Voided(ReservationId),
    /// Nobody knows what became of it: it is charged at its worst, until somebody does.
    Expired(ReservationId),
    /// An operator has corrected what was posted.
    Corrected(Correction),
    /// What this node has been leased so far, in totals.
    Leased {
        /// Which lease.
        lease: LeaseId,
        /// What was granted in all.
        granted: Money,
        /// What was given back in all, as far as the authority knows.
        returned: Money,
    },
    /// This node gives back some of a lease.
    Returned {
        /// Which lease.
        lease: LeaseId,
        /// How much was given back in all.
        total: Money,
    },
}

/// What an operator has found out about an amount that was posted: it takes the place of what the books had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Correction {
    /// Its name. Corrections are numbered together with reservations, so that one that is read back twice changes nothing.
    pub id: ReservationId,
    /// The day that it was posted to, counted from 1970.
    pub day: u64,
    /// Whose call it was.
    pub caller: u64,
    /// The tier that paid for it.
    pub tier: Tier,
    /// What was posted.
    pub charged: Money,
    /// What it really cost.
    pub cost: Money,
}

/// Why a posting cannot be corrected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CorrectionRefusal {
    /// Less was posted for calls that have ended on that day, by the caller or by its tier.
    #[error("{charged} was not posted there: on that day the caller has {caller} and the tier has {tier}")]
    NotPosted {
        /// What is said to have been posted.
        charged: Money,
        /// What the caller has posted on that day for calls that have ended.
        caller: Money,
        /// What the tier has.
        tier: Money,
    },
    /// The money comes from leases: what was spent of them has been reported to the authority.
    #[error("this node spends leases, whose books are with the ledger")]
    OnLeases,
}

/// Why a request may not be made, by the narrowest limit that it does not fit. Of the day's limits it is the one with the
/// least unspent: what is held of the others may come back, and would not help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BudgetRefusal {
    /// The request is too large.
    #[error("the request has about {wanted} tokens of input, and {limit} are allowed")]
    RequestInput {
        /// Its tokens.
        wanted: u64,
        /// How many it may have.
        limit: u64,
    },
    /// The request wants too much.
    #[error("the request wants {wanted} tokens of output, and {limit} are allowed")]
    RequestOutput {
        /// What it wants.
        wanted: u64,
        /// What it may have.
        limit: u64,
    },
    /// The conversation has become too long.
    #[error(
        "this conversation has {free} tokens of input left and the request needs {wanted}; begin a new one"
    )]
    SessionInput {
        /// What it wants.
        wanted: u64,
        /// What is left.
        free: u64,
    },
    /// The conversation has had too many answers.
    #[error(
        "this conversation has {free} tokens of output left and the request wants {wanted}; begin a new one"
    )]
    SessionOutput {
        /// What it wants.
        wanted: u64,
        /// What is left.
        free: u64,
    },
    /// The caller's day is spent.
    #[error("this caller has {free} left today and the request may cost {wanted}")]
    CallerDay {
        /// What it may cost.
        wanted: Money,
        /// What is left.
        free: Money,
        /// What would be left if nothing were held by calls under way.
        unspent: Money,
        /// When there will be more.
        resets: UtcTime,
    },
    /// The tier's day is spent.
    #[error("callers of the tier {tier} have {free} left today and the request may cost {wanted}")]
    TierDay {
        /// Which tier.
        tier: Tier,
        /// What it may cost.
        wanted: Money,
        /// What is left.
        free: Money,
        /// What would be left if nothing were held by calls under way.
        unspent: Money,
        /// When there will be more.
        resets: UtcTime,
    },
    /// Everybody's day is spent.
    #[error("the day's budget has {free} left and the request may cost {wanted}")]
    GlobalDay {
        /// What it may cost.
        wanted: Money,
        /// What is left.
        free: Money,
        /// What would be left if nothing were held by calls under way.
        unspent: Money,
        /// When there will be more.
        resets: UtcTime,
    },
    /// No day has room for it, however little of the day is spent.
    #[error("the request may cost {wanted}, and a whole day has {most}")]
    MoreThanADay {
        /// What it may cost.
        wanted: Money,
        /// What the narrowest of the day's limits allows when nothing is spent.
        most: Money,
    },
}

/// The money of a day that a request does not fit into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DayShortage {
    /// What can be reserved now.
    pub free: Money,
    /// What could be if nothing were held by calls under way: a request that fits this may be retried when they have
    /// settled, any other can only be made smaller.
    pub unspent: Money,
    /// When there will be more.
    pub resets: UtcTime,
}

impl BudgetRefusal {
    /// What is left of the day, if a day is what the request does not fit into.
    #[must_use]
    pub const fn shortage(&self) -> Option<DayShortage> {
        match *self {
            Self::CallerDay { free, unspent, resets, .. }
            | Self::TierDay { free, unspent, resets, .. }
            | Self::GlobalDay { free, unspent, resets, .. } => Some(DayShortage { free, unspent, resets }),
            _ => None,
        }
    }
}

/// One caller has spent more of the day's money than one caller should. Told once a day for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceAlarm {
    /// Who.
    pub caller: u64,
    /// What the caller has spent on that day.
    pub spent: Money,
    /// What all may spend on it.
    pub cap: Money,
}

/// What an entry did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an alarm is told once"]
pub enum ApplyDecision {
    /// The books have changed.
    Applied,
    /// They have changed, and one caller now stands out.
    SingleSource(SourceAlarm),
    /// Nothing has: what it says was known, or is of a reservation or lease that never was or is forgotten.
    Known,
}
