//! The kinds of values that keys have, such as a duration or an amount of money.
//!
//! A kind parses a value, formats it canonically and describes its format. It refuses an invalid value with advice on
//! what to write instead. **What it does not do.** It does not judge whether a value makes sense for its key.

mod calendar;
mod choice;
mod money;
mod network;
mod number;
mod range;
#[cfg(test)]
mod range_tests;
mod secret;
mod text;
mod time;

pub use calendar::parse_day;
pub(crate) use calendar::{DateKind, TimeOfDayKind, UtcOffsetKind, parse_date};
pub use choice::{
    DiagnosticFormat, DiagnosticLevel, FaceName, JwtAlgorithm, Provider, RetryCosts, RuntimeLayout, StoreKind,
};
pub(crate) use choice::{JitterKind, ProviderKind, UntrackedRuleKind};
pub(crate) use money::{
    AmountKind, DailyAmountKind, PeriodAmountKind, TokenPriceKind, parse_amount, parse_period_amount,
};
pub(crate) use network::{JwksKind, ListenAddressKind, UrlKind};
pub use network::{JwksSource, is_metadata_host};
pub(crate) use number::{
    BooleanKind, BytesKind, CoresKind, CountKind, NumberKind, PercentKind, RateKind, SmallCountKind,
    parse_rate,
};
pub use number::{CoreCount, RatePeriod, RateValue};
pub use range::AddressRange;
pub(crate) use range::AddressRangeKind;
pub use secret::SecretReference;
pub(crate) use secret::{KeyHashKind, SecretKind};
pub use text::LogDestination;
pub(crate) use text::{LocaleKind, LogDestinationKind, PathKind, TextKind, quoted};
pub(crate) use time::DurationKind;
pub use time::{format_duration, parse_duration};

use crate::problem::ProblemCode;
use crate::tree::TomlValue;
use std::fmt::Debug;

/// Why a value was refused.
#[derive(Clone, Debug)]
pub(crate) struct ValueError {
    pub(crate) code: ProblemCode,
    pub(crate) message: String,
    pub(crate) help: String,
}

impl ValueError {
    pub(crate) fn new(code: ProblemCode, message: impl Into<String>, help: impl Into<String>) -> Self {
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

/// The format of the values of a kind.
#[derive(Clone, Debug)]
pub struct ValueFormat {
    /// The name with its article: `a duration`.
    pub name: &'static str,
    /// Examples as TOML. The first is the one shown in messages.
    pub examples: Vec<String>,
    /// A regular expression that every value matches.
    pub pattern: Option<&'static str>,
    /// The allowed values, if there is a fixed list.
    pub choices: Vec<&'static str>,
    /// The JSON type.
    pub json: JsonType,
    /// The advice for a bare number: braces stand for the number.
    pub bare_number: Option<&'static str>,
}

impl ValueFormat {
    pub(crate) fn text(name: &'static str, examples: &[&str]) -> Self {
        Self {
            name,
            examples: examples.iter().map(|example| quoted(example)).collect(),
            pattern: None,
            choices: Vec::new(),
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
        if self.choices.is_empty() {
            format!("write {} such as {}", self.name, self.examples.first().map_or("", String::as_str))
        } else {
            format!("write one of {}", self.choices.join(", "))
        }
    }

    /// The error for a value of another type.
    pub(crate) fn wrong_type(&self, value: &TomlValue) -> ValueError {
        let message = format!("expected {}, found {}", self.name, value.type_name());
        ValueError::new(ProblemCode::WrongType, message, self.advice())
    }
}

/// A kind of value.
pub(crate) trait ValueKind {
    /// The parsed type.
    type Value: Clone + Debug + PartialEq;

    /// The format of its values.
    fn format() -> ValueFormat;

    /// Parses a value.
    fn parse(value: &TomlValue) -> Result<Self::Value, ValueError>;

    /// Formats a value as canonical TOML.
    fn to_toml(value: &Self::Value) -> String;

    /// Whether an invalid value must be redacted in messages.
    fn is_redacted(_value: &TomlValue) -> bool {
        false
    }
}

/// The text of a value that must be one. For a bare number the error names the missing unit.
pub(crate) fn expect_text(value: &TomlValue, format: fn() -> ValueFormat) -> Result<&str, ValueError> {
    let number = match value {
        TomlValue::Text(text) => return Ok(text),
        TomlValue::Integer(number) => number.to_string(),
        TomlValue::Float(number) if number.is_finite() => number.to_string(),
        other => return Err(format().wrong_type(other)),
    };
    let format = format();
    match format.bare_number {
        None => Err(format.wrong_type(value)),
        Some(shown) => {
            let written = shown.replace("{}", &number);
            let message = format!("{number} has no unit: expected {}", format.name);
            Err(ValueError::new(ProblemCode::MissingUnit, message, format!("did you mean {written}?")))
        }
    }
}

/// The error for a text; it names the kind that the text does fit, if any.
pub(crate) fn text_error(text: &str, format: &ValueFormat) -> ValueError {
    match matching_kind(text, format.name) {
        Some(other) => {
            let message = format!("{} is {other}, not {}", quoted(text), format.name);
            ValueError::new(ProblemCode::WrongUnit, message, format.advice())
        }
        None => {
            let message = format!("{} is not {}", quoted(text), format.name);
            ValueError::new(ProblemCode::ParseError, message, format.advice())
        }
    }
}

/// The error for a text whose number is out of range; other texts as in [`text_error`]. `largest` is the maximum.
pub(crate) fn number_error<T>(
    text: &str,
    format: &ValueFormat,
    largest: &str,
    parse: impl Fn(&str) -> Option<T>,
) -> ValueError {
    let is_part = |character: char| character.is_ascii_digit() || character == ',';
    let start = text.find(is_part).unwrap_or(text.len());
    let (before, rest) = text.split_at(start);
    let (number, after) = rest.split_at(rest.find(|character| !is_part(character)).unwrap_or(rest.len()));
    // The text is valid with a smaller number in its place: so only the number is wrong.
    if number::is_well_formed(number) && parse(&format!("{before}1{after}")).is_some() {
        let message = format!("{} is too large: the maximum is {largest}", quoted(text));
        return ValueError::new(ProblemCode::InvalidValue, message, format.advice());
    }
    text_error(text, format)
}

/// Another kind that a text with a unit fits.
fn matching_kind(text: &str, expected: &str) -> Option<&'static str> {
    let probes: [fn(&str) -> Option<&'static str>; 8] = [
        |text| parses(time::parse_duration(text), "a duration"),
        |text| parses(number::parse_percent(text), "a percentage"),
        |text| parses(number::parse_bytes(text), "a byte size"),
        |text| parses(number::parse_rate(text), "a rate"),
        |text| parses(money::parse_price(text), "a price per million tokens"),
        |text| parses(money::parse_day_amount(text), "a daily amount"),
        |text| text.starts_with('$').then(|| parses(money::parse_amount(text), "an amount"))?,
        |text| parses(calendar::parse_clock(text), "a time of day"),
    ];
    probes.iter().filter_map(|probe| probe(text)).find(|found| *found != expected)
}

fn parses<T>(parsed: Option<T>, name: &'static str) -> Option<&'static str> {
    parsed.map(|_| name)
}
