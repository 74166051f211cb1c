//! Ledger entries: every change of the ledger as a value that a journal can store.
//!
//! The state of a ledger is the sum of its entries. Writing each entry to a journal before acting on it makes the ledger
//! recoverable after a crash. Applying an entry twice has no effect.

use super::lease_id::LeaseId;
use super::window::{BudgetName, BudgetWindows, WindowCaps};
use crate::history::TokenLimits;
use crate::money::{Money, Usage};
use crate::time::{Timestamp, UtcTime};
use crate::vocabulary::Tier;

/// Identifies a reservation, unique within one ledger. Numbers count up and never reach the upper half of the range; an
/// entry with such a number is corrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReservationId(pub u64);

/// The amounts that a request reserves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservationRequest {
    /// The caller's number.
    pub caller: u64,
    /// The caller's tier, whose daily budget is charged.
    pub tier: Tier,
    /// The session whose token limits apply, if any.
    pub session: Option<u64>,
    /// Limits on the size of this request.
    pub limits: TokenLimits,
    /// Estimated input tokens.
    pub input: u64,
    /// Output tokens at which the response is cut off.
    pub output: u64,
    /// Maximum cost.
    pub max_cost: Money,
    /// When the call has certainly ended; the reservation expires then.
    pub expires: Timestamp,
    /// The budgets by calendar window that apply.
    pub windows: WindowCaps,
}

/// A hold on every budget of a request, taken before the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetReservation {
    /// Unique number in its ledger.
    pub id: ReservationId,
    /// The day that pays, in days since 1970, whenever the reservation is settled.
    pub day: u64,
    /// The caller's number.
    pub caller: u64,
    /// The tier that pays.
    pub tier: Tier,
    /// Generation of the lease that pays; 0 without leases.
    pub generation: u64,
    /// The session that holds the tokens, if any.
    pub session: Option<u64>,
    /// Input tokens held.
    pub input: u64,
    /// Output tokens held.
    pub output: u64,
    /// Maximum cost, which is the amount held.
    pub max_cost: Money,
    /// When it expires and is charged at its maximum cost.
    pub expires: Timestamp,
    /// The windows of budgets that it is charged to.
    pub windows: BudgetWindows,
}

/// One change of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetEntry {
    /// A reservation was taken before a call.
    Reserved(BudgetReservation),
    /// A call ended with this usage and cost.
    Posted {
        /// The reservation that is settled.
        id: ReservationId,
        /// Usage reported by the vendor.
        usage: Usage,
        /// Cost of that usage.
        cost: Money,
    },
    /// No call was made or it cost nothing: the hold is released.
    Voided(ReservationId),
    /// The outcome is unknown: the maximum cost is charged until the actual cost is known.
    Expired(ReservationId),
    /// An operator corrected a posted amount.
    Corrected {
        /// Number of the correction. Corrections share the sequence of reservations, so that replaying one twice has
        /// no effect.
        id: ReservationId,
        /// The amount that replaces another.
        correction: Correction,
    },
    /// Totals of a lease that the authority has granted to this node.
    Leased {
        /// The lease that was granted or renewed.
        lease: LeaseId,
        /// Total granted.
        granted: Money,
        /// Total given back, as far as it was reported to the authority.
        returned: Money,
    },
    /// This node gives back part of a lease.
    Returned {
        /// The lease to give back from.
        lease: LeaseId,
        /// Total given back, including this return.
        total: Money,
    },
}

/// An operator's correction: the actual cost replaces an amount that was posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Correction {
    /// Day of the posting, in days since 1970.
    pub day: u64,
    /// The caller whose call was posted.
    pub caller: u64,
    /// The tier that paid.
    pub tier: Tier,
    /// The amount that was posted.
    pub charged: Money,
    /// The actual cost.
    pub cost: Money,
}

/// Why a posting cannot be corrected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CorrectionRefusal {
    /// The caller or its tier has posted less than `charged` for calls that ended on that day.
    #[error("{charged} was not posted on that day: the caller has {caller} posted and the tier {tier}")]
    NotPosted {
        /// The amount that the correction claims was posted.
        charged: Money,
        /// What the caller has posted on that day for ended calls.
        caller: Money,
        /// What the tier has posted on that day for ended calls.
        tier: Money,
    },
    /// The ledger spends leases: their costs have already been reported to the authority.
    #[error("this node spends leases: correct the amount in the ledger that grants them")]
    OnLeases,
}

