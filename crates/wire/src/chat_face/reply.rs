//! Replies of the chat face.

use super::ChatReplyEvent;
use super::event::seconds;
use super::json::JsonObject;
use crate::chat::FinishReason;
use crate::sse::write_event;
use bytes::{Bytes, BytesMut};
use seawall_core::cache_policy::Confidence;
use seawall_core::money::{Money, Usage};
use seawall_core::vocabulary::Rung;
use std::time::Duration;

const NANOS_PER_DOLLAR: u64 = 1_000_000_000;

/// The confidence of an answer from this rung. Templates and FAQ answers share a value: both were written before the
/// question was asked.
#[must_use]
pub const fn confidence(rung: Rung) -> Confidence {
    match rung {
        Rung::StrongModel => Confidence::of_thousandths(1_000),
        Rung::FastModel => Confidence::of_thousandths(700),
        Rung::FreshCache => Confidence::FRESH_CACHE,
        Rung::StaleCache => Confidence::STALE_CACHE,
        Rung::Template | Rung::Faq => Confidence::of_thousandths(300),
        Rung::Apology => Confidence::of_thousandths(100),
    }
}

/// How an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChatFinish {
    /// The answer is complete.
    Finished,
    /// The answer reached its output limit.
    Length,
    /// The gateway cut the answer because it exceeded its reserved output.
    Budget,
    /// A guardrail of the gateway blocked it; the text is a prepared one.
    Blocked,
    /// The model or its vendor declined.
    Refused,
}

impl ChatFinish {
    /// Maps a model's finish reason. An unknown reason counts as complete.
    #[must_use]
    pub const fn of(finish: FinishReason) -> Self {
        match finish {
            FinishReason::EndTurn
            | FinishReason::StopSequence
            | FinishReason::ToolUse
            | FinishReason::Other => Self::Finished,
            FinishReason::MaxTokens | FinishReason::ContextWindowExceeded | FinishReason::PauseTurn => {
                Self::Length
            }
            FinishReason::Refusal => Self::Refused,
        }
    }

    /// The value in the reply.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Length => "length",
            Self::Budget => "budget",
            Self::Blocked => "blocked",
            Self::Refused => "refused",
        }
    }
}

/// An answer and how it was produced. Its confidence, and whether it is degraded or stale, follow from the rung.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatReply {
    /// The complete text. The final event of a stream does not repeat it.
    pub answer: String,
    /// The rung that answered.
    pub rung: Rung,
    /// Why no better rung answered.
    pub reasons: Vec<String>,
    /// The request ID: the caller's own, or the gateway's.
    pub request_id: String,
    /// The caller's session ID.
    pub session: Option<String>,
    /// The tokens used.
    pub usage: Usage,
    /// The cost of the tokens.
    pub cost: Money,
    /// The target that answered, if it was a model.
    pub target: Option<String>,
    /// How the answer ended.
    pub finish: ChatFinish,
    /// When to retry, if that helps.
    pub retry_after: Option<Duration>,
}

impl ChatReply {
    /// The body of an unstreamed answer.
    #[must_use]
    pub fn body(&self) -> Bytes {
        Bytes::from(self.write_fields(JsonObject::new().text("answer", &self.answer)))
    }

    /// The events of an answer that is already complete: its text and the end.
    #[must_use]
    pub fn into_events(self) -> Vec<ChatReplyEvent> {
        let text = (!self.answer.is_empty()).then(|| ChatReplyEvent::Text(self.answer.clone()));
        text.into_iter().chain([ChatReplyEvent::Done(Box::new(self))]).collect()
    }

    /// Appends the final event of a streamed answer.
    pub(super) fn write_done(&self, out: &mut BytesMut) {
        write_event(out, "done", self.write_fields(JsonObject::new()).as_bytes());
    }

    fn write_fields(&self, object: JsonObject) -> String {
        let usage =
            JsonObject::new().number("input", self.usage.total_input()).number("output", self.usage.output);
        object
            .text("rung", self.rung.name())
            .thousandths("confidence", confidence(self.rung).thousandths())
            .boolean("degraded", self.rung != Rung::StrongModel)
            .strings("reasons", &self.reasons)
            .boolean("stale", self.rung == Rung::StaleCache)
            .text("request_id", &self.request_id)
            .optional(self.session.as_deref(), |object, session| object.text("session", session))
            .object("usage", usage)
            .text("cost", &dollars(self.cost))
            .optional(self.target.as_deref(), |object, target| object.text("target", target))
            .text("finish", self.finish.name())
            .optional(self.retry_after, |object, wait| object.number("retry_after", seconds(wait)))
            .finish()
    }
}

/// Dollars with all nine decimals, as a string, so that no floating-point parser loses precision.
fn dollars(amount: Money) -> String {
    let nanos = amount.as_nanos();
    format!("{}.{:09}", nanos / NANOS_PER_DOLLAR, nanos % NANOS_PER_DOLLAR)
}
