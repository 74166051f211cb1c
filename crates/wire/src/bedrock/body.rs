//! The fields at the top of a body, each as the text it came in.

use crate::anthropic::{RequestError, RequestLimits};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::error::Category;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// The fields of an object, in order; no name is there twice.
#[derive(Debug)]
pub(super) struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Fields<'a> {
    /// Reads a body. All of it is checked to be JSON; values are not looked into.
    pub(super) fn read(body: &'a [u8], limits: &RequestLimits) -> Result<Self, RequestError> {
        let text = check_text(body, limits)?;
        let mut json = serde_json::Deserializer::from_str(text);
        let fields = json.deserialize_map(FieldsVisitor { most: limits.fields });
        let fields = fields.and_then(|fields| json.end().map(|()| fields)).map_err(|error| {
            match error.classify() {
                Category::Data => RequestError::NotAnObject,
                Category::Io | Category::Syntax | Category::Eof => not_json(error.to_string()),
            }
        })?;
        if fields.0.len() > limits.fields {
            return Err(RequestError::TooManyFields { limit: limits.fields });
        }
        match fields.repeated() {
            Some(name) => Err(RequestError::Duplicate { field: name.to_owned() }),
            None => Ok(fields),
        }
    }

    /// The value of a field. One that was not set may be written as null, and then counts as not there.
    pub(super) fn get(&self, name: &str) -> Option<&'a RawValue> {
        let (_, value) = self.0.iter().find(|(known, _)| known == name)?;
        (value.get() != "null").then_some(value)
    }

    /// The same object without the fields of these names and with others in front, whose values are JSON.
    pub(super) fn with(&self, added: &[(&str, String)], removed: &[&str]) -> String {
        let is_kept = |name: &str| !removed.contains(&name) && !added.iter().any(|(other, _)| *other == name);
        let kept =
            self.0.iter().filter(|(name, _)| is_kept(name)).map(|(name, value)| (&**name, value.get()));
        let fields = added.iter().map(|(name, value)| (*name, value.as_str())).chain(kept);
        let length: usize = self.0.iter().map(|(name, value)| name.len() + value.get().len() + 4).sum();
        let mut body = String::with_capacity(length + 128);
        let mut before = '{';
        for (name, value) in fields {
            body.push(before);
            body.push_str(&serde_json::Value::from(name).to_string());
            body.push(':');
            body.push_str(value);
            before = ',';
        }
        if before == '{' {
            body.push('{');
        }
        body.push('}');
        body
    }

    fn repeated(&self) -> Option<&str> {
        // Few enough to compare each with each.
        let is_repeat = |at: usize, name: &str| self.0.iter().take(at).any(|(other, _)| other == name);
        self.0.iter().enumerate().find(|(at, (name, _))| is_repeat(*at, name)).map(|(_, (name, _))| &**name)
    }
}

struct FieldsVisitor {
    /// How many fields there may be; one more is kept, to show that there are too many.
    most: usize,
}

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::new();
        while let Some((Name(name), value)) = map.next_entry()? {
            if fields.len() <= self.most {
                fields.push((name, value));
            }
        }
        Ok(Fields(fields))
    }
}

/// A name or a word that is borrowed where it can be; inside other types only a wrapper is.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub(super) struct Name<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

/// An object read into `T`. A list of its values in order is no object, though the reader behind would take it.
pub(super) fn read_object<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Option<T> {
    raw.get().starts_with('{').then(|| serde_json::from_str(raw.get()).ok()).flatten()
}

fn check_text<'a>(body: &'a [u8], limits: &RequestLimits) -> Result<&'a str, RequestError> {
    if body.len() > limits.body {
        return Err(RequestError::TooLarge { size: body.len(), limit: limits.body });
    }
    let text = str::from_utf8(body).map_err(|error| RequestError::NotUtf8 { at: error.valid_up_to() })?;
    if text.starts_with('\u{FEFF}') {
        return Err(not_json("it begins with a byte order mark".to_owned()));
    }
    if nests_deeper_than(limits.depth, body) {
        return Err(RequestError::TooDeep { limit: limits.depth });
    }
    Ok(text)
}

/// Whether brackets outside of strings nest deeper than `limit`. Of bytes that are not JSON it may say either.
fn nests_deeper_than(limit: usize, json: &[u8]) -> bool {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in json {
        match (in_string, byte) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (_, b'"') => in_string = !in_string,
            (false, b'{' | b'[') => depth += 1,
            (false, b'}' | b']') => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > limit {
            return true;
        }
    }
    false
}

pub(super) fn missing(field: impl Into<String>) -> RequestError {
    RequestError::Missing { field: field.into() }
}

pub(super) fn wrong(field: impl Into<String>, problem: &'static str) -> RequestError {
    RequestError::Wrong { field: field.into(), problem }
}

fn not_json(problem: String) -> RequestError {
    RequestError::NotJson { problem }
}
