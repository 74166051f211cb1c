//! The service's errors, read into failures.

use crate::retry_hint;
use seawall_core::failure::{BEDROCK, Failure};
use serde_json::Value;

/// Reads the failure out of an answer that is no success: its status, its headers (asked for by lower-case
/// name) and its body.
///
/// The name in the header decides where it is known, then a name in the body, then the status. A body that cannot be
/// read leaves the others. Of the two headers that say when to try again the vendor's own, in milliseconds, comes
/// first; what is not a plain number of at least 0 is ignored.
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
    let failure = BEDROCK.classify(status, in_header.or(in_body));
    match retry_hint(header) {
        Some(wait) => failure.with_retry_after(wait),
        None => failure,
    }
}

/// The vendor's words about an error; empty when there are none.
#[must_use]
pub fn read_error_message(body: &[u8]) -> String {
    let fields: Value = serde_json::from_slice(body).unwrap_or_default();
    ["message", "Message"].iter().find_map(|field| fields[*field].as_str()).unwrap_or_default().to_owned()
}

/// A failure inside of a stream. The status that the stream began with says nothing any more.
pub(super) fn failure_in_stream(name: &str) -> Failure {
    BEDROCK.classify(200, Some(name))
}

fn is_known(name: &str) -> bool {
    let name = name.rsplit_once('#').map_or(name, |(_, bare)| bare);
    let name = name.split_once(':').map_or(name, |(bare, _)| bare).trim();
    BEDROCK.names().iter().any(|(known, _)| known.eq_ignore_ascii_case(name))
}
