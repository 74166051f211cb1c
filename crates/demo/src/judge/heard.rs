//! The parsed state of a stream, independent of its dialect.

use super::Dialect;
use super::said::said;
use seawall_model::engine::count_tokens;

/// What has been parsed of a stream.
#[derive(Debug, Default)]
pub(super) struct Heard {
    pub(super) text: String,
    pub(super) has_started: bool,
    /// The stop reason has arrived.
    pub(super) has_reason: bool,
    /// The number of output tokens that the stream reports.
    pub(super) told_tokens: Option<u64>,
    /// The text does not come from a model, so it has no token count.
    pub(super) is_prepared: bool,
    pub(super) has_ended: bool,
    pub(super) is_told_broken: bool,
    /// An event arrived out of order.
    pub(super) is_wrong: bool,
}

impl Heard {
    /// Whether it began, gave a stop reason, ended, and contains as much text as it reports.
    pub(super) fn is_whole(&self) -> bool {
        let is_long_enough = if self.is_prepared {
            !self.text.is_empty()
        } else {
            self.told_tokens == Some(count_tokens(&self.text))
        };
        self.has_ended && self.has_reason && !self.is_wrong && is_long_enough
    }

    /// Whether it gave a stop reason and ended, whatever length it reports.
    pub(super) const fn is_ended(&self) -> bool {
        self.has_ended && self.has_reason
    }

    /// Marks the stream as invalid unless the event is in order.
    pub(super) fn expect(&mut self, is_in_place: bool) {
        self.is_wrong |= !is_in_place;
    }

    /// Processes one event: its name, if it has one, and its data.
    pub(super) fn event(&mut self, dialect: Dialect, name: &str, data: &[u8]) {
        let makes_sense = said(self, dialect, name, data).is_some();
        self.expect(makes_sense);
    }
}
