//! The parsed state of a stream, independent of its dialect.

use super::ClientDialect;
use super::parse_event::parse_event;
use seawall_model::engine::count_tokens;

/// What has been parsed of a stream.
#[derive(Debug, Default)]
pub(super) struct ParsedStream {
    pub(super) text: String,
    pub(super) has_started: bool,
    /// The stop reason has arrived.
    pub(super) has_stop_reason: bool,
    /// The number of output tokens that the stream reports.
    pub(super) reported_tokens: Option<u64>,
    /// The text does not come from a model, so it has no token count.
    pub(super) is_canned: bool,
    pub(super) has_ended: bool,
    pub(super) has_error: bool,
    /// An event arrived out of order.
    pub(super) is_invalid: bool,
}

impl ParsedStream {
    /// Whether it began, gave a stop reason, ended, and contains as much text as it reports.
    pub(super) fn is_complete(&self) -> bool {
        let is_long_enough = if self.is_canned {
            !self.text.is_empty()
        } else {
            self.reported_tokens == Some(count_tokens(&self.text))
        };
        self.has_ended && self.has_stop_reason && !self.is_invalid && is_long_enough
    }

    /// Whether it gave a stop reason and ended, whatever length it reports.
    pub(super) const fn is_ended(&self) -> bool {
        self.has_ended && self.has_stop_reason
    }

    /// Marks the stream as invalid unless the event is in order.
    pub(super) fn require(&mut self, is_in_place: bool) {
        self.is_invalid |= !is_in_place;
    }

    /// Processes one event: its name, if it has one, and its data.
    pub(super) fn event(&mut self, dialect: ClientDialect, name: &str, data: &[u8]) {
        let is_valid = parse_event(self, dialect, name, data).is_some();
        self.require(is_valid);
    }
}
