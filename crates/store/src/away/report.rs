//! What a node tells a store that was away.

use crate::{Quotas, StoreError};
use arrayvec::ArrayVec;
use seawall_core::breaker::NodeId;
use seawall_core::money::Money;
use seawall_core::quota::{Cost, Scope};
use seawall_core::time::Now;
use std::future::Future;
use std::time::Duration;

/// The most groups that a request touches.
pub(super) const MOST_SCOPES: usize = 4;

/// What was admitted in one place at about one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// Every group it counts in.
    pub scopes: ArrayVec<Scope, MOST_SCOPES>,
    /// What it took.
    pub cost: Cost,
    /// What it took of which caller's money of the day.
    pub money: Option<(u64, Money)>,
    /// How long ago. Clocks of nodes differ; how long ago something was does not.
    pub ago: Duration,
}

/// What a node has admitted for one home while the store was away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwayReport {
    /// Which node.
    pub node: NodeId,
    /// Which life of the node: it counts its reports anew in each.
    pub life: u64,
    /// Later reports of a node have a higher number.
    pub sequence: u64,
    /// Whose requests.
    pub home: u64,
    /// What was admitted.
    pub admitted: Vec<Admitted>,
}

/// Quotas that a fleet shares, in a store that can go away, come back and come back empty.
pub trait SharedStore: Quotas {
    /// The life that the store is in. Another number than before means that it has been emptied.
    fn life(&self, now: Now) -> impl Future<Output = Result<u64, StoreError>> + Send;

    /// Books what was admitted without the store, whether it fits or not; the same report again changes nothing. A node
    /// sends its reports one after the other.
    fn merge(&self, report: &AwayReport, now: Now) -> impl Future<Output = Result<(), StoreError>> + Send;
}
