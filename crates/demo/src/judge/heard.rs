//! What a stream has said so far, whatever its dialect.

use super::Dialect;
use super::said::said;
use seawall_model::engine::count_tokens;

/// What has been understood of a stream.
#[derive(Debug, Default)]
pub(super) struct Heard {
    pub(super) text: String,
    pub(super) has_started: bool,
    /// It has said why it stops.
    pub(super) has_reason: bool,
    /// What the stream says that it has said.
    pub(super) told_tokens: Option<u64>,
    /// Its text is not a model's, so that nobody has counted it.
    pub(super) is_prepared: bool,
    pub(super) has_ended: bool,
    pub(super) is_told_broken: bool,
    /// Something came that has no place where it came.
    pub(super) is_wrong: bool,
}

impl Heard {
    /// Whether it began, said why it stops, ended, and has as much text as it says.
    pub(super) fn is_whole(&self) -> bool {
        let is_long_enough = if self.is_prepared {
            !self.text.is_empty()
        } else {
            self.told_tokens == Some(count_tokens(&self.text))
        };
        self.has_ended && self.has_reason && !self.is_wrong && is_long_enough
    }

    /// Whether it said why it stops and ended, whatever it says of its length.
    pub(super) const fn is_ended(&self) -> bool {
        self.has_ended && self.has_reason
    }

    /// What comes next is all right only if this holds.
    pub(super) fn expect(&mut self, is_in_place: bool) {
        self.is_wrong |= !is_in_place;
    }

    /// One event: its name where it has one, and what it says.
    pub(super) fn event(&mut self, dialect: Dialect, name: &str, data: &[u8]) {
        let makes_sense = said(self, dialect, name, data).is_some();
        self.expect(makes_sense);
    }
}
