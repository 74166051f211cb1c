//! Decides whether an answer is public or private to its caller.

use super::personal::{PersonalData, personal_data};

/// The properties of a question that the cache depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question<'a> {
    /// The name of the intent, which is part of the key.
    pub intent: &'a str,
    /// Whether the intent has the same answer for all callers. Not so for an unknown intent.
    pub is_context_free: bool,
    /// The text of the question.
    pub text: &'a str,
    /// A digest of the earlier turns; empty if there are none.
    pub history: &'a str,
    /// Whether data of the caller's account goes into the prompt.
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
    /// The intent is unknown, or its answers depend on the caller.
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
        let reason = if !self.is_context_free {
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
