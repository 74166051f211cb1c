//! Parses the messages of a conversation.

use crate::chat::{Image, JsonText, Part, Role, ToolCall};
use crate::fields::{Fields, each, is_string, object_of, string_of};
use crate::request::RequestLimits;
use crate::request_error::RequestError;
use serde_json::value::RawValue;

/// A parsed message.
pub(super) enum Said {
    /// Text for the system prompt.
    Before(Vec<String>),
    /// Content of one role.
    Turn(Role, Vec<Part>),
}

pub(super) fn read_message(raw: &RawValue, limits: &RequestLimits) -> Result<Said, RequestError> {
    let message = Fields::of_value(raw, limits)?;
    Ok(match message.need_string("role")?.as_str() {
        "system" | "developer" => Said::Before(read_texts(&message, limits)?),
        "user" => {
            let content = message.need("content")?;
            let parts = read_parts(content, limits, |raw| read_user_part(raw, limits));
            Said::Turn(Role::User, parts.map_err(|error| error.within("content"))?)
        }
        "assistant" => Said::Turn(Role::Assistant, read_assistant(&message, limits)?),
        "tool" => {
            let call = message.need_string("tool_call_id")?;
            let parts = read_texts(&message, limits)?.into_iter().map(Part::Text).collect();
            Said::Turn(Role::User, vec![Part::ToolResult { call, parts, is_error: false }])
        }
        "function" => return Err(RequestError::untranslatable("role", "is the older way to call functions")),
        _ => {
            return Err(RequestError::wrong("role", "must be system, developer, user, assistant or tool"));
        }
    })
}

/// Content that may only be text.
fn read_texts(message: &Fields<'_>, limits: &RequestLimits) -> Result<Vec<String>, RequestError> {
    let read = |raw| {
        let part = Fields::of_value(raw, limits)?;
        match part.need_string("type")?.as_str() {
            "text" => part.need_string("text"),
            _ => Err(RequestError::untranslatable("type", "is no text")),
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
    read: impl FnMut(&'a RawValue) -> Result<Part, RequestError>,
) -> Result<Vec<Part>, RequestError> {
    let parts = if is_string(content) {
        vec![Part::Text(string_of(content)?)]
    } else if content.get().starts_with('[') {
        each(content, limits, read)?
    } else {
        return Err(RequestError::wrong("", "must be a string or a list of parts"));
    };
    Ok(parts.into_iter().filter(|part| !matches!(part, Part::Text(text) if text.is_empty())).collect())
}

fn read_user_part(raw: &RawValue, limits: &RequestLimits) -> Result<Part, RequestError> {
    let part = Fields::of_value(raw, limits)?;
    match part.need_string("type")?.as_str() {
        "text" => part.need_string("text").map(Part::Text),
        "image_url" => {
            let url = part.need_object("image_url", limits)?.need_string("url");
            url.and_then(Image::at).map(Part::Image).map_err(|error| error.within("image_url"))
        }
        _ => Err(RequestError::untranslatable("type", "is neither text nor a picture")),
    }
}

fn read_assistant(message: &Fields<'_>, limits: &RequestLimits) -> Result<Vec<Part>, RequestError> {
    if message.get("function_call").is_some() {
        return Err(RequestError::untranslatable("function_call", "is the older way to call functions"));
    }
    let mut parts = match message.get("content") {
        None => Vec::new(),
        Some(content) => read_parts(content, limits, |raw| {
            let part = Fields::of_value(raw, limits)?;
            match part.need_string("type")?.as_str() {
                "text" => part.need_string("text").map(Part::Text),
                "refusal" => part.need_string("refusal").map(Part::Text),
                _ => Err(RequestError::untranslatable("type", "is no text")),
            }
        })
        .map_err(|error| error.within("content"))?,
    };
    parts.extend(message.string("refusal")?.filter(|text| !text.is_empty()).map(Part::Text));
    let calls = message.each("tool_calls", limits, |raw| read_call(raw, limits))?;
    parts.extend(calls.into_iter().map(Part::ToolCall));
    Ok(parts)
}

fn read_call(raw: &RawValue, limits: &RequestLimits) -> Result<ToolCall, RequestError> {
    let call = Fields::of_value(raw, limits)?;
    if call.string("type")?.is_some_and(|kind| kind != "function") {
        return Err(RequestError::untranslatable("type", "is no function"));
    }
    let id = call.need_string("id")?;
    let function = call.need_object("function", limits)?;
    let read = || {
        let name = function.need_string("name")?;
        let input = input_of(function.string("arguments")?.unwrap_or_default(), limits.depth);
        let input =
            input.ok_or_else(|| RequestError::wrong("arguments", "must be an object, as JSON in a string"));
        Ok(ToolCall { id, name, input: input? })
    };
    read().map_err(|error: RequestError| error.within("function"))
}

/// The arguments of a tool call; empty arguments become `{}`.
pub(super) fn input_of(arguments: String, depth: usize) -> Option<JsonText> {
    if arguments.is_empty() { Some(JsonText::empty_object()) } else { object_of(arguments, depth) }
}
