//! A whole answer, brought back in the caller's words.

use super::{Face, Occasion, SpokenRequest, has_anthropic_bodies};
use bytes::{Bytes, BytesMut};
use seawall_core::failure::{Failure, FailureKind};
use seawall_provider::TargetDialect;
use seawall_wire::chat::{AnswerPart, ChatAnswer, FinishReason, Usage, UsageReport};
use seawall_wire::{AnswerError, anthropic, bedrock, openai};

/// A whole answer as the caller gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WholeAnswer {
    /// What it used, as the target told it.
    pub usage: Usage,
    /// Whether the target told how much output there was.
    pub has_output: bool,
    /// Why the model stopped.
    pub finish: FinishReason,
    /// The answer in the caller's dialect; nothing where that is our own, which has more to say than the model.
    pub body: Bytes,
    /// What the model said, where the caller speaks to our own face.
    pub text: Option<String>,
    /// What the caller's dialect says in headers.
    pub headers: Vec<(&'static str, String)>,
}

impl WholeAnswer {
    /// An answer of our own face, which is written already.
    pub(crate) const fn of_chat(body: Bytes) -> Self {
        let usage = Usage::NONE;
        Self { usage, has_output: true, finish: FinishReason::EndTurn, body, text: None, headers: Vec::new() }
    }

    /// Reads an answer of a target. `told` is what the target's headers say it used, for an answer whose body does not.
    ///
    /// Where both sides carry the same body it is handed on as it came, whatever name the target has for the model in it.
    /// Otherwise the answer is written anew, and its model is called as the caller called it. An answer that cannot be read
    /// is a failure of the target.
    pub fn read(
        request: &SpokenRequest,
        target: TargetDialect,
        body: Bytes,
        told: Option<Usage>,
        occasion: &Occasion<'_>,
    ) -> Result<Self, Failure> {
        let face = request.face();
        let is_passed_on =
            |dialect| dialect == target || has_anthropic_bodies(target) && has_anthropic_bodies(dialect);
        let answer = if face.dialect().is_some_and(is_passed_on) {
            read_account(target, &body).map(|(report, finish)| (known(report, told), finish, body, None))
        } else {
            read_chat(target, &body, occasion, request.model()).map(|mut answer| {
                let report = read_account(target, &body).map(|(report, _)| report);
                let report = known(report.unwrap_or_default(), told);
                answer.usage = report.usage;
                let (body, text) = match face.dialect() {
                    Some(dialect) => (written(dialect, &answer, occasion), None),
                    None => (Bytes::new(), Some(text_of(&answer))),
                };
                (report, answer.finish, body, text)
            })
        };
        let (UsageReport { usage, has_output }, finish, body, text) =
            answer.map_err(|_| Failure::of(FailureKind::Unrecognised))?;
        let headers = match face {
            Face::BedrockInvoke => bedrock::usage_headers(usage, occasion.took),
            Face::AnthropicMessages | Face::OpenAiChat | Face::BedrockConverse | Face::Chat => Vec::new(),
        };
        Ok(Self { usage, has_output, finish, body, text, headers })
    }
}

/// What the body says; and where it says nothing, or nothing of its output, what the headers do. No request is without input.
fn known(report: UsageReport, told: Option<Usage>) -> UsageReport {
    let Some(told) = told.filter(|told| told.total_input() > 0) else { return report };
    if report.usage.total_input() == 0 {
        return UsageReport { usage: told, has_output: true };
    }
    let output = if report.has_output { report.usage.output } else { told.output };
    UsageReport { usage: Usage { output, ..report.usage }, has_output: true }
}

fn read_account(target: TargetDialect, body: &[u8]) -> Result<(UsageReport, FinishReason), AnswerError> {
    match target {
        TargetDialect::AnthropicMessages | TargetDialect::BedrockInvoke => anthropic::read_answer(body),
        TargetDialect::OpenAiChat => openai::read_answer(body),
        TargetDialect::BedrockConverse => bedrock::read_converse_usage(body),
    }
}

fn read_chat(
    target: TargetDialect,
    body: &[u8],
    occasion: &Occasion<'_>,
    model: &str,
) -> Result<ChatAnswer, AnswerError> {
    let mut answer = match target {
        TargetDialect::AnthropicMessages | TargetDialect::BedrockInvoke => anthropic::read_chat_answer(body)?,
        TargetDialect::OpenAiChat => openai::read_chat_answer(body)?,
        TargetDialect::BedrockConverse => bedrock::read_chat_answer(body, occasion.id, model)?,
    };
    model.clone_into(&mut answer.model);
    Ok(answer)
}

/// All words of an answer. Nothing to call was offered, so that there is nothing else in it.
fn text_of(answer: &ChatAnswer) -> String {
    let words = answer.parts.iter().filter_map(|part| match part {
        AnswerPart::Text(text) => Some(text.as_str()),
        AnswerPart::ToolCall(_) => None,
    });
    words.collect()
}

fn written(dialect: TargetDialect, answer: &ChatAnswer, occasion: &Occasion<'_>) -> Bytes {
    let mut out = BytesMut::new();
    match dialect {
        TargetDialect::AnthropicMessages | TargetDialect::BedrockInvoke => {
            anthropic::write_chat_answer(&mut out, answer);
        }
        TargetDialect::OpenAiChat => openai::write_chat_answer(&mut out, answer, occasion.created),
        TargetDialect::BedrockConverse => return bedrock::write_chat_answer(answer, occasion.took),
    }
    out.freeze()
}
