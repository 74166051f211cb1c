//! Reads the fields of a request that decisions need.

use crate::fields::{Fields, each};
use crate::request::{READ_BEFORE, RequestLimits, check_text, read_max_output, read_model, span_of, spliced};
use crate::request_error::RequestError;
use crate::thinking::asks_to_think;
use bytes::Bytes;
use seawall_core::vocabulary::OutputLimitField;
use serde_json::value::RawValue;
use std::ops::Range;

/// The vendor's maximum for `n`.
const MOST_CHOICES: u32 = 128;

/// The fields of a request that decisions need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHead {
    /// The requested model.
    pub model: String,
    /// The maximum number of output tokens, the smaller one if two limits are set; this dialect does not require one.
    pub max_output: Option<u32>,
    /// The number of choices requested. The output limit applies to each of them.
    pub choices: u32,
    /// Whether the caller requested a streamed answer.
    pub stream: bool,
    /// Whether the caller requested the usage of a stream.
    pub include_usage: bool,
    /// The number of messages.
    pub turns: usize,
    /// Whether the request enables thinking, which is billed but not always shown.
    pub thinks: bool,
    /// The range of the model name in the body, quotes included.
    pub model_span: Range<usize>,
    /// The range to replace and its replacement, so that the vendor reports usage; `None` if it will anyway.
    ask_for_usage: Option<(Range<usize>, &'static str)>,
    limit: OutputLimit,
}

/// How the body limits output.
#[derive(Clone, Debug, PartialEq, Eq)]
enum OutputLimit {
    /// In one field, forwarded as the caller wrote it.
    Once,
    /// In both fields. Servers differ in which of the two they use, so only one may be sent upstream.
    Twice,
    /// In neither field.
    Nowhere {
        /// The offset where a field can be inserted.
        at: usize,
        /// The ranges of the fields that are null, by [`OutputLimitField::index`].
        nulls: [Option<Range<usize>>; 2],
    },
}

/// Reads a request. The whole body is checked to be JSON; fields that are not needed are not parsed.
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
        thinks: asks_to_think(&fields),
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

/// The offset after the opening brace of the body. The body has fields, so inserted text must end with a comma.
fn behind_brace(text: &str) -> usize {
    text.find('{').map_or(0, |brace| brace + 1)
}

fn limits_of_output<'a>(fields: &Fields<'a>) -> impl Iterator<Item = (&'static str, &'a RawValue)> {
    OutputLimitField::ALL.into_iter().filter_map(|field| Some((field.name(), fields.get(field.name())?)))
}

/// The output limit: the smaller one if both fields are set.
pub(super) fn max_output(fields: &Fields<'_>) -> Result<Option<u32>, RequestError> {
    let mut smallest = None;
    for (name, raw) in limits_of_output(fields) {
        let limit = read_max_output(name, raw)?;
        smallest = Some(smallest.map_or(limit, |other: u32| other.min(limit)));
    }
    Ok(smallest)
}

fn check_message(raw: &RawValue, limits: &RequestLimits) -> Result<(), RequestError> {
    // The vendor decides which roles exist.
    match Fields::of_value(raw, limits)?.need_string("role")?.as_str() {
        "" => Err(RequestError::wrong("role", "must be the name of a role")),
        _ => Ok(()),
    }
}

type Change = (Range<usize>, &'static str);

/// Whether usage is requested, and the change to the body that requests it.
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

/// Replaces the model name in the body. Nothing else changes, and the body is returned as it is if it already names
/// that model. `head` must have been read from this body.
#[must_use]
pub fn with_model(body: &Bytes, head: &RequestHead, model: &str) -> Bytes {
    if head.model == model {
        return body.clone();
    }
    let name = serde_json::Value::from(model).to_string();
    spliced(body, &[(head.model_span.clone(), &name)])
}

/// The request to send upstream: with another model name, and requesting the usage of a stream. Nothing else in the
/// body changes. `head` must have been read from this body.
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

/// Like [`for_upstream`], but with at most one output limit: the caller's own if it set one, otherwise the given one,
/// if any, in the given field. A caller that set both is held to the smaller one, which is the one in `head`.
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
///     for_upstream_within(&body, &head, "a", Some(9), MaxTokens)?,
///     r#"{"max_tokens":9,"model":"a","messages":[{"role":"user","content":"hi"}]}"#
/// );
/// # Ok::<(), seawall_wire::RequestError>(())
/// ```
pub fn for_upstream_within(
    body: &Bytes,
    head: &RequestHead,
    model: &str,
    max_output: Option<u32>,
    field: OutputLimitField,
) -> Result<Bytes, RequestError> {
    let limit = match (&head.limit, head.max_output.or(max_output)) {
        (OutputLimit::Once, _) | (_, None) => return Ok(for_upstream(body, head, model)),
        (OutputLimit::Twice, Some(max_output)) => {
            let limited = limited_once(body, max_output, field)?;
            let head = read_request(&limited, &READ_BEFORE)?;
            return Ok(for_upstream(&limited, &head, model));
        }
        (OutputLimit::Nowhere { at, nulls }, Some(max_output)) => match &nulls[field.index()] {
            Some(null) => (null.clone(), max_output.to_string()),
            None => (*at..*at, format!("\"{field}\":{max_output},")),
        },
    };
    let usage = head.ask_for_usage.iter().map(|(place, text)| (place.clone(), (*text).to_owned()));
    Ok(changed(body, head, model, usage.chain([limit]).collect()))
}

/// Rewrites a body with two limits to one limit. Few callers set both, so the second parse is acceptable.
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
