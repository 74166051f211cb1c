//! Quotas: rate limits per caller, per network and globally.
//!
//! A [`Quota`] is one limit: a smoothed rate (GCRA), a limit over a sliding window, or a limit per calendar day or
//! month. A [`RateLimiter`] stores what every caller has used of every limit and takes one all-or-nothing decision over
//! all the limits that apply to a request: either all have room and all are charged, or one has none and none is
//! charged.
//!
//! **A refusal changes nothing**, so a caller that is refused a thousand times uses up no quota, not even its own. The
//! refusal names the limit with the longest wait, what remains of it, and the exact wait. A request that exceeds the
//! limit itself can never be admitted and gets a decision of its own.
//!
//! **Reserve, then settle.** The cost of a request may be known only afterwards. A [`QuotaReservation`] charges the upper
//! bound; settling refunds the unused part to the window it was taken from, and charges any excess as debt. A reservation
//! that is dropped without settlement stays charged.
//!
//! **Limits can change** while requests are in flight ([`RateLimiter::change_limits`]). Usage is kept if the new limit can count
//! it, and otherwise counts as used at the time of the change: changing limits gives no caller a fresh start.
//!
//! The limiter does not wait, does not know tiers, and never reads a clock.

mod calendar;
mod change;
mod decision;
mod groups;
mod index;
mod limiter;
mod packed;
mod rate;
mod retry_after;
mod ring;
mod rule;
mod rules;
mod saving;
mod shard;
mod slab;
mod sliding;

#[cfg(test)]
#[cfg(not(loom))]
mod tests;

pub use calendar::CalendarPeriod;
pub use change::{CountsDecision, LimitChange};
pub use decision::{
    GroupId, LimitId, LimitView, MAX_SCOPES, QuotaDecision, QuotaKey, QuotaRefusal, QuotaReservation,
    QuotaScope, QuotaUnits, ScopeError, ScopeList, check_request_groups,
};
pub use limiter::{RateLimiter, RateLimiterMemory};
pub use retry_after::{RetryAfter, RetryAfterPolicy};
pub(crate) use ring::SliceRing;
pub use rule::{Quota, QuotaGroup, QuotaKind, QuotaUnit};
pub use saving::{SavedGroup, SavedQuota, group_tag};
pub(crate) use sliding::SlidingRule;
