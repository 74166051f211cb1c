//! Quotas: who may do how much in what time.
//!
//! A [`Quota`] is one rule: a smoothed rate, a limit over any sliding period, or a limit per calendar day or
//! month. A [`QuotaBook`] keeps what every caller has used of every rule, and takes one decision over all the
//! limits that a request touches: all of them have room and all are charged, or one has not and none is.
//!
//! **A refusal leaves no trace**, so that somebody who is refused a thousand times spends nobody's allowance,
//! not even their own. It names the limit that binds longest, what is left of it and the exact wait; "never",
//! for what is larger than the limit itself, is another answer than "not now".
//!
//! **Reserve, then settle.** What a request will cost may be known only afterwards. A [`Reservation`] takes the
//! upper bound; settling gives back what was not used, to the window it came from, and books what went beyond
//! as debt. Dropped unsettled, a reservation stays charged.
//!
//! **Limits may change** while requests go on ([`QuotaBook::change`]). What callers have used stays where it can be counted
//! the new way, and otherwise counts as used at the change: changing limits gives nobody a fresh start.
//!
//! The book does not wait, does not know what a tier is, and never reads a clock.

mod book;
mod calendar;
mod change;
mod decision;
mod groups;
mod hint;
mod index;
mod packed;
mod pool;
mod rate;
mod ring;
mod rule;
mod rules;
mod saving;
mod shard;
mod sliding;

#[cfg(test)]
#[cfg(not(loom))]
mod tests;

pub use book::{BookMemory, QuotaBook};
pub use calendar::CalendarPeriod;
pub use change::{CountsDecision, LimitChange};
pub use decision::{
    Cost, GroupId, LimitId, LimitView, QuotaDecision, QuotaKey, Refusal, Reservation, Scope, ScopeError,
};
pub use hint::{ComeBack, ComeBackRule};
pub(crate) use ring::SliceRing;
pub use rule::{Quota, QuotaGroup, QuotaKind, Unit};
pub use saving::{SavedGroup, SavedQuota, group_tag};
pub(crate) use sliding::SlidingRule;
