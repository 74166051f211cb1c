//! What is sent, when, and how it ends.

use super::profile::Profile;
use bytes::Bytes;
use seawall_wire::chat::Usage;
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
    /// A part of its body: all of it, or one event of a stream.
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
    /// What the request is called.
    pub request_id: String,
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
}
