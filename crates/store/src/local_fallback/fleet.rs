//! Quotas that a fleet shares, as their upkeep sees them.

use super::report::SharedQuotaStore;
use super::shared::{SharedQuotas, SharedQuotasStats, SharedStoreState};
use crate::quotas::Quotas;
use crate::{Board, StoreFuture};
use seawall_core::runtime::Runtime;
use seawall_core::time::Now;
use std::sync::Arc;

/// Quotas that the nodes of a fleet share, with this node's share of them as the fallback.
pub trait FleetQuotas: Quotas {
    /// Checks whether the store responds, sends it what is outstanding, and gives back leases that are no longer needed.
    /// Returns whether it responded. Call it once a second, and more often after a failure.
    fn maintain(&self, now: Now) -> StoreFuture<'_, bool>;

    /// Gives everything back before the node stops.
    fn close(&self, now: Now) -> StoreFuture<'_, ()>;

    /// The current state of the store.
    fn state(&self) -> SharedStoreState;

    /// Counters since the start.
    fn counters(&self) -> SharedQuotasStats;

    /// Sets the number of nodes that share the limits.
    fn set_nodes(&self, nodes: u32);
}

/// The stores that the nodes of a fleet share.
#[derive(Clone)]
pub struct FleetStores {
    /// Rate limits, idempotency keys and callers' daily budgets.
    pub quotas: Arc<dyn FleetQuotas>,
    /// The board on which nodes publish their state.
    pub board: Arc<dyn Board>,
}

impl<S: SharedQuotaStore, R: Runtime> FleetQuotas for SharedQuotas<S, R> {
    fn maintain(&self, now: Now) -> StoreFuture<'_, bool> {
        StoreFuture::boxed(async move {
            let is_up = self.tick(now).await;
            if is_up {
                self.store.return_leases(now).await?;
            }
            Ok(is_up)
        })
    }

    fn close(&self, now: Now) -> StoreFuture<'_, ()> {
        self.store.return_leases(now)
    }

    fn state(&self) -> SharedStoreState {
        self.store_state()
    }

    fn counters(&self) -> SharedQuotasStats {
        self.stats()
    }

    fn set_nodes(&self, nodes: u32) {
        self.set_fleet_size(nodes);
    }
}
