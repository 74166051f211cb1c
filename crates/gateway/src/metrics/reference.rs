//! The reference page of all metrics.

use super::sink::RELOADS;
use super::{DURATION, FIRST_CONTENT, OVERHEAD, gather, labels, table};
use seawall_core::pressure::Pressure;
use seawall_core::queue::QueueStats;
use seawall_core::retry::StopReason;
use seawall_core::vocabulary::Tier;
use seawall_pipeline::{LimitScope, RequestStage};
use std::fmt::Write as _;

const INTRODUCTION: &str = "\
# Metrics

`GET /metrics` on the admin listener returns these in the text format of Prometheus (0.0.4).
`telemetry.metrics = false` switches it off; `telemetry.public_metrics = true` serves it on the callers' listener, too. Counters start at 0 when the
process starts. Counts of a route or a target remain after it is removed from the settings. A series appears with its first value.

Label values are from the lists below, or names from the settings (`route`, `target`). No label identifies a caller.

| metric | type | labels | description |
| --- | --- | --- | --- |
";

/// The page: every metric of the table, and the possible label values.
#[must_use]
pub fn metrics_reference() -> String {
    let mut out = INTRODUCTION.to_owned();
    for metric in table::ALL {
        let labels: Vec<String> = metric.labels().iter().map(|label| format!("`{label}`")).collect();
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(
            out,
            "| `{}` | {} | {} | {} |",
            metric.name(),
            metric.kind().name(),
            labels.join(", "),
            metric.help()
        );
    }
    out.push_str("\n## Label values\n\n| label | values |\n| --- | --- |\n");
    let outcomes = || (0..labels::REQUEST_OUTCOMES).map(labels::request_outcome_labels);
    let reasons =
        |of: &str| outcomes().filter(|(outcome, _)| *outcome == of).map(|(_, reason)| reason).collect();
    let queue = gather::queue_outcomes(&QueueStats::default());
    let rows: [(&str, Vec<&str>); 15] = [
        ("`face`", labels::face_labels().to_vec()),
        ("`tier`", Tier::ALL.map(Tier::name).to_vec()),
        ("`outcome` of requests", vec!["answered", "interrupted", "abandoned", "rejected"]),
        ("`reason` of rejected requests", reasons("rejected")),
        ("`reason` of interrupted requests", reasons("interrupted")),
        ("`outcome` of attempts", (0..labels::ATTEMPT_OUTCOMES).map(labels::attempt_outcome_label).collect()),
        ("`outcome` of queues", queue.map(|(outcome, _)| outcome).to_vec()),
        ("`reason` of `seawall_retry_stops_total`", StopReason::ALL.map(StopReason::label).to_vec()),
        ("`stage`", RequestStage::ALL.map(RequestStage::name).to_vec()),
        ("`to` of breakers", labels::PHASES.to_vec()),
        ("`to` of pressure", Pressure::ALL.map(Pressure::label).to_vec()),
        ("`outcome` of reloads", RELOADS.to_vec()),
        ("`kind` of tokens", vec!["uncached", "cache_read", "cache_write"]),
        ("`scope` of limits", LimitScope::LABELS.to_vec()),
        ("`mode` of limits", labels::MODES.to_vec()),
    ];
    for (label, values) in rows {
        let values: Vec<String> = values.into_iter().map(|value| format!("`{value}`")).collect();
        let _ = writeln!(out, "| {label} | {} |", values.join(", "));
    }
    out.push_str(
        "\n## Buckets\n\nUpper bounds (`le`) in seconds.\n\n| histogram | bounds |\n| --- | --- |\n",
    );
    for (metric, bounds) in
        [(&table::FIRST_CONTENT, FIRST_CONTENT), (&table::DURATION, DURATION), (&table::OVERHEAD, OVERHEAD)]
    {
        let bounds: Vec<String> =
            bounds.iter().map(|micros| (*micros as f64 / 1_000_000.0).to_string()).collect();
        let _ = writeln!(out, "| `{}` | {} |", metric.name(), bounds.join(", "));
    }
    out
}
