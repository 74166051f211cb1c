//! Address ranges (CIDR).

use super::{ValueError, ValueFormat, ValueKind, expect_text, quoted};
use crate::problem::ProblemCode;
use crate::tree::TomlValue;
use seawall_core::setting::SettingError;
use std::fmt;
use std::net::IpAddr;

/// A CIDR range, such as `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    start: IpAddr,
    /// The prefix length in bits.
    fixed: u32,
}

impl AddressRange {
    /// Parses a range such as `10.0.0.0/8`, or a single address.
    ///
    /// ```
    /// use seawall_config::AddressRange;
    ///
    /// let range = AddressRange::parse("10.0.0.0/8").unwrap();
    /// assert!(range.contains("10.255.0.1".parse().unwrap()) && !range.contains("11.0.0.1".parse().unwrap()));
    /// assert!(AddressRange::parse("10.0.0.1/8").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<Self, SettingError> {
        let error = |problem: &str| SettingError::new("address range", format!("{text:?} {problem}"));
        let (address, fixed) =
            text.split_once('/').map_or((text, None), |(address, fixed)| (address, Some(fixed)));
        let start: IpAddr = address.parse().map_err(|_| error("is not a CIDR range such as 10.0.0.0/8"))?;
        if start != start.to_canonical() {
            return Err(error("is an IPv4-mapped IPv6 address"));
        }
        let width = if start.is_ipv4() { 32 } else { 128 };
        let fixed = match fixed {
            None => width,
            Some(digits) if digits.bytes().all(|digit| digit.is_ascii_digit()) => {
                digits.parse().map_err(|_| error("is not a CIDR range such as 10.0.0.0/8"))?
            }
            Some(_) => return Err(error("is not a CIDR range such as 10.0.0.0/8")),
        };
        if fixed > width {
            return Err(error("has a prefix that is longer than the address"));
        }
        let range = Self { start, fixed };
        // A bit beyond the prefix is a mistake: a smaller range was intended.
        if bits(start) & !range.mask() != 0 {
            return Err(error("has host bits set"));
        }
        Ok(range)
    }

    /// Whether this address is in the range. An IPv4-mapped IPv6 address counts as IPv4.
    #[must_use]
    pub fn contains(self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.start.is_ipv4() && bits(address) & self.mask() == bits(self.start)
    }

    fn mask(self) -> u128 {
        let width = if self.start.is_ipv4() { 32 } else { 128 };
        let all = u128::MAX >> (128 - width);
        all & !all.checked_shr(self.fixed).unwrap_or(0)
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.start, self.fixed)
    }
}

/// A CIDR range such as `10.0.0.0/8`, or a single address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AddressRangeKind;

impl ValueKind for AddressRangeKind {
    type Value = AddressRange;

    fn format() -> ValueFormat {
        ValueFormat::text("a CIDR range", &["10.0.0.0/8", "192.0.2.7/32", "2001:db8::/32"])
            .pattern("^[0-9A-Fa-f:.]+(/[0-9]{1,3})?$")
    }

    fn parse(value: &TomlValue) -> Result<AddressRange, ValueError> {
        let text = expect_text(value, Self::format)?;
        AddressRange::parse(text).map_err(|error| {
            ValueError::new(ProblemCode::ParseError, error.problem().to_owned(), Self::format().advice())
        })
    }

    fn to_toml(value: &AddressRange) -> String {
        quoted(&value.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::{AddressRange, AddressRangeKind, ValueKind as _};
    use crate::tree::TomlValue;
    use std::net::IpAddr;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_range_contains_exactly_the_addresses_with_its_prefix() {
        for (range, inside, outside) in [
            ("10.0.0.0/8", ["10.0.0.0", "10.255.255.255"], ["9.255.255.255", "11.0.0.0"]),
            ("192.0.2.7", ["192.0.2.7", "::ffff:192.0.2.7"], ["192.0.2.6", "192.0.2.8"]),
            ("192.0.2.6/31", ["192.0.2.6", "192.0.2.7"], ["192.0.2.5", "192.0.2.8"]),
            ("0.0.0.0/0", ["0.0.0.0", "255.255.255.255"], ["::", "2001:db8::"]),
            ("2001:db8::/33", ["2001:db8::", "2001:db8:7fff:ffff::1"], ["2001:db8:8000::", "2001:db7::"]),
            ("::/0", ["::1", "ffff::"], ["1.2.3.4", "::ffff:1.2.3.4"]),
        ] {
            let range = AddressRange::parse(range).unwrap();
            assert!(inside.iter().all(|text| range.contains(address(text))), "{range:?}");
            assert!(!outside.iter().any(|text| range.contains(address(text))), "{range:?}");
        }
    }

    #[test]
    fn an_invalid_or_ambiguous_range_is_refused() {
        for (text, problem) in [
            ("", "is not a CIDR range such as 10.0.0.0/8"),
            ("10.0.0.0/", "is not a CIDR range such as 10.0.0.0/8"),
            ("10.0.0.0/+8", "is not a CIDR range such as 10.0.0.0/8"),
            ("10.0.0/8", "is not a CIDR range such as 10.0.0.0/8"),
            ("10.0.0.0/99999999999", "is not a CIDR range such as 10.0.0.0/8"),
            ("10.0.0.0/33", "has a prefix that is longer than the address"),
            ("::/129", "has a prefix that is longer than the address"),
            ("10.0.0.1/8", "has host bits set"),
            ("2001:db8::1/127", "has host bits set"),
            ("::ffff:10.0.0.0/104", "is an IPv4-mapped IPv6 address"),
        ] {
            let error = AddressRange::parse(text).unwrap_err().to_string();
            assert_eq!(error, format!("address range: {text:?} {problem}"));
        }
        assert!(AddressRange::parse("10.0.0.0/32").is_ok() && AddressRange::parse("::1/128").is_ok());
    }

    #[test]
    fn a_range_is_formatted_so_that_it_parses_as_the_same() {
        for (text, shown) in [("10.0.0.0/8", "10.0.0.0/8"), ("192.0.2.7", "192.0.2.7/32"), ("::1", "::1/128")]
        {
            let range = AddressRangeKind::parse(&TomlValue::Text(text.to_owned())).unwrap();
            assert_eq!(AddressRangeKind::to_toml(&range), format!("\"{shown}\""));
            assert_eq!(AddressRange::parse(shown), Ok(range));
        }
        let error = AddressRangeKind::parse(&TomlValue::Text("10.0.0.1/8".to_owned())).unwrap_err();
        assert_eq!(error.message, "\"10.0.0.1/8\" has host bits set");
    }
}
