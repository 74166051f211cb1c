//! Tool calls of a simulated model.
//!
//! A simulated model calls a tool only if the request forces it, and only once: a conversation that ends with a tool
//! result is answered with text. The input is generated from the required fields of the tool's schema.

use super::compose::last_question;
use seawall_wire::chat::{ChatRequest, JsonText, RequestPart, ToolCall, ToolChoice, ToolDefinition};
use serde_json::{Map, Value, json};

/// Questions are truncated to this length when they become arguments.
const MAX_ARGUMENT_LENGTH: usize = 40;

/// The tool call that this request leads to, if any.
pub(super) fn forced_call(request: &ChatRequest) -> Option<ToolCall> {
    let has_result = |part: &RequestPart| matches!(part, RequestPart::ToolResult { .. });
    if request.turns.last().is_some_and(|turn| turn.parts.iter().any(has_result)) {
        return None;
    }
    let tool = match &request.tool_choice {
        ToolChoice::Any => request.tools.first(),
        ToolChoice::Named(name) => request.tools.iter().find(|tool| tool.name == *name),
        ToolChoice::Auto | ToolChoice::None => None,
    }?;
    let input = JsonText::new(input(tool, last_question(request)).to_string())?;
    Some(ToolCall { id: "toolu_simulated_1".to_owned(), name: tool.name.clone(), input })
}

fn input(tool: &ToolDefinition, question: &str) -> Value {
    let schema: Value = serde_json::from_str(tool.schema.get()).unwrap_or_default();
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let filled: Map<String, Value> =
        required.map(|name| (name.to_owned(), value(&schema["properties"][name], question))).collect();
    Value::Object(filled)
}

fn value(schema: &Value, question: &str) -> Value {
    if let Some(first) = schema["enum"].get(0) {
        return first.clone();
    }
    match schema["type"].as_str() {
        Some("integer") => json!(1),
        Some("number") => json!(1.5),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => json!({}),
        _ => json!(&question[..question.floor_char_boundary(MAX_ARGUMENT_LENGTH)]),
    }
}
