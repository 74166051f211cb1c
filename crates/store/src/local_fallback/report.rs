//! Reports of what a node has admitted while the store was unreachable.

use crate::{Quotas, StoreFuture};
use seawall_core::breaker::NodeId;
use seawall_core::money::Money;
use seawall_core::quota::{QuotaUnits, ScopeList};
use seawall_core::time::Now;
use std::time::Duration;

/// What was admitted for the same scopes at about the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmittedUsage {
    /// Every group that it counts in.
    pub scopes: ScopeList,
    /// The units that were taken.
    pub cost: QuotaUnits,
    /// The caller and the amount taken from its daily budget, if any.
    pub money: Option<(u64, Money)>,
    /// How long ago. This is an age and not a time stamp, because the clocks of nodes differ.
    pub age: Duration,
}

/// What a node has admitted for one partition while the store was unreachable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FallbackReport {
    /// The reporting node.
    pub node: NodeId,
    /// The incarnation of the node; its sequence numbers start anew in each.
    pub incarnation: u64,
    /// Later reports of a node have a higher number.
    pub sequence: u64,
    /// The partition of the requests.
    pub partition: u64,
    /// The admissions to merge.
    pub admitted: Vec<AdmittedUsage>,
}

/// Quotas in a shared store that can become unreachable, recover, and recover empty.
pub trait SharedQuotaStore: Quotas {
    /// The store's incarnation. A different number than before means that the store has been emptied.
    fn incarnation(&self, now: Now) -> StoreFuture<'_, u64>;

    /// Merges what was admitted without the store, whether it fits the limits or not. The same report again changes
    /// nothing. A node sends its reports one after the other.
    fn merge<'a>(&'a self, report: &'a FallbackReport, now: Now) -> StoreFuture<'a, ()>;

    /// Gives back what this node leased in advance and no longer needs. Called once a second, and before the node
    /// stops.
    fn return_leases(&self, _now: Now) -> StoreFuture<'_, ()> {
        StoreFuture::ready(Ok(()))
    }
}
