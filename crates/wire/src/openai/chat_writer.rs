//! Writes a stream from dialect-neutral events.

use super::ChatCompletionsDialect;
use super::answer::{OpenAiUsageFields, name_of};
use super::error_response::{OpenAiErrorBody, put_chunk, write_done, write_error_event};
use super::stream::ChunkIdentity;
use crate::api_error_kind::ApiErrorKind;
use crate::chat::{ChatEvent, FinishReason, Usage, custom_tool};
use crate::dialect::Dialect as _;
use bytes::BytesMut;
use serde::Serialize;

/// Writes a stream in this dialect, event by event.
///
/// - Usage is written once, in a separate chunk before the end, and only if the caller requested it.
/// - Empty deltas and tool input outside a tool call write nothing. A tool call that ends without input gets `{}`,
///   because clients parse the arguments as JSON.
/// - A call of a tool with free text is written in one delta at its end.
/// - Finish reasons are mapped to this dialect's smaller set, as in a whole answer.
/// - A failure is written as the API error that the caller receives for it, so that an error of the gateway does not look
///   like an error of the caller.
///
/// ```
/// use bytes::BytesMut;
/// use seawall_wire::chat::ChatEvent;
/// use seawall_wire::openai::OpenAiChatWriter;
///
/// let mut out = BytesMut::new();
/// OpenAiChatWriter::new(1_700_000_000, false).write(&mut out, &ChatEvent::Text("hi".to_owned()));
/// assert!(out.starts_with(b"data: {") && out.ends_with(b"\n\n"));
/// ```
#[derive(Debug)]
pub struct OpenAiChatWriter {
    created: u64,
    include_usage: bool,
    id: String,
    model: String,
    usage: Usage,
    /// Number of tool calls that have begun.
    calls: usize,
    /// Whether a tool call is open, and if so, whether it has any input yet.
    call_has_input: Option<bool>,
    /// The open call of a tool with free text.
    custom_call: Option<CustomCallInput>,
}

/// The input of a call of a tool with free text, as it comes from the target: the text is inside JSON, which is only
/// parsed when it is complete.
#[derive(Debug, Default)]
struct CustomCallInput {
    wrapped: String,
}

impl OpenAiChatWriter {
    /// Creates a writer at the start of a stream; `created` is in seconds since 1970.
    #[must_use]
    pub const fn new(created: u64, include_usage: bool) -> Self {
        Self {
            created,
            include_usage,
            id: String::new(),
            model: String::new(),
            usage: Usage::NONE,
            calls: 0,
            call_has_input: None,
            custom_call: None,
        }
    }

    /// Appends the chunks for this event.
    pub fn write(&mut self, out: &mut BytesMut, event: &ChatEvent) {
        match event {
            ChatEvent::Started { id, model, usage } => {
                self.id.clone_from(id);
                self.model.clone_from(model);
                self.usage = *usage;
                let delta = Delta { role: Some("assistant"), content: Some(""), ..Delta::default() };
                self.put(out, delta, None);
            }
            ChatEvent::Thinking(text) | ChatEvent::Text(text) if text.is_empty() => {}
            ChatEvent::Thinking(text) => {
                self.end_call(out);
                self.put(out, Delta { reasoning_content: Some(text), ..Delta::default() }, None);
            }
            ChatEvent::Text(text) => {
                self.end_call(out);
                self.put(out, Delta { content: Some(text), ..Delta::default() }, None);
            }
            ChatEvent::ToolCallStarted { id, name } => {
                self.end_call(out);
                self.calls += 1;
                if let Some(name) = custom_tool::marked_name(name) {
                    self.custom_call = Some(CustomCallInput::default());
                    let custom = Some(Custom { name: Some(name), input: "" });
                    let call = Call { id: Some(id), kind: Some("custom"), custom, ..self.open_call() };
                    self.put(out, Delta { tool_calls: Some([call]), ..Delta::default() }, None);
                    return;
                }
                self.call_has_input = Some(false);
                let function = Function { name: Some(name), arguments: "" };
                self.put_call(out, Some(id), function);
            }
            ChatEvent::ToolInput(piece) => {
                if let Some(input) = &mut self.custom_call {
                    input.wrapped.push_str(piece);
                } else if self.call_has_input.is_some() && !piece.is_empty() {
                    self.call_has_input = Some(true);
                    self.put_call(out, None, Function { name: None, arguments: piece });
                }
            }
            ChatEvent::Usage(usage) => self.usage = *usage,
            ChatEvent::Finished(finish) => {
                self.end_call(out);
                self.put(out, Delta::default(), Some(name_of(*finish)));
                if self.include_usage {
                    put_chunk(out, &self.chunk(&[], Some(Some(self.usage.into()))));
                }
                write_done(out);
            }
            ChatEvent::Failed { failure, message } => {
                let error_kind = ApiErrorKind::of_failure(failure.kind);
                let message = ChatCompletionsDialect.client_message(error_kind, message);
                write_error_event(out, &OpenAiErrorBody::new(error_kind, &message));
            }
        }
    }

