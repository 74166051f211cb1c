//! What is sent, when, and how it ends.

use super::profile::Profile;
use bytes::Bytes;
use seawall_wire::chat::Usage;
use seawall_wire::{Dialect, RetryAdvice};
use std::time::Duration;

/// Everything that happens to one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// Who is asked; nobody when the request was not understood.
    pub profile: Option<&'static Profile>,
    /// What is sent: a head first, if anything.
    pub steps: Vec<Step>,
    /// What happens behind the last step.
    pub ending: Ending,
    /// The name of the rule by which it goes wrong, where one applies.
    pub fault: Option<Box<str>>,
}

impl Script {
    /// The status of the answer, where one is sent.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match self.steps.first() {
            Some(Step { act: Act::Head(head), .. }) => Some(head.status),
            _ => None,
        }
    }
}

/// One thing that is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// When, from the request's arrival. Never earlier than the step before.
    pub at: Duration,
    /// What.
    pub act: Act,
    /// What the model charges for once this is delivered.
    pub charge: Usage,
}

/// What a step sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// The head of the response.
    Head(Head),
    /// A part of its body: all of it, or one piece of a stream.
    Body(Bytes),
}

/// The head of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The HTTP status.
    pub status: u16,
    /// What the body is.
    pub content_type: &'static str,
    /// How long the body is, where that is known. A cut body is shorter than its head says.
    pub length: Option<usize>,
    /// When to try again.
    pub retry_after: Option<Duration>,
    /// Whose words it is in.
    pub dialect: Dialect,
    /// What the request is called.
    pub request_id: String,
    /// Headers of this dialect alone.
    pub more: Vec<(&'static str, String)>,
}

impl Head {
    pub(super) fn new(status: u16, content_type: &'static str, dialect: Dialect, request_id: &str) -> Self {
        let request_id = request_id.to_owned();
        Self { status, content_type, length: None, retry_after: None, dialect, request_id, more: Vec::new() }
    }

    /// All headers but the length, in lower case.
    pub fn headers(&self) -> impl Iterator<Item = (&'static str, String)> + '_ {
        let advice = RetryAdvice { wait: self.retry_after, should_retry: None };
        let own = [
            ("content-type", self.content_type.to_owned()),
            (self.dialect.request_id_header(), self.request_id.clone()),
        ];
        own.into_iter().chain(advice.headers(self.dialect)).chain(self.more.iter().cloned())
    }
}

/// What happens behind the last step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The response is complete.
    Complete,
    /// The body ends in good order but the answer in it is not complete.
    Early,
    /// The connection is closed.
    Close,
    /// The connection is reset.
    Reset,
    /// Nothing, for ever.
    Hang,
    /// The last step again and again, this long apart.
    Repeat(Duration),
}
