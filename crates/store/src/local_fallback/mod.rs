//! Fallback for the time in which the shared store is unreachable.
//!
//! **When it acts.** On every request, around the shared store. An operation that times out or fails is decided locally
//! instead, at once. After several failures a circuit breaker opens, and the store is not used until it responds again.
//!
//! **How it decides without the store.** By a local rate limiter with this node's share of every limit, rounded up, and of
//! every caller's daily budget; never by the whole limit, unless the fleet is this one node. The limiter is also kept
//! while the store is reachable, so that it does not start empty.
//!
//! **On recovery.** What was admitted meanwhile is merged into the store before it decides again; each report counts
//! once, however often it is sent. A store that comes back empty does not decide alone for one window: the share must
//! admit, too.
//!
//! **What it does not do.** It returns no error because the store is unreachable. A settlement during the outage does
//! not lower what the store has charged: that stays charged as reserved. It waits for nothing but the store's response,
//! and for that no longer than the configured limit.

mod fleet;
mod fleet_size;
mod pending;
mod recovery;
mod report;
mod share;
mod shared;
#[cfg(test)]
mod tests;

pub use fleet::{FleetQuotas, FleetStores};
pub use fleet_size::FleetSize;
pub use report::{AdmittedUsage, FallbackReport, SharedQuotaStore};
pub use shared::{
    SharedQuotas, SharedQuotasOptions, SharedQuotasStats, SharedStoreState, StoreStateObserver,
};
