//! The vendor's URL paths, which contain the model name.

use crate::bedrock::decode_path;
use crate::request_error::RequestError;

/// Maximum length of a model name, which also becomes a metric label and appears in logs.
const MAX_MODEL_LENGTH: usize = 256;
const PREFIXES: [&str; 2] = ["/v1beta/models/", "/v1/models/"];
const WHOLE: &str = "generateContent";
const STREAMED: &str = "streamGenerateContent";
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
    let rest = PREFIXES.iter().find_map(|prefix| path.strip_prefix(prefix))?;
    let (model, operation) = rest.rsplit_once(':')?;
    let stream = match operation {
        WHOLE => false,
        STREAMED => true,
        _ => return None,
    };
    Some(read_model(model).map(|model| GeminiCall { model, stream }))
}

/// Whether the query of a streamed call requests server-sent events. Without `alt=sse`, the vendor streams one long
/// JSON array instead, which this dialect does not support.
#[must_use]
pub fn requests_sse(query: &str) -> bool {
    let mut values =
        query.split('&').filter_map(|pair| pair.strip_prefix("alt=").or(pair.strip_prefix("$alt=")));
    values.next_back().is_some_and(|value| value.eq_ignore_ascii_case("sse"))
}

/// The path and query of a call, to be appended to the vendor's base address. The model may be given with or without
/// the prefix `models/`.
///
/// ```
/// use seawall_wire::gemini::path_for;
///
/// assert_eq!(path_for("gemini-3.8-flash", false), "/v1beta/models/gemini-3.8-flash:generateContent");
/// assert_eq!(path_for("a/b", true), "/v1beta/models/a%2Fb:streamGenerateContent?alt=sse");
/// ```
#[must_use]
pub fn path_for(model: &str, stream: bool) -> String {
    let model = model.strip_prefix("models/").unwrap_or(model);
    let mut path = String::with_capacity(model.len() + 64);
    path.push_str(PREFIXES[0]);
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
    if stream {
        path.push_str("?alt=sse");
    }
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
