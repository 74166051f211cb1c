//! Admission: one decision over every limit that a caller's request touches.
//!
//! Rate limits, the request's idempotency key and the caller's daily budget are decided together: either all have room
//! and all are charged, or nothing is. A refusal leaves no trace. A grant returns a receipt, which is settled once with
//! the actual usage. A grant that is never settled stays charged in full.

use crate::claims::ClaimRequest;
use crate::future::StoreFuture;
use crate::node_ledger::AdmissionRecord;
use crate::receipt::QuotaReceipt;
use seawall_core::budget::DayShortage;
use seawall_core::money::Money;
use seawall_core::quota::{
    GroupId, LimitChange, LimitId, LimitView, QuotaGroup, QuotaRefusal, QuotaScope, QuotaUnits,
};
use seawall_core::setting::SettingError;
use seawall_core::time::Now;
use std::time::Duration;

/// The admission request over all limits at once.
#[derive(Clone, Debug)]
pub struct AdmissionRequest<'a> {
    /// The partition of the state: all records of one partition are stored together, so that one atomic step can decide over
    /// them. It is the caller's own number; for a guest it is the number of the network, which all its cookies share.
    pub partition: u64,
    /// Every quota group that the request counts in.
    pub scopes: &'a [QuotaScope],
    /// The units that the request takes.
    pub units: QuotaUnits,
    /// What the request may take of its caller's daily budget, where that is limited.
    pub money: Option<CallerBudgetRequest>,
    /// The idempotency key, where the caller sent one.
    pub claim: Option<ClaimRequest<'a>>,
}

/// The most that a request may take of its caller's daily budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallerBudgetRequest {
    /// The caller that pays.
    pub caller: u64,
    /// The highest possible cost of the request.
    pub max_cost: Money,
    /// The caller's daily cap.
    pub cap: Money,
    /// The hold expires after this time, because no worker can still be processing the request; it is then charged at
    /// its maximum cost. A later settlement still replaces that with the actual cost, as long as the day is
    /// remembered.
    pub timeout: Duration,
}

/// The outcome of an admission request.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a grant must be settled"]
pub enum AdmitDecision<R = QuotaReceipt> {
    /// Every limit had room and was charged.
    Granted {
        /// What was taken, to be settled later.
        reservation: R,
        /// The limit with the least remaining.
        tightest: LimitView,
    },
    /// A limit has no room now.
    RateLimited(QuotaRefusal),
    /// The request is larger than the whole capacity of a limit.
    TooLarge {
        /// The limit that refused the request.
        limit: LimitId,
        /// The capacity of that limit.
        capacity: u32,
    },
    /// The caller's daily budget does not cover the maximum cost of the request: it is spent, held by calls in progress,
    /// or smaller than that cost.
    InsufficientBudget(DayShortage),
    /// A request with this idempotency key is being processed.
    InProgress,
    /// A request with this idempotency key has been processed.
    Completed,
    /// A request with this idempotency key was being processed by a process that has ended; its outcome is unknown.
    OutcomeUnknown,
    /// The idempotency key was used for a different request.
    KeyReused,
}

impl<R> AdmitDecision<R> {
    /// Converts the reservation and keeps the decision.
    pub fn map<S>(self, convert: impl FnOnce(R) -> S) -> AdmitDecision<S> {
        match self {
            Self::Granted { reservation, tightest } => {
                AdmitDecision::Granted { reservation: convert(reservation), tightest }
            }
            Self::RateLimited(refusal) => AdmitDecision::RateLimited(refusal),
            Self::TooLarge { limit, capacity } => AdmitDecision::TooLarge { limit, capacity },
            Self::InsufficientBudget(shortage) => AdmitDecision::InsufficientBudget(shortage),
            Self::InProgress => AdmitDecision::InProgress,
            Self::Completed => AdmitDecision::Completed,
            Self::OutcomeUnknown => AdmitDecision::OutcomeUnknown,
            Self::KeyReused => AdmitDecision::KeyReused,
        }
    }
}

/// The actual usage of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settlement {
    /// Units taken from the limits.
    pub units: QuotaUnits,
    /// The cost, taken from the caller's daily budget.
    pub cost: Money,
    /// Whether the request was answered. If so, it must not be processed again under its idempotency key.
    pub answered: bool,
}

/// Where the counts of a group are stored in a store that a fleet shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// In the caller's partition: one atomic step decides over all of them.
    Partition,
    /// In one fleet-wide record. Nodes lease chunks of it in advance.
    Fleet,
}

/// Limits that a store has checked and can change to.
#[derive(Clone, Debug)]
pub struct CheckedLimits(Vec<QuotaGroup>);

impl CheckedLimits {
    pub(crate) const fn new(groups: Vec<QuotaGroup>) -> Self {
        Self(groups)
    }

    pub(crate) fn into_groups(self) -> Vec<QuotaGroup> {
        self.0
    }
}

/// Rate limits, idempotency keys and callers' daily budgets, decided in one step.
pub trait Quotas: Send + Sync {
    /// Takes what the request needs from every limit, or from none. Idempotency keys are checked first, then limits,
    /// then money.
    fn reserve<'a>(&'a self, request: &'a AdmissionRequest<'a>, now: Now) -> StoreFuture<'a, AdmitDecision>;

    /// Corrects what was taken to the actual usage: the rest is returned to the windows it came from, and usage beyond
    /// the reservation becomes debt.
    fn settle(&self, receipt: QuotaReceipt, spent: Settlement, now: Now) -> StoreFuture<'_, ()>;

    /// Returns everything, as if the request had never been made.
    fn refund(&self, receipt: QuotaReceipt, now: Now) -> StoreFuture<'_, ()> {
        self.settle(receipt, Settlement::default(), now)
    }

    /// Returns what is left of every limit of these scopes, without changing anything.
    fn view<'a>(
        &'a self,
        partition: u64,
        scopes: &'a [QuotaScope],
        now: Now,
    ) -> StoreFuture<'a, Vec<LimitView>>;

    /// Checks limits for [`change_limits`](Self::change_limits), and changes nothing. Fails on limits that this store
    /// cannot enforce.
    fn check_limits(&self, groups: Vec<QuotaGroup>) -> Result<CheckedLimits, SettingError>;

    /// Changes to limits that this store has checked since the last change, which cannot fail. A limit with the same name
    /// and period keeps its counts. Returns how the counts were carried over, where the store knows it.
    fn change_limits(&self, limits: CheckedLimits, now: Now) -> Vec<LimitChange>;

    /// The group with this name, if it has limits.
    fn group(&self, name: &str) -> Option<GroupId>;

    /// The name of a limit.
    fn limit_name(&self, limit: LimitId) -> Option<Box<str>>;

    /// The record to journal for a grant, so that it survives the process. `timeout` is the longest time for which the
    /// request can be in progress. `None` if the store persists grants itself.
    fn admission_record(
        &self,
        _receipt: &QuotaReceipt,
        _timeout: Duration,
        _now: Now,
    ) -> Option<AdmissionRecord> {
        None
    }

    /// Evicts callers that have nothing left in any window, in one part of the store per call. Has no effect where
    /// they expire by themselves.
    fn sweep(&self, _part: usize, _now: Now) {}
}