/// Why a request was refused: the narrowest limit that it does not fit. Among the daily limits it is the one with the
/// smallest unspent amount: a larger one may be freed as holds are released, but that would not help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BudgetRefusal {
    /// The input is larger than one request may have.
    #[error("request too large: about {wanted} input tokens, at most {limit} allowed")]
    RequestInput {
        /// Estimated input tokens of the request.
        wanted: u64,
        /// Maximum input tokens.
        limit: u64,
    },
    /// The requested output is larger than one request may have.
    #[error("output limit too high: {wanted} output tokens requested, at most {limit} allowed")]
    RequestOutput {
        /// Requested output tokens.
        wanted: u64,
        /// Maximum output tokens.
        limit: u64,
    },
    /// The session's input token limit is exhausted.
    #[error(
        "session token limit reached: {available} input tokens left, the request needs {wanted}; start a new session"
    )]
    SessionInput {
        /// Input tokens that the request needs.
        wanted: u64,
        /// Input tokens that the session has left.
        available: u64,
    },
    /// The session's output token limit is exhausted.
    #[error(
        "session token limit reached: {available} output tokens left, the request asks for {wanted}; start a new session"
    )]
    SessionOutput {
        /// Output tokens that the request would reserve.
        wanted: u64,
        /// Output tokens that the session has left.
        available: u64,
    },
    /// The caller's daily budget is exhausted.
    #[error("daily budget of the caller exhausted: {available} left, the request may cost {wanted}")]
    CallerDay {
        /// Maximum cost of the request.
        wanted: Money,
        /// What the caller can still reserve.
        available: Money,
        /// What it could reserve once all holds are released.
        unspent: Money,
        /// When the daily budget resets.
        resets: UtcTime,
    },
    /// The tier's daily budget is exhausted.
    #[error("daily budget of tier {tier} exhausted: {available} left, the request may cost {wanted}")]
    TierDay {
        /// The tier whose budget refused the request.
        tier: Tier,
        /// Maximum cost of the request.
        wanted: Money,
        /// What the tier can still reserve.
        available: Money,
        /// What it could reserve once all holds are released.
        unspent: Money,
        /// When the daily budget resets.
        resets: UtcTime,
    },
    /// The global daily budget is exhausted.
    #[error("global daily budget exhausted: {available} left, the request may cost {wanted}")]
    GlobalDay {
        /// Maximum cost of the request.
        wanted: Money,
        /// What can still be reserved.
        available: Money,
        /// What could be reserved once all holds are released.
        unspent: Money,
        /// When the daily budget resets.
        resets: UtcTime,
    },
    /// The budget of a calendar window is exhausted.
    #[error("{} budget of the {} exhausted: {available} left, the request may cost {wanted}", .name.period, .name.owner.name())]
    Window {
        /// The budget that refused the request.
        name: BudgetName,
        /// Its cap.
        cap: Money,
        /// Maximum cost of the request.
        wanted: Money,
        /// What can still be reserved in this window.
        available: Money,
        /// What could be reserved once all holds are released.
        unspent: Money,
        /// When the next window begins.
        resets: UtcTime,
    },
    /// The request exceeds a whole day's budget, even with nothing spent.
    #[error("the request may cost {wanted}, more than a whole daily budget ({max})")]
    ExceedsDailyBudget {
        /// Maximum cost of the request.
        wanted: Money,
        /// The smallest of the daily caps that apply.
        max: Money,
    },
}

/// The remainder of the budget that refused a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DayShortage {
    /// What can be reserved now.
    pub available: Money,
    /// What could be reserved once all holds are released. A request that fits this may be retried after they settle;
    /// any other must be made smaller.
    pub unspent: Money,
    /// When the budget resets.
    pub resets: UtcTime,
    /// The budget, and its cap, if it is one by calendar window and not a daily budget.
    pub window: Option<(BudgetName, Money)>,
}

impl BudgetRefusal {
    /// The remainder of the budget, if a budget of money refused the request.
    #[must_use]
    pub const fn shortage(&self) -> Option<DayShortage> {
        match *self {
            Self::CallerDay { available, unspent, resets, .. }
            | Self::TierDay { available, unspent, resets, .. }
            | Self::GlobalDay { available, unspent, resets, .. } => {
                Some(DayShortage { available, unspent, resets, window: None })
            }
            Self::Window { name, cap, available, unspent, resets, .. } => {
                Some(DayShortage { available, unspent, resets, window: Some((name, cap)) })
            }
            _ => None,
        }
    }
}

/// One caller's share of the day's cap exceeds the single-source threshold. Raised once a day per caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SingleSourceAlarm {
    /// The caller that raised the alarm.
    pub caller: u64,
    /// What the caller has posted on that day.
    pub spent: Money,
    /// The global cap of that day.
    pub cap: Money,
}

/// Effect of applying an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an alarm is reported once"]
pub enum ApplyDecision {
    /// The ledger changed.
    Applied,
    /// The ledger changed and the caller crossed the single-source threshold.
    SingleSource(SingleSourceAlarm),
    /// Nothing changed: the entry is a duplicate, or its reservation or lease is unknown or evicted.
    Unchanged,
}
