//! Idempotency keys that a fleet shares.

use super::connection::{RedisConnection, STORE, parse_integers};
use super::key;
use super::packing::ScriptArguments;
use super::script::StoreScript;
use crate::StoreError;
use crate::claims::{ClaimDecision, ClaimRequest, Claims};
use seawall_core::runtime::Runtime;
use seawall_core::time::Now;
use std::time::Duration;

const CLAIM: u64 = 1;
const FINISH: u64 = 2;
const RELEASE: u64 = 3;

/// Idempotency keys in Redis. The keys are the same as those of [`RedisQuotas`](super::RedisQuotas) for a caller that
/// is its own partition.
pub struct RedisClaims<R> {
    connection: RedisConnection<R>,
    script: StoreScript,
    manual_clock: bool,
}

/// The right to process a request.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a claim that is neither finished nor released blocks retries until it expires"]
pub struct RedisClaim {
    key: String,
    fingerprint: u64,
    number: u64,
    retention: Duration,
}

impl<R: Runtime> RedisClaims<R> {
    /// Claims over this connection.
    #[must_use]
    pub fn new(connection: RedisConnection<R>) -> Self {
        Self { connection, script: StoreScript::timed(include_str!("lua/claim.lua")), manual_clock: false }
    }

    /// Uses the time that is passed in instead of the server's. For tests.
    #[must_use]
    pub fn with_manual_clock(self) -> Self {
        Self { manual_clock: true, ..self }
    }

    async fn run_script(
        &self,
        operation: u64,
        claim: &RedisClaim,
        span: Duration,
        now: Now,
    ) -> Result<i64, StoreError> {
        let mut arguments = ScriptArguments::new();
        arguments
            .time(self.manual_clock.then_some(now))
            .number(operation)
            .bytes(&claim.fingerprint.to_be_bytes());
        arguments.number(claim.number).span(span);
        let keys = std::slice::from_ref(&claim.key);
        let response =
            parse_integers(&self.connection.run(&self.script, keys, &[&arguments.finish()]).await?)?;
        response.first().copied().ok_or_else(|| StoreError::failed(STORE, "the response to a claim is empty"))
    }
}

impl<R: Runtime> Claims for RedisClaims<R> {
    type Claim = RedisClaim;

    async fn claim(
        &self,
        request: &ClaimRequest<'_>,
        now: Now,
    ) -> Result<ClaimDecision<RedisClaim>, StoreError> {
        let claim = RedisClaim {
            key: key::claim(request.caller, request.caller, request.key),
            fingerprint: request.fingerprint,
            number: self.connection.runtime().draw().bits() >> 16,
            retention: request.retention,
        };
        match self.run_script(CLAIM, &claim, request.timeout, now).await? {
            0 => Ok(ClaimDecision::Granted(claim)),
            1 => Ok(ClaimDecision::InProgress),
            2 => Ok(ClaimDecision::Completed),
            3 => Ok(ClaimDecision::KeyReused),
            other => Err(StoreError::failed(STORE, format!("unknown response {other} to a claim"))),
        }
    }

    async fn finish(&self, claim: RedisClaim, now: Now) -> Result<(), StoreError> {
        self.run_script(FINISH, &claim, claim.retention, now).await.map(|_| ())
    }

    async fn release(&self, claim: RedisClaim, now: Now) -> Result<(), StoreError> {
        self.run_script(RELEASE, &claim, claim.retention, now).await.map(|_| ())
    }
}
