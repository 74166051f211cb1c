//! Counts, percentages, sizes, rates.

use super::{JsonType, ValueError, ValueFormat, ValueKind, expect_text, number_error, quoted, text_error};
use crate::problem::ProblemCode;
use crate::tree::TomlValue;
use std::fmt;

/// A whole number with optional commas between thousands.
pub(super) fn whole(text: &str) -> Option<u64> {
    is_well_formed(text).then(|| text.replace(',', "").parse().ok())?
}

/// Whether these are digits with correct or no commas between thousands, of any length.
pub(super) fn is_well_formed(text: &str) -> bool {
    let digits = |group: &str| !group.is_empty() && group.bytes().all(|byte| byte.is_ascii_digit());
    let mut groups = text.split(',');
    let Some(first) = groups.next() else { return false };
    digits(first)
        && (!text.contains(',') || first.len() <= 3)
        && groups.all(|group| group.len() == 3 && digits(group))
}

/// A decimal number times `unit`, if the result is exact.
pub(super) fn decimal(text: &str, unit: u64) -> Option<u64> {
    let (before, after) = text.split_once('.').unwrap_or((text, "0"));
    let mut sum = whole(before)?.checked_mul(unit)?;
    if after.is_empty() || !after.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let mut fraction = u128::from(unit);
    let (mut numerator, mut denominator) = (0_u128, 1_u128);
    for byte in after.trim_end_matches('0').bytes() {
        denominator = denominator.checked_mul(10)?;
        numerator = numerator.checked_mul(10)?.checked_add(u128::from(byte - b'0'))?;
    }
    fraction = fraction.checked_mul(numerator)?;
    if fraction % denominator != 0 {
        return None;
    }
    sum = sum.checked_add(u64::try_from(fraction / denominator).ok()?)?;
    Some(sum)
}

