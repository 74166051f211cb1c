//! JSON objects, field by field.
//!
//! Values are kept as the text they are and read when they are asked for, so that what is only carried is never built,
//! and so that each complaint can name the way to what is wrong. A complaint names the field; whoever went in to it puts
//! the way before it with [`RequestError::within`].

use crate::chat::JsonText;
use crate::depth::nests_deeper_than;
use crate::request::{Name, RequestLimits, check_text, read_max_output, repeated};
use crate::request_error::RequestError;
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;
use serde_json::value::RawValue;
use std::fmt;

/// How much of an unknown field's name is told.
const LONGEST_NAME: usize = 64;

/// The fields of one object. None is there twice.
pub struct Fields<'a> {
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

    /// The fields of a body, which is no larger and nests no deeper than allowed.
    pub fn read(body: &'a [u8], limits: &RequestLimits) -> Result<Self, RequestError> {
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
    pub fn of_value(raw: &'a RawValue, limits: &RequestLimits) -> Result<Self, RequestError> {
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

    /// Every field that is not null, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        let all = self.names.iter().zip(&self.values).map(|(Name(name), value)| (&**name, *value));
        all.filter(|(_, value)| value.get() != "null")
    }

    /// Whether the field says something.
    #[must_use]
    pub fn has(&self, field: &str) -> bool {
        self.get(field).is_some()
    }

    /// A limit of output, if it is there.
    pub fn max_output(&self, field: &'static str) -> Result<Option<u32>, RequestError> {
        self.get(field).map(|raw| read_max_output(field, raw)).transpose()
    }

    /// Refuses a field of any other name than these.
    pub fn refuse_others(&self, known: &[&str]) -> Result<(), RequestError> {
        let is_known = |Name(name): &&Name<'_>| known.contains(&&**name);
        match self.names.iter().find(|name| !is_known(name)) {
            // Its name goes back to the caller and into logs.
            Some(Name(name)) => {
                let name: String = name.chars().take(LONGEST_NAME).collect();
                Err(RequestError::wrong(name, "is not known here"))
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

    /// The text of a field, if it is there.
    pub fn string(&self, field: &str) -> Result<Option<String>, RequestError> {
        self.get(field).map(|raw| string_of(raw).map_err(|error| error.within(field))).transpose()
    }

    /// The text of a field that must be there.
    pub fn need_string(&self, field: &str) -> Result<String, RequestError> {
        self.string(field)?.ok_or_else(|| RequestError::missing(field))
    }

    /// Whether a field says true; one that is not there does not.
    pub fn boolean(&self, field: &str) -> Result<bool, RequestError> {
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

#[cfg(test)]
mod tests {
    use super::Fields;
    use crate::RequestLimits;

    #[test]
    fn a_field_of_another_name_is_refused_by_as_much_of_it_as_fits_a_line() {
        let limits = RequestLimits::default();
        let long = format!(r#"{{"a":1,"{}":2}}"#, "é".repeat(65));
        let fields = Fields::read(long.as_bytes(), &limits).unwrap();
        let told = fields.refuse_others(&["a"]).unwrap_err().to_string();
        assert_eq!(told, format!("{}: is not known here", "é".repeat(64)));
        let fields = Fields::read(br#"{"b":null,"a":1,"c":2}"#, &limits).unwrap();
        assert!(fields.refuse_others(&["c", "a", "b", "d"]).is_ok());
        assert_eq!(fields.refuse_others(&["a"]).unwrap_err().to_string(), "b: is not known here");
        assert_eq!(["a", "b", "d"].map(|field| fields.has(field)), [true, false, false]);
    }

    #[test]
    fn a_limit_of_output_is_a_whole_number() {
        let limits = RequestLimits::default();
        let read = |text: &str| {
            let body = format!(r#"{{"most":{text}}}"#);
            Fields::read(body.as_bytes(), &limits)
                .unwrap()
                .max_output("most")
                .map_err(|error| error.to_string())
        };
        assert_eq!((read("1"), read("null")), (Ok(Some(1)), Ok(None)));
        assert!(read("0").unwrap_err().starts_with("most: must be a whole number"));
    }
}
