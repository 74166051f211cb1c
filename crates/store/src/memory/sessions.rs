//! Conversations in memory.

use super::claims::hash_key;
use super::expiring_map::ExpiringMap;
use crate::sessions::{MAX_TURNS, RequestTokens, SESSION_TTL, SessionKey, Sessions, StoredTurn};
use crate::{StoreFuture, lock};
use seawall_core::budget::SessionTokens;
use seawall_core::time::Now;
use std::collections::VecDeque;
use std::sync::Mutex;

#[derive(Debug, Default)]
struct StoredSession {
    turns: VecDeque<StoredTurn>,
    requests: VecDeque<u128>,
    used: RequestTokens,
}

/// Conversations in the memory of one process.
#[derive(Debug)]
pub struct MemorySessions(Mutex<ExpiringMap<[u8; 32], StoredSession>>);

impl MemorySessions {
    /// A store without conversations.
    #[must_use]
    pub const fn new() -> Self {
        Self(Mutex::new(ExpiringMap::new()))
    }
}

impl Default for MemorySessions {
    fn default() -> Self {
        Self::new()
    }
}

fn name(session: &SessionKey) -> [u8; 32] {
    hash_key(session.caller, &session.name)
}

/// Drops all but the last `max` items.
fn keep_last<T>(all: &mut VecDeque<T>, max: usize) {
    all.drain(..all.len().saturating_sub(max));
}

impl Sessions for MemorySessions {
    fn append<'a>(
        &'a self,
        session: &'a SessionKey,
        request: u128,
        turns: &'a [StoredTurn],
        used: RequestTokens,
        now: Now,
    ) -> StoreFuture<'a, ()> {
        StoreFuture::run(|| {
            let name = name(session);
            let mut all = lock(&self.0);
            all.evict_expired(now.monotonic);
            if all.get(&name, now.monotonic).is_some_and(|session| session.requests.contains(&request)) {
                return Ok(());
            }
            let mut session = all.remove(&name, now.monotonic).unwrap_or_default();
            session.requests.push_back(request);
            session.turns.extend(turns.iter().cloned());
            keep_last(&mut session.requests, MAX_TURNS);
            keep_last(&mut session.turns, MAX_TURNS);
            session.used.input = session.used.input.saturating_add(used.input);
            session.used.output = session.used.output.saturating_add(used.output);
            all.insert(name, session, now.monotonic + SESSION_TTL);
            Ok(())
        })
    }

    fn load<'a>(&'a self, session: &'a SessionKey, max: usize, now: Now) -> StoreFuture<'a, Vec<StoredTurn>> {
        StoreFuture::run(|| {
            let all = lock(&self.0);
            let Some(session) = all.get(&name(session), now.monotonic) else { return Ok(Vec::new()) };
            let skipped = session.turns.len().saturating_sub(max);
            Ok(session.turns.iter().skip(skipped).cloned().collect())
        })
    }

    fn tokens<'a>(&'a self, session: &'a SessionKey, now: Now) -> StoreFuture<'a, SessionTokens> {
        StoreFuture::run(|| {
            let all = lock(&self.0);
            let used = all.get(&name(session), now.monotonic).map(|session| session.used).unwrap_or_default();
            Ok(SessionTokens { input: used.input, output: used.output, ..SessionTokens::default() })
        })
    }
}
