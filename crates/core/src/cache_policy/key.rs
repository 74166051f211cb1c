//! What an answer is kept under.

use super::scope::{Question, ScopeDecision};
use super::text::normalise;

/// What else an answer depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyParts<'a> {
    /// The route that the request came in on.
    pub route: &'a str,
    /// The caller's locale; the case of its letters does not matter.
    pub locale: &'a str,
    /// The version of the prompt.
    pub prompt_version: &'a str,
    /// The version of what is sold, and at which price.
    pub catalogue_version: &'a str,
}

/// The name of a place in the cache, as bytes that a store may hash as it likes.
///
/// One byte for the version of this encoding (1), one for the namespace (0 public, 1 one caller's), then caller, route,
/// locale, intent, normalised text, history, prompt version and catalogue version, each behind its length in eight
/// bytes, so that no field can pretend to be another. The grade is no part of it: it is kept with the answer.
///
/// A public key can only be had for a question that may be public; nobody can ask for one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CacheKey(Box<[u8]>);

const VERSION: u8 = 1;
const PUBLIC: u8 = 0;
const PRIVATE: u8 = 1;

impl CacheKey {
    /// Where an answer to this question may lie. None when it is private and the caller has no name.
    #[must_use]
    pub fn of(question: &Question<'_>, caller: &str, parts: &KeyParts<'_>) -> Option<Self> {
        Self::within(question.scope(), question, caller, parts)
    }

    /// Where this answer may be kept. It differs from where the question was looked up when the answer turned out to
    /// be personal.
    #[must_use]
    pub fn for_answer(
        question: &Question<'_>,
        answer: &str,
        caller: &str,
        parts: &KeyParts<'_>,
    ) -> Option<Self> {
        Self::within(question.scope_of_answer(answer), question, caller, parts)
    }

    fn within(
        scope: ScopeDecision,
        question: &Question<'_>,
        caller: &str,
        parts: &KeyParts<'_>,
    ) -> Option<Self> {
        let (namespace, caller) = match scope {
            ScopeDecision::Public => (PUBLIC, ""),
            ScopeDecision::Private(_) if caller.is_empty() => return None,
            ScopeDecision::Private(_) => (PRIVATE, caller),
        };
        let (locale, text) = (parts.locale.to_ascii_lowercase(), normalise(question.text));
        let fields = [
            caller,
            parts.route,
            &locale,
            question.intent.name(),
            &text,
            question.history,
            parts.prompt_version,
            parts.catalogue_version,
        ];
        let mut bytes = vec![VERSION, namespace];
        for field in fields {
            bytes.extend_from_slice(&(field.len() as u64).to_be_bytes());
            bytes.extend_from_slice(field.as_bytes());
        }
        Some(Self(bytes.into()))
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether everybody who asks the same has this key.
    #[must_use]
    pub fn is_public(&self) -> bool {
        self.0.get(1) == Some(&PUBLIC)
    }
}
