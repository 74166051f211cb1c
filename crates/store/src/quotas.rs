//! Who may do how much: one decision over everything that a caller's request touches.
//!
//! Limits, the name that the caller gave the request, and the caller's money of the day are decided together: all have
//! room and all are charged, or one has not and nothing is. A refusal leaves no trace. What was taken is a receipt; it is
//! settled with the truth, once, and what is never settled stays charged.

use crate::StoreError;
use crate::claims::ClaimAsk;
use arrayvec::ArrayVec;
use seawall_core::budget::DayShortage;
use seawall_core::money::Money;
use seawall_core::quota::{Cost, LimitId, LimitView, QuotaGroup, Refusal, Scope};
use seawall_core::setting::SettingError;
use seawall_core::time::Now;
use std::future::Future;
use std::time::Duration;

/// The most limits that one decision may look at.
pub const MOST_LIMITS: usize = 16;

/// What a request asks of every limit at once.
#[derive(Clone, Debug)]
pub struct QuotaAsk<'a> {
    /// Whose request it is: the records of one home lie together, so that one step can decide over all of them. A
    /// caller's own number; for a guest the number of the address, which its cookies share.
    pub home: u64,
    /// Every group it counts in.
    pub scopes: &'a [Scope],
    /// What it takes.
    pub cost: Cost,
    /// What it takes of its caller's money of the day, where that is limited.
    pub money: Option<MoneyAsk>,
    /// The name its caller gave it, where there is one.
    pub claim: Option<ClaimAsk<'a>>,
}

/// The most that a request may cost its caller's day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoneyAsk {
    /// Whose day.
    pub caller: u64,
    /// The most it can cost.
    pub worst: Money,
    /// What the caller may spend on a day.
    pub cap: Money,
    /// Nobody can still be at work on it after this; then it is charged at its worst. A settlement that comes later
    /// puts the truth in its place as long as the day is remembered.
    pub lasts: Duration,
}

/// The answer to a request.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "what was granted is to be settled"]
pub enum AdmitDecision<R> {
    /// Everything had room and was charged.
    Granted {
        /// What was taken.
        receipt: R,
        /// The limit with the least left.
        tightest: LimitView,
    },
    /// Some limit has no room now.
    RetryAfter(Refusal),
    /// Some limit is smaller than the request itself.
    TooLarge {
        /// Which.
        limit: LimitId,
        /// Its size.
        capacity: u32,
    },
    /// The caller's day has less left than the request may cost.
    DayShort(DayShortage),
    /// A request of this name is being worked on.
    InProgress,
    /// A request of this name has been done.
    Done,
    /// A request of this name was being worked on by a process that has ended; nobody knows what became of it.
    OutcomeUnknown,
    /// Another request has this name.
    OtherRequest,
}

impl<R> AdmitDecision<R> {
    /// The same decision with another form of receipt.
    pub fn map<S>(self, receipt_of: impl FnOnce(R) -> S) -> AdmitDecision<S> {
        match self {
            Self::Granted { receipt, tightest } => {
                AdmitDecision::Granted { receipt: receipt_of(receipt), tightest }
            }
            Self::RetryAfter(refusal) => AdmitDecision::RetryAfter(refusal),
            Self::TooLarge { limit, capacity } => AdmitDecision::TooLarge { limit, capacity },
            Self::DayShort(shortage) => AdmitDecision::DayShort(shortage),
            Self::InProgress => AdmitDecision::InProgress,
            Self::Done => AdmitDecision::Done,
            Self::OutcomeUnknown => AdmitDecision::OutcomeUnknown,
            Self::OtherRequest => AdmitDecision::OtherRequest,
        }
    }
}

/// What a request has truly taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Of the limits.
    pub cost: Cost,
    /// Of the caller's money.
    pub money: Money,
    /// Whether it was answered: then it is not to be done again under its name.
    pub done: bool,
}

/// Limits, claims and callers' money of the day, decided in one step.
pub trait Quotas: Send + Sync {
    /// What was taken by one request.
    type Receipt: Send + 'static;

    /// Takes what the request asks for from everything, or from nothing. Names that are claimed are looked at first,
    /// then limits, then money.
    fn reserve(
        &self,
        ask: &QuotaAsk<'_>,
        now: Now,
    ) -> impl Future<Output = Result<AdmitDecision<Self::Receipt>, StoreError>> + Send;

    /// Corrects what was taken to what it truly was: the rest goes back to the windows it came from, what went beyond
    /// becomes debt.
    fn settle(
        &self,
        receipt: Self::Receipt,
        spent: Spent,
        now: Now,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Gives everything back: the request was never made.
    fn refund(
        &self,
        receipt: Self::Receipt,
        now: Now,
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        self.settle(receipt, Spent::default(), now)
    }

    /// What is left of every limit of these scopes. Changes nothing.
    fn view(
        &self,
        home: u64,
        scopes: &[Scope],
        now: Now,
    ) -> impl Future<Output = Result<ArrayVec<LimitView, MOST_LIMITS>, StoreError>> + Send;

    /// Other limits from now on. A limit of the same name and period keeps its counts.
    fn change(&self, groups: Vec<QuotaGroup>, now: Now) -> Result<(), SettingError>;
}
