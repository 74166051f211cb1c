//! Money in integer nano-dollars.
//!
//! A nano-dollar is a thousandth of what one output token of a cheap model costs, so that sums over a billion tokens
//! are exact and still fit a `u64` (18 thousand million dollars). Arithmetic is checked, or saturates where that errs
//! on the safe side; nothing wraps and nothing is a float.

mod list;
mod price;
mod table;

pub use list::{ListedModel, ModelPriceOptions, PriceError, PriceList};
pub use price::{Price, Usage};
pub use table::{
    PriceDimension, PriceMultiplier, PriceTable, RequestedPricing, ServiceTier, Surcharge, UnpricedRequest,
    UsageExtras,
};

use crate::setting::SettingError;
use std::fmt;
use std::iter::Sum;

/// An amount of US dollars, in nano-dollars.
///
/// ```
/// use seawall_core::money::Money;
///
/// let cap = Money::from_dollars(5_000);
/// assert_eq!(cap.checked_sub(Money::from_nanos(1)).unwrap().to_string(), "$4999.999999999");
/// assert_eq!(Money::from_nanos(7_350_000).to_string(), "$0.00735");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Money(u64);

const NANOS_PER_DOLLAR: u64 = 1_000_000_000;

impl Money {
    /// Zero dollars.
    pub const ZERO: Self = Self(0);
    /// The largest representable amount.
    pub const MAX: Self = Self(u64::MAX);

    /// An amount in nano-dollars.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// An amount in whole dollars, saturating.
    #[must_use]
    pub const fn from_dollars(dollars: u64) -> Self {
        Self(dollars.saturating_mul(NANOS_PER_DOLLAR))
    }

    /// Parses dollars with up to nine decimals, such as `5000`, `0.25` or `$12.50`.
    ///
    /// ```
    /// use seawall_core::money::Money;
    ///
    /// assert_eq!(Money::parse("$0.01").unwrap(), Money::from_nanos(10_000_000));
    /// assert!(Money::parse("-1").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<Self, SettingError> {
        let error =
            || SettingError::new("money", format!("{text:?} is not an amount such as 5000, 0.25 or $12.50"));
        let amount = text.strip_prefix('$').unwrap_or(text);
        let (dollars, decimals) = amount.split_once('.').unwrap_or((amount, "0"));
        let is_number =
            |digits: &str| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
        if !is_number(dollars) || !is_number(decimals) || decimals.len() > 9 {
            return Err(error());
        }
        let dollars: u64 = dollars.parse().map_err(|_| error())?;
        let nanos: u64 = format!("{decimals:0<9}").parse().map_err(|_| error())?;
        let dollar_nanos = dollars.checked_mul(NANOS_PER_DOLLAR).ok_or_else(error)?;
        dollar_nanos.checked_add(nanos).map(Self).ok_or_else(error)
    }

    /// The amount in nano-dollars.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The sum, or `None` on overflow.
    #[must_use]
    pub const fn checked_add(self, other: Self) -> Option<Self> {
        match self.0.checked_add(other.0) {
            Some(sum) => Some(Self(sum)),
            None => None,
        }
    }

    /// The difference, or `None` if it is negative.
    #[must_use]
    pub const fn checked_sub(self, other: Self) -> Option<Self> {
        match self.0.checked_sub(other.0) {
            Some(rest) => Some(Self(rest)),
            None => None,
        }
    }

    /// The sum, capped at [`Money::MAX`].
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference, or zero if it is negative.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Sum for Money {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, Self::saturating_add)
    }
}

impl fmt::Display for Money {
    /// Dollars with at least two decimals, and as many more as are needed.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (dollars, nanos) = (self.0 / NANOS_PER_DOLLAR, self.0 % NANOS_PER_DOLLAR);
        let decimals = format!("{nanos:09}");
        let shown = decimals.trim_end_matches('0').len().max(2);
        write!(formatter, "${dollars}.{}", &decimals[..shown])
    }
}

#[cfg(test)]
mod tests {
    use super::Money;

    #[test]
    fn amounts_are_written_in_dollars_with_at_least_two_decimals() {
        for (nanos, text) in [
            (0, "$0.00"),
            (1, "$0.000000001"),
            (500_000_000, "$0.50"),
            (1_230_000_000, "$1.23"),
            (1_234_500_000, "$1.2345"),
            (u64::MAX, "$18446744073.709551615"),
        ] {
            assert_eq!(Money::from_nanos(nanos).to_string(), text);
        }
    }

    #[test]
    fn amounts_are_read_exactly_or_not_at_all() {
        for (text, nanos) in [
            ("0", 0),
            ("5000", 5_000_000_000_000),
            ("$12.50", 12_500_000_000),
            ("0.000000001", 1),
            ("18446744073.709551615", u64::MAX),
        ] {
            assert_eq!(Money::parse(text).map(Money::as_nanos), Ok(nanos), "{text}");
        }
        for wrong in [
            "",
            "$",
            "-1",
            "+1",
            "1.",
            ".5",
            "1.2.3",
            "1e3",
            "1,000",
            "0.0000000001",
            "18446744073.709551616",
            "１",
        ] {
            let problem = format!("money: {wrong:?} is not an amount such as 5000, 0.25 or $12.50");
            assert_eq!(Money::parse(wrong).unwrap_err().to_string(), problem);
        }
    }

    #[test]
    fn sums_and_differences_neither_wrap_nor_go_below_nothing() {
        let one = Money::from_nanos(1);
        assert_eq!((Money::MAX.checked_add(one), Money::ZERO.checked_sub(one)), (None, None));
        assert_eq!(
            (Money::MAX.saturating_add(one), Money::ZERO.saturating_sub(one)),
            (Money::MAX, Money::ZERO)
        );
        assert_eq!(one.checked_add(one), Some(Money::from_nanos(2)));
        assert_eq!(Money::from_nanos(3).checked_sub(one), Some(Money::from_nanos(2)));
        assert_eq!(Money::from_nanos(3).saturating_sub(one).saturating_add(one).as_nanos(), 3);
        assert_eq!([one, one, one].into_iter().sum::<Money>(), Money::from_nanos(3));
        assert_eq!([Money::MAX, one].into_iter().sum::<Money>(), Money::MAX);
        assert_eq!(Money::from_dollars(u64::MAX), Money::MAX);
    }
}
