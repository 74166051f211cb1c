//! Quotas in a shared store, with the node's own share as the fallback.

use super::pending::{Pending, PendingId, Taken};
use super::report::SharedStore;
use super::share::Share;
use crate::memory::MemoryReceipt;
use crate::quotas::{AdmitDecision, MOST_LIMITS, QuotaAsk, Quotas, Spent};
use crate::{StoreError, lock};
use arrayvec::ArrayVec;
use seawall_core::breaker::{Breaker, BreakerProfile, NodeId, SharedBreaker, SharedPermit};
use seawall_core::deadline::Deadline;
use seawall_core::failure::{Failure, FailureKind, Outcome};
use seawall_core::handle::{Runtime, within};
use seawall_core::money::Money;
use seawall_core::quota::{Cost, LimitView, QuotaGroup, Scope};
use seawall_core::setting::SettingError;
use seawall_core::time::{Now, Timestamp};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The state of the shared store, as this node sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The store is reachable and decides.
    Here,
    /// The store was emptied. Store and share must both admit, until what was admitted before no longer counts.
    Learning,
    /// The store is unreachable and not used; the share decides.
    Away,
}

/// Is notified of changes of the store's state, once per change, for logging.
pub trait AwayObserver: Send + Sync {
    /// The state of the store has changed.
    fn changed(&self, from: Standing, to: Standing, why: &str);
}

/// Settings as configured; [`SharedQuotas::new`] validates them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwayOptions {
    /// The id of this node.
    pub node: NodeId,
    /// The timeout of one operation on the store.
    pub answer_within: Duration,
    /// The number of nodes to assume before they have been counted.
    pub fleet_size: u32,
    /// Spreads callers over the shards of the book.
    pub seed: u64,
}

/// Counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AwayCounts {
    /// Changes of the store's state.
    pub changes: u64,
    /// Requests that the share alone decided.
    pub decided_alone: u64,
    /// Homes whose usage was merged into the store afterwards.
    pub merged: u64,
    /// Settlements that did not reach the store; they stay charged as reserved.
    pub unsettled: u64,
}

pub(super) struct State {
    pub(super) standing: Standing,
    pub(super) learning_until: Timestamp,
    /// The store's incarnation, once it was read.
    pub(super) store_life: Option<u64>,
    pub(super) groups: Vec<QuotaGroup>,
    pub(super) share: Arc<Share>,
    pub(super) fleet_size: u32,
    pub(super) pending: Pending,
    /// A report that was sent and not confirmed.
    pub(super) unconfirmed: Option<super::AwayReport>,
    pub(super) counts: AwayCounts,
    pub(super) next_shard: usize,
    /// The last error of the store or of the connection to it, to explain why it is unreachable.
    pub(super) cause: Option<String>,
}

/// Quotas in a shared store; the [module](crate::away) describes what happens while it is unreachable.
pub struct SharedQuotas<S, R> {
    pub(super) store: S,
    pub(super) runtime: R,
    pub(super) options: AwayOptions,
    pub(super) life: u64,
    pub(super) breaker: Mutex<SharedBreaker>,
    pub(super) state: Mutex<State>,
    pub(super) observer: Box<dyn AwayObserver>,
}

/// What one request has taken, from the store and from the share.
#[derive(Debug)]
pub struct SharedReceipt<T> {
    store: Option<T>,
    share: Arc<Share>,
    own: Option<MemoryReceipt>,
    pending: Option<PendingId>,
    home: u64,
    scopes: ArrayVec<Scope, MOST_LIMITS>,
    cost: Cost,
    money: Option<(u64, Money)>,
    /// Whether the share was charged beyond its room; then only money and key are still to be settled there.
    is_charged: bool,
}

impl<S: SharedStore, R: Runtime> SharedQuotas<S, R> {
    /// Quotas in `store`, with these groups.
    pub fn new(
        store: S,
        groups: Vec<QuotaGroup>,
        options: AwayOptions,
        runtime: R,
        observer: Box<dyn AwayObserver>,
    ) -> Result<Self, SettingError> {
        if options.answer_within.is_zero() {
            return Err(SettingError::new("answer_within", "must be longer than 0s"));
        }
        let share = Arc::new(Share::new(&groups, options.fleet_size, options.seed)?);
        let state = State {
            standing: Standing::Here,
            learning_until: Timestamp::ZERO,
            store_life: None,
            groups,
            share,
            fleet_size: options.fleet_size,
            pending: Pending::default(),
            unconfirmed: None,
            counts: AwayCounts::default(),
            next_shard: 0,
            cause: None,
        };
        let life = runtime.draw().bits();
        let breaker = Mutex::new(closed_breaker()?);
        Ok(Self { store, runtime, options, life, breaker, state: Mutex::new(state), observer })
    }

