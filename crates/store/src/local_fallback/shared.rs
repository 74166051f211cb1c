//! Quotas in a shared store, with the node's own share as the fallback.

use super::pending::{AdmissionCharge, Pending, PendingId};
use super::report::SharedQuotaStore;
use super::share::NodeShare;
use crate::memory::MemoryQuotaReservation;
use crate::quotas::{AdmissionRequest, AdmitDecision, CheckedLimits, Quotas, Settlement};
use crate::receipt::QuotaReceipt;
use crate::{StoreError, StoreFuture, lock};
use seawall_core::breaker::{Breaker, BreakerProfile, NodeId, SharedBreaker, SharedPermit};
use seawall_core::deadline::Deadline;
use seawall_core::failure::{AttemptOutcome, Failure, FailureKind};
use seawall_core::money::Money;
use seawall_core::quota::{
    GroupId, LimitChange, LimitId, LimitView, QuotaGroup, QuotaScope, QuotaUnits, ScopeList,
};
use seawall_core::runtime::{Runtime, timeout_at};
use seawall_core::setting::SettingError;
use seawall_core::time::{Now, Timestamp};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The state of the shared store, as this node sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedStoreState {
    /// The store is reachable and decides.
    Reachable,
    /// The store was emptied. Store and share must both admit, until what was admitted before no longer counts.
    Recovering,
    /// The store is unreachable and not used; the share decides.
    Unreachable,
}

/// Is notified of changes of the store's state, once per change, for logging.
pub trait StoreStateObserver: Send + Sync {
    /// The state of the store has changed.
    fn changed(&self, from: SharedStoreState, to: SharedStoreState, reason: &str);
}

/// Settings as configured; [`SharedQuotas::new`] validates them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedQuotasOptions {
    /// The id of this node.
    pub node: NodeId,
    /// The timeout of one operation on the store.
    pub operation_timeout: Duration,
    /// The number of nodes to assume before they have been counted.
    pub fleet_size: u32,
    /// Spreads callers over the shards of the local limiter.
    pub seed: u64,
}

/// Counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedQuotasStats {
    /// Changes of the store's state.
    pub changes: u64,
    /// Requests that the share alone decided.
    pub local_decisions: u64,
    /// Homes whose usage was merged into the store afterwards.
    pub merged: u64,
    /// Settlements that did not reach the store; they stay charged as reserved.
    pub lost_settlements: u64,
}

pub(super) struct FallbackState {
    pub(super) store_state: SharedStoreState,
    pub(super) recovering_until: Timestamp,
    /// The store's incarnation, once it was read.
    pub(super) store_incarnation: Option<u64>,
    /// Every group that ever existed, in order of appearance. A group keeps its index, whatever else changes.
    pub(super) groups: Vec<QuotaGroup>,
    pub(super) share: Arc<NodeShare>,
    pub(super) fleet_size: u32,
    pub(super) pending: Pending,
    /// A report that was sent and not confirmed.
    pub(super) unconfirmed: Option<super::FallbackReport>,
    pub(super) stats: SharedQuotasStats,
    pub(super) next_shard: usize,
    /// The last error of the store or of the connection to it, to explain why it is unreachable.
    pub(super) cause: Option<String>,
}

/// Quotas in a shared store; the [module](crate::local_fallback) describes what happens while it is unreachable.
pub struct SharedQuotas<S, R> {
    pub(super) store: S,
    pub(super) runtime: R,
    pub(super) options: SharedQuotasOptions,
    pub(super) incarnation: u64,
    pub(super) breaker: Mutex<SharedBreaker>,
    pub(super) state: Mutex<FallbackState>,
    pub(super) observer: Box<dyn StoreStateObserver>,
}

/// What one request has taken, from the store and from the share.
#[derive(Debug)]
struct SharedQuotaReservation {
    store: Option<QuotaReceipt>,
    share: Arc<NodeShare>,
    local: Option<MemoryQuotaReservation>,
    pending: Option<PendingId>,
    partition: u64,
    scopes: ScopeList,
    cost: QuotaUnits,
    money: Option<(u64, Money)>,
    /// Whether the share was charged beyond its room; then only money and key are still to be settled there.
    is_charged: bool,
}

