//! What the caller must mend before there can be an answer.

use super::ChatText;
use super::event::seconds;
use super::json::JsonObject;
use crate::speech::RefusalReply;
use bytes::Bytes;
use seawall_core::strategy::Language;
use seawall_wire::{Dialect, Refusal, RetryAdvice, openai};

/// The header in which a caller finds what the request is called.
pub(crate) const REQUEST_ID_HEADER: &str = "x-request-id";

/// A refusal of our own face. Only what is the caller's to mend should be refused: everything else is answered, if only with
/// an apology.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChatRefusal<'a> {
    /// Why.
    pub refusal: Refusal,
    /// What we speak to this caller.
    pub language: Language,
    /// What exactly is wrong, for whoever writes the caller's program: in English.
    pub detail: Option<&'a str>,
    /// The limit that has no room.
    pub limit: Option<&'a str>,
    /// What the request is called.
    pub request_id: &'a str,
    /// What the caller is told about coming back.
    pub advice: RetryAdvice,
}

impl ChatRefusal<'_> {
    /// The refusal as it is written out.
    #[must_use]
    pub fn reply(&self) -> RefusalReply {
        self.reply_in(ChatText::of_refusal(self.refusal).words(self.language))
    }

    /// The same in words of the path's.
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
        // Whose libraries it is decides nothing here: these are the headers that all of them read.
        headers.extend(advice.headers(Dialect::OpenAi));
        RefusalReply { status: openai::status_of(refusal), headers, body: Bytes::from(body.finish()) }
    }
}

/// The code by which a program tells refusals apart.
#[must_use]
pub const fn refusal_code(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Malformed => "INVALID_REQUEST",
        Refusal::Unauthenticated => "UNAUTHENTICATED",
        Refusal::Forbidden => "FORBIDDEN",
        Refusal::NotFound => "NOT_FOUND",
        Refusal::TooLarge => "INPUT_TOO_LARGE",
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
