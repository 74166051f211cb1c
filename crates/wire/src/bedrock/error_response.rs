//! Maps the gateway's own errors and failures to the service's exceptions.
//!
//! The vendor's clients retry by status (429, 500, 503) and by exception name (those that indicate throttling). A
//! rejection that waiting cannot cure therefore gets a status and a name that no client retries, if the dialect has one.
//! An operator's kill switch has none: it is a 503 without a delay, which clients retry twice.
//!
//! Clients of other vendors honour a header that tells them not to retry; the clients of this service have no such
//! header. Throttling and outages keep their names all the same, because programs react to those names: a client
//! retries them as often as it would against the service itself, two or four times, and meets a rejection that costs
//! nothing or an open breaker. Only for a model that fails at this particular request is there a name that prevents
//! retries: see [`final_error`].

use super::frame::write_exception_frame;
use crate::dialect::{ErrorResponse, JSON, VendorError, with_phrase};
use crate::json_out::INITIAL_CAPACITY;
use crate::{ApiErrorKind, RetryAdvice};
use bytes::{BufMut as _, Bytes, BytesMut};
use seawall_core::failure::FailureKind;
use serde::Serialize;
use std::borrow::Cow;
use std::time::Duration;

/// The header in which the service's client libraries look for the request id.
pub(crate) const REQUEST_ID_HEADER: &str = "x-amzn-RequestId";
/// The header with the exception name.
pub(super) const ERROR_NAME_HEADER: &str = "x-amzn-errortype";
/// The only header in which its client libraries look for a delay, in milliseconds.
pub(crate) const RETRY_AFTER_HEADER: &str = "x-amz-retry-after";

/// The HTTP status of an error.
#[must_use]
pub const fn error_status(error_kind: ApiErrorKind) -> u16 {
    match error_kind {
        // The service reports a body that is too large as a validation error, and an exhausted quota as a client error.
        ApiErrorKind::Malformed
        | ApiErrorKind::TooLarge
        | ApiErrorKind::ContextLength
        | ApiErrorKind::ExceedsRemainingBudget
        | ApiErrorKind::ExceedsDailyBudget
        | ApiErrorKind::Conflict
        | ApiErrorKind::OutcomeUnknown
        | ApiErrorKind::BudgetExhausted => 400,
        ApiErrorKind::Unauthenticated | ApiErrorKind::Forbidden => 403,
        ApiErrorKind::NotFound | ApiErrorKind::UnknownPath => 404,
        ApiErrorKind::TimedOut => 408,
        ApiErrorKind::Throttled | ApiErrorKind::BudgetHeld => 429,
        ApiErrorKind::Internal => 500,
        ApiErrorKind::SwitchedOff | ApiErrorKind::Overloaded => 503,
    }
}

/// The exception name of an error.
#[must_use]
pub const fn error_name(error_kind: ApiErrorKind) -> &'static str {
    match error_kind {
        ApiErrorKind::Malformed
        | ApiErrorKind::TooLarge
        | ApiErrorKind::ContextLength
        | ApiErrorKind::ExceedsRemainingBudget
        | ApiErrorKind::ExceedsDailyBudget => "ValidationException",
        ApiErrorKind::Unauthenticated => "UnrecognizedClientException",
        ApiErrorKind::Forbidden => "AccessDeniedException",
        ApiErrorKind::NotFound => "ResourceNotFoundException",
        ApiErrorKind::UnknownPath => "UnknownOperationException",
        ApiErrorKind::Conflict | ApiErrorKind::OutcomeUnknown => "ConflictException",
        ApiErrorKind::Throttled | ApiErrorKind::BudgetHeld => "ThrottlingException",
        ApiErrorKind::BudgetExhausted => "ServiceQuotaExceededException",
        ApiErrorKind::SwitchedOff | ApiErrorKind::Overloaded => "ServiceUnavailableException",
        ApiErrorKind::TimedOut => "ModelTimeoutException",
        ApiErrorKind::Internal => "InternalServerException",
    }
}

/// Status and exception name for a model that is not ready, which the service distinguishes from a throttled one.
pub const NOT_READY: (u16, &str) = (429, "ModelNotReadyException");

/// Status and exception name of an error that must not be retried, for example after the gateway's own retries: a
/// client that retried would multiply them. If the service has one name for both cases, it is that name.
#[must_use]
pub const fn final_error(error_kind: ApiErrorKind) -> (u16, &'static str) {
    match error_kind {
        ApiErrorKind::Internal => (424, "ModelErrorException"),
        _ => (error_status(error_kind), error_name(error_kind)),
    }
}