/// Formats a number with commas between thousands.
pub(super) fn with_commas(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn integer(value: &TomlValue, format: &ValueFormat) -> Result<u64, ValueError> {
    match value {
        TomlValue::Integer(number) => u64::try_from(*number).map_err(|_| {
            ValueError::new(ProblemCode::InvalidValue, format!("{number} is negative"), format.advice())
        }),
        TomlValue::Text(text) => Err(match whole(text) {
            Some(number) => ValueError::new(
                ProblemCode::WrongType,
                format!("expected {}, found a string", format.name),
                format!("write {number} without quotes"),
            ),
            None => number_error(text, format, &with_commas(u64::MAX), whole),
        }),
        other => Err(format.wrong_type(other)),
    }
}

/// A count from zero to 9.2e18 (the maximum of `i64`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct CountKind;

impl ValueKind for CountKind {
    type Value = u64;

    fn format() -> ValueFormat {
        ValueFormat::number("an integer", &["10", "1", "0", "5_000"], JsonType::Integer)
    }

    fn parse(value: &TomlValue) -> Result<u64, ValueError> {
        integer(value, &Self::format())
    }

    fn to_toml(value: &u64) -> String {
        value.to_string()
    }
}

/// A count up to 4.3e9 (the maximum of `u32`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct SmallCountKind;

impl ValueKind for SmallCountKind {
    type Value = u32;

    fn format() -> ValueFormat {
        ValueFormat::number("an integer", &["10", "1", "0", "3"], JsonType::Integer)
    }

    fn parse(value: &TomlValue) -> Result<u32, ValueError> {
        let format = Self::format();
        let number = integer(value, &format)?;
        u32::try_from(number).map_err(|_| {
            ValueError::new(
                ProblemCode::InvalidValue,
                format!("{number} is too large: the maximum is {}", u32::MAX),
                format.advice(),
            )
        })
    }

    fn to_toml(value: &u32) -> String {
        value.to_string()
    }
}

/// True or false.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BooleanKind;

impl ValueKind for BooleanKind {
    type Value = bool;

    fn format() -> ValueFormat {
        ValueFormat::number("a boolean", &["true", "false"], JsonType::Boolean)
    }

    fn parse(value: &TomlValue) -> Result<bool, ValueError> {
        match value {
            TomlValue::Boolean(flag) => Ok(*flag),
            TomlValue::Text(text) => {
                let message = format!("{} is not a boolean", quoted(text));
                Err(ValueError::new(ProblemCode::WrongType, message, "write true or false, without quotes"))
            }
            other => Err(ValueError::new(
                ProblemCode::WrongType,
                format!("expected a boolean, found {}", other.type_name()),
                "write true or false, without quotes",
            )),
        }
    }

    fn to_toml(value: &bool) -> String {
        value.to_string()
    }
}

/// A number with optional decimals, such as a factor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NumberKind;

impl ValueKind for NumberKind {
    type Value = f64;

    fn format() -> ValueFormat {
        ValueFormat::number("a number", &["1.5", "1.0", "2"], JsonType::Number)
    }

    fn parse(value: &TomlValue) -> Result<f64, ValueError> {
        let format = Self::format();
        match value {
            TomlValue::Float(number) if number.is_finite() => Ok(*number),
            TomlValue::Float(number) => Err(ValueError::new(
                ProblemCode::InvalidValue,
                format!("{number} is not a number"),
                format.advice(),
            )),
            TomlValue::Integer(number) => Ok(*number as f64),
            TomlValue::Text(text) if text.parse::<f64>().is_ok_and(f64::is_finite) => Err(ValueError::new(
                ProblemCode::WrongType,
                "expected a number, found a string",
                format!("write {text} without quotes"),
            )),
            TomlValue::Text(text) => Err(text_error(text, &format)),
            other => Err(format.wrong_type(other)),
        }
    }

    fn to_toml(value: &f64) -> String {
        // Always with a decimal point, so that TOML parses the same type again.
        format!("{value:?}")
    }
}

/// A percentage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PercentKind;

impl ValueKind for PercentKind {
    type Value = f64;

    fn format() -> ValueFormat {
        ValueFormat::text("a percentage", &["80%", "0.5%", "100%", "33.25%"])
            .pattern("^[0-9][0-9,]*(\\.[0-9]+)?%$")
            .bare_number("\"{}%\"")
    }

    fn parse(value: &TomlValue) -> Result<f64, ValueError> {
        let text = expect_text(value, Self::format)?;
        let largest = format!("{}%", with_commas(u64::MAX / 10_000));
        parse_percent(text).ok_or_else(|| number_error(text, &Self::format(), &largest, parse_percent))
    }

    fn to_toml(value: &f64) -> String {
        quoted(&format!("{value}%"))
    }
}

pub(super) fn parse_percent(text: &str) -> Option<f64> {
    // Shares are stored in millionths.
    let millionths = decimal(text.strip_suffix('%')?, 10_000)?;
    Some(millionths as f64 / 10_000.0)
}

/// A size in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BytesKind;

const SIZES: [(&str, u64); 7] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

impl ValueKind for BytesKind {
    type Value = u64;

    fn format() -> ValueFormat {
        ValueFormat::text("a byte size", &["128KiB", "1MiB", "512B", "64kB"])
            .pattern("^[0-9][0-9,]*(\\.[0-9]+)?(GiB|MiB|KiB|GB|MB|kB|B)$")
            .bare_number("\"{}B\"")
    }

    fn parse(value: &TomlValue) -> Result<u64, ValueError> {
        let text = expect_text(value, Self::format)?;
        let largest = format!("{}B", with_commas(u64::MAX));
        parse_bytes(text).ok_or_else(|| number_error(text, &Self::format(), &largest, parse_bytes))
    }

    fn to_toml(value: &u64) -> String {
        let unit = SIZES.iter().take(3).find(|(_, size)| *value > 0 && value.is_multiple_of(*size));
        let (name, size) = unit.copied().unwrap_or(("B", 1));
        quoted(&format!("{}{name}", value / size))
    }
}

pub(super) fn parse_bytes(text: &str) -> Option<u64> {
    let (name, size) = SIZES.into_iter().find(|(name, _)| text.ends_with(name))?;
    decimal(text.strip_suffix(name)?, size)
}

/// A rate limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateValue {
    /// The number of events.
    pub limit: u32,
    /// The period.
    pub per: RatePeriod,
}

