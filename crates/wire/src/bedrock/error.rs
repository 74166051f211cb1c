//! Classifies the service's errors.

use crate::read_retry_after;
use seawall_core::failure::{BEDROCK, Failure, FailureKind};
use serde_json::Value;

/// Classifies an error response from its status, headers (looked up by lower-case name) and body.
///
/// A known exception name in the header decides first, then a name in the body, then the status. If the body cannot be
/// parsed, the others decide. The vendor's own retry header, in milliseconds, takes precedence over `retry-after`; a
/// value that is not a plain non-negative number is ignored.
///
/// ```
/// use seawall_core::failure::FailureKind;
/// use seawall_wire::bedrock::read_error;
///
/// let header = |name: &str| (name == "x-amzn-errortype").then_some("ThrottlingException:http://internal.amazon.com/");
/// let failure = read_error(429, header, br#"{"message":"Too many requests"}"#);
/// assert_eq!(failure.kind, FailureKind::Throttled);
/// ```
#[must_use]
pub fn read_error<'h>(status: u16, header: impl Fn(&str) -> Option<&'h str>, body: &[u8]) -> Failure {
    let fields: Value = serde_json::from_slice(body).unwrap_or_default();
    let in_header = header("x-amzn-errortype").filter(|name| is_known(name));
    let in_body = ["__type", "code"].iter().find_map(|field| fields[*field].as_str());
    let mut failure = BEDROCK.classify(status, in_header.or(in_body));
    // The service has no exception for an exceeded context window, but clients of other dialects look for theirs.
    if failure.kind == FailureKind::BadRequest && is_too_long(&read_error_message(body)) {
        failure = Failure { not_executed: failure.not_executed, ..Failure::of(FailureKind::TooLong) };
    }
    match read_retry_after(header) {
        Some(wait) => failure.with_retry_after(wait),
        None => failure,
    }
}

/// The vendor's error message; empty if there is none.
#[must_use]
pub fn read_error_message(body: &[u8]) -> String {
    let fields: Value = serde_json::from_slice(body).unwrap_or_default();
    ["message", "Message"].iter().find_map(|field| fields[*field].as_str()).unwrap_or_default().to_owned()
}

fn is_too_long(message: &str) -> bool {
    ["Input is too long", "prompt is too long", "too many input tokens"]
        .iter()
        .any(|phrase| message.contains(phrase))
}

/// Classifies a failure inside a stream by its name; the status that the stream began with has no meaning any more.
pub(super) fn failure_in_stream(name: &str) -> Failure {
    BEDROCK.classify(200, Some(name))
}

fn is_known(name: &str) -> bool {
    let name = name.rsplit_once('#').map_or(name, |(_, bare)| bare);
    let name = name.split_once(':').map_or(name, |(bare, _)| bare).trim();
    BEDROCK.names().iter().any(|(known, _)| known.eq_ignore_ascii_case(name))
}
