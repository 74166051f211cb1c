//! A request, read as far as decisions need it.

use crate::fields::{Fields, each};
use crate::request::{RequestLimits, check_text, read_max_output, read_model, span_of, spliced};
use crate::request_error::RequestError;
use bytes::Bytes;
use serde_json::value::RawValue;
use std::ops::Range;

/// The newer of the two names for the limit of output.
const LIMIT: &str = "max_completion_tokens";
/// The vendor gives no more answers to one request.
const MOST_CHOICES: u32 = 128;

/// What decisions need of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHead {
    /// The model that is asked for.
    pub model: String,
    /// The most tokens that the answer may have; this dialect demands no limit.
    pub max_output: Option<u32>,
    /// How many answers are wanted. The limit holds for each of them.
    pub choices: u32,
    /// Whether the answer is wanted as a stream.
    pub stream: bool,
    /// Whether the caller wants to be told the usage of a stream.
    pub include_usage: bool,
    /// How many messages the conversation has.
    pub turns: usize,
    /// Where the body holds the model's name, with its quotes.
    pub model_span: Range<usize>,
    /// What must be put where, so that the vendor tells the usage; nothing where it will anyway.
    ask_for_usage: Option<(Range<usize>, &'static str)>,
    /// Where a limit of output can be put; nothing where there is one.
    limit_place: Option<LimitPlace>,
}

/// Where a limit of output can be put.
#[derive(Clone, Debug, PartialEq, Eq)]
enum LimitPlace {
    /// As a field of its own.
    Field(usize),
    /// In the place of a null.
    Value(Range<usize>),
}

/// Reads a request. The whole body is checked to be JSON; fields that are not needed are not looked into.
///
/// ```
/// use seawall_wire::RequestLimits;
/// use seawall_wire::openai::read_request;
///
/// let body = br#"{"model":"gpt","stream":true,"messages":[{"role":"user","content":"hi"}]}"#;
/// let head = read_request(body, &RequestLimits::default())?;
/// assert_eq!((head.model.as_str(), head.max_output, head.stream, head.include_usage), ("gpt", None, true, false));
/// # Ok::<(), seawall_wire::RequestError>(())
/// ```
pub fn read_request(body: &[u8], limits: &RequestLimits) -> Result<RequestHead, RequestError> {
    let text = check_text(body, limits)?;
    let fields = Fields::of_body(text, limits)?;
    let model = fields.need("model")?;
    let stream = fields.boolean("stream")?;
    let (include_usage, ask_for_usage) = read_stream_options(&fields, text, limits)?;
    let messages = each(fields.need("messages")?, limits, |raw| check_message(raw, limits));
    let turns = messages.map_err(|error| error.within("messages"))?.len();
    if turns == 0 {
        return Err(RequestError::wrong("messages", "must not be empty"));
    }
    let max_output = max_output(&fields)?;
    Ok(RequestHead {
        model: read_model(model)?,
        max_output,
        choices: read_choices(&fields)?,
        stream,
        include_usage: stream && include_usage,
        turns,
        model_span: span_of(model.get(), text),
        ask_for_usage: ask_for_usage.filter(|_| stream),
        limit_place: if max_output.is_some() { None } else { Some(limit_place(&fields, text)) },
    })
}

fn read_choices(fields: &Fields<'_>) -> Result<u32, RequestError> {
    let Some(raw) = fields.get("n") else { return Ok(1) };
    let number = raw.get().parse().ok().filter(|number| (1..=MOST_CHOICES).contains(number));
    number.ok_or_else(|| RequestError::wrong("n", "must be a whole number from 1 to 128"))
}

fn limit_place(fields: &Fields<'_>, text: &str) -> LimitPlace {
    match fields.get_any(LIMIT) {
        Some(null) => LimitPlace::Value(span_of(null.get(), text)),
        None => LimitPlace::Field(behind_brace(text)),
    }
}

/// Behind the brace that opens the body. It has fields, so a comma is right behind what is put there.
fn behind_brace(text: &str) -> usize {
    text.find('{').map_or(0, |brace| brace + 1)
}

/// The limit of output. Of the two names for it the newer one counts.
pub(super) fn max_output(fields: &Fields<'_>) -> Result<Option<u32>, RequestError> {
    for name in [LIMIT, "max_tokens"] {
        if let Some(raw) = fields.get(name) {
            return read_max_output(name, raw).map(Some);
        }
    }
    Ok(None)
}

fn check_message(raw: &RawValue, limits: &RequestLimits) -> Result<(), RequestError> {
    let role = Fields::of_value(raw, limits)?.need_string("role")?;
    match role.as_str() {
        "system" | "developer" | "user" | "assistant" | "tool" | "function" => Ok(()),
        _ => Err(RequestError::wrong("role", "must be system, developer, user, assistant or tool")),
    }
}

