//! An answer, and how it came about.

use super::event::{seconds, text_event};
use super::json::JsonObject;
use bytes::{Bytes, BytesMut};
use seawall_core::cache_policy::Confidence;
use seawall_core::money::{Money, Usage};
use seawall_core::vocabulary::Rung;
use seawall_wire::chat::FinishReason;
use seawall_wire::sse::write_event;
use std::time::Duration;

const NANOS_PER_DOLLAR: u64 = 1_000_000_000;

/// How sure an answer from this rung is. A prepared answer and that to a frequent question were both written before anybody
/// asked.
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
    /// Everything was said.
    Finished,
    /// There was more to say than could be.
    Length,
    /// It passed the output that was reserved for it, and was stopped.
    Budget,
    /// A guardrail of ours stood before it; the text is ours.
    Blocked,
    /// The model, or its vendor, declined.
    Refused,
}

impl ChatFinish {
    /// Why a model stopped, in these words. A reason that is not known is no reason to doubt a complete answer.
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

    /// The name in the reply.
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

/// An answer, and how it came about. How sure it is, and whether it is less than the best or older than it should be, follows
/// from the rung.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatReply {
    /// The whole text. The end of a stream does not repeat it.
    pub answer: String,
    /// Which way of answering it was.
    pub rung: Rung,
    /// Why no better one.
    pub reasons: Vec<String>,
    /// What the request is called: the caller's own name for it, or ours.
    pub request_id: String,
    /// The caller's name for the conversation.
    pub session: Option<String>,
    /// The tokens it used.
    pub usage: Usage,
    /// What they cost.
    pub cost: Money,
    /// Who answered, where it was a model.
    pub target: Option<String>,
    /// How it ended.
    pub finish: ChatFinish,
    /// When to come back, where that helps.
    pub retry_after: Option<Duration>,
}

impl ChatReply {
    /// The body of a whole answer.
    #[must_use]
    pub fn body(&self) -> Bytes {
        Bytes::from(self.told(JsonObject::new().text("answer", &self.answer)))
    }

    /// The end of a streamed answer.
    #[must_use]
    pub fn done_event(&self) -> Bytes {
        let mut out = BytesMut::new();
        self.put_done(&mut out);
        out.freeze()
    }

    /// The whole stream of an answer that is there at once: its text, and its end.
    #[must_use]
    pub fn events(&self) -> Bytes {
        let mut out = BytesMut::new();
        if !self.answer.is_empty() {
            text_event(&mut out, &self.answer);
        }
        self.put_done(&mut out);
        out.freeze()
    }

    fn put_done(&self, out: &mut BytesMut) {
        write_event(out, "done", self.told(JsonObject::new()).as_bytes());
    }

    fn told(&self, object: JsonObject) -> String {
        let usage =
            JsonObject::new().number("input", self.usage.total_input()).number("output", self.usage.output);
        object
            .text("rung", self.rung.name())
            .thousandths("confidence", confidence(self.rung).thousandths())
            .truth("degraded", self.rung != Rung::StrongModel)
            .texts("reasons", &self.reasons)
            .truth("stale", self.rung == Rung::StaleCache)
            .text("request_id", &self.request_id)
            .maybe(self.session.as_deref(), |object, session| object.text("session", session))
            .object("usage", usage)
            .text("cost", &dollars(self.cost))
            .maybe(self.target.as_deref(), |object, target| object.text("target", target))
            .text("finish", self.finish.name())
            .maybe(self.retry_after, |object, wait| object.number("retry_after", seconds(wait)))
            .finish()
    }
}

/// Dollars with all nine decimals, so that nothing is lost in anybody's floating point.
fn dollars(amount: Money) -> String {
    let nanos = amount.as_nanos();
    format!("{}.{:09}", nanos / NANOS_PER_DOLLAR, nanos % NANOS_PER_DOLLAR)
}
