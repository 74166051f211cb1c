//! Detects whether a request enables thinking (reasoning).
//!
//! Thinking is billed as output but often not shown: it is summarised, encrypted or omitted. The part of such an answer
//! that has arrived therefore does not reveal its cost so far.

use crate::fields::JsonFields;
use crate::request::ALREADY_CHECKED;
use serde_json::value::RawValue;

/// The request fields with which vendors enable thinking.
const FIELDS: [&str; 6] =
    ["thinking", "reasoning", "reasoning_effort", "reasoning_config", "reasoningConfig", "enable_thinking"];

/// Whether one of these fields enables thinking.
pub(crate) fn enables_thinking(fields: &JsonFields<'_>) -> bool {
    FIELDS.iter().any(|name| fields.get(name).is_some_and(is_enabled))
}

/// Whether a field's value enables thinking. An unknown value counts as enabled.
pub(crate) fn is_enabled(raw: &RawValue) -> bool {
    match raw.get() {
        "null" | "false" | r#""none""# | r#""disabled""# => return false,
        object if !object.starts_with('{') => return true,
        _ => {}
    }
    let Ok(fields) = JsonFields::of_value(raw, &ALREADY_CHECKED) else { return true };
    let has_value = |name, value| fields.get(name).is_some_and(|raw| raw.get() == value);
    !(fields.is_empty()
        || has_value("type", r#""disabled""#)
        || has_value("effort", r#""none""#)
        || has_value("enabled", "false"))
}

#[cfg(test)]
mod tests {
    use super::enables_thinking;
    use crate::{JsonFields, RequestLimits};

    #[test]
    fn thinking_is_on_unless_it_is_said_to_be_off() {
        for (field, is_on) in [
            (r#""thinking":{"type":"enabled","budget_tokens":9}"#, true),
            (r#""thinking":{"type":"adaptive","display":"omitted"}"#, true),
            (r#""thinking":{"type":"between_tools"}"#, true),
            (r#""thinking":{"type":"disabled"}"#, false),
            (r#""thinking":null"#, false),
            (r#""thinking":{"type":"enabled","type":"disabled"}"#, true),
            (r#""reasoning_effort":"minimal""#, true),
            (r#""reasoning_effort":"none""#, false),
            (r#""reasoning":{"effort":"high"}"#, true),
            (r#""reasoning":{"effort":"none"}"#, false),
            (r#""reasoning":{"enabled":false}"#, false),
            (r#""reasoning":{}"#, false),
            (r#""reasoning_config":{"type":"enabled"}"#, true),
            (r#""reasoningConfig":{"type":"disabled"}"#, false),
            (r#""enable_thinking":true"#, true),
            (r#""enable_thinking":false"#, false),
            (r#""temperature":1"#, false),
        ] {
            let body = format!(r#"{{"model":"m",{field}}}"#);
            let fields = JsonFields::read(body.as_bytes(), &RequestLimits::default()).unwrap();
            assert_eq!(enables_thinking(&fields), is_on, "{field}");
        }
    }
}
