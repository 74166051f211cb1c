//! Tolerant readers for values of requests and answers: any JSON type is accepted.

use super::is_base_price;
use seawall_core::money::{PriceDimension, ServiceTier, Surcharge};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

/// The service option (one price dimension) that an answer reports. `None` if it reports nothing known.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ServiceOption(Option<Option<Surcharge>>);

impl<'de> Deserialize<'de> for ServiceOption {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        Ok(LenientScalar::deserialize(json)?
            .text
            .map(|value| parse_service_option(&value))
            .unwrap_or_default())
    }
}

/// Parses the value of a service option in an answer.
pub(crate) fn parse_service_option(value: &str) -> ServiceOption {
    ServiceOption(if is_base_price(value) { Some(None) } else { Surcharge::parse(value).ok().map(Some) })
}

impl ServiceOption {
    pub(crate) const fn apply_to(self, level: ServiceTier, dimension: PriceDimension) -> ServiceTier {
        match self.0 {
            Some(served) => level.with(dimension, served),
            None => level,
        }
    }
}

/// A string (borrowed if possible) or an unsigned integer; any other type reads as neither.
#[derive(Default)]
pub(crate) struct LenientScalar<'a> {
    pub(crate) text: Option<Cow<'a, str>>,
    pub(super) number: Option<u64>,
}

impl<'de> Deserialize<'de> for LenientScalar<'de> {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        json.deserialize_any(LenientScalarVisitor)
    }
}

struct LenientScalarVisitor;

impl<'de> Visitor<'de> for LenientScalarVisitor {
    type Value = LenientScalar<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<LenientScalar<'de>, E> {
        Ok(LenientScalar { text: Some(Cow::Borrowed(text)), number: None })
    }

    fn visit_str<E>(self, text: &str) -> Result<LenientScalar<'de>, E> {
        Ok(LenientScalar { text: Some(Cow::Owned(text.to_owned())), number: None })
    }

    fn visit_u64<E>(self, number: u64) -> Result<LenientScalar<'de>, E> {
        Ok(LenientScalar { text: None, number: Some(number) })
    }

    fn visit_i64<E>(self, _: i64) -> Result<LenientScalar<'de>, E> {
        Ok(LenientScalar::default())
    }

    fn visit_f64<E>(self, _: f64) -> Result<LenientScalar<'de>, E> {
        Ok(LenientScalar::default())
    }

    fn visit_bool<E>(self, _: bool) -> Result<LenientScalar<'de>, E> {
        Ok(LenientScalar::default())
    }

    fn visit_unit<E>(self) -> Result<LenientScalar<'de>, E> {
        Ok(LenientScalar::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<LenientScalar<'de>, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(LenientScalar::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<LenientScalar<'de>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(LenientScalar::default())
    }
}
