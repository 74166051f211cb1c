//! Dates, times of day, and UTC offsets.

use super::{Form, Kind, Misread, expect_text, quoted, refuse_text};
use crate::problem::Code;
use crate::tree::Value;
use seawall_core::time::UtcTime;

/// A calendar day in UTC: `2026-11-27`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Date;

impl Kind for Date {
    type Value = UtcTime;

    fn form() -> Form {
        Form { examples: vec!["2026-11-27".into(), "2027-01-01".into()], ..Form::text("a date", &[]) }
            .pattern("^[0-9]{4}-[0-9]{2}-[0-9]{2}$")
    }

    fn read(value: &Value) -> Result<UtcTime, Misread> {
        let form = Self::form();
        let text = match value {
            Value::Date(text) | Value::Text(text) => text,
            other => return Err(form.wrong_type(other)),
        };
        parse_date(text).ok_or_else(|| {
            let message = format!("{text} is not a day from 1970 to 2553");
            Misread::new(Code::Unreadable, message, "write a date such as 2026-11-27, without a time")
        })
    }

    fn show(value: &UtcTime) -> String {
        shown_date(*value)
    }
}

fn parse_date(text: &str) -> Option<UtcTime> {
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

pub(crate) fn shown_date(date: UtcTime) -> String {
    let (year, month, day) = date.civil();
    format!("{year:04}-{month:02}-{day:02}")
}

/// A time of day, such as `23:00`, in minutes. `24:00` is the midnight that ends the day.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClockTime;

impl Kind for ClockTime {
    type Value = u32;

    fn form() -> Form {
        Form::text("a time of day", &["23:00", "08:30", "00:00"])
            .pattern("^([01][0-9]|2[0-3]):[0-5][0-9]$|^24:00$")
    }

    fn read(value: &Value) -> Result<u32, Misread> {
        let form = Self::form();
        if let Value::Date(text) = value {
            let shown = text.get(..5).unwrap_or("23:00");
            let message = "expected a time of day in quotes";
            return Err(Misread::new(Code::WrongType, message, format!("write {}", quoted(shown))));
        }
        if let Value::Integer(hour @ 0..=24) = value {
            let message = format!("{hour} is not a time of day");
            return Err(Misread::new(Code::MissingUnit, message, format!("write \"{hour:02}:00\"")));
        }
        let text = expect_text(value, Self::form)?;
        parse_clock(text).ok_or_else(|| refuse_text(text, &form))
    }

    fn show(value: &u32) -> String {
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
pub(crate) struct UtcOffset;

impl Kind for UtcOffset {
    type Value = i32;

    fn form() -> Form {
        Form::text("an offset from UTC", &["+09:00", "-05:00", "+00:00"]).pattern("^[+-][0-9]{2}:[0-9]{2}$")
    }

    fn read(value: &Value) -> Result<i32, Misread> {
        let text = expect_text(value, Self::form)?;
        let parsed =
            text.strip_prefix('-').map(|rest| (-1, rest)).or(text.strip_prefix('+').map(|rest| (1, rest)));
        let minutes = parsed.and_then(|(sign, rest)| {
            let minutes = i32::try_from(parse_clock(rest)?).ok()?;
            Some(sign * minutes)
        });
        minutes.ok_or_else(|| refuse_text(text, &Self::form()))
    }

    fn show(value: &i32) -> String {
        let sign = if *value < 0 { '-' } else { '+' };
        let minutes = value.unsigned_abs();
        quoted(&format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60))
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, UtcOffset, parse_clock, parse_date, shown_date};
    use crate::tree::Value;

    #[test]
    fn only_days_that_exist_are_dates() {
        for good in ["2026-11-27", "2024-02-29", "1970-01-01"] {
            assert_eq!(parse_date(good).map(shown_date).as_deref(), Some(good));
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
        let read = |text: &str| UtcOffset::read(&Value::Text(text.to_owned())).ok();
        assert_eq!(["+09:00", "-05:30", "09:00", "+9"].map(read), [Some(540), Some(-330), None, None]);
        assert_eq!([540, -330].map(|offset| UtcOffset::show(&offset)), ["\"+09:00\"", "\"-05:30\""]);
    }
}