/// The headers of an error response: the exception name, the request id and, if waiting can help, the retry delay. The delay is
/// sent in two headers: two of the vendor's clients read only their own, in milliseconds, and intermediate proxies
/// understand only `retry-after`, in whole seconds.
#[must_use]
pub fn error_headers(
    error_kind: ApiErrorKind,
    request_id: &str,
    retry_after: Option<Duration>,
) -> Vec<(&'static str, String)> {
    let mut headers = vec![
        ("content-type", "application/json".to_owned()),
        ("x-amzn-errortype", error_name(error_kind).to_owned()),
        ("x-amzn-requestid", request_id.to_owned()),
    ];
    let can_help =
        matches!(error_kind, ApiErrorKind::Throttled | ApiErrorKind::BudgetHeld | ApiErrorKind::Overloaded);
    if let Some(wait) = retry_after.filter(|_| can_help) {
        headers.push(("x-amz-retry-after", wait.as_micros().div_ceil(1_000).to_string()));
        headers.push(("retry-after", wait.as_millis().div_ceil(1_000).to_string()));
    }
    headers
}

/// An error response. `advice` determines the retry headers, and whether a client may retry at all.
pub(super) fn write_error_response(
    error_kind: ApiErrorKind,
    message: &str,
    id: &str,
    advice: RetryAdvice,
) -> ErrorResponse {
    let (status, name) = match advice.should_retry {
        Some(false) => final_error(error_kind),
        _ => (error_status(error_kind), error_name(error_kind)),
    };
    let mut headers = vec![
        ("content-type", JSON.to_owned()),
        (REQUEST_ID_HEADER, id.to_owned()),
        (ERROR_NAME_HEADER, name.to_owned()),
    ];
    headers.extend(advice.headers(Some(RETRY_AFTER_HEADER)));
    ErrorResponse { status, headers, body: payload(&client_message(error_kind, message)) }
}

/// An error as the service sends it.
pub(super) fn write_vendor_error(error: &VendorError<'_>) -> ErrorResponse {
    let VendorError { status, name, message, request_id } = *error;
    let usual = match status {
        401 => "UnrecognizedClientException",
        403 => "AccessDeniedException",
        404 => "ResourceNotFoundException",
        408 => "ModelTimeoutException",
        424 => "ModelErrorException",
        429 => "ThrottlingException",
        503 => "ServiceUnavailableException",
        400..=499 => "ValidationException",
        _ => "InternalServerException",
    };
    let headers = vec![
        ("content-type", JSON.to_owned()),
        (REQUEST_ID_HEADER, request_id.to_owned()),
        (ERROR_NAME_HEADER, name.unwrap_or(usual).to_owned()),
    ];
    ErrorResponse { status, headers, body: payload(message) }
}

/// The frame that ends an incomplete stream.
pub(super) fn write_interruption(stream: StreamKind, kind: FailureKind, message: &str) -> Bytes {
    let message = client_message(ApiErrorKind::of_failure(kind), message);
    let mut out = BytesMut::new();
    write_failure_frame(&mut out, stream, kind, &message);
    out.freeze()
}

/// The message of an error, with the phrase that the service's own errors contain.
pub(crate) fn client_message(error_kind: ApiErrorKind, message: &str) -> Cow<'_, str> {
    match error_kind {
        ApiErrorKind::ContextLength => with_phrase("Input is too long for requested model", message),
        _ => message.into(),
    }
}

/// Appends the body of an error response.
pub fn write_error(out: &mut BytesMut, message: &str) {
    out.put_slice(&payload(message));
}

/// The stream into which an exception is written. The API models of the two streams list different exceptions, and a
/// client has no typed error for one that is not listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamKind {
    /// InvokeModelWithResponseStream.
    Invoke,
    /// ConverseStream.
    Converse,
}

/// Appends the exception frame that ends a stream that cannot be completed. It must be written at a frame boundary.
pub fn write_failure_frame(out: &mut BytesMut, stream: StreamKind, kind: FailureKind, message: &str) {
    write_exception_frame(out, exception_of(stream, kind), payload(message));
}

const fn exception_of(stream: StreamKind, kind: FailureKind) -> &'static str {
    match kind {
        // Streams have no exception for an exhausted quota.
        FailureKind::Throttled | FailureKind::QuotaExhausted => "throttlingException",
        FailureKind::Overloaded | FailureKind::NotReady | FailureKind::Unreachable => {
            "serviceUnavailableException"
        }
        FailureKind::TimedOut | FailureKind::StartTimeout => match stream {
            StreamKind::Invoke => "modelTimeoutException",
            StreamKind::Converse => "modelStreamErrorException",
        },
        FailureKind::StreamInterrupted | FailureKind::ModelFault | FailureKind::Unrecognised => {
            "modelStreamErrorException"
        }
        FailureKind::ServerFault => "internalServerException",
        FailureKind::BadRequest
        | FailureKind::TooLong
        | FailureKind::Unauthorized
        | FailureKind::NotFound
        | FailureKind::Filtered => "validationException",
    }
}

fn payload(message: &str) -> Bytes {
    json(&ErrorBody { message })
}

/// Serializes a value to JSON.
pub(super) fn json(value: &impl Serialize) -> Bytes {
    let mut out = Vec::with_capacity(INITIAL_CAPACITY);
    let outcome = serde_json::to_writer(&mut out, value);
    // Serialization cannot fail: the types have no value that JSON lacks, and writing to memory always succeeds.
    debug_assert!(outcome.is_ok(), "{outcome:?}");
    out.into()
}

#[derive(Serialize)]
struct ErrorBody<'a> {
    message: &'a str,
}
