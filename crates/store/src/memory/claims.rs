//! Idempotency keys in memory.

use super::expiring_map::ExpiringMap;
use crate::claims::{ClaimDecision, ClaimRequest, Claims};
use crate::node_ledger::IdempotencyRecord;
use crate::{StoreError, lock};
use seawall_core::time::{Now, Timestamp, UtcTime};
use sha2::{Digest, Sha256};
use std::sync::Mutex;
use std::time::Duration;

/// A hashed idempotency key. Keys come from clients and may contain confidential text.
type KeyHash = [u8; 32];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClaimState {
    /// A request with this claim number is in progress.
    InProgress(u64),
    Completed,
    /// A process that has ended was processing the request; the outcome is unknown.
    #[cfg_attr(
        not(feature = "embedded"),
        allow(dead_code, reason = "only the embedded store outlives a process")
    )]
    Unknown,
}

#[derive(Debug)]
struct ClaimEntry {
    fingerprint: u64,
    state: ClaimState,
}

/// The right to process a request.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a claim that is neither finished nor released blocks retries until it expires"]
pub struct MemoryClaim {
    key_hash: KeyHash,
    number: u64,
    fingerprint: u64,
    retention: Duration,
}

/// The table of claims. It needs an external lock.
#[derive(Debug)]
pub(super) struct ClaimTable {
    entries: ExpiringMap<KeyHash, ClaimEntry>,
    next: u64,
}

impl ClaimTable {
    pub(super) const fn new() -> Self {
        Self { entries: ExpiringMap::new(), next: 0 }
    }

    /// Returns the state of this key, if it is known. Changes nothing.
    pub(super) fn lookup(
        &self,
        key_hash: &KeyHash,
        fingerprint: u64,
        now: Timestamp,
    ) -> Option<ClaimDecision<MemoryClaim>> {
        let entry = self.entries.get(key_hash, now)?;
        Some(match entry.state {
            _ if entry.fingerprint != fingerprint => ClaimDecision::KeyReused,
            ClaimState::InProgress(_) => ClaimDecision::InProgress,
            ClaimState::Completed => ClaimDecision::Completed,
            ClaimState::Unknown => ClaimDecision::OutcomeUnknown,
        })
    }

    /// Claims a key that is free.
    pub(super) fn insert(
        &mut self,
        key_hash: KeyHash,
        request: &ClaimRequest<'_>,
        now: Timestamp,
    ) -> MemoryClaim {
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        let &ClaimRequest { fingerprint, timeout, retention, .. } = request;
        self.entries.insert(
            key_hash,
            ClaimEntry { fingerprint, state: ClaimState::InProgress(number) },
            now + timeout,
        );
        MemoryClaim { key_hash, number, fingerprint, retention }
    }

    /// Restores a key that a process which has ended had claimed.
    #[cfg_attr(
        not(feature = "embedded"),
        allow(dead_code, reason = "only the embedded store outlives a process")
    )]
    pub(super) fn restore(&mut self, key_hash: KeyHash, fingerprint: u64, is_done: bool, expires: Timestamp) {
        let state = if is_done { ClaimState::Completed } else { ClaimState::Unknown };
        self.entries.insert(key_hash, ClaimEntry { fingerprint, state }, expires);
    }

    pub(super) fn finish(&mut self, claim: &MemoryClaim, now: Timestamp) {
        if self.is_held(claim, now) {
            let done = ClaimEntry { fingerprint: claim.fingerprint, state: ClaimState::Completed };
            self.entries.insert(claim.key_hash, done, now + claim.retention);
        }
    }

    pub(super) fn release(&mut self, claim: &MemoryClaim, now: Timestamp) {
        if self.is_held(claim, now) {
            self.entries.remove(&claim.key_hash, now);
        }
    }

    pub(super) fn evict_expired(&mut self, now: Timestamp) {
        self.entries.evict_expired(now);
    }

    fn is_held(&self, claim: &MemoryClaim, now: Timestamp) -> bool {
        self.entries
            .get(&claim.key_hash, now)
            .is_some_and(|entry| entry.state == ClaimState::InProgress(claim.number))
    }
}

impl MemoryClaim {
    pub(super) const fn retention(&self) -> Duration {
        self.retention
    }

    /// The record to journal for this claim.
    pub(super) const fn idempotency_record(&self, expires: UtcTime) -> IdempotencyRecord {
        IdempotencyRecord { key_hash: self.key_hash, fingerprint: self.fingerprint, expires }
    }
}

/// Hashes a key together with its caller, so that no caller can find out the keys of another.
pub(super) fn hash_key(caller: u64, key: &str) -> KeyHash {
    Sha256::new().chain_update(caller.to_be_bytes()).chain_update(key).finalize().into()
}

/// Idempotency keys in the memory of one process.
#[derive(Debug)]
pub struct MemoryClaims(Mutex<ClaimTable>);

impl MemoryClaims {
    /// A store without claims.
    #[must_use]
    pub const fn new() -> Self {
        Self(Mutex::new(ClaimTable::new()))
    }
}

impl Default for MemoryClaims {
    fn default() -> Self {
        Self::new()
    }
}

impl Claims for MemoryClaims {
    type Claim = MemoryClaim;

    async fn claim(
        &self,
        request: &ClaimRequest<'_>,
        now: Now,
    ) -> Result<ClaimDecision<MemoryClaim>, StoreError> {
        let key_hash = hash_key(request.caller, request.key);
        let mut table = lock(&self.0);
        table.evict_expired(now.monotonic);
        let decision = table.lookup(&key_hash, request.fingerprint, now.monotonic);
        Ok(decision.unwrap_or_else(|| ClaimDecision::Granted(table.insert(key_hash, request, now.monotonic))))
    }

    async fn finish(&self, claim: MemoryClaim, now: Now) -> Result<(), StoreError> {
        lock(&self.0).finish(&claim, now.monotonic);
        Ok(())
    }

    async fn release(&self, claim: MemoryClaim, now: Now) -> Result<(), StoreError> {
        lock(&self.0).release(&claim, now.monotonic);
        Ok(())
    }
}
