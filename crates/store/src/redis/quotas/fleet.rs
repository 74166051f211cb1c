//! Limits that all callers share.
//!
//! A single record for the whole fleet would be a hot key: every request of every node would read it, and it has
//! another hash tag than the caller's own records. So a node leases a chunk of such a limit in advance, at most a
//! fiftieth of it and for one second, and decides in memory. The rest of a chunk is returned to the window it came
//! from.

use super::arguments::{ReserveArguments, TouchedLimits, with_placement};
use super::rules::{LimitRule, ScriptRules};
use super::{RedisQuotas, ScriptCharge, ScriptDecision};
use crate::quotas::{AdmitDecision, Placement, Settlement};
use crate::{StoreError, lock};
use seawall_core::quota::{LimitView, QuotaRefusal, QuotaScope, QuotaUnit, QuotaUnits};
use seawall_core::runtime::Runtime;
use seawall_core::time::{Now, Timestamp};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A chunk is at most this fraction of a limit.
const CHUNKS_PER_LIMIT: u32 = 50;
/// How long a node keeps a chunk.
const CHUNK_TTL: Duration = Duration::from_secs(1);
/// How long a refusal is cached before the server is asked again.
const REFUSAL_TTL: Duration = Duration::from_millis(20);
/// The most groups and keys that a node tracks at a time. Expired ones are evicted.
const MAX_SLOTS: usize = 1_024;

/// What a request has taken of a chunk.
#[derive(Debug)]
pub(super) struct ChunkPart {
    scope: QuotaScope,
    chunk: u64,
    /// What the script would have returned if this request alone had taken it.
    pub(super) charge: ScriptCharge,
    pub(super) tightest: Option<LimitView>,
}

pub(super) enum FleetDecision {
    Granted(Vec<ChunkPart>),
    Refused(AdmitDecision),
}

/// A chunk that this node has leased.
#[derive(Debug)]
struct LeasedChunk {
    number: u64,
    charge: ScriptCharge,
    left: QuotaUnits,
    until: Timestamp,
    /// The tightest limit on the server when the chunk was leased.
    tightest: Option<LimitView>,
}

#[derive(Debug, Default)]
struct ChunkSlot {
    chunk: Mutex<Option<LeasedChunk>>,
    refused: Mutex<Option<(Timestamp, QuotaRefusal)>>,
    /// Held while the next chunk is fetched, so that concurrent requests wait for the same fetch (single flight).
    fetching: tokio::sync::Mutex<()>,
}

/// An expired chunk, and what is left of it.
#[derive(Debug)]
pub(super) struct ExpiredChunk {
    charge: ScriptCharge,
    left: QuotaUnits,
}

/// The chunks of a node.
#[derive(Debug, Default)]
pub(super) struct FleetLeases {
    slots: Mutex<BTreeMap<(u16, u64), Arc<ChunkSlot>>>,
}

impl FleetLeases {
    fn slot(&self, scope: &QuotaScope, now: Timestamp) -> Arc<ChunkSlot> {
        let mut slots = lock(&self.slots);
        if slots.len() >= MAX_SLOTS {
            // What is left of the evicted chunks is not given back; it drops out of its window by itself.
            slots.retain(|_, slot| lock(&slot.chunk).as_ref().is_some_and(|chunk| chunk.until > now));
        }
        Arc::clone(slots.entry((scope.group.index(), scope.key.0)).or_default())
    }

    /// Returns to the chunks what was taken for a request that was refused by another limit.
    pub(super) fn give_back(&self, parts: &[ChunkPart], now: Timestamp) {
        for part in parts {
            let slot = self.slot(&part.scope, now);
            if let Some(chunk) = &mut *lock(&slot.chunk)
                && chunk.number == part.chunk
            {
                chunk.left.requests = chunk.left.requests.saturating_add(part.charge.cost.requests);
                chunk.left.tokens = chunk.left.tokens.saturating_add(part.charge.cost.tokens);
            }
        }
    }

    /// Removes and returns the expired chunks.
    pub(super) fn expired(&self, now: Timestamp) -> Vec<ExpiredChunk> {
        let mut slots = lock(&self.slots);
        let expired = slots.values().filter_map(|slot| slot.take_expired(now)).collect();
        slots.retain(|_, slot| Arc::strong_count(slot) > 1 || lock(&slot.chunk).is_some());
        expired
    }

    /// Drops all chunks after a change of the limits. What is left of them stays charged.
    pub(super) fn forget(&self) {
        lock(&self.slots).clear();
    }
}

impl ChunkSlot {
    fn take_expired(&self, now: Timestamp) -> Option<ExpiredChunk> {
        let mut chunk = lock(&self.chunk);
        let expired = chunk.take_if(|chunk| chunk.until <= now)?;
        Some(ExpiredChunk { charge: expired.charge, left: expired.left })
    }

    /// Takes part of the chunk, if it has enough left.
    fn part(&self, scope: &QuotaScope, cost: QuotaUnits, now: Timestamp) -> Option<ChunkPart> {
        let mut chunk = lock(&self.chunk);
        let chunk = chunk.as_mut().filter(|chunk| chunk.until > now)?;
        let requests = chunk.left.requests.checked_sub(cost.requests)?;
        let tokens = chunk.left.tokens.checked_sub(cost.tokens)?;
        chunk.left = QuotaUnits { requests, tokens };
        let charge = ScriptCharge { cost, ..chunk.charge.clone() };
        Some(ChunkPart { scope: *scope, chunk: chunk.number, charge, tightest: chunk.tightest })
    }