impl<S: SharedQuotaStore, R: Runtime> SharedQuotas<S, R> {
    /// Quotas in `store`, with these groups.
    pub fn new(
        store: S,
        groups: Vec<QuotaGroup>,
        options: SharedQuotasOptions,
        runtime: R,
        observer: Box<dyn StoreStateObserver>,
    ) -> Result<Self, SettingError> {
        if options.operation_timeout.is_zero() {
            return Err(SettingError::new("operation_timeout", "must be longer than 0s"));
        }
        let share = Arc::new(NodeShare::new(&groups, options.fleet_size, options.seed)?);
        let state = FallbackState {
            store_state: SharedStoreState::Reachable,
            recovering_until: Timestamp::ZERO,
            store_incarnation: None,
            groups,
            share,
            fleet_size: options.fleet_size,
            pending: Pending::default(),
            unconfirmed: None,
            stats: SharedQuotasStats::default(),
            next_shard: 0,
            cause: None,
        };
        let incarnation = runtime.draw().bits();
        let breaker = Mutex::new(closed_breaker()?);
        Ok(Self { store, runtime, options, incarnation, breaker, state: Mutex::new(state), observer })
    }

    /// The shared store.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// The current state of the store.
    #[must_use]
    pub fn store_state(&self) -> SharedStoreState {
        lock(&self.state).store_state
    }

    /// Counters since the start.
    #[must_use]
    pub fn stats(&self) -> SharedQuotasStats {
        lock(&self.state).stats
    }

    /// The number of partitions whose usage still has to be merged into the store.
    #[must_use]
    pub fn pending_reports(&self) -> usize {
        let state = lock(&self.state);
        state.pending.partitions() + usize::from(state.unconfirmed.is_some())
    }

    /// Sets the number of nodes, as counted on the board. It takes effect at the next tick at which the store is
    /// reachable.
    pub fn set_fleet_size(&self, nodes: u32) {
        lock(&self.state).fleet_size = nodes.max(1);
    }

    pub(super) fn deadline(&self) -> Deadline {
        Deadline::after(self.runtime.monotonic(), self.options.operation_timeout)
    }

    /// A permit of the breaker to use the store, unless the store is unreachable.
    fn permit(&self) -> Option<SharedPermit> {
        if self.store_state() == SharedStoreState::Unreachable {
            return None;
        }
        let breaker = lock(&self.breaker).clone();
        let permit = breaker.acquire(self.runtime.monotonic(), self.deadline());
        if permit.is_err() {
            let mut state = lock(&self.state);
            if state.store_state != SharedStoreState::Unreachable {
                let cause = state.cause.take().unwrap_or_else(|| "it does not respond".to_owned());
                self.set_store_state(&mut state, SharedStoreState::Unreachable, &cause);
            }
        }
        permit.ok()
    }

