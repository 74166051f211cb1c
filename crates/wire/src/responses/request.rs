//! Reads the fields of a request that decisions need.

use crate::fields::{JsonFields, each, is_string};
use crate::request::{RequestLimits, check_text, read_model, span_of, splice};
use crate::request_error::RequestError;
use crate::thinking::enables_thinking;
use bytes::Bytes;
use serde_json::value::RawValue;
use std::ops::Range;

/// The fields of a request that decisions need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponsesHead {
    /// The requested model.
    pub model: String,
    /// The maximum number of output tokens, reasoning included; this dialect does not require one.
    pub max_output: Option<u32>,
    /// Whether the caller requested a streamed answer.
    pub stream: bool,
    /// The number of input items; 1 if the input is a string.
    pub turns: usize,
    /// Whether the request enables thinking, which is billed but not always shown.
    pub enables_thinking: bool,
    /// Whether the vendor is to store the response. The vendor's default is true.
    pub store: Option<bool>,
    /// Whether the response is generated after the answer to this request, so that its usage is never seen here.
    pub background: bool,
    /// Whether the request refers to content stored at the vendor: an earlier response, a conversation, a prompt
    /// template or an item. Only the account that stored it can serve the request, and its size is unknown.
    pub uses_stored_content: bool,
    /// The range of the model name in the body, quotes included.
    pub model_span: Range<usize>,
    /// Where an output limit can be put: the range to replace, and whether only the value is missing. `None` if the
    /// body has a limit.
    limit_slot: Option<(Range<usize>, LimitSlot)>,
}

/// What the body lacks of an output limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LimitSlot {
    /// The whole field.
    Field,
    /// The value: the field is null.
    Value,
}

const LIMIT_FIELD: &str = "max_output_tokens";

/// Reads a request. The whole body is checked to be JSON; fields that are not needed are not parsed.
///
/// ```
/// use seawall_wire::RequestLimits;
/// use seawall_wire::responses::read_request;
///
/// let body = br#"{"model":"gpt","stream":true,"store":false,"input":"hi"}"#;
/// let head = read_request(body, &RequestLimits::default())?;
/// assert_eq!((head.model.as_str(), head.max_output, head.stream, head.store), ("gpt", None, true, Some(false)));
/// # Ok::<(), seawall_wire::RequestError>(())
/// ```
pub fn read_request(body: &[u8], limits: &RequestLimits) -> Result<ResponsesHead, RequestError> {
    let text = check_text(body, limits)?;
    let fields = JsonFields::of_body(text, limits)?;
    let model = fields.need("model")?;
    let store = if fields.has("store") { Some(fields.boolean("store")?) } else { None };
    let names_stored = has_stored_fields(&fields);
    let (turns, has_references) = match fields.get("input") {
        Some(raw) => read_input(raw, limits).map_err(|error| error.within("input"))?,
        None if names_stored => (0, false),
        None => return Err(RequestError::missing("input")),
    };
    if turns == 0 && !names_stored {
        return Err(RequestError::invalid("input", "at least one item is required"));
    }
    let max_output = fields.max_output(LIMIT_FIELD)?;
    Ok(ResponsesHead {
        model: read_model(model)?,
        max_output,
        stream: fields.boolean("stream")?,
        turns,
        enables_thinking: enables_thinking(&fields),
        store,
        background: fields.boolean("background")?,
        uses_stored_content: names_stored || has_references,
        model_span: span_of(model.get(), text),
        limit_slot: if max_output.is_none() { Some(limit_slot(&fields, text)) } else { None },
    })
}

/// The request fields that refer to content stored at the vendor.
pub(super) const STORED_CONTENT_FIELDS: [&str; 3] = ["previous_response_id", "conversation", "prompt"];

fn has_stored_fields(fields: &JsonFields<'_>) -> bool {
    STORED_CONTENT_FIELDS.iter().any(|field| fields.has(field))
}

fn limit_slot(fields: &JsonFields<'_>, text: &str) -> (Range<usize>, LimitSlot) {
    match fields.get_any(LIMIT_FIELD) {
        Some(null) => (span_of(null.get(), text), LimitSlot::Value),
        None => {
            // After the opening brace. The body has fields, so inserted text must end with a comma.
            let at = text.find('{').map_or(0, |brace| brace + 1);
            (at..at, LimitSlot::Field)
        }
    }
}

/// The number of items, and whether one of them refers to a stored item.
fn read_input(raw: &RawValue, limits: &RequestLimits) -> Result<(usize, bool), RequestError> {
    if is_string(raw) {
        return Ok((1, false));
    }
    if !raw.get().starts_with('[') {
        return Err(RequestError::invalid("", "Input should be a valid string or a list of items"));
    }
    let items = each(raw, limits, |raw| is_reference(&JsonFields::of_value(raw, limits)?))?;
    Ok((items.len(), items.contains(&true)))
}

/// Whether an item only names a stored item. The vendor accepts such an item without a type.
pub(super) fn is_reference(item: &JsonFields<'_>) -> Result<bool, RequestError> {
    Ok(match item.string("type")? {
        Some(kind) => kind == "item_reference",
        None => !item.has("role") && item.has("id"),
    })
}

/// Replaces the model name in the body. Nothing else changes, and the body is returned as it is if it already names
/// that model. `head` must have been read from this body.
#[must_use]
pub fn with_model(body: &Bytes, head: &ResponsesHead, model: &str) -> Bytes {
    for_upstream_with_limit(body, head, model, None)
}

/// The request to send upstream: with another model name, and with this output limit if the caller set none. Nothing
/// else in the body changes, so that encrypted reasoning and fields unknown here reach the vendor as they are. `head`
/// must have been read from this body.
///
/// ```
/// use bytes::Bytes;
/// use seawall_wire::RequestLimits;
/// use seawall_wire::responses::{for_upstream_with_limit, read_request};
///
/// let body = Bytes::from(r#"{"model":"a","input":"hi"}"#);
/// let head = read_request(&body, &RequestLimits::default())?;
/// assert_eq!(
///     for_upstream_with_limit(&body, &head, "b", Some(9)),
///     r#"{"max_output_tokens":9,"model":"b","input":"hi"}"#
/// );
/// # Ok::<(), seawall_wire::RequestError>(())
/// ```
#[must_use]
pub fn for_upstream_with_limit(
    body: &Bytes,
    head: &ResponsesHead,
    model: &str,
    max_output: Option<u32>,
) -> Bytes {
    let mut changes = Vec::new();
    if let (Some((range, slot)), Some(limit)) = (&head.limit_slot, max_output) {
        let text = match slot {
            LimitSlot::Field => format!("\"{LIMIT_FIELD}\":{limit},"),
            LimitSlot::Value => limit.to_string(),
        };
        changes.push((range.clone(), text));
    }
    if head.model != model {
        changes.push((head.model_span.clone(), serde_json::Value::from(model).to_string()));
    }
    if changes.is_empty() {
        return body.clone();
    }
    changes.sort_by_key(|(range, _)| range.start);
    let changes: Vec<_> = changes.iter().map(|(range, text)| (range.clone(), text.as_str())).collect();
    splice(body, &changes)
}
