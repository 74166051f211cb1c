//! Tolerant reading of the usage section of an answer.
//!
//! An answer with an unusable usage figure is still a valid answer: a figure that is negative, fractional, too large or
//! not a number must not make the answer unreadable. An unusable figure is distinguished from an absent one, because it
//! may stand for something billed, so it is charged at its upper bound.

use serde::de::Deserializer;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

/// One figure or section of the reported usage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reported<T> {
    /// Missing, or null.
    #[default]
    Absent,
    /// Present but of the wrong type or out of range.
    Unusable,
    /// The parsed value.
    Told(T),
}

impl<T> Reported<T> {
    pub(crate) const fn told(&self) -> Option<&T> {
        match self {
            Self::Told(part) => Some(part),
            Self::Absent | Self::Unusable => None,
        }
    }

    pub(crate) const fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    pub(crate) const fn is_unusable(&self) -> bool {
        matches!(self, Self::Unusable)
    }
}

impl Reported<u64> {
    pub(crate) const fn count(self) -> Option<u64> {
        match self {
            Self::Told(count) => Some(count),
            Self::Absent | Self::Unusable => None,
        }
    }
}

impl<T> From<Option<T>> for Reported<T> {
    fn from(part: Option<T>) -> Self {
        part.map_or(Self::Absent, Self::Told)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Reported<T> {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        // Read as raw text first: a number that fits no type would otherwise fail the whole document.
        let raw = <&'de RawValue>::deserialize(json)?.get();
        if raw == "null" {
            return Ok(Self::Absent);
        }
        Ok(serde_json::from_str(raw).map_or(Self::Unusable, Self::Told))
    }
}

impl<T: Serialize> Serialize for Reported<T> {
    fn serialize<S: Serializer>(&self, json: S) -> Result<S::Ok, S::Error> {
        self.told().serialize(json)
    }
}

#[cfg(test)]
mod tests {
    use super::Reported::{self, Absent, Told, Unusable};
    use proptest::prelude::{any, prop_assert_eq, proptest};
    use serde::Deserialize;

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(default)]
    struct Part {
        count: Reported<u64>,
    }

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(default)]
    struct All {
        usage: Reported<Part>,
        end: bool,
    }

    #[test]
    fn whatever_stands_there_the_rest_is_read() {
        for (count, expected) in [
            ("7", Told(7)),
            ("18446744073709551615", Told(u64::MAX)),
            ("null", Absent),
            ("-1", Unusable),
            ("1.5", Unusable),
            ("12.0", Unusable),
            ("1e3", Unusable),
            ("18446744073709551616", Unusable),
            ("1e400", Unusable),
            ("-1e400", Unusable),
            ("true", Unusable),
            (r#""7""#, Unusable),
            (r#""\ud800""#, Unusable),
            ("[7]", Unusable),
            (r#"{"count":7}"#, Unusable),
        ] {
            let body = format!(r#"{{"usage":{{"count":{count}}},"end":true}}"#);
            let read: All = serde_json::from_str(&body).unwrap();
            assert_eq!(read, All { usage: Told(Part { count: expected }), end: true }, "{count}");
        }
        for (usage, expected) in [
            ("null", Absent),
            ("7", Unusable),
            (r#""none""#, Unusable),
            ("[]", Told(Part::default())),
            (r#"{"count":1,"count":2}"#, Unusable),
            ("{}", Told(Part::default())),
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
