//! A request, read as far as decisions need it.

use super::turns::count_turns;
use crate::request::{
    Name, RequestLimits, check_text, read_max_output, read_model, read_stream, repeated, span_of, spliced,
};
use crate::request_error::RequestError;
use bytes::Bytes;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::error::Category;
use serde_json::value::RawValue;
use std::fmt;
use std::ops::Range;

/// What decisions need of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHead {
    /// The model that is asked for.
    pub model: String,
    /// The most tokens that the answer may have.
    pub max_output: u32,
    /// Whether the answer is wanted as a stream.
    pub stream: bool,
    /// How many turns the conversation has.
    pub turns: usize,
    /// Where the body holds the model's name, with its quotes.
    pub model_span: Range<usize>,
}

/// Reads a request. The whole body is checked to be JSON; fields that are not needed are not looked into.
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
/// assert_eq!(error.to_string(), "max_tokens: is missing");
/// # Ok::<(), seawall_wire::RequestError>(())
/// ```
pub fn read_request(body: &[u8], limits: &RequestLimits) -> Result<RequestHead, RequestError> {
    let text = check_text(body, limits)?;
    let fields = Fields::read(text, limits.fields)?;
    if fields.names.len() > limits.fields {
        return Err(RequestError::TooManyFields { limit: limits.fields });
    }
    if let Some(Name(name)) = repeated(&fields.names) {
        return Err(RequestError::Duplicate { field: name.to_string() });
    }
    let model = fields.model.ok_or_else(|| RequestError::missing("model"))?;
    let max_tokens = fields.max_tokens.ok_or_else(|| RequestError::missing("max_tokens"))?;
    let messages = fields.messages.ok_or_else(|| RequestError::missing("messages"))?;
    Ok(RequestHead {
        model: read_model(model)?,
        max_output: read_max_output("max_tokens", max_tokens)?,
        stream: fields.stream.map_or(Ok(false), read_stream)?,
        turns: count_turns(messages)?,
        model_span: span_of(model.get(), text),
    })
}

/// The request for another model. Nothing else in the body changes, and nothing at all when it already asks for
/// that model. `head` must be the head of this body.
#[must_use]
pub fn with_model(body: &Bytes, head: &RequestHead, model: &str) -> Bytes {
    if head.model == model {
        return body.clone();
    }
    let name = serde_json::Value::from(model).to_string();
    spliced(body, &[(head.model_span.clone(), &name)])
}

/// The fields at the top of the body.
#[derive(Default)]
struct Fields<'a> {
    names: Vec<Name<'a>>,
    model: Option<&'a RawValue>,
    max_tokens: Option<&'a RawValue>,
    messages: Option<&'a RawValue>,
    stream: Option<&'a RawValue>,
}

impl<'a> Fields<'a> {
    fn read(text: &'a str, most: usize) -> Result<Self, RequestError> {
        let mut json = serde_json::Deserializer::from_str(text);
        let fields = json.deserialize_map(FieldsVisitor { most });
        fields.and_then(|fields| json.end().map(|()| fields)).map_err(|error| match error.classify() {
            Category::Data => RequestError::NotAnObject,
            Category::Io | Category::Syntax | Category::Eof => RequestError::not_json(error.to_string()),
        })
    }
}

struct FieldsVisitor {
    /// How many fields there may be; the name of one more is kept, to show that there are too many.
    most: usize,
}

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Fields::default();
        while let Some(name) = map.next_key::<Name<'de>>()? {
            let place = match &*name.0 {
                "model" => Some(&mut fields.model),
                "max_tokens" => Some(&mut fields.max_tokens),
                "messages" => Some(&mut fields.messages),
                "stream" => Some(&mut fields.stream),
                _ => None,
            };
            match place {
                Some(place) => *place = Some(map.next_value()?),
                None => drop(map.next_value::<IgnoredAny>()?),
            }
            if fields.names.len() <= self.most {
                fields.names.push(name);
            }
        }
        Ok(fields)
    }
}
