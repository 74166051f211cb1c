//! The operations of a model, in all dialects.

use super::operation::OperationFormat;
use super::vendor_format::VendorFormat;
use seawall_wire::bedrock::{BedrockCall, BedrockOperation, CountRequest};
use seawall_wire::chat::ChatRequest;
use seawall_wire::dialect::{DialectId, ModelOperation, UrlParameters, route};
use seawall_wire::{ApiErrorKind, RequestError, RequestLimits, bedrock, gemini};
use serde_json::Value;
use std::borrow::Cow;

/// The dialect and operation of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelCall {
    /// The dialect.
    pub dialect: DialectId,
    /// The parameters in the URL.
    pub url: UrlParameters,
    /// Whether only the input tokens are counted, which Bedrock and Gemini offer for every model.
    pub counts_tokens: bool,
}

/// The body without the request to store the response, which every other target of the gateway has to refuse. This model
/// accepts it, as OpenAI does, and stores nothing.
fn without_store(dialect: DialectId, body: &[u8]) -> Cow<'_, [u8]> {
    if dialect != DialectId::RESPONSES {
        return Cow::Borrowed(body);
    }
    let Ok(Value::Object(mut fields)) = serde_json::from_slice(body) else { return Cow::Borrowed(body) };
    match fields.remove("store") {
        Some(_) => Cow::Owned(Value::Object(fields).to_string().into_bytes()),
        None => Cow::Borrowed(body),
    }
}

impl ModelCall {
    /// A call in a dialect that has all parameters in the body.
    #[must_use]
    pub fn of(dialect: DialectId) -> Self {
        Self { dialect, url: UrlParameters::default(), counts_tokens: false }
    }

    /// A call in a dialect that has its parameters in the URL.
    #[must_use]
    pub fn with_url(dialect: DialectId, model: &str, stream: bool) -> Self {
        Self { url: UrlParameters::new(model.to_owned(), stream), ..Self::of(dialect) }
    }

    /// The operation that a path names; `None` if the path is not a model endpoint.
    ///
    /// ```
    /// use seawall_model::engine::ModelCall;
    /// use seawall_wire::dialect::DialectId;
    ///
    /// let messages = ModelCall::of(DialectId::ANTHROPIC_MESSAGES);
    /// assert_eq!(ModelCall::of_path("/v1/messages"), Some(Ok(messages)));
    /// assert_eq!(ModelCall::of_path("/"), None);
    /// ```
    #[must_use]
    pub fn of_path(path: &str) -> Option<Result<Self, ApiErrorKind>> {
        if let Ok(BedrockCall { operation: BedrockOperation::CountTokens, model }) = bedrock::read_path(path)
        {
            let call = Self::with_url(DialectId::BEDROCK_INVOKE, &model, false);
            return Some(Ok(Self { counts_tokens: true, ..call }));
        }
        if let Some(model) = gemini::read_count_path(path) {
            let call = model.map(|model| Self::with_url(DialectId::GEMINI, &model, false));
            let call = call.map_err(|error| error.api_error_kind());
            return Some(call.map(|call| Self { counts_tokens: true, ..call }));
        }
        let (dialect, url) = route(path)?;
        Some(url.map(|url| Self { dialect, url, counts_tokens: false }))
    }

    /// The name in the call log.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self.url.operation {
            _ if self.counts_tokens && self.dialect == DialectId::GEMINI => "countTokens",
            _ if self.counts_tokens => "count-tokens",
            ModelOperation::Generate => self.dialect.operation(self.url.stream),
            ModelOperation::Compact => "compact",
            ModelOperation::Embed => "embeddings",
        }
    }

    /// Whether a stream consists of binary frames rather than server-sent events.
    #[must_use]
    pub fn has_binary_frames(&self) -> bool {
        self.dialect.content_type(true) != "text/event-stream"
    }

    /// The body format, for models on Bedrock that have their own.
    pub(super) fn vendor_format(&self) -> Option<VendorFormat> {
        let is_invoke = self.dialect == DialectId::BEDROCK_INVOKE;
        VendorFormat::of_model(&self.url.model).filter(|_| is_invoke)
    }

    /// Parses the request body.
    pub(super) fn read(&self, body: &[u8]) -> Result<ChatRequest, RequestError> {
        let limits = RequestLimits::default();
        if !self.counts_tokens {
            return self.read_body(body, &limits);
        }
        if self.dialect == DialectId::GEMINI {
            return self.read_body(gemini::read_count_input(body, &limits)?.as_bytes(), &limits);
        }
        let call = BedrockCall { operation: BedrockOperation::CountTokens, model: self.url.model.clone() };
        match bedrock::read_count_request(&call, body, &limits)? {
            CountRequest::Converse(request) => Ok(request),
            CountRequest::Invoke(body) => self.read_body(&body, &limits),
        }
    }

    fn read_body(&self, body: &[u8], limits: &RequestLimits) -> Result<ChatRequest, RequestError> {
        let operation = OperationFormat::of_call(self);
        if let Some(read) = operation.and_then(|format| format.read(&self.url.model, body, limits)) {
            return read;
        }
        if let Some(format) = self.vendor_format() {
            return format.read(&self.url, body, limits);
        }
        if self.dialect == DialectId::BEDROCK_INVOKE {
            // All other models that are simulated at Bedrock are Anthropic's.
            bedrock::read_invoke_request(body, limits)?;
        }
        let head = self.dialect.read_head(&self.url, body, limits)?;
        let mut request = head.read_chat(&without_store(self.dialect, body), limits)?;
        if !self.url.model.is_empty() {
            request.model.clone_from(&self.url.model);
        }
        Ok(request)
    }
}
