//! Decides which answers are stored.

use super::age::{CacheAges, CachedAnswer};
use crate::setting::{SettingError, at_least_one};
use crate::time::UtcTime;
use crate::vocabulary::{Grade, named_enum};

named_enum! {
    /// How an answer ended.
    pub enum AnswerEnd as "answer end" {
        /// The model finished.
        Finished = "finished",
        /// Cut off at a length limit.
        CutAtLimit = "cut_at_limit",
        /// The model declined to answer.
        Refused = "refused",
        /// A guardrail changed or blocked it.
        Filtered = "filtered",
        /// The model requests a tool call.
        ToolUse = "tool_use",
        /// The stream was cut off.
        Interrupted = "interrupted",
        /// The end is unknown.
        Unknown = "unknown",
    }
}

/// An answer that has just ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewAnswer<'a> {
    /// The complete text.
    pub text: &'a str,
    /// How it ended.
    pub end: AnswerEnd,
    /// The grade of the model that generated it.
    pub grade: Grade,
}

/// Whether to store an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheStoreDecision {
    /// Store it and replace any cached answer.
    Store,
    /// Do not store it.
    Refuse(CacheStoreRefusal),
}

/// Why an answer is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheStoreRefusal {
    /// It did not finish cleanly.
    NotFinished(AnswerEnd),
    /// It is empty.
    Empty,
    /// It exceeds the size limit.
    TooLong {
        /// The size limit in bytes.
        max: usize,
    },
    /// A cached answer of a higher grade can still be served.
    StrongerCached,
}

/// Settings before validation; see [`CacheStoreOptions::check`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheStoreOptions {
    /// Maximum size of a stored answer, in bytes.
    pub max_answer_size: usize,
}

impl Default for CacheStoreOptions {
    /// 16 KiB, several times the maximum chat answer.
    fn default() -> Self {
        Self { max_answer_size: 16 * 1_024 }
    }
}

impl CacheStoreOptions {
    /// Fails on a size limit of zero.
    pub fn check(self, ages: CacheAges) -> Result<CacheStoreRule, SettingError> {
        at_least_one("max_answer_size", self.max_answer_size as u64)?;
        Ok(CacheStoreRule { max_answer_size: self.max_answer_size, ages })
    }
}

/// Decides which answers are stored.
///
/// ```
/// use seawall_core::cache_policy::*;
/// use seawall_core::time::UtcTime;
/// use seawall_core::vocabulary::Grade;
///
/// let rule = CacheStoreOptions::default().check(CacheAgeOptions::default().check().unwrap()).unwrap();
/// let now = UtcTime::from_civil(2026, 11, 15);
/// let answer = NewAnswer { text: "Within two days.", end: AnswerEnd::Finished, grade: Grade::Fast };
/// assert_eq!(rule.decide(&answer, None, now), CacheStoreDecision::Store);
///
/// let strong = CachedAnswer { grade: Grade::Strong, stored_at: now };
/// let decision = rule.decide(&answer, Some(&strong), now);
/// assert_eq!(decision, CacheStoreDecision::Refuse(CacheStoreRefusal::StrongerCached));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheStoreRule {
    max_answer_size: usize,
    ages: CacheAges,
}

impl CacheStoreRule {
    /// Whether to store this answer. A cached answer of a higher grade takes precedence for as long as it could be
    /// served at all, stale included.
    #[must_use]
    pub fn decide(
        &self,
        answer: &NewAnswer<'_>,
        present: Option<&CachedAnswer>,
        now: UtcTime,
    ) -> CacheStoreDecision {
        let has_stronger =
            present.is_some_and(|cached| cached.grade > answer.grade && self.ages.is_servable(cached, now));
        let refusal = if answer.end != AnswerEnd::Finished {
            CacheStoreRefusal::NotFinished(answer.end)
        } else if answer.text.trim().is_empty() {
            CacheStoreRefusal::Empty
        } else if answer.text.len() > self.max_answer_size {
            CacheStoreRefusal::TooLong { max: self.max_answer_size }
        } else if has_stronger {
            CacheStoreRefusal::StrongerCached
        } else {
            return CacheStoreDecision::Store;
        };
        CacheStoreDecision::Refuse(refusal)
    }
}