    /// Runs an operation on the store and reports its outcome to the breaker. None if it failed or timed out.
    async fn call_store<T>(
        &self,
        permit: SharedPermit,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Option<T> {
        let began = self.runtime.monotonic();
        let outcome = timeout_at(&self.runtime, self.deadline(), work).await;
        let now = self.runtime.monotonic();
        let (answer, seen) = match outcome {
            Some(Ok(answer)) => {
                let seen = AttemptOutcome::Succeeded { time_to_first_content: now - began };
                (Some(answer), seen)
            }
            Some(Err(error)) => {
                lock(&self.state).cause = Some(error.to_string());
                let kind = match error {
                    StoreError::Unavailable { .. } => FailureKind::Unreachable,
                    StoreError::Failed { .. } => FailureKind::ServerFault,
                };
                (None, failed(kind))
            }
            None => (None, failed(FailureKind::TimedOut)),
        };
        permit.report(&seen, now);
        answer
    }

    /// Decides by the share alone.
    fn decide_locally(
        &self,
        request: &AdmissionRequest<'_>,
        share: Arc<NodeShare>,
        now: Now,
    ) -> Result<AdmitDecision, StoreError> {
        let decision = share.reserve(request, now)?;
        let mut state = lock(&self.state);
        state.stats.local_decisions += 1;
        let AdmitDecision::Granted { reservation: local, tightest } = decision else {
            return Ok(refused(&decision));
        };
        let mut reservation = SharedQuotaReservation::new(request, share, Some(local));
        let charge = AdmissionCharge {
            partition: request.partition,
            scopes: request.scopes,
            cost: request.units,
            money: reservation.money,
        };
        reservation.pending = state.pending.add(&charge, now.monotonic);
        Ok(AdmitDecision::Granted { reservation: QuotaReceipt::new(reservation), tightest })
    }
}

impl<S: SharedQuotaStore, R: Runtime> SharedQuotas<S, R> {
    async fn decide(&self, request: &AdmissionRequest<'_>, now: Now) -> Result<AdmitDecision, StoreError> {
        let permit = self.permit();
        let (share, is_recovering) = {
            let state = lock(&self.state);
            (Arc::clone(&state.share), state.store_state == SharedStoreState::Recovering)
        };
        let Some(permit) = permit else { return self.decide_locally(request, share, now) };
        let mut local = None;
        if is_recovering {
            match share.reserve(request, now)? {
                AdmitDecision::Granted { reservation, .. } => local = Some(reservation),
                decision => return Ok(refused(&decision)),
            }
        }
        let refund = |local: Option<MemoryQuotaReservation>| {
            if let Some(local) = local {
                share.quotas.settle_sync(local, Settlement::default(), now);
            }
        };
        let Some(decision) = self.call_store(permit, self.store.reserve(request, now)).await else {
            refund(local);
            return self.decide_locally(request, share, now);
        };
        let AdmitDecision::Granted { reservation: receipt, tightest } = decision else {
            refund(local);
            return Ok(refused(&decision));
        };
        let mut reservation = SharedQuotaReservation::new(request, share, local);
        reservation.store = Some(receipt);
        if !is_recovering {
            (reservation.local, reservation.is_charged) = reservation.share.charge(request, now)?;
        }
        Ok(AdmitDecision::Granted { reservation: QuotaReceipt::new(reservation), tightest })
    }

