//! The answer cache that a fleet shares.
//!
//! Ages are measured by the wall-clock time that is passed in, as everywhere. The server's own expiry only removes
//! entries that can no longer be served.

use super::connection::{RedisConnection, STORE, parse_integers};
use super::key;
use super::packing::ScriptArguments;
use super::script::StoreScript;
use crate::answers::{Answers, StoredAnswer};
use crate::{StoreError, StoreFuture};
use redis::Value;
use seawall_core::cache_policy::{
    CacheAges, CacheKey, CacheStoreDecision, CacheStoreOptions, CacheStoreRefusal, CacheStoreRule,
    CachedAnswer, NewAnswer,
};
use seawall_core::runtime::Runtime;
use seawall_core::setting::SettingError;
use seawall_core::time::UtcTime;
use seawall_core::vocabulary::Grade;
use std::time::Duration;

/// Refuses values that are longer than any answer we store, because a foreign value under the key may be.
const LOAD: &str = "
if redis.call('STRLEN', KEYS[1]) > tonumber(ARGV[1]) then return { 9, 'the value is longer than any answer' } end
return redis.call('GET', KEYS[1])";

/// The header before the text: the grade, and when the answer was stored.
const HEADER_BYTES: usize = 11;
const SECOND: u64 = 1_000_000_000;

/// The answer cache in Redis.
pub struct RedisAnswers<R> {
    connection: RedisConnection<R>,
    load: StoreScript,
    store: StoreScript,
    ages: CacheAges,
    rule: CacheStoreRule,
    max_text_bytes: usize,
}

impl<R: Runtime> RedisAnswers<R> {
    /// A cache with these settings.
    pub fn new(
        connection: RedisConnection<R>,
        ages: CacheAges,
        storing: CacheStoreOptions,
    ) -> Result<Self, SettingError> {
        let rule = storing.check(ages)?;
        let (load, store) = (StoreScript::new(LOAD), StoreScript::new(include_str!("lua/answer.lua")));
        Ok(Self { connection, load, store, ages, rule, max_text_bytes: storing.max_answer_size })
    }
}

fn cache_key(key: &CacheKey) -> [String; 1] {
    [format!("{}:a:{{{}}}", key::VERSION, key::hash_hex(&[key.as_bytes()]))]
}

impl<R: Runtime> Answers for RedisAnswers<R> {
    fn load<'a>(&'a self, key: &'a CacheKey, now: UtcTime) -> StoreFuture<'a, Option<StoredAnswer>> {
        StoreFuture::boxed(async move {
            let max_bytes = (self.max_text_bytes.saturating_add(HEADER_BYTES)).to_string();
            let response = self.connection.run(&self.load, &cache_key(key), &[max_bytes.as_bytes()]).await?;
            let bytes = match response {
                Value::BulkString(bytes) => bytes,
                Value::Nil => return Ok(None),
                other => return parse_integers(&other).map(|_| None),
            };
            let stored =
                read(&bytes).ok_or_else(|| StoreError::failed(STORE, "a cached answer is invalid"))?;
            Ok(Some(stored).filter(|stored| self.ages.is_servable(&stored.kept, now)))
        })
    }

    fn store<'a>(
        &'a self,
        key: &'a CacheKey,
        answer: &'a NewAnswer<'a>,
        now: UtcTime,
    ) -> StoreFuture<'a, CacheStoreDecision> {
        StoreFuture::boxed(async move {
            if let refusal @ CacheStoreDecision::Refuse(_) = self.rule.decide(answer, None, now) {
                return Ok(refusal);
            }
            let mut arguments = ScriptArguments::new();
            let options = self.ages.options();
            let nanos = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
            let stored_at = now.as_nanos();
            arguments.number(answer.grade.index() as u64);
            // Before `max_stale_age` has passed since the epoch, no answer can have expired.
            let (dead, is_any_dead) =
                stored_at.checked_sub(nanos(options.max_stale_age)).map_or((0, false), |dead| (dead, true));
            let newest = stored_at.saturating_add(nanos(options.clock_skew));
            arguments.number(stored_at / SECOND).number(stored_at % SECOND);
            if is_any_dead {
                arguments.number(dead / SECOND).number(dead % SECOND);
            } else {
                arguments.none().none();
            }
            arguments.number(newest / SECOND).number(newest % SECOND);
            let keep = options.max_stale_age.saturating_add(options.clock_skew).as_millis();
            arguments.number(u64::try_from(keep).unwrap_or(u64::MAX).max(1)).bytes(answer.text.as_bytes());
            let response = parse_integers(
                &self.connection.run(&self.store, &cache_key(key), &[&arguments.finish()]).await?,
            )?;
            match response.as_slice() {
                [0] => Ok(CacheStoreDecision::Store),
                [1] => Ok(CacheStoreDecision::Refuse(CacheStoreRefusal::StrongerCached)),
                _ => Err(StoreError::failed(STORE, "the response is not a decision to store an answer")),
            }
        })
    }
}

fn read(bytes: &[u8]) -> Option<StoredAnswer> {
    let (head, text) = bytes.split_first_chunk::<HEADER_BYTES>()?;
    let grade = *Grade::ALL.get(usize::from(head[0]))?;
    let part =
        |from: usize, to: usize| head[from..to].iter().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
    let nanos = part(1, 7).checked_mul(SECOND)?.checked_add(part(7, 11))?;
    let text = std::str::from_utf8(text).ok()?.into();
    Some(StoredAnswer { text, kept: CachedAnswer { grade, stored_at: UtcTime::from_nanos(nanos) } })
}
