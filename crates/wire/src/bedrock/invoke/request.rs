//! A request, read as far as decisions need it, and moved between Anthropic's dialect and this one.

use crate::bedrock::body::{missing, read_object, wrong};
use crate::fields::Fields;
use crate::request::Name;
use crate::{RequestError, RequestLimits};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::ops::RangeInclusive;

/// The only version that the service knows.
const VERSION: &str = "bedrock-2023-05-31";
const MAX_OUTPUT: RangeInclusive<u32> = 1..=1 << 31;

/// What decisions need of a request; the model and whether it is a stream stand in the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvokeHead {
    /// The most tokens that the answer may have.
    pub max_output: u32,
    /// How many turns the conversation has.
    pub turns: usize,
    /// Which features in trial the caller asks for. Anthropic takes them in a header.
    pub betas: Vec<String>,
}

/// Reads a request. The whole body is checked to be JSON; fields that are not needed are not looked into. Which
/// version it names is left to the vendor: clients name different ones.
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
    let fields = Fields::read(body, limits)?;
    let max_tokens = fields.get("max_tokens").ok_or_else(|| missing("max_tokens"))?;
    let max_output = max_tokens.get().parse().ok().filter(|number| MAX_OUTPUT.contains(number));
    let max_output =
        max_output.ok_or_else(|| wrong("max_tokens", "must be a whole number from 1 to 2147483648"))?;
    let turns = count_turns(fields.get("messages").ok_or_else(|| missing("messages"))?)?;
    let betas = fields.get("anthropic_beta").map_or(Ok(Vec::new()), |betas| {
        serde_json::from_str(betas.get()).map_err(|_| wrong("anthropic_beta", "must be a list of strings"))
    })?;
    Ok(InvokeHead { max_output, turns, betas })
}

/// The request as Anthropic Messages takes it. Values stay as they came. The names of features in trial are taken
/// out; they are in the head, for the header.
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
    Ok(Fields::read(body, limits)?.with(&added, &["anthropic_version", "anthropic_beta", "stream"]))
}

/// A request of Anthropic Messages as InvokeModel takes it. Values stay as they came. `betas` are the names of features
/// in trial that the caller gave in a header.
pub fn messages_to_invoke(
    body: &[u8],
    limits: &RequestLimits,
    betas: &[&str],
) -> Result<String, RequestError> {
    let mut added = vec![("anthropic_version", serde_json::Value::from(VERSION).to_string())];
    if !betas.is_empty() {
        added.push(("anthropic_beta", serde_json::Value::from(betas).to_string()));
    }
    Ok(Fields::read(body, limits)?.with(&added, &["model", "stream"]))
}

#[derive(Deserialize)]
struct TurnFields<'a> {
    #[serde(borrow)]
    role: Option<Name<'a>>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

/// Counts the turns, and refuses the first that is not one.
fn count_turns(messages: &RawValue) -> Result<usize, RequestError> {
    let turns: Vec<&RawValue> =
        serde_json::from_str(messages.get()).map_err(|_| wrong("messages", "must be a list"))?;
    if turns.is_empty() {
        return Err(wrong("messages", "must not be empty"));
    }
    for (at, turn) in turns.iter().enumerate() {
        let way = |field: &str| format!("messages.{at}.{field}");
        let turn: TurnFields<'_> = read_object(turn)
            .ok_or_else(|| wrong(format!("messages.{at}"), "must be an object with role and content"))?;
        let Name(role) = turn.role.ok_or_else(|| missing(way("role")))?;
        if !matches!(&*role, "user" | "assistant") {
            return Err(wrong(way("role"), "must be user or assistant"));
        }
        let content = turn.content.ok_or_else(|| missing(way("content")))?;
        if !content.get().starts_with(['"', '[']) {
            return Err(wrong(way("content"), "must be a string or a list of blocks"));
        }
    }
    Ok(turns.len())
}
