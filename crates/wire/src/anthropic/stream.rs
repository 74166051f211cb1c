//! Observes a stream that passes through, for its usage and its end.

use super::answer::finish_of;
use super::error::read_error_body;
use super::usage::AnthropicUsageFields;
use super::write::{write_block_stop, write_message_delta, write_message_stop};
use crate::answer_error::StreamError;
use crate::chat::{FinishReason, StreamEvent, Usage, UsageReport};
use crate::content;
use crate::lenient::Lenient;
use crate::request::CowStr;
use crate::sse::{SseEnding, SseLimits, SseReader};
use crate::stream::{parse, unreadable};
use bytes::BytesMut;
use seawall_core::tokens::OutputMeter;
use serde::Deserialize;

/// Observes a message stream. Only events that carry usage or an error are parsed; content events are recognised by
/// their name, and the length of their text is counted without parsing.
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
    account: AnthropicStreamState,
}

/// Accumulated state of the answer, independent of the framing (SSE or Bedrock frames).
#[derive(Debug, Default)]
pub(crate) struct AnthropicStreamState {
    usage: Usage,
    finish: Option<FinishReason>,
    is_complete: bool,
    failed: Option<StreamError>,
    checks_content: bool,
    meter: OutputMeter,
    /// Whether the vendor has reported the output tokens, which it does near the end.
    output_reported: bool,
    /// Number of content blocks that have started, and that have ended.
    begun: usize,
    ended: usize,
}

impl AnthropicStream {
    /// Creates a reader at the start of a stream.
    #[must_use]
    pub fn new(limits: SseLimits) -> Self {
        Self {
            sse: SseReader::new(limits).with_data_filter(carries_usage),
            account: AnthropicStreamState::default(),
        }
    }

    /// Also checks that the data of content events looks like a complete JSON object; if it does not, the stream fails.
    /// This inspects the first and last byte of each event and does not parse it.
    #[must_use]
    pub fn checking_content(mut self) -> Self {
        self.sse = self.sse.with_data_filter(carries_usage_or_content);
        self.account.checks_content = true;
        self
    }

    /// Parses the next chunk and calls `on_event` for each event that it completes. After an error, every further call
    /// returns the same error.
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

    /// The usage that the vendor has reported so far.
    #[must_use]
    pub const fn usage(&self) -> Usage {
        self.account.usage
    }

    /// The usage so far, and whether it includes the final output count.
    #[must_use]
    pub const fn report(&self) -> UsageReport {
        self.account.report()
    }

    /// What has arrived of the answer. If content is not [checked](Self::checking_content), only events are counted.
    #[must_use]
    pub const fn meter(&mut self) -> &mut OutputMeter {
        &mut self.account.meter
    }

    /// Appends the events that end the stream here, in the form that the vendor uses at the output limit.
    pub fn write_end(&self, out: &mut BytesMut, usage: Usage) {
        self.account.write_end(out, usage);
    }

    /// The finish reason, once known.
    #[must_use]
    pub const fn finish_reason(&self) -> Option<FinishReason> {
        self.account.finish
    }

    /// Whether the vendor has marked the answer as complete. A stream that ends without that was truncated, even if its
    /// connection was closed cleanly.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.account.is_complete
    }

    /// Approximate size in bytes of the incomplete event received so far.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        self.sse.unfinished()
    }

    /// Whether the bytes so far end at an event boundary. Only there may other events be inserted.
    #[must_use]
    pub fn is_between_events(&self) -> bool {
        self.sse.finish() == SseEnding::Clean
    }
}

fn carries_usage(name: &[u8]) -> bool {
    matches!(name, b"message_start" | b"message_delta" | b"error")
}

fn carries_usage_or_content(name: &[u8]) -> bool {
    carries_usage(name) || is_content(name)
}

fn is_content(name: &[u8]) -> bool {
    matches!(name, b"content_block_start" | b"content_block_delta" | b"content_block_stop")
}

fn looks_like_object(data: &[u8]) -> bool {
    let data = data.trim_ascii();
    data.starts_with(b"{") && data.ends_with(b"}")
}

impl AnthropicStreamState {
    /// The usage that the vendor has reported so far.
    pub(crate) const fn usage(&self) -> Usage {
        self.usage
    }

    pub(crate) const fn report(&self) -> UsageReport {
        UsageReport { usage: self.usage, output_reported: self.output_reported }
    }

    pub(crate) const fn meter(&mut self) -> &mut OutputMeter {
        &mut self.meter
    }

    /// Appends the events that end the answer here, in the form that the vendor uses at the output limit.
    pub(crate) fn write_end(&self, out: &mut BytesMut, usage: Usage) {
        // Blocks are numbered in order, and each starts after the previous one has ended.
        if self.begun > self.ended {
            write_block_stop(out, self.begun - 1);
        }
        write_message_delta(out, FinishReason::MaxTokens, usage);
        write_message_stop(out);
    }

    /// The finish reason, once known.
    pub(crate) const fn finish_reason(&self) -> Option<FinishReason> {
        self.finish
    }

    /// Whether the vendor has marked the answer as complete.
    pub(crate) const fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Processes one event, given its name and data.
    pub(crate) fn read(&mut self, name: &[u8], data: &[u8]) -> Result<StreamEvent, StreamError> {
        Ok(match name {
            name if self.checks_content && is_content(name) && !looks_like_object(data) => {
                return Err(unreadable("content", "not a JSON object"));
            }
            b"content_block_delta" => {
                self.meter.record_event();
                content::add_delta(&mut self.meter, data)
            }
            b"content_block_start" => {
                self.begun = self.begun.saturating_add(1);
                content::record_block(&mut self.meter, data);
                StreamEvent::Other
            }
            b"content_block_stop" => {
                self.ended = self.ended.saturating_add(1);
                StreamEvent::Other
            }
            b"message_start" => {
                let start: MessageStart = parse("message_start", data)?;
                let usage = start.message.usage.get();
                self.usage = usage.map(|usage| usage.merge_over(Usage::default())).unwrap_or_default();
                StreamEvent::Started(self.usage)
            }
            b"message_delta" => {
                let delta: MessageDelta<'_> = parse("message_delta", data)?;
                if let Some(usage) = delta.usage.get() {
                    self.usage = usage.merge_over(self.usage);
                    if usage.output_reported() {
                        self.output_reported = true;
                        self.meter.record_vendor_count(self.usage.output);
                    }
                }
                if let Some(CowStr(name)) = delta.delta.stop_reason {
                    self.finish = Some(finish_of(&name));
                }
                StreamEvent::Progress { usage: self.usage, finish: self.finish }
            }
            b"message_stop" => {
                self.is_complete = true;
                StreamEvent::Finished
            }
            b"error" => {
                // 200 is the status that the stream began with; the failure is classified by the error type alone.
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
    #[serde(default)]
    usage: Lenient<AnthropicUsageFields>,
}

#[derive(Deserialize)]
struct MessageDelta<'a> {
    #[serde(borrow)]
    delta: Delta<'a>,
    #[serde(default)]
    usage: Lenient<AnthropicUsageFields>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow)]
    stop_reason: Option<CowStr<'a>>,
}
