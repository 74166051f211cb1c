//! Tool calls of a simulated model.
//!
//! A simulated model calls a tool only if the request forces it or a rule of the schedule says so, and only once: a
//! conversation that ends with a tool result is answered with text. The input of a forced call is generated from the
//! required fields of the tool's schema.

use super::compose::last_question;
use seawall_wire::chat::{ChatRequest, JsonText, RequestPart, ToolCall, ToolChoice, ToolDefinition};
use serde_json::{Map, Value, json};

/// Questions are truncated to this length when they become arguments.
const MAX_ARGUMENT_LENGTH: usize = 40;

/// The tool call that this request leads to, if any.
pub(super) fn forced_call(request: &ChatRequest) -> Option<ToolCall> {
    if request.turns.last().is_some_and(|turn| turn.parts.iter().any(is_result)) {
        return None;
    }
    let tool = match &request.tool_choice {
        ToolChoice::Any => request.tools.first(),
        ToolChoice::Named(name) => request.tools.iter().find(|tool| tool.name == *name),
        ToolChoice::Auto | ToolChoice::None => None,
    }?;
    call(&tool.name, input(tool, last_question(request)))
}

/// A call of this tool.
pub(super) fn call(name: &str, input: Map<String, Value>) -> Option<ToolCall> {
    let input = JsonText::new(Value::Object(input).to_string())?;
    Some(ToolCall { id: "toolu_simulated_1".to_owned(), name: name.to_owned(), input })
}

/// Whether the request offers this tool, and no tool has been called yet. Agents add turns of their own behind a result,
/// so a result anywhere in the conversation counts.
pub(super) fn is_callable(request: &ChatRequest, name: &str) -> bool {
    request.tools.iter().any(|tool| tool.name == name)
        && !request.turns.iter().any(|turn| turn.parts.iter().any(is_result))
}

const fn is_result(part: &RequestPart) -> bool {
    matches!(part, RequestPart::ToolResult { .. })
}

fn input(tool: &ToolDefinition, question: &str) -> Map<String, Value> {
    let schema: Value = serde_json::from_str(tool.schema.get()).unwrap_or_default();
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    required.map(|name| (name.to_owned(), value(&schema["properties"][name], question))).collect()
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
