//! Removes the usage chunk from a stream that passes through.

use crate::sse::SseError;
use bytes::{Bytes, BytesMut};
use memchr::memmem::Finder;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::sync::LazyLock;

/// Forwards a stream without the chunk that has usage and no choices, for a caller that did not request usage.
///
/// Only complete events are forwarded, because an event can be identified as that chunk only at its end. Events that
/// arrive complete are forwarded without a copy. Everything else in the stream is unchanged, including comments.
///
/// ```
/// use bytes::Bytes;
/// use seawall_wire::openai::UsageFilter;
///
/// let mut filter = UsageFilter::new(1 << 20);
/// let mut passed = Vec::new();
/// for piece in ["data: {\"choices\":[],\"us", "age\":{\"prompt_tokens\":1}}\n\n", "data: [DONE]\n\n"] {
///     filter.feed(&Bytes::from(piece), |bytes| passed.extend_from_slice(&bytes))?;
/// }
/// assert_eq!(passed, b"data: [DONE]\n\n");
/// # Ok::<(), seawall_wire::sse::SseError>(())
/// ```
#[derive(Debug)]
pub struct UsageFilter {
    /// Maximum event size in bytes.
    limit: usize,
    /// The beginning of an incomplete event.
    pending: BytesMut,
    /// Whether the current line has content.
    in_line: bool,
}

impl UsageFilter {
    /// Creates a filter at the start of a stream whose events have at most `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { limit, pending: BytesMut::new(), in_line: false }
    }

    /// Parses the next chunk and calls `pass_on` with the bytes to forward.
    pub fn feed(&mut self, bytes: &Bytes, mut pass_on: impl FnMut(Bytes)) -> Result<(), SseError> {
        // Start of the complete events that are to be forwarded but have not been yet.
        let (mut from, mut at) = (0, 0);
        while let Some(end) = self.event_end(bytes, at) {
            let event = &bytes[at..end];
            self.check(event.len())?;
            if !self.pending.is_empty() {
                self.pending.extend_from_slice(event);
                let event = self.pending.split().freeze();
                if !is_usage_only(&event) {
                    pass_on(event);
                }
                from = end;
            } else if is_usage_only(event) {
                if from < at {
                    pass_on(bytes.slice(from..at));
                }
                from = end;
            }
            at = end;
        }
        if from < at {
            pass_on(bytes.slice(from..at));
        }
        self.check(bytes.len() - at)?;
        self.pending.extend_from_slice(&bytes[at..]);
        Ok(())
    }

    /// The remaining bytes when the stream ends inside an event. The caller would have received them without the
    /// gateway.
    #[must_use]
    pub fn finish(&mut self) -> Bytes {
        self.pending.split().freeze()
    }

    fn check(&self, more: usize) -> Result<(), SseError> {
        let limit = self.limit;
        if self.pending.len() + more > limit { Err(SseError::EventTooLarge { limit }) } else { Ok(()) }
    }

    /// The offset after the empty line that ends the event continued at `from`. A line feed after a carriage return
    /// that ended the previous chunk looks like an empty line; it is forwarded, which is harmless.
    fn event_end(&mut self, bytes: &[u8], from: usize) -> Option<usize> {
        let mut at = from;
        loop {
            let rest = bytes.get(at..)?;
            let Some(length) = memchr::memchr2(b'\n', b'\r', rest) else {
                self.in_line |= !rest.is_empty();
                return None;
            };
            let line_end = if rest[length..].starts_with(b"\r\n") { 2 } else { 1 };
            let is_empty = length == 0 && !self.in_line;
            self.in_line = false;
            at += length + line_end;
            if is_empty {
                return Some(at);
            }
        }
    }
}

const KEY: &[u8] = b"\"usage\"";
/// Built once: that takes longer than most searches.
static KEY_FINDER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(KEY));

fn is_usage_only(event: &[u8]) -> bool {
    // Most events do not contain the key, or have null there, and need no parsing.
    if KEY_FINDER.find_iter(event).all(|at| event[at + KEY.len()..].starts_with(b":null")) {
        return false;
    }
    let mut lines = event.split(|byte| matches!(byte, b'\n' | b'\r')).filter(|line| !line.is_empty());
    let (Some(line), None) = (lines.next(), lines.next()) else { return false };
    let Some(data) = line.strip_prefix(b"data:") else { return false };
    serde_json::from_slice(data).is_ok_and(|Chunk { choices, usage }| choices.is_empty() && usage.is_some())
}

#[derive(Deserialize)]
struct Chunk {
    choices: Vec<IgnoredAny>,
    usage: Option<IgnoredAny>,
}
