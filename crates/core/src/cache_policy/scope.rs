//! Who may see an answer.

use super::personal::{PersonalData, personal_data};
use crate::vocabulary::Intent;

/// A question, as far as the cache must know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question<'a> {
    /// What it is about.
    pub intent: Intent,
    /// Its words.
    pub text: &'a str,
    /// A digest of what was said before; empty when nothing was.
    pub history: &'a str,
    /// Whether something of the caller's account goes into the prompt: cart, orders, profile.
    pub uses_account: bool,
}

/// Who may see an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScopeDecision {
    /// Everybody who asks the same.
    Public,
    /// Its caller alone.
    Private(PrivateReason),
}

/// Why an answer is for its caller alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrivateReason {
    /// The kind of question is personal, or unknown.
    Intent,
    /// It depends on what was said before.
    History,
    /// Something of the caller's account went into it.
    Account,
    /// The question looks personal.
    Question(PersonalData),
    /// The answer looks personal.
    Answer(PersonalData),
}

impl Question<'_> {
    /// Who may see an answer, as far as the question tells.
    #[must_use]
    pub fn scope(&self) -> ScopeDecision {
        let reason = if !is_for_everybody(self.intent) {
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

    /// Who may see this answer.
    #[must_use]
    pub fn scope_of_answer(&self, answer: &str) -> ScopeDecision {
        match (self.scope(), personal_data(answer)) {
            (ScopeDecision::Public, Some(data)) => ScopeDecision::Private(PrivateReason::Answer(data)),
            (scope, _) => scope,
        }
    }
}

/// Whether a kind of question has one answer for all.
const fn is_for_everybody(intent: Intent) -> bool {
    match intent {
        Intent::Faq | Intent::ProductDiscovery | Intent::ProductQuestion | Intent::Promotion => true,
        Intent::Recommendation | Intent::Order | Intent::Chitchat | Intent::Unknown => false,
    }
}
