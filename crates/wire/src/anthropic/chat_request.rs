//! Parses a whole request for conversion to another dialect.

use super::settings::read_settings;
use crate::chat::{
    CacheLifetime, ChatRequest, Document, Image, JsonText, RequestPart, Role, ToolCall, ToolChoice,
    ToolDefinition,
};
use crate::fields::{JsonFields, each, is_string, object_text, string_of};
use crate::request::{RequestLimits, check_text, read_max_output_or_zero, read_model};
use crate::request_error::RequestError;
use serde_json::value::RawValue;

/// Parses a request into the dialect-neutral form.
///
/// - Fields that are not named in the field rules of this dialect are not read; a translation refuses them.
/// - In assistant turns, thinking and the vendor's own tools are dropped: other vendors cannot use them.
/// - Rejected: in user turns, blocks other than text, images, documents and tool results; content stored at the vendor;
///   tools that the vendor runs itself; and blocks of unknown types.
/// - A document that is plain text becomes text.
/// - System instructions inside the conversation (`role: "system"`) are appended to the system prompt in order, because
///   not every dialect allows them in between.
/// - Empty texts and turns without parts are dropped. Consecutive turns of one role are merged.
/// - A cache mark stays with its block, or with the block before it if its own is dropped. Marks inside tool results and of
///   the request as a whole are dropped: no other dialect has them.
///
/// `stream_usage` is always set, because streams of this dialect always report usage.
pub fn read_chat_request(body: &[u8], limits: &RequestLimits) -> Result<ChatRequest, RequestError> {
    let fields = JsonFields::of_body(check_text(body, limits)?, limits)?;
    let stream = fields.boolean("stream")?;
    let mut request = ChatRequest {
        model: read_model(fields.need("model")?)?,
        max_output: Some(read_max_output_or_zero("max_tokens", fields.need("max_tokens")?)?),
        system: Vec::new(),
        tools: Vec::new(),
        tool_choice: read_tool_choice(&fields, limits)?,
        temperature: fields.number("temperature")?,
        top_p: fields.number("top_p")?,
        stop: fields.each("stop_sequences", limits, string_of)?,
        stream,
        stream_usage: stream,
        turns: Vec::new(),
        settings: read_settings(&fields, limits)?,
    };
    for (at, (tool, mark)) in
        fields.each("tools", limits, |raw| read_tool(raw, limits))?.into_iter().enumerate()
    {
        request.settings.cache_points.tools.extend(mark.map(|lifetime| (at, lifetime)));
        request.tools.push(tool);
    }
    for (at, (text, mark)) in read_system(&fields, limits)?.into_iter().enumerate() {
        request.settings.cache_points.system.extend(mark.map(|lifetime| (at, lifetime)));
        request.system.push(text);
    }
    fields.need("messages")?;
    for message in fields.each("messages", limits, |raw| read_message(raw, limits))? {
        match message {
            Message::Instructions(texts) => request.system.extend(texts.into_iter().map(|(text, _)| text)),
            Message::Turn(role, parts, marks) => {
                let (turn, first) = request.next_position(role);
                let marks = marks.into_iter().map(|(part, lifetime)| ((turn, first + part), lifetime));
                request.settings.cache_points.turns.extend(marks);
                request.push_parts(role, parts);
            }
        }
    }
    if request.turns.is_empty() {
        return Err(RequestError::invalid("messages", "at least one message is required"));
    }
    Ok(request)
}

/// A text, and the cache mark that follows it.
type MarkedText = (String, Option<CacheLifetime>);

fn read_mark(block: &JsonFields<'_>, limits: &RequestLimits) -> Result<Option<CacheLifetime>, RequestError> {
    let Some(mark) = block.object("cache_control", limits)? else { return Ok(None) };
    let ttl = mark.string("ttl").map_err(|error| error.within("cache_control"))?;
    Ok(Some(CacheLifetime::of_ttl(ttl.as_deref())))
}

fn read_system(fields: &JsonFields<'_>, limits: &RequestLimits) -> Result<Vec<MarkedText>, RequestError> {
    if fields.get("system").is_none() { Ok(Vec::new()) } else { read_texts(fields, "system", limits) }
}

