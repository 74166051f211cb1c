//! What Seawall says itself when it refuses or fails, in the service's words.
//!
//! The vendor's clients try again by status (429, 500, 503) and by name (what sounds like throttling). A refusal that
//! a wait cannot cure therefore has a status and a name that none of them acts on, where the dialect has one. An
//! operator's switch has none: it is a 503, which clients try twice more, without a word on when.
//!
//! Other vendors' clients can be told in a header not to come back. These read none that says so, and have to be told by
//! status and name as well: see [`final_refusal`].

use super::frame::write_exception_frame;
use crate::Refusal;
use crate::json_out::USUAL;
use bytes::{BufMut as _, Bytes, BytesMut};
use seawall_core::failure::FailureKind;
use serde::Serialize;
use std::time::Duration;

/// The HTTP status of a refusal.
#[must_use]
pub const fn refusal_status(refusal: Refusal) -> u16 {
    match refusal {
        // The service says of a body that is too large that it is not valid, and of a spent quota that it is the
        // caller's fault.
        Refusal::Malformed
        | Refusal::TooLarge
        | Refusal::ExceedsBudget
        | Refusal::Conflict
        | Refusal::OutcomeUnknown
        | Refusal::OutOfBudget => 400,
        Refusal::Unauthenticated | Refusal::Forbidden => 403,
        Refusal::NotFound => 404,
        Refusal::TimedOut => 408,
        Refusal::Throttled | Refusal::BudgetHeld => 429,
        Refusal::Internal => 500,
        Refusal::SwitchedOff | Refusal::Overloaded => 503,
    }
}

/// The name of the exception that a client raises for a refusal.
#[must_use]
pub const fn refusal_name(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Malformed | Refusal::TooLarge | Refusal::ExceedsBudget => "ValidationException",
        Refusal::Unauthenticated => "UnrecognizedClientException",
        Refusal::Forbidden => "AccessDeniedException",
        Refusal::NotFound => "ResourceNotFoundException",
        Refusal::Conflict | Refusal::OutcomeUnknown => "ConflictException",
        Refusal::Throttled | Refusal::BudgetHeld => "ThrottlingException",
        Refusal::OutOfBudget => "ServiceQuotaExceededException",
        Refusal::SwitchedOff | Refusal::Overloaded => "ServiceUnavailableException",
        Refusal::TimedOut => "ModelTimeoutException",
        Refusal::Internal => "InternalServerException",
    }
}

/// Status and name of a refusal that nobody is to come back for, such as after all tries of our own: a client that tried
/// again would multiply them.
#[must_use]
pub const fn final_refusal(refusal: Refusal) -> (u16, &'static str) {
    match refusal {
        Refusal::Throttled | Refusal::BudgetHeld => final_refusal(Refusal::OutOfBudget),
        Refusal::Overloaded | Refusal::Internal => (424, "ModelErrorException"),
        _ => (refusal_status(refusal), refusal_name(refusal)),
    }
}

/// The headers of a refusal: what clients read the exception's name and the request's id from, and, where a wait
/// can help, how long it should be. Both ways to say that are used: two of the vendor's clients read only their own,
/// in milliseconds, and proxies between know only the other, in whole seconds.
#[must_use]
pub fn refusal_headers(
    refusal: Refusal,
    request_id: &str,
    retry_after: Option<Duration>,
) -> Vec<(&'static str, String)> {
    let mut headers = vec![
        ("content-type", "application/json".to_owned()),
        ("x-amzn-errortype", refusal_name(refusal).to_owned()),
        ("x-amzn-requestid", request_id.to_owned()),
    ];
    let can_help = matches!(refusal, Refusal::Throttled | Refusal::BudgetHeld | Refusal::Overloaded);
    if let Some(wait) = retry_after.filter(|_| can_help) {
        headers.push(("x-amz-retry-after", wait.as_micros().div_ceil(1_000).to_string()));
        headers.push(("retry-after", wait.as_millis().div_ceil(1_000).to_string()));
    }
    headers
}

/// Appends the body of an error.
pub fn write_error(out: &mut BytesMut, message: &str) {
    out.put_slice(&payload(message));
}

/// Which of the two streams an exception is written into. Their descriptions do not list the same exceptions, and a
/// client gives one that is not listed no type of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamKind {
    /// Of InvokeModelWithResponseStream.
    Invoke,
    /// Of ConverseStream.
    Converse,
}

/// Appends the frame that ends a stream which cannot be completed. It must not stand inside another frame.
pub fn write_failure_frame(out: &mut BytesMut, stream: StreamKind, kind: FailureKind, message: &str) {
    write_exception_frame(out, exception_of(stream, kind), payload(message));
}

const fn exception_of(stream: StreamKind, kind: FailureKind) -> &'static str {
    match kind {
        // A stream has no word for a spent quota.
        FailureKind::Throttled | FailureKind::QuotaExhausted => "throttlingException",
        FailureKind::Overloaded | FailureKind::NotReady | FailureKind::Unreachable => {
            "serviceUnavailableException"
        }
        FailureKind::TimedOut | FailureKind::NotStarted => match stream {
            StreamKind::Invoke => "modelTimeoutException",
            StreamKind::Converse => "modelStreamErrorException",
        },
        FailureKind::BrokeMidStream | FailureKind::ModelFault | FailureKind::Unrecognised => {
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

/// A value as JSON.
pub(super) fn json(value: &impl Serialize) -> Bytes {
    let mut out = Vec::with_capacity(USUAL);
    let outcome = serde_json::to_writer(&mut out, value);
    // Text and numbers have no value that JSON lacks, and memory takes what it is given.
    debug_assert!(outcome.is_ok(), "{outcome:?}");
    out.into()
}

#[derive(Serialize)]
struct ErrorBody<'a> {
    message: &'a str,
}