    fn end_call(&mut self, out: &mut BytesMut) {
        if let Some(CustomCallInput { wrapped }) = self.custom_call.take() {
            let text = custom_tool::unwrap(&wrapped);
            let call = Call { custom: Some(Custom { name: None, input: &text }), ..self.open_call() };
            self.put(out, Delta { tool_calls: Some([call]), ..Delta::default() }, None);
        }
        if self.call_has_input.take() == Some(false) {
            self.put_call(out, None, Function { name: None, arguments: "{}" });
        }
    }

    fn put_call(&self, out: &mut BytesMut, id: Option<&str>, function: Function<'_>) {
        let kind = id.map(|_| "function");
        let call = Call { id, kind, function: Some(function), ..self.open_call() };
        self.put(out, Delta { tool_calls: Some([call]), ..Delta::default() }, None);
    }

    /// The most recent call, without content.
    const fn open_call<'c>(&self) -> Call<'c> {
        Call { index: self.calls.saturating_sub(1), id: None, kind: None, function: None, custom: None }
    }

    fn put(&self, out: &mut BytesMut, delta: Delta<'_>, finish_reason: Option<&str>) {
        let choices = [Choice { index: 0, delta, logprobs: None, finish_reason }];
        put_chunk(out, &self.chunk(&choices, self.include_usage.then_some(None)));
    }

    fn chunk<'a>(&'a self, choices: &'a [Choice<'a>], usage: Option<Option<OpenAiUsageFields>>) -> Chunk<'a> {
        let Self { id, model, created, .. } = self;
        Chunk { id, object: "chat.completion.chunk", created: *created, model, choices, usage }
    }
}

/// Appends the chunks that end a stream at the output limit, for the choices that are still open; with usage if
/// requested.
pub(super) fn write_end(
    out: &mut BytesMut,
    names: ChunkIdentity<'_>,
    open: impl Iterator<Item = u32>,
    usage: Option<Usage>,
) {
    let ChunkIdentity { id, model, created } = names;
    let object = "chat.completion.chunk";
    for index in open {
        let finish_reason = Some(name_of(FinishReason::MaxTokens));
        let choices = &[Choice { index, delta: Delta::default(), logprobs: None, finish_reason }];
        put_chunk(out, &Chunk { id, object, created, model, choices, usage: usage.map(|_| None) });
    }
    if let Some(usage) = usage {
        put_chunk(out, &Chunk { id, object, created, model, choices: &[], usage: Some(Some(usage.into())) });
    }
    write_done(out);
}

#[derive(Serialize)]
struct Chunk<'a> {
    id: &'a str,
    object: &'a str,
    created: u64,
    model: &'a str,
    choices: &'a [Choice<'a>],
    /// If usage was requested, null in all chunks but the last; otherwise omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Option<OpenAiUsageFields>>,
}

#[derive(Serialize)]
struct Choice<'a> {
    index: u32,
    delta: Delta<'a>,
    logprobs: Option<()>,
    finish_reason: Option<&'a str>,
}

#[derive(Default, Serialize)]
struct Delta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a str>,
    /// The field that most vendors of this dialect use for reasoning; OpenAI itself has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_calls: Option<[Call<'a>; 1]>,
}

#[derive(Serialize)]
struct Call<'a> {
    index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function: Option<Function<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    custom: Option<Custom<'a>>,
}

#[derive(Serialize)]
struct Custom<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    input: &'a str,
}

#[derive(Serialize)]
struct Function<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    arguments: &'a str,
}
