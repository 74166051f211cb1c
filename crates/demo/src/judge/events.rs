//! Splits a stream of bytes into the events of its dialect.

use super::Dialect;
use super::frames::{Frames, Next};
use super::heard::Heard;

/// The received part of a stream.
#[derive(Debug)]
pub(super) struct Events {
    dialect: Dialect,
    /// Bytes of an incomplete event.
    rest: Vec<u8>,
    frames: Frames,
    heard: Heard,
}

impl Events {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self { dialect, rest: Vec::new(), frames: Frames::default(), heard: Heard::default() }
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) {
        if self.dialect == Dialect::Converse {
            return self.feed_frames(bytes);
        }
        self.rest.extend_from_slice(bytes);
        while let Some(end) = self.rest.windows(2).position(|two| two == b"\n\n") {
            let event: Vec<u8> = self.rest.drain(..end + 2).collect();
            self.event(&event);
        }
    }

    fn feed_frames(&mut self, bytes: &[u8]) {
        self.frames.feed(bytes);
        loop {
            match self.frames.next() {
                Next::More => return,
                Next::Wrong => return self.heard.expect(false),
                Next::Frame { name, payload } => self.heard.event(self.dialect, &name, &payload),
            }
        }
    }

    pub(super) fn has_text(&self) -> bool {
        !self.heard.text.is_empty()
    }

    pub(super) fn is_told_broken(&self) -> bool {
        self.heard.is_told_broken
    }

    /// Whether it began, gave a stop reason, ended, and contains as much text as it reports.
    pub(super) fn is_whole(&self) -> bool {
        self.heard.is_whole()
    }

    /// Whether it gave a stop reason and ended, whatever length it reports.
    pub(super) const fn is_ended(&self) -> bool {
        self.heard.is_ended()
    }

    fn event(&mut self, event: &[u8]) {
        let Ok(event) = str::from_utf8(event) else { return self.heard.expect(false) };
        let of = |field: &'static str| {
            let lines = event.lines().filter_map(move |line| line.strip_prefix(field));
            lines.map(|value| value.strip_prefix(' ').unwrap_or(value)).collect::<String>()
        };
        let data = of("data:");
        // A comment is a keep-alive without content.
        if !data.is_empty() {
            self.heard.event(self.dialect, &of("event:"), data.as_bytes());
        }
    }
}
