//! The fields of a decision record that the access log does not have: what was decided, and why.

use super::line::{label_field, list_field, micros_field, name_field, number_field};
use crate::face::describe_rejection;
use seawall_core::money::Money;
use seawall_pipeline::{
    AttemptSummary, CheckedLimitSummary, PlannedRungs, Rejection, RequestRecord, SkippedTarget,
};
use seawall_provider::TRACEPARENT;
use std::fmt::Write as _;

/// Maximum length of a message, in characters.
const MAX_MESSAGE: usize = 400;

/// Appends what the access log does not have of a request.
pub(super) fn write_decisions(line: &mut String, record: &RequestRecord) {
    if record.caller.is_some() || record.credential.is_some() {
        label_field(line, "credential", record.credential.map_or("guest", |kind| kind.label()));
    }
    if let Some(contract) = &record.contract {
        message_field(line, "key", &contract.name);
        if let Some(team) = &contract.labels.team {
            message_field(line, "team", team);
        }
    }
    let trace = record.trace.as_ref().and_then(|trace| trace.pairs().find(|(name, _)| *name == TRACEPARENT));
    // Version, trace id, parent id and flags: checked when the header was read.
    if let Some(trace_id) = trace.and_then(|(_, parent)| parent.split('-').nth(1)) {
        name_field(line, "trace_id", trace_id);
    }
    if let Some(limits) = &record.limits {
        write_limits(line, limits);
    }
    if let Some(planned) = &record.planned {
        write_planned(line, planned);
    }
    if let Some(reasons) = &record.rung_reasons {
        list_field(line, "rung_reasons", reasons, |line, reason| write_text(line, reason));
    }
    if let Some(skipped) = &record.skipped_targets {
        list_field(line, "skipped_targets", skipped, write_skipped);
    }
    if record.reserved > Money::ZERO {
        let released = record.reserved.saturating_add(record.overrun).saturating_sub(record.cost);
        number_field(line, ",\"reserved_nanos\":", record.reserved.as_nanos());
        number_field(line, ",\"released_nanos\":", released.as_nanos());
    }
    if let Some(rejection) = &record.rejection {
        let (message, retry_after) = describe_rejection(rejection, record.failed_targets.as_deref());
        match &**rejection {
            // Whatever the caller wrote in place of a name is not recorded.
            Rejection::UnknownModel(name) if !is_plausible_name(name) => {
                message_field(
                    line,
                    "message",
                    "the model does not exist or is not available on this endpoint",
                );
            }
            _ => message_field(line, "message", &message),
        }
        if let Some(retry_after) = retry_after {
            number_field(
                line,
                ",\"retry_after_ms\":",
                u64::try_from(retry_after.as_millis()).unwrap_or(u64::MAX),
            );
        }
    }
}

/// Appends what the access log does not have of an attempt.
pub(super) fn write_attempt_decisions(line: &mut String, attempt: &AttemptSummary) {
    label_field(line, "grade", attempt.grade.name());
    if let Some(status) = attempt.error.status {
        number_field(line, ",\"status\":", status.into());
    }
    if let Some(message) = &attempt.error.message {
        message_field(line, "error", message);
    }
    if attempt.opened_breaker {
        line.push_str(",\"opened_breaker\":true");
    }
    if let Some(first_content) = attempt.first_content {
        micros_field(line, ",\"first_content_us\":", first_content.into());
    }
    number_field(line, ",\"received_bytes\":", attempt.received_bytes);
    number_field(line, ",\"cost_nanos\":", attempt.cost.as_nanos());
}

fn write_limits(line: &mut String, limits: &CheckedLimitSummary) {
    number_field(line, ",\"limits\":{\"checked\":", limits.checked.into());
    name_field(line, "tightest", &limits.tightest.name);
    label_field(line, "scope", limits.tightest.scope.label());
    name_field(line, "allowance", &limits.tightest.to_string());
    number_field(line, ",\"capacity\":", limits.capacity.into());
    number_field(line, ",\"remaining\":", limits.remaining.into());
    line.push('}');
}

fn write_planned(line: &mut String, planned: &PlannedRungs) {
    // Labels of ours need no escapes, and writing to a string cannot fail.
    let _ = write!(
        line,
        ",\"plan\":{{\"level\":\"{}\",\"ceiling\":\"{}\"",
        planned.level.name(),
        planned.ceiling
    );
    if let Some(preferred) = planned.preferred {
        label_field(line, "preferred", preferred.name());
    }
    list_field(line, "rungs", &planned.rungs, |line, rung| write_text(line, rung.name()));
    line.push('}');
}

fn write_skipped(line: &mut String, skipped: &SkippedTarget) {
    line.push_str("{\"reason\":\"");
    line.push_str(skipped.reason.label());
    line.push('"');
    name_field(line, "target", &skipped.target);
    line.push('}');
}

/// An item of a list. The texts are ours, but they may name a target or a rule of the settings.
fn write_text(line: &mut String, text: &str) {
    // A string is always valid JSON.
    line.push_str(&serde_json::to_string(text).unwrap_or_default());
}

/// Whether this may be the name of a model.
fn is_plausible_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/".contains(&byte);
    name.len() <= 128 && name.bytes().all(is_plain) && name.bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// A message, shortened and without characters that could change how a terminal shows it.
fn message_field(line: &mut String, key: &str, message: &str) {
    let is_unsafe = |character: char| {
        character.is_control()
            || matches!(character, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
    };
    let cleaned: String;
    let mut message = message;
    if message.contains(is_unsafe) {
        cleaned = message.replace(is_unsafe, " ");
        message = &cleaned;
    }
    match message.char_indices().nth(MAX_MESSAGE) {
        Some((end, _)) => name_field(line, key, &(message[..end].to_owned() + "…")),
        None => name_field(line, key, message),
    }
}
