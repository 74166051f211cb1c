//! Decides which answers are stored.

use super::age::{CacheAges, KeptAnswer};
use crate::setting::{SettingError, at_least_one};
use crate::time::UtcTime;
use crate::vocabulary::{Grade, words};

words! {
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
        WantsTool = "wants_tool",
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
pub enum StoreDecision {
    /// Store it and replace any cached answer.
    Store,
    /// Do not store it.
    Refuse(StoreRefusal),
}

/// Why an answer is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreRefusal {
    /// It did not finish cleanly.
    NotFinished(AnswerEnd),
    /// It is empty.
    Empty,
    /// It exceeds the size limit.
    TooLong {
        /// The size limit in bytes.
        largest: usize,
    },
    /// A cached answer of a higher grade can still be served.
    StrongerLives,
}

/// Settings before validation; see [`StoreOptions::check`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreOptions {
    /// Maximum size of a stored answer, in bytes.
    pub largest_text: usize,
}

impl Default for StoreOptions {
    /// 16 KiB, several times the maximum chat answer.
    fn default() -> Self {
        Self { largest_text: 16 * 1_024 }
    }
}

impl StoreOptions {
    /// Fails on a size limit of zero.
    pub fn check(self, ages: CacheAges) -> Result<StoreRule, SettingError> {
        at_least_one("largest_text", self.largest_text as u64)?;
        Ok(StoreRule { largest_text: self.largest_text, ages })
    }
}

/// Decides which answers are stored.
///
/// ```
/// use seawall_core::cache_policy::*;
/// use seawall_core::time::UtcTime;
/// use seawall_core::vocabulary::Grade;
///
/// let rule = StoreOptions::default().check(CacheAgeOptions::default().check().unwrap()).unwrap();
/// let now = UtcTime::from_civil(2026, 11, 15);
/// let answer = NewAnswer { text: "Within two days.", end: AnswerEnd::Finished, grade: Grade::Fast };
/// assert_eq!(rule.decide(&answer, None, now), StoreDecision::Store);
///
/// let strong = KeptAnswer { grade: Grade::Strong, stored_at: now };
/// let decision = rule.decide(&answer, Some(&strong), now);
/// assert_eq!(decision, StoreDecision::Refuse(StoreRefusal::StrongerLives));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreRule {
    largest_text: usize,
    ages: CacheAges,
}

impl StoreRule {
    /// Whether to store this answer. A cached answer of a higher grade takes precedence for as long as it could be
    /// served at all, stale included.
    #[must_use]
    pub fn decide(&self, answer: &NewAnswer<'_>, there: Option<&KeptAnswer>, now: UtcTime) -> StoreDecision {
        let stronger_lives =
            there.is_some_and(|kept| kept.grade > answer.grade && self.ages.is_alive(kept, now));
        let refusal = if answer.end != AnswerEnd::Finished {
            StoreRefusal::NotFinished(answer.end)
        } else if answer.text.trim().is_empty() {
            StoreRefusal::Empty
        } else if answer.text.len() > self.largest_text {
            StoreRefusal::TooLong { largest: self.largest_text }
        } else if stronger_lives {
            StoreRefusal::StrongerLives
        } else {
            return StoreDecision::Store;
        };
        StoreDecision::Refuse(refusal)
    }
}