/// A field that holds a string, or a list of text blocks only.
fn read_texts(
    fields: &JsonFields<'_>,
    field: &'static str,
    limits: &RequestLimits,
) -> Result<Vec<MarkedText>, RequestError> {
    let blocks = if is_string(fields.need(field)?) {
        vec![(fields.need_string(field)?, None)]
    } else {
        fields.each(field, limits, |raw| {
            let block = JsonFields::of_value(raw, limits)?;
            match block.need_string("type")?.as_str() {
                "text" => Ok((block.need_string("text")?, read_mark(&block, limits)?)),
                _ => Err(RequestError::untranslatable("type", "content other than text")),
            }
        })?
    };
    Ok(blocks.into_iter().filter(|(text, _)| !text.is_empty()).collect())
}

fn read_tool(
    raw: &RawValue,
    limits: &RequestLimits,
) -> Result<(ToolDefinition, Option<CacheLifetime>), RequestError> {
    let tool = JsonFields::of_value(raw, limits)?;
    if tool.string("type")?.is_some_and(|kind| kind != "custom") {
        return Err(RequestError::untranslatable("type", "tools defined by the vendor"));
    }
    let schema =
        object_text(tool.need("input_schema")?, limits).map_err(|error| error.within("input_schema"))?;
    let (name, description) = (tool.need_string("name")?, tool.string("description")?);
    let mark = read_mark(&tool, limits)?;
    Ok((ToolDefinition { name, description, schema, strict: tool.boolean("strict")? }, mark))
}

fn read_tool_choice(fields: &JsonFields<'_>, limits: &RequestLimits) -> Result<ToolChoice, RequestError> {
    let Some(choice) = fields.object("tool_choice", limits)? else { return Ok(ToolChoice::Auto) };
    let kind = choice.need_string("type").map_err(|error| error.within("tool_choice"))?;
    match kind.as_str() {
        "auto" => Ok(ToolChoice::Auto),
        "none" => Ok(ToolChoice::None),
        "any" => Ok(ToolChoice::Any),
        "tool" => {
            choice.need_string("name").map(ToolChoice::Named).map_err(|error| error.within("tool_choice"))
        }
        _ => {
            Err(RequestError::invalid("tool_choice.type", "Input should be 'auto', 'any', 'tool' or 'none'"))
        }
    }
}

/// One entry of `messages`.
enum Message {
    Instructions(Vec<MarkedText>),
    /// With the cache marks by the part that they follow.
    Turn(Role, Vec<RequestPart>, Vec<(usize, CacheLifetime)>),
}

fn read_message(raw: &RawValue, limits: &RequestLimits) -> Result<Message, RequestError> {
    let message = JsonFields::of_value(raw, limits)?;
    let role = match message.need_string("role")?.as_str() {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "system" => return read_texts(&message, "content", limits).map(Message::Instructions),
        _ => return Err(RequestError::invalid("role", "Input should be 'user', 'assistant' or 'system'")),
    };
    let (mut kept, mut marks) = (0_usize, Vec::new());
    let parts = read_parts(message.need("content")?, limits, |raw| {
        let (part, mark) = read_block(role, raw, limits)?;
        kept += usize::from(part.as_ref().is_some_and(is_kept));
        marks.extend(kept.checked_sub(1).zip(mark));
        Ok(part)
    });
    Ok(Message::Turn(role, parts.map_err(|error| error.within("content"))?, marks))
}

fn is_kept(part: &RequestPart) -> bool {
    !matches!(part, RequestPart::Text(text) if text.is_empty())
}

fn read_parts<'a>(
    content: &'a RawValue,
    limits: &RequestLimits,
    read: impl FnMut(&'a RawValue) -> Result<Option<RequestPart>, RequestError>,
) -> Result<Vec<RequestPart>, RequestError> {
    let parts = if is_string(content) {
        vec![Some(RequestPart::Text(string_of(content)?))]
    } else if content.get().starts_with('[') {
        each(content, limits, read)?
    } else {
        return Err(RequestError::invalid("", "Input should be a valid string or a list of content blocks"));
    };
    Ok(parts.into_iter().flatten().filter(is_kept).collect())
}

