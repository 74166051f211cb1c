//! All response headers, and the responses they appear in. Content length, content type, date and connection headers
//! are left out.

use super::reference;
use seawall_pipeline::speech::{Face, request_id_header};
use seawall_wire::Dialect;
use serde_json::{Map, Value, json};

/// The kind of response that has a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Occasion {
    Answer,
    Refusal,
}

/// The faces that send a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Everybody,
    /// Faces whose request id is in this header.
    OfRequestId,
    OfBedrock,
    OfInvoke,
}

struct Header {
    name: &'static str,
    /// The JSON Schema type of the value.
    kind: &'static str,
    on: &'static [Occasion],
    whose: Whose,
    about: &'static str,
}

const BOTH: &[Occasion] = &[Occasion::Answer, Occasion::Refusal];
const ANSWER: &[Occasion] = &[Occasion::Answer];
const REFUSAL: &[Occasion] = &[Occasion::Refusal];

const fn header(
    name: &'static str,
    kind: &'static str,
    on: &'static [Occasion],
    whose: Whose,
    about: &'static str,
) -> Header {
    Header { name, kind, on, whose, about }
}

use Whose::{Everybody, OfBedrock, OfInvoke, OfRequestId};

#[rustfmt::skip] // A table is read by its columns.
static HEADERS: &[Header] = &[
    header("request-id", "string", BOTH, OfRequestId, "What the request is called in logs: `req_` and 16 hexadecimal digits."),
    header("x-request-id", "string", BOTH, OfRequestId, "What the request is called in logs: `req_` and 16 hexadecimal digits."),
    header("x-amzn-requestid", "string", BOTH, OfRequestId, "What the request is called in logs: `req_` and 16 hexadecimal digits."),
    header("x-seawall-rung", "string", ANSWER, Everybody, "Which way it was answered."),
    header("x-seawall-target", "string", ANSWER, Everybody, "Which target answered."),
    header("x-seawall-attempts", "integer", BOTH, Everybody, "Attempts made on targets."),
    header("x-seawall-cost", "string", BOTH, Everybody, "What it cost, in dollars with nine digits behind the point. Not with a stream, whose cost is not known at its head."),
    header("x-seawall-max-tokens", "integer", ANSWER, Everybody, "The limit of output that was added, because the request named none and the model's maximum is more than a tenth of what a budget has left, or not known."),
    header("x-seawall-overhead-ms", "number", ANSWER, Everybody, "What the gateway itself added before the answer began, in milliseconds."),
    header("x-seawall-level", "integer", ANSWER, Everybody, "How far the shop has stepped down: 0 is normal, 4 is no model for anybody."),
    header("ratelimit", "string", BOTH, Everybody, "The limit with the least left, as a structured field: its name, and `r`, what is left of it. With a refusal by a limit that limit, and `t`, in how many seconds it has room."),
    header("ratelimit-policy", "string", BOTH, Everybody, "All limits of the caller's tier, or the one of another scope that refused, as a structured field: their names, `q`, how many they let through, and `w`, in how many seconds."),
    header("retry-after", "integer", REFUSAL, Everybody, "When to come back, in seconds, rounded up."),
    header("retry-after-ms", "integer", REFUSAL, Everybody, "The same in milliseconds."),
    header("x-should-retry", "boolean", REFUSAL, Everybody, "Whether a client library should try again by itself; its own rules hold where this is missing."),
    header("x-amz-retry-after", "integer", REFUSAL, OfBedrock, "When to come back, in milliseconds."),
    header("x-amzn-errortype", "string", REFUSAL, OfBedrock, "The name of the error."),
    header("x-amzn-bedrock-content-type", "string", ANSWER, OfInvoke, "What the frames of a stream hold."),
    header("x-amzn-bedrock-input-token-count", "integer", ANSWER, OfInvoke, "Tokens that went in."),
    header("x-amzn-bedrock-output-token-count", "integer", ANSWER, OfInvoke, "Tokens that came out."),
    header("x-amzn-bedrock-cache-read-input-token-count", "integer", ANSWER, OfInvoke, "Tokens that were read from the vendor's cache."),
    header("x-amzn-bedrock-cache-write-input-token-count", "integer", ANSWER, OfInvoke, "Tokens that were written to the vendor's cache."),
    header("x-amzn-bedrock-invocation-latency", "integer", ANSWER, OfInvoke, "How long it took, in milliseconds."),
];

impl Header {
    fn is_for(&self, face: Face) -> bool {
        match self.whose {
            Everybody => true,
            OfRequestId => request_id_header(face).eq_ignore_ascii_case(self.name),
            OfBedrock => face.vendor() == Some(Dialect::Bedrock),
            OfInvoke => face == Face::BedrockInvoke,
        }
    }
}

/// References to the headers of such a response.
pub(super) fn of(occasion: Occasion, face: Face) -> Value {
    let here = HEADERS.iter().filter(|header| header.on.contains(&occasion) && header.is_for(face));
    let headers: Map<String, Value> =
        here.map(|header| (header.name.to_owned(), reference("headers", header.name))).collect();
    headers.into()
}

/// The definitions of all headers.
pub(super) fn components() -> Value {
    let described = |header: &Header| {
        let value = json!({ "description": header.about, "schema": { "type": header.kind } });
        (header.name.to_owned(), value)
    };
    HEADERS.iter().map(described).collect::<Map<String, Value>>().into()
}
