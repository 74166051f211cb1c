//! The operations of a model, in all dialects.

use super::vendor_format::VendorFormat;
use seawall_wire::bedrock::{BedrockCall, BedrockOperation, CountRequest, invoke_to_messages};
use seawall_wire::chat::ChatRequest;
use seawall_wire::{ApiErrorKind, RequestError, RequestLimits, Vendor, anthropic, bedrock, openai};

/// The dialect and operation of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ModelCall {
    /// Anthropic Messages.
    #[default]
    Messages,
    /// OpenAI chat completions.
    Completions,
    /// Amazon Bedrock; the path names the model and the operation.
    Bedrock(BedrockCall),
}

impl ModelCall {
    /// The operation that a path names; `None` if the path is not a model endpoint.
    ///
    /// ```
    /// use seawall_model::engine::ModelCall;
    ///
    /// assert_eq!(ModelCall::of_path("/v1/messages"), Some(Ok(ModelCall::Messages)));
    /// assert_eq!(ModelCall::of_path("/"), None);
    /// ```
    #[must_use]
    pub fn of_path(path: &str) -> Option<Result<Self, (ApiErrorKind, String)>> {
        match path {
            "/v1/messages" => Some(Ok(Self::Messages)),
            "/v1/chat/completions" => Some(Ok(Self::Completions)),
            path if path.starts_with("/model/") => Some(
                bedrock::read_path(path)
                    .map(Self::Bedrock)
                    .map_err(|error| (error.api_error_kind(), error.to_string())),
            ),
            _ => None,
        }
    }

    /// The vendor whose API the request uses.
    #[must_use]
    pub const fn vendor(&self) -> Vendor {
        match self {
            Self::Messages => Vendor::Anthropic,
            Self::Completions => Vendor::OpenAi,
            Self::Bedrock(_) => Vendor::Bedrock,
        }
    }

    /// The name in the call log.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::Completions => "chat_completions",
            Self::Bedrock(call) => call.operation.path_name(),
        }
    }

    /// Parses the request body.
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
    if let Some(format) = VendorFormat::of_model(&call.model) {
        return format.read(call, body, limits);
    }
    bedrock::read_invoke_request(body, limits)?;
    let body = invoke_to_messages(body, limits, &call.model, call.operation.is_stream())?;
    anthropic::read_chat_request(body.as_bytes(), limits)
}
