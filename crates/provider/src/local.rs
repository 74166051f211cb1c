//! A server in this process, asked without a socket.
//!
//! It is asked by the path and the body that a client would send, and what it responds is judged as any response is:
//! status, headers, errors and words. It gets no key, no signature and no other header, for there is nobody in between
//! who could be mistaken for somebody else. It knows no time limits of its own: who asks has them.

use crate::answer::{Heard, ReadHeader, conclude};
use crate::target::{Answer, Call, CallError, Calling, Frames, Target, TargetDialect};
use bytes::Bytes;
use seawall_core::failure::Failure;
use seawall_wire::bedrock::{BedrockOperation, write_path};
use std::future::Future;
use std::pin::Pin;

/// What a server in this process responds, once its head is there.
pub struct LocalResponse {
    /// The HTTP status.
    pub status: u16,
    /// The headers, with names in lower case.
    pub headers: Vec<(&'static str, String)>,
    /// The body, as it comes. Dropped, it is no longer wanted.
    pub frames: Box<dyn Frames>,
}

/// A response that is being waited for. Dropped, it is no longer wanted.
pub type Responding = Pin<Box<dyn Future<Output = Result<LocalResponse, Failure>> + Send>>;

type AskByPath = dyn Fn(&str, Bytes) -> Responding + Send + Sync;

/// A model behind a server in this process.
pub struct LocalTarget {
    dialect: TargetDialect,
    whole: String,
    stream: String,
    ask: Box<AskByPath>,
}

impl LocalTarget {
    /// Asks this model in this dialect; `ask` gets the path and the body.
    #[must_use]
    pub fn new(
        dialect: TargetDialect,
        model: &str,
        ask: impl Fn(&str, Bytes) -> Responding + Send + Sync + 'static,
    ) -> Self {
        let both = |path: &str| (path.to_owned(), path.to_owned());
        let operations = |whole, stream| (write_path(whole, model), write_path(stream, model));
        let (whole, stream) = match dialect {
            TargetDialect::AnthropicMessages => both("/v1/messages"),
            TargetDialect::OpenAiChat => both("/v1/chat/completions"),
            TargetDialect::BedrockInvoke => {
                operations(BedrockOperation::Invoke, BedrockOperation::InvokeStream)
            }
            TargetDialect::BedrockConverse => {
                operations(BedrockOperation::Converse, BedrockOperation::ConverseStream)
            }
        };
        Self { dialect, whole, stream, ask: Box::new(ask) }
    }

    async fn respond(&self, call: Call) -> Result<Answer, CallError> {
        let path = if call.stream { &self.stream } else { &self.whole };
        let LocalResponse { status, headers, frames } = (self.ask)(path, call.body).await?;
        conclude(Heard { status, headers, rest: frames }, call.stream, self.dialect).await
    }
}

impl Target for LocalTarget {
    fn dialect(&self) -> TargetDialect {
        self.dialect
    }

    fn call(&self, call: Call) -> Calling<'_> {
        Box::pin(self.respond(call))
    }
}

impl ReadHeader for Vec<(&'static str, String)> {
    fn header(&self, name: &str) -> Option<&[u8]> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_bytes())
    }
}
