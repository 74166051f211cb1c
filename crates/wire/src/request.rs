//! Common to the requests of all dialects: limits, and the fields that decisions need.

use crate::depth::{BracketDecision, check_brackets, path_at};
use crate::request_error::RequestError;
use bytes::{BufMut, Bytes, BytesMut};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::ops::{Range, RangeInclusive};

/// Maximum length of a model name, which also becomes a metric label and appears in logs.
const MAX_MODEL_LENGTH: usize = 256;
/// Maximum depth of a tool call's input in an answer: the same as in a request that sends it back.
pub(crate) const MAX_INPUT_DEPTH: usize = 64;
const MAX_OUTPUT: RangeInclusive<u32> = 1..=1 << 31;

/// Limits on the resources that parsing a request may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    /// Maximum body size in bytes.
    pub max_body_size: usize,
    /// Maximum nesting depth of objects and lists.
    pub max_depth: usize,
    /// Maximum number of top-level fields.
    pub max_fields: usize,
    /// Maximum number of items of any list in the outer levels of a body (turns, tools, parts of a turn), whether the
    /// body is parsed or passes through.
    pub max_items: usize,
}

impl Default for RequestLimits {
    /// 32 MiB, the vendor's limit; depth 64, half of what JSON parsers usually accept; 64 fields, twice as many as
    /// exist; 10 000 list items, more than any context window holds.
    fn default() -> Self {
        Self { max_body_size: 32 << 20, max_depth: 64, max_fields: 64, max_items: 10_000 }
    }
}

/// Limits for a body that was already checked when it was first read. The depth is the maximum that the JSON parser
/// behind it accepts.
pub(crate) const ALREADY_CHECKED: RequestLimits = RequestLimits {
    max_body_size: usize::MAX,
    max_depth: 128,
    max_fields: usize::MAX,
    max_items: usize::MAX,
};

/// Replaces parts of the body. The ranges must be sorted and disjoint; if one is out of bounds, the body is returned
/// unchanged.
pub(crate) fn splice(body: &Bytes, replacements: &[(Range<usize>, &str)]) -> Bytes {
    let added: usize = replacements.iter().map(|(_, text)| text.len()).sum();
    let mut changed = BytesMut::with_capacity(body.len() + added);
    let mut done = 0;
    for (range, text) in replacements {
        let (Some(before), true) = (body.get(done..range.start), range.start <= range.end) else {
            return body.clone();
        };
        changed.put_slice(before);
        changed.put_slice(text.as_bytes());
        done = range.end;
    }
    let Some(rest) = body.get(done..) else { return body.clone() };
    changed.put_slice(rest);
    changed.freeze()
}

pub(crate) fn check_text<'a>(body: &'a [u8], limits: &RequestLimits) -> Result<&'a str, RequestError> {
    if body.len() > limits.max_body_size {
        return Err(RequestError::TooLarge { size: body.len(), limit: limits.max_body_size });
    }
    let text = str::from_utf8(body).map_err(|error| RequestError::NotUtf8 { at: error.valid_up_to() })?;
    if text.starts_with('\u{FEFF}') {
        return Err(RequestError::not_json("it begins with a byte order mark"));
    }
    match check_brackets(body, limits.max_depth, limits.max_items) {
        BracketDecision::Fits => Ok(text),
        BracketDecision::TooDeep => Err(RequestError::TooDeep { limit: limits.max_depth }),
        BracketDecision::TooMany(at) => {
            Err(RequestError::TooMany { field: path_at(body, at), limit: limits.max_items })
        }
    }
}

pub(crate) fn read_model(raw: &RawValue) -> Result<String, RequestError> {
    let invalid = |problem| RequestError::invalid("model", problem);
    let model: String =
        serde_json::from_str(raw.get()).map_err(|_| invalid("Input should be a valid string"))?;
    if model.is_empty() {
        return Err(invalid("String should have at least 1 character"));
    }
    if model.len() > MAX_MODEL_LENGTH {
        return Err(invalid("String should have at most 256 bytes"));
    }
    Ok(model)
}

pub(crate) fn read_max_output(field: &'static str, raw: &RawValue) -> Result<u32, RequestError> {
    let problem = "Input should be an integer between 1 and 2147483648";
    let number = raw.get().parse().ok().filter(|number| MAX_OUTPUT.contains(number));
    number.ok_or_else(|| RequestError::invalid(field, problem))
}

/// Like `read_max_output`, but accepts 0 as Anthropic's dialect does: the prompt is only written to the vendor's cache
/// and no answer is generated.
pub(crate) fn read_max_output_or_zero(field: &'static str, raw: &RawValue) -> Result<u32, RequestError> {
    let problem = "Input should be an integer between 0 and 2147483648";
    let number = raw.get().parse().ok().filter(|number| number <= MAX_OUTPUT.end());
    number.ok_or_else(|| RequestError::invalid(field, problem))
}

pub(crate) fn read_stream(raw: &RawValue) -> Result<bool, RequestError> {
    match raw.get() {
        "true" => Ok(true),
        // Clients write null for fields that were not set.
        "false" | "null" => Ok(false),
        _ => Err(RequestError::invalid("stream", "Input should be a valid boolean")),
    }
}

/// The range of `part`, a subslice of `whole`.
pub(crate) fn span_of(part: &str, whole: &(impl AsRef<[u8]> + ?Sized)) -> Range<usize> {
    let start = part.as_ptr().addr().saturating_sub(whole.as_ref().as_ptr().addr());
    start..start + part.len()
}

/// The first duplicate name.
pub(crate) fn find_duplicate<'n, 'a>(names: &'n [CowStr<'a>]) -> Option<&'n CowStr<'a>> {
    // The list is short enough for pairwise comparison.
    names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)).map(|(_, name)| name)
}

/// A field name: a slice of the body unless it contains escapes.
#[derive(Deserialize, PartialEq)]
pub(crate) struct CowStr<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::splice;
    use bytes::Bytes;

    #[test]
    fn parts_are_replaced_in_order_and_only_where_they_fit() {
        let body = Bytes::from_static(b"0123456789");
        for (changes, expected) in [
            (vec![], "0123456789"),
            (vec![(0..0, "a")], "a0123456789"),
            (vec![(10..10, "z")], "0123456789z"),
            (vec![(2..4, ""), (4..5, "xyz")], "01xyz56789"),
            (vec![(0..10, "all")], "all"),
            (vec![(4..5, "x"), (2..4, "y")], "0123456789"),
            (vec![(8..11, "x")], "0123456789"),
            (vec![(11..12, "x")], "0123456789"),
        ] {
            assert_eq!(splice(&body, &changes), expected, "{changes:?}");
        }
    }
}
