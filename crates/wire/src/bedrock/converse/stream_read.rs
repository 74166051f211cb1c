//! Parses a stream for conversion to another dialect.

use super::shapes::finish_of;
use super::usage::{ConverseUsageFields, PerformanceFields, TierFields, read_usage_report};
use crate::bedrock::frame::{Frame, FrameEnding, FrameKind, FrameLimits, FrameReader};
use crate::bedrock::stream::{BedrockStreamError, StreamEnding, failure_of, parse};
use crate::chat::{ChatEvent, FinishReason, Usage, UsageReport};
use crate::lenient::Lenient;
use crate::request::CowStr;
use serde::Deserialize;
use std::mem;

/// Parses a ConverseStream into dialect-neutral events.
///
/// The service reports usage after the finish reason. [`ChatEvent::Finished`] must come last, so it is held back until
/// usage has arrived, or until the stream has ended without it.
#[derive(Debug)]
pub struct ConverseChatReader {
    frames: FrameReader,
    answer: AnswerState,
}

#[derive(Debug)]
struct AnswerState {
    id: String,
    model: String,
    has_started: bool,
    has_usage: bool,
    /// Whether the block is a call of one of the caller's tools; the service executes its own tools itself.
    in_call: bool,
    /// The finish reason, held back until usage has arrived.
    stopped: Option<FinishReason>,
    progress: Progress,
}

#[derive(Debug)]
enum Progress {
    Running,
    Finished,
    /// The service reported a failure.
    Failed,
    /// The stream cannot be parsed.
    Broken(BedrockStreamError),
}

impl ConverseChatReader {
    /// Creates a reader at the start of a stream. The stream contains neither an id nor the model: `id` is the header
    /// `x-amzn-requestid`, and `model` the one that was called.
    #[must_use]
    pub fn new(limits: FrameLimits, id: &str, model: &str) -> Self {
        let answer = AnswerState {
            id: id.to_owned(),
            model: model.to_owned(),
            has_started: false,
            has_usage: false,
            in_call: false,
            stopped: None,
            progress: Progress::Running,
        };
        Self { frames: FrameReader::new(limits), answer }
    }

    /// Parses the next chunk and calls `on_event` for each event that it completes; nothing is reported after the end
    /// or a failure. After an error, every further call returns the same error.
    pub fn feed(
        &mut self,
        bytes: &[u8],
        mut on_event: impl FnMut(ChatEvent),
    ) -> Result<(), BedrockStreamError> {
        let answer = &mut self.answer;
        let outcome = self.frames.feed(bytes, |frame| {
            if matches!(answer.progress, Progress::Running)
                && let Err(error) = answer.read(&frame, &mut on_event)
            {
                answer.progress = Progress::Broken(error);
            }
        });
        match &answer.progress {
            Progress::Broken(error) => Err(error.clone()),
            Progress::Running | Progress::Finished | Progress::Failed => Ok(outcome?),
        }
    }

    /// Must be called when the bytes have ended. A stream with a finish reason is complete even without usage, but not
    /// if it ends inside a frame.
    pub fn finish(&mut self, mut on_event: impl FnMut(ChatEvent)) -> StreamEnding {
        let is_clean = self.frames.finish() == FrameEnding::Clean;
        if is_clean {
            self.answer.end(&mut on_event);
        }
        match self.answer.progress {
            Progress::Finished if is_clean => StreamEnding::Complete,
            _ => StreamEnding::Interrupted,
        }
    }
}

impl AnswerState {
    fn read(
        &mut self,
        frame: &Frame<'_>,
        on_event: &mut impl FnMut(ChatEvent),
    ) -> Result<(), BedrockStreamError> {
        if let Some((failure, message)) = failure_of(frame) {
            self.progress = Progress::Failed;
            on_event(ChatEvent::Failed { failure, message });
            return Ok(());
        }
        let FrameKind::Event(name) = frame.kind else { return Ok(()) };
        let event = match name {
            "messageStart" => None,
            "contentBlockStart" => {
                let BlockStart { start } = parse("contentBlockStart", frame.payload)?;
                let call = start.and_then(|start| start.tool_use).filter(|call| call.kind.is_none());
                self.in_call = call.is_some();
                call.map(|call| ChatEvent::ToolCallStarted { id: call.tool_use_id, name: call.name })
            }
            "contentBlockDelta" => {
                let BlockDelta { delta } = parse("contentBlockDelta", frame.payload)?;
                let input =
                    delta.tool_use.filter(|_| self.in_call).map(|call| ChatEvent::ToolInput(call.input));
                let thought =
                    delta.reasoning_content.and_then(|thought| thought.text).map(ChatEvent::Thinking);
                delta.text.map(ChatEvent::Text).or(input).or(thought)
            }
            "contentBlockStop" => {
                self.in_call = false;
                None
            }
            "messageStop" => {
                let stop: MessageStopFields<'_> = parse("messageStop", frame.payload)?;
                self.stopped = Some(finish_of(&stop.stop_reason.0));
                None
            }
            "metadata" => {
                let metadata: MetadataFields = parse("metadata", frame.payload)?;
                self.has_usage = true;
                metadata.usage.get().map(|_| ChatEvent::Usage(metadata.report().usage))
            }
            // A frame type unknown to this version. A stream may begin with one.
            _ => return Ok(()),
        };
        if !mem::replace(&mut self.has_started, true) {
            let (id, model) = (mem::take(&mut self.id), mem::take(&mut self.model));
            on_event(ChatEvent::Started { id, model, usage: Usage::default() });
        }
        event.into_iter().for_each(&mut *on_event);
        if self.has_usage {
            self.end(on_event);
        }
        Ok(())
    }

    fn end(&mut self, on_event: &mut impl FnMut(ChatEvent)) {
        if let (Progress::Running, Some(finish)) = (&self.progress, self.stopped) {
            self.progress = Progress::Finished;
            on_event(ChatEvent::Finished(finish));
        }
    }
}

#[derive(Deserialize)]
struct BlockStart {
    start: Option<Start>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Start {
    tool_use: Option<StartedCall>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StartedCall {
    tool_use_id: String,
    name: String,
    #[serde(rename = "type")]
    kind: Option<String>,
}

#[derive(Deserialize)]
struct BlockDelta {
    delta: Delta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Delta {
    text: Option<String>,
    tool_use: Option<ToolInputDelta>,
    reasoning_content: Option<ReasoningDelta>,
}

/// A reasoning delta; signatures and redacted reasoning have no text.
#[derive(Deserialize)]
struct ReasoningDelta {
    text: Option<String>,
}

#[derive(Deserialize)]
struct ToolInputDelta {
    input: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MessageStopFields<'a> {
    #[serde(borrow)]
    pub(super) stop_reason: CowStr<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct MetadataFields {
    usage: Lenient<ConverseUsageFields>,
    service_tier: Lenient<TierFields>,
    performance_config: Lenient<PerformanceFields>,
}

impl MetadataFields {
    pub(super) fn report(&self) -> UsageReport {
        read_usage_report(&self.usage, &self.service_tier, &self.performance_config)
    }
}
