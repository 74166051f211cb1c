//! Amounts of money, exact to the nano-dollar.

use super::number::{whole, with_commas};
use super::{ValueError, ValueFormat, ValueKind, expect_text, number_error, quoted};
use crate::tree::TomlValue;
use seawall_core::budget::BudgetPeriod;
use seawall_core::money::Money;

const NANOS_PER_DOLLAR: u64 = 1_000_000_000;

/// An amount per day, such as `$5,000/day`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DailyAmountKind;

/// A price per million tokens, such as `$3/M`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenPriceKind;

/// Dollars with at most nine decimals and optional commas between thousands; the dollar sign is optional.
pub(crate) fn parse_amount(text: &str) -> Option<Money> {
    let amount = text.strip_prefix('$').unwrap_or(text);
    let (dollars, decimals) = amount.split_once('.').map_or((amount, None), |(a, b)| (a, Some(b)));
    let dollars = whole(dollars)?;
    Money::parse(&match decimals {
        None => dollars.to_string(),
        Some(decimals) => format!("{dollars}.{decimals}"),
    })
    .ok()
}

/// The daily amount that nothing exceeds: no budget.
const UNLIMITED: &str = "unlimited";

pub(super) fn parse_day_amount(text: &str) -> Option<Money> {
    if text == UNLIMITED {
        return Some(Money::MAX);
    }
    parse_amount(text.strip_suffix("/day").or_else(|| text.strip_suffix("/d"))?)
}

pub(super) fn parse_price(text: &str) -> Option<Money> {
    parse_amount(text.strip_suffix("/M")?)
}

/// Dollars with commas, and decimals only where there are cents.
fn shown(amount: Money) -> String {
    let dollars = with_commas(amount.as_nanos() / NANOS_PER_DOLLAR);
    if amount.as_nanos().is_multiple_of(NANOS_PER_DOLLAR) {
        return format!("${dollars}");
    }
    let text = amount.to_string();
    let decimals = text.split_once('.').map_or("", |(_, decimals)| decimals);
    format!("${dollars}.{decimals}")
}

/// The largest amount that can be represented.
fn largest(unit: &str) -> String {
    format!("{}{unit}", shown(Money::from_dollars(u64::MAX / NANOS_PER_DOLLAR)))
}

impl ValueKind for DailyAmountKind {
    type Value = Money;

    fn format() -> ValueFormat {
        ValueFormat::text("a daily amount", &["$5,000/day", "$5/day", "$0.50/day", UNLIMITED])
            .pattern("^(unlimited|\\$?[0-9][0-9,]*(\\.[0-9]{1,9})?/(day|d))$")
            .bare_number("\"${}/day\"")
    }

    fn parse(value: &TomlValue) -> Result<Money, ValueError> {
        let text = expect_text(value, Self::format)?;
        parse_day_amount(text)
            .ok_or_else(|| number_error(text, &Self::format(), &largest("/day"), parse_day_amount))
    }

    fn to_toml(value: &Money) -> String {
        if *value == Money::MAX {
            return quoted(UNLIMITED);
        }
        quoted(&format!("{}/day", shown(*value)))
    }
}

/// An amount per period, such as `$50/month`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeriodAmountKind;

/// The names of periods. Of several names the first is used for output.
const PERIODS: [(&str, BudgetPeriod); 7] = [
    ("hour", BudgetPeriod::Hour),
    ("day", BudgetPeriod::Day),
    ("week", BudgetPeriod::Week),
    ("month", BudgetPeriod::Month),
    ("quarter", BudgetPeriod::Quarter),
    ("h", BudgetPeriod::Hour),
    ("d", BudgetPeriod::Day),
];

pub(crate) fn parse_period_amount(text: &str) -> Option<(BudgetPeriod, Money)> {
    let (amount, name) = text.split_once('/')?;
    let (_, period) = PERIODS.into_iter().find(|(known, _)| *known == name)?;
    Some((period, parse_amount(amount)?))
}

