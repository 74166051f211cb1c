//! Spend budgets: reserve before a call, settle after it, with a ledger that survives a crash.
//!
//! A request reserves its maximum cost before the first byte goes to a model. One all-or-nothing decision covers
//! every limit that applies: the size of the request, its session, the caller's day, the tier's day and the global
//! day. After the call the actual cost is posted and the rest of the hold is released. Therefore no number of
//! concurrent requests can overspend, and nothing stays reserved that is not in flight.
//!
//! **When it acts.** Before each attempt ([`BudgetLedger::reserve`]) and at its end. A reservation ends exactly once. It
//! is posted (with the usage that the vendor reports), voided (no call was made), or it expires (the outcome is
//! unknown, so the maximum cost is charged; if the actual cost arrives late, it replaces the maximum cost). It belongs to
//! the day on which it was made, whenever it ends. A call that cost more than its reservation is posted in full: the
//! account is then in debt and refuses until its day is over.
//!
//! **After a crash.** Every change is an [`BudgetEntry`] that is decided first and applied afterwards. A write-ahead journal
//! stores the entries in between; replaying them rebuilds the same ledger, and reservations that were still open are
//! charged at their maximum cost. A [`BudgetSnapshot`] replaces all entries before it, so that the journal can be
//! truncated.
//!
//! **On a fleet.** One [`LeaseLedger`] lends slices of the day to the nodes. A node's own ledger then spends leases
//! instead of caps, and an empty or expired lease counts as an exhausted budget. Only the tiers and the global day are
//! leased. The caller's daily spend, the session's tokens and the single-source alarm are per node: a caller that
//! reaches the limit on each of ten nodes has spent ten times that limit. A shared store enforces these limits for the
//! fleet; the local ones bound the damage per node while that store is unavailable.
//!
//! **Budgets by calendar window.** A key, a team and a tier may have a budget per hour, day, week, month and quarter
//! ([`WindowCaps`]). They are part of the same all-or-nothing decision.
//!
//! **Retention.** Days and sessions that have been idle for 48 hours are evicted, a few entries per call. Idle time is
//! measured on the monotonic clock, so that setting the wall clock cannot make a spent day new.
//!
//! **Cost state.** [`SpendPace`] measures the spend rate; [`CostMachine`] derives normal, warning or spent from it,
//! with the cause.
//!
//! **What it does not do.** It has no prices and reads no clock, queues no request, and carries no debt into the
//! next day.
//!
//! ```
//! use seawall_core::budget::{
//!     BudgetEntry, BudgetLedger, BudgetOptions, BudgetRefusal, ReservationRequest, WindowCaps,
//! };
//! use seawall_core::history::TokenLimits;
//! use seawall_core::money::{Money, Usage};
//! use seawall_core::time::{Now, Timestamp};
//! use seawall_core::vocabulary::Tier;
//!
//! let mut ledger = BudgetLedger::new(BudgetOptions::default().check().unwrap());
//! let request = ReservationRequest {
//!     caller: 7,
//!     tier: Tier::Standard,
//!     session: None,
//!     limits: TokenLimits::default(),
//!     input: 1_200,
//!     output: 1_024,
//!     max_cost: Money::from_dollars(3),
//!     expires: Timestamp::NEVER,
//!     windows: WindowCaps::default(),
//! };
//! let id = ledger.reserve(&request, Now::default()).unwrap();
//! assert!(matches!(ledger.reserve(&request, Now::default()), Err(BudgetRefusal::CallerDay { .. })));
//! let usage = Usage { input: 1_200, output: 250, ..Usage::default() };
//! let _ = ledger.apply(&BudgetEntry::Posted { id, usage, cost: Money::from_nanos(7_350_000) });
//! assert_eq!(ledger.caller(0, 7).posted.to_string(), "$0.00735");
//! assert!(ledger.reserve(&request, Now::default()).is_ok());
//! ```

mod account;
mod accounts;
mod cost;
mod day;
mod entry;
mod lease;
mod lease_id;
mod lease_size;
mod lease_snapshot;
mod ledger;
mod limits;
mod pace;
mod sessions;
mod snapshot;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;
mod uptime;
mod window;
mod windows;

pub use account::{BudgetAccount, SessionTokens};
pub use cost::{CostCause, CostChange, CostDecision, CostMachine, CostOptions, CostReading, CostSettings};
pub use day::HeldLease;
pub use entry::{
    ApplyDecision, BudgetEntry, BudgetRefusal, BudgetReservation, Correction, CorrectionRefusal, DayShortage,
    ReservationId, ReservationRequest, SingleSourceAlarm,
};
pub use lease::{LeaseLedger, LeaseTotals};
pub use lease_id::{
    BudgetLease, LeaseDecision, LeaseId, LeaseRecall, LeaseReport, LeaseState, ReconcileDecision,
};
pub use lease_size::{LeaseSize, LeaseSizeOptions};
pub use ledger::{BudgetLedger, BudgetSource};
pub use limits::{BudgetLimits, BudgetOptions, EventBudget};
pub use pace::SpendPace;
pub use snapshot::{
    BudgetSnapshot, LeaseSnapshot, SavedCaller, SavedDay, SavedHeldLease, SavedLeaseDay, SavedSession,
    SavedWindow, SavedWindows, SnapshotError,
};
pub use window::{
    BudgetName, BudgetOwner, BudgetPeriod, BudgetWindows, CalendarHour, CalendarOffset, PeriodCaps,
    WindowCaps, WindowKey,
};
