//! A request, read as far as decisions need it.

use super::depth::nests_deeper_than;
use super::request_error::RequestError;
use super::turns::count_turns;
use bytes::{BufMut, Bytes, BytesMut};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::error::Category;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;
use std::ops::{Range, RangeInclusive};

/// The longest name of a model; it also becomes a label and a line of a log.
const LONGEST_MODEL: usize = 256;
const MAX_OUTPUT: RangeInclusive<u32> = 1..=1 << 31;

/// What a request may cost before it is understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    /// The largest body.
    pub body: usize,
    /// How deep objects and lists may nest.
    pub depth: usize,
    /// How many fields the body may have at its top.
    pub fields: usize,
}

impl Default for RequestLimits {
    /// 32 MiB as at the vendor; 64 levels, half of what JSON readers usually bear; 64 fields, twice as many as
    /// exist.
    fn default() -> Self {
        Self { body: 32 << 20, depth: 64, fields: 64 }
    }
}

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
/// use seawall_wire::anthropic::{RequestLimits, read_request};
///
/// let body = br#"{"model":"haiku","max_tokens":50,"messages":[{"role":"user","content":"hi"}]}"#;
/// let head = read_request(body, &RequestLimits::default())?;
/// assert_eq!((head.model.as_str(), head.max_output, head.stream, head.turns), ("haiku", 50, false, 1));
///
/// let error = read_request(br#"{"model":"haiku"}"#, &RequestLimits::default()).unwrap_err();
/// assert_eq!(error.to_string(), "max_tokens: is missing");
/// # Ok::<(), seawall_wire::anthropic::RequestError>(())
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
        max_output: read_max_output(max_tokens)?,
        stream: fields.stream.map_or(Ok(false), read_stream)?,
        turns: count_turns(messages)?,
        model_span: span_of(model.get(), text),
    })
}

/// The request for another model. Nothing else in the body changes, and nothing at all when it already asks for
/// that model. `head` must be the head of this body.
#[must_use]
pub fn with_model(body: &Bytes, head: &RequestHead, model: &str) -> Bytes {
    let Range { start, end } = head.model_span;
    let (Some(before), Some(after)) = (body.get(..start), body.get(end..)) else { return body.clone() };
    if head.model == model {
        return body.clone();
    }
    let name = serde_json::Value::from(model).to_string();
    let mut changed = BytesMut::with_capacity(before.len() + name.len() + after.len());
    changed.put_slice(before);
    changed.put_slice(name.as_bytes());
    changed.put_slice(after);
    changed.freeze()
}

fn check_text<'a>(body: &'a [u8], limits: &RequestLimits) -> Result<&'a str, RequestError> {
    if body.len() > limits.body {
        return Err(RequestError::TooLarge { size: body.len(), limit: limits.body });
    }
    let text = str::from_utf8(body).map_err(|error| RequestError::NotUtf8 { at: error.valid_up_to() })?;
    if text.starts_with('\u{FEFF}') {
        return Err(RequestError::not_json("it begins with a byte order mark"));
    }
    if nests_deeper_than(limits.depth, body) {
        return Err(RequestError::TooDeep { limit: limits.depth });
    }
    Ok(text)
}

fn read_model(raw: &RawValue) -> Result<String, RequestError> {
    let wrong = |problem| RequestError::wrong("model", problem);
    let model: String = serde_json::from_str(raw.get()).map_err(|_| wrong("must be a string"))?;
    if model.is_empty() {
        return Err(wrong("must not be empty"));
    }
    if model.len() > LONGEST_MODEL {
        return Err(wrong("must not be longer than 256 bytes"));
    }
    Ok(model)
}

fn read_max_output(raw: &RawValue) -> Result<u32, RequestError> {
    let problem = "must be a whole number from 1 to 2147483648";
    let number = raw.get().parse().ok().filter(|number| MAX_OUTPUT.contains(number));
    number.ok_or_else(|| RequestError::wrong("max_tokens", problem))
}

fn read_stream(raw: &RawValue) -> Result<bool, RequestError> {
    match raw.get() {
        "true" => Ok(true),
        // Clients write a field that was not set as null.
        "false" | "null" => Ok(false),
        _ => Err(RequestError::wrong("stream", "must be true or false")),
    }
}

/// Where `part`, which was cut out of `whole`, lies in it.
fn span_of(part: &str, whole: &str) -> Range<usize> {
    let start = part.as_ptr().addr().saturating_sub(whole.as_ptr().addr());
    start..start + part.len()
}

/// The first name that is there a second time.
fn repeated<'n, 'a>(names: &'n [Name<'a>]) -> Option<&'n Name<'a>> {
    // Few enough to compare each with each.
    names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)).map(|(_, name)| name)
}

/// The name of a field; a slice of the body unless it is written with escapes.
#[derive(Deserialize, PartialEq)]
pub(super) struct Name<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

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
