//! The answer cache: answers that are stored so that they can be served again.
//!
//! [`CacheStoreRule`](seawall_core::cache_policy::CacheStoreRule) decides which answer is stored, which one it may replace and
//! for how long it is kept. A store compares and replaces in one atomic step, so that a weaker answer can never
//! overwrite a stronger one that was stored in between.

use crate::StoreError;
use seawall_core::cache_policy::{CacheKey, CacheStoreDecision, CachedAnswer, NewAnswer};
use seawall_core::time::UtcTime;
use std::future::Future;

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
    fn load(
        &self,
        key: &CacheKey,
        now: UtcTime,
    ) -> impl Future<Output = Result<Option<StoredAnswer>, StoreError>> + Send;

    /// Stores an answer, unless the rule forbids to cache it or to replace the cached one.
    fn store(
        &self,
        key: &CacheKey,
        answer: &NewAnswer<'_>,
        now: UtcTime,
    ) -> impl Future<Output = Result<CacheStoreDecision, StoreError>> + Send;
}
