//! Parses a whole request for conversion to another dialect.

use super::messages::{ParsedMessage, read_message};
use super::request::max_output;
use super::settings::{read_settings, read_tool_choice};
use crate::chat::{ChatRequest, ChatSettings, JsonText, ToolDefinition, custom_tool};
use crate::fields::{JsonFields, is_string, object_text, string_of};
use crate::request::{RequestLimits, check_text, read_model};
use crate::request_error::RequestError;
use serde_json::value::RawValue;

/// Parses a request into the dialect-neutral form.
///
/// - Fields that are not named in the field rules of this dialect are not read; a translation refuses them.
/// - Rejected: `audio`, the older `functions` and `function_call` (in the request and in messages), files stored at the
///   vendor, and parts other than text, images and files.
/// - `system` and `developer` messages become the system prompt, wherever they stood.
/// - A `tool` message becomes part of the user's turn. Consecutive messages of one role are merged into one turn. Empty
///   texts are dropped. A `refusal` of the model is text of its turn.
/// - A tool call without arguments gets `{}`; arguments that are not a JSON object are rejected. Tools with free text
///   become functions with one text.
pub fn read_chat_request(body: &[u8], limits: &RequestLimits) -> Result<ChatRequest, RequestError> {
    let fields = JsonFields::of_body(check_text(body, limits)?, limits)?;
    refuse_untranslatable(&fields)?;
    let stream = fields.boolean("stream")?;
    let stream_usage = match fields.object("stream_options", limits)? {
        Some(options) => options.boolean("include_usage").map_err(|error| error.within("stream_options"))?,
        None => false,
    };
    let (tool_choice, allowed_tools) =
        read_tool_choice(&fields, true, limits).map_err(|error| error.within("tool_choice"))?;
    let mut settings = ChatSettings { allowed_tools, ..read_settings(&fields, limits)? };
    let mut request = ChatRequest {
        model: read_model(fields.need("model")?)?,
        max_output: max_output(&fields)?,
        system: Vec::new(),
        turns: Vec::new(),
        tools: fields.each("tools", limits, |raw| read_tool(raw, &mut settings, limits))?,
        tool_choice,
        temperature: fields.number("temperature")?,
        top_p: fields.number("top_p")?,
        stop: read_stop(&fields, limits)?,
        stream,
        stream_usage: stream && stream_usage,
        settings,
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

fn refuse_untranslatable(fields: &JsonFields<'_>) -> Result<(), RequestError> {
    for field in ["functions", "function_call"] {
        if fields.get(field).is_some() {
            return Err(RequestError::untranslatable(field, "legacy function calling"));
        }
    }
    if fields.get("audio").is_some() {
        return Err(RequestError::untranslatable("audio", "audio output"));
    }
    Ok(())
}

fn read_tool(
    raw: &RawValue,
    settings: &mut ChatSettings,
    limits: &RequestLimits,
) -> Result<ToolDefinition, RequestError> {
    let tool = JsonFields::of_value(raw, limits)?;
    match tool.need_string("type")?.as_str() {
        "function" => {}
        "custom" => {
            let custom = tool.need_object("custom", limits)?;
            let tool = read_custom_tool(&custom, true, limits).map_err(|error| error.within("custom"))?;
            settings.custom_tools.push(tool.name.clone());
            return Ok(tool);
        }
        _ => return Err(RequestError::untranslatable("type", "tools other than functions")),
    }
    let function = tool.need_object("function", limits)?;
    let read = || {
        let schema = match function.get("parameters") {
            Some(raw) => object_text(raw, limits).map_err(|error| error.within("parameters"))?,
            None => no_parameters(),
        };
        let (name, description) = (function.need_string("name")?, function.string("description")?);
        Ok(ToolDefinition { name, description, schema, strict: function.boolean("strict")? })
    };
    read().map_err(|error: RequestError| error.within("function"))
}

/// The function that stands for a tool with free text. `nested` is whether the grammar is in an object of its own.
pub(crate) fn read_custom_tool(
    tool: &JsonFields<'_>,
    nested: bool,
    limits: &RequestLimits,
) -> Result<ToolDefinition, RequestError> {
    let (name, description) = (tool.need_string("name")?, tool.string("description")?);
    let mut grammar = None;
    if let Some(format) = tool.object("format", limits)? {
        let read = || {
            if format.need_string("type")? != "grammar" {
                return Ok(None);
            }
            let inner = if nested { Some(format.need_object("grammar", limits)?) } else { None };
            let source = inner.as_ref().unwrap_or(&format);
            Ok(Some((source.need_string("syntax")?, source.need_string("definition")?)))
        };
        grammar = read().map_err(|error: RequestError| error.within("format"))?;
    }
    let grammar = grammar.as_ref().map(|(syntax, text)| (syntax.as_str(), text.as_str()));
    Ok(custom_tool::definition(name, description.as_deref(), grammar))
}

/// The schema of a function without parameters.
fn no_parameters() -> JsonText {
    JsonText::new(r#"{"type":"object","properties":{}}"#.to_owned()).unwrap_or_else(JsonText::empty_object)
}

fn read_stop(fields: &JsonFields<'_>, limits: &RequestLimits) -> Result<Vec<String>, RequestError> {
    match fields.get("stop") {
        Some(raw) if is_string(raw) => Ok(vec![string_of(raw).map_err(|error| error.within("stop"))?]),
        _ => fields.each("stop", limits, string_of),
    }
}
