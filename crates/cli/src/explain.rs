//! `seawall explain`.

use crate::CommandError;
use crate::admin::encode_segment;
use crate::gateway_client::GatewayArguments;
use crate::output::print;
use crate::record_text::{
    Attention, column, duration, items, number_of, reason, request_cost, right_column, text_of,
};
use clap::Args;
use serde_json::Value;
use std::fmt::Write as _;

#[derive(Args)]
pub(crate) struct ExplainArguments {
    /// Request id, as in the response header x-request-id.
    #[arg(value_name = "ID")]
    id: String,
    #[command(flatten)]
    gateway: GatewayArguments,
}

pub(crate) fn run(arguments: &ExplainArguments) -> Result<(), CommandError> {
    let client = arguments.gateway.client()?;
    // A dot would be encoded, and an underscore is not: an id stays as it is.
    let record = client.get(&format!("/admin/requests/{}", encode_segment(&arguments.id)))?;
    if arguments.gateway.json {
        return print(&format!("{record}\n"));
    }
    print(&explanation(&record, arguments.gateway.uses_colours()))
}

/// The columns of the bars.
const BAR: u64 = 20;

/// The record in words.
pub(crate) fn explanation(record: &Value, uses_colours: bool) -> String {
    let mut text = String::new();
    let mut row = |name: &str, content: &str| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}{content}", column(name, 9));
    };
    let id = text_of(record, "id", "-");
    row("request", &format!("{id}  {}  {}", text_of(record, "face", "-"), text_of(record, "time", "-")));
    row("outcome", &outcome(record, uses_colours));
    row("why", reason(record).as_deref().unwrap_or("nothing restricted it"));
    for (name, key) in [("targets", "failed_targets"), ("message", "message")] {
        if let Some(content) = record[key].as_str() {
            row(name, content);
        }
    }
    if let Some(retry) = record["retry_after_ms"].as_u64() {
        row("retry", &format!("in {}", duration(retry.saturating_mul(1_000))));
    }
    if let Some(repeats) = record["repeats"].as_u64() {
        row("repeats", &format!("stands for {repeats} rejections of this caller for this reason"));
    }
    row("caller", &caller(record));
    if let Some(route) = record["route"].as_str() {
        row("route", route);
    }
    row("limits", &limits(record));
    row("budget", &budget(record));
    if record["plan"].is_object() {
        row("plan", &plan(record));
    }
    attempts(record, &mut text);
    let shadow = shadow(record);
    let _ = writeln!(text, "{}{shadow}", column("would be", 9));
    if let Some(trace) = record["trace_id"].as_str() {
        let _ = writeln!(text, "{}{trace}", column("trace", 9));
    }
    text
}

fn outcome(record: &Value, uses_colours: bool) -> String {
    let label = text_of(record, "outcome", "-");
    let severity = Attention::of_outcome(label);
    let mut shown =
        severity.paint(&format!("{} {label}", severity.mark()), uses_colours).trim_start().to_owned();
    let mut parts: Vec<String> = Vec::new();
    parts.extend(record["rung"].as_str().map(ToOwned::to_owned));
    parts.extend(record["target"].as_str().map(ToOwned::to_owned));
    if !parts.is_empty() {
        shown = format!("{shown}: {}", parts.join(", "));
    }
    if let Some(first) = record["first_content_us"].as_u64() {
        let _ = write!(shown, "; first content {}", duration(first));
    }
    let _ = write!(
        shown,
        "; total {}; {}",
        duration(number_of(record, "duration_us")),
        request_cost(number_of(record, "cost_nanos"))
    );
    shown
}

fn caller(record: &Value) -> String {
    let Some(caller) = record["caller"].as_str() else {
        let credential = record["credential"].as_str().map(|kind| format!("; credential {kind}"));
        return "not identified".to_owned() + &credential.unwrap_or_default();
    };
    let key = record["key"].as_str().map(|key| format!("  key {key}")).unwrap_or_default();
    let (tier, origin) = (text_of(record, "tier", "-"), text_of(record, "tier_origin", "-"));
    let credential = text_of(record, "credential", "-");
    format!("{caller}{key}  tier {tier} ({origin})  credential {credential}")
}

