//! What a vendor's wire format has to provide, and the registry of those that the gateway speaks.
//!
//! A [`Dialect`] is everything that the rest of the gateway knows of a vendor's API: how a request is recognised by its
//! path, read and written, how answers, streams and errors are read and written. A dialect is used by callers (as a
//! face), by targets, or both. A new one is a folder of this crate with an implementation of [`Dialect`], and one row in
//! [`DialectId`].
//!
//! If caller and target use the same dialect, bytes pass through and are only monitored ([`StreamMonitor`]); otherwise
//! requests, answers and streams are translated through [`chat`](crate::chat) ([`ChatStreamReader`],
//! [`ChatStreamWriter`]). Two dialects that differ only in their framing convert to each other without being parsed
//! ([`StreamRewriter`]).

mod error_response;
mod registry;
mod request;
mod stream;

pub use error_response::{ErrorResponse, VendorError};
pub(crate) use error_response::{json_error, with_phrase};
pub use registry::{DialectId, route};
pub use request::{
    ModelOperation, OperationAnswer, RequestHead, RequestOptions, ResponseReport, UrlParameters,
};
pub(crate) use stream::monitor_methods;
pub use stream::{
    ChatStreamReader, ChatStreamWriter, StreamEndMarker, StreamMonitor, StreamRewriter, UnreadableStream,
};

use crate::chat::{ChatAnswer, ChatRequest, FeatureColumn, FinishReason, Usage, UsageReport};
use crate::{AnswerError, ApiErrorKind, RequestError, RequestLimits, RetryAdvice};
use bytes::Bytes;
use seawall_core::failure::{Failure, FailureKind};
use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

/// The content type of whole answers and errors.
pub(crate) const JSON: &str = "application/json";
/// The content type of server-sent events.
pub(crate) const SSE: &str = "text/event-stream";

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

/// A vendor's wire format.
pub trait Dialect: fmt::Debug + Send + Sync {
    /// The label in logs and metrics.
    fn name(&self) -> &'static str;

    /// The header in which this dialect's client libraries look for the request id.
    fn request_id_header(&self) -> &'static str;

