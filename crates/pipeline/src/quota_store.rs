//! Quotas and idempotency keys, kept in this process or in a store shared by a fleet.

use crate::reply::Rejection;
use seawall_core::quota::{GroupId, LimitChange, LimitId, LimitView, QuotaGroup, QuotaScope};
use seawall_core::setting::SettingError;
use seawall_core::time::Now;
use seawall_store::{
    AdmissionRecord, AdmissionRequest, AdmitDecision, CheckedLimits, MemoryQuotas, QuotaReceipt, Quotas,
    Settlement,
};
use std::sync::Arc;
use std::time::Duration;

/// The queue of settlements that a remote store carries out in the background.
pub trait SettlementQueue: Send + Sync {
    /// Queues a settlement. Must not block.
    fn push(&self, receipt: QuotaReceipt, spent: Settlement, now: Now);
}

/// The quota store of the pipeline.
pub struct QuotaStore {
    quotas: Arc<dyn Quotas>,
    /// Without it, the store is in this process, where a settlement does not have to wait for anything.
    settlements: Option<Box<dyn SettlementQueue>>,
}

/// A request's reservation.
pub(crate) struct AdmissionReservation {
    receipt: QuotaReceipt,
    /// Whether the reservation must be settled even if the request was executed. A plain request costs one request
    /// either way; tokens, money and idempotency keys are known only at the end.
    needs_settlement: bool,
}

impl AdmissionReservation {
    /// Whether the reservation of an executed request is settled at its end.
    pub(crate) const fn needs_settlement(&self) -> bool {
        self.needs_settlement
    }
}

impl QuotaStore {
    /// New quotas in this process. The seed distributes callers over shards.
    pub fn local(groups: Vec<QuotaGroup>, seed: u64) -> Result<Self, SettingError> {
        Ok(Self::in_process(Arc::new(MemoryQuotas::new(groups, seed)?)))
    }

    /// Quotas in this process, whose operations never wait.
    #[must_use]
    pub fn in_process(quotas: Arc<dyn Quotas>) -> Self {
        Self { quotas, settlements: None }
    }

    /// Quotas in a remote store, which settles through this queue.
    #[must_use]
    pub fn remote(quotas: Arc<dyn Quotas>, settlements: Box<dyn SettlementQueue>) -> Self {
        Self { quotas, settlements: Some(settlements) }
    }

    /// Reserves from every limit, or from none. Fails if the request names a limit that does not exist.
    pub(crate) async fn reserve(
        &self,
        request: AdmissionRequest<'_>,
        now: Now,
    ) -> Result<AdmitDecision<AdmissionReservation>, Rejection> {
        let needs_settlement = request.units.tokens > 0 || request.claim.is_some() || request.money.is_some();
        match self.quotas.reserve(&request, now).await {
            Ok(decision) => Ok(decision.map(|receipt| AdmissionReservation { receipt, needs_settlement })),
            // Fail closed: a shared store that is unavailable is replaced by the local share, so the request counts against
            // a limit that does not exist, which is a bug.
            Err(_) => Err(Rejection::Internal),
        }
    }

    /// The journal entry that lets the reservation survive a restart. A shared store persists it itself.
    pub(crate) fn admission_record(
        &self,
        reservation: &AdmissionReservation,
        timeout: Duration,
        now: Now,
    ) -> Option<AdmissionRecord> {
        self.quotas.admission_record(&reservation.receipt, timeout, now)
    }

    /// Replaces the reservation of an executed request with its actual usage.
    pub(crate) fn settle(&self, reservation: AdmissionReservation, spent: Settlement, now: Now) {
        if reservation.needs_settlement {
            self.correct(reservation.receipt, spent, now);
        }
    }

    /// Returns the whole reservation: the request was never executed.
    pub(crate) fn refund(&self, reservation: AdmissionReservation, now: Now) {
        self.correct(reservation.receipt, Settlement::default(), now);
    }

    fn correct(&self, receipt: QuotaReceipt, spent: Settlement, now: Now) {
        match &self.settlements {
            Some(settlements) => settlements.push(receipt, spent, now),
            None => {
                // What cannot be settled stays charged.
                let _ = self.quotas.settle(receipt, spent, now).now_or_never();
            }
        }
    }

    pub(crate) async fn view(&self, partition: u64, scopes: &[QuotaScope], now: Now) -> Vec<LimitView> {
        self.quotas.view(partition, scopes, now).await.unwrap_or_default()
    }

    /// The name of a limit.
    pub(crate) fn name(&self, limit: LimitId) -> Option<Box<str>> {
        self.quotas.limit_name(limit)
    }

    pub(crate) fn group(&self, name: &str) -> Option<GroupId> {
        self.quotas.group(name)
    }

    /// Checks limits for a later change.
    pub(crate) fn check_limits(&self, groups: Vec<QuotaGroup>) -> Result<CheckedLimits, SettingError> {
        self.quotas.check_limits(groups)
    }

    /// Changes to limits that were checked. How counts were carried over is only known for quotas in this process.
    pub(crate) fn change_limits(&self, limits: CheckedLimits, now: Now) -> Vec<LimitChange> {
        self.quotas.change_limits(limits, now)
    }

    /// Evicts callers whose windows are all empty, one part of the table per call.
    pub fn sweep(&self, part: usize, now: Now) {
        self.quotas.sweep(part, now);
    }
}
