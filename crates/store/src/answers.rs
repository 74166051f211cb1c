//! The answer cache: answers that are stored so that they can be served again.
//!
//! [`CacheStoreRule`](seawall_core::cache_policy::CacheStoreRule) decides which answer is stored, which one it may replace and
//! for how long it is kept. A store compares and replaces in one atomic step, so that a weaker answer can never
//! overwrite a stronger one that was stored in between.

use crate::StoreFuture;
use seawall_core::cache_policy::{CacheKey, CacheStoreDecision, CachedAnswer, NewAnswer};
use seawall_core::time::UtcTime;

/// An answer from the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredAnswer {
    /// The text of the answer.
    pub text: Box<str>,
    /// The grade of the model that produced the answer, and the time at which it was stored.
    pub kept: CachedAnswer,
}

/// The answer cache, keyed by the question that an answer belongs to.
pub trait Answers: Send + Sync {
    /// Returns the cached answer, as long as it may be served at all, fresh or stale.
    fn load<'a>(&'a self, key: &'a CacheKey, now: UtcTime) -> StoreFuture<'a, Option<StoredAnswer>>;

    /// Stores an answer, unless the rule forbids to cache it or to replace the cached one.
    fn store<'a>(
        &'a self,
        key: &'a CacheKey,
        answer: &'a NewAnswer<'a>,
        now: UtcTime,
    ) -> StoreFuture<'a, CacheStoreDecision>;
}
