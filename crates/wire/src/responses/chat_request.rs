//! Parses a whole request for conversion to another dialect.

use super::items::{ParsedItem, read_item};
use super::namespace;
use super::request::STORED_CONTENT_FIELDS;
use crate::chat::{ChatRequest, JsonText, RequestPart, Role, ToolChoice, ToolDefinition};
use crate::fields::{JsonFields, is_string, object_text, string_of};
use crate::request::{RequestLimits, check_text, read_model};
use crate::request_error::RequestError;
use serde_json::value::RawValue;

/// Parses a request into the dialect-neutral form.
///
/// A part that has no neutral form is dropped if the answer stays the same kind of answer without it, and rejected if
/// the caller would receive something else than requested:
///
/// - Rejected, because only the vendor can serve it: `store: true`, `previous_response_id`, `conversation`, `prompt`,
///   `background: true` and references to stored items or files. A request without `store` is accepted, although the
///   vendor would store its response: most callers leave the field out and never ask for the stored response.
/// - Rejected: a `text.format` other than text, log probabilities, tools other than functions and web search, a
///   `tool_choice` that names such a tool or a subset of the tools, items other than messages, function calls, their results and reasoning,
///   and parts other than text and images.
/// - Dropped: an offer to search the web, which the model need not take; `reasoning` items, which are encrypted for their
///   vendor; and every other field that is not named here
///   (`reasoning`, `include`, `truncation`, `parallel_tool_calls`, `metadata`, `text.verbosity`, the `strict` of tools,
///   …), and the `detail` of images.
/// - `instructions`, then `system` and `developer` messages, become the system prompt, wherever they stood.
/// - Function calls become part of the model's turn, and their results part of the user's turn. Consecutive items of one
///   role are merged into one turn. Empty texts are dropped. A `refusal` of the model is text of its turn.
/// - The functions of a `namespace` are offered under joined names, which are split again in the model's calls.
/// - A function call without arguments gets `{}`; arguments that are not a JSON object are rejected.
pub fn read_chat_request(body: &[u8], limits: &RequestLimits) -> Result<ChatRequest, RequestError> {
    let fields = JsonFields::of_body(check_text(body, limits)?, limits)?;
    refuse_stored(&fields)?;
    refuse_untranslatable(&fields, limits)?;
    let stream = fields.boolean("stream")?;
    let mut request = ChatRequest {
        model: read_model(fields.need("model")?)?,
        max_output: fields.max_output("max_output_tokens")?,
        system: fields.string("instructions")?.into_iter().filter(|text| !text.is_empty()).collect(),
        turns: Vec::new(),
        tools: fields.each("tools", limits, |raw| read_tools(raw, limits))?.concat(),
        tool_choice: read_tool_choice(&fields, limits).map_err(|error| error.within("tool_choice"))?,
        temperature: fields.number("temperature")?,
        top_p: fields.number("top_p")?,
        stop: Vec::new(),
        stream,
        // The dialect always reports usage.
        stream_usage: stream,
    };
    let input = fields.need("input")?;
    if is_string(input) {
        let text = string_of(input).map_err(|error| error.within("input"))?;
        request.push_parts(Role::User, vec![RequestPart::Text(text)]);
    } else {
        for item in fields.each("input", limits, |raw| read_item(raw, limits))? {
            match item {
                ParsedItem::Instructions(mut texts) => request.system.append(&mut texts),
                ParsedItem::Turn(role, parts) => request.push_parts(role, parts),
                ParsedItem::Dropped => {}
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

fn refuse_untranslatable(fields: &JsonFields<'_>, limits: &RequestLimits) -> Result<(), RequestError> {
    let includes = fields.each("include", limits, string_of)?;
    if includes.iter().any(|name| name == "message.output_text.logprobs") {
        return Err(RequestError::untranslatable("include", "log probabilities"));
    }
    if fields.get("top_logprobs").is_some_and(|raw| raw.get() != "0") {
        return Err(RequestError::untranslatable("top_logprobs", "log probabilities"));
    }
    let Some(text) = fields.object("text", limits)? else { return Ok(()) };
    let format = text.object("format", limits).map_err(|error| error.within("text"))?;
    let Some(format) = format else { return Ok(()) };
    match format.need_string("type").map_err(|error| error.within("text.format"))?.as_str() {
        "text" => Ok(()),
        _ => Err(RequestError::untranslatable("text.format.type", "response formats other than text")),
    }
}

/// The functions of a tool: one, or those of a namespace, or none if the tool can be left out.
fn read_tools(raw: &RawValue, limits: &RequestLimits) -> Result<Vec<ToolDefinition>, RequestError> {
    let tool = JsonFields::of_value(raw, limits)?;
    match tool.need_string("type")?.as_str() {
        "function" => Ok(vec![read_tool(&tool, limits)?]),
        "namespace" => {
            let namespace = tool.need_string("name")?;
            tool.each("tools", limits, |raw| {
                let tool = JsonFields::of_value(raw, limits)?;
                if tool.need_string("type")? != "function" {
                    return Err(RequestError::untranslatable("type", "tools other than functions"));
                }
                let tool = read_tool(&tool, limits)?;
                Ok(ToolDefinition { name: namespace::join(&namespace, &tool.name), ..tool })
            })
        }
        kind if kind.starts_with("web_search") => Ok(Vec::new()),
        _ => Err(RequestError::untranslatable("type", "tools other than functions")),
    }
}

fn read_tool(tool: &JsonFields<'_>, limits: &RequestLimits) -> Result<ToolDefinition, RequestError> {
    let schema = match tool.get("parameters") {
        Some(raw) => object_text(raw, limits).map_err(|error| error.within("parameters"))?,
        None => no_parameters(),
    };
    Ok(ToolDefinition { name: tool.need_string("name")?, description: tool.string("description")?, schema })
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
    choice.need_string("name").map(ToolChoice::Named)
}
