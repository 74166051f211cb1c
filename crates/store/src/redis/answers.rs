//! The answer cache that a fleet shares.
//!
//! Ages are measured by the wall-clock time that is passed in, as everywhere. The server's own expiry only removes
//! entries that can no longer be served.

use super::key;
use super::link::{RedisLink, STORE, numbers};
use super::packing::Packing;
use super::script::StoreScript;
use crate::StoreError;
use crate::answers::{Answers, StoredAnswer};
use redis::Value;
use seawall_core::cache_policy::{
    CacheAges, CacheKey, KeptAnswer, NewAnswer, StoreDecision, StoreOptions, StoreRefusal, StoreRule,
};
use seawall_core::handle::Runtime;
use seawall_core::setting::SettingError;
use seawall_core::time::UtcTime;
use seawall_core::vocabulary::Grade;
use std::time::Duration;

/// Refuses values that are longer than any answer we store, because a foreign value under the key may be.
const LOAD: &str = "
if redis.call('STRLEN', KEYS[1]) > tonumber(ARGV[1]) then return { 9, 'longer than any answer' } end
return redis.call('GET', KEYS[1])";

/// The header before the text: the grade, and when the answer was stored.
const HEAD: usize = 11;
const SECOND: u64 = 1_000_000_000;

/// The answer cache in Redis.
pub struct RedisAnswers<R> {
    link: RedisLink<R>,
    load: StoreScript,
    store: StoreScript,
    ages: CacheAges,
    rule: StoreRule,
    largest: usize,
}

impl<R: Runtime> RedisAnswers<R> {
    /// A cache with these settings.
    pub fn new(link: RedisLink<R>, ages: CacheAges, storing: StoreOptions) -> Result<Self, SettingError> {
        let rule = storing.check(ages)?;
        let (load, store) = (StoreScript::new(LOAD), StoreScript::new(include_str!("lua/answer.lua")));
        Ok(Self { link, load, store, ages, rule, largest: storing.largest_text })
    }
}

fn place(key: &CacheKey) -> [String; 1] {
    [format!("{}:a:{{{}}}", key::VERSION, key::hashed(&[key.as_bytes()]))]
}

impl<R: Runtime> Answers for RedisAnswers<R> {
    async fn load(&self, key: &CacheKey, now: UtcTime) -> Result<Option<StoredAnswer>, StoreError> {
        let most = (self.largest.saturating_add(HEAD)).to_string();
        let answer = self.link.run(&self.load, &place(key), &[most.as_bytes()]).await?;
        let bytes = match answer {
            Value::BulkString(bytes) => bytes,
            Value::Nil => return Ok(None),
            other => return numbers(&other).map(|_| None),
        };
        let stored = read(&bytes).ok_or_else(|| StoreError::broken(STORE, "no answer"))?;
        Ok(Some(stored).filter(|stored| self.ages.is_alive(&stored.kept, now)))
    }

    async fn store(
        &self,
        key: &CacheKey,
        answer: &NewAnswer<'_>,
        now: UtcTime,
    ) -> Result<StoreDecision, StoreError> {
        if let refusal @ StoreDecision::Refuse(_) = self.rule.decide(answer, None, now) {
            return Ok(refusal);
        }
        let mut packing = Packing::new();
        let options = self.ages.options();
        let nanos = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        let moment = now.as_nanos();
        packing.number(answer.grade.index() as u64);
        // Before `keep_for` has passed since the epoch, no answer can have expired.
        let (dead, is_any_dead) =
            moment.checked_sub(nanos(options.keep_for)).map_or((0, false), |dead| (dead, true));
        let newest = moment.saturating_add(nanos(options.clock_skew));
        packing.number(moment / SECOND).number(moment % SECOND);
        if is_any_dead {
            packing.number(dead / SECOND).number(dead % SECOND);
        } else {
            packing.none().none();
        }
        packing.number(newest / SECOND).number(newest % SECOND);
        let keep = options.keep_for.saturating_add(options.clock_skew).as_millis();
        packing.number(u64::try_from(keep).unwrap_or(u64::MAX).max(1)).bytes(answer.text.as_bytes());
        let answer = numbers(&self.link.run(&self.store, &place(key), &[&packing.finish()]).await?)?;
        match answer.as_slice() {
            [0] => Ok(StoreDecision::Store),
            [1] => Ok(StoreDecision::Refuse(StoreRefusal::StrongerLives)),
            _ => Err(StoreError::broken(STORE, "no decision about an answer")),
        }
    }
}

fn read(bytes: &[u8]) -> Option<StoredAnswer> {
    let (head, text) = bytes.split_first_chunk::<HEAD>()?;
    let grade = *Grade::ALL.get(usize::from(head[0]))?;
    let part =
        |from: usize, to: usize| head[from..to].iter().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
    let nanos = part(1, 7).checked_mul(SECOND)?.checked_add(part(7, 11))?;
    let text = std::str::from_utf8(text).ok()?.into();
    Some(StoredAnswer { text, kept: KeptAnswer { grade, stored_at: UtcTime::from_nanos(nanos) } })
}
