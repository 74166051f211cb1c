//! Where nodes tell each other how they stand, and share out what only some may do.

use crate::StoreError;
use seawall_core::breaker::{NodeId, ProbeLease};
use seawall_core::time::Now;
use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

/// How one node stands. What the parts mean is the nodes' business; the board only carries them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeView {
    /// Later views of a node have a higher number; an older one changes nothing.
    pub sequence: u64,
    /// By topic.
    pub parts: BTreeMap<Box<str>, Box<[u8]>>,
}

/// Every node that was heard of lately. Their number is the size of the fleet.
pub type Fleet = BTreeMap<NodeId, NodeView>;

/// The board that all nodes read.
pub trait Board: Send + Sync {
    /// Tells how this node stands, and that it lives: for so long. An older view than the one on the board changes
    /// nothing, not even how long the node lives. A node that has not lived, or has left, may begin with any number.
    fn publish(
        &self,
        node: NodeId,
        view: &NodeView,
        lives: Duration,
        now: Now,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Takes a node off, because it is leaving.
    fn leave(&self, node: NodeId, now: Now) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Every node that lives.
    fn read(&self, now: Now) -> impl Future<Output = Result<Fleet, StoreError>> + Send;
}

/// A node that would probe a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeAsk<'a> {
    /// Which target.
    pub target: &'a str,
    /// Episode, stage, and how many probes it would send.
    pub wants: ProbeLease,
    /// How many the whole fleet may send in this stage.
    pub stage_size: u32,
    /// Who asks.
    pub node: NodeId,
    /// For how long it keeps them, unless it gives them back.
    pub lasts: Duration,
}

/// The probes of the fleet, shared out.
pub trait Probes: Send + Sync {
    /// As many as are left, and no more than asked for; none if others have them. Asking again replaces what this node had
    /// of the stage. An earlier episode or stage than the latest that was asked for gets none.
    fn lease(
        &self,
        ask: &ProbeAsk<'_>,
        now: Now,
    ) -> impl Future<Output = Result<ProbeLease, StoreError>> + Send;

    /// This node sends no more of these. Of another episode or stage than the latest it changes nothing.
    fn give_back(
        &self,
        target: &str,
        lease: ProbeLease,
        node: NodeId,
        now: Now,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;
}
