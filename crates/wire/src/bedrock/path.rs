//! The service's URL paths, which contain the model name.

use super::StreamKind;
use crate::ApiErrorKind;
use crate::dialect::UrlParameters;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The service's maximum length of a model name.
const MAX_MODEL_LENGTH: usize = 2048;
/// The characters that AWS encodes in a path or a query: all but letters, digits and `-`, `.`, `_`, `~`.
pub const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// The characters that AWS encodes when it signs a path whose segments are encoded already.
pub const RESERVED_IN_PATH: &AsciiSet = &RESERVED.remove(b'/');

/// The operations of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BedrockOperation {
    /// InvokeModel: an answer in the model's own dialect.
    Invoke,
    /// InvokeModelWithResponseStream: the same, streamed.
    InvokeStream,
    /// Converse: an answer in the model-independent dialect.
    Converse,
    /// ConverseStream: the same, streamed.
    ConverseStream,
    /// CountTokens: the number of input tokens of a request.
    CountTokens,
}

impl BedrockOperation {
    /// Every operation, in a fixed order.
    pub const ALL: [Self; 5] =
        [Self::Invoke, Self::InvokeStream, Self::Converse, Self::ConverseStream, Self::CountTokens];

    /// The last segment of its path.
    #[must_use]
    pub const fn path_name(self) -> &'static str {
        match self {
            Self::Invoke => "invoke",
            Self::InvokeStream => "invoke-with-response-stream",
            Self::Converse => "converse",
            Self::ConverseStream => "converse-stream",
            Self::CountTokens => "count-tokens",
        }
    }

    /// Whether the answer is a stream.
    #[must_use]
    pub const fn is_stream(self) -> bool {
        matches!(self, Self::InvokeStream | Self::ConverseStream)
    }
}

/// A parsed path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BedrockCall {
    /// The requested operation.
    pub operation: BedrockOperation,
    /// The model id or its ARN.
    pub model: String,
}

/// A path that is not a valid call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// The path is none of the service's operations.
    #[error("Unknown path")]
    Unknown,
    /// The model name is invalid.
    #[error("model: {problem}")]
    Model {
        /// What the name must be.
        problem: &'static str,
    },
}

impl PathError {
    /// The kind of API error to return for it.
    #[must_use]
    pub const fn api_error_kind(&self) -> ApiErrorKind {
        match self {
            Self::Unknown => ApiErrorKind::UnknownPath,
            Self::Model { .. } => ApiErrorKind::Malformed,
        }
    }
}

/// Reads a path, without its query. It is split before it is decoded, so that an encoded slash stays inside the model
/// name; and it is decoded once, so that double encoding cannot hide anything.
///
/// ```
/// use seawall_wire::bedrock::{BedrockOperation, read_path};
///
/// let call = read_path("/model/anthropic.claude-3-haiku-20240307-v1%3A0/converse")?;
/// assert_eq!(call.operation, BedrockOperation::Converse);
/// assert_eq!(call.model, "anthropic.claude-3-haiku-20240307-v1:0");
/// # Ok::<(), seawall_wire::bedrock::PathError>(())
/// ```
pub fn read_path(path: &str) -> Result<BedrockCall, PathError> {
    let rest = path.strip_prefix("/model/").ok_or(PathError::Unknown)?;
    let (model, name) = rest.split_once('/').ok_or(PathError::Unknown)?;
    let operation = BedrockOperation::ALL.into_iter().find(|operation| operation.path_name() == name);
    let operation = operation.ok_or(PathError::Unknown)?;
    Ok(BedrockCall { operation, model: read_model(model)? })
}

/// The parameters in a path of this kind of operation; `None` for other paths. An unreadable path under `/model/`
/// belongs to InvokeModel.
pub(crate) fn route_call(path: &str, kind: StreamKind) -> Option<Result<UrlParameters, ApiErrorKind>> {
    if !path.starts_with("/model/") {
        return None;
    }
    let call = match read_path(path) {
        Ok(call) => call,
        Err(error) => return (kind == StreamKind::Invoke).then(|| Err(error.api_error_kind())),
    };
    let own = match call.operation {
        BedrockOperation::Invoke | BedrockOperation::InvokeStream => StreamKind::Invoke,
        BedrockOperation::Converse | BedrockOperation::ConverseStream => StreamKind::Converse,
        BedrockOperation::CountTokens => return None,
    };
    let stream = call.operation.is_stream();
    (own == kind).then_some(Ok(UrlParameters::new(call.model, stream)))
}

/// Writes the path of a call.
///
/// ```
/// use seawall_wire::bedrock::{BedrockOperation, write_path};
///
/// let path = write_path(BedrockOperation::Invoke, "arn:aws:bedrock:us-east-1:1:inference-profile/x");
/// assert_eq!(path, "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Ainference-profile%2Fx/invoke");
/// ```
#[must_use]
pub fn write_path(operation: BedrockOperation, model: &str) -> String {
    let mut path = String::with_capacity(model.len() + 40);
    path.push_str("/model/");
    path.extend(utf8_percent_encode(model, RESERVED));
    path.push('/');
    path.push_str(operation.path_name());
    path
}

fn read_model(encoded: &str) -> Result<String, PathError> {
    let invalid = |problem| PathError::Model { problem };
    if encoded.len() > 3 * MAX_MODEL_LENGTH {
        return Err(invalid("String should have at most 2048 bytes"));
    }
    let model = decode(encoded).ok_or_else(|| invalid("Invalid percent-encoding"))?;
    if model.is_empty() {
        return Err(invalid("String should have at least 1 character"));
    }
    if model.len() > MAX_MODEL_LENGTH {
        return Err(invalid("String should have at most 2048 bytes"));
    }
    if !model.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_-.:/".contains(byte)) {
        return Err(invalid("String should contain only letters, digits and _ - . : /"));
    }
    if model.split(|byte| *byte == b'/').any(|part| matches!(part, b"" | b"." | b"..")) {
        return Err(invalid("Path segments should not be empty, . or .."));
    }
    String::from_utf8(model).map_err(|_| invalid("Input should be valid UTF-8"))
}

/// Percent-decodes a path segment once; `None` if a percent sign is not followed by two hex digits. Written here because
/// the crate `percent-encoding` passes such a sign on, and a second reader of the path may then read another model.
#[must_use]
pub fn decode(encoded: &str) -> Option<Vec<u8>> {
    let mut bytes = encoded.bytes();
    let mut decoded = Vec::with_capacity(encoded.len());
    while let Some(byte) = bytes.next() {
        decoded.push(if byte == b'%' { hex(bytes.next()?)? << 4 | hex(bytes.next()?)? } else { byte });
    }
    Some(decoded)
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}
