//! A stream of events, read as its dialect wants it.

use seawall_model::engine::count_tokens;
use serde_json::Value;

/// What has come of a stream.
#[derive(Debug, Default)]
pub(super) struct Events {
    /// Bytes of an event that is not over.
    rest: Vec<u8>,
    text: String,
    has_started: bool,
    /// What the stream says that it has said, once it says why it stops.
    told_tokens: Option<u64>,
    has_ended: bool,
    is_told_broken: bool,
    /// Something came that has no place where it came.
    is_wrong: bool,
}

impl Events {
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        while let Some(end) = self.rest.windows(2).position(|two| two == b"\n\n") {
            let event: Vec<u8> = self.rest.drain(..end + 2).collect();
            self.event(&event);
        }
    }

    pub(super) fn has_text(&self) -> bool {
        !self.text.is_empty()
    }

    pub(super) fn is_told_broken(&self) -> bool {
        self.is_told_broken
    }

    /// Whether it began, said why it stops, ended, and has as much text as it says.
    pub(super) fn is_whole(&self) -> bool {
        self.has_ended && !self.is_wrong && self.told_tokens == Some(count_tokens(&self.text))
    }

    fn event(&mut self, event: &[u8]) {
        let Ok(event) = str::from_utf8(event) else {
            self.is_wrong = true;
            return;
        };
        let data: String = event
            .lines()
            .filter_map(|line| line.strip_prefix("data:"))
            .map(|data| data.strip_prefix(' ').unwrap_or(data))
            .collect();
        // A comment keeps a connection open and says nothing.
        if data.is_empty() {
            return;
        }
        let Ok(data) = serde_json::from_str::<Value>(&data) else {
            self.is_wrong = true;
            return;
        };
        self.said(&data);
    }

    fn said(&mut self, data: &Value) {
        let kind = data["type"].as_str().unwrap_or_default();
        let is_in_place = match kind {
            "ping" | "error" => true,
            "message_start" => !self.has_started,
            "message_stop" => self.has_started && !self.has_ended && self.told_tokens.is_some(),
            _ => self.has_started && !self.has_ended,
        };
        self.is_wrong |= !is_in_place;
        match kind {
            "message_start" => self.has_started = true,
            "message_stop" => self.has_ended = true,
            "message_delta" if data["delta"]["stop_reason"].is_string() => {
                self.told_tokens = data["usage"]["output_tokens"].as_u64();
            }
            "content_block_delta" => self.text.push_str(data["delta"]["text"].as_str().unwrap_or_default()),
            "error" => self.is_told_broken = true,
            _ => {}
        }
    }
}
