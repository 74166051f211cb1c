//! The answer cache in memory.

use crate::answers::{Answers, StoredAnswer};
use crate::{StoreFuture, lock};
use seawall_core::cache_policy::{
    CacheAges, CacheKey, CacheStoreDecision, CacheStoreOptions, CacheStoreRule, CachedAnswer, NewAnswer,
};
use seawall_core::setting::SettingError;
use seawall_core::time::UtcTime;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::Mutex;

type AnswerHash = [u8; 32];

/// The answer cache in the memory of one process: a bounded number of answers, of which the oldest is evicted first.
#[derive(Debug)]
pub struct MemoryAnswers {
    ages: CacheAges,
    rule: CacheStoreRule,
    capacity: usize,
    cached: Mutex<CachedAnswers>,
}

#[derive(Debug, Default)]
struct CachedAnswers {
    /// Each answer with its position in the order of storing.
    answers: BTreeMap<AnswerHash, (u64, StoredAnswer)>,
    order: BTreeMap<u64, AnswerHash>,
    next: u64,
}

impl MemoryAnswers {
    /// A cache of up to `capacity` answers with these settings.
    pub fn new(ages: CacheAges, options: CacheStoreOptions, capacity: usize) -> Result<Self, SettingError> {
        if capacity == 0 {
            return Err(SettingError::new("capacity", "must be at least 1"));
        }
        Ok(Self::with_rule(ages, options.check(ages)?, capacity))
    }

    /// A cache of up to `capacity` answers, but at least one, with a rule that has been validated.
    #[must_use]
    pub fn with_rule(ages: CacheAges, rule: CacheStoreRule, capacity: usize) -> Self {
        Self { ages, rule, capacity: capacity.max(1), cached: Mutex::default() }
    }
}

impl CachedAnswers {
    fn put(&mut self, key: AnswerHash, answer: StoredAnswer, capacity: usize) {
        let position = self.next;
        self.next = self.next.saturating_add(1);
        if let Some((before, _)) = self.answers.insert(key, (position, answer)) {
            self.order.remove(&before);
        }
        self.order.insert(position, key);
        while self.answers.len() > capacity {
            let Some((_, oldest)) = self.order.pop_first() else { return };
            self.answers.remove(&oldest);
        }
    }
}

/// Hashes the key, so that all keys have the same length however long the question is.
fn hash(key: &CacheKey) -> AnswerHash {
    Sha256::digest(key.as_bytes()).into()
}

impl Answers for MemoryAnswers {
    fn load<'a>(&'a self, key: &'a CacheKey, now: UtcTime) -> StoreFuture<'a, Option<StoredAnswer>> {
        StoreFuture::run(|| {
            let key = hash(key);
            let cached = lock(&self.cached);
            let answer = cached.answers.get(&key).map(|(_, answer)| answer);
            Ok(answer.filter(|answer| self.ages.is_servable(&answer.kept, now)).cloned())
        })
    }

    fn store<'a>(
        &'a self,
        key: &'a CacheKey,
        answer: &'a NewAnswer<'a>,
        now: UtcTime,
    ) -> StoreFuture<'a, CacheStoreDecision> {
        StoreFuture::run(|| {
            let key = hash(key);
            let mut cached = lock(&self.cached);
            let present = cached.answers.get(&key).map(|(_, answer)| &answer.kept);
            let decision = self.rule.decide(answer, present, now);
            if decision == CacheStoreDecision::Store {
                let stored = CachedAnswer { grade: answer.grade, stored_at: now };
                cached.put(key, StoredAnswer { text: answer.text.into(), kept: stored }, self.capacity);
            }
            Ok(decision)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{AnswerHash, CachedAnswers};
    use crate::answers::StoredAnswer;
    use seawall_core::cache_policy::CachedAnswer;
    use seawall_core::time::UtcTime;
    use seawall_core::vocabulary::Grade;

    #[test]
    fn the_oldest_goes_first_and_one_that_was_replaced_is_new() {
        let answer = |text: &str| StoredAnswer {
            text: text.into(),
            kept: CachedAnswer { grade: Grade::Fast, stored_at: UtcTime::default() },
        };
        let key = |number: u8| -> AnswerHash { [number; 32] };
        let mut cached = CachedAnswers::default();
        for (number, text) in [(1, "a"), (2, "b"), (1, "c"), (3, "d")] {
            cached.put(key(number), answer(text), 2);
        }
        let texts: Vec<_> = cached.answers.values().map(|(_, answer)| &*answer.text).collect();
        assert_eq!((texts, cached.order.len()), (vec!["c", "d"], 2));
    }
}
