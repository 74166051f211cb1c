//! A strict validator of responses.
//!
//! It parses a response as it arrives and classifies it at its end. An answer counts only if it marks its own end and
//! its text is as long as it reports: the end of the connection proves nothing. It is written independently of the
//! parsers that Seawall uses, so that it does not repeat their mistakes.
//!
//! It reads no clock: its caller reports a timeout.

mod events;
mod frames;
mod parse_event;
mod parsed_stream;
#[cfg(test)]
mod tests;
mod whole_body;

use events::EventStream;
use whole_body::{is_complete, is_ended, is_error};

/// The dialect of a request and its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClientDialect {
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
pub enum ClientOutcome {
    /// A complete answer.
    Answered,
    /// A rejection in the format of the dialect.
    Rejected {
        /// The HTTP status.
        status: u16,
        /// Whether it has a Retry-After, or states that a retry is pointless.
        has_retry_advice: bool,
    },
    /// A partial answer that ended with an explicit error.
    Interrupted,
    /// No answer: no connection, a reset, or an error that is not in the dialect's format.
    Lost,
    /// No more data arrived, and the caller gave up.
    Hung,
    /// A stream that stopped without an end and without an error. The connection broke, so a careful client notices.
    Cut,
    /// An incomplete answer that ended as if it were complete.
    FalselyComplete,
}

/// How the bytes ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportEnd {
    /// A regular end of the body.
    Clean,
    /// The connection broke.
    Broken,
    /// No data arrived for too long.
    TimedOut,
}

/// The validator of one response.
#[derive(Debug)]
pub struct ResponseValidator {
    dialect: ClientDialect,
    is_streamed: bool,
    head: Option<(u16, bool)>,
    events: EventStream,
    body_bytes: Vec<u8>,
}

impl ResponseValidator {
    /// A validator for a streamed or a whole answer.
    #[must_use]
    pub fn new(dialect: ClientDialect, is_streamed: bool) -> Self {
        Self { dialect, is_streamed, head: None, events: EventStream::new(dialect), body_bytes: Vec::new() }
    }

    /// Records the status, and whether there is retry advice.
    pub fn head(&mut self, status: u16, has_retry_advice: bool) {
        self.head = Some((status, has_retry_advice));
    }

    /// Processes more of the body.
    pub fn body(&mut self, bytes: &[u8]) {
        if self.reads_events() {
            self.events.feed(bytes);
        } else {
            self.body_bytes.extend_from_slice(bytes);
        }
    }

    /// Whether there is text for the caller to read by now.
    #[must_use]
    pub fn has_text(&self) -> bool {
        self.events.has_text()
    }

    /// The outcome.
    #[must_use]
    pub fn outcome(&self, ending: TransportEnd) -> ClientOutcome {
        let Some((status, has_retry_advice)) = self.head else {
            return if ending == TransportEnd::TimedOut { ClientOutcome::Hung } else { ClientOutcome::Lost };
        };
        if self.reads_events() {
            return self.stream_outcome(ending);
        }
        match ending {
            TransportEnd::TimedOut => ClientOutcome::Hung,
            TransportEnd::Broken => ClientOutcome::Lost,
            TransportEnd::Clean if status == 200 => {
                if is_complete(self.dialect, &self.body_bytes) {
                    ClientOutcome::Answered
                } else {
                    ClientOutcome::FalselyComplete
                }
            }
            TransportEnd::Clean if is_error(self.dialect, &self.body_bytes) => {
                ClientOutcome::Rejected { status, has_retry_advice }
            }
            TransportEnd::Clean => ClientOutcome::Lost,
        }
    }

    /// Whether it gave a stop reason and ended as its dialect requires, whatever usage it reports. No more can be
    /// expected of an answer whose vendor reports a false usage.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        if self.reads_events() { self.events.is_ended() } else { is_ended(self.dialect, &self.body_bytes) }
    }

    fn stream_outcome(&self, ending: TransportEnd) -> ClientOutcome {
        // A complete stream, or one with an explicit error, stays so however the connection ends afterwards.
        if self.events.has_error() {
            return ClientOutcome::Interrupted;
        }
        if self.events.is_complete() {
            return ClientOutcome::Answered;
        }
        match ending {
            TransportEnd::TimedOut => ClientOutcome::Hung,
            TransportEnd::Broken => ClientOutcome::Cut,
            TransportEnd::Clean => ClientOutcome::FalselyComplete,
        }
    }

    fn reads_events(&self) -> bool {
        self.is_streamed && matches!(self.head, Some((200, _)))
    }
}
