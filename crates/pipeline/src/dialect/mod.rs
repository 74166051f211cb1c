//! Translation between any face and any target.
//!
//! A caller speaks one of four vendor dialects, or the chat protocol as a fifth, to a [`Face`]; a target answers in one
//! of the four dialects. This module translates between them: a [`DialectRequest`] is parsed once and written for each
//! target that is tried, a [`UnstreamedAnswer`] or a [`DialectStream`] converts the answer to the caller's dialect, and
//! [`render_error`] renders errors in it. Bytes go in and bytes come out; there is no I/O and no clock.
//!
//! If both sides speak the same dialect, nothing is rewritten, and a target that accepts several dialects is called in
//! the caller's: the request is the caller's bytes with the target's model name inserted, and chunks of the answer are
//! forwarded unchanged and only watched for usage, end and failure. Anthropic's dialect and Bedrock's InvokeModel
//! differ only in their framing. All other pairs are translated through [`chat`](seawall_wire::chat), and a request
//! that it cannot express is rejected before any target is called.
//!
//! The chat face has no dialect in common with any target. Its requests are built with [`DialectRequest::of_chat`]; of a
//! complete answer it takes the text, and of a stream it makes `text` events, as far as the guardrail releases them.
//! The pipeline reports how the answer was produced, with [`DialectStream::complete`].
//!
//! The bytes that a caller receives always end between two events, so [`DialectStream::interrupt`] can end a stream at
//! any time. This module makes no decisions: retries and charges belong to the pipeline.

mod chat_converter;
mod converter;
mod error_response;
mod monitor;
mod partial_event;
mod reader;
mod request;
mod stream;
mod translation;
mod unstreamed;

#[cfg(test)]
mod tests;

pub use error_response::{ErrorResponse, content_type, render_error, request_id_header, stream_headers};
pub use request::{DialectHeaders, DialectRequest};
pub use stream::{DialectStream, DialectStreamEnd};
pub use unstreamed::UnstreamedAnswer;

use seawall_provider::TargetDialect;
use seawall_wire::Vendor;
use seawall_wire::bedrock::{BedrockCall, BedrockOperation};
use std::time::Duration;

/// The protocols that callers speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Face {
    /// Anthropic Messages.
    AnthropicMessages,
    /// OpenAI chat completions.
    OpenAiChat,
    /// Amazon Bedrock's InvokeModel with Anthropic's body; bodies of other vendors pass through without being parsed.
    BedrockInvoke,
    /// Amazon Bedrock's Converse.
    BedrockConverse,
    /// The gateway's chat protocol, see [`chat`](crate::chat).
    Chat,
}

impl Face {
    /// All faces, in a fixed order.
    pub const ALL: [Self; 5] =
        [Self::AnthropicMessages, Self::OpenAiChat, Self::BedrockInvoke, Self::BedrockConverse, Self::Chat];
    /// The faces with a vendor's dialect, in the same order.
    pub const VENDORS: [Self; 4] =
        [Self::AnthropicMessages, Self::OpenAiChat, Self::BedrockInvoke, Self::BedrockConverse];

    /// The target dialect that equals this face's; `None` for the chat face, which no target speaks.
    #[must_use]
    pub const fn dialect(self) -> Option<TargetDialect> {
        match self {
            Self::AnthropicMessages => Some(TargetDialect::AnthropicMessages),
            Self::OpenAiChat => Some(TargetDialect::OpenAiChat),
            Self::BedrockInvoke => Some(TargetDialect::BedrockInvoke),
            Self::BedrockConverse => Some(TargetDialect::BedrockConverse),
            Self::Chat => None,
        }
    }

    /// The label in logs and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AnthropicMessages => "anthropic",
            Self::OpenAiChat => "openai",
            Self::BedrockInvoke => "bedrock_invoke",
            Self::BedrockConverse => "bedrock_converse",
            Self::Chat => "chat",
        }
    }

    /// The vendor whose client libraries use this face; `None` for the chat face.
    #[must_use]
    pub const fn vendor(self) -> Option<Vendor> {
        match self.dialect() {
            Some(dialect) => Some(dialect.vendor()),
            None => None,
        }
    }
}

/// The API through which a request arrived, with the parameters from its URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiOperationRef<'a> {
    /// Anthropic Messages; all parameters are in the body.
    Messages,
    /// OpenAI chat completions; all parameters are in the body.
    Completions,
    /// InvokeModel.
    Invoke {
        /// The requested model.
        model: &'a str,
        /// Whether a streamed answer is requested.
        stream: bool,
    },
    /// Converse.
    Converse {
        /// The requested model.
        model: &'a str,
        /// Whether a streamed answer is requested.
        stream: bool,
    },
}

impl<'a> ApiOperationRef<'a> {
    /// The operation of a Bedrock URL; `None` for an operation that does not produce an answer.
    #[must_use]
    pub fn of_bedrock(call: &'a BedrockCall) -> Option<Self> {
        let (model, stream) = (call.model.as_str(), call.operation.is_stream());
        match call.operation {
            BedrockOperation::Invoke | BedrockOperation::InvokeStream => Some(Self::Invoke { model, stream }),
            BedrockOperation::Converse | BedrockOperation::ConverseStream => {
                Some(Self::Converse { model, stream })
            }
            BedrockOperation::CountTokens => None,
        }
    }

    /// The protocol that the caller speaks.
    #[must_use]
    pub const fn face(&self) -> Face {
        match self {
            Self::Messages => Face::AnthropicMessages,
            Self::Completions => Face::OpenAiChat,
            Self::Invoke { .. } => Face::BedrockInvoke,
            Self::Converse { .. } => Face::BedrockConverse,
        }
    }
}

/// Properties of an answer that not every target reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerDefaults<'a> {
    /// The answer's ID, if the target assigns none.
    pub id: &'a str,
    /// Creation time, in seconds since 1970.
    pub created: u64,
    /// The elapsed time, as far as known.
    pub elapsed: Duration,
}

/// Whether the dialect uses Anthropic's bodies, which can then be moved between the two without parsing.
const fn has_anthropic_bodies(dialect: TargetDialect) -> bool {
    matches!(dialect, TargetDialect::AnthropicMessages | TargetDialect::BedrockInvoke)
}
