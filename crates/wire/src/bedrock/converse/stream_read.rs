//! A stream, read whole.

use super::shapes::{UsageFields, finish_of};
use crate::bedrock::frame::{Frame, FrameEnding, FrameKind, FrameLimits, FrameReader};
use crate::bedrock::stream::{BedrockStreamError, StreamEnding, failure_of, parse};
use crate::chat::{ChatEvent, FinishReason, Usage};
use crate::request::Name;
use serde::Deserialize;
use std::mem;

/// Reads the stream of ConverseStream.
///
/// The service tells usage after it has said that the model stopped. Here the end comes last, so it is held back
/// until usage has come, or until the stream has ended without it.
#[derive(Debug)]
pub struct ChatReader {
    frames: FrameReader,
    answer: Answer,
}

#[derive(Debug)]
struct Answer {
    id: String,
    model: String,
    has_started: bool,
    has_usage: bool,
    /// Whether the block is a call to a tool of the caller; the service makes others itself.
    in_call: bool,
    /// Why the model stopped, held back.
    stopped: Option<FinishReason>,
    progress: Progress,
}

#[derive(Debug)]
enum Progress {
    Running,
    Finished,
    /// The service said that it failed.
    Failed,
    /// It cannot be read.
    Broken(BedrockStreamError),
}

impl ChatReader {
    /// A stream of which nothing has arrived. It says neither what the answer is called nor which model it is from:
    /// `id` is the header `x-amzn-requestid`, and `model` the one that was asked.
    #[must_use]
    pub fn new(limits: FrameLimits, id: &str, model: &str) -> Self {
        let answer = Answer {
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

    /// Reads on, and calls `on_event` for each event that the bytes complete; nothing comes behind an end or a
    /// failure. After an error every further call fails in the same way.
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

    /// To be called when the bytes have ended. A stream whose model had stopped is complete without its usage, but
    /// not when a frame was cut.
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

impl Answer {
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
                delta.text.map(ChatEvent::Text).or(input)
            }
            "contentBlockStop" => {
                self.in_call = false;
                None
            }
            "messageStop" => {
                let stop: MessageStop<'_> = parse("messageStop", frame.payload)?;
                self.stopped = Some(finish_of(&stop.stop_reason.0));
                None
            }
            "metadata" => {
                let metadata: Metadata = parse("metadata", frame.payload)?;
                self.has_usage = true;
                metadata.usage.map(|usage| ChatEvent::Usage(usage.into()))
            }
            // What this version does not know. A stream may begin with such a frame.
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
    tool_use: Option<MoreInput>,
}

#[derive(Deserialize)]
struct MoreInput {
    input: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MessageStop<'a> {
    #[serde(borrow)]
    pub(super) stop_reason: Name<'a>,
}

#[derive(Deserialize)]
pub(super) struct Metadata {
    pub(super) usage: Option<UsageFields>,
}
