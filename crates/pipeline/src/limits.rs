//! Limits and names of requests, kept in this process or in a store that a fleet shares.

use seawall_core::quota::{GroupId, LimitChange, LimitId, LimitView, QuotaGroup, Scope};
use seawall_core::setting::SettingError;
use seawall_core::time::Now;
use seawall_store::{AdmitDecision, CountMark, MemoryQuotas, MemoryReceipt, QuotaAsk, Spent};
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// What was taken in a shared store, to be settled once.
pub trait SharedTaking: Send {
    /// Puts the truth in its place. Must not wait: it is carried to the store by others.
    fn settle(self: Box<Self>, spent: Spent, now: Now);
}

/// A decision of a shared store that is under way.
pub type Deciding<'a> = Pin<Box<dyn Future<Output = Decided> + Send + 'a>>;
/// A decision of a shared store. A store that is away has decided by this node's share.
pub type Decided = AdmitDecision<Box<dyn SharedTaking>>;

/// Limits in a store that a fleet shares.
pub trait SharedLimits: Send + Sync {
    /// Takes everything or nothing.
    fn reserve<'a>(&'a self, ask: QuotaAsk<'a>, now: Now) -> Deciding<'a>;

    /// What is left of every limit of these scopes.
    fn view<'a>(
        &'a self,
        home: u64,
        scopes: &'a [Scope],
        now: Now,
    ) -> Pin<Box<dyn Future<Output = Vec<LimitView>> + Send + 'a>>;

    /// What a limit is called.
    fn name(&self, limit: LimitId) -> Option<Box<str>>;

    /// The group of this name.
    fn group(&self, name: &str) -> Option<GroupId>;

    /// Other limits from now on.
    fn change(&self, groups: Vec<QuotaGroup>, now: Now) -> Result<(), SettingError>;
}

/// Where limits are kept.
pub enum Limits {
    /// In this process.
    Local(Box<MemoryQuotas>),
    /// In a store that a fleet shares.
    Shared(Box<dyn SharedLimits>),
}

/// What a request has taken.
pub(crate) struct Taking {
    what: Taken,
    /// Whether there is something to put right at the end even if the request was made: a request stays one request, but
    /// tokens, money and names are known only then.
    is_settled: bool,
}

enum Taken {
    Local(Box<MemoryReceipt>),
    Shared(Box<dyn SharedTaking>),
}

impl Taking {
    /// Whether what was taken is put right at the end of a request that was made.
    pub(crate) const fn is_settled(&self) -> bool {
        self.is_settled
    }

    fn local(receipt: MemoryReceipt, is_settled: bool) -> Self {
        Self { what: Taken::Local(Box::new(receipt)), is_settled }
    }
}

impl Limits {
    /// Limits in this process. The seed spreads callers over shards.
    pub fn local(groups: Vec<QuotaGroup>, seed: u64) -> Result<Self, SettingError> {
        Ok(Self::Local(Box::new(MemoryQuotas::new(groups, seed)?)))
    }

    /// Takes everything or nothing.
    pub(crate) async fn reserve(&self, ask: QuotaAsk<'_>, now: Now) -> AdmitDecision<Taking> {
        let is_settled = ask.cost.tokens > 0 || ask.claim.is_some() || ask.money.is_some();
        match self {
            Self::Local(quotas) => match quotas.reserve_now(&ask, now) {
                Ok(decision) => decision.map(|receipt| Taking::local(receipt, is_settled)),
                // A question that these limits cannot understand is answered carefully.
                Err(_) => AdmitDecision::TooLarge { limit: NO_LIMIT, capacity: 0 },
            },
            Self::Shared(shared) => {
                let decision = shared.reserve(ask, now).await;
                decision.map(|taking| Taking { what: Taken::Shared(taking), is_settled })
            }
        }
    }

    /// What is to be written down of this, so that it outlives the process. A shared store keeps that itself.
    pub(crate) fn mark(&self, taking: &Taking, lasts: Duration, now: Now) -> Option<CountMark> {
        match (self, &taking.what) {
            (Self::Local(quotas), Taken::Local(receipt)) => Some(quotas.mark(receipt, lasts, now)),
            _ => None,
        }
    }

    /// Puts the truth about a request that was made in the place of what was taken for it.
    pub(crate) fn settle(&self, taking: Taking, spent: Spent, now: Now) {
        if taking.is_settled {
            self.correct(taking.what, spent, now);
        }
    }

    /// Gives everything back: the request was never made.
    pub(crate) fn refund(&self, taking: Taking, now: Now) {
        self.correct(taking.what, Spent::default(), now);
    }

    fn correct(&self, taken: Taken, spent: Spent, now: Now) {
        match (self, taken) {
            (Self::Local(quotas), Taken::Local(receipt)) => quotas.settle_now(*receipt, spent, now),
            (_, Taken::Shared(taking)) => taking.settle(spent, now),
            // Taken from limits that are gone.
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

    /// What a limit is called.
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

    /// Other limits from now on. What became of the counts is known of limits in this process.
    pub(crate) fn change(&self, groups: Vec<QuotaGroup>, now: Now) -> Result<Vec<LimitChange>, SettingError> {
        match self {
            Self::Local(quotas) => quotas.book().change(groups, now),
            Self::Shared(shared) => shared.change(groups, now).map(|()| Vec::new()),
        }
    }

    /// Forgets callers who have nothing left in any window: a part of them at each call.
    pub fn sweep(&self, part: usize, now: Now) {
        if let Self::Local(quotas) = self {
            quotas.book().sweep(part, now);
        }
    }
}

const NO_LIMIT: LimitId = LimitId { group: GroupId::at(u16::MAX), quota: 0 };