    /// The shared store.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// The current state of the store.
    #[must_use]
    pub fn standing(&self) -> Standing {
        lock(&self.state).standing
    }

    /// Counters since the start.
    #[must_use]
    pub fn counts(&self) -> AwayCounts {
        lock(&self.state).counts
    }

    /// The number of homes whose usage still has to be merged into the store.
    #[must_use]
    pub fn waiting_to_merge(&self) -> usize {
        let state = lock(&self.state);
        state.pending.homes() + usize::from(state.unconfirmed.is_some())
    }

    /// Sets the number of nodes, as counted on the board. It takes effect at the next tick at which the store is
    /// reachable.
    pub fn set_fleet_size(&self, nodes: u32) {
        lock(&self.state).fleet_size = nodes.max(1);
    }

    pub(super) fn deadline(&self) -> Deadline {
        Deadline::after(self.runtime.monotonic(), self.options.answer_within)
    }

    /// A permit of the breaker to use the store, unless the store is unreachable.
    fn permit(&self) -> Option<SharedPermit> {
        if self.standing() == Standing::Away {
            return None;
        }
        let breaker = lock(&self.breaker).clone();
        let permit = breaker.acquire(self.runtime.monotonic(), self.deadline());
        if permit.is_err() {
            let mut state = lock(&self.state);
            if state.standing != Standing::Away {
                let cause = state.cause.take().unwrap_or_else(|| "it does not answer".to_owned());
                self.change_standing(&mut state, Standing::Away, &cause);
            }
        }
        permit.ok()
    }

    /// Runs an operation on the store and reports its outcome to the breaker. None if it failed or timed out.
    async fn ask<T>(
        &self,
        permit: SharedPermit,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Option<T> {
        let began = self.runtime.monotonic();
        let outcome = within(&self.runtime, self.deadline(), work).await;
        let now = self.runtime.monotonic();
        let (answer, seen) = match outcome {
            Some(Ok(answer)) => {
                let seen = Outcome::Succeeded { first_content_after: now - began };
                (Some(answer), seen)
            }
            Some(Err(error)) => {
                lock(&self.state).cause = Some(error.to_string());
                let kind = match error {
                    StoreError::Away { .. } => FailureKind::Unreachable,
                    StoreError::Broken { .. } => FailureKind::ServerFault,
                };
                (None, failed(kind))
            }
            None => (None, failed(FailureKind::TimedOut)),
        };
        permit.report(&seen, now);
        answer
    }

    /// Decides by the share alone.
    async fn alone(
        &self,
        ask: &QuotaAsk<'_>,
        share: Arc<Share>,
        now: Now,
    ) -> Result<AdmitDecision<SharedReceipt<S::Receipt>>, StoreError> {
        let decision = share.reserve(ask, now).await?;
        let mut state = lock(&self.state);
        state.counts.decided_alone += 1;
        let AdmitDecision::Granted { receipt: own, tightest } = decision else {
            return Ok(refused(&decision));
        };
        let mut receipt = SharedReceipt::new(ask, share, Some(own));
        let taken = Taken { home: ask.home, scopes: ask.scopes, cost: ask.cost, money: receipt.money };
        receipt.pending = state.pending.add(&taken, now.monotonic);
        Ok(AdmitDecision::Granted { receipt, tightest })
    }
}

impl<S: SharedStore, R: Runtime> Quotas for SharedQuotas<S, R> {
    type Receipt = SharedReceipt<S::Receipt>;

    async fn reserve(
        &self,
        ask: &QuotaAsk<'_>,
        now: Now,
    ) -> Result<AdmitDecision<Self::Receipt>, StoreError> {
        let permit = self.permit();
        let (share, is_learning) = {
            let state = lock(&self.state);
            (Arc::clone(&state.share), state.standing == Standing::Learning)
        };
        let Some(permit) = permit else { return self.alone(ask, share, now).await };
        let mut own = None;
        if is_learning {
            match share.reserve(ask, now).await? {
                AdmitDecision::Granted { receipt, .. } => own = Some(receipt),
                decision => return Ok(refused(&decision)),
            }
        }
        let Some(decision) = self.ask(permit, self.store.reserve(ask, now)).await else {
            if let Some(own) = own {
                share.quotas.refund(own, now).await?;
            }
            return self.alone(ask, share, now).await;
        };
        let AdmitDecision::Granted { receipt: taken, tightest } = decision else {
            if let Some(own) = own {
                share.quotas.refund(own, now).await?;
            }
            return Ok(refused(&decision));
        };
        let mut receipt = SharedReceipt::new(ask, share, own);
        receipt.store = Some(taken);
        if !is_learning {
            (receipt.own, receipt.is_charged) = receipt.share.charge(ask, now).await?;
        }
        Ok(AdmitDecision::Granted { receipt, tightest })
    }

