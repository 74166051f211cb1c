//! Requests to count tokens, and their answers.

use crate::fields::JsonFields;
use crate::json_out::put_json;
use crate::request::{RequestLimits, check_text};
use crate::request_error::RequestError;
use bytes::{Bytes, BytesMut};
use serde::Serialize;

/// The part of a request to count tokens that is counted: the request under `generateContentRequest`, or the body
/// itself, which then has `contents`.
pub fn read_count_input<'a>(body: &'a [u8], limits: &RequestLimits) -> Result<&'a str, RequestError> {
    let text = check_text(body, limits)?;
    let fields = JsonFields::of_body(text, limits)?;
    let wrapped = fields.get("generateContentRequest").or_else(|| fields.get("generate_content_request"));
    match wrapped {
        Some(request) => {
            JsonFields::of_value(request, limits)?.need("contents")?;
            Ok(request.get())
        }
        None => fields.need("contents").map(|_| text),
    }
}

/// The answer to a request to count tokens.
///
/// ```
/// assert_eq!(seawall_wire::gemini::write_count(7), r#"{"totalTokens":7}"#);
/// ```
#[must_use]
pub fn write_count(tokens: u64) -> Bytes {
    let mut out = BytesMut::new();
    put_json(&mut out, &TokenCountOut { total_tokens: tokens });
    out.freeze()
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TokenCountOut {
    total_tokens: u64,
}
