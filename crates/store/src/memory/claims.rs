//! Idempotency keys in memory.

use super::fading::Fading;
use crate::books::NameMark;
use crate::claims::{ClaimAsk, ClaimDecision, Claims};
use crate::{StoreError, lock};
use seawall_core::time::{Now, Timestamp, UtcTime};
use sha2::{Digest, Sha256};
use std::sync::Mutex;
use std::time::Duration;

/// A hashed idempotency key. Keys come from clients and may contain confidential text.
type Name = [u8; 32];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A request with this claim number is in progress.
    Taken(u64),
    Done,
    /// A process that has ended was processing the request; the outcome is unknown.
    #[cfg_attr(
        not(feature = "embedded"),
        allow(dead_code, reason = "only state in a folder outlives a process")
    )]
    Unknown,
}

#[derive(Debug)]
struct Entry {
    fingerprint: u64,
    state: State,
}

/// The right to process a request.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a claim that is neither finished nor given up holds others up"]
pub struct MemoryClaim {
    name: Name,
    number: u64,
    fingerprint: u64,
    keep: Duration,
}

/// The table of claims. It needs an external lock.
#[derive(Debug)]
pub(super) struct ClaimTable {
    entries: Fading<Name, Entry>,
    next: u64,
}

impl ClaimTable {
    pub(super) const fn new() -> Self {
        Self { entries: Fading::new(), next: 0 }
    }

    /// Returns the state of this key, if it is known. Changes nothing.
    pub(super) fn look(
        &self,
        name: &Name,
        fingerprint: u64,
        now: Timestamp,
    ) -> Option<ClaimDecision<MemoryClaim>> {
        let entry = self.entries.get(name, now)?;
        Some(match entry.state {
            _ if entry.fingerprint != fingerprint => ClaimDecision::OtherRequest,
            State::Taken(_) => ClaimDecision::InProgress,
            State::Done => ClaimDecision::Done,
            State::Unknown => ClaimDecision::OutcomeUnknown,
        })
    }

    /// Claims a key that is free.
    pub(super) fn take(&mut self, name: Name, ask: &ClaimAsk<'_>, now: Timestamp) -> MemoryClaim {
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        let &ClaimAsk { fingerprint, lasts, keep, .. } = ask;
        self.entries.insert(name, Entry { fingerprint, state: State::Taken(number) }, now + lasts);
        MemoryClaim { name, number, fingerprint, keep }
    }

    /// Restores a key that a process which has ended had claimed.
    #[cfg_attr(
        not(feature = "embedded"),
        allow(dead_code, reason = "only state in a folder outlives a process")
    )]
    pub(super) fn restore(&mut self, name: Name, fingerprint: u64, is_done: bool, dies: Timestamp) {
        let state = if is_done { State::Done } else { State::Unknown };
        self.entries.insert(name, Entry { fingerprint, state }, dies);
    }

    pub(super) fn finish(&mut self, claim: &MemoryClaim, now: Timestamp) {
        if self.is_held(claim, now) {
            let done = Entry { fingerprint: claim.fingerprint, state: State::Done };
            self.entries.insert(claim.name, done, now + claim.keep);
        }
    }

    pub(super) fn give_up(&mut self, claim: &MemoryClaim, now: Timestamp) {
        if self.is_held(claim, now) {
            self.entries.remove(&claim.name, now);
        }
    }

    pub(super) fn forget(&mut self, now: Timestamp) {
        self.entries.forget(now);
    }

    fn is_held(&self, claim: &MemoryClaim, now: Timestamp) -> bool {
        self.entries.get(&claim.name, now).is_some_and(|entry| entry.state == State::Taken(claim.number))
    }
}

impl MemoryClaim {
    pub(super) const fn keep(&self) -> Duration {
        self.keep
    }

    /// The record to journal for this claim.
    pub(super) const fn mark(&self, until: UtcTime) -> NameMark {
        NameMark { name: self.name, fingerprint: self.fingerprint, until }
    }
}

/// Hashes a key together with its caller, so that no caller can find out the keys of another.
pub(super) fn hash_name(caller: u64, name: &str) -> Name {
    Sha256::new().chain_update(caller.to_be_bytes()).chain_update(name).finalize().into()
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

    async fn claim(&self, ask: &ClaimAsk<'_>, now: Now) -> Result<ClaimDecision<MemoryClaim>, StoreError> {
        let name = hash_name(ask.caller, ask.name);
        let mut table = lock(&self.0);
        table.forget(now.monotonic);
        let decision = table.look(&name, ask.fingerprint, now.monotonic);
        Ok(decision.unwrap_or_else(|| ClaimDecision::Yours(table.take(name, ask, now.monotonic))))
    }

    async fn finish(&self, claim: MemoryClaim, now: Now) -> Result<(), StoreError> {
        lock(&self.0).finish(&claim, now.monotonic);
        Ok(())
    }

    async fn give_up(&self, claim: MemoryClaim, now: Now) -> Result<(), StoreError> {
        lock(&self.0).give_up(&claim, now.monotonic);
        Ok(())
    }
}
