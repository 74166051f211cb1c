//! Reads JSON objects field by field.
//!
//! Values stay raw text and are parsed on access, so that fields that are only forwarded are never parsed, and so that
//! each error can name the path to the wrong field. A reader reports the field name; its callers prepend the outer path
//! with [`RequestError::within`].

use crate::chat::JsonText;
use crate::depth::nests_deeper_than;
use crate::request::{CowStr, RequestLimits, check_text, find_duplicate, read_max_output};
use crate::request_error::RequestError;
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;
use serde_json::value::RawValue;
use std::fmt;

/// Unknown field names in error messages are truncated to this length.
const MAX_NAME_LENGTH: usize = 64;

/// The fields of one JSON object. Duplicate names are rejected when it is read.
pub struct JsonFields<'a> {
    names: Vec<CowStr<'a>>,
    values: Vec<&'a RawValue>,
}

impl<'a> JsonFields<'a> {
    /// Parses a whole body.
    pub(crate) fn of_body(text: &'a str, limits: &RequestLimits) -> Result<Self, RequestError> {
        let mut json = serde_json::Deserializer::from_str(text);
        let fields = json.deserialize_map(FieldsVisitor { max: limits.max_fields });
        let fields = fields.and_then(|fields| json.end().map(|()| fields));
        let fields = fields.map_err(|error| match error.classify() {
            Category::Data => RequestError::NotAnObject,
            Category::Io | Category::Syntax | Category::Eof => RequestError::not_json(error.to_string()),
        })?;
        if fields.names.len() > limits.max_fields {
            return Err(RequestError::TooManyFields { limit: limits.max_fields });
        }
        fields.reject_duplicates()
    }

    /// Checks a body against the limits on size and depth, then parses it.
    pub fn read(body: &'a [u8], limits: &RequestLimits) -> Result<Self, RequestError> {
        Self::of_body(check_text(body, limits)?, limits)
    }

    /// Rewrites the object: drops the fields in `removed` and puts `added`, whose values are JSON text, in front.
    pub(crate) fn with(&self, added: &[(&str, String)], removed: &[&str]) -> String {
        let is_kept = |name: &str| !removed.contains(&name) && !added.iter().any(|(other, _)| *other == name);
        let kept = self.names.iter().zip(&self.values).map(|(CowStr(name), value)| (&**name, value.get()));
        let fields = added.iter().map(|(name, value)| (*name, value.as_str()));
        let length: usize = self.values.iter().map(|value| value.get().len() + 32).sum();
        let mut body = String::with_capacity(length + 128);
        body.push('{');
        for (name, value) in fields.chain(kept.filter(|(name, _)| is_kept(name))) {
            if body.len() > 1 {
                body.push(',');
            }
            body.push_str(&serde_json::Value::from(name).to_string());
            body.push(':');
            body.push_str(value);
        }
        body.push('}');
        body
    }

    /// Parses an object nested in a body that is already known to be valid JSON.
    pub fn of_value(raw: &'a RawValue, limits: &RequestLimits) -> Result<Self, RequestError> {
        let mut json = serde_json::Deserializer::from_str(raw.get());
        let fields = json.deserialize_map(FieldsVisitor { max: limits.max_fields });
        let fields = fields.map_err(|_| RequestError::invalid("", "Input should be an object"))?;
        if fields.names.len() > limits.max_fields {
            return Err(RequestError::TooMany { field: String::new(), limit: limits.max_fields });
        }
        fields.reject_duplicates()
    }

    fn reject_duplicates(self) -> Result<Self, RequestError> {
        match find_duplicate(&self.names) {
            Some(CowStr(name)) => Err(RequestError::Duplicate { field: name.to_string() }),
            None => Ok(self),
        }
    }

