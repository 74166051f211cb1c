//! Answers that were kept, as the path looks for them and puts them back.

use crate::chat::ChatAsk;
use seawall_core::cache_policy::{AnswerEnd, CacheKey, KeyParts, NewAnswer, Question};
use seawall_core::time::UtcTime;
use seawall_core::vocabulary::{Grade, Intent};
use seawall_store::{Answers as _, MemoryAnswers, StoredAnswer};
use seawall_wire::chat::FinishReason;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Waker};

/// A look for a kept answer that is under way.
pub type Looking<'a> = Pin<Box<dyn Future<Output = Option<StoredAnswer>> + Send + 'a>>;

/// Where answers are kept.
pub trait Shelf: Send + Sync {
    /// What lies there; nothing where nobody can say in time.
    fn load<'a>(&'a self, key: &'a CacheKey, now: UtcTime) -> Looking<'a>;

    /// Keeps an answer, unless it should not be. Must not wait: it is carried to its place by others.
    fn keep(&self, key: CacheKey, text: Arc<str>, end: AnswerEnd, grade: Grade, now: UtcTime);
}

/// A shelf in memory needs no waiting.
impl Shelf for MemoryAnswers {
    fn load<'a>(&'a self, key: &'a CacheKey, now: UtcTime) -> Looking<'a> {
        Box::pin(async move { seawall_store::Answers::load(self, key, now).await.ok().flatten() })
    }

    fn keep(&self, key: CacheKey, text: Arc<str>, end: AnswerEnd, grade: Grade, now: UtcTime) {
        let answer = NewAnswer { text: &text, end, grade };
        // Ready at the first look.
        let _ = pin!(self.store(&key, &answer, now)).poll(&mut Context::from_waker(Waker::noop()));
    }
}

/// What an answer depends on besides the question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Versions {
    pub(crate) route: Arc<str>,
    pub(crate) prompt: Arc<str>,
    pub(crate) catalogue: Arc<str>,
}

/// A question as the shelf knows it.
#[derive(Clone, Debug)]
pub(crate) struct KeptQuestion {
    message: String,
    locale: String,
    /// A digest of what was said before.
    history: String,
    /// Its caller, for what is nobody else's business.
    caller: String,
    versions: Versions,
}

impl KeptQuestion {
    pub(crate) fn new(ask: &ChatAsk, history: String, caller: u64, versions: Versions) -> Self {
        let (message, locale) = (ask.message.clone(), ask.locale.clone());
        Self { message, locale, history, caller: format!("{caller:016x}"), versions }
    }

    /// What it is about is told by a later stage of the shop's; until then it is its caller's own.
    fn question(&self) -> Question<'_> {
        Question { intent: Intent::Unknown, text: &self.message, history: &self.history, uses_account: false }
    }

    fn parts(&self) -> KeyParts<'_> {
        KeyParts {
            route: &self.versions.route,
            locale: &self.locale,
            prompt_version: &self.versions.prompt,
            catalogue_version: &self.versions.catalogue,
        }
    }

    /// Where an answer to it may lie.
    pub(crate) fn key(&self) -> Option<CacheKey> {
        CacheKey::of(&self.question(), &self.caller, &self.parts())
    }

    /// Where this answer may be kept.
    pub(crate) fn key_for(&self, answer: &str) -> Option<CacheKey> {
        CacheKey::for_answer(&self.question(), answer, &self.caller, &self.parts())
    }
}

/// How an answer ended, as the shelf wants to know it.
pub(crate) const fn end_of(finish: Option<FinishReason>) -> AnswerEnd {
    match finish {
        Some(FinishReason::EndTurn | FinishReason::StopSequence) => AnswerEnd::Finished,
        Some(FinishReason::MaxTokens | FinishReason::ContextWindowExceeded | FinishReason::PauseTurn) => {
            AnswerEnd::CutAtLimit
        }
        Some(FinishReason::Refusal) => AnswerEnd::Refused,
        Some(FinishReason::ToolUse) => AnswerEnd::WantsTool,
        Some(FinishReason::Other) | None => AnswerEnd::Unknown,
    }
}
