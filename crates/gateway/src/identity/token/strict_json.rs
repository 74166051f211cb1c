//! JSON without duplicate names.
//!
//! Of a duplicate name, one parser takes the first value and another the last; signer and verifier must not differ. An
//! object with a duplicate name is therefore rejected, at any depth.

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::cell::Cell;
use std::fmt;

/// Why a text could not be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StrictJsonError {
    /// An object has a duplicate name.
    DuplicateName,
    /// It is not JSON, has trailing data, is nested too deeply, or a number is out of range.
    Malformed,
    /// It is JSON, but not an object.
    NotAnObject,
}

/// Parses these bytes as one object without trailing data.
pub(super) fn parse_object(bytes: &[u8]) -> Result<Map<String, Value>, StrictJsonError> {
    let has_duplicate = Cell::new(false);
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = UniqueNames { has_duplicate: &has_duplicate }
        .deserialize(&mut reader)
        .and_then(|value| reader.end().map(|()| value));
    match value {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(StrictJsonError::NotAnObject),
        Err(_) if has_duplicate.get() => Err(StrictJsonError::DuplicateName),
        Err(_) => Err(StrictJsonError::Malformed),
    }
}

/// Deserialises a value, and reports duplicate names.
#[derive(Clone, Copy)]
struct UniqueNames<'a> {
    has_duplicate: &'a Cell<bool>,
}

impl<'de> DeserializeSeed<'de> for UniqueNames<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for UniqueNames<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("not a number"))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = entries.next_key::<String>()? {
            let value = entries.next_value_seed(self)?;
            if object.insert(name, value).is_some() {
                self.has_duplicate.set(true);
                return Err(A::Error::custom("duplicate name"));
            }
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::{StrictJsonError, parse_object};
    use proptest::collection;
    use proptest::prelude::{any, prop_assert_eq, proptest};
    use serde_json::{Value, json};

    #[test]
    fn an_object_is_read_as_it_is() {
        let text = r#" {"a":[1,-2,1.5,"x",null,true,{"a":{}}],"b":18446744073709551615} "#;
        let expected = json!({ "a": [1, -2, 1.5, "x", null, true, { "a": {} }], "b": u64::MAX });
        assert_eq!(parse_object(text.as_bytes()).map(Value::Object), Ok(expected));
    }

    #[test]
    fn what_could_mean_two_things_is_refused() {
        for text in [r#"{"a":1,"a":1}"#, r#"{"a":1,"\u0061":2}"#, r#"{"x":[{"a":1,"b":2,"a":3}]}"#] {
            assert_eq!(parse_object(text.as_bytes()), Err(StrictJsonError::DuplicateName), "{text}");
        }
        let deep = format!("{}1{}", "{\"a\":".repeat(200), "}".repeat(200));
        for text in
            ["", "{", "{}{}", "{} x", "{a:1}", r#"{"a":1e309}"#, r#"{"a":NaN}"#, "{\"a\":\"\n\"}", &deep]
        {
            assert_eq!(parse_object(text.as_bytes()), Err(StrictJsonError::Malformed), "{text}");
        }
        assert_eq!(parse_object(b"\xef\xbb\xbf{}"), Err(StrictJsonError::Malformed));
        assert_eq!(parse_object(b"{\"a\":\"\xff\"}"), Err(StrictJsonError::Malformed));
        for text in ["[]", "1", "null", "\"{}\"", "true"] {
            assert_eq!(parse_object(text.as_bytes()), Err(StrictJsonError::NotAnObject), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_read_is_what_the_usual_reader_reads(bytes in collection::vec(any::<u8>(), 0..40)) {
            if let Ok(read) = parse_object(&bytes) {
                prop_assert_eq!(serde_json::from_slice::<Value>(&bytes).ok(), Some(Value::Object(read)));
            }
        }
    }
}
