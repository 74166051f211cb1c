//! Leases of half-open probes that a fleet shares.

use super::connection::{RedisConnection, STORE, parse_integers};
use super::key;
use super::packing::ScriptArguments;
use super::script::StoreScript;
use crate::board::{ProbeRequest, Probes};
use crate::{StoreError, StoreFuture};
use seawall_core::breaker::{NodeId, ProbeLease};
use seawall_core::runtime::Runtime;
use seawall_core::time::Now;

const LEASE: u64 = 1;
const GIVE_BACK: u64 = 2;

/// Probe leases in Redis.
pub struct RedisProbes<R> {
    connection: RedisConnection<R>,
    script: StoreScript,
    manual_clock: bool,
}

impl<R: Runtime> RedisProbes<R> {
    /// Probe leases over this connection.
    #[must_use]
    pub fn new(connection: RedisConnection<R>) -> Self {
        Self { connection, script: StoreScript::timed(include_str!("lua/probe.lua")), manual_clock: false }
    }

    /// Uses the time that is passed in instead of the server's. For tests.
    #[must_use]
    pub fn with_manual_clock(self) -> Self {
        Self { manual_clock: true, ..self }
    }

    async fn run_script(
        &self,
        operation: u64,
        request: &ProbeRequest<'_>,
        now: Now,
    ) -> Result<u32, StoreError> {
        let mut arguments = ScriptArguments::new();
        arguments.time(self.manual_clock.then_some(now)).number(operation).halves(request.requested.episode);
        arguments
            .number(request.requested.stage as u64)
            .number(request.requested.probes.into())
            .number(request.stage_size.into());
        arguments.bytes(format!("{:x}", request.node.0).as_bytes()).span(request.ttl);
        let keys = [format!("{}:p:{{{}}}", key::VERSION, key::hash_hex(&[request.target.as_bytes()]))];
        let response =
            parse_integers(&self.connection.run(&self.script, &keys, &[&arguments.finish()]).await?)?;
        let probes = response.first().and_then(|probes| u32::try_from(*probes).ok());
        probes.ok_or_else(|| StoreError::failed(STORE, "the response has no number of probes"))
    }
}

impl<R: Runtime> Probes for RedisProbes<R> {
    fn lease<'a>(&'a self, request: &'a ProbeRequest<'a>, now: Now) -> StoreFuture<'a, ProbeLease> {
        StoreFuture::boxed(async move {
            let probes = self.run_script(LEASE, request, now).await?;
            Ok(ProbeLease { probes: probes.min(request.requested.probes), ..request.requested })
        })
    }

    fn give_back<'a>(
        &'a self,
        target: &'a str,
        lease: ProbeLease,
        node: NodeId,
        now: Now,
    ) -> StoreFuture<'a, ()> {
        StoreFuture::boxed(async move {
            let request = ProbeRequest {
                target,
                requested: lease,
                stage_size: 0,
                node,
                ttl: std::time::Duration::ZERO,
            };
            self.run_script(GIVE_BACK, &request, now).await.map(|_| ())
        })
    }
}
