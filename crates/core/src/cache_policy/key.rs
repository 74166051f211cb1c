//! Cache keys.

use super::scope::{Question, ScopeDecision};
use super::text::normalise;

/// What an answer depends on besides the question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyParts<'a> {
    /// The route of the request.
    pub route: &'a str,
    /// The caller's locale, compared without case.
    pub locale: &'a str,
    /// Version of the prompt.
    pub prompt_version: &'a str,
    /// Version of the content that answers are based on, such as a catalogue and its prices.
    pub catalogue_version: &'a str,
}

/// A cache key, as bytes that a store may hash as it likes.
///
/// One byte for the version of this encoding (1), one for the namespace (0 public, 1 private), then caller, route,
/// locale, intent, normalised text, history, prompt version and catalogue version, each prefixed by its length in
/// eight bytes, so that no field can be mistaken for another. The grade is not part of the key: it is stored with the
/// answer.
///
/// A public key exists only for a question that may be public; callers cannot request one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CacheKey(Box<[u8]>);

const VERSION: u8 = 1;
const PUBLIC: u8 = 0;
const PRIVATE: u8 = 1;

impl CacheKey {
    /// The key for looking up an answer to this question. `None` if it is private and the caller is anonymous.
    #[must_use]
    pub fn of(question: &Question<'_>, caller: &str, parts: &KeyParts<'_>) -> Option<Self> {
        Self::within(question.scope(), question, caller, parts)
    }

    /// The key for storing this answer. It differs from the lookup key if the answer turned out to be personal.
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
            question.intent,
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

    /// The encoded key.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether the key is shared by all callers that ask the same question.
    #[must_use]
    pub fn is_public(&self) -> bool {
        self.0.get(1) == Some(&PUBLIC)
    }
}
