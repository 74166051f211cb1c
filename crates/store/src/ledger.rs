//! The ledger: the authority over money.
//!
//! A node spends from its leases and reports its spending to the ledger as running totals. The calls themselves are
//! posted as events; each counts once, however often it is posted. What is posted and leased together never exceeds the
//! cap that was in force when the lease was granted. All figures can be read; only an event, a lease or a
//! reconciliation changes them.

use crate::StoreFuture;
use crate::usage::{CallId, UsageEvent};
use seawall_core::budget::{
    BudgetLease, BudgetLimits, LeaseDecision, LeaseId, LeaseRecall, LeaseReport, LeaseTotals,
    ReconcileDecision,
};
use seawall_core::money::{Money, Usage};
use seawall_core::time::{Now, UtcTime};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// The outcome of posting a batch of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PostSummary {
    /// The number of events that were new.
    pub inserted: usize,
    /// The number of events that had been posted before. They changed nothing.
    pub duplicates: usize,
}

/// The number of calls, their usage and their cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The number of calls.
    pub calls: u64,
    /// The usage of these calls.
    pub usage: Usage,
    /// The cost of that usage.
    pub cost: Money,
}

impl Totals {
    /// Adds one call.
    pub fn add(&mut self, event: &UsageEvent) {
        self.join(&Self { calls: 1, usage: event.usage, cost: event.cost });
    }

    /// Adds other totals to these.
    pub fn join(&mut self, other: &Self) {
        self.calls = self.calls.saturating_add(other.calls);
        self.usage.input = self.usage.input.saturating_add(other.usage.input);
        self.usage.cache_read = self.usage.cache_read.saturating_add(other.usage.cache_read);
        self.usage.cache_write = self.usage.cache_write.saturating_add(other.usage.cache_write);
        self.usage.output = self.usage.output.saturating_add(other.usage.output);
        self.cost = self.cost.saturating_add(other.cost);
    }
}

/// The ledger of one day.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DayTotals {
    /// Totals by tier, in the order of [`Tier::ALL`](seawall_core::vocabulary::Tier::ALL).
    pub tiers: [Totals; 3],
    /// Totals by model, sorted by model name.
    pub models: Vec<(Arc<str>, Totals)>,
    /// Leased and written-off amounts, by tier.
    pub leases: [LeaseTotals; 3],
    /// The number of distinct callers.
    pub callers: u64,
}

/// What spending is broken down by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpendDimension {
    /// The caller: an API key, the subject of a token, or a guest.
    Caller,
    /// The team of the key.
    Team,
    /// The caller's tier.
    Tier,
    /// The vendor's name of the model.
    Model,
    /// The target.
    Target,
    /// The route.
    Route,
    /// A tag of the key, as `name=value`. A key with several tags is in the row of each.
    Tag,
    /// The day whose budget paid.
    Day,
}

impl SpendDimension {
    /// All dimensions.
    pub const ALL: [Self; 8] =
        [Self::Caller, Self::Team, Self::Tier, Self::Model, Self::Target, Self::Route, Self::Tag, Self::Day];
}

/// What one row of a breakdown stands for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SpendItem {
    /// A caller, by number.
    Caller(u64),
    /// A day, counted from 1970.
    Day(u64),
    /// Anything that has a name.
    Name(Arc<str>),
}

/// One row of a breakdown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpendRow {
    /// What it stands for.
    pub item: SpendItem,
    /// Its calls and their cost.
    pub totals: Totals,
}

/// What an API key has used since its first call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyUsage {
    /// All its calls.
    pub totals: Totals,
    /// When the last of them ended.
    pub last_used: Option<UtcTime>,
}

impl KeyUsage {
    /// Adds one call.
    pub fn add(&mut self, event: &UsageEvent) {
        self.totals.add(event);
        self.last_used = self.last_used.max(Some(event.at));
    }

    /// Adds what another part of the calls has used.
    pub fn join(&mut self, other: &Self) {
        self.totals.join(&other.totals);
        self.last_used = self.last_used.max(other.last_used);
    }
}

/// A node's request for a lease of money.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseRequest {
    /// The lease to raise or renew.
    pub lease: LeaseId,
    /// The total amount wanted, including what was granted before.
    pub total: Money,
    /// How long the lease lasts without renewal.
    pub term: Duration,
}

/// One page of the events in a time range, and the cursor of the next page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventPage {
    /// Events ordered by time, then by call id.
    pub events: Vec<UsageEvent>,
    /// The cursor of the next page; none on the last one.
    pub next: Option<(UtcTime, CallId)>,
}

/// The ledger that all nodes share.
pub trait Ledger: Send + Sync {
    /// Raises a lease as far as the caps allow, and renews it. An ask that does not raise the total only renews it.
    fn lease<'a>(&'a self, request: &'a LeaseRequest, now: Now) -> StoreFuture<'a, LeaseDecision>;

    /// Reports what a node has spent of its leases and what it gives back, as running totals. Returns the state of each
    /// lease.
    fn report<'a>(&'a self, reports: &'a [LeaseReport], now: Now) -> StoreFuture<'a, Vec<BudgetLease>>;

    /// Writes off the unreported rest of leases that were not renewed in time. Returns those leases.
    fn expire(&self, now: Now) -> StoreFuture<'_, Vec<BudgetLease>>;

    /// Corrects a lease that was written off, once it is known what its calls cost.
    fn reconcile(&self, lease: LeaseId, spent: Money, now: Now) -> StoreFuture<'_, ReconcileDecision>;

    /// Changes the caps. Returns the amount that has to be given back for them to hold on `day`.
    fn set_limits(&self, limits: BudgetLimits, day: u64) -> StoreFuture<'_, Vec<LeaseRecall>>;

    /// Posts calls, all or none of them. A call that was posted before changes nothing.
    fn post<'a>(&'a self, events: &'a [UsageEvent]) -> StoreFuture<'a, PostSummary>;

    /// Returns the ledger of a day.
    fn day(&self, day: u64) -> StoreFuture<'_, DayTotals>;

    /// Returns what one caller has spent on a day.
    fn caller(&self, day: u64, caller: u64) -> StoreFuture<'_, Totals>;

    /// Returns the callers that spent most on a day, highest first; of equal ones, the lower caller number first.
    fn top_spenders(&self, day: u64, limit: usize) -> StoreFuture<'_, Vec<(u64, Totals)>>;

    /// Returns what was spent on these days, by one dimension. Rows are in the order of their items. What has no value in a
    /// dimension, such as a guest's call by team, has no row.
    fn spend(&self, days: Range<u64>, by: SpendDimension) -> StoreFuture<'_, Vec<SpendRow>>;

    /// Returns what an API key has used. Other callers are not tracked beyond their days.
    fn key_usage(&self, caller: u64) -> StoreFuture<'_, KeyUsage>;

    /// Waits until everything that was handed to the ledger before can be read.
    fn flush(&self) -> StoreFuture<'_, ()>;

    /// Returns the calls that ended in this time range, in pages of at most `max`. The page begins at the cursor
    /// `from`, or at the beginning.
    fn events(
        &self,
        time: Range<UtcTime>,
        from: Option<(UtcTime, CallId)>,
        max: usize,
    ) -> StoreFuture<'_, EventPage>;
}
