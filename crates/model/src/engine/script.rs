//! A script: what is sent, when, and how it ends.

use super::profile::Profile;
use bytes::Bytes;
use seawall_wire::RetryAdvice;
use seawall_wire::chat::Usage;
use seawall_wire::dialect::DialectId;
use std::time::Duration;

/// Everything that happens to one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// The model that is called; `None` if the request was malformed.
    pub profile: Option<&'static Profile>,
    /// What is sent: a head first, if anything.
    pub steps: Vec<ScriptStep>,
    /// What happens after the last step.
    pub ending: ScriptEnding,
    /// The name of the fault rule that applied, if any.
    pub fault: Option<Box<str>>,
}

impl Script {
    /// The HTTP status of the response, if one is sent.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match self.steps.first() {
            Some(ScriptStep { action: ScriptAction::Head(head), .. }) => Some(head.status),
            _ => None,
        }
    }
}

/// One action of the script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptStep {
    /// When it happens, measured from the request's arrival. Never earlier than the previous step.
    pub at: Duration,
    /// What is sent.
    pub action: ScriptAction,
    /// The usage that the model charges once this is delivered.
    pub charge: Usage,
}

/// What a step sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptAction {
    /// The head of the response.
    Head(ScriptHead),
    /// A part of the body: all of it, or one chunk of a stream.
    Body(Bytes),
}

/// The head of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptHead {
    /// The HTTP status.
    pub status: u16,
    /// The content type of the body.
    pub content_type: &'static str,
    /// The declared length of the body, if known. A body that is cut is shorter than declared.
    pub length: Option<usize>,
    /// The `retry-after` delay.
    pub retry_after: Option<Duration>,
    /// The dialect whose headers the response has.
    pub dialect: DialectId,
    /// The request id.
    pub request_id: String,
    /// Additional headers of this dialect.
    pub extra_headers: Vec<(&'static str, String)>,
}

impl ScriptHead {
    pub(super) fn new(status: u16, content_type: &'static str, dialect: DialectId, request_id: &str) -> Self {
        let request_id = request_id.to_owned();
        Self {
            status,
            content_type,
            length: None,
            retry_after: None,
            dialect,
            request_id,
            extra_headers: Vec::new(),
        }
    }

    /// All headers except the content length, in lower case.
    pub fn headers(&self) -> impl Iterator<Item = (&'static str, String)> + '_ {
        let advice = RetryAdvice { wait: self.retry_after, should_retry: None };
        let own = [
            ("content-type", self.content_type.to_owned()),
            (self.dialect.request_id_header(), self.request_id.clone()),
        ];
        own.into_iter()
            .chain(advice.headers(self.dialect.retry_after_header()))
            .chain(self.extra_headers.iter().cloned())
    }
}

/// What happens after the last step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptEnding {
    /// The response is complete.
    Complete,
    /// The body ends cleanly but the answer in it is incomplete.
    Early,
    /// The connection is closed.
    Close,
    /// The connection is reset.
    Reset,
    /// Nothing more happens; the connection stays open.
    Hang,
    /// The last step is repeated at this interval.
    Repeat(Duration),
}
