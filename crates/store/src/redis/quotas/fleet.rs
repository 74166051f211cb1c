//! Limits that all callers share.
//!
//! A single record for the whole fleet would be a hot key: every request of every node would read it, and it has
//! another hash tag than the caller's own records. So a node leases a chunk of such a limit in advance, at most a
//! fiftieth of it and for one second, and decides in memory. The rest of a chunk is returned to the window it came
//! from.

use super::ask::{Reserve, Touched, placed};
use super::rules::{LimitRule, Placement, Rules};
use super::{Answer, RedisQuotas, RedisReceipt, Taken};
use crate::quotas::{AdmitDecision, Spent};
use crate::{StoreError, lock};
use seawall_core::handle::Runtime;
use seawall_core::quota::{Cost, LimitView, Refusal, Scope, Unit};
use seawall_core::time::{Now, Timestamp};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A chunk is at most this fraction of a limit.
const CHUNKS: u32 = 50;
/// How long a node keeps a chunk.
const CHUNK_LASTS: Duration = Duration::from_secs(1);
/// How long a refusal is cached before the server is asked again.
const REFUSAL_LASTS: Duration = Duration::from_millis(20);
/// The most groups and keys that a node tracks at a time. Expired ones are evicted.
const MOST_SLOTS: usize = 1_024;

/// What a request has taken of a chunk.
#[derive(Debug)]
pub(super) struct FleetPart {
    scope: Scope,
    chunk: u64,
    /// What the script would have returned if this request alone had taken it.
    pub(super) taken: Taken,
    pub(super) tightest: Option<LimitView>,
}

pub(super) enum FleetDecision {
    Granted(Vec<FleetPart>),
    Refused(AdmitDecision<RedisReceipt>),
}

/// A chunk that this node has leased.
#[derive(Debug)]
struct Chunk {
    number: u64,
    taken: Taken,
    left: Cost,
    until: Timestamp,
    /// The tightest limit on the server when the chunk was leased.
    tightest: Option<LimitView>,
}

#[derive(Debug, Default)]
struct Slot {
    chunk: Mutex<Option<Chunk>>,
    refused: Mutex<Option<(Timestamp, Refusal)>>,
    /// Held while the next chunk is fetched, so that concurrent requests wait for the same fetch (single flight).
    fetching: tokio::sync::Mutex<()>,
}

/// An expired chunk, and what is left of it.
#[derive(Debug)]
pub(super) struct Lapsed {
    taken: Taken,
    left: Cost,
}

/// The chunks of a node.
#[derive(Debug, Default)]
pub(super) struct FleetLeases {
    slots: Mutex<BTreeMap<(u16, u64), Arc<Slot>>>,
}

impl FleetLeases {
    fn slot(&self, scope: &Scope, now: Timestamp) -> Arc<Slot> {
        let mut slots = lock(&self.slots);
        if slots.len() >= MOST_SLOTS {
            // What is left of the evicted chunks is not given back; it drops out of its window by itself.
            slots.retain(|_, slot| lock(&slot.chunk).as_ref().is_some_and(|chunk| chunk.until > now));
        }
        Arc::clone(slots.entry((scope.group.place(), scope.key.0)).or_default())
    }

    /// Returns to the chunks what was taken for a request that was refused by another limit.
    pub(super) fn give_back(&self, parts: &[FleetPart], now: Timestamp) {
        for part in parts {
            let slot = self.slot(&part.scope, now);
            if let Some(chunk) = &mut *lock(&slot.chunk)
                && chunk.number == part.chunk
            {
                chunk.left.requests = chunk.left.requests.saturating_add(part.taken.cost.requests);
                chunk.left.tokens = chunk.left.tokens.saturating_add(part.taken.cost.tokens);
            }
        }
    }

    /// Removes and returns the expired chunks.
    pub(super) fn lapsed(&self, now: Timestamp) -> Vec<Lapsed> {
        let mut slots = lock(&self.slots);
        let lapsed = slots.values().filter_map(|slot| slot.take_lapsed(now)).collect();
        slots.retain(|_, slot| Arc::strong_count(slot) > 1 || lock(&slot.chunk).is_some());
        lapsed
    }

    /// Drops all chunks after a change of the limits. What is left of them stays charged.
    pub(super) fn forget(&self) {
        lock(&self.slots).clear();
    }
}

impl Slot {
    fn take_lapsed(&self, now: Timestamp) -> Option<Lapsed> {
        let mut chunk = lock(&self.chunk);
        let lapsed = chunk.take_if(|chunk| chunk.until <= now)?;
        Some(Lapsed { taken: lapsed.taken, left: lapsed.left })
    }