/// The period of a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RatePeriod {
    /// Every second.
    Second,
    /// Any minute (sliding).
    Minute,
    /// Any hour (sliding).
    Hour,
    /// A calendar day in UTC.
    Day,
    /// A calendar month in UTC.
    Month,
}

impl RatePeriod {
    const NAMES: [(&'static str, Self); 10] = [
        ("s", Self::Second),
        ("min", Self::Minute),
        ("h", Self::Hour),
        ("day", Self::Day),
        ("month", Self::Month),
        ("second", Self::Second),
        ("minute", Self::Minute),
        ("m", Self::Minute),
        ("hour", Self::Hour),
        ("d", Self::Day),
    ];
}

impl fmt::Display for RatePeriod {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(_, per)| per == self);
        formatter.write_str(name.map_or("", |(name, _)| name))
    }
}

impl fmt::Display for RateValue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", with_commas(self.limit.into()), self.per)
    }
}

/// A rate, such as `60/min`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RateKind;

impl ValueKind for RateKind {
    type Value = RateValue;

    fn format() -> ValueFormat {
        ValueFormat::text("a rate", &["60/min", "10,000/s", "500/h", "15,000/day", "50,000,000/month"])
            .pattern("^[0-9][0-9,]*/(s|second|m|min|minute|h|hour|d|day|month)$")
            .bare_number("\"{}/min\"")
    }

    fn parse(value: &TomlValue) -> Result<RateValue, ValueError> {
        let text = expect_text(value, Self::format)?;
        let largest = with_commas(u32::MAX.into());
        parse_rate(text).ok_or_else(|| number_error(text, &Self::format(), &largest, parse_rate))
    }

    fn to_toml(value: &RateValue) -> String {
        quoted(&value.to_string())
    }
}

pub(crate) fn parse_rate(text: &str) -> Option<RateValue> {
    let (limit, period) = text.split_once('/')?;
    let (_, per) = RatePeriod::NAMES.into_iter().find(|(name, _)| *name == period)?;
    Some(RateValue { limit: u32::try_from(whole(limit)?).ok()?, per })
}

/// The number of cores to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoreCount {
    /// All cores.
    All,
    /// This many.
    Fixed(u32),
}

/// The number of cores to use: `all` or a number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CoresKind;

impl ValueKind for CoresKind {
    type Value = CoreCount;

    fn format() -> ValueFormat {
        ValueFormat::number("\"all\" or a number of cores", &["\"all\"", "4", "1"], JsonType::TextOrInteger)
    }

    fn parse(value: &TomlValue) -> Result<CoreCount, ValueError> {
        match value {
            TomlValue::Text(text) if text == "all" => Ok(CoreCount::All),
            TomlValue::Integer(number @ 1..=1_024) => {
                Ok(u32::try_from(*number).map_or(CoreCount::All, CoreCount::Fixed))
            }
            TomlValue::Integer(number) => Err(ValueError::new(
                ProblemCode::InvalidValue,
                format!("{number} is not between 1 and 1024 cores"),
                Self::format().advice(),
            )),
            TomlValue::Text(text) => Err(text_error(text, &Self::format())),
            other => Err(Self::format().wrong_type(other)),
        }
    }

    fn to_toml(value: &CoreCount) -> String {
        match value {
            CoreCount::All => quoted("all"),
            CoreCount::Fixed(cores) => cores.to_string(),
        }
    }
}
