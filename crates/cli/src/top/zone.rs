//! The local time of this machine, as far as its zone has one offset all year.
//!
//! A zone file ends with a rule such as `JST-9`. Rules with daylight saving time are not evaluated: such a zone is shown
//! in UTC, because a time that is an hour off is worse than one in another zone.

use std::fs;
use std::path::PathBuf;

/// A zone with a fixed offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LocalZone {
    /// The abbreviation, such as `JST`.
    pub(crate) name: String,
    /// Minutes east of Greenwich.
    pub(crate) offset: i32,
}

impl LocalZone {
    /// The zone of this machine; `None` if it cannot be read or has daylight saving time.
    pub(crate) fn of_machine() -> Option<Self> {
        let path = match std::env::var("TZ") {
            Ok(name) if name.starts_with('/') => PathBuf::from(name),
            Ok(name) if !name.is_empty() => {
                PathBuf::from("/usr/share/zoneinfo").join(name.trim_start_matches(':'))
            }
            _ => PathBuf::from("/etc/localtime"),
        };
        let bytes = fs::read(path).ok().filter(|bytes| bytes.starts_with(b"TZif"))?;
        let text = String::from_utf8_lossy(bytes.strip_suffix(b"\n")?).into_owned();
        Self::parse(text.rsplit('\n').next()?)
    }

    /// Reads a rule.
    pub(crate) fn parse(rule: &str) -> Option<Self> {
        let (name, rest) = match rule.strip_prefix('<') {
            Some(quoted) => quoted.split_once('>')?,
            None => rule.split_at(rule.find(|sign: char| !sign.is_ascii_alphabetic())?),
        };
        let is_east = rest.starts_with('-');
        let mut parts = rest.trim_start_matches(['-', '+']).splitn(2, ':');
        let number = |part: Option<&str>| part.map_or(Some(0), |part| part.parse::<i32>().ok());
        let minutes = number(parts.next())?.checked_mul(60)?.checked_add(number(parts.next())?)?;
        let is_plausible = minutes <= 26 * 60 && !name.is_empty() && !rest.is_empty();
        let offset = if is_east { minutes } else { -minutes };
        is_plausible.then(|| Self { name: name.to_owned(), offset })
    }

    /// The hour and minute here, for a time of day in UTC.
    pub(crate) fn clock(&self, hour: i32, minute: i32) -> (i32, i32) {
        let minutes = (hour * 60 + minute + self.offset).rem_euclid(24 * 60);
        (minutes / 60, minutes % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::LocalZone;

    #[test]
    fn a_rule_with_one_offset_is_read_and_one_with_two_is_not() {
        let zone = |name: &str, offset| Some(LocalZone { name: name.to_owned(), offset });
        assert_eq!(LocalZone::parse("JST-9"), zone("JST", 540));
        assert_eq!(LocalZone::parse("<+0545>-5:45"), zone("+0545", 345));
        assert_eq!(LocalZone::parse("UTC0"), zone("UTC", 0));
        assert_eq!(LocalZone::parse("<-03>3"), zone("-03", -180));
        for rule in ["CET-1CEST,M3.5.0,M10.5.0/3", "", "JST", "-9", "<JST-9", "JST-999999999999"] {
            assert_eq!(LocalZone::parse(rule), None, "{rule}");
        }
        assert_eq!(LocalZone::parse("JST-9").unwrap().clock(13, 12), (22, 12));
        assert_eq!(LocalZone::parse("<-03>3").unwrap().clock(1, 5), (22, 5));
    }
}