type Change = (Range<usize>, &'static str);

/// Whether usage is asked for, and what to change so that it is.
fn read_stream_options(
    fields: &Fields<'_>,
    text: &str,
    limits: &RequestLimits,
) -> Result<(bool, Option<Change>), RequestError> {
    let Some(raw) = fields.get_any("stream_options") else {
        let at = behind_brace(text);
        return Ok((false, Some((at..at, r#""stream_options":{"include_usage":true},"#))));
    };
    let span = span_of(raw.get(), text);
    if raw.get() == "null" {
        return Ok((false, Some((span, r#"{"include_usage":true}"#))));
    }
    let read = || {
        let options = Fields::of_value(raw, limits)?;
        Ok((options.boolean("include_usage")?, options.get_any("include_usage"), options.is_empty()))
    };
    let (is_asked_for, given, is_empty) =
        read().map_err(|error: RequestError| error.within("stream_options"))?;
    let change = match given {
        _ if is_asked_for => return Ok((true, None)),
        Some(raw) => (span_of(raw.get(), text), "true"),
        None => {
            let added = if is_empty { r#""include_usage":true"# } else { r#""include_usage":true,"# };
            (span.start + 1..span.start + 1, added)
        }
    };
    Ok((false, Some(change)))
}

/// The request for another model. Nothing else in the body changes, and nothing at all when it already asks for that model.
/// `head` must be the head of this body.
#[must_use]
pub fn with_model(body: &Bytes, head: &RequestHead, model: &str) -> Bytes {
    if head.model == model {
        return body.clone();
    }
    let name = serde_json::Value::from(model).to_string();
    spliced(body, &[(head.model_span.clone(), &name)])
}

/// The request as a vendor gets it: for another model, and asking for the usage of a stream. Nothing else in the body
/// changes. `head` must be the head of this body.
///
/// ```
/// use bytes::Bytes;
/// use seawall_wire::RequestLimits;
/// use seawall_wire::openai::{for_upstream, read_request};
///
/// let body = Bytes::from(r#"{"model":"a","stream":true,"messages":[{"role":"user","content":"hi"}]}"#);
/// let head = read_request(&body, &RequestLimits::default())?;
/// assert_eq!(
///     for_upstream(&body, &head, "b"),
///     concat!(
///         r#"{"stream_options":{"include_usage":true},"#,
///         r#""model":"b","stream":true,"messages":[{"role":"user","content":"hi"}]}"#
///     )
/// );
/// # Ok::<(), seawall_wire::RequestError>(())
/// ```
#[must_use]
pub fn for_upstream(body: &Bytes, head: &RequestHead, model: &str) -> Bytes {
    let Some((place, text)) = &head.ask_for_usage else { return with_model(body, head, model) };
    changed(body, head, model, vec![(place.clone(), (*text).to_owned())])
}

/// The same, with a limit of output where the caller named none.
///
/// ```
/// use bytes::Bytes;
/// use seawall_wire::RequestLimits;
/// use seawall_wire::openai::{for_upstream_within, read_request};
///
/// let body = Bytes::from(r#"{"model":"a","messages":[{"role":"user","content":"hi"}]}"#);
/// let head = read_request(&body, &RequestLimits::default())?;
/// assert_eq!(
///     for_upstream_within(&body, &head, "a", 9),
///     r#"{"max_completion_tokens":9,"model":"a","messages":[{"role":"user","content":"hi"}]}"#
/// );
/// # Ok::<(), seawall_wire::RequestError>(())
/// ```
#[must_use]
pub fn for_upstream_within(body: &Bytes, head: &RequestHead, model: &str, max_output: u32) -> Bytes {
    let limit = match &head.limit_place {
        None => return for_upstream(body, head, model),
        Some(LimitPlace::Field(at)) => (*at..*at, format!("\"{LIMIT}\":{max_output},")),
        Some(LimitPlace::Value(null)) => (null.clone(), max_output.to_string()),
    };
    let usage = head.ask_for_usage.iter().map(|(place, text)| (place.clone(), (*text).to_owned()));
    changed(body, head, model, usage.chain([limit]).collect())
}

fn changed(body: &Bytes, head: &RequestHead, model: &str, mut changes: Vec<(Range<usize>, String)>) -> Bytes {
    if head.model != model {
        changes.push((head.model_span.clone(), serde_json::Value::from(model).to_string()));
    }
    changes.sort_by_key(|(place, _)| place.start);
    let changes: Vec<_> = changes.iter().map(|(place, text)| (place.clone(), text.as_str())).collect();
    spliced(body, &changes)
}
