//! What a caller got, judged strictly.
//!
//! Reads an answer as it arrives and says at its end what it was. An answer counts only if it says itself that it is
//! over and its text is as long as it says: an end of the connection proves nothing. Written apart from the readers
//! that Seawall uses, so that a mistake in those is not made twice.
//!
//! It reads no clock: who notices that nothing comes any more tells it so.

mod events;
mod frames;
mod heard;
mod said;
#[cfg(test)]
mod tests;
mod whole;

use events::Events;
use whole::{is_ended, is_error, is_whole};

/// In whose words a question is put and answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dialect {
    /// Anthropic's messages.
    Messages,
    /// OpenAI's chat completions. A stream is wanted with its usage.
    Completions,
    /// Amazon Bedrock's converse.
    Converse,
    /// Seawall's own chat.
    Chat,
}

/// What a caller got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// An answer, whole.
    Answered,
    /// A refusal in the words of the dialect.
    Refused {
        /// Its status.
        status: u16,
        /// Whether it says when to come back.
        has_hint: bool,
    },
    /// A part of an answer, and then the word that it is one.
    BrokenOff,
    /// No answer: no connection, a reset, or an error that is none of the dialect.
    Lost,
    /// Nothing came any more, and the caller gave up.
    Hung,
    /// A stream that stopped without an end and without a word; the connection broke, so that a careful client notices.
    Cut,
    /// An end in good order of an answer that was not whole.
    LookedComplete,
}

/// How the bytes ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// In good order.
    Clean,
    /// The connection broke.
    Broken,
    /// Nothing came for too long.
    Silent,
}

/// One answer, as far as it has come.
#[derive(Debug)]
pub struct Judge {
    dialect: Dialect,
    is_streamed: bool,
    head: Option<(u16, bool)>,
    events: Events,
    whole: Vec<u8>,
}

impl Judge {
    /// Of an answer that is wanted piece by piece or as a whole.
    #[must_use]
    pub fn new(dialect: Dialect, is_streamed: bool) -> Self {
        Self { dialect, is_streamed, head: None, events: Events::new(dialect), whole: Vec::new() }
    }

    /// The status has come, with or without a word on when to come back.
    pub fn head(&mut self, status: u16, has_hint: bool) {
        self.head = Some((status, has_hint));
    }

    /// More of the body has come.
    pub fn body(&mut self, bytes: &[u8]) {
        if self.reads_events() {
            self.events.feed(bytes);
        } else {
            self.whole.extend_from_slice(bytes);
        }
    }

    /// Whether there is something for the caller to read by now.
    #[must_use]
    pub fn has_text(&self) -> bool {
        self.events.has_text()
    }

    /// What it was.
    #[must_use]
    pub fn end(&self, ending: Ending) -> Verdict {
        let Some((status, has_hint)) = self.head else {
            return if ending == Ending::Silent { Verdict::Hung } else { Verdict::Lost };
        };
        if self.reads_events() {
            return self.end_of_stream(ending);
        }
        match ending {
            Ending::Silent => Verdict::Hung,
            Ending::Broken => Verdict::Lost,
            Ending::Clean if status == 200 => {
                if is_whole(self.dialect, &self.whole) {
                    Verdict::Answered
                } else {
                    Verdict::LookedComplete
                }
            }
            Ending::Clean if is_error(self.dialect, &self.whole) => Verdict::Refused { status, has_hint },
            Ending::Clean => Verdict::Lost,
        }
    }

    /// Whether it said why it stops and ended as its dialect has it, whatever usage it reports. That is all that can be asked
    /// of an answer whose vendor lies about its usage.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        if self.reads_events() { self.events.is_ended() } else { is_ended(self.dialect, &self.whole) }
    }

    fn end_of_stream(&self, ending: Ending) -> Verdict {
        // What is whole, or said to be broken, stays so, however the connection ends behind it.
        if self.events.is_told_broken() {
            return Verdict::BrokenOff;
        }
        if self.events.is_whole() {
            return Verdict::Answered;
        }
        match ending {
            Ending::Silent => Verdict::Hung,
            Ending::Broken => Verdict::Cut,
            Ending::Clean => Verdict::LookedComplete,
        }
    }

    fn reads_events(&self) -> bool {
        self.is_streamed && matches!(self.head, Some((200, _)))
    }
}
