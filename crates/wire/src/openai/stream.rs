//! A stream, read for its usage and its end while it passes through.

use super::answer::{UsageFields, Word, finish_of};
use super::error::failure_of;
use crate::answer_error::StreamError;
use crate::chat::{FinishReason, StreamEvent, Usage};
use crate::sse::{SseEnding, SseLimits, SseReader};
use crate::stream::{feed_events, parse};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// Whether an event says that the stream is complete.
pub(super) fn is_done(data: &[u8]) -> bool {
    data.trim_ascii() == b"[DONE]"
}

/// Reads a stream of chunks. Of each only what accounts need is looked at.
///
/// The first chunk with a choice begins the answer; its usage is not known before the end. A chunk may be several things
/// at once, such as the beginning and content.
///
/// ```
/// use seawall_wire::chat::StreamEvent;
/// use seawall_wire::openai::OpenAiStream;
/// use seawall_wire::sse::SseLimits;
///
/// let mut stream = OpenAiStream::new(SseLimits::default());
/// let mut events = Vec::new();
/// stream.feed(b"data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\ndata: [DONE]\n\n", |event| events.push(event))?;
/// assert_eq!(events[1..], [StreamEvent::Content, StreamEvent::Finished]);
/// assert!(stream.is_complete());
/// # Ok::<(), seawall_wire::StreamError>(())
/// ```
#[derive(Debug)]
pub struct OpenAiStream {
    sse: SseReader,
    failed: Option<StreamError>,
    account: Account,
}

#[derive(Debug, Default)]
struct Account {
    has_begun: bool,
    usage: Usage,
    finish: Option<FinishReason>,
    is_complete: bool,
}

impl OpenAiStream {
    /// A stream of which nothing has arrived.
    #[must_use]
    pub fn new(limits: SseLimits) -> Self {
        Self { sse: SseReader::new(limits), failed: None, account: Account::default() }
    }

    /// Reads on, and calls `on_event` for what each event means that the bytes complete. After an error every further call
    /// fails in the same way.
    pub fn feed(&mut self, bytes: &[u8], mut on_event: impl FnMut(StreamEvent)) -> Result<(), StreamError> {
        let account = &mut self.account;
        feed_events(&mut self.sse, &mut self.failed, bytes, |event| account.read(event.data, &mut on_event))
    }

    /// The answer's usage as far as the vendor has told it.
    #[must_use]
    pub const fn usage(&self) -> Usage {
        self.account.usage
    }

    /// Why the model stopped, once it has.
    #[must_use]
    pub const fn finish_reason(&self) -> Option<FinishReason> {
        self.account.finish
    }

    /// Whether the vendor has said that the answer is complete. A stream that ends otherwise was cut, even when its
    /// connection was closed in good order.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.account.is_complete
    }

    /// Whether the bytes so far end between two events. Only there can something be written behind them.
    #[must_use]
    pub fn is_between_events(&self) -> bool {
        self.sse.finish() == SseEnding::Clean
    }
}

impl Account {
    fn read(&mut self, data: &[u8], on_event: &mut impl FnMut(StreamEvent)) -> Result<(), StreamError> {
        if is_done(data) {
            self.is_complete = true;
            on_event(StreamEvent::Finished);
            return Ok(());
        }
        let chunk: Chunk<'_> = parse("chunk", data)?;
        if let Some(error) = chunk.error {
            // The status that the stream began with, which says nothing any more.
            let (failure, message) = failure_of(200, &error);
            on_event(StreamEvent::Failed { failure, message });
            return Ok(());
        }
        let mut is_known = false;
        let mut tell = |event| {
            is_known = true;
            on_event(event);
        };
        if !self.has_begun && !chunk.choices.is_empty() {
            self.has_begun = true;
            tell(StreamEvent::Started(Usage::default()));
        }
        if chunk.choices.iter().any(Choice::has_content) {
            tell(StreamEvent::Content);
        }
        let finish = chunk.choices.into_iter().find_map(|choice| choice.finish_reason);
        let finish = finish.map(|Word(name)| finish_of(&name));
        if finish.is_some() || chunk.usage.is_some() {
            self.finish = finish.or(self.finish);
            self.usage = chunk.usage.map_or(self.usage, |usage| usage.read());
            tell(StreamEvent::Progress { usage: self.usage, finish: self.finish });
        }
        if !is_known {
            on_event(StreamEvent::Other);
        }
        Ok(())
    }
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow, default)]
    choices: Vec<Choice<'a>>,
    usage: Option<UsageFields>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
    #[serde(borrow)]
    finish_reason: Option<Word<'a>>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    refusal: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_calls: Option<&'a RawValue>,
    #[serde(borrow)]
    function_call: Option<&'a RawValue>,
}

impl Choice<'_> {
    fn has_content(&self) -> bool {
        let Some(delta) = &self.delta else { return false };
        let parts = [delta.content, delta.refusal, delta.tool_calls, delta.function_call];
        parts.into_iter().flatten().any(|raw| !matches!(raw.get(), "null" | r#""""# | "[]"))
    }
}