fn limits(record: &Value) -> String {
    let limits = &record["limits"];
    let observed = if record["limit_observed"] == true {
        "; exceeded in observe mode, so that it was admitted"
    } else {
        ""
    };
    match limits["checked"].as_u64() {
        Some(checked) => format!(
            "{checked} checked; tightest {}: {} of {} left{observed}",
            text_of(limits, "allowance", "-"),
            number_of(limits, "remaining"),
            number_of(limits, "capacity"),
        ),
        None => format!("not checked{observed}"),
    }
}

fn budget(record: &Value) -> String {
    if record.get("reserved_nanos").is_none() {
        return "nothing reserved".to_owned();
    }
    let amount = |key| request_cost(number_of(record, key));
    let unknown = if record["cost_unknown"] == true { "  (the price of a model is unknown)" } else { "" };
    let overrun = record["overrun_nanos"].as_u64().map(|nanos| format!("  overrun {}", request_cost(nanos)));
    format!(
        "reserved {}  posted {}  released {}{}{unknown}",
        amount("reserved_nanos"),
        amount("cost_nanos"),
        amount("released_nanos"),
        overrun.unwrap_or_default()
    )
}

fn rungs(plan: &Value) -> String {
    let rungs: Vec<&str> = items(plan, "rungs").iter().filter_map(Value::as_str).collect();
    if rungs.is_empty() { "none".to_owned() } else { rungs.join(" > ") }
}

fn plan(record: &Value) -> String {
    let plan = &record["plan"];
    let (ceiling, level) = (text_of(plan, "ceiling", "-"), text_of(plan, "level", "-"));
    format!("{}; ceiling {ceiling}; level {level}", rungs(plan))
}

fn shadow(record: &Value) -> String {
    let mut would = Vec::new();
    if record["limit_observed"] == true {
        let limit = text_of(record, "limit", "-");
        would.push(format!("rejected by the limit {limit} ({})", text_of(record, "limit_scope", "-")));
    }
    if record["shadow_plan"].is_object() {
        would.push(format!("planned as {}", rungs(&record["shadow_plan"])));
    }
    if would.is_empty() { "none".to_owned() } else { would.join("; ") }
}

/// A line per attempt, with the wait before it, on one scale.
fn attempts(record: &Value, text: &mut String) {
    let attempts = items(record, "attempt_details");
    let total = number_of(record, "duration_us").max(1);
    let position = |micros: u64| micros.min(total).saturating_mul(BAR) / total;
    let bar = |from: u64, until: u64, first: Option<u64>| -> String {
        let (from, until) = (position(from), position(until).clamp(1, BAR));
        let first = first.map(position);
        let sign = |column: u64| match first {
            _ if column < from || column >= until.max(from + 1) => ' ',
            Some(first) if column == first => '>',
            _ => '=',
        };
        (0..BAR).map(sign).collect()
    };
    for (index, attempt) in attempts.iter().enumerate() {
        let (start, took) = (number_of(attempt, "start_us"), number_of(attempt, "duration_us"));
        if let Some(delay) = attempt["delay_us"].as_u64() {
            let from = start.saturating_sub(delay);
            let _ = writeln!(
                text,
                "{}  {} |{}| {}",
                right_column(&millis(from), 7),
                column("wait", 20),
                bar(from, start, None).replace('=', "."),
                duration(delay)
            );
        }
        let first = attempt["first_content_us"].as_u64().map(|first| start + first);
        let name = format!("attempt {} {}", index + 1, text_of(attempt, "target", "-"));
        let _ = writeln!(
            text,
            "{}  {} |{}| {}  {}",
            right_column(&millis(start), 7),
            column(&name, 20),
            bar(start, start + took, first),
            attempt_result(attempt),
            duration(took)
        );
    }
    let more = number_of(record, "attempts").saturating_sub(attempts.len() as u64);
    if more > 0 {
        let _ = writeln!(text, "{}  and {more} more attempts", " ".repeat(7));
    }
}

