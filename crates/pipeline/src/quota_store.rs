//! Quotas and idempotency keys, kept in this process or in a store shared by a fleet.

use crate::reply::Rejection;
use seawall_core::quota::{GroupId, LimitChange, LimitId, LimitView, QuotaGroup, QuotaScope};
use seawall_core::setting::SettingError;
use seawall_core::time::Now;
use seawall_store::{
    AdmissionRecord, AdmissionRequest, AdmitDecision, MemoryQuotaReservation, MemoryQuotas, Settlement,
};
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// A reservation in a shared store, which is settled once.
pub trait SharedReservation: Send {
    /// Replaces the reserved amounts with the actual ones. Must not block: the update reaches the store in the
    /// background.
    fn settle(self: Box<Self>, spent: Settlement, now: Now);
}

/// A pending decision of a shared store.
pub type PendingDecision<'a> = Pin<Box<dyn Future<Output = SharedDecision> + Send + 'a>>;
/// A decision of a shared store. While the store is unavailable, it is made against this node's share of the limits.
pub type SharedDecision = AdmitDecision<Box<dyn SharedReservation>>;

/// Quotas in a store shared by a fleet.
pub trait FleetQuotas: Send + Sync {
    /// Reserves from every limit, or from none.
    fn reserve<'a>(&'a self, request: AdmissionRequest<'a>, now: Now) -> PendingDecision<'a>;

    /// What remains of every limit in these scopes.
    fn view<'a>(
        &'a self,
        partition: u64,
        scopes: &'a [QuotaScope],
        now: Now,
    ) -> Pin<Box<dyn Future<Output = Vec<LimitView>> + Send + 'a>>;

    /// The name of a limit.
    fn name(&self, limit: LimitId) -> Option<Box<str>>;

    /// The group with this name.
    fn group(&self, name: &str) -> Option<GroupId>;

    /// Replaces the limits.
    fn change_limits(&self, groups: Vec<QuotaGroup>, now: Now) -> Result<(), SettingError>;
}

/// The quota store of the pipeline.
pub enum QuotaStore {
    /// Quotas in this process.
    Local(Box<MemoryQuotas>),
    /// Quotas in a store shared by a fleet.
    Shared(Box<dyn FleetQuotas>),
}

/// A request's reservation.
pub(crate) struct AdmissionReservation {
    backend: ReservationBackend,
    /// Whether the reservation must be settled even if the request was executed. A plain request costs one request
    /// either way; tokens, money and idempotency keys are known only at the end.
    needs_settlement: bool,
}

enum ReservationBackend {
    Local(Box<MemoryQuotaReservation>),
    Shared(Box<dyn SharedReservation>),
}

impl AdmissionReservation {
    /// Whether the reservation of an executed request is settled at its end.
    pub(crate) const fn needs_settlement(&self) -> bool {
        self.needs_settlement
    }

    fn local(reservation: MemoryQuotaReservation, needs_settlement: bool) -> Self {
        Self { backend: ReservationBackend::Local(Box::new(reservation)), needs_settlement }
    }
}

impl QuotaStore {
    /// Quotas in this process. The seed distributes callers over shards.
    pub fn local(groups: Vec<QuotaGroup>, seed: u64) -> Result<Self, SettingError> {
        Ok(Self::Local(Box::new(MemoryQuotas::new(groups, seed)?)))
    }

    /// Reserves from every limit, or from none. Fails if the request names a limit that does not exist.
    pub(crate) async fn reserve(
        &self,
        request: AdmissionRequest<'_>,
        now: Now,
    ) -> Result<AdmitDecision<AdmissionReservation>, Rejection> {
        let needs_settlement = request.units.tokens > 0 || request.claim.is_some() || request.money.is_some();
        match self {
            Self::Local(quotas) => match quotas.reserve_sync(&request, now) {
                Ok(decision) => {
                    Ok(decision.map(|reservation| AdmissionReservation::local(reservation, needs_settlement)))
                }
                // Fail closed: the request counts against a limit that does not exist, which is a bug.
                Err(_) => Err(Rejection::Internal),
            },
            Self::Shared(shared) => {
                let decision = shared.reserve(request, now).await;
                Ok(decision.map(|reservation| AdmissionReservation {
                    backend: ReservationBackend::Shared(reservation),
                    needs_settlement,
                }))
            }
        }
    }

    /// The journal entry that lets the reservation survive a restart. A shared store persists it itself.
    pub(crate) fn admission_record(
        &self,
        reservation: &AdmissionReservation,
        timeout: Duration,
        now: Now,
    ) -> Option<AdmissionRecord> {
        match (self, &reservation.backend) {
            (Self::Local(quotas), ReservationBackend::Local(reservation)) => {
                Some(quotas.admission_record(reservation, timeout, now))
            }
            _ => None,
        }
    }

    /// Replaces the reservation of an executed request with its actual usage.
    pub(crate) fn settle(&self, reservation: AdmissionReservation, spent: Settlement, now: Now) {
        if reservation.needs_settlement {
            self.correct(reservation.backend, spent, now);
        }
    }

    /// Returns the whole reservation: the request was never executed.
    pub(crate) fn refund(&self, reservation: AdmissionReservation, now: Now) {
        self.correct(reservation.backend, Settlement::default(), now);
    }

    fn correct(&self, backend: ReservationBackend, spent: Settlement, now: Now) {
        match (self, backend) {
            (Self::Local(quotas), ReservationBackend::Local(reservation)) => {
                quotas.settle_sync(*reservation, spent, now);
            }
            (_, ReservationBackend::Shared(reservation)) => reservation.settle(spent, now),
            // The limits that it was reserved from no longer exist.
            (Self::Shared(_), ReservationBackend::Local(_)) => {}
        }
    }

    pub(crate) async fn view(&self, partition: u64, scopes: &[QuotaScope], now: Now) -> Vec<LimitView> {
        match self {
            Self::Local(quotas) => {
                quotas.limiter().view(scopes, now).map(|views| views.to_vec()).unwrap_or_default()
            }
            Self::Shared(shared) => shared.view(partition, scopes, now).await,
        }
    }

    /// The name of a limit.
    pub(crate) fn name(&self, limit: LimitId) -> Option<Box<str>> {
        match self {
            Self::Local(quotas) => quotas.limiter().quota(limit).map(|quota| quota.name().into()),
            Self::Shared(shared) => shared.name(limit),
        }
    }

    pub(crate) fn group(&self, name: &str) -> Option<GroupId> {
        match self {
            Self::Local(quotas) => quotas.limiter().group(name),
            Self::Shared(shared) => shared.group(name),
        }
    }

    /// Replaces the limits. How counts were carried over is only known for quotas in this process.
    pub(crate) fn change_limits(
        &self,
        groups: Vec<QuotaGroup>,
        now: Now,
    ) -> Result<Vec<LimitChange>, SettingError> {
        match self {
            Self::Local(quotas) => quotas.limiter().change_limits(groups, now),
            Self::Shared(shared) => shared.change_limits(groups, now).map(|()| Vec::new()),
        }
    }

    /// Evicts callers whose windows are all empty, one part of the table per call.
    pub fn sweep(&self, part: usize, now: Now) {
        if let Self::Local(quotas) = self {
            quotas.limiter().sweep(part, now);
        }
    }
}
