//! Reads the fields of a request that decisions need.

use crate::fields::{JsonFields, each};
use crate::request::{
    ALREADY_CHECKED, RequestLimits, check_text, read_max_output, read_model, span_of, splice,
};
use crate::request_error::RequestError;
use crate::thinking::enables_thinking;
use bytes::Bytes;
use seawall_core::vocabulary::OutputLimitField;
use serde_json::value::RawValue;
use std::ops::Range;

/// The vendor's maximum for `n`.
const MAX_CHOICES: u32 = 128;

/// The fields of a request that decisions need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatCompletionHead {
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
    pub enables_thinking: bool,
    /// The range of the model name in the body, quotes included.
    pub model_span: Range<usize>,
    /// The range to replace and its replacement, so that the vendor reports usage; `None` if it will anyway.
    usage_change: Option<(Range<usize>, &'static str)>,
    limit: LimitPlacement,
}

/// How the body limits output.
#[derive(Clone, Debug, PartialEq, Eq)]
enum LimitPlacement {
    /// In one field, forwarded as the caller wrote it.
    OneField,
    /// In both fields. Servers differ in which of the two they use, so only one may be sent upstream.
    BothFields,
    /// In neither field.
    NoField {
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
pub fn read_request(body: &[u8], limits: &RequestLimits) -> Result<ChatCompletionHead, RequestError> {
    let text = check_text(body, limits)?;
    let fields = JsonFields::of_body(text, limits)?;
    let model = fields.need("model")?;
    let stream = fields.boolean("stream")?;
    let (include_usage, usage_change) = read_stream_options(&fields, text, limits)?;
    let messages = each(fields.need("messages")?, limits, |raw| check_message(raw, limits));
    let turns = messages.map_err(|error| error.within("messages"))?.len();
    if turns == 0 {
        return Err(RequestError::invalid("messages", "at least one message is required"));
    }
    let max_output = max_output(&fields)?;
    let limit = match output_limits(&fields).count() {
        0 => no_limit_field(&fields, text),
        1 => LimitPlacement::OneField,
        _ => LimitPlacement::BothFields,
    };
    Ok(ChatCompletionHead {
        model: read_model(model)?,
        max_output,
        choices: read_choices(&fields)?,
        stream,
        include_usage: stream && include_usage,
        turns,
        enables_thinking: enables_thinking(&fields),
        model_span: span_of(model.get(), text),
        usage_change: usage_change.filter(|_| stream),
        limit,
    })
}

fn read_choices(fields: &JsonFields<'_>) -> Result<u32, RequestError> {
    let Some(raw) = fields.get("n") else { return Ok(1) };
    let number = raw.get().parse().ok().filter(|number| (1..=MAX_CHOICES).contains(number));
    number.ok_or_else(|| RequestError::invalid("n", "Input should be an integer between 1 and 128"))
}

fn no_limit_field(fields: &JsonFields<'_>, text: &str) -> LimitPlacement {
    let null = |field: OutputLimitField| fields.get_any(field.name()).map(|null| span_of(null.get(), text));
    LimitPlacement::NoField { at: after_brace(text), nulls: OutputLimitField::ALL.map(null) }
}

/// The offset after the opening brace of the body. The body has fields, so inserted text must end with a comma.
fn after_brace(text: &str) -> usize {
    text.find('{').map_or(0, |brace| brace + 1)
}

fn output_limits<'a>(fields: &JsonFields<'a>) -> impl Iterator<Item = (&'static str, &'a RawValue)> {
    OutputLimitField::ALL.into_iter().filter_map(|field| Some((field.name(), fields.get(field.name())?)))
}

/// The output limit: the smaller one if both fields are set.
pub(super) fn max_output(fields: &JsonFields<'_>) -> Result<Option<u32>, RequestError> {
    let mut smallest = None;
    for (name, raw) in output_limits(fields) {
        let limit = read_max_output(name, raw)?;
        smallest = Some(smallest.map_or(limit, |other: u32| other.min(limit)));
    }
    Ok(smallest)
}

fn check_message(raw: &RawValue, limits: &RequestLimits) -> Result<(), RequestError> {
    // The vendor decides which roles exist.
    match JsonFields::of_value(raw, limits)?.need_string("role")?.as_str() {
        "" => Err(RequestError::invalid("role", "Input should be a non-empty string")),
        _ => Ok(()),
    }
}

type BodyChange = (Range<usize>, &'static str);

/// Whether usage is requested, and the change to the body that requests it.
fn read_stream_options(
    fields: &JsonFields<'_>,
    text: &str,
    limits: &RequestLimits,
) -> Result<(bool, Option<BodyChange>), RequestError> {
    let Some(raw) = fields.get_any("stream_options") else {
        let at = after_brace(text);
        return Ok((false, Some((at..at, r#""stream_options":{"include_usage":true},"#))));
    };
    let span = span_of(raw.get(), text);
    if raw.get() == "null" {
        return Ok((false, Some((span, r#"{"include_usage":true}"#))));
    }
    let read = || {
        let options = JsonFields::of_value(raw, limits)?;
        Ok((options.boolean("include_usage")?, options.get_any("include_usage"), options.is_empty()))
    };
    let (is_requested, given, is_empty) =
        read().map_err(|error: RequestError| error.within("stream_options"))?;
    let change = match given {
        _ if is_requested => return Ok((true, None)),
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
pub fn with_model(body: &Bytes, head: &ChatCompletionHead, model: &str) -> Bytes {
    if head.model == model {
        return body.clone();
    }
    let name = serde_json::Value::from(model).to_string();
    splice(body, &[(head.model_span.clone(), &name)])
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
pub fn for_upstream(body: &Bytes, head: &ChatCompletionHead, model: &str) -> Bytes {
    let Some((range, text)) = &head.usage_change else { return with_model(body, head, model) };
    apply_changes(body, head, model, vec![(range.clone(), (*text).to_owned())])
}

/// Like [`for_upstream`], but with at most one output limit: the caller's own if it set one, otherwise the given one,
/// if any, in the given field. A caller that set both is held to the smaller one, which is the one in `head`.
///
/// ```
/// use bytes::Bytes;
/// use seawall_core::vocabulary::OutputLimitField::MaxTokens;
/// use seawall_wire::RequestLimits;
/// use seawall_wire::openai::{for_upstream_with_limit, read_request};
///
/// let body = Bytes::from(r#"{"model":"a","messages":[{"role":"user","content":"hi"}]}"#);
/// let head = read_request(&body, &RequestLimits::default())?;
/// assert_eq!(
///     for_upstream_with_limit(&body, &head, "a", Some(9), MaxTokens)?,
///     r#"{"max_tokens":9,"model":"a","messages":[{"role":"user","content":"hi"}]}"#
/// );
/// # Ok::<(), seawall_wire::RequestError>(())
/// ```
pub fn for_upstream_with_limit(
    body: &Bytes,
    head: &ChatCompletionHead,
    model: &str,
    max_output: Option<u32>,
    field: OutputLimitField,
) -> Result<Bytes, RequestError> {
    let limit = match (&head.limit, head.max_output.or(max_output)) {
        (LimitPlacement::OneField, _) | (_, None) => return Ok(for_upstream(body, head, model)),
        (LimitPlacement::BothFields, Some(max_output)) => {
            let limited = with_single_limit(body, max_output, field)?;
            let head = read_request(&limited, &ALREADY_CHECKED)?;
            return Ok(for_upstream(&limited, &head, model));
        }
        (LimitPlacement::NoField { at, nulls }, Some(max_output)) => match &nulls[field.index()] {
            Some(null) => (null.clone(), max_output.to_string()),
            None => (*at..*at, format!("\"{field}\":{max_output},")),
        },
    };
    let usage = head.usage_change.iter().map(|(range, text)| (range.clone(), (*text).to_owned()));
    Ok(apply_changes(body, head, model, usage.chain([limit]).collect()))
}

/// Rewrites a body with two limits to one limit. Few callers set both, so the second parse is acceptable.
fn with_single_limit(body: &[u8], max_output: u32, field: OutputLimitField) -> Result<Bytes, RequestError> {
    let fields = JsonFields::read(body, &ALREADY_CHECKED)?;
    let limited = fields.with(&[(field.name(), max_output.to_string())], &[field.other().name()]);
    Ok(limited.into())
}

fn apply_changes(
    body: &Bytes,
    head: &ChatCompletionHead,
    model: &str,
    mut changes: Vec<(Range<usize>, String)>,
) -> Bytes {
    if head.model != model {
        changes.push((head.model_span.clone(), serde_json::Value::from(model).to_string()));
    }
    changes.sort_by_key(|(range, _)| range.start);
    let changes: Vec<_> = changes.iter().map(|(range, text)| (range.clone(), text.as_str())).collect();
    splice(body, &changes)
}
