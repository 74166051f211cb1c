//! Formats one request as one line of JSON.

use super::decision::{write_attempt_decisions, write_decisions};
use crate::digits::padded;
use seawall_core::money::Money;
use seawall_core::time::{Now, UtcTime};
use seawall_pipeline::{AttemptSummary, PlanRecord, RequestRecord, format_request_id, hex};
use std::fmt::{Display, Write as _};
use std::time::Duration;

/// How much of a record is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineDetail {
    /// Attempts are left out if there was only one, which began at once and succeeded: for the log.
    Compact,
    /// All attempts, and everything else that explains the outcome: for the admin API and the decision records.
    Full,
}

/// Appends a line for this record, including the line end. `now` is any moment read on both clocks; it converts the end
/// of the request to wall-clock time. `pseudonym` maps a caller to its pseudonym.
pub(crate) fn write_line(
    line: &mut String,
    record: &RequestRecord,
    now: Now,
    detail: LineDetail,
    pseudonym: impl Fn(u64) -> u64,
) {
    line.push_str("{\"time\":\"");
    write_time(line, end_time(record, now));
    // Every value is a number or a fixed label, except names from the settings; in full detail also messages.
    line.push('"');
    label_field(line, "id", &format_request_id(record.id));
    label_field(line, "face", record.face);
    if let Some(route) = &record.route {
        name_field(line, "route", route);
    }
    if let Some((caller, tier, origin)) = record.caller {
        label_field(line, "caller", &hex(pseudonym(caller)));
        label_field(line, "tier", tier.name());
        label_field(line, "tier_origin", origin.name());
    }
    label_field(line, "outcome", record.outcome.label());
    if let Some(reason) = record.outcome.reason() {
        label_field(line, "reason", reason);
    }
    if let Some(cause) = record.cause {
        label_field(line, "cause", cause);
    }
    if let Some(failed_targets) = &record.failed_targets {
        name_field(line, "failed_targets", failed_targets);
    }
    if let Some(limit) = &record.limit {
        name_field(line, "limit", &limit.name);
        label_field(line, "limit_scope", limit.scope.label());
    }
    if record.limit_observed {
        line.push_str(",\"limit_observed\":true");
    }
    if let Some(rung) = record.rung {
        label_field(line, "rung", rung.name());
    }
    if let Some(target) = &record.target {
        name_field(line, "target", target);
    }
    let usage = &record.usage;
    number_field(line, ",\"attempts\":", record.attempts.into());
    if !record.first_attempts.is_empty() && (detail == LineDetail::Full || !record.is_plain()) {
        list_field(line, "attempt_details", &record.first_attempts, |line, attempt| {
            write_attempt(line, attempt, detail);
        });
    }
    if let Some(plan) = &record.plan {
        write_plan(line, plan);
    }
    number_field(line, ",\"tokens\":{\"input\":", usage.input);
    number_field(line, ",\"cache_read\":", usage.cache_read);
    number_field(line, ",\"cache_write\":", usage.cache_write);
    number_field(line, ",\"output\":", usage.output);
    number_field(line, "},\"cost_nanos\":", record.cost.as_nanos());
    if record.is_cost_unknown {
        line.push_str(",\"cost_unknown\":true");
    }
    if record.overrun > Money::ZERO {
        label_field(line, "alarm", "overrun");
        number_field(line, ",\"overrun_nanos\":", record.overrun.as_nanos());
    }
    if record.is_capped {
        line.push_str(",\"usage_capped\":true");
    }
    if let Some(first) = record.first_content {
        micros_field(line, ",\"first_content_us\":", first);
    }
    micros_field(line, ",\"duration_us\":", record.duration);
    if let Some(overhead) = record.overhead {
        micros_field(line, ",\"overhead_us\":", overhead);
    }
    let mut stages = record.stages.iter().peekable();
    if stages.peek().is_some() {
        line.push_str(",\"stages_us\":{");
        for (index, (stage, time)) in stages.enumerate() {
            line.push_str(if index == 0 { "\"" } else { ",\"" });
            line.push_str(stage.name());
            micros_field(line, "\":", time);
        }
        line.push('}');
    }
    if detail == LineDetail::Full {
        write_decisions(line, record);
    }
    line.push_str("}\n");
}

