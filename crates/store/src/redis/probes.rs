//! Leases of half-open probes that a fleet shares.

use super::key;
use super::link::{RedisLink, STORE, numbers};
use super::packing::Packing;
use super::script::StoreScript;
use crate::StoreError;
use crate::board::{ProbeAsk, Probes};
use seawall_core::breaker::{NodeId, ProbeLease};
use seawall_core::handle::Runtime;
use seawall_core::time::Now;

const LEASE: u64 = 1;
const GIVE_BACK: u64 = 2;

/// Probe leases in Redis.
pub struct RedisProbes<R> {
    link: RedisLink<R>,
    script: StoreScript,
    stepped: bool,
}

impl<R: Runtime> RedisProbes<R> {
    /// Probe leases over this connection.
    #[must_use]
    pub fn new(link: RedisLink<R>) -> Self {
        Self { link, script: StoreScript::timed(include_str!("lua/probe.lua")), stepped: false }
    }

    /// Uses the time that is passed in instead of the server's. For tests.
    #[must_use]
    pub fn stepped(self) -> Self {
        Self { stepped: true, ..self }
    }

    async fn ask(&self, what: u64, ask: &ProbeAsk<'_>, now: Now) -> Result<u32, StoreError> {
        let mut packing = Packing::new();
        packing.time(self.stepped.then_some(now)).number(what).halves(ask.wants.episode);
        packing.number(ask.wants.stage as u64).number(ask.wants.probes.into()).number(ask.stage_size.into());
        packing.bytes(format!("{:x}", ask.node.0).as_bytes()).span(ask.lasts);
        let keys = [format!("{}:p:{{{}}}", key::VERSION, key::hashed(&[ask.target.as_bytes()]))];
        let answer = numbers(&self.link.run(&self.script, &keys, &[&packing.finish()]).await?)?;
        let probes = answer.first().and_then(|probes| u32::try_from(*probes).ok());
        probes.ok_or_else(|| StoreError::broken(STORE, "no number of probes"))
    }
}

impl<R: Runtime> Probes for RedisProbes<R> {
    async fn lease(&self, ask: &ProbeAsk<'_>, now: Now) -> Result<ProbeLease, StoreError> {
        let probes = self.ask(LEASE, ask, now).await?;
        Ok(ProbeLease { probes: probes.min(ask.wants.probes), ..ask.wants })
    }

    async fn give_back(
        &self,
        target: &str,
        lease: ProbeLease,
        node: NodeId,
        now: Now,
    ) -> Result<(), StoreError> {
        let ask = ProbeAsk { target, wants: lease, stage_size: 0, node, lasts: std::time::Duration::ZERO };
        self.ask(GIVE_BACK, &ask, now).await.map(|_| ())
    }
}
