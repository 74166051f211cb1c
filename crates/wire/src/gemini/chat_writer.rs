//! Writes a stream from dialect-neutral events.

use super::error_response::{message_of, write_error_event};
use super::shapes::{AnswerOut, CallOut, CandidateOut, ContentOut, GeminiPartOut, MALFORMED_CALL, name_of};
use crate::api_error_kind::ApiErrorKind;
use crate::chat::{ChatEvent, FinishReason, JsonText, Usage};
use crate::json_out::put_json;
use bytes::{BufMut as _, BytesMut};
use serde::Serialize;

/// Writes a stream in this dialect, event by event.
///
/// - Usage is written once, in the last chunk. Empty deltas and tool input outside a tool call write nothing.
/// - A function call is sent whole, so its input is collected until the call ends. A call without input gets `{}`. A
///   call whose input is not a JSON object, for example because the output limit cut it, cannot be expressed: it is
///   dropped, and an answer that would otherwise have ended normally ends as a malformed function call.
/// - Finish reasons are mapped to this dialect's smaller set, as in a whole answer.
/// - A failure is written as the API error that the caller receives for it, so that an error of the gateway does not look
///   like an error of the caller.
///
/// ```
/// use bytes::BytesMut;
/// use seawall_wire::chat::ChatEvent;
/// use seawall_wire::gemini::GeminiChatWriter;
///
/// let mut out = BytesMut::new();
/// GeminiChatWriter::new().write(&mut out, &ChatEvent::Text("hi".to_owned()));
/// assert!(out.starts_with(b"data: {") && out.ends_with(b"\n\n"));
/// ```
#[derive(Debug, Default)]
pub struct GeminiChatWriter {
    id: String,
    model: String,
    usage: Usage,
    call: Option<OpenCall>,
    has_dropped_call: bool,
}

/// A function call whose input is being collected.
#[derive(Debug)]
struct OpenCall {
    id: String,
    name: String,
    input: String,
}

impl GeminiChatWriter {
    /// Creates a writer at the start of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends the chunks for this event.
    pub fn write(&mut self, out: &mut BytesMut, event: &ChatEvent) {
        match event {
            ChatEvent::Started { id, model, usage } => {
                self.id.clone_from(id);
                self.model.clone_from(model);
                self.usage = *usage;
            }
            ChatEvent::Thinking(text) | ChatEvent::Text(text) if text.is_empty() => {}
            ChatEvent::Thinking(text) => {
                self.end_call(out);
                self.put_part(
                    out,
                    GeminiPartOut { text: Some(text), thought: Some(true), ..GeminiPartOut::default() },
                );
            }
            ChatEvent::Text(text) => {
                self.end_call(out);
                self.put_part(out, GeminiPartOut { text: Some(text), ..GeminiPartOut::default() });
            }
            ChatEvent::ToolCallStarted { id, name } => {
                self.end_call(out);
                self.call = Some(OpenCall { id: id.clone(), name: name.clone(), input: String::new() });
            }
            ChatEvent::ToolInput(piece) => {
                if let Some(call) = &mut self.call {
                    call.input.push_str(piece);
                }
            }
            ChatEvent::Usage(usage) => self.usage = *usage,
            ChatEvent::Finished(finish) => {
                self.end_call(out);
                let is_normal = matches!(finish, FinishReason::EndTurn | FinishReason::ToolUse);
                let reason =
                    if self.has_dropped_call && is_normal { MALFORMED_CALL } else { name_of(*finish) };
                let candidate = CandidateOut {
                    content: ContentOut::new(Vec::new()),
                    finish_reason: Some(reason),
                    index: 0,
                };
                self.put(out, candidate, Some(self.usage));
            }
            ChatEvent::Failed { failure, message } => {
                let error_kind = ApiErrorKind::of_failure(failure.kind);
                write_error_event(out, error_kind, &message_of(error_kind, message));
            }
        }
    }

    fn end_call(&mut self, out: &mut BytesMut) {
        let Some(OpenCall { id, name, input }) = self.call.take() else { return };
        let args =
            if input.trim_ascii().is_empty() { Some(JsonText::empty_object()) } else { JsonText::new(input) };
        match args.filter(|args| args.get().starts_with('{')) {
            Some(args) => {
                let function_call = Some(CallOut { id: &id, name: &name, args: &args });
                self.put_part(out, GeminiPartOut { function_call, ..GeminiPartOut::default() });
            }
            None => self.has_dropped_call = true,
        }
    }

    fn put_part(&self, out: &mut BytesMut, part: GeminiPartOut<'_>) {
        let content = ContentOut::new(vec![part]);
        self.put(out, CandidateOut { content, finish_reason: None, index: 0 }, None);
    }

    fn put(&self, out: &mut BytesMut, candidate: CandidateOut<'_>, usage: Option<Usage>) {
        let (model_version, response_id) = (self.model.as_str(), self.id.as_str());
        let usage_metadata = usage.map(Into::into);
        put_chunk(
            out,
            &AnswerOut { candidates: vec![candidate], usage_metadata, model_version, response_id },
        );
    }
}

/// Appends the chunk that ends a stream at the output limit, for the candidates that are still open.
pub(super) fn write_end(
    out: &mut BytesMut,
    response_id: &str,
    model_version: &str,
    open: impl Iterator<Item = u32>,
    usage: Usage,
) {
    let finish_reason = Some(name_of(FinishReason::MaxTokens));
    let end = |index| CandidateOut { content: ContentOut::new(Vec::new()), finish_reason, index };
    let (candidates, usage_metadata) = (open.map(end).collect(), Some(usage.into()));
    put_chunk(out, &AnswerOut { candidates, usage_metadata, model_version, response_id });
}

/// Appends an event with this value as data. The vendor's client libraries read only one `data:` line per event, so
/// line breaks in embedded JSON, which are whitespace there, become spaces.
pub(super) fn put_chunk(out: &mut BytesMut, chunk: &impl Serialize) {
    out.put_slice(b"data: ");
    let start = out.len();
    put_json(out, chunk);
    for byte in out.iter_mut().skip(start).filter(|byte| matches!(byte, b'\n' | b'\r')) {
        *byte = b' ';
    }
    out.put_slice(b"\n\n");
}
