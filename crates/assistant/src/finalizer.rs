//! What is done with a model's answer when it ends: the final event, the cache entry and the waiters of the flight.

use crate::answer_cache::{CacheableQuestion, answer_end};
use crate::rules::ChatRules;
use crate::single_flight::FlightLeader;
use crate::texts::ChatText;
use seawall_core::cache_policy::AnswerEnd;
use seawall_core::money::{Money, Usage};
use seawall_core::runtime::Runtime;
use seawall_core::strategy::Language;
use seawall_core::vocabulary::{Grade, Rung};
use seawall_wire::chat::FinishReason;
use seawall_wire::chat_face::{ChatFinish, ChatReply};
use std::sync::Arc;

/// The reason reported when a model or its vendor declined to answer.
pub(crate) const VENDOR_GUARDRAIL: &str = "guardrail:vendor";

/// Maximum bytes of text that are kept of an answer. A longer answer is not cached, and is a failure if the caller wants
/// it unstreamed.
const MAX_TEXT_BYTES: usize = 1 << 20;

/// State to finish a model's answer with.
pub(crate) struct ChatFinalizer<R: Runtime> {
    /// The reply without its text, usage and finish reason.
    pub(crate) reply: ChatReply,
    pub(crate) language: Language,
    pub(crate) text: String,
    /// Whether the text exceeded the maximum that is kept.
    pub(crate) is_too_long: bool,
    pub(crate) question: CacheableQuestion,
    pub(crate) rules: Arc<ChatRules>,
    pub(crate) grade: Grade,
    pub(crate) leader: Option<FlightLeader<R>>,
}

impl<R: Runtime> ChatFinalizer<R> {
    /// Adds text that the caller receives.
    pub(crate) fn push_text(&mut self, text: &str) {
        if self.text.len().saturating_add(text.len()) > MAX_TEXT_BYTES {
            self.is_too_long = true;
            self.text = String::new();
            self.fail();
        }
        if !self.is_too_long {
            self.text.push_str(text);
        }
    }

    /// Finishes a complete answer: stores it in the cache, shares it with waiting requests and completes the reply.
    pub(crate) fn finish(
        &mut self,
        runtime: &R,
        (finish, is_cut_at_limit): (Option<FinishReason>, bool),
        usage: Usage,
        cost: Money,
    ) -> &ChatReply {
        let (text, end): (Arc<str>, _) = (self.text.as_str().into(), answer_end(finish));
        let key = self.question.key_for(&text).filter(|_| !self.is_too_long);
        // If the answer turned out to be private to its caller, it is not shared.
        let may_share = key.is_some() && key == self.question.key();
        if let Some(key) = key {
            self.rules.answer_cache.store(key, Arc::clone(&text), end, self.grade, runtime.now().utc);
        }
        if let Some(leader) = self.leader.take() {
            if may_share && end == AnswerEnd::Finished { leader.answered(&text) } else { leader.failed() }
        }
        (self.reply.usage, self.reply.cost) = (usage, cost);
        self.reply.finish = finish.map_or(ChatFinish::Finished, ChatFinish::of);
        if is_cut_at_limit {
            self.reply.finish = ChatFinish::Budget;
        }
        &self.reply
    }

    /// The reply if the model or its vendor declined and nothing was sent yet: a prepared text is the answer.
    pub(crate) fn declined_reply(&mut self) -> ChatReply {
        (self.reply.rung, self.reply.target) = (Rung::Apology, None);
        self.reply.reasons.push(VENDOR_GUARDRAIL.to_owned());
        ChatText::Redirect.in_language(self.language).clone_into(&mut self.reply.answer);
        self.reply.clone()
    }

    /// Ends the flight without an answer.
    pub(crate) fn fail(&mut self) {
        if let Some(leader) = self.leader.take() {
            leader.failed();
        }
    }
}
