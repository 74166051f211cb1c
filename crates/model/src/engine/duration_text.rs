//! Parses durations such as `250ms`, `30s`, `5m`, `2h`.

use serde::de::{Deserialize, Deserializer, Error as _};
use std::time::Duration;

/// Parses an integer with its unit.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    let invalid =
        || format!("invalid duration {text:?}: write a number with a unit, such as 250ms, 30s, 5m or 2h");
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| invalid())?;
    match unit {
        "ms" => Ok(Duration::from_millis(number)),
        "s" => Ok(Duration::from_secs(number)),
        "m" => Ok(Duration::from_secs(number.saturating_mul(60))),
        "h" => Ok(Duration::from_secs(number.saturating_mul(3_600))),
        _ => Err(invalid()),
    }
}

/// For a required field.
pub(super) fn required<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// For an optional field.
pub(super) fn optional<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    required(deserializer).map(Some)
}