fn millis(micros: u64) -> String {
    format!("{} ms", micros / 1_000)
}

fn attempt_result(attempt: &Value) -> String {
    let outcome = text_of(attempt, "outcome", "-");
    let mut result = match (attempt["status"].as_u64(), attempt["first_content_us"].as_u64()) {
        (Some(status), _) => format!("{status} {outcome}"),
        (None, Some(first)) if outcome == "succeeded" => format!("first content after {}", duration(first)),
        _ => outcome.to_owned(),
    };
    let cause = text_of(attempt, "cause", "first");
    if cause != "first" {
        let skipped = attempt["skipped"].as_str().map(|skipped| format!(": {skipped}")).unwrap_or_default();
        let _ = write!(result, " ({cause}{skipped})");
    }
    if attempt["opened_breaker"] == true {
        result.push_str(", breaker opened");
    }
    if let Some(error) = attempt["error"].as_str() {
        let _ = write!(result, ", {error}");
    }
    result
}

#[cfg(test)]
mod tests {
    use super::explanation;
    use serde_json::json;

    #[test]
    fn a_degraded_request_is_explained_from_its_caller_to_its_last_attempt() {
        let record = json!({
            "time": "2026-11-16T13:09:41.207Z", "id": "req_38c1f5a2d90b7e64", "face": "anthropic", "route": "manga",
            "caller": "9f3c41d07ab2e655", "tier": "standard", "tier_origin": "directory", "credential": "api_key",
            "outcome": "degraded", "rung": "fast_model", "target": "haiku", "attempts": 2, "cost_nanos": 449_000,
            "reserved_nanos": 13_200_000, "released_nanos": 12_751_000,
            "limits": { "checked": 5, "tightest": "minute", "scope": "caller", "capacity": 35, "remaining": 3,
                "allowance": "35 requests per minute (per caller, tier standard)" },
            "plan": { "level": "normal", "ceiling": "strong", "preferred": "strong_model", "rungs": ["strong_model", "fast_model", "apology"] },
            "attempt_details": [
                { "cause": "first", "target": "sonnet", "outcome": "throttled", "status": 429, "start_us": 12_000, "duration_us": 412_000, "opened_breaker": true },
                { "cause": "failover", "target": "haiku", "outcome": "succeeded", "delay_us": 100_000, "start_us": 524_000,
                  "duration_us": 1_416_000, "first_content_us": 786_000 },
            ],
            "first_content_us": 1_310_000, "duration_us": 1_940_000,
        });
        let expected = "\
request  req_38c1f5a2d90b7e64  anthropic  2026-11-16T13:09:41.207Z
outcome  ! degraded: fast_model, haiku; first content 1.31 s; total 1.94 s; $0.000449
why      sonnet failed: throttled (429), breaker opened
caller   9f3c41d07ab2e655  tier standard (directory)  credential api_key
route    manga
limits   5 checked; tightest 35 requests per minute (per caller, tier standard): 3 of 35 left
budget   reserved $0.013200  posted $0.000449  released $0.012751
plan     strong_model > fast_model > apology; ceiling strong; level normal
  12 ms  attempt 1 sonnet     |====                | 429 throttled, breaker opened  0.41 s
 424 ms  wait                 |    .               | 0.10 s
 524 ms  attempt 2 haiku      |     ========>======| first content after 0.78 s (failover)  1.41 s
would be none
";
        assert_eq!(explanation(&record, false), expected);
        let painted = explanation(&record, true);
        assert!(painted.contains("\u{1b}[33m! degraded\u{1b}[0m"), "{painted}");
    }

    #[test]
    fn a_record_of_another_version_is_shown_as_far_as_it_goes() {
        for record in
            [json!({}), json!({ "attempt_details": [{}], "limits": 7, "outcome": "new", "plan": {} })]
        {
            let text = explanation(&record, false);
            assert!(text.starts_with("request  -") && text.ends_with("would be none\n"), "{text}");
        }
    }
}
