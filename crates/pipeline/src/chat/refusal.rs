//! Error responses of the chat face.

use super::ChatText;
use super::event::seconds;
use super::json::JsonObject;
use crate::speech::RefusalReply;
use bytes::Bytes;
use seawall_core::strategy::Language;
use seawall_wire::{Dialect, Refusal, RetryAdvice, openai};

/// The response header with the request ID.
pub(crate) const REQUEST_ID_HEADER: &str = "x-request-id";

/// An error response of the chat face. Use it only for errors that the caller can fix: everything else is answered, if
/// only with an apology.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChatRefusal<'a> {
    /// The kind of refusal.
    pub refusal: Refusal,
    /// The language of the message.
    pub language: Language,
    /// Technical details for the developer of the client, in English.
    pub detail: Option<&'a str>,
    /// The name of the exhausted limit.
    pub limit: Option<&'a str>,
    /// The request ID.
    pub request_id: &'a str,
    /// The retry advice.
    pub advice: RetryAdvice,
}

impl ChatRefusal<'_> {
    /// Renders the response.
    #[must_use]
    pub fn reply(&self) -> RefusalReply {
        self.reply_in(ChatText::of_refusal(self.refusal).words(self.language))
    }

    /// Renders the response with the pipeline's own message.
    pub(crate) fn reply_in(&self, words: &str) -> RefusalReply {
        let Self { refusal, detail, limit, request_id, advice, .. } = *self;
        let body = JsonObject::new()
            .text("code", refusal_code(refusal))
            .text("message", words)
            .maybe(detail, |object, detail| object.text("detail", detail))
            .maybe(limit, |object, limit| object.text("limit", limit))
            .text("request_id", request_id)
            .maybe(advice.wait, |object, wait| object.number("retry_after", seconds(wait)))
            .maybe(advice.should_retry, |object, should| object.truth("should_retry", should));
        let mut headers =
            vec![("content-type", "application/json".to_owned()), (REQUEST_ID_HEADER, request_id.to_owned())];
        // The dialect is irrelevant here: all client libraries read these headers.
        headers.extend(advice.headers(Dialect::OpenAi));
        RefusalReply { status: openai::status_of(refusal), headers, body: Bytes::from(body.finish()) }
    }
}

/// The machine-readable error code.
#[must_use]
pub const fn refusal_code(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Malformed => "INVALID_REQUEST",
        Refusal::Unauthenticated => "UNAUTHENTICATED",
        Refusal::Forbidden => "FORBIDDEN",
        Refusal::NotFound | Refusal::UnknownPath => "NOT_FOUND",
        Refusal::TooLarge | Refusal::ContextLength => "INPUT_TOO_LARGE",
        Refusal::Conflict => "CONFLICT",
        Refusal::OutcomeUnknown => "OUTCOME_UNKNOWN",
        Refusal::Throttled => "RATE_LIMITED",
        Refusal::OutOfBudget => "BUDGET_SPENT",
        Refusal::BudgetHeld => "BUDGET_HELD",
        Refusal::ExceedsBudget => "EXCEEDS_REMAINING_BUDGET",
        Refusal::SwitchedOff => "SWITCHED_OFF",
        Refusal::Overloaded => "OVERLOADED",
        Refusal::TimedOut => "TIMED_OUT",
        Refusal::Internal => "INTERNAL",
    }
}
