//! Parses the messages of a conversation.

use crate::chat::{Document, Image, JsonText, RequestPart, Role, ToolCall, custom_tool};
use crate::fields::{JsonFields, each, is_string, object_of, string_of};
use crate::request::RequestLimits;
use crate::request_error::RequestError;
use serde_json::value::RawValue;

pub(super) enum ParsedMessage {
    /// Text for the system prompt.
    Instructions(Vec<String>),
    /// Content of one role.
    Turn(Role, Vec<RequestPart>),
}

pub(super) fn read_message(raw: &RawValue, limits: &RequestLimits) -> Result<ParsedMessage, RequestError> {
    let message = JsonFields::of_value(raw, limits)?;
    Ok(match message.need_string("role")?.as_str() {
        "system" | "developer" => ParsedMessage::Instructions(read_texts(&message, limits)?),
        "user" => {
            let content = message.need("content")?;
            let parts = read_parts(content, limits, |raw| read_user_part(raw, limits));
            ParsedMessage::Turn(Role::User, parts.map_err(|error| error.within("content"))?)
        }
        "assistant" => ParsedMessage::Turn(Role::Assistant, read_assistant(&message, limits)?),
        "tool" => {
            let call = message.need_string("tool_call_id")?;
            let parts = read_texts(&message, limits)?.into_iter().map(RequestPart::Text).collect();
            ParsedMessage::Turn(Role::User, vec![RequestPart::ToolResult { call, parts, is_error: false }])
        }
        "function" => return Err(RequestError::untranslatable("role", "legacy function calling")),
        _ => {
            return Err(RequestError::invalid(
                "role",
                "Input should be 'system', 'developer', 'user', 'assistant' or 'tool'",
            ));
        }
    })
}

/// Content that may only be text.
fn read_texts(message: &JsonFields<'_>, limits: &RequestLimits) -> Result<Vec<String>, RequestError> {
    let read = |raw| {
        let part = JsonFields::of_value(raw, limits)?;
        match part.need_string("type")?.as_str() {
            "text" => part.need_string("text"),
            _ => Err(RequestError::untranslatable("type", "content other than text")),
        }
    };
    let content = message.need("content")?;
    let texts = if is_string(content) {
        string_of(content).map(|text| vec![text])
    } else {
        each(content, limits, read)
    };
    let texts = texts.map_err(|error| error.within("content"))?;
    Ok(texts.into_iter().filter(|text| !text.is_empty()).collect())
}

fn read_parts<'a>(
    content: &'a RawValue,
    limits: &RequestLimits,
    read: impl FnMut(&'a RawValue) -> Result<RequestPart, RequestError>,
) -> Result<Vec<RequestPart>, RequestError> {
    let parts = if is_string(content) {
        vec![RequestPart::Text(string_of(content)?)]
    } else if content.get().starts_with('[') {
        each(content, limits, read)?
    } else {
        return Err(RequestError::invalid("", "Input should be a valid string or a list of content parts"));
    };
    Ok(parts.into_iter().filter(|part| !matches!(part, RequestPart::Text(text) if text.is_empty())).collect())
}

fn read_user_part(raw: &RawValue, limits: &RequestLimits) -> Result<RequestPart, RequestError> {
    let part = JsonFields::of_value(raw, limits)?;
    match part.need_string("type")?.as_str() {
        "text" => part.need_string("text").map(RequestPart::Text),
        "image_url" => {
            let url = part.need_object("image_url", limits)?.need_string("url");
            url.and_then(Image::from_url).map(RequestPart::Image).map_err(|error| error.within("image_url"))
        }
        "file" => {
            let file = part.need_object("file", limits)?;
            read_file(&file).map(RequestPart::Document).map_err(|error| error.within("file"))
        }
        _ => Err(RequestError::untranslatable("type", "content parts other than text, images and files")),
    }
}

/// A file with inline content; both of OpenAI's dialects have the same fields.
pub(crate) fn read_file(file: &JsonFields<'_>) -> Result<Document, RequestError> {
    if file.has("file_id") {
        return Err(RequestError::untranslatable("file_id", "files stored at the vendor"));
    }
    let content = Image::from_url(file.need_string("file_data")?);
    match content.map_err(|error| error.within("file_data"))? {
        Image::Url(_) => Err(RequestError::invalid("file_data", "Input should be a data URL")),
        content => Ok(Document { name: file.string("filename")?, content }),
    }
}

fn read_assistant(
    message: &JsonFields<'_>,
    limits: &RequestLimits,
) -> Result<Vec<RequestPart>, RequestError> {
    if message.get("function_call").is_some() {
        return Err(RequestError::untranslatable("function_call", "legacy function calling"));
    }
    let mut parts = match message.get("content") {
        None => Vec::new(),
        Some(content) => read_parts(content, limits, |raw| {
            let part = JsonFields::of_value(raw, limits)?;
            match part.need_string("type")?.as_str() {
                "text" => part.need_string("text").map(RequestPart::Text),
                "refusal" => part.need_string("refusal").map(RequestPart::Text),
                _ => Err(RequestError::untranslatable("type", "content other than text")),
            }
        })
        .map_err(|error| error.within("content"))?,
    };
    parts.extend(message.string("refusal")?.filter(|text| !text.is_empty()).map(RequestPart::Text));
    let calls = message.each("tool_calls", limits, |raw| read_call(raw, limits))?;
    parts.extend(calls.into_iter().map(RequestPart::ToolCall));
    Ok(parts)
}

fn read_call(raw: &RawValue, limits: &RequestLimits) -> Result<ToolCall, RequestError> {
    let call = JsonFields::of_value(raw, limits)?;
    let id = call.need_string("id")?;
    match call.string("type")?.as_deref() {
        None | Some("function") => {}
        Some("custom") => {
            let custom = call.need_object("custom", limits)?;
            let input = custom_tool::wrap(&custom.string("input")?.unwrap_or_default());
            let name = custom.need_string("name").map_err(|error| error.within("custom"))?;
            return Ok(ToolCall { id, name, input });
        }
        Some(_) => return Err(RequestError::untranslatable("type", "tools other than functions")),
    }
    let function = call.need_object("function", limits)?;
    let read = || {
        let name = function.need_string("name")?;
        let input = input_of(function.string("arguments")?.unwrap_or_default(), limits.max_depth);
        let input = input.ok_or_else(|| {
            RequestError::invalid("arguments", "Input should be a JSON object encoded as a string")
        });
        Ok(ToolCall { id, name, input: input? })
    };
    read().map_err(|error: RequestError| error.within("function"))
}

/// The arguments of a tool call; empty arguments become `{}`.
pub(super) fn input_of(arguments: String, depth: usize) -> Option<JsonText> {
    if arguments.is_empty() { Some(JsonText::empty_object()) } else { object_of(arguments, depth) }
}
