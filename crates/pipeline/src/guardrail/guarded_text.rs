//! Text that is kept back until it may be released.

use super::{AnswerWatch, Judged, WatchDecision};
use std::fmt;

/// An answer on its way past a watch. Pieces go in as they come; what comes out, put together, is the answer's beginning,
/// byte for byte, as far as the watch has released it.
pub struct GuardedText {
    watch: Box<dyn AnswerWatch>,
    /// What has come and was not released.
    held: String,
    released: u64,
    blocked_by: Option<Box<str>>,
}

impl GuardedText {
    /// An answer of which nothing has come.
    #[must_use]
    pub const fn new(watch: Box<dyn AnswerWatch>) -> Self {
        Self { watch, held: String::new(), released: 0, blocked_by: None }
    }

    /// Takes the next piece, and gives what may go on by now. After a block that is nothing, ever.
    #[must_use]
    pub fn take(&mut self, piece: &str) -> String {
        if self.blocked_by.is_some() {
            return String::new();
        }
        self.held.push_str(piece);
        let decision = self.watch.take(piece);
        self.release(decision, false)
    }

    /// There is no more: gives the rest, unless the end shows that it must be blocked.
    #[must_use]
    pub fn end(&mut self) -> String {
        if self.blocked_by.is_some() {
            return String::new();
        }
        let decision = self.watch.end();
        self.release(decision, true)
    }

    /// The rule that has blocked the answer.
    #[must_use]
    pub fn blocked_by(&self) -> Option<&str> {
        self.blocked_by.as_deref()
    }

    fn release(&mut self, decision: WatchDecision, is_end: bool) -> String {
        let length = self.released.saturating_add(self.held.len() as u64);
        let judged = Judged::of(decision, self.released, length, is_end);
        let more = usize::try_from(judged.release.saturating_sub(self.released)).unwrap_or_default();
        // A place inside a character is none that can be released to.
        let more = self.held.floor_char_boundary(more);
        let rest = self.held.split_off(more);
        self.released = self.released.saturating_add(more as u64);
        self.blocked_by = judged.blocked_by;
        let text = std::mem::replace(&mut self.held, rest);
        if self.blocked_by.is_some() {
            self.held = String::new();
        }
        text
    }
}

impl fmt::Debug for GuardedText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the text: nobody has released it.
        let Self { held, released, blocked_by, .. } = self;
        write!(
            formatter,
            "GuardedText {{ held: {}, released: {released}, blocked_by: {blocked_by:?} }}",
            held.len()
        )
    }
}
