//! Words, amounts and times of decision records, as people read them.

use serde_json::Value;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// How much attention something needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attention {
    Fine,
    Warning,
    Bad,
}

impl Attention {
    /// Of the outcome of a request.
    pub(crate) fn of_outcome(outcome: &str) -> Self {
        match outcome {
            "answered" => Self::Fine,
            "degraded" | "abandoned" => Self::Warning,
            _ => Self::Bad,
        }
    }

    /// The mark that stands beside the colour.
    pub(crate) const fn mark(self) -> &'static str {
        match self {
            Self::Fine => " ",
            Self::Warning => "!",
            Self::Bad => "X",
        }
    }

    /// The text in the colour of the severity, in the terminal's own palette.
    pub(crate) fn paint(self, text: &str, uses_colours: bool) -> String {
        match self {
            Self::Warning if uses_colours => format!("\u{1b}[33m{text}\u{1b}[0m"),
            Self::Bad if uses_colours => format!("\u{1b}[31m{text}\u{1b}[0m"),
            _ => text.to_owned(),
        }
    }
}

/// A field that is a text, or `default`.
pub(crate) fn text_of<'a>(value: &'a Value, key: &str, default: &'a str) -> &'a str {
    value[key].as_str().unwrap_or(default)
}

/// A field that is a number, or 0.
pub(crate) fn number_of(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_default()
}

/// An amount per request: six decimals.
pub(crate) fn request_cost(nanos: u64) -> String {
    match nanos {
        0 => "$0.000000".to_owned(),
        1..1_000 => "<$0.000001".to_owned(),
        nanos => format!("${}.{:06}", nanos / 1_000_000_000, nanos % 1_000_000_000 / 1_000),
    }
}

/// A total: cents, and a separator for thousands.
pub(crate) fn total_cost(nanos: u64) -> String {
    let dollars = (nanos / 1_000_000_000).to_string();
    let mut grouped = String::new();
    for (index, digit) in dollars.chars().enumerate() {
        if index > 0 && (dollars.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("${grouped}.{:02}", nanos % 1_000_000_000 / 10_000_000)
}

/// A duration in seconds, or in milliseconds below a tenth.
pub(crate) fn duration(micros: u64) -> String {
    if micros < 100_000 { format!("{} ms", micros / 1_000) } else { seconds(micros) + " s" }
}

/// A duration in seconds, without its unit.
pub(crate) fn seconds(micros: u64) -> String {
    format!("{}.{:02}", micros / 1_000_000, micros % 1_000_000 / 10_000)
}

/// The part of a time after its date: `13:12:07.412Z`.
pub(crate) fn clock_time(time: &str) -> &str {
    time.split_once('T').map_or(time, |(_, clock)| clock)
}

/// A text cut or filled to a number of columns.
pub(crate) fn column(text: &str, width: usize) -> String {
    let mut cut = String::new();
    let mut used = 0;
    for character in text.chars() {
        let columns = character.width().unwrap_or_default();
        if used + columns > width {
            break;
        }
        cut.push(character);
        used += columns;
    }
    cut + &" ".repeat(width - used)
}

/// The same, aligned to the right.
pub(crate) fn right_column(text: &str, width: usize) -> String {
    let fill = width.saturating_sub(text.width());
    if fill == 0 { column(text, width) } else { " ".repeat(fill) + text }
}

/// A caller's pseudonym, shortened for a table.
pub(crate) fn short_caller(caller: &str) -> String {
    match (caller.get(..4), caller.get(caller.len().saturating_sub(2)..)) {
        (Some(start), Some(end)) if caller.len() > 8 => format!("{start}..{end}"),
        _ => caller.to_owned(),
    }
}

/// What happened to the request, in one line: the reason of a rejection, interruption or degradation.
pub(crate) fn reason(record: &Value) -> Option<String> {
    let outcome = text_of(record, "outcome", "");
    let label = text_of(record, "reason", "");
    if outcome == "rejected" {
        let limit = &record["limits"]["allowance"];
        let named = match (label, record["limit"].as_str(), limit.as_str()) {
            ("rate_limited", Some(limit), Some(allowance)) => format!("rate_limited: {limit}, {allowance}"),
            _ => label.to_owned(),
        };
        let cause = record["cause"].as_str().map(|cause| format!(" ({cause})")).unwrap_or_default();
        return Some(named + &cause);
    }
    if outcome == "interrupted" {
        return Some(format!("the stream was interrupted: {label}"));
    }
    let mut reasons = Vec::new();
    for skipped in items(record, "skipped_targets") {
        let (target, reason) = (text_of(skipped, "target", "-"), text_of(skipped, "reason", "-"));
        reasons.push(format!("{target} skipped: {reason}"));
    }
    for attempt in items(record, "attempt_details") {
        let result = text_of(attempt, "outcome", "");
        if result != "succeeded" && !(result == "abandoned" && outcome == "abandoned") {
            reasons.push(failed_attempt(attempt));
        }
    }
    let own = items(record, "rung_reasons").iter().filter_map(|reason| reason.as_str());
    reasons.extend(own.map(ToOwned::to_owned));
    let restricted = items(record, "plan_reasons").iter().filter_map(|reason| reason.as_str());
    reasons.extend(restricted.map(|reason| format!("plan restricted by {reason}")));
    if outcome == "abandoned" {
        reasons.push("the caller disconnected before the answer was complete".to_owned());
    }
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

fn failed_attempt(attempt: &Value) -> String {
    let (target, result) = (text_of(attempt, "target", "-"), text_of(attempt, "outcome", "-"));
    let status = attempt["status"].as_u64().map(|status| format!(" ({status})")).unwrap_or_default();
    let opened = if attempt["opened_breaker"] == true { ", breaker opened" } else { "" };
    format!("{target} failed: {result}{status}{opened}")
}

/// The items of a list; none if there is no such list.
pub(crate) fn items<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::{column, request_cost, right_column, short_caller, total_cost};

    #[test]
    fn amounts_have_one_precision_each() {
        assert_eq!(
            [0, 999, 1_000, 449_000, 12_345_678_901].map(request_cost),
            ["$0.000000", "<$0.000001", "$0.000001", "$0.000449", "$12.345678"]
        );
        assert_eq!(
            [0, 9_999_999, 4_812_070_000_000, 1_000_000_000_000_000].map(total_cost),
            ["$0.00", "$0.00", "$4,812.07", "$1,000,000.00"]
        );
    }

    #[test]
    fn columns_count_what_a_terminal_shows() {
        assert_eq!((column("漫画", 6), column("漫画本", 5)), ("漫画  ".to_owned(), "漫画 ".to_owned()));
        assert_eq!((right_column("漫", 4), right_column("abc", 2)), ("  漫".to_owned(), "ab".to_owned()));
        assert_eq!(
            (short_caller("9f3c41d07ab2e655"), short_caller("-")),
            ("9f3c..55".to_owned(), "-".to_owned())
        );
    }
}
