//! Money and tokens, reserved before they are used.
//!
//! A request reserves the most it can cost before the first byte goes to a model, over all its limits in one decision:
//! its own size, its conversation, its caller's day, its tier's day, everybody's day. After it the truth is posted and the
//! rest is free again. So no number of requests at once can overspend, and nothing stays reserved that is not under way.
//!
//! **When it acts.** Before each attempt ([`BudgetBook::reserve`]) and at its end. A reservation ends exactly once: it is
//! posted (what the vendor says it used), voided (no call was made) or it expires (nobody knows, so it is charged at its
//! worst; if the truth comes late, it takes the place of the worst). It belongs to the day it was made on, whenever it
//! ends. What cost more than was reserved is booked as it was: the account is in debt and refuses until its day is over.
//!
//! **After a crash.** Every change is an [`Entry`], decided first and applied then. Whoever writes entries down in between
//! gets the same books back by applying them again; what was open is charged at its worst. A [`BudgetSnapshot`] stands for
//! all entries before it, so that a journal can be cut.
//!
//! **On a fleet.** One [`LeaseBook`] lends each node slices of the day. A node's own book then spends leases instead of
//! caps, and a lease that is empty or has ended is a spent budget. Only tiers and the whole day are lent. What a caller has
//! spent today, what a conversation has used and who stands out are then this node's view: a caller with one node's limit
//! on each of ten nodes has ten. A store that all nodes share decides these for the fleet; here they hold one node's harm
//! down while that store is away.
//!
//! **What it remembers.** Days and conversations are forgotten when nobody has used them for 48 hours, a few entries at each
//! call. Time is counted by the clock that never goes back: no calendar makes a spent day new.
//!
//! **How it stands.** [`SpendPace`] measures, [`CostMachine`] says normal, warning or spent, and why.
//!
//! **What it will not do.** It knows no price and no clock, makes nobody wait, and carries no debt into the next day.
//!
//! ```
//! use seawall_core::budget::{Ask, BudgetBook, BudgetOptions, BudgetRefusal, Entry};
//! use seawall_core::history::TokenLimits;
//! use seawall_core::money::{Money, Usage};
//! use seawall_core::time::{Now, Timestamp};
//! use seawall_core::vocabulary::Tier;
//!
//! let mut book = BudgetBook::new(BudgetOptions::default().check().unwrap());
//! let ask = Ask {
//!     caller: 7,
//!     tier: Tier::Standard,
//!     session: None,
//!     limits: TokenLimits::default(),
//!     input: 1_200,
//!     output: 1_024,
//!     worst: Money::from_dollars(3),
//!     expires: Timestamp::NEVER,
//! };
//! let id = book.reserve(&ask, Now::default()).unwrap();
//! assert!(matches!(book.reserve(&ask, Now::default()), Err(BudgetRefusal::CallerDay { .. })));
//! let usage = Usage { input: 1_200, output: 250, ..Usage::default() };
//! let _ = book.apply(&Entry::Posted { id, usage, cost: Money::from_nanos(7_350_000) });
//! assert_eq!(book.caller(0, 7).posted.to_string(), "$0.00735");
//! assert!(book.reserve(&ask, Now::default()).is_ok());
//! ```

mod account;
mod accounts;
mod book;
mod cost;
mod day;
mod entry;
mod lease;
mod lease_id;
mod lease_saving;
mod lease_size;
mod limits;
mod pace;
mod sessions;
mod snapshot;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;
mod uptime;

pub use account::{Account, SessionTokens};
pub use book::{BudgetBook, BudgetSource};
pub use cost::{CostCause, CostChange, CostDecision, CostMachine, CostOptions, CostReading, CostSettings};
pub use day::HeldLease;
pub use entry::{
    ApplyDecision, Ask, BudgetRefusal, Correction, CorrectionRefusal, DayShortage, Entry, Reservation,
    ReservationId, SourceAlarm,
};
pub use lease::{LeaseBook, LentBooks};
pub use lease_id::{Lease, LeaseDecision, LeaseId, LeaseReport, LeaseState, Recall, ReconcileDecision};
pub use lease_size::{LeaseSize, LeaseSizeOptions};
pub use limits::{BudgetLimits, BudgetOptions, EventBudget};
pub use pace::SpendPace;
pub use snapshot::{
    BudgetSnapshot, LeaseSnapshot, SavedCaller, SavedDay, SavedHolding, SavedLentDay, SavedSession,
    SnapshotError,
};
