//! Plain texts, paths, locales.

use super::{ValueError, ValueFormat, ValueKind, expect_text, text_error};
use crate::tree::TomlValue;
use std::fmt::Write as _;

/// A text as a TOML string.
#[must_use]
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if control.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(control));
            }
            character => out.push(character),
        }
    }
    out.push('"');
    out
}

/// Any text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextKind;

impl ValueKind for TextKind {
    type Value = String;

    fn format() -> ValueFormat {
        ValueFormat::text("a string", &["example", "別の例", "two\nlines"])
    }

    fn parse(value: &TomlValue) -> Result<String, ValueError> {
        expect_text(value, Self::format).map(str::to_owned)
    }

    fn to_toml(value: &String) -> String {
        quoted(value)
    }
}

/// The path of a file or a directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathKind;

impl ValueKind for PathKind {
    type Value = String;

    fn format() -> ValueFormat {
        ValueFormat::text("a path", &["directory/file.toml", "file"]).pattern("^[^\\u0000]+$")
    }

    fn parse(value: &TomlValue) -> Result<String, ValueError> {
        let text = expect_text(value, Self::format)?;
        if text.is_empty() || text.contains('\0') {
            return Err(text_error(text, &Self::format()));
        }
        Ok(text.to_owned())
    }

    fn to_toml(value: &String) -> String {
        quoted(value)
    }
}

/// A language and a region, in the notation of BCP 47.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocaleKind;

impl ValueKind for LocaleKind {
    type Value = String;

    fn format() -> ValueFormat {
        ValueFormat::text("a locale", &["ja-JP", "en", "zh-Hant-TW"])
            .pattern("^[A-Za-z]{2,3}(-[A-Za-z]{4})?(-([A-Za-z]{2}|[0-9]{3}))?$")
    }

    fn parse(value: &TomlValue) -> Result<String, ValueError> {
        let text = expect_text(value, Self::format)?;
        if is_locale(text) { Ok(text.to_owned()) } else { Err(text_error(text, &Self::format())) }
    }

    fn to_toml(value: &String) -> String {
        quoted(value)
    }
}

fn is_locale(text: &str) -> bool {
    let letters = |part: &str, lengths: std::ops::RangeInclusive<usize>| {
        lengths.contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_alphabetic())
    };
    let mut parts = text.split('-').peekable();
    let is_language = parts.next().is_some_and(|language| letters(language, 2..=3));
    parts.next_if(|part| letters(part, 4..=4));
    let is_number = |part: &str| part.len() == 3 && part.bytes().all(|byte| byte.is_ascii_digit());
    parts.next_if(|part| letters(part, 2..=2) || is_number(part));
    is_language && parts.next().is_none()
}

/// The destination of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogDestination {
    /// No log.
    None,
    /// Standard output.
    Stdout,
    /// A file, to which lines are appended.
    File(String),
}

/// The destination of a log: `stdout`, `none`, or a path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogDestinationKind;

impl ValueKind for LogDestinationKind {
    type Value = LogDestination;

    fn format() -> ValueFormat {
        ValueFormat::text("`stdout`, `none` or a path", &["stdout", "none", "logs/access.log"])
            .pattern("^[^\\u0000]+$")
    }

    fn parse(value: &TomlValue) -> Result<LogDestination, ValueError> {
        let format = Self::format();
        match expect_text(value, Self::format)? {
            "none" => Ok(LogDestination::None),
            "stdout" => Ok(LogDestination::Stdout),
            text if text.is_empty() || text.contains('\0') => Err(text_error(text, &format)),
            path => Ok(LogDestination::File(path.to_owned())),
        }
    }

    fn to_toml(value: &LogDestination) -> String {
        match value {
            LogDestination::None => quoted("none"),
            LogDestination::Stdout => quoted("stdout"),
            LogDestination::File(path) => quoted(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{is_locale, quoted};

    #[test]
    fn texts_are_quoted_as_toml_strings() {
        assert_eq!(quoted("a\"b\\c\n\t\r\u{1}\u{7f}漫"), "\"a\\\"b\\\\c\\n\\t\\r\\u0001\\u007f漫\"");
    }

    #[test]
    fn locales_have_a_language_and_may_have_a_script_and_a_region() {
        for good in ["ja", "ja-JP", "en-US", "zh-Hant", "zh-Hant-TW", "es-419", "fil"] {
            assert!(is_locale(good), "{good}");
        }
        for bad in ["", "j", "japanese", "ja_JP", "ja-", "ja-JPN", "ja-JP-x", "-JP", "ja-12", "12"] {
            assert!(!is_locale(bad), "{bad}");
        }
    }
}
