//! Parses a whole request for conversion to another dialect.

use super::messages::{ParsedMessage, read_message};
use super::request::max_output;
use crate::chat::{ChatRequest, JsonText, ToolChoice, ToolDefinition};
use crate::fields::{JsonFields, is_string, object_text, string_of};
use crate::request::{RequestLimits, check_text, read_model};
use crate::request_error::RequestError;
use serde_json::value::RawValue;

/// Parses a request into the dialect-neutral form.
///
/// A part that has no neutral form is dropped if the answer stays the same kind of answer without it, and rejected if
/// the caller would receive something else than requested:
///
/// - Rejected: more than one choice (`n`), `logprobs`, a `response_format` other than text, `audio`, the older
///   `functions` and `function_call` (in the request and in messages), tools other than functions, a `tool_choice` that
///   allows a subset of the tools, and parts other than text and images.
/// - Dropped: every other field that is not named here (`seed`, `user`, `logit_bias`, penalties, `reasoning_effort`,
///   `parallel_tool_calls`, …), and the `detail` of images.
/// - `system` and `developer` messages become the system prompt, wherever they stood.
/// - A `tool` message becomes part of the user's turn. Consecutive messages of one role are merged into one turn. Empty
///   texts are dropped. A `refusal` of the model is text of its turn.
/// - A tool call without arguments gets `{}`; arguments that are not a JSON object are rejected.
pub fn read_chat_request(body: &[u8], limits: &RequestLimits) -> Result<ChatRequest, RequestError> {
    let fields = JsonFields::of_body(check_text(body, limits)?, limits)?;
    refuse_untranslatable(&fields, limits)?;
    let stream = fields.boolean("stream")?;
    let stream_usage = match fields.object("stream_options", limits)? {
        Some(options) => options.boolean("include_usage").map_err(|error| error.within("stream_options"))?,
        None => false,
    };
    let mut request = ChatRequest {
        model: read_model(fields.need("model")?)?,
        max_output: max_output(&fields)?,
        system: Vec::new(),
        turns: Vec::new(),
        tools: fields.each("tools", limits, |raw| read_tool(raw, limits))?,
        tool_choice: read_tool_choice(&fields, limits).map_err(|error| error.within("tool_choice"))?,
        temperature: fields.number("temperature")?,
        top_p: fields.number("top_p")?,
        stop: read_stop(&fields, limits)?,
        stream,
        stream_usage: stream && stream_usage,
    };
    fields.need("messages")?;
    for message in fields.each("messages", limits, |raw| read_message(raw, limits))? {
        match message {
            ParsedMessage::Instructions(mut texts) => request.system.append(&mut texts),
            ParsedMessage::Turn(role, parts) => request.push_parts(role, parts),
        }
    }
    if request.turns.is_empty() {
        return Err(RequestError::invalid("messages", "at least one message is required"));
    }
    Ok(request)
}

fn refuse_untranslatable(fields: &JsonFields<'_>, limits: &RequestLimits) -> Result<(), RequestError> {
    if fields.get("n").is_some_and(|raw| raw.get() != "1") {
        return Err(RequestError::untranslatable("n", "a number of choices other than 1"));
    }
    if fields.boolean("logprobs")? {
        return Err(RequestError::untranslatable("logprobs", "log probabilities"));
    }
    for field in ["functions", "function_call"] {
        if fields.get(field).is_some() {
            return Err(RequestError::untranslatable(field, "legacy function calling"));
        }
    }
    if fields.get("audio").is_some() {
        return Err(RequestError::untranslatable("audio", "audio output"));
    }
    if let Some(format) = fields.object("response_format", limits)? {
        let kind = format.need_string("type").map_err(|error| error.within("response_format"))?;
        if kind != "text" {
            return Err(RequestError::untranslatable(
                "response_format.type",
                "response formats other than text",
            ));
        }
    }
    Ok(())
}

fn read_tool(raw: &RawValue, limits: &RequestLimits) -> Result<ToolDefinition, RequestError> {
    let tool = JsonFields::of_value(raw, limits)?;
    if tool.need_string("type")? != "function" {
        return Err(RequestError::untranslatable("type", "tools other than functions"));
    }
    let function = tool.need_object("function", limits)?;
    let read = || {
        let schema = match function.get("parameters") {
            Some(raw) => object_text(raw, limits).map_err(|error| error.within("parameters"))?,
            None => no_parameters(),
        };
        let (name, description) = (function.need_string("name")?, function.string("description")?);
        Ok(ToolDefinition { name, description, schema })
    };
    read().map_err(|error: RequestError| error.within("function"))
}

/// The schema of a function without parameters.
fn no_parameters() -> JsonText {
    JsonText::new(r#"{"type":"object","properties":{}}"#.to_owned()).unwrap_or_else(JsonText::empty_object)
}

fn read_tool_choice(fields: &JsonFields<'_>, limits: &RequestLimits) -> Result<ToolChoice, RequestError> {
    let Some(raw) = fields.get("tool_choice") else { return Ok(ToolChoice::Auto) };
    if is_string(raw) {
        return match string_of(raw)?.as_str() {
            "auto" => Ok(ToolChoice::Auto),
            "none" => Ok(ToolChoice::None),
            "required" => Ok(ToolChoice::Any),
            _ => Err(RequestError::invalid("", "Input should be 'auto', 'none', 'required' or a function")),
        };
    }
    let choice = JsonFields::of_value(raw, limits)?;
    if choice.need_string("type")? != "function" {
        return Err(RequestError::untranslatable("type", "tool choices other than a single function"));
    }
    let function = choice.need_object("function", limits)?;
    function.need_string("name").map(ToolChoice::Named).map_err(|error| error.within("function"))
}

fn read_stop(fields: &JsonFields<'_>, limits: &RequestLimits) -> Result<Vec<String>, RequestError> {
    match fields.get("stop") {
        Some(raw) if is_string(raw) => Ok(vec![string_of(raw).map_err(|error| error.within("stop"))?]),
        _ => fields.each("stop", limits, string_of),
    }
}
