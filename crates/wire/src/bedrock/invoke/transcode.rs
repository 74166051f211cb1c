//! Converts between Anthropic's server-sent events and Bedrock frames.

use crate::anthropic::{
    AnthropicErrorBody, AnthropicStream, read_error, write_error_event, write_message_stop,
};
use crate::bedrock::error_response::{StreamKind, json, write_failure_frame};
use crate::bedrock::frame::{FrameEnding, FrameKind, FrameLimits, FrameReader, write_event_frame};
use crate::bedrock::stream::{BedrockStreamError, failure_of, parse};
use crate::request::CowStr;
use crate::sse::{SseLimits, SseReader, write_event};
use crate::stream::parse as parse_event;
use crate::{ApiErrorKind, StreamError};
use base64_simd::STANDARD as BASE64;
use bytes::BytesMut;
use seawall_core::failure::Failure;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;

/// The content of a frame of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvokeEvent<'a> {
    /// One of Anthropic's events.
    Message {
        /// The event type; empty if the event has none.
        name: &'a str,
        /// The event as JSON, not parsed further.
        json: &'a [u8],
    },
    /// The service reported a failure.
    Failed {
        /// The failure, classified for breaker, retry and fallback decisions.
        failure: Failure,
        /// The vendor's error message.
        message: String,
    },
}

/// Extracts Anthropic's events from frames. Frames of unknown types are skipped.
#[derive(Debug)]
pub struct InvokeReader {
    frames: FrameReader,
    /// The decoded event; kept to reuse the allocation.
    event: Vec<u8>,
    failed: Option<BedrockStreamError>,
}

impl InvokeReader {
    /// Creates a reader at the start of a stream.
    #[must_use]
    pub const fn new(limits: FrameLimits) -> Self {
        Self { frames: FrameReader::new(limits), event: Vec::new(), failed: None }
    }

    /// Parses the next chunk and calls `on_event` for each event that it completes. After an error, every further call
    /// returns the same error.
    pub fn feed(
        &mut self,
        bytes: &[u8],
        mut on_event: impl FnMut(InvokeEvent<'_>),
    ) -> Result<(), BedrockStreamError> {
        let Self { frames, event: decoded, failed } = self;
        let outcome = frames.feed(bytes, |frame| {
            if failed.is_some() {
                return;
            }
            if let Some((failure, message)) = failure_of(&frame) {
                on_event(InvokeEvent::Failed { failure, message });
            } else if frame.kind == FrameKind::Event("chunk") {
                *failed = read_chunk(frame.payload, decoded, &mut on_event).err();
            }
        });
        match failed {
            Some(error) => Err(error.clone()),
            None => Ok(outcome?),
        }
    }

    /// Whether the bytes so far end at a frame boundary. Only there may other frames be inserted.
    #[must_use]
    pub fn is_between_frames(&self) -> bool {
        self.frames.finish() == FrameEnding::Clean
    }

    /// Size in bytes of the incomplete frame received so far.
    pub(super) const fn unfinished(&self) -> usize {
        self.frames.unfinished()
    }
}

/// Extracts Anthropic's events from frames and writes them as the server-sent events of Anthropic Messages.
///
/// An event without a type is dropped, because it could not be named; the metrics that the service adds to the last
/// event are removed, too. A failure is written as the API error that the caller receives for it.
#[derive(Debug)]
pub struct InvokeToSse {
    reader: InvokeReader,
}

impl InvokeToSse {
    /// Creates a converter at the start of a stream.
    #[must_use]
    pub const fn new(limits: FrameLimits) -> Self {
        Self { reader: InvokeReader::new(limits) }
    }

    /// Parses the next chunk and appends an event for each frame that it completes. After an error, every further call
    /// returns the same error.
    pub fn feed(&mut self, bytes: &[u8], out: &mut BytesMut) -> Result<(), BedrockStreamError> {
        self.reader.feed(bytes, |event| match event {
            InvokeEvent::Message { name: "", .. } => {}
            InvokeEvent::Message { name: "message_stop", .. } => write_message_stop(out),
            InvokeEvent::Message { name, json } => write_event(out, name, json),
            InvokeEvent::Failed { failure, message } => {
                let error_kind = ApiErrorKind::of_failure(failure.kind);
                write_error_event(out, &AnthropicErrorBody::new(error_kind, &message, None));
            }
        })
    }
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    bytes: std::borrow::Cow<'a, str>,
}

#[derive(Deserialize)]
struct EventType<'a> {
    #[serde(rename = "type", borrow)]
    name: Option<CowStr<'a>>,
}

