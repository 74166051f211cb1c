//! Reads the fields of a request that decisions need.

use super::turns::count_turns;
use crate::request::{
    CowStr, RequestLimits, check_text, find_duplicate, read_max_output_or_zero, read_model, read_stream,
    span_of, splice,
};
use crate::request_error::RequestError;
use crate::thinking::is_enabled;
use bytes::Bytes;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::error::Category;
use serde_json::value::RawValue;
use std::fmt;
use std::ops::Range;

/// The fields of a request that decisions need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessagesHead {
    /// The requested model.
    pub model: String,
    /// The maximum number of output tokens; 0 only writes the prompt to the vendor's cache and generates no answer.
    pub max_output: u32,
    /// Whether the caller requested a streamed answer.
    pub stream: bool,
    /// The number of turns.
    pub turns: usize,
    /// Whether the request enables thinking, which is billed but not always shown.
    pub enables_thinking: bool,
    /// The range of the model name in the body, quotes included.
    pub model_span: Range<usize>,
}

/// Reads a request. The whole body is checked to be JSON; fields that are not needed are not parsed.
///
/// ```
/// use seawall_wire::RequestLimits;
/// use seawall_wire::anthropic::read_request;
///
/// let body = br#"{"model":"haiku","max_tokens":50,"messages":[{"role":"user","content":"hi"}]}"#;
/// let head = read_request(body, &RequestLimits::default())?;
/// assert_eq!((head.model.as_str(), head.max_output, head.stream, head.turns), ("haiku", 50, false, 1));
///
/// let error = read_request(br#"{"model":"haiku"}"#, &RequestLimits::default()).unwrap_err();
/// assert_eq!(error.to_string(), "max_tokens: Field required");
/// # Ok::<(), seawall_wire::RequestError>(())
/// ```
pub fn read_request(body: &[u8], limits: &RequestLimits) -> Result<MessagesHead, RequestError> {
    let text = check_text(body, limits)?;
    let fields = Fields::read(text, limits.max_fields)?;
    if fields.names.len() > limits.max_fields {
        return Err(RequestError::TooManyFields { limit: limits.max_fields });
    }
    if let Some(CowStr(name)) = find_duplicate(&fields.names) {
        return Err(RequestError::Duplicate { field: name.to_string() });
    }
    let model = fields.model.ok_or_else(|| RequestError::missing("model"))?;
    let max_tokens = fields.max_tokens.ok_or_else(|| RequestError::missing("max_tokens"))?;
    let messages = fields.messages.ok_or_else(|| RequestError::missing("messages"))?;
    Ok(MessagesHead {
        model: read_model(model)?,
        max_output: read_max_output_or_zero("max_tokens", max_tokens)?,
        stream: fields.stream.map_or(Ok(false), read_stream)?,
        turns: count_turns(messages)?,
        enables_thinking: fields.thinking.is_some_and(is_enabled),
        model_span: span_of(model.get(), text),
    })
}

/// Replaces the model name in the body. Nothing else changes, and the body is returned as it is if it already names
/// that model. `head` must have been read from this body.
#[must_use]
pub fn with_model(body: &Bytes, head: &MessagesHead, model: &str) -> Bytes {
    if head.model == model {
        return body.clone();
    }
    let name = serde_json::Value::from(model).to_string();
    splice(body, &[(head.model_span.clone(), &name)])
}

/// The top-level fields of the body.
#[derive(Default)]
struct Fields<'a> {
    names: Vec<CowStr<'a>>,
    model: Option<&'a RawValue>,
    max_tokens: Option<&'a RawValue>,
    messages: Option<&'a RawValue>,
    stream: Option<&'a RawValue>,
    thinking: Option<&'a RawValue>,
}

impl<'a> Fields<'a> {
    fn read(text: &'a str, max: usize) -> Result<Self, RequestError> {
        let mut json = serde_json::Deserializer::from_str(text);
        let fields = json.deserialize_map(FieldsVisitor { max });
        fields.and_then(|fields| json.end().map(|()| fields)).map_err(|error| match error.classify() {
            Category::Data => RequestError::NotAnObject,
            Category::Io | Category::Syntax | Category::Eof => RequestError::not_json(error.to_string()),
        })
    }
}

struct FieldsVisitor {
    /// Maximum number of fields; the name of one more is kept to detect the excess.
    max: usize,
}

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Fields::default();
        while let Some(name) = map.next_key::<CowStr<'de>>()? {
            let slot = match &*name.0 {
                "model" => Some(&mut fields.model),
                "max_tokens" => Some(&mut fields.max_tokens),
                "messages" => Some(&mut fields.messages),
                "stream" => Some(&mut fields.stream),
                "thinking" => Some(&mut fields.thinking),
                _ => None,
            };
            match slot {
                Some(slot) => *slot = Some(map.next_value()?),
                None => drop(map.next_value::<IgnoredAny>()?),
            }
            if fields.names.len() <= self.max {
                fields.names.push(name);
            }
        }
        Ok(fields)
    }
}