impl ValueKind for PeriodAmountKind {
    type Value = (BudgetPeriod, Money);

    fn format() -> ValueFormat {
        ValueFormat::text("an amount per period", &["$50/month", "$5/day", "$0.50/hour", "$1,000/quarter"])
            .pattern("^\\$?[0-9][0-9,]*(\\.[0-9]{1,9})?/(hour|h|day|d|week|month|quarter)$")
            .bare_number("\"${}/month\"")
    }

    fn parse(value: &TomlValue) -> Result<(BudgetPeriod, Money), ValueError> {
        let text = expect_text(value, Self::format)?;
        parse_period_amount(text)
            .ok_or_else(|| number_error(text, &Self::format(), &largest("/month"), parse_period_amount))
    }

    fn to_toml((period, amount): &(BudgetPeriod, Money)) -> String {
        quoted(&format!("{}/{period}", shown(*amount)))
    }
}

/// A single amount, such as `$0.01`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AmountKind;

impl ValueKind for AmountKind {
    type Value = Money;

    fn format() -> ValueFormat {
        ValueFormat::text("an amount", &["$0.01", "$0.025", "$1"])
            .pattern("^\\$?[0-9][0-9,]*(\\.[0-9]{1,9})?$")
            .bare_number("\"${}\"")
    }

    fn parse(value: &TomlValue) -> Result<Money, ValueError> {
        let text = expect_text(value, Self::format)?;
        parse_amount(text).ok_or_else(|| number_error(text, &Self::format(), &largest(""), parse_amount))
    }

    fn to_toml(value: &Money) -> String {
        quoted(&shown(*value))
    }
}

impl ValueKind for TokenPriceKind {
    type Value = Money;

    fn format() -> ValueFormat {
        ValueFormat::text("a price per million tokens", &["$3/M", "$0.25/M", "$15/M"])
            .pattern("^\\$?[0-9][0-9,]*(\\.[0-9]{1,9})?/M$")
            .bare_number("\"${}/M\"")
    }

    fn parse(value: &TomlValue) -> Result<Money, ValueError> {
        let text = expect_text(value, Self::format)?;
        parse_price(text).ok_or_else(|| number_error(text, &Self::format(), &largest("/M"), parse_price))
    }

    fn to_toml(value: &Money) -> String {
        quoted(&format!("{}/M", shown(*value)))
    }
}

#[cfg(test)]
mod tests {
    use super::{parse_amount, parse_day_amount, parse_price, shown};
    use proptest::prelude::{any, prop_assert_eq, proptest};
    use seawall_core::money::Money;

    #[test]
    fn amounts_are_exact_or_refused() {
        for (text, nanos) in [
            ("$5,000", 5_000_000_000_000),
            ("5000", 5_000_000_000_000),
            ("$0.000000001", 1),
            ("$1,234,567.89", 1_234_567_890_000_000),
        ] {
            assert_eq!(parse_amount(text), Some(Money::from_nanos(nanos)), "{text}");
        }
        for wrong in
            ["", "$", "$5,00", "$50,00", "$,500", "-$5", "$1.", "$.5", "$0.0000000001", "€5", "$99999999999"]
        {
            assert_eq!(parse_amount(wrong), None, "{wrong}");
        }
        assert_eq!(parse_day_amount("$5/day"), Some(Money::from_dollars(5)));
        assert_eq!(parse_price("$0.25/M"), Some(Money::from_nanos(250_000_000)));
        assert_eq!(
            (parse_day_amount("$5"), parse_price("$5/k"), parse_day_amount("$5/month")),
            (None, None, None)
        );
    }

    proptest! {
        #[test]
        fn a_formatted_amount_parses_as_the_same(nanos in any::<u64>()) {
            let amount = Money::from_nanos(nanos);
            prop_assert_eq!(parse_amount(&shown(amount)), Some(amount));
        }
    }
}
