//! The status board and the fleet's probe leases in memory.

use super::expiring_map::ExpiringMap;
use crate::board::{Board, Fleet, NodeView, ProbeRequest, Probes};
use crate::{StoreFuture, lock};
use seawall_core::breaker::{NodeId, ProbeLease};
use seawall_core::time::{Now, Timestamp};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

/// A target that was not probed for this long is forgotten, and its latest stage with it.
const TARGET_TTL: Duration = Duration::from_secs(24 * 3_600);

/// A status board in the memory of one process.
#[derive(Debug)]
pub struct MemoryBoard(Mutex<ExpiringMap<NodeId, NodeView>>);

impl MemoryBoard {
    /// A board without nodes.
    #[must_use]
    pub const fn new() -> Self {
        Self(Mutex::new(ExpiringMap::new()))
    }
}

impl Default for MemoryBoard {
    fn default() -> Self {
        Self::new()
    }
}

impl Board for MemoryBoard {
    fn publish<'a>(
        &'a self,
        node: NodeId,
        view: &'a NodeView,
        ttl: Duration,
        now: Now,
    ) -> StoreFuture<'a, ()> {
        StoreFuture::run(|| {
            let mut nodes = lock(&self.0);
            nodes.evict_expired(now.monotonic);
            let is_older =
                nodes.get(&node, now.monotonic).is_some_and(|there| view.sequence < there.sequence);
            if !is_older {
                nodes.insert(node, view.clone(), now.monotonic + ttl);
            }
            Ok(())
        })
    }

    fn leave(&self, node: NodeId, now: Now) -> StoreFuture<'_, ()> {
        StoreFuture::run(|| {
            lock(&self.0).remove(&node, now.monotonic);
            Ok(())
        })
    }

    fn read(&self, now: Now) -> StoreFuture<'_, Fleet> {
        StoreFuture::run(|| {
            let nodes = lock(&self.0);
            Ok(nodes.iter(now.monotonic).map(|(node, view)| (*node, view.clone())).collect())
        })
    }
}

/// The latest stage of a target, and the probe leases of each node with their expiry.
#[derive(Debug, Default)]
struct ProbeStage {
    episode: u64,
    stage: usize,
    leases: BTreeMap<NodeId, (u32, Timestamp)>,
}

/// Probe leases in the memory of one process.
#[derive(Debug)]
pub struct MemoryProbes(Mutex<ExpiringMap<Box<str>, ProbeStage>>);

impl MemoryProbes {
    /// A store without leases.
    #[must_use]
    pub const fn new() -> Self {
        Self(Mutex::new(ExpiringMap::new()))
    }
}

impl Default for MemoryProbes {
    fn default() -> Self {
        Self::new()
    }
}

impl ProbeStage {
    fn lease(&mut self, request: &ProbeRequest<'_>, now: Timestamp) -> ProbeLease {
        let ProbeLease { episode, stage, probes: requested } = request.requested;
        if (episode, stage) < (self.episode, self.stage) {
            return ProbeLease { probes: 0, ..request.requested };
        }
        if (episode, stage) > (self.episode, self.stage) {
            *self = Self { episode, stage, leases: BTreeMap::new() };
        }
        self.leases.retain(|node, (_, until)| now < *until && *node != request.node);
        let leased = self.leases.values().fold(0_u32, |sum, (probes, _)| sum.saturating_add(*probes));
        let probes = requested.min(request.stage_size.saturating_sub(leased));
        if probes > 0 {
            self.leases.insert(request.node, (probes, now + request.ttl));
        }
        ProbeLease { probes, ..request.requested }
    }
}

impl Probes for MemoryProbes {
    fn lease<'a>(&'a self, request: &'a ProbeRequest<'a>, now: Now) -> StoreFuture<'a, ProbeLease> {
        StoreFuture::run(|| {
            let now = now.monotonic;
            let mut targets = lock(&self.0);
            targets.evict_expired(now);
            let target: Box<str> = request.target.into();
            let mut stage = targets.remove(&target, now).unwrap_or_default();
            let lease = stage.lease(request, now);
            targets.insert(target, stage, now + TARGET_TTL);
            Ok(lease)
        })
    }

    fn give_back<'a>(
        &'a self,
        target: &'a str,
        lease: ProbeLease,
        node: NodeId,
        now: Now,
    ) -> StoreFuture<'a, ()> {
        StoreFuture::run(|| {
            let mut targets = lock(&self.0);
            if let Some(stage) = targets.get_mut(&target.into(), now.monotonic)
                && (stage.episode, stage.stage) == (lease.episode, lease.stage)
            {
                stage.leases.remove(&node);
            }
            Ok(())
        })
    }
}