    async fn correct(
        &self,
        reservation: SharedQuotaReservation,
        spent: Settlement,
        now: Now,
    ) -> Result<(), StoreError> {
        let max_cost = reservation.money.map(|(_, max_cost)| max_cost).unwrap_or_default();
        if let Some(local) = reservation.local {
            let units = if reservation.is_charged { QuotaUnits::NOTHING } else { spent.units };
            reservation.share.quotas.settle_sync(local, Settlement { units, ..spent }, now);
        }
        if let Some(charge) = reservation.store {
            let settled = match self.permit() {
                Some(permit) => {
                    self.call_store(permit, self.store.settle(charge, spent, now)).await.is_some()
                }
                None => false,
            };
            if !settled {
                lock(&self.state).stats.lost_settlements += 1;
            }
        } else if let Some(id) = reservation.pending {
            let mut state = lock(&self.state);
            let reserved = (reservation.cost, max_cost);
            if !state.pending.correct(id, reserved, (spent.units, spent.cost)) {
                // The admission has been reported. Usage beyond it is reported as well; if it was less, the rest stays
                // charged.
                let cost = QuotaUnits {
                    requests: spent.units.requests.saturating_sub(reservation.cost.requests),
                    tokens: spent.units.tokens.saturating_sub(reservation.cost.tokens),
                };
                let money =
                    reservation.money.map(|(caller, _)| (caller, spent.cost.saturating_sub(max_cost)));
                if cost != QuotaUnits::NOTHING || money.is_some_and(|(_, more)| more > Money::ZERO) {
                    let charge = AdmissionCharge {
                        partition: reservation.partition,
                        scopes: &reservation.scopes,
                        cost,
                        money,
                    };
                    state.pending.add(&charge, now.monotonic);
                }
            }
        }
        Ok(())
    }
}

impl<S: SharedQuotaStore, R: Runtime> Quotas for SharedQuotas<S, R> {
    fn reserve<'a>(&'a self, request: &'a AdmissionRequest<'a>, now: Now) -> StoreFuture<'a, AdmitDecision> {
        StoreFuture::boxed(self.decide(request, now))
    }

    fn settle(&self, receipt: QuotaReceipt, spent: Settlement, now: Now) -> StoreFuture<'_, ()> {
        match receipt.into_content("shared") {
            Ok(reservation) => StoreFuture::boxed(self.correct(reservation, spent, now)),
            Err(error) => StoreFuture::ready(Err(error)),
        }
    }

    fn view<'a>(
        &'a self,
        partition: u64,
        scopes: &'a [QuotaScope],
        now: Now,
    ) -> StoreFuture<'a, Vec<LimitView>> {
        StoreFuture::boxed(async move {
            if let Some(permit) = self.permit()
                && let Some(views) = self.call_store(permit, self.store.view(partition, scopes, now)).await
            {
                return Ok(views);
            }
            let share = Arc::clone(&lock(&self.state).share);
            share.quotas.view(partition, scopes, now).await
        })
    }

    fn check_limits(&self, groups: Vec<QuotaGroup>) -> Result<CheckedLimits, SettingError> {
        let (mut changed, share) = {
            let state = lock(&self.state);
            (state.groups.clone(), Arc::clone(&state.share))
        };
        for group in groups {
            match changed.iter_mut().find(|known| known.name() == group.name()) {
                Some(known) => *known = group,
                None => changed.push(group),
            }
        }
        share.check_limits(&changed)?;
        self.store.check_limits(changed)
    }

    fn change_limits(&self, limits: CheckedLimits, now: Now) -> Vec<LimitChange> {
        let mut state = lock(&self.state);
        let changes = self.store.change_limits(limits.clone(), now);
        state.groups = limits.into_groups();
        state.share.change_limits(&state.groups, now);
        changes
    }

    fn group(&self, name: &str) -> Option<GroupId> {
        let index = lock(&self.state).groups.iter().position(|group| group.name() == name)?;
        u16::try_from(index).ok().map(GroupId::from_index)
    }

    fn limit_name(&self, limit: LimitId) -> Option<Box<str>> {
        let state = lock(&self.state);
        let group = state.groups.get(usize::from(limit.group.index()))?;
        group.quotas().get(limit.quota).map(|quota| quota.name().into())
    }
}

impl SharedQuotaReservation {
    fn new(
        request: &AdmissionRequest<'_>,
        share: Arc<NodeShare>,
        local: Option<MemoryQuotaReservation>,
    ) -> Self {
        Self {
            store: None,
            share,
            local,
            pending: None,
            partition: request.partition,
            scopes: request.scopes.into(),
            cost: request.units,
            money: request.money.map(|money| (money.caller, money.max_cost)),
            is_charged: false,
        }
    }
}

pub(super) fn closed_breaker() -> Result<SharedBreaker, SettingError> {
    Ok(SharedBreaker::new(Breaker::new(BreakerProfile::Redis.options().check()?)))
}

fn failed(kind: FailureKind) -> AttemptOutcome {
    AttemptOutcome::Failed(Failure::of(kind))
}

/// Converts a decision that grants nothing. A grant has a reservation and is not passed in.
fn refused<A, B>(decision: &AdmitDecision<A>) -> AdmitDecision<B> {
    match *decision {
        AdmitDecision::RateLimited(refusal) => AdmitDecision::RateLimited(refusal),
        AdmitDecision::TooLarge { limit, capacity } => AdmitDecision::TooLarge { limit, capacity },
        AdmitDecision::InsufficientBudget(shortage) => AdmitDecision::InsufficientBudget(shortage),
        AdmitDecision::InProgress | AdmitDecision::Granted { .. } => AdmitDecision::InProgress,
        AdmitDecision::Completed => AdmitDecision::Completed,
        AdmitDecision::OutcomeUnknown => AdmitDecision::OutcomeUnknown,
        AdmitDecision::KeyReused => AdmitDecision::KeyReused,
    }
}
