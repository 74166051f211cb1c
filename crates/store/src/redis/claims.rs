//! Idempotency keys that a fleet shares.

use super::key;
use super::link::{RedisLink, STORE, numbers};
use super::packing::Packing;
use super::script::StoreScript;
use crate::StoreError;
use crate::claims::{ClaimAsk, ClaimDecision, Claims};
use seawall_core::handle::Runtime;
use seawall_core::time::Now;
use std::time::Duration;

const CLAIM: u64 = 1;
const FINISH: u64 = 2;
const GIVE_UP: u64 = 3;

/// Idempotency keys in Redis. The keys are the same as those of [`RedisQuotas`](super::RedisQuotas) for a caller that
/// is its own home.
pub struct RedisClaims<R> {
    link: RedisLink<R>,
    script: StoreScript,
    stepped: bool,
}

/// The right to process a request.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a claim that is neither finished nor given up holds others up"]
pub struct RedisClaim {
    key: String,
    fingerprint: u64,
    number: u64,
    keep: Duration,
}

impl<R: Runtime> RedisClaims<R> {
    /// Claims over this connection.
    #[must_use]
    pub fn new(link: RedisLink<R>) -> Self {
        Self { link, script: StoreScript::timed(include_str!("lua/claim.lua")), stepped: false }
    }

    /// Uses the time that is passed in instead of the server's. For tests.
    #[must_use]
    pub fn stepped(self) -> Self {
        Self { stepped: true, ..self }
    }

    async fn ask(&self, what: u64, claim: &RedisClaim, span: Duration, now: Now) -> Result<i64, StoreError> {
        let mut packing = Packing::new();
        packing.time(self.stepped.then_some(now)).number(what).bytes(&claim.fingerprint.to_be_bytes());
        packing.number(claim.number).span(span);
        let keys = std::slice::from_ref(&claim.key);
        let answer = numbers(&self.link.run(&self.script, keys, &[&packing.finish()]).await?)?;
        answer.first().copied().ok_or_else(|| StoreError::broken(STORE, "no answer to a claim"))
    }
}

impl<R: Runtime> Claims for RedisClaims<R> {
    type Claim = RedisClaim;

    async fn claim(&self, ask: &ClaimAsk<'_>, now: Now) -> Result<ClaimDecision<RedisClaim>, StoreError> {
        let claim = RedisClaim {
            key: key::claim(ask.caller, ask.caller, ask.name),
            fingerprint: ask.fingerprint,
            number: self.link.runtime().draw().bits() >> 16,
            keep: ask.keep,
        };
        match self.ask(CLAIM, &claim, ask.lasts, now).await? {
            0 => Ok(ClaimDecision::Yours(claim)),
            1 => Ok(ClaimDecision::InProgress),
            2 => Ok(ClaimDecision::Done),
            3 => Ok(ClaimDecision::OtherRequest),
            other => Err(StoreError::broken(STORE, format!("{other} is no answer to a claim"))),
        }
    }

    async fn finish(&self, claim: RedisClaim, now: Now) -> Result<(), StoreError> {
        self.ask(FINISH, &claim, claim.keep, now).await.map(|_| ())
    }

    async fn give_up(&self, claim: RedisClaim, now: Now) -> Result<(), StoreError> {
        self.ask(GIVE_UP, &claim, claim.keep, now).await.map(|_| ())
    }
}
