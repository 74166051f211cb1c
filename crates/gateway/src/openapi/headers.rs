//! All response headers, and the responses they appear in. Content length, content type, date and connection headers
//! are left out.

use super::reference;
use seawall_pipeline::dialect::{Face, request_id_header};
use serde_json::{Map, Value, json};

/// The kind of response that has a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResponseKind {
    Answer,
    Error,
}

/// The faces that send a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeaderScope {
    AllFaces,
    /// Faces whose request id is in this header.
    RequestId,
    Bedrock,
    Invoke,
}

struct ResponseHeader {
    name: &'static str,
    /// The JSON Schema type of the value.
    kind: &'static str,
    on: &'static [ResponseKind],
    scope: HeaderScope,
    description: &'static str,
}

const BOTH: &[ResponseKind] = &[ResponseKind::Answer, ResponseKind::Error];
const ANSWER: &[ResponseKind] = &[ResponseKind::Answer];
const ERROR: &[ResponseKind] = &[ResponseKind::Error];

const fn header(
    name: &'static str,
    kind: &'static str,
    on: &'static [ResponseKind],
    scope: HeaderScope,
    description: &'static str,
) -> ResponseHeader {
    ResponseHeader { name, kind, on, scope, description }
}

use HeaderScope::{AllFaces, Bedrock, Invoke, RequestId};

#[rustfmt::skip] // A table is read by its columns.
static HEADERS: &[ResponseHeader] = &[
    header("request-id", "string", BOTH, RequestId, "The request id, also in the access log: `req_` and 16 hexadecimal digits."),
    header("x-request-id", "string", BOTH, RequestId, "The request id, also in the access log: `req_` and 16 hexadecimal digits."),
    header("x-amzn-requestid", "string", BOTH, RequestId, "The request id, also in the access log: `req_` and 16 hexadecimal digits."),
    header("x-seawall-rung", "string", ANSWER, AllFaces, "The rung that answered: how the answer was produced."),
    header("x-seawall-target", "string", ANSWER, AllFaces, "The target that answered."),
    header("x-seawall-attempts", "integer", BOTH, AllFaces, "Number of attempts on targets."),
    header("x-seawall-cost", "string", BOTH, AllFaces, "Cost in dollars, with nine decimal places; unknown if a model without a price was called. Absent for a stream, whose cost is known only at its end."),
    header("x-seawall-max-tokens", "integer", ANSWER, AllFaces, "The output limit that was added because the request has none and the model's maximum is unknown or would cost more than a tenth of a remaining budget."),
    header("x-seawall-overhead-ms", "number", ANSWER, AllFaces, "Latency added by the gateway before the answer began, in milliseconds."),
    header("x-seawall-level", "integer", ANSWER, AllFaces, "Degradation level: 0 is normal; at 4 no model is called. Always 0 in this version: `degradation` is not implemented."),
    header("ratelimit", "string", BOTH, AllFaces, "The limit with the least remaining, as a structured field: its name and `r`, the remaining amount. If a limit refused the request, that limit, with `t`, the seconds until it has room."),
    header("ratelimit-policy", "string", BOTH, AllFaces, "All limits of the caller's tier, or the limit of another scope that refused, as a structured field: name, `q`, the quota, and `w`, the window in seconds."),
    header("retry-after", "integer", ERROR, AllFaces, "When to retry, in seconds, rounded up."),
    header("retry-after-ms", "integer", ERROR, AllFaces, "When to retry, in milliseconds."),
    header("x-should-retry", "boolean", ERROR, AllFaces, "Whether a client library should retry automatically; if absent, its own rules apply."),
    header("x-amz-retry-after", "integer", ERROR, Bedrock, "When to retry, in milliseconds."),
    header("x-amzn-errortype", "string", ERROR, Bedrock, "The exception name."),
    header("x-amzn-bedrock-content-type", "string", ANSWER, Invoke, "Content type of the frames of a stream."),
    header("x-amzn-bedrock-input-token-count", "integer", ANSWER, Invoke, "Input tokens."),
    header("x-amzn-bedrock-output-token-count", "integer", ANSWER, Invoke, "Output tokens."),
    header("x-amzn-bedrock-cache-read-input-token-count", "integer", ANSWER, Invoke, "Input tokens read from the vendor's cache."),
    header("x-amzn-bedrock-cache-write-input-token-count", "integer", ANSWER, Invoke, "Input tokens written to the vendor's cache."),
    header("x-amzn-bedrock-invocation-latency", "integer", ANSWER, Invoke, "Duration of the call, in milliseconds."),
];

impl ResponseHeader {
    fn is_for(&self, face: Face) -> bool {
        match self.scope {
            AllFaces => true,
            RequestId => request_id_header(face).eq_ignore_ascii_case(self.name),
            Bedrock => face.dialect().is_some_and(|dialect| dialect.retry_after_header().is_some()),
            Invoke => face == Face::BEDROCK_INVOKE,
        }
    }
}

/// References to the headers of such a response.
pub(super) fn references(response: ResponseKind, face: Face) -> Value {
    let here = HEADERS.iter().filter(|header| header.on.contains(&response) && header.is_for(face));
    let headers: Map<String, Value> =
        here.map(|header| (header.name.to_owned(), reference("headers", header.name))).collect();
    headers.into()
}

/// The definitions of all headers.
pub(super) fn components() -> Value {
    let described = |header: &ResponseHeader| {
        let value = json!({ "description": header.description, "schema": { "type": header.kind } });
        (header.name.to_owned(), value)
    };
    HEADERS.iter().map(described).collect::<Map<String, Value>>().into()
}
