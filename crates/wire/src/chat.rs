//! What every dialect is read into, as far as decisions and accounts need it.
//!
//! Text is not among it: an answer passes through as bytes, and only its ends and its usage are understood.

use seawall_core::failure::Failure;
pub use seawall_core::money::Usage;

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
