//! Parses a stream for conversion to another dialect.

use super::answer::{UsageFields, Word, finish_of, refused};
use super::error::failure_of;
use super::stream::is_done;
use crate::answer_error::StreamError;
use crate::chat::{ChatEvent, FinishReason, Usage};
use crate::reported::Reported;
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
pub struct ChatReader {
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

impl ChatReader {
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
                return Err(unreadable("chunk", "the stream ends before it begins"));
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
            let owned = |word: Option<Word<'_>>| word.map(|Word(word)| word.into_owned()).unwrap_or_default();
            let (id, model) = (owned(chunk.id), owned(chunk.model));
            on_event(ChatEvent::Started { id, model, usage: Usage::default() });
        }
        if let Some(choice) = chunk.choices.into_iter().find(|choice| choice.index.unwrap_or(0) == 0) {
            self.read_choice(choice, on_event)?;
        }
        if let Some(usage) = chunk.usage.told() {
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
        let refusal = words(delta.refusal);
        self.has_refused |= refusal.is_some();
        if let Some(thought) = words(delta.reasoning_content).or_else(|| words(delta.reasoning)) {
            self.call = None;
            on_event(ChatEvent::Thinking(thought));
        }
        for text in words(delta.content).into_iter().chain(refusal) {
            self.call = None;
            on_event(ChatEvent::Text(text));
        }
        for piece in delta.tool_calls.unwrap_or_default() {
            self.read_call(piece, on_event)?;
        }
        if let Some(Word(name)) = choice.finish_reason {
            self.finish = Some(finish_of(&name));
        }
        Ok(())
    }

    fn read_call(
        &mut self,
        piece: CallPiece<'_>,
        on_event: &mut impl FnMut(ChatEvent),
    ) -> Result<(), StreamError> {
        let function = piece.function.unwrap_or_default();
        let id = words(piece.id);
        // Some servers omit the index; in that case a new id starts a call.
        let place = match (piece.index, &id, self.call) {
            (Some(place), _, _) | (None, None, Some(place)) => place,
            (None, _, _) => self.calls,
        };
        if self.call != Some(place) {
            if place < self.calls {
                return Err(unreadable("chunk", "a call goes on after something else has begun"));
            }
            let Some(name) = words(function.name) else {
                return Err(unreadable("chunk", "a call begins without a name"));
            };
            let id = id.unwrap_or_else(|| format!("call_{place}"));
            self.call = Some(place);
            self.calls = place.saturating_add(1);
            on_event(ChatEvent::ToolCallStarted { id, name });
        }
        if let Some(input) = words(function.arguments) {
            on_event(ChatEvent::ToolInput(input));
        }
        Ok(())
    }

    fn finish(&self) -> FinishReason {
        let finish = self.finish.unwrap_or(FinishReason::Other);
        if self.has_refused { refused(finish) } else { finish }
    }
}

fn words(word: Option<Word<'_>>) -> Option<String> {
    word.map(|Word(text)| text.into_owned()).filter(|text| !text.is_empty())
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    id: Option<Word<'a>>,
    #[serde(borrow)]
    model: Option<Word<'a>>,
    #[serde(borrow, default)]
    choices: Vec<Choice<'a>>,
    #[serde(default)]
    usage: Reported<UsageFields>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    index: Option<u64>,
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
    #[serde(borrow)]
    finish_reason: Option<Word<'a>>,
}

#[derive(Default, Deserialize)]
struct Delta<'a> {
    #[serde(borrow)]
    content: Option<Word<'a>>,
    #[serde(borrow)]
    refusal: Option<Word<'a>>,
    #[serde(borrow)]
    tool_calls: Option<Vec<CallPiece<'a>>>,
    /// Reasoning text; vendors that show it use one of two field names.
    #[serde(borrow)]
    reasoning_content: Option<Word<'a>>,
    #[serde(borrow)]
    reasoning: Option<Word<'a>>,
}

#[derive(Deserialize)]
struct CallPiece<'a> {
    index: Option<u64>,
    #[serde(borrow)]
    id: Option<Word<'a>>,
    #[serde(borrow)]
    function: Option<FunctionPiece<'a>>,
}

#[derive(Default, Deserialize)]
struct FunctionPiece<'a> {
    #[serde(borrow)]
    name: Option<Word<'a>>,
    #[serde(borrow)]
    arguments: Option<Word<'a>>,
}
