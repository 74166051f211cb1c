//! Decides whether an answer is public or private to its caller.

use super::personal::{PersonalData, personal_data};
use crate::vocabulary::Intent;

/// The properties of a question that the cache depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question<'a> {
    /// The intent.
    pub intent: Intent,
    /// The text of the question.
    pub text: &'a str,
    /// A digest of the earlier turns; empty if there are none.
    pub history: &'a str,
    /// Whether account data goes into the prompt: cart, orders, profile.
    pub uses_account: bool,
}

/// Which callers may see an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScopeDecision {
    /// All callers that ask the same question.
    Public,
    /// Only the caller that asked.
    Private(PrivateReason),
}

/// Why an answer is private.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrivateReason {
    /// The intent is personal or unknown.
    Intent,
    /// It depends on earlier turns.
    History,
    /// Account data went into the prompt.
    Account,
    /// The question contains personal data.
    Question(PersonalData),
    /// The answer contains personal data.
    Answer(PersonalData),
}

impl Question<'_> {
    /// The scope, as far as the question determines it.
    #[must_use]
    pub fn scope(&self) -> ScopeDecision {
        let reason = if !is_caller_independent(self.intent) {
            PrivateReason::Intent
        } else if !self.history.is_empty() {
            PrivateReason::History
        } else if self.uses_account {
            PrivateReason::Account
        } else if let Some(data) = personal_data(self.text) {
            PrivateReason::Question(data)
        } else {
            return ScopeDecision::Public;
        };
        ScopeDecision::Private(reason)
    }

    /// The scope of this answer.
    #[must_use]
    pub fn scope_of_answer(&self, answer: &str) -> ScopeDecision {
        match (self.scope(), personal_data(answer)) {
            (ScopeDecision::Public, Some(data)) => ScopeDecision::Private(PrivateReason::Answer(data)),
            (scope, _) => scope,
        }
    }
}

/// Whether an intent has the same answer for all callers.
const fn is_caller_independent(intent: Intent) -> bool {
    match intent {
        Intent::Faq | Intent::ProductDiscovery | Intent::ProductQuestion | Intent::Promotion => true,
        Intent::Recommendation | Intent::Order | Intent::Chitchat | Intent::Unknown => false,
    }
}