    /// The raw value of a field. `None` if it is absent or null, because clients write null for fields that were not
    /// set.
    pub(crate) fn get(&self, field: &str) -> Option<&'a RawValue> {
        self.get_any(field).filter(|raw| raw.get() != "null")
    }

    /// The raw value of a field, null included.
    pub(crate) fn get_any(&self, field: &str) -> Option<&'a RawValue> {
        let at = self.names.iter().position(|CowStr(name)| name == field)?;
        self.values.get(at).copied()
    }

    /// All fields that are not null, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.iter_any().filter(|(_, value)| value.get() != "null")
    }

    /// All fields, in order.
    pub(crate) fn iter_any(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.names.iter().zip(&self.values).map(|(CowStr(name), value)| (&**name, *value))
    }

    /// Whether the field is present and not null.
    #[must_use]
    pub fn has(&self, field: &str) -> bool {
        self.get(field).is_some()
    }

    /// An output limit in tokens, if present.
    pub fn max_output(&self, field: &'static str) -> Result<Option<u32>, RequestError> {
        self.get(field).map(|raw| read_max_output(field, raw)).transpose()
    }

    /// Returns an error for any field that is not in `known`.
    pub fn reject_unknown(&self, known: &[&str]) -> Result<(), RequestError> {
        let is_known = |CowStr(name): &&CowStr<'_>| known.contains(&&**name);
        match self.names.iter().find(|name| !is_known(name)) {
            // The name is returned to the caller and logged, so it is truncated and cleaned.
            Some(CowStr(name)) => {
                let name: String = name.chars().take(MAX_NAME_LENGTH).collect();
                Err(RequestError::invalid(name, "Extra inputs are not permitted"))
            }
            None => Ok(()),
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    pub(crate) fn need(&self, field: &str) -> Result<&'a RawValue, RequestError> {
        self.get(field).ok_or_else(|| RequestError::missing(field))
    }

    /// A string field, if present.
    pub fn string(&self, field: &str) -> Result<Option<String>, RequestError> {
        self.get(field).map(|raw| string_of(raw).map_err(|error| error.within(field))).transpose()
    }

    /// A required string field.
    pub fn need_string(&self, field: &str) -> Result<String, RequestError> {
        self.string(field)?.ok_or_else(|| RequestError::missing(field))
    }

    /// A boolean field; false if absent.
    pub fn boolean(&self, field: &str) -> Result<bool, RequestError> {
        match self.get(field).map(RawValue::get) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(RequestError::invalid(field, "Input should be a valid boolean")),
        }
    }

    /// A finite number, if present. A number too large for its type is an error.
    pub(crate) fn number(&self, field: &str) -> Result<Option<f64>, RequestError> {
        let Some(raw) = self.get(field) else { return Ok(None) };
        // The standard library's parser rounds to the nearest value.
        let number = raw.get().parse().ok().filter(|number: &f64| number.is_finite());
        number.map(Some).ok_or_else(|| RequestError::invalid(field, "Input should be a valid number"))
    }

    /// A whole number that is not negative, if present.
    pub(crate) fn count(&self, field: &str) -> Result<Option<u32>, RequestError> {
        let Some(raw) = self.get(field) else { return Ok(None) };
        let number = raw.get().parse().ok().or_else(|| raw.get().strip_suffix(".0")?.parse().ok());
        number.map(Some).ok_or_else(|| RequestError::invalid(field, "Input should be a whole number"))
    }

    /// A whole number, if present.
    pub(crate) fn integer(&self, field: &str) -> Result<Option<i64>, RequestError> {
        let Some(raw) = self.get(field) else { return Ok(None) };
        let number = raw.get().parse().ok();
        number.map(Some).ok_or_else(|| RequestError::invalid(field, "Input should be a whole number"))
    }

    /// A finite number other than 0, if present.
    pub(crate) fn non_zero(&self, field: &str) -> Result<Option<f64>, RequestError> {
        Ok(self.number(field)?.filter(|number| *number != 0.0))
    }

    pub(crate) fn object(&self, field: &str, limits: &RequestLimits) -> Result<Option<Self>, RequestError> {
        let read = |raw| Self::of_value(raw, limits).map_err(|error| error.within(field));
        self.get(field).map(read).transpose()
    }

    pub(crate) fn need_object(&self, field: &str, limits: &RequestLimits) -> Result<Self, RequestError> {
        self.object(field, limits)?.ok_or_else(|| RequestError::missing(field))
    }

    /// Reads each item of a list; an empty list if the field is absent.
    pub fn each<T>(
        &self,
        field: &str,
        limits: &RequestLimits,
        read: impl FnMut(&'a RawValue) -> Result<T, RequestError>,
    ) -> Result<Vec<T>, RequestError> {
        let Some(raw) = self.get(field) else { return Ok(Vec::new()) };
        each(raw, limits, read).map_err(|error| error.within(field))
    }
}

