//! Tolerant readers for values of requests and answers: any JSON type is accepted.

use super::is_base_price;
use seawall_core::money::{PriceDimension, ServiceLevel, Surcharge};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

/// The service option (one price dimension) that an answer reports. `None` if it reports nothing known.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Served(Option<Option<Surcharge>>);

impl<'de> Deserialize<'de> for Served {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        Ok(Text::deserialize(json)?.text.map(|value| served_as(&value)).unwrap_or_default())
    }
}

/// Parses the value of a service option in an answer.
pub(crate) fn served_as(value: &str) -> Served {
    Served(if is_base_price(value) { Some(None) } else { Surcharge::parse(value).ok().map(Some) })
}

impl Served {
    pub(crate) const fn onto(self, level: ServiceLevel, dimension: PriceDimension) -> ServiceLevel {
        match self.0 {
            Some(served) => level.with(dimension, served),
            None => level,
        }
    }
}

/// A string (borrowed if possible) or an unsigned integer; any other type reads as neither.
#[derive(Default)]
pub(crate) struct Text<'a> {
    pub(crate) text: Option<Cow<'a, str>>,
    pub(super) number: Option<u64>,
}

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        json.deserialize_any(TextVisitor)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
        Ok(Text { text: Some(Cow::Borrowed(text)), number: None })
    }

    fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
        Ok(Text { text: Some(Cow::Owned(text.to_owned())), number: None })
    }

    fn visit_u64<E>(self, number: u64) -> Result<Text<'de>, E> {
        Ok(Text { text: None, number: Some(number) })
    }

    fn visit_i64<E>(self, _: i64) -> Result<Text<'de>, E> {
        Ok(Text::default())
    }

    fn visit_f64<E>(self, _: f64) -> Result<Text<'de>, E> {
        Ok(Text::default())
    }

    fn visit_bool<E>(self, _: bool) -> Result<Text<'de>, E> {
        Ok(Text::default())
    }

    fn visit_unit<E>(self) -> Result<Text<'de>, E> {
        Ok(Text::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Text<'de>, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Text::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Text<'de>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Text::default())
    }
}
