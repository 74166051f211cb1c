//! Common to the requests of all dialects: limits, and the fields that decisions need.

use crate::depth::{BracketDecision, look_at_brackets, way_to};
use crate::request_error::RequestError;
use bytes::{BufMut, Bytes, BytesMut};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::ops::{Range, RangeInclusive};

/// Maximum length of a model name, which also becomes a metric label and appears in logs.
const LONGEST_MODEL: usize = 256;
/// Maximum depth of a tool call's input in an answer: the same as in a request that sends it back.
pub(crate) const DEEPEST_INPUT: usize = 64;
const MAX_OUTPUT: RangeInclusive<u32> = 1..=1 << 31;

/// Limits on the resources that parsing a request may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    /// Maximum body size in bytes.
    pub body: usize,
    /// Maximum nesting depth of objects and lists.
    pub depth: usize,
    /// Maximum number of top-level fields.
    pub fields: usize,
    /// Maximum number of items of any list in the outer levels of a body (turns, tools, parts of a turn), whether the
    /// body is parsed or passes through.
    pub members: usize,
}

impl Default for RequestLimits {
    /// 32 MiB, the vendor's limit; depth 64, half of what JSON parsers usually accept; 64 fields, twice as many as
    /// exist; 10 000 list items, more than any context window holds.
    fn default() -> Self {
        Self { body: 32 << 20, depth: 64, fields: 64, members: 10_000 }
    }
}

/// Limits for a body that was already checked when it was first read. The depth is the maximum that the JSON parser
/// behind it accepts.
pub(crate) const READ_BEFORE: RequestLimits =
    RequestLimits { body: usize::MAX, depth: 128, fields: usize::MAX, members: usize::MAX };

/// Replaces parts of the body. The ranges must be sorted and disjoint; if one is out of bounds, the body is returned
/// unchanged.
pub(crate) fn spliced(body: &Bytes, replacements: &[(Range<usize>, &str)]) -> Bytes {
    let added: usize = replacements.iter().map(|(_, text)| text.len()).sum();
    let mut changed = BytesMut::with_capacity(body.len() + added);
    let mut done = 0;
    for (place, text) in replacements {
        let (Some(before), true) = (body.get(done..place.start), place.start <= place.end) else {
            return body.clone();
        };
        changed.put_slice(before);
        changed.put_slice(text.as_bytes());
        done = place.end;
    }
    let Some(rest) = body.get(done..) else { return body.clone() };
    changed.put_slice(rest);
    changed.freeze()
}

pub(crate) fn check_text<'a>(body: &'a [u8], limits: &RequestLimits) -> Result<&'a str, RequestError> {
    if body.len() > limits.body {
        return Err(RequestError::TooLarge { size: body.len(), limit: limits.body });
    }
    let text = str::from_utf8(body).map_err(|error| RequestError::NotUtf8 { at: error.valid_up_to() })?;
    if text.starts_with('\u{FEFF}') {
        return Err(RequestError::not_json("it begins with a byte order mark"));
    }
    match look_at_brackets(body, limits.depth, limits.members) {
        BracketDecision::Fits => Ok(text),
        BracketDecision::TooDeep => Err(RequestError::TooDeep { limit: limits.depth }),
        BracketDecision::TooMany(at) => {
            Err(RequestError::TooMany { field: way_to(body, at), limit: limits.members })
        }
    }
}

pub(crate) fn read_model(raw: &RawValue) -> Result<String, RequestError> {
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

pub(crate) fn read_max_output(field: &'static str, raw: &RawValue) -> Result<u32, RequestError> {
    let problem = "must be a whole number from 1 to 2147483648";
    let number = raw.get().parse().ok().filter(|number| MAX_OUTPUT.contains(number));
    number.ok_or_else(|| RequestError::wrong(field, problem))
}

/// Like `read_max_output`, but accepts 0 as Anthropic's dialect does: the prompt is only written to the vendor's cache
/// and no answer is generated.
pub(crate) fn read_max_output_or_zero(field: &'static str, raw: &RawValue) -> Result<u32, RequestError> {
    let problem = "must be a whole number from 0 to 2147483648";
    let number = raw.get().parse().ok().filter(|number| number <= MAX_OUTPUT.end());
    number.ok_or_else(|| RequestError::wrong(field, problem))
}

pub(crate) fn read_stream(raw: &RawValue) -> Result<bool, RequestError> {
    match raw.get() {
        "true" => Ok(true),
        // Clients write null for fields that were not set.
        "false" | "null" => Ok(false),
        _ => Err(RequestError::wrong("stream", "must be true or false")),
    }
}

/// The range of `part`, a subslice of `whole`.
pub(crate) fn span_of(part: &str, whole: &str) -> Range<usize> {
    let start = part.as_ptr().addr().saturating_sub(whole.as_ptr().addr());
    start..start + part.len()
}

/// The first duplicate name.
pub(crate) fn repeated<'n, 'a>(names: &'n [Name<'a>]) -> Option<&'n Name<'a>> {
    // The list is short enough for pairwise comparison.
    names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)).map(|(_, name)| name)
}

/// A field name: a slice of the body unless it contains escapes.
#[derive(Deserialize, PartialEq)]
pub(crate) struct Name<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::spliced;
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
            assert_eq!(spliced(&body, &changes), expected, "{changes:?}");
        }
    }
}