    async fn settle(&self, receipt: Self::Receipt, spent: Spent, now: Now) -> Result<(), StoreError> {
        let worst = receipt.money.map(|(_, worst)| worst).unwrap_or_default();
        if let Some(own) = receipt.own {
            let cost = if receipt.is_charged { Cost::NOTHING } else { spent.cost };
            receipt.share.quotas.settle(own, Spent { cost, ..spent }, now).await?;
        }
        if let Some(taken) = receipt.store {
            let settled = match self.permit() {
                Some(permit) => self.ask(permit, self.store.settle(taken, spent, now)).await.is_some(),
                None => false,
            };
            if !settled {
                lock(&self.state).counts.unsettled += 1;
            }
        } else if let Some(id) = receipt.pending {
            let mut state = lock(&self.state);
            let reserved = (receipt.cost, worst);
            if !state.pending.correct(id, reserved, (spent.cost, spent.money)) {
                // The admission has been reported. Usage beyond it is reported as well; if it was less, the rest stays
                // charged.
                let cost = Cost {
                    requests: spent.cost.requests.saturating_sub(receipt.cost.requests),
                    tokens: spent.cost.tokens.saturating_sub(receipt.cost.tokens),
                };
                let money = receipt.money.map(|(caller, _)| (caller, spent.money.saturating_sub(worst)));
                if cost != Cost::NOTHING || money.is_some_and(|(_, more)| more > Money::ZERO) {
                    let taken = Taken { home: receipt.home, scopes: &receipt.scopes, cost, money };
                    state.pending.add(&taken, now.monotonic);
                }
            }
        }
        Ok(())
    }

    async fn view(
        &self,
        home: u64,
        scopes: &[Scope],
        now: Now,
    ) -> Result<ArrayVec<LimitView, MOST_LIMITS>, StoreError> {
        if let Some(permit) = self.permit()
            && let Some(views) = self.ask(permit, self.store.view(home, scopes, now)).await
        {
            return Ok(views);
        }
        let share = Arc::clone(&lock(&self.state).share);
        share.quotas.view(home, scopes, now).await
    }

    fn change(&self, groups: Vec<QuotaGroup>, now: Now) -> Result<(), SettingError> {
        let mut state = lock(&self.state);
        self.store.change(groups.clone(), now)?;
        state.share.change(&groups, now)?;
        state.groups = groups;
        Ok(())
    }
}

impl<T> SharedReceipt<T> {
    fn new(ask: &QuotaAsk<'_>, share: Arc<Share>, own: Option<MemoryReceipt>) -> Self {
        Self {
            store: None,
            share,
            own,
            pending: None,
            home: ask.home,
            scopes: ask.scopes.iter().take(MOST_LIMITS).copied().collect(),
            cost: ask.cost,
            money: ask.money.map(|money| (money.caller, money.worst)),
            is_charged: false,
        }
    }
}

pub(super) fn closed_breaker() -> Result<SharedBreaker, SettingError> {
    Ok(SharedBreaker::new(Breaker::new(BreakerProfile::Redis.options().check()?)))
}

fn failed(kind: FailureKind) -> Outcome {
    Outcome::Failed(Failure::of(kind))
}

/// Converts a decision that grants nothing. A grant has a receipt and is not passed in.
fn refused<A, B>(decision: &AdmitDecision<A>) -> AdmitDecision<B> {
    match *decision {
        AdmitDecision::RetryAfter(refusal) => AdmitDecision::RetryAfter(refusal),
        AdmitDecision::TooLarge { limit, capacity } => AdmitDecision::TooLarge { limit, capacity },
        AdmitDecision::DayShort(shortage) => AdmitDecision::DayShort(shortage),
        AdmitDecision::InProgress | AdmitDecision::Granted { .. } => AdmitDecision::InProgress,
        AdmitDecision::Done => AdmitDecision::Done,
        AdmitDecision::OutcomeUnknown => AdmitDecision::OutcomeUnknown,
        AdmitDecision::OtherRequest => AdmitDecision::OtherRequest,
    }
}
