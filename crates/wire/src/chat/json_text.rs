//! JSON that is passed through without being parsed into a value.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// One JSON value as text. It is validated on construction and never parsed into a tree here.
///
/// ```
/// use seawall_wire::chat::JsonText;
///
/// assert_eq!(JsonText::new(r#"{"volume": 3}"#.to_owned()).unwrap().get(), r#"{"volume": 3}"#);
/// assert!(JsonText::new("{".to_owned()).is_none());
/// ```
#[derive(Clone, Debug)]
pub struct JsonText(Box<RawValue>);

impl JsonText {
    /// Wraps the text. Returns `None` unless it is exactly one JSON value.
    #[must_use]
    pub fn new(text: String) -> Option<Self> {
        RawValue::from_string(text).ok().map(Self)
    }

    /// The empty object, `{}`.
    #[must_use]
    pub fn empty_object() -> Self {
        Self(RawValue::from_string("{}".to_owned()).unwrap_or_else(|_| RawValue::NULL.to_owned()))
    }

    /// The JSON text as received.
    #[must_use]
    pub fn get(&self) -> &str {
        self.0.get()
    }
}

impl PartialEq for JsonText {
    /// Compares the text, byte for byte. Values that are only semantically equal (whitespace, key order) differ.
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Serialize for JsonText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for JsonText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Self)
    }
}
