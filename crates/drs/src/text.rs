//! Texts that leave the process: times and ASCII.

use seawall_core::time::UtcTime;

/// A time as `2026-11-15T08:30:00.123Z`.
#[must_use]
pub(crate) fn rfc3339(at: UtcTime) -> String {
    let (year, month, day) = at.civil();
    let millis = at.as_nanos() / 1_000_000 % 86_400_000;
    let (hour, minute, second) = (millis / 3_600_000, millis / 60_000 % 60, millis / 1_000 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", millis % 1_000)
}

/// Printable ASCII only; everything else becomes `?`.
#[must_use]
pub(crate) fn printable_ascii(text: &str) -> String {
    text.chars().map(|sign| if sign.is_ascii_graphic() || sign == ' ' { sign } else { '?' }).collect()
}

#[cfg(test)]
mod tests {
    use super::{printable_ascii, rfc3339};
    use seawall_core::time::UtcTime;
    use std::time::Duration;

    #[test]
    fn a_time_is_written_as_rfc_3339() {
        let at = UtcTime::from_civil(2026, 11, 5) + Duration::from_millis(30_601_007);
        assert_eq!(rfc3339(at), "2026-11-05T08:30:01.007Z");
        assert_eq!(rfc3339(UtcTime::from_nanos(0)), "1970-01-01T00:00:00.000Z");
    }

    #[test]
    fn only_printable_ascii_remains() {
        assert_eq!(printable_ascii("a\u{26a0}b\nc d"), "a?b?c d");
    }
}
