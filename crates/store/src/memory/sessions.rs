//! Conversations in memory.

use super::claims::hash_name;
use super::fading::Fading;
use crate::sessions::{MOST_TURNS, SESSION_LIFE, SessionKey, SessionUse, Sessions, StoredTurn};
use crate::{StoreError, lock};
use seawall_core::budget::SessionTokens;
use seawall_core::time::Now;
use std::collections::VecDeque;
use std::sync::Mutex;

#[derive(Debug, Default)]
struct Session {
    turns: VecDeque<StoredTurn>,
    requests: VecDeque<u128>,
    used: SessionUse,
}

/// Conversations in the memory of one process.
#[derive(Debug)]
pub struct MemorySessions(Mutex<Fading<[u8; 32], Session>>);

impl MemorySessions {
    /// A store without conversations.
    #[must_use]
    pub const fn new() -> Self {
        Self(Mutex::new(Fading::new()))
    }
}

impl Default for MemorySessions {
    fn default() -> Self {
        Self::new()
    }
}

fn name(session: &SessionKey) -> [u8; 32] {
    hash_name(session.caller, &session.name)
}

/// Drops all but the last `most` items.
fn keep_last<T>(all: &mut VecDeque<T>, most: usize) {
    all.drain(..all.len().saturating_sub(most));
}

impl Sessions for MemorySessions {
    async fn append(
        &self,
        session: &SessionKey,
        request: u128,
        turns: &[StoredTurn],
        used: SessionUse,
        now: Now,
    ) -> Result<(), StoreError> {
        let name = name(session);
        let mut all = lock(&self.0);
        all.forget(now.monotonic);
        if all.get(&name, now.monotonic).is_some_and(|session| session.requests.contains(&request)) {
            return Ok(());
        }
        let mut session = all.remove(&name, now.monotonic).unwrap_or_default();
        session.requests.push_back(request);
        session.turns.extend(turns.iter().cloned());
        keep_last(&mut session.requests, MOST_TURNS);
        keep_last(&mut session.turns, MOST_TURNS);
        session.used.input = session.used.input.saturating_add(used.input);
        session.used.output = session.used.output.saturating_add(used.output);
        all.insert(name, session, now.monotonic + SESSION_LIFE);
        Ok(())
    }

    async fn load(&self, session: &SessionKey, most: usize, now: Now) -> Result<Vec<StoredTurn>, StoreError> {
        let all = lock(&self.0);
        let Some(session) = all.get(&name(session), now.monotonic) else { return Ok(Vec::new()) };
        let skipped = session.turns.len().saturating_sub(most);
        Ok(session.turns.iter().skip(skipped).cloned().collect())
    }

    async fn tokens(&self, session: &SessionKey, now: Now) -> Result<SessionTokens, StoreError> {
        let all = lock(&self.0);
        let used = all.get(&name(session), now.monotonic).map(|session| session.used).unwrap_or_default();
        Ok(SessionTokens { input: used.input, output: used.output, ..SessionTokens::default() })
    }
}
