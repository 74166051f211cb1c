//! Splits a stream of bytes into the events of its dialect.

use super::ClientDialect;
use super::frames::{FrameDecoder, NextFrame};
use super::parsed_stream::ParsedStream;

/// The received part of a stream.
#[derive(Debug)]
pub(super) struct EventStream {
    dialect: ClientDialect,
    /// Bytes of an incomplete event.
    buffer: Vec<u8>,
    frames: FrameDecoder,
    parsed: ParsedStream,
}

impl EventStream {
    pub(super) fn new(dialect: ClientDialect) -> Self {
        Self { dialect, buffer: Vec::new(), frames: FrameDecoder::default(), parsed: ParsedStream::default() }
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) {
        if self.dialect == ClientDialect::Converse {
            return self.feed_frames(bytes);
        }
        self.buffer.extend_from_slice(bytes);
        while let Some(end) = self.buffer.windows(2).position(|two| two == b"\n\n") {
            let event: Vec<u8> = self.buffer.drain(..end + 2).collect();
            self.event(&event);
        }
    }

    fn feed_frames(&mut self, bytes: &[u8]) {
        self.frames.feed(bytes);
        loop {
            match self.frames.next() {
                NextFrame::Incomplete => return,
                NextFrame::Invalid => return self.parsed.require(false),
                NextFrame::Frame { name, payload } => self.parsed.event(self.dialect, &name, &payload),
            }
        }
    }

    pub(super) fn has_text(&self) -> bool {
        !self.parsed.text.is_empty()
    }

    pub(super) fn has_error(&self) -> bool {
        self.parsed.has_error
    }

    /// Whether it began, gave a stop reason, ended, and contains as much text as it reports.
    pub(super) fn is_complete(&self) -> bool {
        self.parsed.is_complete()
    }

    /// Whether it gave a stop reason and ended, whatever length it reports.
    pub(super) const fn is_ended(&self) -> bool {
        self.parsed.is_ended()
    }

    fn event(&mut self, event: &[u8]) {
        let Ok(event) = str::from_utf8(event) else { return self.parsed.require(false) };
        let of = |field: &'static str| {
            let lines = event.lines().filter_map(move |line| line.strip_prefix(field));
            lines.map(|value| value.strip_prefix(' ').unwrap_or(value)).collect::<String>()
        };
        let data = of("data:");
        // A comment is a keep-alive without content.
        if !data.is_empty() {
            self.parsed.event(self.dialect, &of("event:"), data.as_bytes());
        }
    }
}