    /// The header, in milliseconds, of client libraries that read a retry delay from no other.
    fn retry_after_header(&self) -> Option<&'static str> {
        None
    }

    /// The content type of an answer.
    fn content_type(&self, stream: bool) -> &'static str {
        if stream { SSE } else { JSON }
    }

    // Requests.

    /// The parameters in a path of this dialect; `None` if the path belongs to another one.
    fn route(&self, path: &str) -> Option<Result<UrlParameters, ApiErrorKind>>;

    /// Checks the query of a routed request. The error describes a query that selects something unsupported.
    fn check_query(&self, _url: &UrlParameters, _query: &str) -> Result<(), &'static str> {
        Ok(())
    }

    /// The vendor's name of the operation, for the call log of the model simulator.
    fn operation(&self, stream: bool) -> &'static str;

    /// The path of an operation other than generating an answer; `None` if this dialect does not have it.
    fn operation_path(&self, _operation: ModelOperation) -> Option<&'static str> {
        None
    }

    /// The beginning of the IDs of answers.
    fn answer_id_prefix(&self) -> &'static str {
        "msg_"
    }

    /// The path of a request for this model.
    fn path(&self, model: &str, stream: bool) -> String;

    /// Parses as much of a request as decisions need.
    fn read_head(
        &self,
        url: &UrlParameters,
        body: &[u8],
        limits: &RequestLimits,
    ) -> Result<Box<dyn RequestHead>, RequestError>;

    /// The column of the feature table.
    fn feature_column(&self) -> FeatureColumn;

    /// Writes a request for a target. The error names what this dialect cannot express.
    fn write_request(&self, chat: &ChatRequest, options: &RequestOptions<'_>) -> Result<Bytes, RequestError>;

    /// Whether a target rejects requests without an output limit.
    fn requires_output_limit(&self) -> bool {
        false
    }

    /// Whether headers of the caller that carry parameters of Bedrock's InvokeModel are sent with a request.
    fn takes_invoke_headers(&self) -> bool {
        false
    }

    // Answers that are not streamed.

    /// Reads usage and finish reason of an answer that passes through.
    fn read_answer(&self, body: &[u8]) -> Result<(UsageReport, FinishReason), AnswerError>;

    /// The usage in an answer of a model whose format is unknown; `None` if this dialect carries no such bodies.
    fn read_opaque_usage(&self, _body: &[u8]) -> Option<UsageReport> {
        None
    }

    /// Parses an answer. `id` and `model` are used by dialects that report neither.
    fn read_chat_answer(&self, body: &[u8], id: &str, model: &str) -> Result<ChatAnswer, AnswerError>;

    /// Writes an answer.
    fn write_chat_answer(&self, answer: &ChatAnswer, defaults: &AnswerDefaults<'_>) -> Bytes;

    /// What the headers of a response report.
    fn read_response_headers<'h>(&self, _header: &dyn Fn(&str) -> Option<&'h str>) -> Option<ResponseReport> {
        None
    }

    /// Additional headers of an answer that is not streamed.
    fn answer_headers(&self, _usage: Usage, _elapsed: Duration) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    // Streams.

    /// Additional headers of a streamed answer.
    fn stream_headers(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Reads a stream that passes through for usage, end and failure. `is_opaque` means that only the framing can be
    /// parsed.
    fn monitor_stream(&self, is_opaque: bool) -> Box<dyn StreamMonitor>;

    /// Parses a stream. `id` and `model` are used by dialects that report neither.
    fn read_stream(&self, id: &str, model: &str) -> Box<dyn ChatStreamReader>;

    /// Writes a stream. `created` is in seconds since 1970.
    fn write_stream(&self, created: u64, wants_usage: bool) -> Box<dyn ChatStreamWriter>;

    /// The dialect whose bodies this one has, in a framing of its own.
    fn body_format(&self) -> &'static str {
        self.name()
    }

    /// Converts a target's stream to this dialect without parsing it, if the two differ only in their framing, or if
    /// something has to be left out for this caller.
    fn rewrite_stream(&self, _target: DialectId, _wants_usage: bool) -> Option<Box<dyn StreamRewriter>> {
        None
    }

    /// The event that ends an incomplete stream.
    fn write_interruption(&self, kind: FailureKind, message: &str) -> Bytes;

    // Errors.

    /// Classifies an error response from its status, headers (looked up by lower-case name) and body.
    fn read_error<'h>(&self, status: u16, header: &dyn Fn(&str) -> Option<&'h str>, body: &[u8]) -> Failure;

    /// The message of an error response; empty if there is none.
    fn read_error_message(&self, body: &[u8]) -> String;

    /// The HTTP status of an error.
    fn error_status(&self, error_kind: ApiErrorKind) -> u16;

    /// The vendor's name of an error.
    fn error_name(&self, error_kind: ApiErrorKind) -> &'static str;

    /// Status and name of an error that must not be retried, for dialects that have no header against retries.
    fn final_error(&self, error_kind: ApiErrorKind) -> (u16, &'static str) {
        (self.error_status(error_kind), self.error_name(error_kind))
    }

    /// Status and name for a model that is not ready, for dialects that distinguish it from a throttled one.
    fn not_ready_error(&self) -> Option<(u16, &'static str)> {
        None
    }

    /// The header with the name of an error; `None` if it is in the body.
    fn error_name_header(&self) -> Option<&'static str> {
        None
    }

    /// The field of `error` in the body that holds its name, if no header does.
    fn error_name_field(&self) -> &'static str {
        "type"
    }

    /// The name of the error's schema in the OpenAPI document.
    fn error_schema(&self) -> &'static str;

    /// Writes an error response. `id` is the request ID, and `advice` determines the retry headers.
    fn write_error(
        &self,
        error_kind: ApiErrorKind,
        message: &str,
        id: &str,
        advice: RetryAdvice,
    ) -> ErrorResponse;

    /// Writes an error as the vendor does.
    fn write_vendor_error(&self, error: &VendorError<'_>) -> ErrorResponse;

    /// The message of an error, including the phrase that the vendor's own errors contain. Client frameworks search the
    /// text for that phrase, regardless of status and code.
    fn client_message<'m>(&self, error_kind: ApiErrorKind, message: &'m str) -> Cow<'m, str>;
}
