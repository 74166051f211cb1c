//! A whole answer, brought back in the caller's words.

use super::{Face, Occasion, SpokenRequest, has_anthropic_bodies};
use bytes::{Bytes, BytesMut};
use seawall_core::failure::{Failure, FailureKind};
use seawall_provider::TargetDialect;
use seawall_wire::chat::{ChatAnswer, FinishReason, Usage};
use seawall_wire::{AnswerError, anthropic, bedrock, openai};

/// A whole answer as the caller gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WholeAnswer {
    /// What it used, as the target told it.
    pub usage: Usage,
    /// Why the model stopped.
    pub finish: FinishReason,
    /// The answer in the caller's dialect.
    pub body: Bytes,
    /// What the caller's dialect says in headers.
    pub headers: Vec<(&'static str, String)>,
}

impl WholeAnswer {
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
        let same_body = has_anthropic_bodies(target) && has_anthropic_bodies(face.dialect());
        let answer = if face.dialect() == target || same_body {
            read_account(target, &body).map(|(usage, finish)| (known(usage, told), finish, body))
        } else {
            read_chat(target, &body, occasion, request.model()).map(|mut answer| {
                answer.usage = known(answer.usage, told);
                (answer.usage, answer.finish, written(face, &answer, occasion))
            })
        };
        let (usage, finish, body) = answer.map_err(|_| Failure::of(FailureKind::Unrecognised))?;
        let headers = match face {
            Face::BedrockInvoke => bedrock::usage_headers(usage, occasion.took),
            Face::AnthropicMessages | Face::OpenAiChat | Face::BedrockConverse => Vec::new(),
        };
        Ok(Self { usage, finish, body, headers })
    }
}

/// What the body says, unless it says nothing: no request is without input.
fn known(usage: Usage, told: Option<Usage>) -> Usage {
    told.filter(|_| usage.total_input() == 0).unwrap_or(usage)
}

fn read_account(target: TargetDialect, body: &[u8]) -> Result<(Usage, FinishReason), AnswerError> {
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

fn written(face: Face, answer: &ChatAnswer, occasion: &Occasion<'_>) -> Bytes {
    let mut out = BytesMut::new();
    match face {
        Face::AnthropicMessages | Face::BedrockInvoke => anthropic::write_chat_answer(&mut out, answer),
        Face::OpenAiChat => openai::write_chat_answer(&mut out, answer, occasion.created),
        Face::BedrockConverse => return bedrock::write_chat_answer(answer, occasion.took),
    }
    out.freeze()
}
