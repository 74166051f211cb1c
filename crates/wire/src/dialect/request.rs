//! Requests, read as far as decisions need them.

use super::DialectId;
use crate::chat::{ChatRequest, Usage, UsageReport};
use crate::{AnswerError, RequestError, RequestLimits};
use bytes::Bytes;
use seawall_core::money::ServiceTier;
use seawall_core::vocabulary::OutputLimitField;
use std::fmt;

/// What a request asks a model for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ModelOperation {
    /// An answer to a conversation.
    #[default]
    Generate,
    /// A shorter form of a conversation, which only its vendor can read.
    Compact,
    /// Embeddings of texts.
    Embed,
}

/// The answer of an operation that generates none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationAnswer {
    /// The usage.
    pub report: UsageReport,
    /// The body in the caller's dialect.
    pub body: Bytes,
}

/// Parameters of a request in its URL. A dialect that has them in the body leaves them empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UrlParameters {
    /// The requested model.
    pub model: String,
    /// Whether a streamed answer is requested.
    pub stream: bool,
    /// The operation.
    pub operation: ModelOperation,
}

impl UrlParameters {
    /// The parameters of a request for an answer of this model.
    #[must_use]
    pub const fn new(model: String, stream: bool) -> Self {
        Self { model, stream, operation: ModelOperation::Generate }
    }
}

/// What a request is written with.
#[derive(Clone, Copy, Debug)]
pub struct RequestOptions<'a> {
    /// The target's model name.
    pub model: &'a str,
    /// The output limit to add if the request sets none.
    pub limit: Option<u32>,
    /// The field of the output limit, where the dialect has several.
    pub limit_field: OutputLimitField,
    /// Beta features that the caller requests.
    pub betas: &'a [String],
    /// The limits that the request was read with.
    pub limits: &'a RequestLimits,
}

/// The fields of a request that decisions need.
pub trait RequestHead: fmt::Debug + Send + Sync {
    /// The model name that the caller used.
    fn model(&self) -> &str;

    /// Whether a streamed answer is requested.
    fn stream(&self) -> bool;

    /// The maximum output tokens per answer, if the request sets them.
    fn max_output(&self) -> Option<u32>;

    /// Whether the request enables thinking, which is billed as output but not always sent.
    fn enables_thinking(&self) -> bool;

    /// What the request asks for.
    fn operation(&self) -> ModelOperation {
        ModelOperation::Generate
    }

    /// The number of answers requested.
    fn choices(&self) -> u32 {
        1
    }

    /// Whether the caller wants the usage of a stream.
    fn wants_usage(&self) -> bool {
        true
    }

    /// The beta features that the body requests, for dialects that do not take them in a header.
    fn betas(&self) -> Option<&[String]> {
        None
    }

    /// The number of answers requested from a model whose format is unknown; `None` if it is known.
    fn opaque_answers(&self) -> Option<u32> {
        None
    }

    /// Whether a target that accepts several dialects should be called in this request's own.
    fn prefers_own_dialect(&self) -> bool {
        false
    }

    /// The body for a target of this dialect that receives the caller's fields unchanged; `None` if the request must be
    /// translated.
    fn pass_through(
        &self,
        body: &Bytes,
        target: DialectId,
        options: &RequestOptions<'_>,
    ) -> Option<Result<Bytes, RequestError>>;

    /// Parses the whole request.
    fn read_chat(&self, body: &[u8], limits: &RequestLimits) -> Result<ChatRequest, RequestError>;

    /// Returns an error for the first field that a translation would drop silently. The body must have been read before.
    fn check_translatable(&self, _body: &[u8], _limits: &RequestLimits) -> Result<(), RequestError> {
        Ok(())
    }

    /// Reads a target's answer to an operation that generates none, and writes it for the caller; `None` if the
    /// operation is [`Generate`](ModelOperation::Generate). `header_usage` is the usage in the response headers.
    fn read_operation_answer(
        &self,
        _target: DialectId,
        _body: &Bytes,
        _header_usage: Option<Usage>,
    ) -> Option<Result<OperationAnswer, AnswerError>> {
        None
    }
}

/// What the headers of a response report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseReport {
    /// The usage.
    pub usage: Option<Usage>,
    /// The service tier, which determines the price.
    pub service: ServiceTier,
    /// Headers that a caller of the same dialect receives unchanged, with lowercase names.
    pub headers: Vec<(&'static str, String)>,
}
