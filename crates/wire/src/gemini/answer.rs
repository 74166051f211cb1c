//! Reads and writes whole answers.

use super::shapes::{
    AnswerFields, AnswerOut, CallOut, CandidateOut, ContentOut, GeminiPartOut, PartFields, finish_of,
    generated_id, is_malformed, name_of, owned,
};
use crate::answer_error::AnswerError;
use crate::chat::{AnswerPart, ChatAnswer, FinishReason, ToolCall, UsageReport};
use crate::fields::object_of;
use crate::json_out::put_json;
use crate::request::{CowStr, MAX_INPUT_DEPTH};
use bytes::BytesMut;

/// Reads usage and finish reason from a whole answer. If there are several candidates, the first one decides the
/// reason. A blocked prompt is a refusal.
pub fn read_answer(body: &[u8]) -> Result<(UsageReport, FinishReason), AnswerError> {
    let mut answer = parse(body)?;
    let report = report_of(&answer);
    if answer.is_blocked() {
        return Ok((report, FinishReason::Refusal));
    }
    let Some(mut candidate) = answer.take_first() else { return Err(no_candidates()) };
    let has_calls = candidate.take_parts().iter().any(|part| part.function_call.is_some());
    let finish = candidate.finish_reason;
    Ok((report, finish.map_or(FinishReason::Other, |CowStr(name)| finish_of(&name, has_calls))))
}

/// Parses an answer into the dialect-neutral form. `id` and `model` are used if the answer does not contain them.
///
/// Only the first candidate is used. Thoughts, thought signatures, empty texts and parts that are neither text nor
/// function calls are dropped. A blocked prompt is an empty answer that ends as a refusal. A malformed function call is
/// an error.
pub fn read_chat_answer(body: &[u8], id: &str, model: &str) -> Result<ChatAnswer, AnswerError> {
    let mut answer = parse(body)?;
    let (usage, is_blocked) = (report_of(&answer).usage, answer.is_blocked());
    let candidate = answer.take_first();
    let id = owned(answer.response_id).unwrap_or_else(|| id.to_owned());
    let model = owned(answer.model_version).unwrap_or_else(|| model.to_owned());
    if is_blocked {
        return Ok(ChatAnswer { id, model, parts: Vec::new(), finish: FinishReason::Refusal, usage });
    }
    let Some(mut candidate) = candidate else { return Err(no_candidates()) };
    let (mut parts, mut calls) = (Vec::new(), 0);
    for part in candidate.take_parts() {
        parts.extend(read_part(part, &id, &mut calls)?);
    }
    let finish = match candidate.finish_reason {
        Some(CowStr(name)) if is_malformed(&name) => {
            return Err(AnswerError::Unreadable { problem: format!("the model ended with {name}") });
        }
        Some(CowStr(name)) => finish_of(&name, calls > 0),
        None => FinishReason::Other,
    };
    Ok(ChatAnswer { id, model, parts, finish, usage })
}

/// Appends a whole answer in this dialect. The dialect has fewer finish reasons: a stop sequence, a tool call and a
/// pause map to the normal end, and an exceeded context window maps to the output limit.
pub fn write_chat_answer(out: &mut BytesMut, answer: &ChatAnswer) {
    let parts = answer.parts.iter().map(|part| match part {
        AnswerPart::Text(text) => GeminiPartOut { text: Some(text), ..GeminiPartOut::default() },
        AnswerPart::ToolCall(call) => {
            let function_call = Some(CallOut { id: &call.id, name: &call.name, args: &call.input });
            GeminiPartOut { function_call, ..GeminiPartOut::default() }
        }
    });
    let candidate = CandidateOut {
        content: ContentOut::new(parts.collect()),
        finish_reason: Some(name_of(answer.finish)),
        index: 0,
    };
    put_json(
        out,
        &AnswerOut {
            candidates: vec![candidate],
            usage_metadata: Some(answer.usage.into()),
            model_version: &answer.model,
            response_id: &answer.id,
        },
    );
}

fn parse(body: &[u8]) -> Result<AnswerFields<'_>, AnswerError> {
    serde_json::from_slice(body).map_err(|error| AnswerError::unreadable(&error.to_string()))
}

fn no_candidates() -> AnswerError {
    AnswerError::unreadable("there are no candidates")
}

fn report_of(answer: &AnswerFields<'_>) -> UsageReport {
    answer.usage_metadata.get().map(|usage| usage.report(answer.searches())).unwrap_or_default()
}

fn read_part(
    part: PartFields<'_>,
    answer: &str,
    calls: &mut usize,
) -> Result<Option<AnswerPart>, AnswerError> {
    if let Some(call) = part.function_call {
        let input = call.arguments().and_then(|input| object_of(input.to_owned(), MAX_INPUT_DEPTH));
        let input = input
            .ok_or_else(|| AnswerError::unreadable("the arguments of a function call are not an object"))?;
        let name = owned(call.name).ok_or_else(|| AnswerError::unreadable("a function call has no name"))?;
        let id = owned(call.id).unwrap_or_else(|| generated_id(answer, *calls));
        *calls += 1;
        return Ok(Some(AnswerPart::ToolCall(ToolCall { id, name, input })));
    }
    let is_thought = part.thought == Some(true);
    Ok(owned(part.text).filter(|_| !is_thought).map(AnswerPart::Text))
}
