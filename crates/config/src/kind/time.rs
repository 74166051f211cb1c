//! Durations.

use super::number::decimal;
use super::{ValueError, ValueFormat, ValueKind, expect_text, number_error, quoted};
use crate::tree::TomlValue;
use std::fmt::Write as _;
use std::time::Duration;

/// Units from the longest to the shortest, in nanoseconds. Of two names the first is used for output.
const UNITS: [(&str, u64); 8] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("min", 60_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// A duration, such as `30s` or `1h30m`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DurationKind;

impl ValueKind for DurationKind {
    type Value = Duration;

    fn format() -> ValueFormat {
        ValueFormat::text("a duration", &["30s", "250ms", "1h30m", "1.5s", "2d", "5s", "10ms", "0s"])
            .pattern("^([0-9][0-9,]*(\\.[0-9]+)?(d|h|min|m|s|ms|us|ns))+$")
            .bare_number("\"{}s\"")
    }

    fn parse(value: &TomlValue) -> Result<Duration, ValueError> {
        let text = expect_text(value, Self::format)?;
        let largest = format!("{}d", u64::MAX / 86_400_000_000_000);
        parse_duration(text).ok_or_else(|| number_error(text, &Self::format(), &largest, parse_duration))
    }

    fn to_toml(value: &Duration) -> String {
        quoted(&format_duration(*value))
    }
}

/// Reads numbers with units, each unit shorter than the one before, such as `1h30m`.
#[must_use]
pub fn parse_duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let (mut sum, mut shorter_than) = (0_u64, u64::MAX);
    loop {
        let number = rest.find(|character: char| character.is_ascii_alphabetic())?;
        let (digits, tail) = rest.split_at(number);
        let end = tail.find(|character: char| !character.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (name, next) = tail.split_at(end);
        let (_, unit) = UNITS.into_iter().find(|(unit, _)| *unit == name)?;
        if unit >= shorter_than {
            return None;
        }
        sum = sum.checked_add(decimal(digits, unit)?)?;
        (rest, shorter_than) = (next, unit);
        if rest.is_empty() {
            return Some(Duration::from_nanos(sum));
        }
    }
}

/// A duration in the fewest whole units: `1h30m`, `1900ms`, `0s`.
#[must_use]
pub fn format_duration(span: Duration) -> String {
    let mut rest = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    if rest == 0 {
        return "0s".to_owned();
    }
    let mut out = String::new();
    // A duration with a fraction of a second is written in its smallest unit, as long as the number stays short.
    if rest < 10_000_000_000
        && let Some((name, unit)) = UNITS.into_iter().skip(4).find(|(_, unit)| rest.is_multiple_of(*unit))
    {
        return format!("{}{name}", rest / unit);
    }
    for (name, unit) in UNITS.into_iter().filter(|(name, _)| *name != "min") {
        if rest >= unit {
            let _ = write!(out, "{}{name}", rest / unit);
            rest %= unit;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{format_duration, parse_duration};
    use proptest::prelude::{prop_assert_eq, proptest};
    use std::time::Duration;

    #[test]
    fn durations_are_parsed_exactly_or_refused() {
        for (text, nanos) in [
            ("30s", 30_000_000_000),
            ("250ms", 250_000_000),
            ("1h30m", 5_400_000_000_000),
            ("1h30min", 5_400_000_000_000),
            ("1.9s", 1_900_000_000),
            ("0.000000001s", 1),
            ("1d", 86_400_000_000_000),
            ("1,000ms", 1_000_000_000),
            ("0s", 0),
            ("5us", 5_000),
        ] {
            assert_eq!(parse_duration(text), Some(Duration::from_nanos(nanos)), "{text}");
        }
        for wrong in [
            "",
            "s",
            "30",
            "30 s",
            "-1s",
            "1s1h",
            "1s1s",
            "1m1min",
            "1x",
            "0.0000000001s",
            "1.s",
            ".5s",
            "999999999d",
            "３s",
            "1e3s",
        ] {
            assert_eq!(parse_duration(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn durations_are_formatted_in_the_fewest_units() {
        let shown = |millis| format_duration(Duration::from_millis(millis));
        assert_eq!([0, 250, 1_900, 30_000, 90_000].map(shown), ["0s", "250ms", "1900ms", "30s", "1m30s"]);
        assert_eq!([5_400_000, 86_400_000, 60_000, 9_000].map(shown), ["1h30m", "1d", "1m", "9s"]);
        assert_eq!(shown(75_500), "1m15s500ms");
    }

    proptest! {
        #[test]
        fn a_formatted_duration_parses_as_the_same(nanos: u64, digits in 0_u32..20) {
            let span = Duration::from_nanos(nanos / 10_u64.pow(digits.min(19)));
            prop_assert_eq!(parse_duration(&format_duration(span)), Some(span));
        }
    }
}
