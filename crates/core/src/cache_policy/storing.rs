//! Which answers are kept.

use super::age::{CacheAges, KeptAnswer};
use crate::setting::{SettingError, at_least_one};
use crate::time::UtcTime;
use crate::vocabulary::{Grade, words};

words! {
    /// How an answer ended.
    pub enum AnswerEnd as "answer end" {
        /// The model had said what it had to say.
        Finished = "finished",
        /// It was cut off at a limit of length.
        CutAtLimit = "cut_at_limit",
        /// The model declined to answer.
        Refused = "refused",
        /// A guardrail changed or stopped it.
        Filtered = "filtered",
        /// It wants something done before it goes on.
        WantsTool = "wants_tool",
        /// It broke off.
        Interrupted = "interrupted",
        /// Nobody knows.
        Unknown = "unknown",
    }
}

/// An answer that has just ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewAnswer<'a> {
    /// The whole text.
    pub text: &'a str,
    /// How it ended.
    pub end: AnswerEnd,
    /// How strong the model is that gave it.
    pub grade: Grade,
}

/// Whether to keep an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreDecision {
    /// Keep it, in place of whatever is there.
    Store,
    /// Leave everything as it is.
    Refuse(StoreRefusal),
}

/// Why an answer is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreRefusal {
    /// It did not end cleanly.
    NotFinished(AnswerEnd),
    /// There is nothing in it.
    Empty,
    /// It is longer than what is kept.
    TooLong {
        /// Bytes that would have been kept.
        largest: usize,
    },
    /// A stronger model's answer is there and can still be served.
    StrongerLives,
}

/// Settings as somebody wrote them; [`StoreOptions::check`] makes them usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreOptions {
    /// Longer answers, in bytes, are not kept.
    pub largest_text: usize,
}

impl Default for StoreOptions {
    /// 16 KiB, several times what a chat answer is allowed to be.
    fn default() -> Self {
        Self { largest_text: 16 * 1_024 }
    }
}

impl StoreOptions {
    /// Refuses to keep nothing at all.
    pub fn check(self, ages: CacheAges) -> Result<StoreRule, SettingError> {
        at_least_one("largest_text", self.largest_text as u64)?;
        Ok(StoreRule { largest_text: self.largest_text, ages })
    }
}

/// Decides which answers are kept.
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
    /// Whether to keep this answer. What is there lives as long as it could be served at all, stale included.
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
