//! Plain texts, paths, locales.

use super::{Form, Kind, Misread, expect_text, refuse_text};
use crate::tree::Value;
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
pub(crate) struct Text;

impl Kind for Text {
    type Value = String;

    fn form() -> Form {
        Form::text("a text", &["example", "別の例", "two\nlines"])
    }

    fn read(value: &Value) -> Result<String, Misread> {
        expect_text(value, Self::form).map(str::to_owned)
    }

    fn show(value: &String) -> String {
        quoted(value)
    }
}

/// The path of a file or a directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FilePath;

impl Kind for FilePath {
    type Value = String;

    fn form() -> Form {
        Form::text("a path", &["folder/file.toml", "file"]).pattern("^[^\\u0000]+$")
    }

    fn read(value: &Value) -> Result<String, Misread> {
        let text = expect_text(value, Self::form)?;
        if text.is_empty() || text.contains('\0') {
            return Err(refuse_text(text, &Self::form()));
        }
        Ok(text.to_owned())
    }

    fn show(value: &String) -> String {
        quoted(value)
    }
}

/// A language and a region, in the notation of BCP 47.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Locale;

impl Kind for Locale {
    type Value = String;

    fn form() -> Form {
        Form::text("a locale", &["ja-JP", "en", "zh-Hant-TW"])
            .pattern("^[A-Za-z]{2,3}(-[A-Za-z]{4})?(-([A-Za-z]{2}|[0-9]{3}))?$")
    }

    fn read(value: &Value) -> Result<String, Misread> {
        let text = expect_text(value, Self::form)?;
        if is_locale(text) { Ok(text.to_owned()) } else { Err(refuse_text(text, &Self::form())) }
    }

    fn show(value: &String) -> String {
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
pub enum LogPlaceValue {
    /// No log.
    Nowhere,
    /// Standard output.
    Stdout,
    /// A file, to which lines are appended.
    File(String),
}

/// The destination of a log: `stdout`, `none`, or a path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogPlace;

impl Kind for LogPlace {
    type Value = LogPlaceValue;

    fn form() -> Form {
        Form::text("`stdout`, `none` or a path", &["stdout", "none", "logs/access.log"])
            .pattern("^[^\\u0000]+$")
    }

    fn read(value: &Value) -> Result<LogPlaceValue, Misread> {
        let form = Self::form();
        match expect_text(value, Self::form)? {
            "none" => Ok(LogPlaceValue::Nowhere),
            "stdout" => Ok(LogPlaceValue::Stdout),
            text if text.is_empty() || text.contains('\0') => Err(refuse_text(text, &form)),
            path => Ok(LogPlaceValue::File(path.to_owned())),
        }
    }

    fn show(value: &LogPlaceValue) -> String {
        match value {
            LogPlaceValue::Nowhere => quoted("none"),
            LogPlaceValue::Stdout => quoted("stdout"),
            LogPlaceValue::File(path) => quoted(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{is_locale, quoted};

    #[test]
    fn texts_are_written_as_toml_reads_them() {
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
