//! What requests of all dialects have in common: limits, and the fields that decisions need.

use crate::depth::{BracketDecision, look_at_brackets, way_to};
use crate::request_error::RequestError;
use bytes::{BufMut, Bytes, BytesMut};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::ops::{Range, RangeInclusive};

/// The longest name of a model; it also becomes a label and a line of a log.
const LONGEST_MODEL: usize = 256;
/// How deep the input of a call may nest in an answer: as deep as a request that carries it back.
pub(crate) const DEEPEST_INPUT: usize = 64;
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
    /// How many turns, tools, or parts of one turn there may be: the members of any list in the outer levels of a body,
    /// whether it is read or only passes through.
    pub members: usize,
}

impl Default for RequestLimits {
    /// 32 MiB as at the vendor; 64 levels, half of what JSON readers usually bear; 64 fields, twice as many as
    /// exist; 10 000 members, more than any window holds.
    fn default() -> Self {
        Self { body: 32 << 20, depth: 64, fields: 64, members: 10_000 }
    }
}

/// For a body that was held to its limits when it was read first. No reader of JSON behind this one bears more depth.
pub(crate) const READ_BEFORE: RequestLimits =
    RequestLimits { body: usize::MAX, depth: 128, fields: usize::MAX, members: usize::MAX };

/// The body with some of its parts replaced. The parts must be in order and apart from each other; where one does not
/// lie in the body, the body stays as it is.
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

pub(crate) fn read_stream(raw: &RawValue) -> Result<bool, RequestError> {
    match raw.get() {
        "true" => Ok(true),
        // Clients write a field that was not set as null.
        "false" | "null" => Ok(false),
        _ => Err(RequestError::wrong("stream", "must be true or false")),
    }
}

/// Where `part`, which was cut out of `whole`, lies in it.
pub(crate) fn span_of(part: &str, whole: &str) -> Range<usize> {
    let start = part.as_ptr().addr().saturating_sub(whole.as_ptr().addr());
    start..start + part.len()
}

/// The first name that is there a second time.
pub(crate) fn repeated<'n, 'a>(names: &'n [Name<'a>]) -> Option<&'n Name<'a>> {
    // Few enough to compare each with each.
    names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)).map(|(_, name)| name)
}

/// The name of a field; a slice of the body unless it is written with escapes.
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
