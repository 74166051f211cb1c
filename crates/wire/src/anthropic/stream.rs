//! A stream, read for its usage and its end while it passes through.

use super::answer::{UsageFields, Word, finish_of};
use super::error::read_error_body;
use super::write::{write_block_stop, write_message_delta, write_message_stop};
use crate::answer_error::StreamError;
use crate::chat::{FinishReason, StreamEvent, Usage, UsageReport};
use crate::content;
use crate::sse::{SseEnding, SseLimits, SseReader};
use crate::stream::{parse, unreadable};
use bytes::BytesMut;
use seawall_core::tokens::OutputMeter;
use serde::Deserialize;

/// Reads a stream of messages. Only the events that carry usage or an error are parsed; content is recognised by
/// its event's name alone, and its text is counted as it stands.
///
/// ```
/// use seawall_wire::anthropic::AnthropicStream;
/// use seawall_wire::chat::StreamEvent;
/// use seawall_wire::sse::SseLimits;
///
/// let mut stream = AnthropicStream::new(SseLimits::default());
/// let mut events = Vec::new();
/// stream.feed(b"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n", |event| events.push(event))?;
/// assert_eq!(events, [StreamEvent::Finished]);
/// assert!(stream.is_complete());
/// # Ok::<(), seawall_wire::StreamError>(())
/// ```
#[derive(Debug)]
pub struct AnthropicStream {
    sse: SseReader,
    account: EventAccount,
}

/// What events have told of the answer so far, in whatever they came.
#[derive(Debug, Default)]
pub(crate) struct EventAccount {
    usage: Usage,
    finish: Option<FinishReason>,
    is_complete: bool,
    failed: Option<StreamError>,
    checks_content: bool,
    meter: OutputMeter,
    /// Whether the vendor has told how much output there is, as it does towards the end.
    has_output: bool,
    /// Blocks of content that have begun, and that have ended.
    begun: usize,
    ended: usize,
}

impl AnthropicStream {
    /// A stream of which nothing has arrived.
    #[must_use]
    pub fn new(limits: SseLimits) -> Self {
        Self {
            sse: SseReader::new(limits).wanting_data_of(carries_account),
            account: EventAccount::default(),
        }
    }

    /// The same, which also looks whether content can be an object at all: a piece that is something else, or only the
    /// beginning of one, breaks the stream. That costs two looks per event and no parsing.
    #[must_use]
    pub fn checking_content(mut self) -> Self {
        self.sse = self.sse.wanting_data_of(carries_account_or_content);
        self.account.checks_content = true;
        self
    }

    /// Reads on, and calls `on_event` for each event that the bytes complete. After an error every further call
    /// fails in the same way.
    pub fn feed(&mut self, bytes: &[u8], mut on_event: impl FnMut(StreamEvent)) -> Result<(), StreamError> {
        let account = &mut self.account;
        let outcome = self.sse.feed(bytes, |event| {
            if account.failed.is_some() {
                return;
            }
            match account.read(event.name, event.data) {
                Ok(event) => on_event(event),
                Err(error) => account.failed = Some(error),
            }
        });
        if let Some(error) = &account.failed {
            return Err(error.clone());
        }
        Ok(outcome?)
    }

    /// The answer's usage as far as the vendor has told it.
    #[must_use]
    pub const fn usage(&self) -> Usage {
        self.account.usage
    }

    /// The same, with whether that is all of it.
    #[must_use]
    pub const fn report(&self) -> UsageReport {
        self.account.report()
    }

    /// What has arrived of the answer. Of streams whose content is not [checked](Self::checking_content) only the events
    /// are counted.
    #[must_use]
    pub const fn meter(&self) -> &OutputMeter {
        &self.account.meter
    }

    /// Appends what ends the stream here, as the vendor does at a limit of output.
    pub fn write_end(&self, out: &mut BytesMut, usage: Usage) {
        self.account.write_end(out, usage);
    }

    /// Why the model stopped, once it has.
    #[must_use]
    pub const fn finish_reason(&self) -> Option<FinishReason> {
        self.account.finish
    }

