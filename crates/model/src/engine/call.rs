//! The ways to ask a model.

use seawall_wire::bedrock::{BedrockCall, BedrockOperation, CountRequest, invoke_to_messages};
use seawall_wire::chat::ChatRequest;
use seawall_wire::{Dialect, Refusal, RequestError, RequestLimits, anthropic, bedrock, openai};

/// In which dialect a request came in, and for what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ModelCall {
    /// Anthropic Messages.
    #[default]
    Messages,
    /// OpenAI chat completions.
    Completions,
    /// Amazon Bedrock, whose path says which model is asked for what.
    Bedrock(BedrockCall),
}

impl ModelCall {
    /// The call that a path asks for; `None` where nobody is asked for an answer there.
    ///
    /// ```
    /// use seawall_model::engine::ModelCall;
    ///
    /// assert_eq!(ModelCall::of_path("/v1/messages"), Some(Ok(ModelCall::Messages)));
    /// assert_eq!(ModelCall::of_path("/"), None);
    /// ```
    #[must_use]
    pub fn of_path(path: &str) -> Option<Result<Self, (Refusal, String)>> {
        match path {
            "/v1/messages" => Some(Ok(Self::Messages)),
            "/v1/chat/completions" => Some(Ok(Self::Completions)),
            path if path.starts_with("/model/") => Some(
                bedrock::read_path(path)
                    .map(Self::Bedrock)
                    .map_err(|error| (error.refusal(), error.to_string())),
            ),
            _ => None,
        }
    }

    /// Whose words it is in.
    #[must_use]
    pub const fn dialect(&self) -> Dialect {
        match self {
            Self::Messages => Dialect::Anthropic,
            Self::Completions => Dialect::OpenAi,
            Self::Bedrock(_) => Dialect::Bedrock,
        }
    }

    /// The name in the list of calls.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::Completions => "chat_completions",
            Self::Bedrock(call) => call.operation.path_name(),
        }
    }

    /// What is asked for.
    pub(super) fn read(&self, body: &[u8]) -> Result<ChatRequest, RequestError> {
        let limits = RequestLimits::default();
        match self {
            Self::Messages => anthropic::read_chat_request(body, &limits),
            Self::Completions => openai::read_chat_request(body, &limits),
            Self::Bedrock(call) => match call.operation {
                BedrockOperation::Invoke | BedrockOperation::InvokeStream => read_invoke(call, body, &limits),
                BedrockOperation::Converse | BedrockOperation::ConverseStream => {
                    bedrock::read_chat_request(call, body, &limits)
                }
                BedrockOperation::CountTokens => match bedrock::read_count_request(call, body, &limits)? {
                    CountRequest::Converse(request) => Ok(request),
                    CountRequest::Invoke(body) => read_invoke(call, &body, &limits),
                },
            },
        }
    }
}

fn read_invoke(call: &BedrockCall, body: &[u8], limits: &RequestLimits) -> Result<ChatRequest, RequestError> {
    bedrock::read_invoke_request(body, limits)?;
    let body = invoke_to_messages(body, limits, &call.model, call.operation.is_stream())?;
    anthropic::read_chat_request(body.as_bytes(), limits)
}
