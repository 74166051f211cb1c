//! An answer as every dialect understands it, whole or piece by piece.

use super::{FinishReason, ToolCall, Usage};
use seawall_core::failure::Failure;

/// A whole answer.
#[derive(Clone, Debug, PartialEq)]
pub struct ChatAnswer {
    /// What the vendor calls it.
    pub id: String,
    /// The model that answered.
    pub model: String,
    /// What it said, in order.
    pub parts: Vec<AnswerPart>,
    /// Why it stopped.
    pub finish: FinishReason,
    /// The tokens it used.
    pub usage: Usage,
}

/// One piece of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum AnswerPart {
    /// Words.
    Text(String),
    /// A call that the model wants made.
    ToolCall(ToolCall),
}

/// What happens in a stream, with all that another dialect needs to tell it again.
///
/// A well-formed stream is `Started`, then pieces of parts one part after another (a part is over when the next begins),
/// then `Finished`; `Usage` may come anywhere after the start and tells the whole use so far. `Failed` ends it at any point.
#[derive(Clone, Debug, PartialEq)]
pub enum ChatEvent {
    /// The answer has begun.
    Started {
        /// What the vendor calls it.
        id: String,
        /// The model that answers.
        model: String,
        /// The usage as known so far.
        usage: Usage,
    },
    /// More words.
    Text(String),
    /// The model begins a call; the pieces that follow are its input.
    ToolCallStarted {
        /// The call's name for the result to refer to.
        id: String,
        /// The tool.
        name: String,
    },
    /// More of the input of the call that began last: a piece of JSON text, cut anywhere.
    ToolInput(String),
    /// The whole use so far.
    Usage(Usage),
    /// The answer is complete, and why the model stopped.
    Finished(FinishReason),
    /// The vendor says inside the stream that it failed.
    Failed {
        /// What decisions need to know of it.
        failure: Failure,
        /// The vendor's words.
        message: String,
    },
}
