//! The answer cache as the assistant uses it.

use seawall_core::cache_policy::{AnswerEnd, CacheKey, KeyParts, NewAnswer, Question};
use seawall_core::time::UtcTime;
use seawall_core::vocabulary::Grade;
use seawall_store::{MemoryAnswers, StoredAnswer};
use seawall_wire::chat::FinishReason;
use seawall_wire::chat_face::ChatFaceRequest;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// A cache lookup in progress.
pub type PendingLookup<'a> = Pin<Box<dyn Future<Output = Option<StoredAnswer>> + Send + 'a>>;

/// The answer cache.
pub trait AnswerCache: Send + Sync {
    /// Looks an answer up; `None` on a miss, on an error, and if the store does not respond in time.
    fn load<'a>(&'a self, key: &'a CacheKey, now: UtcTime) -> PendingLookup<'a>;

    /// Stores an answer if the cache policy allows it. Must not block: the write reaches the store in the background.
    fn store(&self, key: CacheKey, text: Arc<str>, end: AnswerEnd, grade: Grade, now: UtcTime);
}

/// The in-memory cache completes every operation without waiting.
impl AnswerCache for MemoryAnswers {
    fn load<'a>(&'a self, key: &'a CacheKey, now: UtcTime) -> PendingLookup<'a> {
        Box::pin(async move { seawall_store::Answers::load(self, key, now).await.ok().flatten() })
    }

    fn store(&self, key: CacheKey, text: Arc<str>, end: AnswerEnd, grade: Grade, now: UtcTime) {
        let answer = NewAnswer { text: &text, end, grade };
        // An answer cache in memory waits for nothing.
        let _ = seawall_store::Answers::store(self, &key, &answer, now).now_or_never();
    }
}

/// The parts of a cache key besides the question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CacheVersions {
    pub(crate) route: Arc<str>,
    pub(crate) prompt: Arc<str>,
    pub(crate) catalogue: Arc<str>,
}

/// A question with everything that its cache key is made of.
#[derive(Clone, Debug)]
pub(crate) struct CacheableQuestion {
    message: String,
    locale: String,
    /// A digest of the conversation so far.
    history: String,
    /// The caller, for answers that must not be shared.
    caller: String,
    versions: CacheVersions,
}

impl CacheableQuestion {
    pub(crate) fn new(
        request: &ChatFaceRequest,
        history: String,
        caller: u64,
        versions: CacheVersions,
    ) -> Self {
        let (message, locale) = (request.message.clone(), request.locale.clone());
        Self { message, locale, history, caller: format!("{caller:016x}"), versions }
    }

    /// The intent is not classified yet, so the question is treated as private to its caller.
    fn question(&self) -> Question<'_> {
        let (text, history) = (self.message.as_str(), self.history.as_str());
        Question { intent: "unknown", is_context_free: false, text, history, uses_account: false }
    }

    fn parts(&self) -> KeyParts<'_> {
        KeyParts {
            route: &self.versions.route,
            locale: &self.locale,
            prompt_version: &self.versions.prompt,
            catalogue_version: &self.versions.catalogue,
        }
    }

    /// The key to look an answer up with.
    pub(crate) fn key(&self) -> Option<CacheKey> {
        CacheKey::of(&self.question(), &self.caller, &self.parts())
    }

    /// The key to store this answer under.
    pub(crate) fn key_for(&self, answer: &str) -> Option<CacheKey> {
        CacheKey::for_answer(&self.question(), answer, &self.caller, &self.parts())
    }
}

/// Maps a finish reason to what the cache policy distinguishes.
pub(crate) const fn answer_end(finish: Option<FinishReason>) -> AnswerEnd {
    match finish {
        Some(FinishReason::EndTurn | FinishReason::StopSequence) => AnswerEnd::Finished,
        Some(FinishReason::MaxTokens | FinishReason::ContextWindowExceeded | FinishReason::PauseTurn) => {
            AnswerEnd::CutAtLimit
        }
        Some(FinishReason::Refusal) => AnswerEnd::Refused,
        Some(FinishReason::ToolUse) => AnswerEnd::ToolUse,
        Some(FinishReason::Other) | None => AnswerEnd::Unknown,
    }
}