    /// Takes part of the chunk, if it has enough left.
    fn part(&self, scope: &Scope, cost: Cost, now: Timestamp) -> Option<FleetPart> {
        let mut chunk = lock(&self.chunk);
        let chunk = chunk.as_mut().filter(|chunk| chunk.until > now)?;
        let requests = chunk.left.requests.checked_sub(cost.requests)?;
        let tokens = chunk.left.tokens.checked_sub(cost.tokens)?;
        chunk.left = Cost { requests, tokens };
        let taken = Taken { cost, ..chunk.taken.clone() };
        Some(FleetPart { scope: *scope, chunk: chunk.number, taken, tightest: chunk.tightest })
    }

    fn refusal(&self, now: Timestamp) -> Option<Refusal> {
        let (at, refusal) = (*lock(&self.refused))?;
        let passed = now - at;
        (passed < REFUSAL_LASTS && passed < refusal.wait)
            .then(|| Refusal { wait: refusal.wait.saturating_sub(passed), ..refusal })
    }
}

impl<R: Runtime> RedisQuotas<R> {
    /// Takes the request's units from every group that all callers share.
    pub(super) async fn take_fleet(
        &self,
        scopes: &[Scope],
        cost: Cost,
        rules: &Rules,
        now: Now,
    ) -> Result<FleetDecision, StoreError> {
        let mut parts = Vec::new();
        for scope in &placed(scopes, rules, Placement::Fleet) {
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
        scope: &Scope,
        cost: Cost,
        rules: &Rules,
        now: Now,
    ) -> Result<Result<FleetPart, AdmitDecision<RedisReceipt>>, StoreError> {
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
            return Ok(Err(AdmitDecision::RetryAfter(refusal)));
        }
        let old = lock(&slot.chunk).take();
        if let Some(old) = old {
            self.give_back_chunk(&Lapsed { taken: old.taken, left: old.left }, now).await;
        }
        let touched = Touched::of_fleet(scope, rules);
        let mut wanted = chunk_of(&touched.limits, cost);
        loop {
            let reserve =
                Reserve { given: self.given(now), cost: wanted, money: None, number: 0, claim: None };
            match self.take(touched.clone(), None, reserve, rules).await? {
                Answer::Granted { taken, tightest } => {
                    let until = now.monotonic + CHUNK_LASTS;
                    let chunk = Chunk { number: taken.number, left: wanted, until, tightest, taken };
                    *lock(&slot.chunk) = Some(chunk);
                    return slot.part(scope, cost, now.monotonic).map(Ok).ok_or_else(super::strange);
                }
                // Too little is left for a chunk, but it may be enough for this request.
                Answer::Refused(_) if wanted != cost => wanted = cost,
                Answer::Refused(refusal) => {
                    if let AdmitDecision::RetryAfter(refusal) = &refusal {
                        *lock(&slot.refused) = Some((now.monotonic, *refusal));
                    }
                    return Ok(Err(refusal));
                }
            }
        }
    }

    /// Gives back what is left of a chunk. If the store is unreachable, it stays charged until it drops out of its
    /// window.
    pub(super) async fn give_back_chunk(&self, lapsed: &Lapsed, now: Now) {
        let used = Cost {
            requests: lapsed.taken.cost.requests.saturating_sub(lapsed.left.requests),
            tokens: lapsed.taken.cost.tokens.saturating_sub(lapsed.left.tokens),
        };
        let spent = Spent { cost: used, ..Spent::default() };
        let _ = self.correct(&lapsed.taken, spent, now).await;
    }
}

/// A fiftieth of the smallest limit, but at least what is requested. A unit without a limit is unbounded.
fn chunk_of(limits: &[(u64, LimitRule)], cost: Cost) -> Cost {
    let chunk = |unit: Unit, wanted: u32| {
        let counts = limits.iter().filter(|(_, rule)| rule.unit == unit);
        counts.map(|(_, rule)| (rule.most / CHUNKS).max(wanted)).min().unwrap_or(u32::MAX)
    };
    Cost { requests: chunk(Unit::Request, cost.requests), tokens: chunk(Unit::Token, cost.tokens) }
}

#[cfg(test)]
mod tests {
    use super::{LimitRule, chunk_of};
    use seawall_core::quota::{Cost, GroupId, LimitId, Unit};

    #[test]
    fn a_chunk_is_a_fiftieth_of_the_smallest_limit_and_never_less_than_wanted() {
        let limit = LimitId { group: GroupId::at(0), quota: 0 };
        let rule = |most, unit| (1, LimitRule { limit, id: 1, shape: 2, most, unit });
        let limits = [rule(50_000, Unit::Request), rule(10_000, Unit::Request), rule(99, Unit::Token)];
        assert_eq!(chunk_of(&limits, Cost::REQUEST), Cost { requests: 200, tokens: 1 });
        assert_eq!(chunk_of(&limits, Cost { requests: 300, tokens: 7 }), Cost { requests: 300, tokens: 7 });
        assert_eq!(chunk_of(&limits[..2], Cost::REQUEST), Cost { requests: 200, tokens: u32::MAX });
    }
}
