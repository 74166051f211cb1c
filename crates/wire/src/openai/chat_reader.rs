//! Parses a stream for conversion to another dialect.

use super::answer::{OpenAiUsageFields, as_refusal, finish_of};
use super::error::failure_of;
use super::stream::is_done;
use crate::answer_error::StreamError;
use crate::chat::{ChatEvent, FinishReason, Usage};
use crate::lenient::Lenient;
use crate::request::CowStr;
use crate::sse::{SseLimits, SseReader};
use crate::stream::{feed_events, parse, unreadable};
use serde::Deserialize;
use serde_json::Value;

/// Parses a stream into dialect-neutral events.
///
/// - The first chunk with a choice or with usage starts the answer. No usage is known at that point.
/// - Only the first choice is read. Empty deltas are dropped.
/// - A `refusal` is read as text and turns a normal end of turn into a refusal.
/// - A tool call that continues after other content has begun cannot be expressed in order, and is an error. A tool
///   call without an id gets one derived from its index.
/// - `Finished` is emitted when the vendor sends `[DONE]`. Anything after that, or after a failure, is ignored.
#[derive(Debug)]
pub struct OpenAiChatReader {
    sse: SseReader,
    failed: Option<StreamError>,
    state: State,
}

#[derive(Debug, Default)]
struct State {
    has_begun: bool,
    is_over: bool,
    has_refused: bool,
    finish: Option<FinishReason>,
    /// Number of tool calls that have begun.
    calls: u64,
    /// The index of the tool call to which deltas may now belong.
    call: Option<u64>,
}

impl OpenAiChatReader {
    /// Creates a reader at the start of a stream.
    #[must_use]
    pub fn new(limits: SseLimits) -> Self {
        Self { sse: SseReader::new(limits), failed: None, state: State::default() }
    }

    /// Parses the next chunk and calls `on_event` for each event that it completes. After an error, every further call
    /// returns the same error.
    pub fn feed(&mut self, bytes: &[u8], mut on_event: impl FnMut(ChatEvent)) -> Result<(), StreamError> {
        let state = &mut self.state;
        feed_events(&mut self.sse, &mut self.failed, bytes, |event| state.read(event.data, &mut on_event))
    }

    /// Whether the model has begun a refusal.
    #[must_use]
    pub const fn has_refused(&self) -> bool {
        self.state.has_refused
    }

    /// Whether the answer is complete or has failed. A stream that ends in any other state was truncated.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.state.is_over
    }
}

impl State {
    fn read(&mut self, data: &[u8], on_event: &mut impl FnMut(ChatEvent)) -> Result<(), StreamError> {
        if self.is_over {
            return Ok(());
        }
        if is_done(data) {
            if !self.has_begun {
                return Err(unreadable("chunk", "[DONE] came before the first chunk"));
            }
            self.is_over = true;
            on_event(ChatEvent::Finished(self.finish()));
            return Ok(());
        }
        let chunk: Chunk<'_> = parse("chunk", data)?;
        if let Some(error) = chunk.error {
            self.is_over = true;
            // 200 is the status that the stream began with; the failure is classified by the error alone.
            let (failure, message) = failure_of(200, &error);
            on_event(ChatEvent::Failed { failure, message });
            return Ok(());
        }
        if !self.has_begun && (!chunk.choices.is_empty() || !chunk.usage.is_absent()) {
            self.has_begun = true;
            let owned =
                |word: Option<CowStr<'_>>| word.map(|CowStr(word)| word.into_owned()).unwrap_or_default();
            let (id, model) = (owned(chunk.id), owned(chunk.model));
            on_event(ChatEvent::Started { id, model, usage: Usage::default() });
        }
        if let Some(choice) = chunk.choices.into_iter().find(|choice| choice.index.unwrap_or(0) == 0) {
            self.read_choice(choice, on_event)?;
        }
        if let Some(usage) = chunk.usage.get() {
            on_event(ChatEvent::Usage(usage.read()));
        }
        Ok(())
    }

