//! Dates, times of day, and UTC offsets.

use super::{ValueError, ValueFormat, ValueKind, expect_text, quoted, text_error};
use crate::problem::ProblemCode;
use crate::tree::TomlValue;
use seawall_core::time::UtcTime;

/// A calendar day in UTC: `2026-11-27`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DateKind;

impl ValueKind for DateKind {
    type Value = UtcTime;

    fn format() -> ValueFormat {
        ValueFormat {
            examples: vec!["2026-11-27".into(), "2027-01-01".into()],
            ..ValueFormat::text("a date", &[])
        }
        .pattern("^[0-9]{4}-[0-9]{2}-[0-9]{2}$")
    }

    fn parse(value: &TomlValue) -> Result<UtcTime, ValueError> {
        let format = Self::format();
        let text = match value {
            TomlValue::Date(text) | TomlValue::Text(text) => text,
            other => return Err(format.wrong_type(other)),
        };
        parse_date(text).ok_or_else(|| {
            let message = format!("{text} is not a date between 1970 and 2553");
            ValueError::new(
                ProblemCode::ParseError,
                message,
                "write a date such as 2026-11-27, without a time",
            )
        })
    }

    fn to_toml(value: &UtcTime) -> String {
        format_date(*value)
    }
}

/// Reads a date such as `2026-11-27`, as the beginning of that day in UTC.
#[must_use]
pub fn parse_day(text: &str) -> Option<UtcTime> {
    parse_date(text)
}

pub(crate) fn parse_date(text: &str) -> Option<UtcTime> {
    let mut parts = text.split('-');
    let mut part = |length: usize| {
        let part = parts.next()?;
        (part.len() == length && part.bytes().all(|byte| byte.is_ascii_digit()))
            .then(|| part.parse::<u32>().ok())?
    };
    let (year, month, day) = (part(4)?, part(2)?, part(2)?);
    let date = UtcTime::from_civil(year.into(), month, day);
    (parts.next().is_none() && date.civil() == (year.into(), month, day)).then_some(date)
}

pub(crate) fn format_date(date: UtcTime) -> String {
    let (year, month, day) = date.civil();
    format!("{year:04}-{month:02}-{day:02}")
}

/// A time of day, such as `23:00`, in minutes. `24:00` is the midnight that ends the day.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeOfDayKind;

impl ValueKind for TimeOfDayKind {
    type Value = u32;

    fn format() -> ValueFormat {
        ValueFormat::text("a time of day", &["23:00", "08:30", "00:00"])
            .pattern("^([01][0-9]|2[0-3]):[0-5][0-9]$|^24:00$")
    }

    fn parse(value: &TomlValue) -> Result<u32, ValueError> {
        let format = Self::format();
        if let TomlValue::Date(text) = value {
            let shown = text.get(..5).unwrap_or("23:00");
            let message = "expected a time of day in quotes";
            return Err(ValueError::new(ProblemCode::WrongType, message, format!("write {}", quoted(shown))));
        }
        if let TomlValue::Integer(hour @ 0..=24) = value {
            let message = format!("{hour} is not a time of day");
            return Err(ValueError::new(
                ProblemCode::MissingUnit,
                message,
                format!("write \"{hour:02}:00\""),
            ));
        }
        let text = expect_text(value, Self::format)?;
        parse_clock(text).ok_or_else(|| text_error(text, &format))
    }

    fn to_toml(value: &u32) -> String {
        quoted(&format!("{:02}:{:02}", value / 60, value % 60))
    }
}

pub(super) fn parse_clock(text: &str) -> Option<u32> {
    let (hour, minute) = text.split_once(':')?;
    let part = |part: &str| {
        (part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit()))
            .then(|| part.parse::<u32>().ok())?
    };
    let (hour, minute) = (part(hour)?, part(minute)?);
    let minutes = hour * 60 + minute;
    (minute < 60 && minutes <= 1_440).then_some(minutes)
}

/// A UTC offset, such as `+09:00`, in minutes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UtcOffsetKind;

impl ValueKind for UtcOffsetKind {
    type Value = i32;

    fn format() -> ValueFormat {
        ValueFormat::text("a UTC offset", &["+09:00", "-05:00", "+00:00"]).pattern("^[+-][0-9]{2}:[0-9]{2}$")
    }

    fn parse(value: &TomlValue) -> Result<i32, ValueError> {
        let text = expect_text(value, Self::format)?;
        let parsed =
            text.strip_prefix('-').map(|rest| (-1, rest)).or(text.strip_prefix('+').map(|rest| (1, rest)));
        let minutes = parsed.and_then(|(sign, rest)| {
            let minutes = i32::try_from(parse_clock(rest)?).ok()?;
            Some(sign * minutes)
        });
        minutes.ok_or_else(|| text_error(text, &Self::format()))
    }

    fn to_toml(value: &i32) -> String {
        let sign = if *value < 0 { '-' } else { '+' };
        let minutes = value.unsigned_abs();
        quoted(&format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60))
    }
}

#[cfg(test)]
mod tests {
    use super::{UtcOffsetKind, ValueKind, format_date, parse_clock, parse_date};
    use crate::tree::TomlValue;

    #[test]
    fn only_days_that_exist_are_dates() {
        for good in ["2026-11-27", "2024-02-29", "1970-01-01"] {
            assert_eq!(parse_date(good).map(format_date).as_deref(), Some(good));
        }
        for bad in [
            "2026-02-29",
            "2026-13-01",
            "2026-1-01",
            "1969-12-31",
            "2026-11-27T10:00",
            "2026-11",
            "2026-11-27-1",
            "9999-01-01",
        ] {
            assert_eq!(parse_date(bad), None, "{bad}");
        }
    }

    #[test]
    fn times_of_day_end_at_midnight() {
        assert_eq!(["00:00", "08:30", "24:00"].map(parse_clock), [Some(0), Some(510), Some(1_440)]);
        for bad in ["24:01", "25:00", "8:00", "08:60", "08:00:00", "0800", "+8:00"] {
            assert_eq!(parse_clock(bad), None, "{bad}");
        }
    }

    #[test]
    fn offsets_have_a_sign() {
        let parse = |text: &str| UtcOffsetKind::parse(&TomlValue::Text(text.to_owned())).ok();
        assert_eq!(["+09:00", "-05:30", "09:00", "+9"].map(parse), [Some(540), Some(-330), None, None]);
        assert_eq!([540, -330].map(|offset| UtcOffsetKind::to_toml(&offset)), ["\"+09:00\"", "\"-05:30\""]);
    }
}
