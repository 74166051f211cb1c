//! One model at one vendor, as the request path sees it.

use bytes::Bytes;
use seawall_core::failure::Failure;
use seawall_wire::Dialect;
use seawall_wire::chat::Usage;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// What a target takes and answers in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetDialect {
    /// Anthropic Messages.
    AnthropicMessages,
    /// OpenAI chat completions.
    OpenAiChat,
    /// Amazon Bedrock's InvokeModel with an Anthropic model: its body without the model's name; a stream in the
    /// service's binary frames around Anthropic's events.
    BedrockInvoke,
    /// Amazon Bedrock's Converse; a stream in binary frames.
    BedrockConverse,
}

impl TargetDialect {
    /// Every dialect, in a fixed order.
    pub const ALL: [Self; 4] =
        [Self::AnthropicMessages, Self::OpenAiChat, Self::BedrockInvoke, Self::BedrockConverse];

    /// Whose errors and headers come with it.
    #[must_use]
    pub const fn vendor(self) -> Dialect {
        match self {
            Self::AnthropicMessages => Dialect::Anthropic,
            Self::OpenAiChat => Dialect::OpenAi,
            Self::BedrockInvoke | Self::BedrockConverse => Dialect::Bedrock,
        }
    }
}

/// What is asked of a target.
#[derive(Clone, Debug)]
pub struct Call {
    /// The request in the target's own dialect.
    pub body: Bytes,
    /// Whether the answer is to come in pieces.
    pub stream: bool,
    /// Features in trial that the caller asks for, where the target takes them in a header.
    pub betas: Vec<String>,
}

impl Call {
    /// A call without features in trial.
    #[must_use]
    pub const fn new(body: Bytes, stream: bool) -> Self {
        Self { body, stream, betas: Vec::new() }
    }
}

/// What a target brings back once it has said yes.
pub enum Answer {
    /// All of it.
    Whole {
        /// The body.
        body: Bytes,
        /// What it used, where headers tell it.
        told: Option<Usage>,
    },
    /// Pieces, as they arrive.
    Stream(Box<dyn Frames>),
}

/// The pieces of an answer. Dropped, it is no longer wanted, and the way to the vendor is closed.
pub trait Frames: Send {
    /// The next piece; nothing once the vendor has ended the answer, however it ended it.
    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>>;
}

impl<Pieces: Frames + ?Sized> Frames for Box<Pieces> {
    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        (**self).poll_frame(context)
    }
}

/// Why a call was not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallError {
    /// What went wrong.
    pub failure: Failure,
    /// The vendor's own words, where the caller's request is at fault: short, and fit to be shown.
    pub words: Option<Box<str>>,
}

impl From<Failure> for CallError {
    fn from(failure: Failure) -> Self {
        Self { failure, words: None }
    }
}

/// The attempt under way. Dropped, it is no longer wanted.
pub type Calling<'a> = Pin<Box<dyn Future<Output = Result<Answer, CallError>> + Send + 'a>>;

/// A target: makes one attempt per call, and never a second one by itself.
pub trait Target: Send + Sync {
    /// What it takes and answers in. Whoever calls translates.
    fn dialect(&self) -> TargetDialect;

    /// Starts an attempt.
    fn call(&self, call: Call) -> Calling<'_>;
}
