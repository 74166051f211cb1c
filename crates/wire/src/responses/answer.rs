//! Reads usage and finish reason from a whole answer that passes through.

use super::usage::{ResponsesUsageFields, ToolUsageFields};
use crate::answer_error::AnswerError;
use crate::chat::{FinishReason, Usage, UsageReport};
use crate::features::ServiceOption;
use crate::lenient::Lenient;
use crate::openai::read_error_message;
use crate::request::CowStr;
use seawall_core::money::PriceDimension;
use serde::Deserialize;

/// Reads usage and finish reason from a whole answer.
///
/// A response of status `failed` is an error, although its HTTP status was 200. One that is still `queued` or
/// `in_progress`, as the vendor answers `background` requests, has no usage yet and no known finish reason.
pub fn read_answer(body: &[u8]) -> Result<(UsageReport, FinishReason), AnswerError> {
    let answer: ResponseEnd<'_> = parse_answer(body)?;
    answer.check(body)?;
    Ok((answer.report(), answer.finish(OutputSeen::default())))
}

pub(super) fn parse_answer<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, AnswerError> {
    serde_json::from_slice(body).map_err(|error| AnswerError::unreadable(&error.to_string()))
}

/// The fields of a response that show how it ended and what it cost.
#[derive(Deserialize)]
pub(super) struct ResponseEnd<'a> {
    #[serde(borrow)]
    object: Option<CowStr<'a>>,
    #[serde(borrow)]
    status: Option<CowStr<'a>>,
    #[serde(borrow, default)]
    incomplete_details: Lenient<IncompleteDetails<'a>>,
    #[serde(borrow, default)]
    output: Lenient<Vec<OutputHead<'a>>>,
    #[serde(default)]
    usage: Lenient<ResponsesUsageFields>,
    #[serde(default)]
    service_tier: ServiceOption,
    #[serde(default)]
    tool_usage: Lenient<ToolUsageFields>,
}

#[derive(Deserialize)]
struct IncompleteDetails<'a> {
    #[serde(borrow)]
    reason: Option<CowStr<'a>>,
}

#[derive(Deserialize)]
struct OutputHead<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<CowStr<'a>>,
    #[serde(borrow, default)]
    content: Lenient<Vec<PartHead<'a>>>,
}

#[derive(Deserialize)]
struct PartHead<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<CowStr<'a>>,
}

impl ResponseEnd<'_> {
    /// Returns an error unless the body is a response that has not failed.
    pub(super) fn check(&self, body: &[u8]) -> Result<(), AnswerError> {
        if let Some(CowStr(object)) = &self.object
            && object != "response"
        {
            return Err(AnswerError::NotAMessage { kind: object.to_string() });
        }
        if self.object.is_none() && self.output.is_absent() {
            return Err(AnswerError::unreadable("there is no output"));
        }
        match name_in(self.status.as_ref()) {
            "failed" | "cancelled" => {
                let message = read_error_message(body);
                Err(AnswerError::unreadable(&format!("the response has failed: {message}")))
            }
            _ => Ok(()),
        }
    }

    /// The usage that the vendor reported; `None` if there is no readable usage section.
    pub(super) fn usage(&self) -> Option<Usage> {
        self.usage.get().map(|usage| self.with_extras(usage.read()))
    }

    pub(super) fn report(&self) -> UsageReport {
        let output_reported = self.usage.get().is_some_and(ResponsesUsageFields::output_reported);
        let usage = self.usage().unwrap_or_else(|| self.with_extras(Usage::default()));
        UsageReport { usage, output_reported }
    }

    fn with_extras(&self, mut usage: Usage) -> Usage {
        usage.extras.tool_uses = self.tool_usage.get().map_or(0, ToolUsageFields::billed_uses);
        usage.extras.service = self.service_tier.apply_to(usage.extras.service, PriceDimension::Tier);
        usage
    }

    /// The finish reason, given what was seen of the output before this object.
    pub(super) fn finish(&self, before: OutputSeen) -> FinishReason {
        let output = self.output.get().map(Vec::as_slice).unwrap_or_default();
        let seen = OutputSeen {
            has_call: before.has_call || output.iter().any(|item| is_call(name_in(item.kind.as_ref()))),
            has_refused: before.has_refused || output.iter().any(OutputHead::has_refused),
        };
        let details = self.incomplete_details.get();
        let reason = details.map_or("", |details| name_in(details.reason.as_ref()));
        match (name_in(self.status.as_ref()), reason) {
            ("completed", _) => seen.finish(),
            ("incomplete", "max_output_tokens") => FinishReason::MaxTokens,
            ("incomplete", "content_filter") => FinishReason::Refusal,
            _ => FinishReason::Other,
        }
    }
}

impl OutputHead<'_> {
    fn has_refused(&self) -> bool {
        let parts = self.content.get().map(Vec::as_slice).unwrap_or_default();
        parts.iter().any(|part| name_in(part.kind.as_ref()) == "refusal")
    }
}

/// What the output contains that decides the finish reason of a completed response.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OutputSeen {
    pub(super) has_call: bool,
    pub(super) has_refused: bool,
}

impl OutputSeen {
    const fn finish(self) -> FinishReason {
        match self {
            Self { has_call: true, .. } => FinishReason::ToolUse,
            Self { has_refused: true, .. } => FinishReason::Refusal,
            Self { .. } => FinishReason::EndTurn,
        }
    }
}

/// Whether the model waits for the caller to answer an item of this type. Calls of tools that the vendor runs are
/// answered within the response.
pub(super) fn is_call(kind: &str) -> bool {
    matches!(
        kind,
        "function_call"
            | "custom_tool_call"
            | "computer_call"
            | "local_shell_call"
            | "shell_call"
            | "apply_patch_call"
            | "mcp_approval_request"
    )
}

fn name_in<'n>(name: Option<&'n CowStr<'_>>) -> &'n str {
    name.map_or("", |CowStr(name)| name)
}
