//! Any face in front of any target.
//!
//! A caller speaks one of four dialects to a [`Face`], or our own words to a fifth, and a target answers in one of four. This
//! is what stands between the two: a [`SpokenRequest`] is read once and written for each target that is tried, a [`WholeAnswer`] or a [`SpokenStream`]
//! brings the answer back in the caller's words, and [`refusal`] says no in them. Bytes go in and bytes come out; there is
//! no socket and no clock.
//!
//! Where both sides speak the same dialect nothing is written anew: a request is the caller's bytes with the target's model
//! spliced in, and a frame of an answer is handed on as it came and only watched for its usage, its end and its failure.
//! Anthropic's dialect and Bedrock's InvokeModel exchange only what is around the words. All other pairs go through
//! [`chat`](seawall_wire::chat), and what that has no word for is refused before anybody is asked.
//!
//! Our own face has no bytes in common with anybody: its questions are made with [`SpokenRequest::of_chat`], of a whole answer
//! it gets the text, and of a stream `text` events, as far as a guardrail releases them. How an answer came about is for the
//! path to tell, with [`SpokenStream::complete`].
//!
//! What a caller gets of a stream always ends between two events, so that [`SpokenStream::interrupt`] can say at any moment
//! that no more will come. It decides nothing: whether to try again, and what a failure costs, is the path's business.

mod chat_voice;
mod held;
mod reader;
mod refusal;
mod request;
mod stream;
mod translation;
mod voice;
mod watch;
mod whole;

#[cfg(test)]
mod tests;

pub use refusal::{RefusalReply, content_type, refusal, request_id_header, stream_headers};
pub use request::SpokenRequest;
pub use stream::{Ending, SpokenStream};
pub use whole::WholeAnswer;

use seawall_provider::TargetDialect;
use seawall_wire::Dialect;
use seawall_wire::bedrock::{BedrockCall, BedrockOperation};
use std::time::Duration;

/// What callers speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Face {
    /// Anthropic Messages.
    AnthropicMessages,
    /// OpenAI chat completions.
    OpenAiChat,
    /// Amazon Bedrock's InvokeModel, with Anthropic's body.
    BedrockInvoke,
    /// Amazon Bedrock's Converse.
    BedrockConverse,
    /// Our own, whose words are in [`chat`](crate::chat).
    Chat,
}

impl Face {
    /// Every face, in a fixed order.
    pub const ALL: [Self; 5] =
        [Self::AnthropicMessages, Self::OpenAiChat, Self::BedrockInvoke, Self::BedrockConverse, Self::Chat];
    /// The faces that speak as a vendor does, in the same order.
    pub const VENDORS: [Self; 4] =
        [Self::AnthropicMessages, Self::OpenAiChat, Self::BedrockInvoke, Self::BedrockConverse];

    /// The same dialect, as a target has it. No target speaks our own.
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

    /// The name in logs and metrics.
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

    /// Whose client libraries call here. Nobody's call our own.
    #[must_use]
    pub const fn vendor(self) -> Option<Dialect> {
        match self.dialect() {
            Some(dialect) => Some(dialect.vendor()),
            None => None,
        }
    }
}

/// How a request came in, with what its path says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival<'a> {
    /// As Anthropic Messages, whose body says everything.
    Messages,
    /// As OpenAI chat completions, whose body says everything.
    Completions,
    /// As InvokeModel.
    Invoke {
        /// The model that is asked for.
        model: &'a str,
        /// Whether the answer is wanted as a stream.
        stream: bool,
    },
    /// As Converse.
    Converse {
        /// The model that is asked for.
        model: &'a str,
        /// Whether the answer is wanted as a stream.
        stream: bool,
    },
}

impl<'a> Arrival<'a> {
    /// What a path of Bedrock's asks for; nothing where that is no answer.
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

    /// What the caller speaks.
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

/// What an answer says of itself that not every target tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occasion<'a> {
    /// What the answer is called where the target has no name for it.
    pub id: &'a str,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// How long it took, as far as that is known.
    pub took: Duration,
}

/// Whether the two carry the same bodies, so that these need not be read to be moved from one to the other.
const fn has_anthropic_bodies(dialect: TargetDialect) -> bool {
    matches!(dialect, TargetDialect::AnthropicMessages | TargetDialect::BedrockInvoke)
}
