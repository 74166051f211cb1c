//! One request as one line of JSON.

use seawall_core::time::{Now, UtcTime};
use seawall_pipeline::{Record, Verdict, request_name};
use std::fmt::Write as _;

/// Adds a line for this record, with its line end. `now` is any moment read on both clocks: it tells what time it was when
/// the request ended.
pub(crate) fn write_line(line: &mut String, record: &Record, now: Now) {
    let (verdict, reason) = words(&record.verdict);
    // Writing to a string cannot fail. Every value is a number or one of our own words, but for two names from settings.
    let _ = write!(line, "{{\"time\":\"{}\"", Rfc3339(moment(record, now)));
    let _ = write!(line, ",\"id\":\"{}\",\"face\":\"{}\"", request_name(record.id), record.face);
    if let Some(route) = &record.route {
        name(line, "route", route);
    }
    if let Some((caller, tier, origin)) = record.caller {
        let _ = write!(line, ",\"caller\":\"{caller:016x}\"");
        let _ = write!(line, ",\"tier\":\"{}\",\"tier_origin\":\"{}\"", tier.name(), origin.name());
    }
    let _ = write!(line, ",\"verdict\":\"{verdict}\"");
    if let Some(reason) = reason {
        let _ = write!(line, ",\"reason\":\"{reason}\"");
    }
    if let Some(cause) = record.cause {
        let _ = write!(line, ",\"cause\":\"{cause}\"");
    }
    if record.would_limit {
        line.push_str(",\"would_limit\":true");
    }
    if let Some(rung) = record.rung {
        let _ = write!(line, ",\"rung\":\"{}\"", rung.name());
    }
    if let Some(target) = &record.target {
        name(line, "target", target);
    }
    let usage = &record.usage;
    let _ = write!(
        line,
        ",\"attempts\":{},\"tokens\":{{\"input\":{},\"cache_read\":{},\"cache_write\":{},\"output\":{}}}",
        record.attempts, usage.input, usage.cache_read, usage.cache_write, usage.output,
    );
    let _ = write!(line, ",\"cost_nanos\":{}", record.cost.as_nanos());
    if let Some(first) = record.first_content {
        let _ = write!(line, ",\"first_content_us\":{}", first.as_micros());
    }
    let _ = write!(line, ",\"took_us\":{}", record.took.as_micros());
    if let Some(overhead) = record.overhead {
        let _ = write!(line, ",\"overhead_us\":{}", overhead.as_micros());
    }
    line.push_str("}\n");
}

const fn words(verdict: &Verdict) -> (&'static str, Option<&'static str>) {
    match verdict {
        Verdict::Answered => ("answered", None),
        Verdict::Interrupted(kind) => ("interrupted", Some(kind.label())),
        Verdict::Abandoned => ("abandoned", None),
        Verdict::Rejected(reason) => ("rejected", Some(reason)),
    }
}

/// When a request ended, by the calendar.
fn moment(record: &Record, now: Now) -> UtcTime {
    let ago = u64::try_from((now.monotonic - record.ended).as_nanos()).unwrap_or(u64::MAX);
    UtcTime::from_nanos(now.utc.as_nanos().saturating_sub(ago))
}

/// A name from settings. What steers a terminal or turns text around is written as its number.
fn name(line: &mut String, key: &str, name: &str) {
    let _ = write!(line, ",\"{key}\":\"");
    for character in name.chars() {
        match character {
            '"' => line.push_str("\\\""),
            '\\' => line.push_str("\\\\"),
            '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' => number(line, character),
            control if control.is_control() => number(line, control),
            other => line.push(other),
        }
    }
    line.push('"');
}

fn number(line: &mut String, character: char) {
    let _ = write!(line, "\\u{:04x}", u32::from(character));
}

/// A moment as RFC 3339 writes it, in UTC and to the millisecond.
pub(crate) struct Rfc3339(pub(crate) UtcTime);

impl std::fmt::Display for Rfc3339 {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (year, month, day) = self.0.civil();
        let millis = self.0.as_nanos() / 1_000_000;
        let (seconds, millis) = (millis / 1_000 % 86_400, millis % 1_000);
        let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
        write!(formatter, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
    }
}