/// Reads each item of a list.
pub(crate) fn each<'a, T>(
    raw: &'a RawValue,
    limits: &RequestLimits,
    mut read: impl FnMut(&'a RawValue) -> Result<T, RequestError>,
) -> Result<Vec<T>, RequestError> {
    let mut list = ListVisitor { max: limits.max_items, is_full: false };
    let items = serde_json::Deserializer::from_str(raw.get()).deserialize_seq(&mut list);
    if list.is_full {
        return Err(RequestError::TooMany { field: String::new(), limit: limits.max_items });
    }
    let items = items.map_err(|_| RequestError::invalid("", "Input should be a valid list"))?;
    let one = |(at, raw)| read(raw).map_err(|error| error.within(&format!("{at}")));
    items.into_iter().enumerate().map(one).collect()
}

/// JSON can encode half of a surrogate pair, which no Rust string can hold. Vendors reject it as well.
const LONE_SURROGATE: &str =
    "String contains a lone surrogate such as \\ud800, which is not a valid character";

pub(crate) fn string_of(raw: &RawValue) -> Result<String, RequestError> {
    let invalid = |_| {
        // The body is valid JSON, so a string that cannot be decoded contains a lone surrogate.
        let is_string = raw.get().starts_with('"');
        RequestError::invalid("", if is_string { LONE_SURROGATE } else { "Input should be a valid string" })
    };
    serde_json::from_str(raw.get()).map_err(invalid)
}

pub(crate) fn is_string(raw: &RawValue) -> bool {
    raw.get().starts_with('"')
}

/// An object that is forwarded as raw text.
pub(crate) fn object_text(raw: &RawValue, limits: &RequestLimits) -> Result<JsonText, RequestError> {
    object_of(raw.get().to_owned(), limits.max_depth)
        .ok_or_else(|| RequestError::invalid("", "Input should be an object"))
}

/// Validates text as a JSON object of at most this depth. JSON inside a string has not passed the body's depth check.
pub(crate) fn object_of(text: String, depth: usize) -> Option<JsonText> {
    let is_shallow = !nests_deeper_than(depth, text.as_bytes());
    JsonText::new(text).filter(|json| is_shallow && json.get().starts_with('{'))
}

struct FieldsVisitor {
    /// Maximum number of fields; one more is kept to detect the excess.
    max: usize,
}

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = JsonFields<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut names, mut values) = (Vec::new(), Vec::new());
        while let Some((name, value)) = map.next_entry::<CowStr<'de>, &RawValue>()? {
            if names.len() <= self.max {
                names.push(name);
                values.push(value);
            }
        }
        Ok(JsonFields { names, values })
    }
}

struct ListVisitor {
    max: usize,
    is_full: bool,
}

impl<'de> Visitor<'de> for &mut ListVisitor {
    type Value = Vec<&'de RawValue>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            if items.len() == self.max {
                self.is_full = true;
                return Err(A::Error::custom("too many"));
            }
            items.push(item);
        }
        Ok(items)
    }
}

#[cfg(test)]
mod tests {
    use super::JsonFields;
    use crate::RequestLimits;

    #[test]
    fn a_field_of_another_name_is_refused_by_as_much_of_it_as_fits_a_line() {
        let limits = RequestLimits::default();
        let long = format!(r#"{{"a":1,"{}":2}}"#, "é".repeat(65));
        let fields = JsonFields::read(long.as_bytes(), &limits).unwrap();
        let message = fields.reject_unknown(&["a"]).unwrap_err().to_string();
        assert_eq!(message, format!("{}: Extra inputs are not permitted", "é".repeat(64)));
        let fields = JsonFields::read(br#"{"b":null,"a":1,"c":2}"#, &limits).unwrap();
        assert!(fields.reject_unknown(&["c", "a", "b", "d"]).is_ok());
        assert_eq!(
            fields.reject_unknown(&["a"]).unwrap_err().to_string(),
            "b: Extra inputs are not permitted"
        );
        assert_eq!(["a", "b", "d"].map(|field| fields.has(field)), [true, false, false]);
    }

    #[test]
    fn a_limit_of_output_is_a_whole_number() {
        let limits = RequestLimits::default();
        let read = |text: &str| {
            let body = format!(r#"{{"most":{text}}}"#);
            JsonFields::read(body.as_bytes(), &limits)
                .unwrap()
                .max_output("most")
                .map_err(|error| error.to_string())
        };
        assert_eq!((read("1"), read("null")), (Ok(Some(1)), Ok(None)));
        assert!(read("0").unwrap_err().starts_with("most: Input should be an integer"));
    }
}
