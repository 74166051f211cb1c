//! The authority over money.
//!
//! A node spends what it has leased and tells the ledger in totals what that came to; calls themselves arrive as events,
//! each once however often it is told. Posted and lent together never pass the cap that was in force when it was lent. All
//! figures can be asked for; none is ever changed but by an event, a lease or a reconciliation.

use crate::StoreError;
use crate::usage::{CallId, UsageEvent};
use seawall_core::budget::{
    BudgetLimits, Lease, LeaseDecision, LeaseId, LeaseReport, LentBooks, Recall, ReconcileDecision,
};
use seawall_core::money::{Money, Usage};
use seawall_core::time::{Now, UtcTime};
use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// What became of a batch of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Posted {
    /// Events that were new.
    pub new: usize,
    /// Events that had been told before; they changed nothing.
    pub known: usize,
}

/// Calls, what they used and what that cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// How many calls.
    pub calls: u64,
    /// What they used.
    pub usage: Usage,
    /// What that cost.
    pub cost: Money,
}

impl Totals {
    /// One more call.
    pub fn add(&mut self, event: &UsageEvent) {
        self.join(&Self { calls: 1, usage: event.usage, cost: event.cost });
    }

    /// All of these as well.
    pub fn join(&mut self, other: &Self) {
        self.calls = self.calls.saturating_add(other.calls);
        self.usage.input = self.usage.input.saturating_add(other.usage.input);
        self.usage.cache_read = self.usage.cache_read.saturating_add(other.usage.cache_read);
        self.usage.cache_write = self.usage.cache_write.saturating_add(other.usage.cache_write);
        self.usage.output = self.usage.output.saturating_add(other.usage.output);
        self.cost = self.cost.saturating_add(other.cost);
    }
}

/// The books of one day.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DayTotals {
    /// By tier, in the order of [`Tier::ALL`](seawall_core::vocabulary::Tier::ALL).
    pub tiers: [Totals; 3],
    /// By model, in the order of their names.
    pub models: Vec<(Arc<str>, Totals)>,
    /// What is lent and written off, by tier.
    pub lent: [LentBooks; 3],
    /// How many callers there were.
    pub callers: u64,
}

/// A node that wants money.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseAsk {
    /// Which lease.
    pub lease: LeaseId,
    /// What is wanted in all, what was granted before included.
    pub total: Money,
    /// For how long.
    pub lasts: Duration,
}

/// Part of the events of some time, and where the next part begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventPage {
    /// In the order of time, then of their names.
    pub events: Vec<UsageEvent>,
    /// Where to go on; none at the end.
    pub next: Option<(UtcTime, CallId)>,
}

/// The books that all nodes share.
pub trait Ledger: Send + Sync {
    /// Raises a lease as far as the caps allow, and renews it. Without raising it, this is how a lease is renewed.
    fn lease(
        &self,
        ask: &LeaseAsk,
        now: Now,
    ) -> impl Future<Output = Result<LeaseDecision, StoreError>> + Send;

    /// A node tells what it has spent of its leases and gives back, in totals. Returns how each stands.
    fn report(
        &self,
        reports: &[LeaseReport],
        now: Now,
    ) -> impl Future<Output = Result<Vec<Lease>, StoreError>> + Send;

    /// Writes off what nodes have left that did not renew in time. Returns what was written off.
    fn expire(&self, now: Now) -> impl Future<Output = Result<Vec<Lease>, StoreError>> + Send;

    /// It has been found out what the calls on a lease that was written off cost.
    fn reconcile(
        &self,
        lease: LeaseId,
        spent: Money,
        now: Now,
    ) -> impl Future<Output = Result<ReconcileDecision, StoreError>> + Send;

    /// Other caps from now on. Returns what is to come back for them to hold on `day`.
    fn set_limits(
        &self,
        limits: BudgetLimits,
        day: u64,
    ) -> impl Future<Output = Result<Vec<Recall>, StoreError>> + Send;

    /// Takes calls into the books, all or none of them; a call that is there already changes nothing.
    fn post(&self, events: &[UsageEvent]) -> impl Future<Output = Result<Posted, StoreError>> + Send;

    /// The books of a day.
    fn day(&self, day: u64) -> impl Future<Output = Result<DayTotals, StoreError>> + Send;

    /// What one caller has spent on a day.
    fn caller(&self, day: u64, caller: u64) -> impl Future<Output = Result<Totals, StoreError>> + Send;

    /// Who has spent most on a day, most first; of equal ones the lower number first.
    fn top_spenders(
        &self,
        day: u64,
        how_many: usize,
    ) -> impl Future<Output = Result<Vec<(u64, Totals)>, StoreError>> + Send;

    /// The calls that ended in this time, in pages of at most `most`. The page begins with `from`, or at the beginning.
    fn events(
        &self,
        time: Range<UtcTime>,
        from: Option<(UtcTime, CallId)>,
        most: usize,
    ) -> impl Future<Output = Result<EventPage, StoreError>> + Send;
}
