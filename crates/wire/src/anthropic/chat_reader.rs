//! Parses a stream for conversion to another dialect.

use super::answer::finish_of;
use super::chat_answer::AnswerBlock;
use super::error::read_error_body;
use super::usage::AnthropicUsageFields;
use crate::answer_error::StreamError;
use crate::chat::{ChatEvent, FinishReason, Usage};
use crate::lenient::Lenient;
use crate::request::CowStr;
use crate::sse::{SseEvent, SseLimits, SseReader};
use crate::stream::{feed_events, parse, unreadable};
use serde::Deserialize;
use std::borrow::Cow;

/// Parses a stream into dialect-neutral events.
///
/// Blocks other than text, thinking and tool calls are dropped; so are empty deltas. `Finished` is emitted when the
/// vendor has marked the answer as complete; anything after that, or after a failure, is ignored.
///
/// ```
/// use seawall_wire::anthropic::AnthropicChatReader;
/// use seawall_wire::chat::ChatEvent;
/// use seawall_wire::sse::SseLimits;
///
/// let mut reader = AnthropicChatReader::new(SseLimits::default());
/// let mut events = Vec::new();
/// let start = br#"{"message":{"id":"m","model":"haiku","usage":{"input_tokens":3}}}"#;
/// for piece in [&b"event: message_start\ndata: "[..], start, b"\n\n"] {
///     reader.feed(piece, |event| events.push(event))?;
/// }
/// assert!(matches!(&events[..], [ChatEvent::Started { usage, .. }] if usage.input == 3));
/// assert!(!reader.is_over());
/// # Ok::<(), seawall_wire::StreamError>(())
/// ```
#[derive(Debug)]
pub struct AnthropicChatReader {
    sse: SseReader,
    failed: Option<StreamError>,
    state: State,
}

#[derive(Debug, Default)]
struct State {
    has_begun: bool,
    is_over: bool,
    usage: Usage,
    finish: Option<FinishReason>,
    /// The index and type of the block to which deltas now belong.
    block: Option<(u64, Kind)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Text,
    Thinking,
    Call,
    Other,
}

impl AnthropicChatReader {
    /// Creates a reader at the start of a stream.
    #[must_use]
    pub fn new(limits: SseLimits) -> Self {
        Self {
            sse: SseReader::new(limits).with_data_filter(is_relevant),
            failed: None,
            state: State::default(),
        }
    }

    /// Parses the next chunk and calls `on_event` for each event that it completes. After an error, every further call
    /// returns the same error.
    pub fn feed(&mut self, bytes: &[u8], mut on_event: impl FnMut(ChatEvent)) -> Result<(), StreamError> {
        let state = &mut self.state;
        feed_events(&mut self.sse, &mut self.failed, bytes, |event| {
            if let Some(event) = state.read(event)? {
                on_event(event);
            }
            Ok(())
        })
    }

    /// Whether the answer is complete or has failed. A stream that ends in any other state was truncated.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.state.is_over
    }
}

fn is_relevant(name: &[u8]) -> bool {
    matches!(
        name,
        b"message_start" | b"content_block_start" | b"content_block_delta" | b"message_delta" | b"error"
    )
}

impl State {
    fn read(&mut self, event: SseEvent<'_>) -> Result<Option<ChatEvent>, StreamError> {
        if self.is_over {
            return Ok(None);
        }
        match event.name {
            b"message_start" => self.start(parse("message_start", event.data)?).map(Some),
            b"content_block_start" => self.start_block(parse("content_block_start", event.data)?),
            b"content_block_delta" => self.read_delta(parse("content_block_delta", event.data)?),
            b"message_delta" => {
                self.needs_start("message_delta")?;
                let delta: MessageDelta<'_> = parse("message_delta", event.data)?;
                if let Some(CowStr(name)) = delta.delta.stop_reason {
                    self.finish = Some(finish_of(&name));
                }
                Ok(delta.usage.get().map(|usage| {
                    self.usage = usage.merge_over(self.usage);
                    ChatEvent::Usage(self.usage)
                }))
            }
            b"message_stop" => {
                self.needs_start("message_stop")?;
                self.is_over = true;
                Ok(Some(ChatEvent::Finished(self.finish.unwrap_or(FinishReason::Other))))
            }
            b"error" => {
                self.is_over = true;
                // 200 is the status that the stream began with; the failure is classified by the error type alone.
                let (failure, message) = read_error_body(200, event.data);
                Ok(Some(ChatEvent::Failed { failure, message }))
            }
            _ => Ok(None),
        }
    }

