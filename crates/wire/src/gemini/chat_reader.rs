//! Parses a stream for conversion to another dialect.

use super::error::failure_of;
use super::shapes::{AnswerFields, PartFields, finish_of, generated_id, is_malformed, owned};
use super::usage::GeminiUsageFields;
use crate::answer_error::StreamError;
use crate::bedrock::StreamEnding;
use crate::chat::{ChatEvent, FinishReason, Usage};
use crate::depth::nests_deeper_than;
use crate::request::{CowStr, MAX_INPUT_DEPTH};
use crate::sse::{SseEnding, SseLimits, SseReader};
use crate::stream::{feed_events, parse, unreadable};
use seawall_core::failure::{Failure, FailureKind};

/// Parses a stream into dialect-neutral events.
///
/// - Only the first candidate is read. Empty texts are dropped, and so are parts that are neither text nor function
///   calls, and thought signatures.
/// - A function call arrives whole; one without an id gets one. An answer with a function call that ends normally ends
///   as a tool call.
/// - There is no end marker, and some models send a finish reason in every chunk. `Finished` is therefore emitted by
///   [`finish`](Self::finish), after the connection has ended.
/// - A blocked prompt is an empty answer that ends as a refusal. A malformed function call is a failure of the model.
#[derive(Debug)]
pub struct GeminiChatReader {
    sse: SseReader,
    failed: Option<StreamError>,
    state: State,
}

#[derive(Debug, Default)]
struct State {
    id: String,
    model: String,
    has_begun: bool,
    /// Whether the end or a failure was emitted.
    is_over: bool,
    has_failed: bool,
    finish: Option<FinishReason>,
    /// Number of function calls so far.
    calls: usize,
    counts: GeminiUsageFields,
    searches: u64,
    usage: Usage,
}

impl GeminiChatReader {
    /// Creates a reader at the start of a stream. `id` and `model` are used if the stream does not contain them.
    #[must_use]
    pub fn new(limits: SseLimits, id: &str, model: &str) -> Self {
        let state = State { id: id.to_owned(), model: model.to_owned(), ..State::default() };
        Self { sse: SseReader::new(limits), failed: None, state }
    }

    /// Parses the next chunk and calls `on_event` for each event that it completes. After an error, every further call
    /// returns the same error.
    pub fn feed(&mut self, bytes: &[u8], mut on_event: impl FnMut(ChatEvent)) -> Result<(), StreamError> {
        let state = &mut self.state;
        feed_events(&mut self.sse, &mut self.failed, bytes, |event| state.read(event.data, &mut on_event))
    }

    /// Must be called when the bytes have ended. The stream is complete if a finish reason has arrived, but not if it
    /// ends inside an event.
    pub fn finish(&mut self, mut on_event: impl FnMut(ChatEvent)) -> StreamEnding {
        let is_clean = self.failed.is_none() && self.sse.finish() == SseEnding::Clean;
        let state = &mut self.state;
        match state.finish {
            Some(finish) if is_clean && !state.has_failed => {
                if !state.is_over {
                    state.is_over = true;
                    on_event(ChatEvent::Finished(finish));
                }
                StreamEnding::Complete
            }
            _ => StreamEnding::Interrupted,
        }
    }

    /// Whether the end or a failure was emitted.
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
        let mut chunk: AnswerFields<'_> = parse("chunk", data)?;
        if let Some(error) = chunk.error {
            // 200 is the status that the stream began with; the failure is classified by the error alone.
            let (failure, message) = failure_of(200, &error);
            self.fail(failure, message, on_event);
            return Ok(());
        }
        let (is_blocked, searches) = (chunk.is_blocked(), chunk.searches());
        let candidate = chunk.take_first();
        let has_usage = chunk.usage_metadata.get().is_some();
        if !self.has_begun && (candidate.is_some() || is_blocked || has_usage) {
            self.has_begun = true;
            self.id = owned(chunk.response_id).unwrap_or_else(|| std::mem::take(&mut self.id));
            let model = owned(chunk.model_version).unwrap_or_else(|| std::mem::take(&mut self.model));
            on_event(ChatEvent::Started { id: self.id.clone(), model, usage: Usage::default() });
        }
        let mut malformed = None;
        if let Some(mut candidate) = candidate {
            for part in candidate.take_parts() {
                self.read_part(part, on_event)?;
            }
            if let Some(CowStr(name)) = candidate.finish_reason {
                self.finish = Some(finish_of(&name, self.calls > 0));
                let message = owned(candidate.finish_message).unwrap_or_else(|| name.to_string());
                malformed = is_malformed(&name).then_some(message);
            }
        }
        if is_blocked {
            self.finish = Some(FinishReason::Refusal);
        }
        self.searches = self.searches.max(searches);
        if let Some(counts) = chunk.usage_metadata.get() {
            self.counts = self.counts.updated(counts);
            let usage = self.counts.report(self.searches).usage;
            if usage != self.usage {
                self.usage = usage;
                on_event(ChatEvent::Usage(usage));
            }
        }
        if let Some(message) = malformed {
            self.fail(Failure::of(FailureKind::ModelFault), message, on_event);
        }
        Ok(())
    }

    fn fail(&mut self, failure: Failure, message: String, on_event: &mut impl FnMut(ChatEvent)) {
        (self.is_over, self.has_failed) = (true, true);
        on_event(ChatEvent::Failed { failure, message });
    }

    fn read_part(
        &mut self,
        part: PartFields<'_>,
        on_event: &mut impl FnMut(ChatEvent),
    ) -> Result<(), StreamError> {
        if let Some(text) = owned(part.text) {
            let is_thought = part.thought == Some(true);
            on_event(if is_thought { ChatEvent::Thinking(text) } else { ChatEvent::Text(text) });
        }
        let Some(call) = part.function_call else { return Ok(()) };
        let input = call.arguments().filter(|input| !nests_deeper_than(MAX_INPUT_DEPTH, input.as_bytes()));
        let Some(input) = input.map(str::to_owned) else {
            return Err(unreadable("chunk", "the arguments of a function call are not an object"));
        };
        let Some(name) = owned(call.name) else {
            return Err(unreadable("chunk", "a function call has no name"));
        };
        let id = owned(call.id).unwrap_or_else(|| generated_id(&self.id, self.calls));
        self.calls += 1;
        on_event(ChatEvent::ToolCallStarted { id, name });
        on_event(ChatEvent::ToolInput(input));
        Ok(())
    }
}
