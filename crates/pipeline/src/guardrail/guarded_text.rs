//! Buffers an answer until its guardrail releases it.

use super::{AnswerInspector, CheckedDecision, InspectionDecision};
use std::fmt;

/// An answer that passes through an inspector. The concatenated output is a prefix of the answer, byte for byte, up to what
/// the inspector has released.
pub struct GuardedText {
    inspector: Box<dyn AnswerInspector>,
    /// Text that was received but not released.
    held: String,
    released: u64,
    blocked_by: Option<Box<str>>,
}

impl GuardedText {
    /// Starts an empty answer.
    #[must_use]
    pub const fn new(inspector: Box<dyn AnswerInspector>) -> Self {
        Self { inspector, held: String::new(), released: 0, blocked_by: None }
    }

    /// Takes the next piece and returns the text that is released by now. After a block it always returns an empty
    /// string.
    #[must_use]
    pub fn take(&mut self, piece: &str) -> String {
        if self.blocked_by.is_some() {
            return String::new();
        }
        self.held.push_str(piece);
        let decision = self.inspector.take(piece);
        self.release(decision, false)
    }

    /// Ends the answer and returns the rest, unless the inspector blocks it.
    #[must_use]
    pub fn end(&mut self) -> String {
        if self.blocked_by.is_some() {
            return String::new();
        }
        let decision = self.inspector.end();
        self.release(decision, true)
    }

    /// The rule that blocked the answer.
    #[must_use]
    pub fn blocked_by(&self) -> Option<&str> {
        self.blocked_by.as_deref()
    }

    fn release(&mut self, decision: InspectionDecision, is_end: bool) -> String {
        let length = self.released.saturating_add(self.held.len() as u64);
        let checked = CheckedDecision::of(decision, self.released, length, is_end);
        let more = usize::try_from(checked.release.saturating_sub(self.released)).unwrap_or_default();
        // Round down to a character boundary.
        let more = self.held.floor_char_boundary(more);
        let rest = self.held.split_off(more);
        self.released = self.released.saturating_add(more as u64);
        self.blocked_by = checked.blocked_by;
        let text = std::mem::replace(&mut self.held, rest);
        if self.blocked_by.is_some() {
            self.held = String::new();
        }
        text
    }
}

impl fmt::Debug for GuardedText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The text itself is not printed, because it was not released.
        let Self { held, released, blocked_by, .. } = self;
        write!(
            formatter,
            "GuardedText {{ held: {}, released: {released}, blocked_by: {blocked_by:?} }}",
            held.len()
        )
    }
}