    fn read_choice(
        &mut self,
        choice: Choice<'_>,
        on_event: &mut impl FnMut(ChatEvent),
    ) -> Result<(), StreamError> {
        let delta = choice.delta.unwrap_or_default();
        let refusal = non_empty(delta.refusal);
        self.has_refused |= refusal.is_some();
        if let Some(thought) = non_empty(delta.reasoning_content).or_else(|| non_empty(delta.reasoning)) {
            self.call = None;
            on_event(ChatEvent::Thinking(thought));
        }
        for text in non_empty(delta.content).into_iter().chain(refusal) {
            self.call = None;
            on_event(ChatEvent::Text(text));
        }
        for piece in delta.tool_calls.unwrap_or_default() {
            self.read_call(piece, on_event)?;
        }
        if let Some(CowStr(name)) = choice.finish_reason {
            self.finish = Some(finish_of(&name));
        }
        Ok(())
    }

    fn read_call(
        &mut self,
        piece: ToolCallDelta<'_>,
        on_event: &mut impl FnMut(ChatEvent),
    ) -> Result<(), StreamError> {
        let function = piece.function.unwrap_or_default();
        let id = non_empty(piece.id);
        // Some servers omit the index; in that case a new id starts a call.
        let index = match (piece.index, &id, self.call) {
            (Some(index), _, _) | (None, None, Some(index)) => index,
            (None, _, _) => self.calls,
        };
        if self.call != Some(index) {
            if index < self.calls {
                return Err(unreadable("chunk", "a tool call continues after other content has started"));
            }
            let Some(name) = non_empty(function.name) else {
                return Err(unreadable("chunk", "a tool call starts without a name"));
            };
            let id = id.unwrap_or_else(|| format!("call_{index}"));
            self.call = Some(index);
            self.calls = index.saturating_add(1);
            on_event(ChatEvent::ToolCallStarted { id, name });
        }
        if let Some(input) = non_empty(function.arguments) {
            on_event(ChatEvent::ToolInput(input));
        }
        Ok(())
    }

    fn finish(&self) -> FinishReason {
        let finish = self.finish.unwrap_or(FinishReason::Other);
        if self.has_refused { as_refusal(finish) } else { finish }
    }
}

fn non_empty(word: Option<CowStr<'_>>) -> Option<String> {
    word.map(|CowStr(text)| text.into_owned()).filter(|text| !text.is_empty())
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    id: Option<CowStr<'a>>,
    #[serde(borrow)]
    model: Option<CowStr<'a>>,
    #[serde(borrow, default)]
    choices: Vec<Choice<'a>>,
    #[serde(default)]
    usage: Lenient<OpenAiUsageFields>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    index: Option<u64>,
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
    #[serde(borrow)]
    finish_reason: Option<CowStr<'a>>,
}

#[derive(Default, Deserialize)]
struct Delta<'a> {
    #[serde(borrow)]
    content: Option<CowStr<'a>>,
    #[serde(borrow)]
    refusal: Option<CowStr<'a>>,
    #[serde(borrow)]
    tool_calls: Option<Vec<ToolCallDelta<'a>>>,
    /// Reasoning text; vendors that show it use one of two field names.
    #[serde(borrow)]
    reasoning_content: Option<CowStr<'a>>,
    #[serde(borrow)]
    reasoning: Option<CowStr<'a>>,
}

#[derive(Deserialize)]
struct ToolCallDelta<'a> {
    index: Option<u64>,
    #[serde(borrow)]
    id: Option<CowStr<'a>>,
    #[serde(borrow)]
    function: Option<FunctionDelta<'a>>,
}

#[derive(Default, Deserialize)]
struct FunctionDelta<'a> {
    #[serde(borrow)]
    name: Option<CowStr<'a>>,
    #[serde(borrow)]
    arguments: Option<CowStr<'a>>,
}
