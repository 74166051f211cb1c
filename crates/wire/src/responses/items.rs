//! Parses the input items of a conversation.

use super::namespace;
use super::request::is_reference;
use crate::chat::{Document, Image, JsonText, RequestPart, Role, ToolCall, custom_tool};
use crate::fields::{JsonFields, each, is_string, object_of, string_of};
use crate::openai::read_file;
use crate::request::RequestLimits;
use crate::request_error::RequestError;
use serde_json::value::RawValue;

pub(super) enum ParsedItem {
    /// Text for the system prompt.
    Instructions(Vec<String>),
    /// Content of one role.
    Turn(Role, Vec<RequestPart>),
    /// Tools that are offered from here on; for other dialects, from the beginning.
    Tools,
    /// An item that only its own vendor can use.
    Dropped,
}

pub(super) fn read_item(raw: &RawValue, limits: &RequestLimits) -> Result<ParsedItem, RequestError> {
    let item = JsonFields::of_value(raw, limits)?;
    if is_reference(&item)? {
        return Err(RequestError::untranslatable("", "references to items stored at the vendor"));
    }
    let kind = item.string("type")?;
    Ok(match kind.as_deref().unwrap_or("message") {
        "message" => read_message(&item, limits)?,
        "function_call" => {
            ParsedItem::Turn(Role::Assistant, vec![RequestPart::ToolCall(read_call(&item, limits)?)])
        }
        "custom_tool_call" => {
            let input = custom_tool::wrap(&item.string("input")?.unwrap_or_default());
            let call = ToolCall { id: item.need_string("call_id")?, name: read_name(&item)?, input };
            ParsedItem::Turn(Role::Assistant, vec![RequestPart::ToolCall(call)])
        }
        "function_call_output" | "custom_tool_call_output" => {
            let call = item.need_string("call_id")?;
            let parts = read_content(&item, "output", limits)?;
            ParsedItem::Turn(Role::User, vec![RequestPart::ToolResult { call, parts, is_error: false }])
        }
        "additional_tools" => ParsedItem::Tools,
        // Its content is encrypted for its own vendor, and the answer does not depend on it.
        "reasoning" => ParsedItem::Dropped,
        // What the model wrote about its results is a message of its own.
        "web_search_call" => ParsedItem::Dropped,
        _ => {
            return Err(RequestError::untranslatable(
                "type",
                "items other than messages, function calls and their results",
            ));
        }
    })
}

fn read_message(message: &JsonFields<'_>, limits: &RequestLimits) -> Result<ParsedItem, RequestError> {
    let role = message.need_string("role")?;
    let parts = read_content(message, "content", limits)?;
    let has_image = parts.iter().any(|part| !matches!(part, RequestPart::Text(_)));
    match role.as_str() {
        "user" => Ok(ParsedItem::Turn(Role::User, parts)),
        "system" | "developer" | "assistant" if has_image => {
            Err(RequestError::untranslatable("content", "images and files outside of user messages"))
        }
        "assistant" => Ok(ParsedItem::Turn(Role::Assistant, parts)),
        "system" | "developer" => {
            let text = |part| if let RequestPart::Text(text) = part { Some(text) } else { None };
            Ok(ParsedItem::Instructions(parts.into_iter().filter_map(text).collect()))
        }
        _ => {
            Err(RequestError::invalid("role", "Input should be 'system', 'developer', 'user' or 'assistant'"))
        }
    }
}

/// Content as a string or as a list of parts. Empty texts are dropped.
fn read_content(
    item: &JsonFields<'_>,
    field: &str,
    limits: &RequestLimits,
) -> Result<Vec<RequestPart>, RequestError> {
    let content = item.need(field)?;
    let parts = if is_string(content) {
        string_of(content).map(|text| vec![RequestPart::Text(text)])
    } else if content.get().starts_with('[') {
        each(content, limits, |raw| read_part(raw, limits))
    } else {
        Err(RequestError::invalid("", "Input should be a valid string or a list of content parts"))
    };
    let parts = parts.map_err(|error| error.within(field))?;
    Ok(parts.into_iter().filter(|part| !matches!(part, RequestPart::Text(text) if text.is_empty())).collect())
}

fn read_part(raw: &RawValue, limits: &RequestLimits) -> Result<RequestPart, RequestError> {
    let part = JsonFields::of_value(raw, limits)?;
    match part.need_string("type")?.as_str() {
        "input_text" | "output_text" => part.need_string("text").map(RequestPart::Text),
        "refusal" => part.need_string("refusal").map(RequestPart::Text),
        "input_image" if part.has("file_id") => {
            Err(RequestError::untranslatable("file_id", "files stored at the vendor"))
        }
        "input_image" => {
            let image = Image::from_url(part.need_string("image_url")?);
            image
                .map(RequestPart::Image)
                .map_err(|_| RequestError::untranslatable("image_url", "data URLs without base64"))
        }
        "input_file" => match part.string("file_url")? {
            Some(url) => {
                let document = Document { name: part.string("filename")?, content: Image::Url(url) };
                Ok(RequestPart::Document(document))
            }
            None => read_file(&part).map(RequestPart::Document),
        },
        _ => Err(RequestError::untranslatable("type", "content parts other than text, images and files")),
    }
}

fn read_call(call: &JsonFields<'_>, limits: &RequestLimits) -> Result<ToolCall, RequestError> {
    let (id, name) = (call.need_string("call_id")?, read_name(call)?);
    let input = input_of(call.string("arguments")?.unwrap_or_default(), limits.max_depth);
    let problem = "Input should be a JSON object encoded as a string";
    let input = input.ok_or_else(|| RequestError::invalid("arguments", problem))?;
    Ok(ToolCall { id, name, input })
}

/// The name of the tool that is called, with its namespace.
fn read_name(call: &JsonFields<'_>) -> Result<String, RequestError> {
    let name = call.need_string("name")?;
    Ok(match call.string("namespace")? {
        Some(namespace) => namespace::join(&namespace, &name),
        None => name,
    })
}

/// The arguments of a tool call; empty arguments become `{}`.
pub(super) fn input_of(arguments: String, depth: usize) -> Option<JsonText> {
    if arguments.is_empty() { Some(JsonText::empty_object()) } else { object_of(arguments, depth) }
}
