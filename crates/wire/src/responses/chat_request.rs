//! Parses a whole request for conversion to another dialect.

use super::items::{ParsedItem, read_item};
use super::namespace;
use super::request::STORED_CONTENT_FIELDS;
use super::settings::read_settings;
use crate::chat::{ChatRequest, ChatSettings, JsonText, RequestPart, Role, ToolChoice, ToolDefinition};
use crate::fields::{JsonFields, is_string, object_text, string_of};
use crate::openai::{read_custom_tool, read_tool_choice};
use crate::request::{RequestLimits, check_text, read_model};
use crate::request_error::RequestError;
use serde_json::value::RawValue;

/// Parses a request into the dialect-neutral form.
///
/// - Fields that are not named in the field rules of this dialect are not read; a translation refuses them.
/// - Rejected, because only the vendor can serve it: `store: true`, `previous_response_id`, `conversation`, `prompt`,
///   `background: true` and references to stored items or files. A request without `store` is accepted, although the
///   vendor would store its response: most callers leave the field out and never ask for the stored response.
/// - Rejected: tools that the vendor runs, except for an offer to search the web, which the model need not take; items
///   other than messages, calls, their results, reasoning and web searches; and parts other than text, images and files.
/// - Dropped: `reasoning` items, which are encrypted for their vendor, and web searches of earlier turns.
/// - `instructions`, then `system` and `developer` messages, become the system prompt, wherever they stood.
/// - Function calls become part of the model's turn, and their results part of the user's turn. Consecutive items of one
///   role are merged into one turn. Empty texts are dropped. A `refusal` of the model is text of its turn.
/// - The functions of a `namespace` are offered under joined names, which are split again in the model's calls.
/// - `additional_tools`, which Codex sends instead of `tools` for the newest models, are offered like `tools`.
/// - Tools with free text become functions with one text.
/// - A function call without arguments gets `{}`; arguments that are not a JSON object are rejected.
pub fn read_chat_request(body: &[u8], limits: &RequestLimits) -> Result<ChatRequest, RequestError> {
    let fields = JsonFields::of_body(check_text(body, limits)?, limits)?;
    refuse_stored(&fields)?;
    let stream = fields.boolean("stream")?;
    let (tool_choice, allowed_tools) =
        read_tool_choice(&fields, false, limits).map_err(|error| error.within("tool_choice"))?;
    let mut settings = ChatSettings { allowed_tools, ..read_settings(&fields, limits)? };
    let mut request = ChatRequest {
        model: read_model(fields.need("model")?)?,
        max_output: fields.max_output("max_output_tokens")?,
        system: fields.string("instructions")?.into_iter().filter(|text| !text.is_empty()).collect(),
        turns: Vec::new(),
        tools: fields.each("tools", limits, |raw| read_tools(raw, &mut settings, limits))?.concat(),
        tool_choice,
        temperature: fields.number("temperature")?,
        top_p: fields.number("top_p")?,
        stop: Vec::new(),
        stream,
        // The dialect always reports usage.
        stream_usage: stream,
        settings,
    };
    let input = fields.need("input")?;
    if is_string(input) {
        let text = string_of(input).map_err(|error| error.within("input"))?;
        request.push_parts(Role::User, vec![RequestPart::Text(text)]);
    } else {
        let read_all = |raw: &RawValue| {
            let item = read_item(raw, limits)?;
            let tools = match &item {
                ParsedItem::Tools => JsonFields::of_value(raw, limits)?
                    .each("tools", limits, |raw| read_tools(raw, &mut request.settings, limits))?
                    .concat(),
                _ => Vec::new(),
            };
            Ok((item, tools))
        };
        for (item, mut tools) in fields.each("input", limits, read_all)? {
            request.tools.append(&mut tools);
            match item {
                ParsedItem::Instructions(mut texts) => request.system.append(&mut texts),
                ParsedItem::Turn(role, parts) => request.push_parts(role, parts),
                ParsedItem::Tools | ParsedItem::Dropped => {}
            }
        }
    }
    if request.tools.is_empty() && fields.has("tools") && request.tool_choice == ToolChoice::Any {
        return Err(RequestError::untranslatable("tool_choice", "a required web search"));
    }
    if request.turns.is_empty() {
        return Err(RequestError::invalid("input", "at least one message is required"));
    }
    Ok(request)
}

fn refuse_stored(fields: &JsonFields<'_>) -> Result<(), RequestError> {
    if fields.boolean("store")? {
        return Err(RequestError::untranslatable("store", "stored responses; send store: false"));
    }
    if fields.boolean("background")? {
        return Err(RequestError::untranslatable("background", "responses in the background"));
    }
    for field in STORED_CONTENT_FIELDS {
        if fields.has(field) {
            return Err(RequestError::untranslatable(field, "content stored at the vendor"));
        }
    }
    Ok(())
}

/// The functions of a tool: one, or those of a namespace, or none if the tool can be left out.
fn read_tools(
    raw: &RawValue,
    settings: &mut ChatSettings,
    limits: &RequestLimits,
) -> Result<Vec<ToolDefinition>, RequestError> {
    let tool = JsonFields::of_value(raw, limits)?;
    match tool.need_string("type")?.as_str() {
        "function" | "custom" => Ok(vec![read_one(&tool, None, settings, limits)?]),
        "namespace" => {
            let namespace = tool.need_string("name")?;
            tool.each("tools", limits, |raw| {
                read_one(&JsonFields::of_value(raw, limits)?, Some(&namespace), settings, limits)
            })
        }
        kind if kind.starts_with("web_search") => Ok(Vec::new()),
        _ => Err(RequestError::untranslatable("type", "tools other than functions")),
    }
}

/// A function or a tool with free text, under one name with its namespace.
fn read_one(
    tool: &JsonFields<'_>,
    namespace: Option<&str>,
    settings: &mut ChatSettings,
    limits: &RequestLimits,
) -> Result<ToolDefinition, RequestError> {
    let (mut definition, is_custom) = match tool.need_string("type")?.as_str() {
        "function" => (read_tool(tool, limits)?, false),
        "custom" => (read_custom_tool(tool, false, limits)?, true),
        _ => return Err(RequestError::untranslatable("type", "tools other than functions")),
    };
    if let Some(namespace) = namespace {
        definition.name = namespace::join(namespace, &definition.name);
    }
    if is_custom {
        settings.custom_tools.push(definition.name.clone());
    }
    Ok(definition)
}

fn read_tool(tool: &JsonFields<'_>, limits: &RequestLimits) -> Result<ToolDefinition, RequestError> {
    let schema = match tool.get("parameters") {
        Some(raw) => object_text(raw, limits).map_err(|error| error.within("parameters"))?,
        None => no_parameters(),
    };
    let (name, description) = (tool.need_string("name")?, tool.string("description")?);
    Ok(ToolDefinition { name, description, schema, strict: tool.boolean("strict")? })
}

/// The schema of a function without parameters.
fn no_parameters() -> JsonText {
    JsonText::new(r#"{"type":"object","properties":{}}"#.to_owned()).unwrap_or_else(JsonText::empty_object)
}
