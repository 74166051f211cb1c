//! Tolerant reading of the usage section of an answer.
//!
//! An answer with an unusable usage figure is still a valid answer: a figure that is negative, fractional, too large or
//! not a number must not make the answer unreadable. An unusable figure is distinguished from an absent one, because it
//! may stand for something billed, so it is charged at its upper bound.

use serde::de::Deserializer;
use serde::de::value::U64Deserializer;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

/// One figure or section of the reported usage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Lenient<T> {
    /// Missing, or null.
    #[default]
    Absent,
    /// Present but of the wrong type or out of range.
    Invalid,
    /// The parsed value.
    Present(T),
}

impl<T> Lenient<T> {
    pub(crate) const fn get(&self) -> Option<&T> {
        match self {
            Self::Present(part) => Some(part),
            Self::Absent | Self::Invalid => None,
        }
    }

    pub(crate) const fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    pub(crate) const fn is_invalid(&self) -> bool {
        matches!(self, Self::Invalid)
    }
}

impl Lenient<u64> {
    pub(crate) const fn count(self) -> Option<u64> {
        match self {
            Self::Present(count) => Some(count),
            Self::Absent | Self::Invalid => None,
        }
    }
}

impl<T> From<Option<T>> for Lenient<T> {
    fn from(part: Option<T>) -> Self {
        part.map_or(Self::Absent, Self::Present)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Lenient<T> {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        // Read as raw text first: a number that fits no type would otherwise fail the whole document.
        let raw = <&'de RawValue>::deserialize(json)?.get();
        if raw == "null" {
            return Ok(Self::Absent);
        }
        // Most parts are counts, which need no second parser.
        if let Ok(count) = raw.parse::<u64>() {
            let value = T::deserialize(U64Deserializer::<serde::de::value::Error>::new(count));
            return Ok(value.map_or(Self::Invalid, Self::Present));
        }
        Ok(serde_json::from_str(raw).map_or(Self::Invalid, Self::Present))
    }
}

impl<T: Serialize> Serialize for Lenient<T> {
    fn serialize<S: Serializer>(&self, json: S) -> Result<S::Ok, S::Error> {
        self.get().serialize(json)
    }
}

#[cfg(test)]
mod tests {
    use super::Lenient::{self, Absent, Invalid, Present};
    use proptest::prelude::{any, prop_assert_eq, proptest};
    use serde::Deserialize;

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(default)]
    struct Part {
        count: Lenient<u64>,
    }

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(default)]
    struct All {
        usage: Lenient<Part>,
        end: bool,
    }

    #[test]
    fn whatever_stands_there_the_rest_is_read() {
        for (count, expected) in [
            ("7", Present(7)),
            ("18446744073709551615", Present(u64::MAX)),
            ("null", Absent),
            ("-1", Invalid),
            ("1.5", Invalid),
            ("12.0", Invalid),
            ("1e3", Invalid),
            ("18446744073709551616", Invalid),
            ("1e400", Invalid),
            ("-1e400", Invalid),
            ("true", Invalid),
            (r#""7""#, Invalid),
            (r#""\ud800""#, Invalid),
            ("[7]", Invalid),
            (r#"{"count":7}"#, Invalid),
        ] {
            let body = format!(r#"{{"usage":{{"count":{count}}},"end":true}}"#);
            let read: All = serde_json::from_str(&body).unwrap();
            assert_eq!(read, All { usage: Present(Part { count: expected }), end: true }, "{count}");
        }
        for (usage, expected) in [
            ("null", Absent),
            ("7", Invalid),
            (r#""none""#, Invalid),
            ("[]", Present(Part::default())),
            (r#"{"count":1,"count":2}"#, Invalid),
            ("{}", Present(Part::default())),
        ] {
            let read: All = serde_json::from_str(&format!(r#"{{"usage":{usage},"end":true}}"#)).unwrap();
            assert_eq!(read, All { usage: expected, end: true }, "{usage}");
        }
    }

    proptest! {
        #[test]
        fn a_count_is_what_it_says(count in any::<u64>()) {
            let read: Part = serde_json::from_str(&format!(r#"{{"count": {count} }}"#)).unwrap();
            prop_assert_eq!(read.count.count(), Some(count));
        }
    }
}
