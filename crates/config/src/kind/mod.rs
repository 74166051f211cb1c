//! The kinds of values that keys have, such as a time span or an amount of money.
//!
//! A kind parses a value, formats it canonically and describes its form. It refuses an invalid value with advice on
//! what to write instead. **What it does not do.** It does not judge whether a value makes sense for its key.

mod calendar;
mod money;
mod network;
mod number;
mod range;
mod secret;
mod text;
mod time;
#[cfg(test)]
mod too_large;
mod words;

pub(crate) use calendar::{ClockTime, Date, UtcOffset};
pub(crate) use money::{Amount, DayAmount, TokenPrice};
pub(crate) use network::{Address, KeySet, Url};
pub use network::{KeySetValue, is_metadata_host};
pub(crate) use number::{Bytes, Cores, Count, Flag, Number, Percent, Rate, Small};
pub use number::{CoresValue, Per, RateValue};
pub use range::AddressRange;
pub(crate) use range::Range;
pub use secret::SecretReference;
pub(crate) use secret::{Hash, Secret};
pub use text::LogPlaceValue;
pub(crate) use text::{FilePath, Locale, LogPlace, Text, quoted};
pub(crate) use time::Span;
pub use time::shown_span;
pub use words::{Algorithm, FaceName, Provider, RetryCosts, Runtime, StoreKind};
pub(crate) use words::{JitterText, UntrackedText};

use crate::problem::Code;
use crate::tree::Value;
use std::fmt::Debug;

/// Why a value was refused.
#[derive(Clone, Debug)]
pub(crate) struct Misread {
    pub(crate) code: Code,
    pub(crate) message: String,
    pub(crate) help: String,
}

impl Misread {
    pub(crate) fn new(code: Code, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { code, message: message.into(), help: help.into() }
    }
}

/// The JSON type of a value, for the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonType {
    /// A string.
    Text,
    /// A whole number.
    Integer,
    /// Any number.
    Number,
    /// True or false.
    Boolean,
    /// A string or a whole number.
    TextOrInteger,
}

/// The form of the values of a kind.
#[derive(Clone, Debug)]
pub struct Form {
    /// The name with its article: `a time span`.
    pub name: &'static str,
    /// Examples as TOML. The first is the one shown in messages.
    pub examples: Vec<String>,
    /// A regular expression that every value matches.
    pub pattern: Option<&'static str>,
    /// The allowed words, if there is a fixed list.
    pub words: Vec<&'static str>,
    /// The JSON type.
    pub json: JsonType,
    /// The advice for a bare number: braces stand for the number.
    pub bare_number: Option<&'static str>,
}

impl Form {
    pub(crate) fn text(name: &'static str, examples: &[&str]) -> Self {
        Self {
            name,
            examples: examples.iter().map(|example| quoted(example)).collect(),
            pattern: None,
            words: Vec::new(),
            json: JsonType::Text,
            bare_number: None,
        }
    }

    pub(crate) fn number(name: &'static str, examples: &[&str], json: JsonType) -> Self {
        let examples = examples.iter().map(|example| (*example).to_owned()).collect();
        Self { examples, json, ..Self::text(name, &[]) }
    }

    pub(crate) fn pattern(mut self, pattern: &'static str) -> Self {
        self.pattern = Some(pattern);
        self
    }

    pub(crate) fn bare_number(mut self, shown: &'static str) -> Self {
        self.bare_number = Some(shown);
        self
    }

    /// Advice on what to write.
    pub(crate) fn advice(&self) -> String {
        if self.words.is_empty() {
            format!("write {} such as {}", self.name, self.examples.first().map_or("", String::as_str))
        } else {
            format!("write one of {}", self.words.join(", "))
        }
    }

    /// The error for a value of another type.
    pub(crate) fn wrong_type(&self, value: &Value) -> Misread {
        let message = format!("expected {}, found {}", self.name, value.noun());
        Misread::new(Code::WrongType, message, self.advice())
    }
}

/// A kind of value.
pub(crate) trait Kind {
    /// The parsed type.
    type Value: Clone + Debug + PartialEq;

    /// The form of its values.
    fn form() -> Form;

    /// Parses a value.
    fn read(value: &Value) -> Result<Self::Value, Misread>;

    /// Formats a value as canonical TOML.
    fn show(value: &Self::Value) -> String;

    /// Whether an invalid value must be redacted in messages.
    fn is_covered(_value: &Value) -> bool {
        false
    }
}

/// The text of a value that must be one. For a bare number the error names the missing unit.
pub(crate) fn expect_text(value: &Value, form: fn() -> Form) -> Result<&str, Misread> {
    let number = match value {
        Value::Text(text) => return Ok(text),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) if number.is_finite() => number.to_string(),
        other => return Err(form().wrong_type(other)),
    };
    let form = form();
    match form.bare_number {
        None => Err(form.wrong_type(value)),
        Some(shown) => {
            let written = shown.replace("{}", &number);
            let message = format!("{number} has no unit: expected {}", form.name);
            Err(Misread::new(
                Code::MissingUnit,
                message,
                format!("write {written}, if that is what you mean"),
            ))
        }
    }
}

/// The error for a text; it names the kind that the text does fit, if any.
pub(crate) fn refuse_text(text: &str, form: &Form) -> Misread {
    match other_kind(text, form.name) {
        Some(other) => {
            let message = format!("{} is {other}, not {}", quoted(text), form.name);
            Misread::new(Code::WrongUnit, message, form.advice())
        }
        None => {
            let message = format!("{} is not {}", quoted(text), form.name);
            Misread::new(Code::Unreadable, message, form.advice())
        }
    }
}

/// The error for a text whose number is out of range; other texts as in [`refuse_text`]. `largest` is the maximum.
pub(crate) fn refuse_number<T>(
    text: &str,
    form: &Form,
    largest: &str,
    parse: impl Fn(&str) -> Option<T>,
) -> Misread {
    let is_part = |character: char| character.is_ascii_digit() || character == ',';
    let start = text.find(is_part).unwrap_or(text.len());
    let (before, rest) = text.split_at(start);
    let (number, after) = rest.split_at(rest.find(|character| !is_part(character)).unwrap_or(rest.len()));
    // The text is valid with a smaller number in its place: so only the number is wrong.
    if number::is_written_well(number) && parse(&format!("{before}1{after}")).is_some() {
        let message = format!("{} is too large: at most {largest} can be set", quoted(text));
        return Misread::new(Code::Impossible, message, form.advice());
    }
    refuse_text(text, form)
}

/// Another kind that a text with a unit fits.
fn other_kind(text: &str, expected: &str) -> Option<&'static str> {
    let probes: [fn(&str) -> Option<&'static str>; 8] = [
        |text| parses(time::parse_span(text), "a time span"),
        |text| parses(number::parse_percent(text), "a percentage"),
        |text| parses(number::parse_bytes(text), "a size"),
        |text| parses(number::parse_rate(text), "a rate"),
        |text| parses(money::parse_price(text), "a price of a million tokens"),
        |text| parses(money::parse_day_amount(text), "an amount a day"),
        |text| text.starts_with('$').then(|| parses(money::parse_amount(text), "an amount of money"))?,
        |text| parses(calendar::parse_clock(text), "a time of day"),
    ];
    probes.iter().filter_map(|probe| probe(text)).find(|found| *found != expected)
}

fn parses<T>(parsed: Option<T>, name: &'static str) -> Option<&'static str> {
    parsed.map(|_| name)
}
