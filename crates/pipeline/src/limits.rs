//! Quotas and idempotency keys, kept in this process or in a store shared by a fleet.

use seawall_core::quota::{GroupId, LimitChange, LimitId, LimitView, QuotaGroup, Scope};
use seawall_core::setting::SettingError;
use seawall_core::time::Now;
use seawall_store::{AdmitDecision, CountMark, MemoryQuotas, MemoryReceipt, QuotaAsk, Spent};
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// A reservation in a shared store, which is settled once.
pub trait SharedTaking: Send {
    /// Replaces the reserved amounts with the actual ones. Must not block: the update reaches the store in the
    /// background.
    fn settle(self: Box<Self>, spent: Spent, now: Now);
}

/// A pending decision of a shared store.
pub type Deciding<'a> = Pin<Box<dyn Future<Output = Decided> + Send + 'a>>;
/// A decision of a shared store. While the store is unavailable, it is made against this node's share of the limits.
pub type Decided = AdmitDecision<Box<dyn SharedTaking>>;

/// Quotas in a store shared by a fleet.
pub trait SharedLimits: Send + Sync {
    /// Reserves from every limit, or from none.
    fn reserve<'a>(&'a self, ask: QuotaAsk<'a>, now: Now) -> Deciding<'a>;

    /// What remains of every limit in these scopes.
    fn view<'a>(
        &'a self,
        home: u64,
        scopes: &'a [Scope],
        now: Now,
    ) -> Pin<Box<dyn Future<Output = Vec<LimitView>> + Send + 'a>>;

    /// The name of a limit.
    fn name(&self, limit: LimitId) -> Option<Box<str>>;

    /// The group with this name.
    fn group(&self, name: &str) -> Option<GroupId>;

    /// Replaces the limits.
    fn change(&self, groups: Vec<QuotaGroup>, now: Now) -> Result<(), SettingError>;
}

/// The quota store of the pipeline.
pub enum Limits {
    /// Quotas in this process.
    Local(Box<MemoryQuotas>),
    /// Quotas in a store shared by a fleet.
    Shared(Box<dyn SharedLimits>),
}

/// A request's reservation.
pub(crate) struct Taking {
    what: Taken,
    /// Whether the reservation must be settled even if the request was executed. A plain request costs one request
    /// either way; tokens, money and idempotency keys are known only at the end.
    is_settled: bool,
}

enum Taken {
    Local(Box<MemoryReceipt>),
    Shared(Box<dyn SharedTaking>),
}

impl Taking {
    /// Whether the reservation of an executed request is settled at its end.
    pub(crate) const fn is_settled(&self) -> bool {
        self.is_settled
    }

    fn local(receipt: MemoryReceipt, is_settled: bool) -> Self {
        Self { what: Taken::Local(Box::new(receipt)), is_settled }
    }
}

impl Limits {
    /// Quotas in this process. The seed distributes callers over shards.
    pub fn local(groups: Vec<QuotaGroup>, seed: u64) -> Result<Self, SettingError> {
        Ok(Self::Local(Box::new(MemoryQuotas::new(groups, seed)?)))
    }

    /// Reserves from every limit, or from none.
    pub(crate) async fn reserve(&self, ask: QuotaAsk<'_>, now: Now) -> AdmitDecision<Taking> {
        let is_settled = ask.cost.tokens > 0 || ask.claim.is_some() || ask.money.is_some();
        match self {
            Self::Local(quotas) => match quotas.reserve_now(&ask, now) {
                Ok(decision) => decision.map(|receipt| Taking::local(receipt, is_settled)),
                // Fail closed: a request that names unknown limits is refused.
                Err(_) => AdmitDecision::TooLarge { limit: NO_LIMIT, capacity: 0 },
            },
            Self::Shared(shared) => {
                let decision = shared.reserve(ask, now).await;
                decision.map(|taking| Taking { what: Taken::Shared(taking), is_settled })
            }
        }
    }

    /// The journal entry that lets the reservation survive a restart. A shared store persists it itself.
    pub(crate) fn mark(&self, taking: &Taking, lasts: Duration, now: Now) -> Option<CountMark> {
        match (self, &taking.what) {
            (Self::Local(quotas), Taken::Local(receipt)) => Some(quotas.mark(receipt, lasts, now)),
            _ => None,
        }
    }

    /// Replaces the reservation of an executed request with its actual usage.
    pub(crate) fn settle(&self, taking: Taking, spent: Spent, now: Now) {
        if taking.is_settled {
            self.correct(taking.what, spent, now);
        }
    }

    /// Returns the whole reservation: the request was never executed.
    pub(crate) fn refund(&self, taking: Taking, now: Now) {
        self.correct(taking.what, Spent::default(), now);
    }

    fn correct(&self, taken: Taken, spent: Spent, now: Now) {
        match (self, taken) {
            (Self::Local(quotas), Taken::Local(receipt)) => quotas.settle_now(*receipt, spent, now),
            (_, Taken::Shared(taking)) => taking.settle(spent, now),
            // The limits that it was reserved from no longer exist.
            (Self::Shared(_), Taken::Local(_)) => {}
        }
    }

    pub(crate) async fn view(&self, home: u64, scopes: &[Scope], now: Now) -> Vec<LimitView> {
        match self {
            Self::Local(quotas) => {
                quotas.book().view(scopes, now).map(|views| views.to_vec()).unwrap_or_default()
            }
            Self::Shared(shared) => shared.view(home, scopes, now).await,
        }
    }

    /// The name of a limit.
    pub(crate) fn name(&self, limit: LimitId) -> Option<Box<str>> {
        match self {
            Self::Local(quotas) => quotas.book().quota(limit).map(|quota| quota.name().into()),
            Self::Shared(shared) => shared.name(limit),
        }
    }

    pub(crate) fn group(&self, name: &str) -> Option<GroupId> {
        match self {
            Self::Local(quotas) => quotas.book().group(name),
            Self::Shared(shared) => shared.group(name),
        }
    }

    /// Replaces the limits. How counts were carried over is only known for quotas in this process.
    pub(crate) fn change(&self, groups: Vec<QuotaGroup>, now: Now) -> Result<Vec<LimitChange>, SettingError> {
        match self {
            Self::Local(quotas) => quotas.book().change(groups, now),
            Self::Shared(shared) => shared.change(groups, now).map(|()| Vec::new()),
        }
    }

    /// Evicts callers whose windows are all empty, one part of the table per call.
    pub fn sweep(&self, part: usize, now: Now) {
        if let Self::Local(quotas) = self {
            quotas.book().sweep(part, now);
        }
    }
}

const NO_LIMIT: LimitId = LimitId { group: GroupId::at(u16::MAX), quota: 0 };