    fn needs_start(&self, event: &'static str) -> Result<(), StreamError> {
        if self.has_begun { Ok(()) } else { Err(unreadable(event, "no message_start came before")) }
    }

    fn start(&mut self, start: MessageStart<'_>) -> Result<ChatEvent, StreamError> {
        if self.has_begun {
            return Err(unreadable("message_start", "message_start was sent twice"));
        }
        self.has_begun = true;
        let usage = start.message.usage.get();
        self.usage = usage.map(|usage| usage.merge_over(Usage::default())).unwrap_or_default();
        let (id, model) = (start.message.id.into_owned(), start.message.model.into_owned());
        Ok(ChatEvent::Started { id, model, usage: self.usage })
    }

    fn start_block(&mut self, start: BlockStart<'_>) -> Result<Option<ChatEvent>, StreamError> {
        self.needs_start("content_block_start")?;
        let block = start.content_block;
        let (kind, event) = match (&*block.kind, block.id, block.name) {
            ("text", _, _) => {
                let non_empty =
                    block.text.map(|CowStr(text)| text.into_owned()).filter(|text| !text.is_empty());
                (Kind::Text, non_empty.map(ChatEvent::Text))
            }
            ("thinking", _, _) => (Kind::Thinking, None),
            ("tool_use", Some(CowStr(id)), Some(CowStr(name))) => {
                let event = ChatEvent::ToolCallStarted { id: id.into_owned(), name: name.into_owned() };
                (Kind::Call, Some(event))
            }
            ("tool_use", _, _) => {
                return Err(unreadable("content_block_start", "a tool call has no id or no name"));
            }
            _ => (Kind::Other, None),
        };
        self.block = Some((start.index, kind));
        Ok(event)
    }

    fn read_delta(&mut self, piece: BlockDelta<'_>) -> Result<Option<ChatEvent>, StreamError> {
        let Some((_, kind)) = self.block.filter(|(index, _)| *index == piece.index) else {
            return Err(unreadable("content_block_delta", "no content block with this index is open"));
        };
        let non_empty = |word: Option<CowStr<'_>>| {
            word.map(|CowStr(text)| text.into_owned()).filter(|text| !text.is_empty())
        };
        Ok(match (kind, &*piece.delta.kind) {
            (Kind::Text, "text_delta") => non_empty(piece.delta.text).map(ChatEvent::Text),
            (Kind::Thinking, "thinking_delta") => non_empty(piece.delta.thinking).map(ChatEvent::Thinking),
            (Kind::Call, "input_json_delta") => non_empty(piece.delta.partial_json).map(ChatEvent::ToolInput),
            _ => None,
        })
    }
}

#[derive(Deserialize)]
struct MessageStart<'a> {
    #[serde(borrow)]
    message: Started<'a>,
}

#[derive(Deserialize)]
struct Started<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    model: Cow<'a, str>,
    #[serde(default)]
    usage: Lenient<AnthropicUsageFields>,
}

#[derive(Deserialize)]
struct BlockStart<'a> {
    index: u64,
    #[serde(borrow)]
    content_block: AnswerBlock<'a>,
}

#[derive(Deserialize)]
struct BlockDelta<'a> {
    index: u64,
    #[serde(borrow)]
    delta: DeltaFields<'a>,
}

#[derive(Deserialize)]
struct DeltaFields<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    text: Option<CowStr<'a>>,
    #[serde(borrow)]
    thinking: Option<CowStr<'a>>,
    #[serde(borrow)]
    partial_json: Option<CowStr<'a>>,
}

#[derive(Deserialize)]
struct MessageDelta<'a> {
    #[serde(borrow)]
    delta: Ending<'a>,
    #[serde(default)]
    usage: Lenient<AnthropicUsageFields>,
}

#[derive(Deserialize)]
struct Ending<'a> {
    #[serde(borrow)]
    stop_reason: Option<CowStr<'a>>,
}