fn read_block(
    role: Role,
    raw: &RawValue,
    limits: &RequestLimits,
) -> Result<(Option<RequestPart>, Option<CacheLifetime>), RequestError> {
    let block = JsonFields::of_value(raw, limits)?;
    let kind = block.need_string("type")?;
    let mark = read_mark(&block, limits)?;
    let part = match (role, kind.as_str()) {
        (_, "text") => RequestPart::Text(block.need_string("text")?),
        (Role::User, "image") => RequestPart::Image(read_image(&block, limits)?),
        (Role::User, "document") => read_document(&block, limits)?,
        (Role::User, "tool_result") => read_result(&block, limits)?,
        (Role::User, _) => {
            return Err(RequestError::untranslatable("type", "vendor-specific content blocks"));
        }
        (Role::Assistant, "tool_use") => RequestPart::ToolCall(ToolCall {
            id: block.need_string("id")?,
            name: block.need_string("name")?,
            input: block.get("input").map_or(Ok(JsonText::empty_object()), |raw| {
                object_text(raw, limits).map_err(|error| error.within("input"))
            })?,
        }),
        // The vendor's own tools, and thoughts that only their vendor can read.
        (Role::Assistant, "thinking" | "redacted_thinking" | "server_tool_use") => return Ok((None, mark)),
        (Role::Assistant, kind) if kind.ends_with("_tool_result") => return Ok((None, mark)),
        (Role::Assistant, _) => {
            return Err(RequestError::untranslatable("type", "vendor-specific content blocks"));
        }
    };
    Ok((Some(part), mark))
}

/// A document. Plain text becomes text, with its title and context in front.
fn read_document(block: &JsonFields<'_>, limits: &RequestLimits) -> Result<RequestPart, RequestError> {
    let (name, about) = (block.string("title")?, block.string("context")?);
    let source = block.need_object("source", limits)?;
    let kind = source.need_string("type").map_err(|error| error.within("source"))?;
    if kind == "text" {
        let text = source.need_string("data").map_err(|error| error.within("source"))?;
        let pieces: Vec<_> = name.into_iter().chain(about).chain([text]).collect();
        return Ok(RequestPart::Text(pieces.join("\n\n")));
    }
    if about.is_some() {
        return Err(RequestError::untranslatable("context", "documents with a context"));
    }
    Ok(RequestPart::Document(Document { name, content: read_image(block, limits)? }))
}

fn read_image(block: &JsonFields<'_>, limits: &RequestLimits) -> Result<Image, RequestError> {
    let source = block.need_object("source", limits)?;
    let read = || match source.need_string("type")?.as_str() {
        "url" => Image::from_url(source.need_string("url")?),
        "base64" => Ok(Image::Base64 {
            media_type: source.need_string("media_type")?,
            content: source.need_string("data")?,
        }),
        _ => Err(RequestError::untranslatable("type", "content stored at the vendor")),
    };
    read().map_err(|error| error.within("source"))
}

fn read_result(block: &JsonFields<'_>, limits: &RequestLimits) -> Result<RequestPart, RequestError> {
    let call = block.need_string("tool_use_id")?;
    let is_error = block.boolean("is_error")?;
    let Some(content) = block.get("content") else {
        return Ok(RequestPart::ToolResult { call, parts: Vec::new(), is_error });
    };
    let parts = read_parts(content, limits, |raw| {
        let block = JsonFields::of_value(raw, limits)?;
        Ok(Some(match block.need_string("type")?.as_str() {
            "text" => RequestPart::Text(block.need_string("text")?),
            "image" => RequestPart::Image(read_image(&block, limits)?),
            "document" => read_document(&block, limits)?,
            _ => return Err(RequestError::untranslatable("type", "vendor-specific content blocks")),
        }))
    });
    Ok(RequestPart::ToolResult { call, parts: parts.map_err(|error| error.within("content"))?, is_error })
}
