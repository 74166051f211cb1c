//! Answers that are kept, to be given again.
//!
//! Which answer may be kept, in whose place and for how long is [`StoreRule`](seawall_core::cache_policy::StoreRule)'s
//! word; a store looks and replaces in one step, so that a weaker answer never takes a stronger one's place in between.

use crate::StoreError;
use seawall_core::cache_policy::{CacheKey, KeptAnswer, NewAnswer, StoreDecision};
use seawall_core::time::UtcTime;
use std::future::Future;

/// An answer that was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredAnswer {
    /// Its text.
    pub text: Box<str>,
    /// Who gave it, and when.
    pub kept: KeptAnswer,
}

/// Answers by what they answer.
pub trait Answers: Send + Sync {
    /// What lies there, as long as it can be served at all.
    fn load(
        &self,
        key: &CacheKey,
        now: UtcTime,
    ) -> impl Future<Output = Result<Option<StoredAnswer>, StoreError>> + Send;

    /// Keeps an answer, unless it should not be.
    fn store(
        &self,
        key: &CacheKey,
        answer: &NewAnswer<'_>,
        now: UtcTime,
    ) -> impl Future<Output = Result<StoreDecision, StoreError>> + Send;
}
