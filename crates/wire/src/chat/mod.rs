//! Dialect-neutral chat types: every dialect is read into them and written from them.
//!
//! There are two ways to read an answer. If the caller and the model speak the same dialect, the answer passes through
//! as bytes and is only observed: [`StreamEvent`] carries the start, the end and the usage, which is all that decisions
//! and accounting need. If the dialects differ, the answer is parsed completely: [`ChatRequest`], [`ChatAnswer`] and
//! [`ChatEvent`] hold what the dialects have in common, and the [feature table](FEATURES) says which dialect can express
//! what of a request.

mod answer;
mod cache_points;
pub mod custom_tool;
mod feature;
mod feature_table;
mod field_rules;
mod json_text;
mod request;
pub(crate) mod schema;
mod settings;

pub use answer::{AnswerPart, ChatAnswer, ChatEvent};
pub use cache_points::{CacheLifetime, CachePoints};
pub use feature::{ChatFeature, FeatureCell, FeatureColumn, FeatureRow, FeatureSupport};
pub use feature_table::FEATURES;
pub use field_rules::{FieldRule, ObjectRule};
pub use json_text::JsonText;
pub use request::{
    ChatRequest, Document, Image, RequestPart, Role, ToolCall, ToolChoice, ToolDefinition, Turn,
};
pub use seawall_core::money::Usage;
pub(crate) use settings::DEFAULT_SCHEMA_NAME;
pub use settings::{
    ChatSettings, Effort, OutputFormat, OutputSchema, ReasoningSettings, Thinking, Verbosity,
};

use seawall_core::failure::Failure;

/// Why the model stopped generating.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// The model ended its turn.
    EndTurn,
    /// The output limit of the request was reached.
    MaxTokens,
    /// The model produced one of the request's stop sequences.
    StopSequence,
    /// The model requests a tool call.
    ToolUse,
    /// The vendor paused a long turn; sending the answer back continues it.
    PauseTurn,
    /// The model declined to answer.
    Refusal,
    /// Input and output together filled the model's context window.
    ContextWindowExceeded,
    /// A reason unknown to this version.
    Other,
}

/// The usage section of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageReport {
    /// The token counts; zero where the vendor did not report one.
    pub usage: Usage,
    /// Whether the vendor reported the number of output tokens. An answer without that figure is still valid.
    pub output_reported: bool,
}

/// One event of an observed stream (same dialect on both sides).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamEvent {
    /// The answer has begun; carries the usage known so far.
    Started(Usage),
    /// A content delta: from here on the caller has received part of the answer.
    Content,
    /// A thinking delta. API callers receive it; a chat user does not see it.
    Thinking,
    /// The cumulative usage so far (not the increment), and the finish reason if the model has stopped.
    Progress {
        /// The cumulative usage so far.
        usage: Usage,
        /// The finish reason, once known.
        finish: Option<FinishReason>,
    },
    /// The answer is complete.
    Finished,
    /// The vendor reported an error inside the stream.
    Failed {
        /// The failure, classified for breaker, retry and fallback decisions.
        failure: Failure,
        /// The vendor's error message.
        message: String,
    },
    /// An event that neither decisions nor accounting need.
    Other,
}
