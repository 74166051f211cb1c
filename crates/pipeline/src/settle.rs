//! The last stage: what it took and what it cost.

use crate::identify::Tier;
use seawall_core::failure::FailureKind;
use seawall_core::money::{Money, TokenCounts};
use seawall_core::time::Timestamp;
use std::time::Duration;

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Answered whole.
    Answered,
    /// Broken off after text had been delivered.
    Interrupted(FailureKind),
    /// The caller went away.
    Abandoned,
    /// Refused; the word says why.
    Rejected(&'static str),
}

/// What is known of a request once it is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Our name for it.
    pub id: u64,
    /// Who asked, where that became known.
    pub caller: Option<(u64, Tier)>,
    /// Which target answered, if one did.
    pub target: Option<String>,
    /// How it ended.
    pub verdict: Verdict,
    /// Attempts made.
    pub attempts: u32,
    /// What the answering attempt used.
    pub usage: TokenCounts,
    /// What was posted for all attempts together.
    pub cost: Money,
    /// From arrival to first content, where there was any.
    pub first_content: Option<Duration>,
    /// When it was over.
    pub ended: Timestamp,
}

/// Somebody who wants to know of every request that is over. Called on the request's own task: it must not wait.
pub trait Observer: Send + Sync {
    /// A request is over.
    fn settled(&self, record: &Record);
}
