//! A strict judge of responses.
//!
//! It parses a response as it arrives and classifies it at its end. An answer counts only if it marks its own end and
//! its text is as long as it reports: the end of the connection proves nothing. It is written independently of the
//! parsers that Seawall uses, so that it does not repeat their mistakes.
//!
//! It reads no clock: its caller reports a timeout.

mod events;
mod frames;
mod heard;
mod said;
#[cfg(test)]
mod tests;
mod whole;

use events::Events;
use whole::{is_ended, is_error, is_whole};

/// The dialect of a request and its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dialect {
    /// The Anthropic Messages API.
    Messages,
    /// OpenAI's chat completions. Streams are requested with usage.
    Completions,
    /// Amazon Bedrock's Converse.
    Converse,
    /// Seawall's own chat protocol.
    Chat,
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A complete answer.
    Answered,
    /// A rejection in the format of the dialect.
    Refused {
        /// The HTTP status.
        status: u16,
        /// Whether it says when to retry.
        has_hint: bool,
    },
    /// A partial answer that ended with an explicit error.
    BrokenOff,
    /// No answer: no connection, a reset, or an error that is not in the dialect's format.
    Lost,
    /// No more data arrived, and the caller gave up.
    Hung,
    /// A stream that stopped without an end and without an error. The connection broke, so a careful client notices.
    Cut,
    /// An incomplete answer that ended as if it were complete.
    LookedComplete,
}

/// How the bytes ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// A regular end of the body.
    Clean,
    /// The connection broke.
    Broken,
    /// No data arrived for too long.
    Silent,
}

/// The judge of one response.
#[derive(Debug)]
pub struct Judge {
    dialect: Dialect,
    is_streamed: bool,
    head: Option<(u16, bool)>,
    events: Events,
    whole: Vec<u8>,
}

impl Judge {
    /// A judge for a streamed or a whole answer.
    #[must_use]
    pub fn new(dialect: Dialect, is_streamed: bool) -> Self {
        Self { dialect, is_streamed, head: None, events: Events::new(dialect), whole: Vec::new() }
    }

    /// Records the status, and whether there is retry advice.
    pub fn head(&mut self, status: u16, has_hint: bool) {
        self.head = Some((status, has_hint));
    }

    /// Processes more of the body.
    pub fn body(&mut self, bytes: &[u8]) {
        if self.reads_events() {
            self.events.feed(bytes);
        } else {
            self.whole.extend_from_slice(bytes);
        }
    }

    /// Whether there is text for the caller to read by now.
    #[must_use]
    pub fn has_text(&self) -> bool {
        self.events.has_text()
    }

    /// The outcome.
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

    /// Whether it gave a stop reason and ended as its dialect requires, whatever usage it reports. No more can be
    /// expected of an answer whose vendor reports a false usage.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        if self.reads_events() { self.events.is_ended() } else { is_ended(self.dialect, &self.whole) }
    }

    fn end_of_stream(&self, ending: Ending) -> Verdict {
        // A complete stream, or one with an explicit error, stays so however the connection ends afterwards.
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
