//! The dialect-neutral answer: whole, or as stream events.

use super::{FinishReason, ToolCall, Usage};
use seawall_core::failure::Failure;

/// A complete answer, read from one dialect and written in another.
#[derive(Clone, Debug, PartialEq)]
pub struct ChatAnswer {
    /// The vendor's id of the answer.
    pub id: String,
    /// The model that answered, by the vendor's name.
    pub model: String,
    /// The content, in order.
    pub parts: Vec<AnswerPart>,
    /// Why the model stopped.
    pub finish: FinishReason,
    /// The token usage that the vendor reported.
    pub usage: Usage,
}

/// One content block of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum AnswerPart {
    /// Plain text.
    Text(String),
    /// A tool call that the model requests.
    ToolCall(ToolCall),
}

/// One stream event, with everything that another dialect needs to write the same event.
///
/// A well-formed stream is `Started`, then the deltas of one part after another (a part ends when the next begins),
/// then `Finished`. `Usage` may come anywhere after the start and carries the cumulative usage. `Failed` ends the
/// stream at any point.
#[derive(Clone, Debug, PartialEq)]
pub enum ChatEvent {
    /// The answer has begun.
    Started {
        /// The vendor's id of the answer.
        id: String,
        /// The model that answers.
        model: String,
        /// The usage known so far.
        usage: Usage,
    },
    /// A thinking delta. Signatures and encrypted thinking of the vendor are not kept.
    Thinking(String),
    /// A text delta.
    Text(String),
    /// A tool call begins; the `ToolInput` deltas that follow are its input.
    ToolCallStarted {
        /// The id to which the tool result refers.
        id: String,
        /// The name of the tool.
        name: String,
    },
    /// A delta of the input of the most recent tool call: a fragment of JSON text, split anywhere.
    ToolInput(String),
    /// The cumulative usage so far.
    Usage(Usage),
    /// The answer is complete; carries the finish reason.
    Finished(FinishReason),
    /// The vendor reported an error inside the stream.
    Failed {
        /// The failure, classified for breaker, retry and fallback decisions.
        failure: Failure,
        /// The vendor's error message.
        message: String,
    },
}
