//! A request, read as far as decisions need it.

use crate::fields::{Fields, each};
use crate::request::{READ_BEFORE, RequestLimits, check_text, read_max_output, read_model, span_of, spliced};
use crate::request_error::RequestError;
use bytes::Bytes;
use seawall_core::vocabulary::OutputLimitField;
use serde_json::value::RawValue;
use std::ops::Range;

/// The vendor gives no more answers to one request.
const MOST_CHOICES: u32 = 128;

/// What decisions need of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHead {
    /// The model that is asked for.
    pub model: String,
    /// The most tokens that the answer may have, the smaller of two limits; this dialect demands none.
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
    /// How the caller limits output.
    limit: OutputLimit,
}

/// How a body limits output.
#[derive(Clone, Debug, PartialEq, Eq)]
enum OutputLimit {
    /// In one field, as the caller wrote it.
    Once,
    /// In both fields. Which of the two a server goes by is its own business, so that only one may go out.
    Twice,
    /// Nowhere.
    Nowhere {
        /// Where a field can be put.
        at: usize,
        /// Where the nulls lie, by [`OutputLimitField::index`].
        nulls: [Option<Range<usize>>; 2],
    },
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
    let limit = match limits_of_output(&fields).count() {
        0 => nowhere(&fields, text),
        1 => OutputLimit::Once,
        _ => OutputLimit::Twice,
    };
    Ok(RequestHead {
        model: read_model(model)?,
        max_output,
        choices: read_choices(&fields)?,
        stream,
        include_usage: stream && include_usage,
        turns,
        model_span: span_of(model.get(), text),
        ask_for_usage: ask_for_usage.filter(|_| stream),
        limit,
    })
}

fn read_choices(fields: &Fields<'_>) -> Result<u32, RequestError> {
    let Some(raw) = fields.get("n") else { return Ok(1) };
    let number = raw.get().parse().ok().filter(|number| (1..=MOST_CHOICES).contains(number));
    number.ok_or_else(|| RequestError::wrong("n", "must be a whole number from 1 to 128"))
}

fn nowhere(fields: &Fields<'_>, text: &str) -> OutputLimit {
    let null = |field: OutputLimitField| fields.get_any(field.name()).map(|null| span_of(null.get(), text));
    OutputLimit::Nowhere { at: behind_brace(text), nulls: OutputLimitField::ALL.map(null) }
}

/// Behind the brace that opens the body. It has fields, so a comma is right behind what is put there.
fn behind_brace(text: &str) -> usize {
    text.find('{').map_or(0, |brace| brace + 1)
}

fn limits_of_output<'a>(fields: &Fields<'a>) -> impl Iterator<Item = (&'static str, &'a RawValue)> {
    OutputLimitField::ALL.into_iter().filter_map(|field| Some((field.name(), fields.get(field.name())?)))
}

/// The limit of output: of two, the smaller one.
pub(super) fn max_output(fields: &Fields<'_>) -> Result<Option<u32>, RequestError> {
    let mut smallest = None;
    for (name, raw) in limits_of_output(fields) {
        let limit = read_max_output(name, raw)?;
        smallest = Some(smallest.map_or(limit, |other: u32| other.min(limit)));
    }
    Ok(smallest)
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

/// The same, with exactly one limit of output: the caller's own where it wrote one, and otherwise this limit in this field.
/// A caller who wrote two is held to the smaller one, which is the one of `head`.
///
/// ```
/// use bytes::Bytes;
/// use seawall_core::vocabulary::OutputLimitField::MaxTokens;
/// use seawall_wire::RequestLimits;
/// use seawall_wire::openai::{for_upstream_within, read_request};
///
/// let body = Bytes::from(r#"{"model":"a","messages":[{"role":"user","content":"hi"}]}"#);
/// let head = read_request(&body, &RequestLimits::default())?;
/// assert_eq!(
///     for_upstream_within(&body, &head, "a", 9, MaxTokens)?,
///     r#"{"max_tokens":9,"model":"a","messages":[{"role":"user","content":"hi"}]}"#
/// );
/// # Ok::<(), seawall_wire::RequestError>(())
/// ```
pub fn for_upstream_within(
    body: &Bytes,
    head: &RequestHead,
    model: &str,
    max_output: u32,
    field: OutputLimitField,
) -> Result<Bytes, RequestError> {
    let limit = match &head.limit {
        OutputLimit::Once => return Ok(for_upstream(body, head, model)),
        OutputLimit::Twice => {
            let limited = limited_once(body, head.max_output.unwrap_or(max_output), field)?;
            let head = read_request(&limited, &READ_BEFORE)?;
            return Ok(for_upstream(&limited, &head, model));
        }
        OutputLimit::Nowhere { at, nulls } => match &nulls[field.index()] {
            Some(null) => (null.clone(), max_output.to_string()),
            None => (*at..*at, format!("\"{field}\":{max_output},")),
        },
    };
    let usage = head.ask_for_usage.iter().map(|(place, text)| (place.clone(), (*text).to_owned()));
    Ok(changed(body, head, model, usage.chain([limit]).collect()))
}

/// The body with one limit in the place of two. Few callers write two, so that it is read a second time for them.
fn limited_once(body: &[u8], max_output: u32, field: OutputLimitField) -> Result<Bytes, RequestError> {
    let fields = Fields::read(body, &READ_BEFORE)?;
    let limited = fields.with(&[(field.name(), max_output.to_string())], &[field.other().name()]);
    Ok(limited.into())
}

fn changed(body: &Bytes, head: &RequestHead, model: &str, mut changes: Vec<(Range<usize>, String)>) -> Bytes {
    if head.model != model {
        changes.push((head.model_span.clone(), serde_json::Value::from(model).to_string()));
    }
    changes.sort_by_key(|(place, _)| place.start);
    let changes: Vec<_> = changes.iter().map(|(place, text)| (place.clone(), text.as_str())).collect();
    spliced(body, &changes)
}