    fn refusal(&self, now: Timestamp) -> Option<QuotaRefusal> {
        let (at, refusal) = (*lock(&self.refused))?;
        let passed = now - at;
        (passed < REFUSAL_TTL && passed < refusal.wait)
            .then(|| QuotaRefusal { wait: refusal.wait.saturating_sub(passed), ..refusal })
    }
}

impl<R: Runtime> RedisQuotas<R> {
    /// Takes the request's units from every group that all callers share.
    pub(super) async fn take_fleet(
        &self,
        scopes: &[QuotaScope],
        cost: QuotaUnits,
        rules: &ScriptRules,
        now: Now,
    ) -> Result<FleetDecision, StoreError> {
        let mut parts = Vec::new();
        for scope in &with_placement(scopes, rules, Placement::Fleet) {
            match self.take_part(scope, cost, rules, now).await {
                Ok(Ok(part)) => parts.push(part),
                Ok(Err(refusal)) => {
                    self.leases.give_back(&parts, now.monotonic);
                    return Ok(FleetDecision::Refused(refusal));
                }
                Err(error) => {
                    self.leases.give_back(&parts, now.monotonic);
                    return Err(error);
                }
            }
        }
        Ok(FleetDecision::Granted(parts))
    }

    async fn take_part(
        &self,
        scope: &QuotaScope,
        cost: QuotaUnits,
        rules: &ScriptRules,
        now: Now,
    ) -> Result<Result<ChunkPart, AdmitDecision>, StoreError> {
        let slot = self.leases.slot(scope, now.monotonic);
        if let Some(part) = slot.part(scope, cost, now.monotonic) {
            return Ok(Ok(part));
        }
        let _fetching = slot.fetching.lock().await;
        // Another request may have fetched a chunk, or a refusal, meanwhile.
        if let Some(part) = slot.part(scope, cost, now.monotonic) {
            return Ok(Ok(part));
        }
        if let Some(refusal) = slot.refusal(now.monotonic) {
            return Ok(Err(AdmitDecision::RateLimited(refusal)));
        }
        let old = lock(&slot.chunk).take();
        if let Some(old) = old {
            self.give_back_chunk(&ExpiredChunk { charge: old.charge, left: old.left }, now).await;
        }
        let touched = TouchedLimits::of_fleet(scope, rules);
        let mut requested = chunk_of(&touched.limits, cost);
        loop {
            let reserve = ReserveArguments {
                given: self.given(now),
                cost: requested,
                money: None,
                number: 0,
                claim: None,
            };
            match self.take(touched.clone(), None, reserve, rules).await? {
                ScriptDecision::Granted { charge, tightest } => {
                    let until = now.monotonic + CHUNK_TTL;
                    let chunk =
                        LeasedChunk { number: charge.number, left: requested, until, tightest, charge };
                    *lock(&slot.chunk) = Some(chunk);
                    return slot
                        .part(scope, cost, now.monotonic)
                        .map(Ok)
                        .ok_or_else(super::unexpected_response);
                }
                // Too little is left for a chunk, but it may be enough for this request.
                ScriptDecision::Refused(_) if requested != cost => requested = cost,
                ScriptDecision::Refused(refusal) => {
                    if let AdmitDecision::RateLimited(refusal) = &refusal {
                        *lock(&slot.refused) = Some((now.monotonic, *refusal));
                    }
                    return Ok(Err(refusal));
                }
            }
        }
    }

    /// Gives back what is left of a chunk. If the store is unreachable, it stays charged until it drops out of its
    /// window.
    pub(super) async fn give_back_chunk(&self, expired: &ExpiredChunk, now: Now) {
        let used = QuotaUnits {
            requests: expired.charge.cost.requests.saturating_sub(expired.left.requests),
            tokens: expired.charge.cost.tokens.saturating_sub(expired.left.tokens),
        };
        let spent = Settlement { units: used, ..Settlement::default() };
        let _ = self.correct(&expired.charge, spent, now).await;
    }
}

/// A fiftieth of the smallest limit, but at least what is requested. A unit without a limit is unbounded.
fn chunk_of(limits: &[(u64, LimitRule)], cost: QuotaUnits) -> QuotaUnits {
    let chunk = |unit: QuotaUnit, requested: u32| {
        let counts = limits.iter().filter(|(_, rule)| rule.unit == unit);
        counts.map(|(_, rule)| (rule.capacity / CHUNKS_PER_LIMIT).max(requested)).min().unwrap_or(u32::MAX)
    };
    QuotaUnits {
        requests: chunk(QuotaUnit::Request, cost.requests),
        tokens: chunk(QuotaUnit::Token, cost.tokens),
    }
}

#[cfg(test)]
mod tests {
    use super::{LimitRule, chunk_of};
    use seawall_core::quota::{GroupId, LimitId, QuotaUnit, QuotaUnits};

    #[test]
    fn a_chunk_is_a_fiftieth_of_the_smallest_limit_and_never_less_than_wanted() {
        let limit = LimitId { group: GroupId::from_index(0), quota: 0 };
        let rule = |capacity, unit| (1, LimitRule { limit, id: 1, shape: 2, capacity, unit });
        let limits =
            [rule(50_000, QuotaUnit::Request), rule(10_000, QuotaUnit::Request), rule(99, QuotaUnit::Token)];
        assert_eq!(chunk_of(&limits, QuotaUnits::REQUEST), QuotaUnits { requests: 200, tokens: 1 });
        assert_eq!(
            chunk_of(&limits, QuotaUnits { requests: 300, tokens: 7 }),
            QuotaUnits { requests: 300, tokens: 7 }
        );
        assert_eq!(
            chunk_of(&limits[..2], QuotaUnits::REQUEST),
            QuotaUnits { requests: 200, tokens: u32::MAX }
        );
    }
}