/// An attempt as an object, without what is zero.
fn write_attempt(line: &mut String, attempt: &AttemptSummary, detail: LineDetail) {
    let AttemptSummary { target, cause, outcome, delay, start, duration, .. } = attempt;
    for part in ["{\"cause\":\"", cause.label(), "\""] {
        line.push_str(part);
    }
    if let Some(skipped) = cause.skipped() {
        label_field(line, "skipped", skipped.label());
    }
    name_field(line, "target", target);
    label_field(line, "outcome", outcome.label());
    if !delay.is_zero() {
        micros_field(line, ",\"delay_us\":", (*delay).into());
    }
    micros_field(line, ",\"start_us\":", (*start).into());
    micros_field(line, ",\"duration_us\":", (*duration).into());
    if detail == LineDetail::Full {
        write_attempt_decisions(line, attempt);
    }
    line.push('}');
}

/// The reasons of a plan, and the plan that protections in observe mode would have made.
fn write_plan(line: &mut String, plan: &PlanRecord) {
    let write_label = |line: &mut String, label: &dyn Display| {
        // Writing to a string cannot fail. Labels of ours need no escapes.
        let _ = write!(line, "\"{label}\"");
    };
    if !plan.reasons.is_empty() {
        list_field(line, "plan_reasons", &plan.reasons, |line, reason| write_label(line, reason));
    }
    if let Some(shadow) = &plan.shadow {
        line.push_str(",\"shadow_plan\":{\"ceiling\":");
        write_label(line, &shadow.ceiling);
        list_field(line, "rungs", &shadow.rungs, |line, rung| write_label(line, &rung.name()));
        list_field(line, "reasons", &shadow.reasons, |line, reason| write_label(line, reason));
        line.push('}');
    }
}

/// A field with a list.
pub(super) fn list_field<T>(line: &mut String, key: &str, items: &[T], write: impl Fn(&mut String, &T)) {
    for part in [",\"", key, "\":["] {
        line.push_str(part);
    }
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            line.push(',');
        }
        write(line, item);
    }
    line.push(']');
}

pub(super) fn micros_field(line: &mut String, key: &str, time: Duration) {
    number_field(line, key, u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
}

/// A field with a fixed label, which needs no escapes.
pub(super) fn label_field(line: &mut String, key: &str, label: &str) {
    for part in [",\"", key, "\":\"", label, "\""] {
        line.push_str(part);
    }
}

pub(super) fn number_field(line: &mut String, key: &str, number: u64) {
    line.push_str(key);
    line.push_str(itoa::Buffer::new().format(number));
}

/// The wall-clock time at which a request ended.
pub(crate) fn end_time(record: &RequestRecord, now: Now) -> UtcTime {
    let ago = u64::try_from((now.monotonic - record.ended).as_nanos()).unwrap_or(u64::MAX);
    UtcTime::from_nanos(now.utc.as_nanos().saturating_sub(ago))
}

/// A field with a name from the settings. Control characters and bidirectional marks are escaped.
pub(super) fn name_field(line: &mut String, key: &str, name: &str) {
    line.push_str(",\"");
    line.push_str(key);
    line.push_str("\":\"");
    for character in name.chars() {
        match character {
            '"' => line.push_str("\\\""),
            '\\' => line.push_str("\\\\"),
            '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' => unicode_escape(line, character),
            control if control.is_control() => unicode_escape(line, control),
            other => line.push(other),
        }
    }
    line.push('"');
}

fn unicode_escape(line: &mut String, character: char) {
    let _ = write!(line, "\\u{:04x}", u32::from(character));
}

/// Formats a time by RFC 3339, in UTC and to the millisecond.
pub(crate) struct Rfc3339(pub(crate) UtcTime);

impl std::fmt::Display for Rfc3339 {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = String::with_capacity(24);
        write_time(&mut text, self.0);
        formatter.write_str(&text)
    }
}

fn write_time(line: &mut String, moment: UtcTime) {
    let (year, month, day) = moment.civil();
    let millis = moment.as_nanos() / 1_000_000;
    let (seconds, millis) = (millis / 1_000 % 86_400, millis % 1_000);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    for (number, width, behind) in [
        (u64::try_from(year).unwrap_or(0), 4, '-'),
        (u64::from(month), 2, '-'),
        (u64::from(day), 2, 'T'),
        (hour, 2, ':'),
        (minute, 2, ':'),
        (second, 2, '.'),
        (millis, 3, 'Z'),
    ] {
        line.push_str(&padded(number, width));
        line.push(behind);
    }
}
