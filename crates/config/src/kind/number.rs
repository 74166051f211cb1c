//! Counts, percentages, sizes, rates.

use super::{Form, JsonType, Kind, Misread, expect_text, quoted, refuse_number, refuse_text};
use crate::problem::Code;
use crate::tree::Value;
use std::fmt;

/// A whole number with optional commas between thousands.
pub(super) fn whole(text: &str) -> Option<u64> {
    is_written_well(text).then(|| text.replace(',', "").parse().ok())?
}

/// Whether these are digits with correct or no commas between thousands, of any length.
pub(super) fn is_written_well(text: &str) -> bool {
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
    let mut place = u128::from(unit);
    let (mut numerator, mut denominator) = (0_u128, 1_u128);
    for byte in after.trim_end_matches('0').bytes() {
        denominator = denominator.checked_mul(10)?;
        numerator = numerator.checked_mul(10)?.checked_add(u128::from(byte - b'0'))?;
    }
    place = place.checked_mul(numerator)?;
    if place % denominator != 0 {
        return None;
    }
    sum = sum.checked_add(u64::try_from(place / denominator).ok()?)?;
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

fn integer(value: &Value, form: &Form) -> Result<u64, Misread> {
    match value {
        Value::Integer(number) => u64::try_from(*number).map_err(|_| {
            Misread::new(Code::Impossible, format!("{number} is less than nothing"), form.advice())
        }),
        Value::Text(text) => Err(match whole(text) {
            Some(number) => Misread::new(
                Code::WrongType,
                format!("expected {}, found a text", form.name),
                format!("write {number} without quotes"),
            ),
            None => refuse_number(text, form, &with_commas(u64::MAX), whole),
        }),
        other => Err(form.wrong_type(other)),
    }
}

/// A count from zero to 9.2e18 (the maximum of `i64`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Count;

impl Kind for Count {
    type Value = u64;

    fn form() -> Form {
        Form::number("a whole number", &["10", "1", "0", "5_000"], JsonType::Integer)
    }

    fn read(value: &Value) -> Result<u64, Misread> {
        integer(value, &Self::form())
    }

    fn show(value: &u64) -> String {
        value.to_string()
    }
}

/// A count up to 4.3e9 (the maximum of `u32`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Small;

impl Kind for Small {
    type Value = u32;

    fn form() -> Form {
        Form::number("a whole number", &["10", "1", "0", "3"], JsonType::Integer)
    }

    fn read(value: &Value) -> Result<u32, Misread> {
        let form = Self::form();
        let number = integer(value, &form)?;
        u32::try_from(number).map_err(|_| {
            Misread::new(
                Code::Impossible,
                format!("{number} is too large: at most {} can be set", u32::MAX),
                form.advice(),
            )
        })
    }

    fn show(value: &u32) -> String {
        value.to_string()
    }
}

/// True or false.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flag;

impl Kind for Flag {
    type Value = bool;

    fn form() -> Form {
        Form::number("true or false", &["true", "false"], JsonType::Boolean)
    }

    fn read(value: &Value) -> Result<bool, Misread> {
        match value {
            Value::Boolean(flag) => Ok(*flag),
            Value::Text(text) => {
                let message = format!("{} is not true or false", quoted(text));
                Err(Misread::new(Code::WrongType, message, "write true or false, without quotes"))
            }
            other => Err(Misread::new(
                Code::WrongType,
                format!("expected true or false, found {}", other.noun()),
                "write true or false, without quotes",
            )),
        }
    }

    fn show(value: &bool) -> String {
        value.to_string()
    }
}

/// A number with optional decimals, such as a factor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number;

impl Kind for Number {
    type Value = f64;

    fn form() -> Form {
        Form::number("a number", &["1.5", "1.0", "2"], JsonType::Number)
    }

    fn read(value: &Value) -> Result<f64, Misread> {
        let form = Self::form();
        match value {
            Value::Float(number) if number.is_finite() => Ok(*number),
            Value::Float(number) => {
                Err(Misread::new(Code::Impossible, format!("{number} is not a number"), form.advice()))
            }
            Value::Integer(number) => Ok(*number as f64),
            Value::Text(text) if text.parse::<f64>().is_ok_and(f64::is_finite) => Err(Misread::new(
                Code::WrongType,
                "expected a number, found a text",
                format!("write {text} without quotes"),
            )),
            Value::Text(text) => Err(refuse_text(text, &form)),
            other => Err(form.wrong_type(other)),
        }
    }

    fn show(value: &f64) -> String {
        // Always with a decimal point, so that TOML parses the same type again.
        format!("{value:?}")
    }
}

/// A percentage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Percent;

impl Kind for Percent {
    type Value = f64;

    fn form() -> Form {
        Form::text("a percentage", &["80%", "0.5%", "100%", "33.25%"])
            .pattern("^[0-9][0-9,]*(\\.[0-9]+)?%$")
            .bare_number("\"{}%\"")
    }

    fn read(value: &Value) -> Result<f64, Misread> {
        let text = expect_text(value, Self::form)?;
        let largest = format!("{}%", with_commas(u64::MAX / 10_000));
        parse_percent(text).ok_or_else(|| refuse_number(text, &Self::form(), &largest, parse_percent))
    }

    fn show(value: &f64) -> String {
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
pub(crate) struct Bytes;

const SIZES: [(&str, u64); 7] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

impl Kind for Bytes {
    type Value = u64;

    fn form() -> Form {
        Form::text("a size", &["128KiB", "1MiB", "512B", "64kB"])
            .pattern("^[0-9][0-9,]*(\\.[0-9]+)?(GiB|MiB|KiB|GB|MB|kB|B)$")
            .bare_number("\"{}B\"")
    }

    fn read(value: &Value) -> Result<u64, Misread> {
        let text = expect_text(value, Self::form)?;
        let largest = format!("{}B", with_commas(u64::MAX));
        parse_bytes(text).ok_or_else(|| refuse_number(text, &Self::form(), &largest, parse_bytes))
    }

    fn show(value: &u64) -> String {
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
    pub per: Per,
}

/// The period of a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Per {
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

impl Per {
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

impl fmt::Display for Per {
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
pub(crate) struct Rate;

impl Kind for Rate {
    type Value = RateValue;

    fn form() -> Form {
        Form::text("a rate", &["60/min", "10,000/s", "500/h", "15,000/day", "50,000,000/month"])
            .pattern("^[0-9][0-9,]*/(s|second|m|min|minute|h|hour|d|day|month)$")
            .bare_number("\"{}/min\"")
    }

    fn read(value: &Value) -> Result<RateValue, Misread> {
        let text = expect_text(value, Self::form)?;
        let largest = with_commas(u32::MAX.into());
        parse_rate(text).ok_or_else(|| refuse_number(text, &Self::form(), &largest, parse_rate))
    }

    fn show(value: &RateValue) -> String {
        quoted(&value.to_string())
    }
}

pub(super) fn parse_rate(text: &str) -> Option<RateValue> {
    let (limit, period) = text.split_once('/')?;
    let (_, per) = Per::NAMES.into_iter().find(|(name, _)| *name == period)?;
    Some(RateValue { limit: u32::try_from(whole(limit)?).ok()?, per })
}

/// The number of cores to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoresValue {
    /// All cores.
    All,
    /// This many.
    Some(u32),
}

/// The number of cores to use: `all` or a number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cores;

impl Kind for Cores {
    type Value = CoresValue;

    fn form() -> Form {
        Form::number("\"all\" or a number of cores", &["\"all\"", "4", "1"], JsonType::TextOrInteger)
    }

    fn read(value: &Value) -> Result<CoresValue, Misread> {
        match value {
            Value::Text(text) if text == "all" => Ok(CoresValue::All),
            Value::Integer(number @ 1..=1_024) => {
                Ok(u32::try_from(*number).map_or(CoresValue::All, CoresValue::Some))
            }
            Value::Integer(number) => Err(Misread::new(
                Code::Impossible,
                format!("{number} cores is not between 1 and 1024"),
                Self::form().advice(),
            )),
            Value::Text(text) => Err(refuse_text(text, &Self::form())),
            other => Err(Self::form().wrong_type(other)),
        }
    }

    fn show(value: &CoresValue) -> String {
        match value {
            CoresValue::All => quoted("all"),
            CoresValue::Some(cores) => cores.to_string(),
        }
    }
}
