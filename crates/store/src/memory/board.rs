//! The status board and the fleet's probe leases in memory.

use super::fading::Fading;
use crate::board::{Board, Fleet, NodeView, ProbeAsk, Probes};
use crate::{StoreError, lock};
use seawall_core::breaker::{NodeId, ProbeLease};
use seawall_core::time::{Now, Timestamp};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

/// A target that was not probed for this long is forgotten, and its latest stage with it.
const TARGET_LIFE: Duration = Duration::from_secs(24 * 3_600);

/// A status board in the memory of one process.
#[derive(Debug)]
pub struct MemoryBoard(Mutex<Fading<NodeId, NodeView>>);

impl MemoryBoard {
    /// A board without nodes.
    #[must_use]
    pub const fn new() -> Self {
        Self(Mutex::new(Fading::new()))
    }
}

impl Default for MemoryBoard {
    fn default() -> Self {
        Self::new()
    }
}

impl Board for MemoryBoard {
    async fn publish(
        &self,
        node: NodeId,
        view: &NodeView,
        lives: Duration,
        now: Now,
    ) -> Result<(), StoreError> {
        let mut nodes = lock(&self.0);
        nodes.forget(now.monotonic);
        let is_older = nodes.get(&node, now.monotonic).is_some_and(|there| view.sequence < there.sequence);
        if !is_older {
            nodes.insert(node, view.clone(), now.monotonic + lives);
        }
        Ok(())
    }

    async fn leave(&self, node: NodeId, now: Now) -> Result<(), StoreError> {
        lock(&self.0).remove(&node, now.monotonic);
        Ok(())
    }

    async fn read(&self, now: Now) -> Result<Fleet, StoreError> {
        let nodes = lock(&self.0);
        Ok(nodes.iter(now.monotonic).map(|(node, view)| (*node, view.clone())).collect())
    }
}

/// The latest stage of a target, and the probe leases of each node with their expiry.
#[derive(Debug, Default)]
struct Stage {
    episode: u64,
    stage: usize,
    shares: BTreeMap<NodeId, (u32, Timestamp)>,
}

/// Probe leases in the memory of one process.
#[derive(Debug)]
pub struct MemoryProbes(Mutex<Fading<Box<str>, Stage>>);

impl MemoryProbes {
    /// A store without leases.
    #[must_use]
    pub const fn new() -> Self {
        Self(Mutex::new(Fading::new()))
    }
}

impl Default for MemoryProbes {
    fn default() -> Self {
        Self::new()
    }
}

impl Stage {
    fn lease(&mut self, ask: &ProbeAsk<'_>, now: Timestamp) -> ProbeLease {
        let ProbeLease { episode, stage, probes: wanted } = ask.wants;
        if (episode, stage) < (self.episode, self.stage) {
            return ProbeLease { probes: 0, ..ask.wants };
        }
        if (episode, stage) > (self.episode, self.stage) {
            *self = Self { episode, stage, shares: BTreeMap::new() };
        }
        self.shares.retain(|node, (_, until)| now < *until && *node != ask.node);
        let taken = self.shares.values().fold(0_u32, |sum, (probes, _)| sum.saturating_add(*probes));
        let probes = wanted.min(ask.stage_size.saturating_sub(taken));
        if probes > 0 {
            self.shares.insert(ask.node, (probes, now + ask.lasts));
        }
        ProbeLease { probes, ..ask.wants }
    }
}

impl Probes for MemoryProbes {
    async fn lease(&self, ask: &ProbeAsk<'_>, now: Now) -> Result<ProbeLease, StoreError> {
        let now = now.monotonic;
        let mut targets = lock(&self.0);
        targets.forget(now);
        let target: Box<str> = ask.target.into();
        let mut stage = targets.remove(&target, now).unwrap_or_default();
        let lease = stage.lease(ask, now);
        targets.insert(target, stage, now + TARGET_LIFE);
        Ok(lease)
    }

    async fn give_back(
        &self,
        target: &str,
        lease: ProbeLease,
        node: NodeId,
        now: Now,
    ) -> Result<(), StoreError> {
        let mut targets = lock(&self.0);
        if let Some(stage) = targets.get_mut(&target.into(), now.monotonic)
            && (stage.episode, stage.stage) == (lease.episode, lease.stage)
        {
            stage.shares.remove(&node);
        }
        Ok(())
    }
}