fn read_chunk(
    payload: &[u8],
    event: &mut Vec<u8>,
    on_event: &mut impl FnMut(InvokeEvent<'_>),
) -> Result<(), BedrockStreamError> {
    decode_chunk(payload, event)?;
    let typed: EventType<'_> = parse("chunk", event)?;
    let name = typed.name.as_ref().map_or("", |CowStr(name)| name);
    on_event(InvokeEvent::Message { name, json: event });
    Ok(())
}

/// Decodes the payload of a chunk, whatever it contains.
pub(super) fn decode_chunk(payload: &[u8], event: &mut Vec<u8>) -> Result<(), BedrockStreamError> {
    let chunk;
    let bytes = match plain_bytes(payload) {
        Some(bytes) => bytes,
        None => {
            chunk = parse::<Chunk<'_>>("chunk", payload)?;
            chunk.bytes.as_bytes()
        }
    };
    event.clear();
    let decoded = BASE64.decode_append(bytes, event);
    decoded.map_err(|error| BedrockStreamError::Unreadable {
        event: "chunk",
        problem: format!("invalid base64: {error}"),
    })?;
    Ok(())
}

/// Fast path: the base64 text of a chunk in the exact form that the service writes, with or without padding (`p`). The
/// base64 decoder validates it; every other form is left to the JSON parser.
fn plain_bytes(payload: &[u8]) -> Option<&[u8]> {
    let rest = payload.strip_prefix(b"{\"bytes\":\"")?;
    let (bytes, rest) = rest.split_at_checked(memchr::memchr2(b'"', b'\\', rest)?)?;
    let is_padding = |rest: &[u8]| {
        let padding = rest.strip_prefix(b"\",\"p\":\"").and_then(|rest| rest.strip_suffix(b"\"}"));
        padding.is_some_and(|padding| padding.iter().all(u8::is_ascii_alphanumeric))
    };
    (rest == b"\"}" || is_padding(rest)).then_some(bytes)
}

/// Appends the frame for one of Anthropic's events, given as JSON.
pub fn write_chunk(out: &mut BytesMut, event: &[u8]) {
    // Base64 needs no escapes in JSON.
    let mut payload = String::with_capacity(event.len() / 3 * 4 + 20);
    payload.push_str("{\"bytes\":\"");
    BASE64.encode_append(event, &mut payload);
    payload.push_str("\"}");
    write_event_frame(out, "chunk", payload);
}

/// Wraps the server-sent events of Anthropic Messages in frames. Keep-alive events are dropped; an error becomes an
/// exception; the last event gets the counts and times that the service adds there.
#[derive(Debug)]
pub struct SseToInvoke {
    sse: SseReader,
    observer: AnthropicStream,
    first_after: Option<Duration>,
}

impl SseToInvoke {
    /// Creates a converter at the start of a stream.
    #[must_use]
    pub fn new(limits: SseLimits) -> Self {
        Self { sse: SseReader::new(limits), observer: AnthropicStream::new(limits), first_after: None }
    }

    /// Parses the next chunk and appends a frame for each event that it completes. `elapsed` is the time since the
    /// model was called.
    pub fn feed(&mut self, bytes: &[u8], elapsed: Duration, out: &mut BytesMut) -> Result<(), StreamError> {
        let first_after = *self.first_after.get_or_insert(elapsed);
        self.observer.feed(bytes, |_| ())?;
        let usage = self.observer.usage();
        let mut broken = None;
        self.sse.feed(bytes, |event| match event.name {
            _ if broken.is_some() => {}
            b"ping" | b"" => {}
            b"error" => {
                let failure = read_error(200, |_| None, event.data);
                let error: Value = serde_json::from_slice(event.data).unwrap_or_default();
                let message = error["error"]["message"].as_str().unwrap_or_default();
                write_failure_frame(out, StreamKind::Invoke, failure.kind, message);
            }
            b"message_stop" => {
                let metrics = MetricsFields {
                    input_token_count: usage.input,
                    output_token_count: usage.output,
                    cache_read_input_token_count: usage.cache_read,
                    cache_write_input_token_count: usage.cache_write,
                    invocation_latency: elapsed.as_millis(),
                    first_byte_latency: first_after.as_millis(),
                };
                write_chunk(out, &json(&MessageStop { kind: "message_stop", metrics }));
            }
            // Content is not parsed while it is observed. It is validated here, because inside a frame a client could
            // not locate the error.
            _ => match parse_event::<IgnoredAny>("content", event.data) {
                Ok(_) => write_chunk(out, event.data),
                Err(error) => broken = Some(error),
            },
        })?;
        broken.map_or(Ok(()), Err)
    }
}

#[derive(Serialize)]
struct MessageStop {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(rename = "amazon-bedrock-invocationMetrics")]
    metrics: MetricsFields,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MetricsFields {
    input_token_count: u64,
    output_token_count: u64,
    cache_read_input_token_count: u64,
    cache_write_input_token_count: u64,
    invocation_latency: u128,
    first_byte_latency: u128,
}
