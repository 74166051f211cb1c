//! The text format, one line per event, and the time of events by the gateway's clock.

use crate::log::Rfc3339;
use crate::runtime::TokioRuntime;
use seawall_pipeline::Runtime as _;
use std::fmt;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// The wall clock of the gateway's runtime, the only one in the process.
pub(super) struct ClockTime(pub(super) TokioRuntime);

impl FormatTime for ClockTime {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        write!(writer, "{}", Rfc3339(self.0.now().utc))
    }
}

/// Time, level and text of an event. The field `details` follows on lines of its own.
pub(super) struct TextFormat {
    pub(super) clock: ClockTime,
    pub(super) colours: bool,
}

impl<S, N> FormatEvent<S, N> for TextFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = TextFields::default();
        event.record(&mut fields);
        self.clock.format_time(&mut writer)?;
        let level = *event.metadata().level();
        let (colour, reset) = if self.colours { (colour(level), "\x1b[0m") } else { ("", "") };
        writeln!(writer, " {colour}{level:>5}{reset} seawall: {}", fields.message)?;
        match fields.details.as_str() {
            "" => Ok(()),
            details => writeln!(writer, "{}", details.trim_end_matches('\n')),
        }
    }
}

const fn colour(level: Level) -> &'static str {
    match level {
        Level::ERROR => "\x1b[31m",
        Level::WARN => "\x1b[33m",
        _ => "\x1b[32m",
    }
}

#[derive(Default)]
struct TextFields {
    message: String,
    details: String,
}

impl Visit for TextFields {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => escape(&mut self.message, value),
            // Several lines on purpose, with colours where there is a terminal. They never quote what a caller sent.
            "details" => self.details.push_str(value),
            _ => {}
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            escape(&mut self.message, &format!("{value:?}"));
        }
    }
}

/// Escapes what would end the line, control a terminal or reverse its text: an error of a remote store is not ours.
fn escape(out: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' => {
                out.extend(character.escape_unicode());
            }
            control if control.is_control() => out.extend(control.escape_default()),
            other => out.push(other),
        }
    }
}
