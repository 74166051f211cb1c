//! Claims in memory.

use super::fading::Fading;
use crate::books::NameMark;
use crate::claims::{ClaimAsk, ClaimDecision, Claims};
use crate::{StoreError, lock};
use seawall_core::time::{Now, Timestamp, UtcTime};
use sha2::{Digest, Sha256};
use std::sync::Mutex;
use std::time::Duration;

/// A caller's name for a request, hashed: names come from outside and may say what nobody should read.
type Name = [u8; 32];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Somebody is at work; by the number of the claim.
    Taken(u64),
    Done,
    /// A process that has ended was at work; nobody knows what became of it.
    Unknown,
}

#[derive(Debug)]
struct Entry {
    fingerprint: u64,
    state: State,
}

/// The right to work on a request.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a claim that is neither finished nor given up holds others up"]
pub struct MemoryClaim {
    name: Name,
    number: u64,
    fingerprint: u64,
    keep: Duration,
}

/// Who is at work on what, without a lock of its own.
#[derive(Debug)]
pub(super) struct ClaimTable {
    entries: Fading<Name, Entry>,
    next: u64,
}

impl ClaimTable {
    pub(super) const fn new() -> Self {
        Self { entries: Fading::new(), next: 0 }
    }

    /// How a request of this name stands, if there is one. Changes nothing.
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

    /// Takes a name that is free.
    pub(super) fn take(&mut self, name: Name, ask: &ClaimAsk<'_>, now: Timestamp) -> MemoryClaim {
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        let &ClaimAsk { fingerprint, lasts, keep, .. } = ask;
        self.entries.insert(name, Entry { fingerprint, state: State::Taken(number) }, now + lasts);
        MemoryClaim { name, number, fingerprint, keep }
    }

    /// Remembers a name of a process that has ended.
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

    /// What is to be remembered of it.
    pub(super) const fn mark(&self, until: UtcTime) -> NameMark {
        NameMark { name: self.name, fingerprint: self.fingerprint, until }
    }
}

/// The caller is part of it, so that nobody can find out what another calls its requests.
pub(super) fn hash_name(caller: u64, name: &str) -> Name {
    Sha256::new().chain_update(caller.to_be_bytes()).chain_update(name).finalize().into()
}

/// Claims in the memory of one process.
#[derive(Debug)]
pub struct MemoryClaims(Mutex<ClaimTable>);

impl MemoryClaims {
    /// Nobody is at work on anything.
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