    /// Whether the vendor has said that the answer is complete. A stream that ends otherwise was cut, even when
    /// its connection was closed in good order.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.account.is_complete
    }

    /// How many bytes of an unfinished event have come, about.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        self.sse.unfinished()
    }

    /// Whether the bytes so far end between two events. Only there can something be written behind them.
    #[must_use]
    pub fn is_between_events(&self) -> bool {
        self.sse.finish() == SseEnding::Clean
    }
}

fn carries_account(name: &[u8]) -> bool {
    matches!(name, b"message_start" | b"message_delta" | b"error")
}

fn carries_account_or_content(name: &[u8]) -> bool {
    carries_account(name) || is_content(name)
}

fn is_content(name: &[u8]) -> bool {
    matches!(name, b"content_block_start" | b"content_block_delta" | b"content_block_stop")
}

fn looks_like_object(data: &[u8]) -> bool {
    let data = data.trim_ascii();
    data.starts_with(b"{") && data.ends_with(b"}")
}

impl EventAccount {
    /// The answer's usage as far as the vendor has told it.
    pub(crate) const fn usage(&self) -> Usage {
        self.usage
    }

    pub(crate) const fn report(&self) -> UsageReport {
        UsageReport { usage: self.usage, has_output: self.has_output }
    }

    pub(crate) const fn meter(&self) -> &OutputMeter {
        &self.meter
    }

    /// Appends the events that end the answer here, as the vendor does at a limit of output.
    pub(crate) fn write_end(&self, out: &mut BytesMut, usage: Usage) {
        // Blocks are numbered in their order, and one begins when the one before it has ended.
        if self.begun > self.ended {
            write_block_stop(out, self.begun - 1);
        }
        write_message_delta(out, FinishReason::MaxTokens, usage);
        write_message_stop(out);
    }

    /// Why the model stopped, once it has.
    pub(crate) const fn finish_reason(&self) -> Option<FinishReason> {
        self.finish
    }

    /// Whether the vendor has said that the answer is complete.
    pub(crate) const fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Takes an event by its name and its data.
    pub(crate) fn read(&mut self, name: &[u8], data: &[u8]) -> Result<StreamEvent, StreamError> {
        Ok(match name {
            name if self.checks_content && is_content(name) && !looks_like_object(data) => {
                return Err(unreadable("content", "it is no object"));
            }
            b"content_block_delta" => {
                self.meter.note_event();
                content::add_delta(&mut self.meter, data);
                StreamEvent::Content
            }
            b"content_block_start" => {
                self.begun = self.begun.saturating_add(1);
                content::note_block(&mut self.meter, data);
                StreamEvent::Other
            }
            b"content_block_stop" => {
                self.ended = self.ended.saturating_add(1);
                StreamEvent::Other
            }
            b"message_start" => {
                let start: MessageStart = parse("message_start", data)?;
                self.usage = start.message.usage.unwrap_or_default().over(Usage::default());
                StreamEvent::Started(self.usage)
            }
            b"message_delta" => {
                let delta: MessageDelta<'_> = parse("message_delta", data)?;
                if let Some(usage) = delta.usage {
                    self.usage = usage.over(self.usage);
                    if usage.has_output() {
                        self.has_output = true;
                        self.meter.note_counted(self.usage.output);
                    }
                }
                if let Some(Word(name)) = delta.delta.stop_reason {
                    self.finish = Some(finish_of(&name));
                }
                StreamEvent::Progress { usage: self.usage, finish: self.finish }
            }
            b"message_stop" => {
                self.is_complete = true;
                StreamEvent::Finished
            }
            b"error" => {
                // The status that the stream began with, which says nothing any more.
                let (failure, message) = read_error_body(200, data);
                StreamEvent::Failed { failure, message }
            }
            _ => StreamEvent::Other,
        })
    }
}

#[derive(Deserialize)]
struct MessageStart {
    message: StartedMessage,
}

#[derive(Deserialize)]
struct StartedMessage {
    usage: Option<UsageFields>,
}

#[derive(Deserialize)]
struct MessageDelta<'a> {
    #[serde(borrow)]
    delta: Delta<'a>,
    usage: Option<UsageFields>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow)]
    stop_reason: Option<Word<'a>>,
}
