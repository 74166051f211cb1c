//! The CountTokens operation.

use super::body::{invalid, missing, read_object};
use super::converse::read_chat_request;
use super::error_response::json;
use super::path::BedrockCall;
use crate::chat::ChatRequest;
use crate::fields::JsonFields;
use crate::{RequestError, RequestLimits};
use base64_simd::STANDARD as BASE64;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The request whose tokens are to be counted.
#[expect(
    clippy::large_enum_variant,
    reason = "it is read once per request for a count and taken apart at once"
)]
#[derive(Clone, Debug, PartialEq)]
pub enum CountRequest {
    /// The body of an InvokeModel request, not parsed.
    Invoke(Vec<u8>),
    /// A parsed Converse request.
    Converse(ChatRequest),
}

/// Parses the request to count.
pub fn read_count_request(
    call: &BedrockCall,
    body: &[u8],
    limits: &RequestLimits,
) -> Result<CountRequest, RequestError> {
    match read_count_input(body, limits)? {
        CountInput::Invoke(body) => Ok(CountRequest::Invoke(body)),
        CountInput::Converse(body) => {
            read_chat_request(call, body.as_bytes(), limits).map(CountRequest::Converse)
        }
    }
}

/// The request whose tokens are to be counted, not parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CountInput<'a> {
    /// The body of an InvokeModel request.
    Invoke(Vec<u8>),
    /// The body of a Converse request.
    Converse(&'a str),
}

/// Extracts the request to count without parsing it.
pub fn read_count_input<'a>(body: &'a [u8], limits: &RequestLimits) -> Result<CountInput<'a>, RequestError> {
    let fields = JsonFields::read(body, limits)?;
    let raw = fields.get("input").ok_or_else(|| missing("input"))?;
    let problem = "Input should contain invokeModel with a body, or converse";
    let input: Option<InputFields<'_>> = read_object(raw);
    match input {
        Some(InputFields { invoke_model: Some(invoke), .. }) => BASE64
            .decode_to_vec(invoke.body)
            .map(CountInput::Invoke)
            .map_err(|_| invalid("input.invokeModel.body", "Input should be valid base64")),
        Some(InputFields { converse: Some(converse), .. }) => Ok(CountInput::Converse(converse.get())),
        _ => Err(invalid("input", problem)),
    }
}

/// Writes the body of the response.
#[must_use]
pub fn write_count(input: u64) -> Bytes {
    json(&Count { input_tokens: input })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InputFields<'a> {
    invoke_model: Option<InvokeFields>,
    #[serde(borrow)]
    converse: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct InvokeFields {
    body: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Count {
    input_tokens: u64,
}
