//! The reference page of all metrics.

use super::{DURATION, FIRST_CONTENT, OVERHEAD, gather, table, words};
use seawall_core::queue::QueueStats;
use seawall_core::retry::StopReason;
use seawall_core::vocabulary::Tier;
use std::fmt::Write as _;

const INTRODUCTION: &str = "\
# Metrics

`GET /metrics` on the admin listener returns these in the text format of Prometheus (0.0.4).
`telemetry.metrics = false` switches it off; `telemetry.public_metrics = true` serves it on the callers' listener, too. Numbers count from the start of the process; what was counted
for a route or a target stays when settings take it away. A series appears with its first value.

Labels are words from the lists below, or names from settings (`route`, `target`). Nothing of a caller is ever a label.

| metric | kind | labels | what it means |
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
    out.push_str("\n## Words\n\n| label | words |\n| --- | --- |\n");
    let endings = || (0..words::ENDINGS).map(words::ending_words);
    let reasons =
        |of: &str| endings().filter(|(verdict, _)| *verdict == of).map(|(_, reason)| reason).collect();
    let queue = gather::outcomes(&QueueStats::default());
    let rows: [(&str, Vec<&str>); 9] = [
        ("`face`", words::FACES.to_vec()),
        ("`tier`", Tier::ALL.map(Tier::name).to_vec()),
        ("`verdict`", vec!["answered", "interrupted", "abandoned", "rejected"]),
        ("`reason` of what was rejected", reasons("rejected")),
        ("`reason` of what was interrupted", reasons("interrupted")),
        ("`outcome` of attempts", (0..words::OUTCOMES).map(words::outcome_word).collect()),
        ("`outcome` of queues", queue.map(|(word, _)| word).to_vec()),
        ("`reason` of stops", StopReason::ALL.map(StopReason::label).to_vec()),
        ("`kind` of tokens", vec!["new", "cache_read", "cache_write"]),
    ];
    for (label, words) in rows {
        let words: Vec<String> = words.into_iter().map(|word| format!("`{word}`")).collect();
        let _ = writeln!(out, "| {label} | {} |", words.join(", "));
    }
    out.push_str("\n## Buckets\n\nUpper bounds in milliseconds.\n\n| histogram | bounds |\n| --- | --- |\n");
    for (metric, bounds) in
        [(&table::FIRST_CONTENT, FIRST_CONTENT), (&table::DURATION, DURATION), (&table::OVERHEAD, OVERHEAD)]
    {
        let bounds: Vec<String> =
            bounds.iter().map(|micros| (*micros as f64 / 1_000.0).to_string()).collect();
        let _ = writeln!(out, "| `{}` | {} |", metric.name(), bounds.join(", "));
    }
    out
}
