//! What every dialect is read into and written from.
//!
//! There are two ways to read. Where caller and model speak the same dialect, an answer passes through as bytes and is
//! only watched: [`StreamEvent`] has its ends and its usage, which is what decisions and accounts need. Where they do not,
//! it is read whole: [`ChatRequest`], [`ChatAnswer`] and [`ChatEvent`] hold what all dialects have in common.

mod answer;
mod json_text;
mod request;

pub use answer::{AnswerPart, ChatAnswer, ChatEvent};
pub use json_text::JsonText;
pub use request::{ChatRequest, Image, Part, Role, ToolCall, ToolChoice, ToolDefinition, Turn};
pub use seawall_core::money::Usage;

use seawall_core::failure::Failure;

/// Why a model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// It had said what it had to say.
    EndTurn,
    /// The output limit of the request was reached.
    MaxTokens,
    /// One of the request's stop sequences came up.
    StopSequence,
    /// It wants a tool to be called.
    ToolUse,
    /// The vendor paused a long turn; sending it back continues it.
    PauseTurn,
    /// It declined to answer.
    Refusal,
    /// Input and output together filled the model's window.
    ContextWindowExceeded,
    /// A reason that this version does not know.
    Other,
}

/// What a vendor has told of an answer's use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageReport {
    /// The tokens; nothing where it did not tell.
    pub usage: Usage,
    /// Whether it told how much output there was. An answer of which it did not is an answer all the same.
    pub has_output: bool,
}

/// What happened in a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamEvent {
    /// The answer has begun; usage as known so far.
    Started(Usage),
    /// A piece of content arrived: from here on the caller has seen something.
    Content,
    /// The answer's usage so far (the whole of it, not what was added), and why it stops if it does.
    Progress {
        /// Everything used so far.
        usage: Usage,
        /// Why the model stops.
        finish: Option<FinishReason>,
    },
    /// The answer is complete.
    Finished,
    /// The vendor says inside the stream that it failed.
    Failed {
        /// What decisions need to know of it.
        failure: Failure,
        /// The vendor's words.
        message: String,
    },
    /// Something that neither decisions nor accounts need.
    Other,
}
