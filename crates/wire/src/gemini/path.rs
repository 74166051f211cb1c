//! The vendor's URL paths, which contain the model name.

use crate::bedrock::decode_path;
use crate::request_error::RequestError;

/// Maximum length of a model name, which also becomes a metric label and appears in logs.
const MAX_MODEL_LENGTH: usize = 256;
/// The API version that the vendor's client libraries use by default.
pub const DEFAULT_VERSION: &str = "/v1beta";
const PREFIXES: [&str; 2] = ["/v1beta/models/", "/v1/models/"];
const WHOLE: &str = "generateContent";
const STREAMED: &str = "streamGenerateContent";
const COUNT: &str = "countTokens";
const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// A parsed path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeminiCall {
    /// The requested model.
    pub model: String,
    /// Whether the caller requested a streamed answer.
    pub stream: bool,
}

/// Reads a path, without its query. `None` if it is not the path of a call that this dialect supports.
///
/// The operation is split off before the path is decoded, so that an encoded colon stays inside the model name; and the
/// path is decoded once, so that double encoding cannot hide anything.
///
/// ```
/// use seawall_wire::gemini::read_path;
///
/// let call = read_path("/v1beta/models/gemini-3.8-flash:streamGenerateContent").unwrap()?;
/// assert_eq!((call.model.as_str(), call.stream), ("gemini-3.8-flash", true));
/// assert!(read_path("/v1/models/gpt-6").is_none());
/// # Ok::<(), seawall_wire::RequestError>(())
/// ```
#[must_use]
pub fn read_path(path: &str) -> Option<Result<GeminiCall, RequestError>> {
    let (model, operation) = split_path(path)?;
    let stream = match operation {
        WHOLE => false,
        STREAMED => true,
        _ => return None,
    };
    Some(read_model(model).map(|model| GeminiCall { model, stream }))
}

/// Reads the path of a request to count tokens, and returns the model. `None` if it is another path.
///
/// ```
/// use seawall_wire::gemini::read_count_path;
///
/// assert_eq!(read_count_path("/v1beta/models/m:countTokens").unwrap()?, "m");
/// assert!(read_count_path("/v1beta/models/m:generateContent").is_none());
/// # Ok::<(), seawall_wire::RequestError>(())
/// ```
#[must_use]
pub fn read_count_path(path: &str) -> Option<Result<String, RequestError>> {
    split_path(path).filter(|(_, operation)| *operation == COUNT).map(|(model, _)| read_model(model))
}

/// Whether clients of this dialect use such a path, whatever the operation.
#[must_use]
pub fn is_vendor_path(path: &str) -> bool {
    path.starts_with("/v1beta/") || split_path(path).is_some()
}

/// The encoded model and the operation.
fn split_path(path: &str) -> Option<(&str, &str)> {
    PREFIXES.iter().find_map(|prefix| path.strip_prefix(prefix))?.rsplit_once(':')
}

/// Whether the query of a streamed call requests server-sent events. Without `alt=sse`, the vendor streams one long
/// JSON array instead, which this dialect does not support.
#[must_use]
pub fn requests_sse(query: &str) -> bool {
    let mut values =
        query.split('&').filter_map(|pair| pair.strip_prefix("alt=").or(pair.strip_prefix("$alt=")));
    values.next_back().is_some_and(|value| value.eq_ignore_ascii_case("sse"))
}

/// The path and query of a call below an API version, such as `/v1beta`, or below a publisher on Vertex AI. The model
/// may be given with or without the prefix `models/`.
///
/// ```
/// use seawall_wire::gemini::path_for;
///
/// assert_eq!(path_for("gemini-3.8-flash", false), "/models/gemini-3.8-flash:generateContent");
/// assert_eq!(path_for("a/b", true), "/models/a%2Fb:streamGenerateContent?alt=sse");
/// ```
#[must_use]
pub fn path_for(model: &str, stream: bool) -> String {
    let mut path = model_path("", model, stream);
    if stream {
        path.push_str("?alt=sse");
    }
    path
}

/// The path of a call at the vendor's own host, without the query.
pub(super) fn url_path(model: &str, stream: bool) -> String {
    model_path(DEFAULT_VERSION, model, stream)
}

fn model_path(version: &str, model: &str, stream: bool) -> String {
    let model = model.strip_prefix("models/").unwrap_or(model);
    let mut path = String::with_capacity(model.len() + 64);
    path.push_str(version);
    path.push_str("/models/");
    for byte in model.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            path.push(char::from(byte));
        } else {
            path.push('%');
            path.push(char::from(HEX[usize::from(byte >> 4)]));
            path.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
    path.push(':');
    path.push_str(if stream { STREAMED } else { WHOLE });
    path
}

fn read_model(encoded: &str) -> Result<String, RequestError> {
    let invalid = |problem| RequestError::invalid("model", problem);
    if encoded.len() > 3 * MAX_MODEL_LENGTH {
        return Err(invalid("String should have at most 256 bytes"));
    }
    let model = decode_path(encoded).ok_or_else(|| invalid("Invalid percent-encoding"))?;
    let model = String::from_utf8(model).map_err(|_| invalid("Input should be valid UTF-8"))?;
    if model.is_empty() {
        return Err(invalid("String should have at least 1 character"));
    }
    if model.len() > MAX_MODEL_LENGTH {
        return Err(invalid("String should have at most 256 bytes"));
    }
    if model.contains(char::is_control) {
        return Err(invalid("String should not contain control characters"));
    }
    if model.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err(invalid("Path segments should not be empty, . or .."));
    }
    Ok(model)
}
