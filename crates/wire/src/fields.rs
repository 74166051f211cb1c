//! JSON objects, field by field.
//!
//! Values are kept as the text they are and read when they are asked for, so that what is only carried is never built,
//! and so that each complaint can name the way to what is wrong. A complaint names the field; whoever went in to it puts
//! the way before it with [`RequestError::within`].

use crate::chat::JsonText;
use crate::depth::nests_deeper_than;
use crate::request::{Name, RequestLimits, check_text, repeated};
use crate::request_error::RequestError;
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;
use serde_json::value::RawValue;
use std::fmt;

/// The fields of one object. None is there twice.
pub(crate) struct Fields<'a> {
    names: Vec<Name<'a>>,
    values: Vec<&'a RawValue>,
}

impl<'a> Fields<'a> {
    /// The fields of a whole body.
    pub(crate) fn of_body(text: &'a str, limits: &RequestLimits) -> Result<Self, RequestError> {
        let mut json = serde_json::Deserializer::from_str(text);
        let fields = json.deserialize_map(FieldsVisitor { most: limits.fields });
        let fields = fields.and_then(|fields| json.end().map(|()| fields));
        let fields = fields.map_err(|error| match error.classify() {
            Category::Data => RequestError::NotAnObject,
            Category::Io | Category::Syntax | Category::Eof => RequestError::not_json(error.to_string()),
        })?;
        if fields.names.len() > limits.fields {
            return Err(RequestError::TooManyFields { limit: limits.fields });
        }
        fields.without_repetition()
    }

    /// The fields of a body of bytes.
    pub(crate) fn read(body: &'a [u8], limits: &RequestLimits) -> Result<Self, RequestError> {
        Self::of_body(check_text(body, limits)?, limits)
    }

    /// The same object without the fields of these names and with others in front, whose values are JSON.
    pub(crate) fn with(&self, added: &[(&str, String)], removed: &[&str]) -> String {
        let is_kept = |name: &str| !removed.contains(&name) && !added.iter().any(|(other, _)| *other == name);
        let kept = self.names.iter().zip(&self.values).map(|(Name(name), value)| (&**name, value.get()));
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

    /// The fields of an object inside a body that is known to be JSON.
    pub(crate) fn of_value(raw: &'a RawValue, limits: &RequestLimits) -> Result<Self, RequestError> {
        let mut json = serde_json::Deserializer::from_str(raw.get());
        let fields = json.deserialize_map(FieldsVisitor { most: limits.fields });
        let fields = fields.map_err(|_| RequestError::wrong("", "must be an object"))?;
        if fields.names.len() > limits.fields {
            return Err(RequestError::TooMany { field: String::new(), limit: limits.fields });
        }
        fields.without_repetition()
    }

    fn without_repetition(self) -> Result<Self, RequestError> {
        match repeated(&self.names) {
            Some(Name(name)) => Err(RequestError::Duplicate { field: name.to_string() }),
            None => Ok(self),
        }
    }

    /// The field's value as text, unless it is null: clients write a field that was not set so.
    pub(crate) fn get(&self, field: &str) -> Option<&'a RawValue> {
        self.get_any(field).filter(|raw| raw.get() != "null")
    }

