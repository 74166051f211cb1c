//! The status board on which nodes publish their state, and leases for what only some nodes may do at a time.

use crate::StoreFuture;
use seawall_core::breaker::{NodeId, ProbeLease};
use seawall_core::time::Now;
use std::collections::BTreeMap;
use std::time::Duration;

/// The published state of one node. The nodes define what the parts mean; the board stores them as opaque bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeView {
    /// A later view of a node has a higher number. Publishing an older view changes nothing.
    pub sequence: u64,
    /// Opaque state by topic.
    pub parts: BTreeMap<Box<str>, Box<[u8]>>,
}

/// Every node that is currently alive. The number of entries is the size of the fleet.
pub type Fleet = BTreeMap<NodeId, NodeView>;

/// The status board that all nodes read.
pub trait Board: Send + Sync {
    /// Publishes the state of this node, and that the node is alive for the given time to live. A view older than the
    /// published one changes nothing, not even the time to live. A node that was never published, has expired or has
    /// left may start with any number.
    fn publish<'a>(
        &'a self,
        node: NodeId,
        view: &'a NodeView,
        ttl: Duration,
        now: Now,
    ) -> StoreFuture<'a, ()>;

    /// Removes a node that is shutting down.
    fn leave(&self, node: NodeId, now: Now) -> StoreFuture<'_, ()>;

    /// Returns every node that has not expired.
    fn read(&self, now: Now) -> StoreFuture<'_, Fleet>;
}

/// A request of one node to probe a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeRequest<'a> {
    /// The target to probe.
    pub target: &'a str,
    /// The episode and stage of the breaker, and the number of probes that the node requests.
    pub requested: ProbeLease,
    /// The number of probes that the whole fleet may send in this stage.
    pub stage_size: u32,
    /// The node that requests the lease.
    pub node: NodeId,
    /// The lease expires after this time, unless it is given back earlier.
    pub ttl: Duration,
}

/// Leases of half-open probes, so that the whole fleet together sends no more probes than a stage allows.
pub trait Probes: Send + Sync {
    /// Grants as many probes as are left, at most the requested number; none if other nodes hold all of them. A second
    /// request replaces what this node held of the stage. A request for an earlier episode or stage than the latest one
    /// gets none.
    fn lease<'a>(&'a self, request: &'a ProbeRequest<'a>, now: Now) -> StoreFuture<'a, ProbeLease>;

    /// Returns a lease: this node sends no more probes of it. A lease of another episode or stage than the latest
    /// changes nothing.
    fn give_back<'a>(
        &'a self,
        target: &'a str,
        lease: ProbeLease,
        node: NodeId,
        now: Now,
    ) -> StoreFuture<'a, ()>;
}
