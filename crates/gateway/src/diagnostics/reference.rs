//! The reference page of all diagnostic events.

use super::event;
use std::fmt::Write as _;

const INTRODUCTION: &str = "\
# Diagnostics

`seawall serve` writes these events to standard error: one for each change that matters to an operator, and none for single requests. The
access log and the [metrics](metrics.md) are separate. `telemetry.diagnostics = \"text\"` is one line for people, with the time, the level and
the text; `\"json\"` is one JSON object per line with `timestamp`, `level`, `event`, `message` and the fields below. A field without a value is
omitted. `telemetry.diagnostics_level` discards events below a level. Both take effect with the next start.

Alert on `event`: a name does not change its meaning. Texts may change. No event contains a key, an address of a caller or a text of a
message. If standard error is not read in time, events are dropped, `seawall_diagnostics_dropped_total` counts them, and nothing else waits.

| event | level | fields | meaning |
| --- | --- | --- | --- |
";

/// The page: every event of the table.
#[must_use]
pub fn diagnostics_reference() -> String {
    let mut out = INTRODUCTION.to_owned();
    for (_, event) in event::ALL {
        let fields: Vec<String> = event.fields().iter().map(|field| format!("`{field}`")).collect();
        let level = event.level().as_str();
        // Writing to a string cannot fail.
        let _ = writeln!(out, "| `{}` | {level} | {} | {} |", event.name(), fields.join(", "), event.help());
    }
    out
}