    /// The field's value as text.
    pub(crate) fn get_any(&self, field: &str) -> Option<&'a RawValue> {
        let at = self.names.iter().position(|Name(name)| name == field)?;
        self.values.get(at).copied()
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    pub(crate) fn need(&self, field: &str) -> Result<&'a RawValue, RequestError> {
        self.get(field).ok_or_else(|| RequestError::missing(field))
    }

    pub(crate) fn string(&self, field: &str) -> Result<Option<String>, RequestError> {
        self.get(field).map(|raw| string_of(raw).map_err(|error| error.within(field))).transpose()
    }

    pub(crate) fn need_string(&self, field: &str) -> Result<String, RequestError> {
        self.string(field)?.ok_or_else(|| RequestError::missing(field))
    }

    pub(crate) fn boolean(&self, field: &str) -> Result<bool, RequestError> {
        match self.get(field).map(RawValue::get) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(RequestError::wrong(field, "must be true or false")),
        }
    }

    /// A number that exists: neither too large for its type nor endless.
    pub(crate) fn number(&self, field: &str) -> Result<Option<f64>, RequestError> {
        let Some(raw) = self.get(field) else { return Ok(None) };
        // By the standard library, which rounds to the nearest.
        let number = raw.get().parse().ok().filter(|number: &f64| number.is_finite());
        number.map(Some).ok_or_else(|| RequestError::wrong(field, "must be a number"))
    }

    pub(crate) fn object(&self, field: &str, limits: &RequestLimits) -> Result<Option<Self>, RequestError> {
        let read = |raw| Self::of_value(raw, limits).map_err(|error| error.within(field));
        self.get(field).map(read).transpose()
    }

    pub(crate) fn need_object(&self, field: &str, limits: &RequestLimits) -> Result<Self, RequestError> {
        self.object(field, limits)?.ok_or_else(|| RequestError::missing(field))
    }

    /// Reads each member of a list; none when the field is not there.
    pub(crate) fn each<T>(
        &self,
        field: &str,
        limits: &RequestLimits,
        read: impl FnMut(&'a RawValue) -> Result<T, RequestError>,
    ) -> Result<Vec<T>, RequestError> {
        let Some(raw) = self.get(field) else { return Ok(Vec::new()) };
        each(raw, limits, read).map_err(|error| error.within(field))
    }
}

/// Reads each member of a list.
pub(crate) fn each<'a, T>(
    raw: &'a RawValue,
    limits: &RequestLimits,
    mut read: impl FnMut(&'a RawValue) -> Result<T, RequestError>,
) -> Result<Vec<T>, RequestError> {
    let mut list = ListVisitor { most: limits.members, is_full: false };
    let members = serde_json::Deserializer::from_str(raw.get()).deserialize_seq(&mut list);
    if list.is_full {
        return Err(RequestError::TooMany { field: String::new(), limit: limits.members });
    }
    let members = members.map_err(|_| RequestError::wrong("", "must be a list"))?;
    let one = |(at, raw)| read(raw).map_err(|error| error.within(&format!("{at}")));
    members.into_iter().enumerate().map(one).collect()
}

pub(crate) fn string_of(raw: &RawValue) -> Result<String, RequestError> {
    serde_json::from_str(raw.get()).map_err(|_| RequestError::wrong("", "must be a string"))
}

pub(crate) fn is_string(raw: &RawValue) -> bool {
    raw.get().starts_with('"')
}

/// An object that is carried as it is.
pub(crate) fn object_text(raw: &RawValue, limits: &RequestLimits) -> Result<JsonText, RequestError> {
    object_of(raw.get().to_owned(), limits.depth).ok_or_else(|| RequestError::wrong("", "must be an object"))
}

/// The text, if it is an object that nests no deeper than so many levels. Inside a string it was not looked at before.
pub(crate) fn object_of(text: String, depth: usize) -> Option<JsonText> {
    let is_shallow = !nests_deeper_than(depth, text.as_bytes());
    JsonText::new(text).filter(|json| is_shallow && json.get().starts_with('{'))
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
        let (mut names, mut values) = (Vec::new(), Vec::new());
        while let Some((name, value)) = map.next_entry::<Name<'de>, &RawValue>()? {
            if names.len() <= self.most {
                names.push(name);
                values.push(value);
            }
        }
        Ok(Fields { names, values })
    }
}

struct ListVisitor {
    most: usize,
    is_full: bool,
}

impl<'de> Visitor<'de> for &mut ListVisitor {
    type Value = Vec<&'de RawValue>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = list.next_element()? {
            if members.len() == self.most {
                self.is_full = true;
                return Err(A::Error::custom("too many"));
            }
            members.push(member);
        }
        Ok(members)
    }
}
