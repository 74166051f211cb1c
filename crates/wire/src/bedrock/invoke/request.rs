//! Reads the fields of a request that decisions need, and converts between this format and Anthropic Messages.

use super::opaque::OpaqueHead;
use crate::bedrock::body::{invalid, missing, read_object};
use crate::fields::JsonFields;
use crate::request::{CowStr, read_max_output_or_zero};
use crate::thinking::enables_thinking;
use crate::{RequestError, RequestLimits};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The only version that the service accepts.
const VERSION: &str = "bedrock-2023-05-31";

/// The fields of a request that decisions need; the model and the stream flag are in the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvokeHead {
    /// The maximum number of output tokens.
    pub max_output: u32,
    /// The number of turns.
    pub turns: usize,
    /// The beta features that the caller requests. Anthropic's own API takes them in a header.
    pub betas: Vec<String>,
    /// Whether the request enables thinking, which is billed but not always shown.
    pub enables_thinking: bool,
}

/// Reads a request. The whole body is checked to be JSON; fields that are not needed are not parsed. The version is
/// left to the vendor to check, because clients send different ones.
///
/// ```
/// use seawall_wire::RequestLimits;
/// use seawall_wire::bedrock::read_invoke_request;
///
/// let body = br#"{"anthropic_version":"bedrock-2023-05-31","max_tokens":50,"messages":[{"role":"user","content":"hi"}]}"#;
/// let head = read_invoke_request(body, &RequestLimits::default())?;
/// assert_eq!((head.max_output, head.turns), (50, 1));
/// # Ok::<(), seawall_wire::RequestError>(())
/// ```
pub fn read_invoke_request(body: &[u8], limits: &RequestLimits) -> Result<InvokeHead, RequestError> {
    read_anthropic(&JsonFields::read(body, limits)?)
}

/// A body of InvokeModel, by the vendor of its model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvokeBody {
    /// A body for Anthropic's models, recognised by `anthropic_version`.
    Anthropic(InvokeHead),
    /// A body for another vendor's model; its content is not interpreted.
    Opaque(OpaqueHead),
}

/// Reads the fields that decisions need, for a model of any vendor.
pub fn read_invoke_body(body: &[u8], limits: &RequestLimits) -> Result<InvokeBody, RequestError> {
    let fields = JsonFields::read(body, limits)?;
    if fields.has("anthropic_version") {
        return read_anthropic(&fields).map(InvokeBody::Anthropic);
    }
    OpaqueHead::of(&fields).map(InvokeBody::Opaque)
}

/// The error for a target that is not called by InvokeModel when the body is in another vendor's format.
#[must_use]
pub fn opaque_unsupported() -> RequestError {
    invalid(
        "anthropic_version",
        "Field required: request bodies of other vendors' models are supported only by targets at Bedrock",
    )
}

fn read_anthropic(fields: &JsonFields<'_>) -> Result<InvokeHead, RequestError> {
    let max_tokens = fields.get("max_tokens").ok_or_else(|| missing("max_tokens"))?;
    let max_output = read_max_output_or_zero("max_tokens", max_tokens)?;
    let turns = count_turns(fields.get("messages").ok_or_else(|| missing("messages"))?)?;
    let betas = fields.get("anthropic_beta").map_or(Ok(Vec::new()), |betas| {
        serde_json::from_str(betas.get())
            .map_err(|_| invalid("anthropic_beta", "Input should be a list of strings"))
    })?;
    Ok(InvokeHead { max_output, turns, betas, enables_thinking: enables_thinking(fields) })
}

/// Converts the request to Anthropic Messages. Values are unchanged. The names of beta features are removed; they are
/// in the head, for the header.
pub fn invoke_to_messages(
    body: &[u8],
    limits: &RequestLimits,
    model: &str,
    stream: bool,
) -> Result<String, RequestError> {
    let mut added = vec![("model", serde_json::Value::from(model).to_string())];
    if stream {
        added.push(("stream", "true".to_owned()));
    }
    Ok(JsonFields::read(body, limits)?.with(&added, &["anthropic_version", "anthropic_beta", "stream"]))
}

/// Converts an Anthropic Messages request to InvokeModel. Values are unchanged. `betas` are the names of beta features
/// from the caller's header.
pub fn messages_to_invoke(
    body: &[u8],
    limits: &RequestLimits,
    betas: &[&str],
) -> Result<String, RequestError> {
    let mut added = vec![("anthropic_version", serde_json::Value::from(VERSION).to_string())];
    if !betas.is_empty() {
        added.push(("anthropic_beta", serde_json::Value::from(betas).to_string()));
    }
    Ok(JsonFields::read(body, limits)?.with(&added, &["model", "stream"]))
}

#[derive(Deserialize)]
struct TurnFields<'a> {
    #[serde(borrow)]
    role: Option<CowStr<'a>>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

/// Counts the turns. Returns an error that names the first invalid turn.
fn count_turns(messages: &RawValue) -> Result<usize, RequestError> {
    let turns: Vec<&RawValue> = serde_json::from_str(messages.get())
        .map_err(|_| invalid("messages", "Input should be a valid list"))?;
    if turns.is_empty() {
        return Err(invalid("messages", "at least one message is required"));
    }
    for (at, turn) in turns.iter().enumerate() {
        let path = |field: &str| format!("messages.{at}.{field}");
        let turn: TurnFields<'_> = read_object(turn).ok_or_else(|| {
            invalid(format!("messages.{at}"), "Input should be an object with role and content")
        })?;
        let CowStr(role) = turn.role.ok_or_else(|| missing(path("role")))?;
        // The vendor decides which roles exist.
        if role.is_empty() {
            return Err(invalid(path("role"), "Input should be a non-empty string"));
        }
        let content = turn.content.ok_or_else(|| missing(path("content")))?;
        if !content.get().starts_with(['"', '[']) {
            return Err(invalid(
                path("content"),
                "Input should be a valid string or a list of content blocks",
            ));
        }
    }
    Ok(turns.len())
}
