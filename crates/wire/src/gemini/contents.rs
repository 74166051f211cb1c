//! Parses the contents of a conversation.

use super::names::{DISPLAY_NAME, FUNCTION_CALL, FUNCTION_RESPONSE, INLINE_DATA, MIME_TYPE};
use crate::chat::{Document, Image, JsonText, RequestPart, Role, ToolCall};
use crate::fields::{JsonFields, is_string, object_text, string_of};
use crate::request::RequestLimits;
use crate::request_error::RequestError;
use serde_json::value::RawValue;

/// Field names in error messages are truncated to this length.
const MAX_NAME_LENGTH: usize = 64;
/// Fields that describe a part and are not its content.
const ANNOTATIONS: [&str; 9] = [
    "thought",
    "thoughtSignature",
    "thought_signature",
    "videoMetadata",
    "video_metadata",
    "mediaResolution",
    "media_resolution",
    "partMetadata",
    "part_metadata",
];

/// Parses the contents in order. It remembers the function calls, because their ids are optional: a response without
/// an id belongs to the oldest call of its function that has no response yet.
#[derive(Default)]
pub(super) struct ContentsReader {
    calls: Vec<KnownCall>,
}

struct KnownCall {
    id: String,
    name: String,
    is_answered: bool,
}

impl ContentsReader {
    pub(super) fn read(
        &mut self,
        raw: &RawValue,
        limits: &RequestLimits,
    ) -> Result<(Role, Vec<RequestPart>), RequestError> {
        let content = JsonFields::of_value(raw, limits)?;
        let role = match content.string("role")?.as_deref() {
            None | Some("" | "user" | "function" | "tool") => Role::User,
            Some("model") => Role::Assistant,
            Some(_) => return Err(RequestError::invalid("role", "Input should be 'user' or 'model'")),
        };
        content.need("parts")?;
        let parts = content.each("parts", limits, |raw| self.read_part(raw, role, limits))?;
        Ok((role, parts.into_iter().flatten().collect()))
    }

    /// Parses a part; `None` if it has no meaning outside this dialect.
    fn read_part(
        &mut self,
        raw: &RawValue,
        role: Role,
        limits: &RequestLimits,
    ) -> Result<Option<RequestPart>, RequestError> {
        let part = JsonFields::of_value(raw, limits)?;
        let is_thought = part.boolean("thought")?;
        let Some(name) = content_name(&part)? else { return Ok(None) };
        let read = match name {
            "text" => {
                let text = part.need_string("text")?;
                return Ok((!is_thought && !text.is_empty()).then_some(RequestPart::Text(text)));
            }
            _ if is_thought => return Ok(None),
            _ if name == INLINE_DATA.spelled_in(&part)? => {
                part.need_object(name, limits).map(|blob| read_blob(&blob))
            }
            _ if name == FUNCTION_CALL.spelled_in(&part)? => {
                if role != Role::Assistant {
                    return Err(RequestError::invalid(
                        name,
                        "Function calls should be in contents of the model",
                    ));
                }
                part.need_object(name, limits).map(|call| self.read_call(&call, limits))
            }
            _ if name == FUNCTION_RESPONSE.spelled_in(&part)? => {
                if role != Role::User {
                    return Err(RequestError::invalid(
                        name,
                        "Function responses should be in contents of the user",
                    ));
                }
                part.need_object(name, limits).map(|response| self.read_response(&response, limits))
            }
            other => {
                let name: String = other.chars().take(MAX_NAME_LENGTH).collect();
                let problem = "parts other than text, inline content, function calls and function responses";
                return Err(RequestError::untranslatable(name, problem));
            }
        };
        read?.map(Some).map_err(|error| error.within(name))
    }

    fn read_call(
        &mut self,
        call: &JsonFields<'_>,
        limits: &RequestLimits,
    ) -> Result<RequestPart, RequestError> {
        let name = call.need_string("name")?;
        let input = match call.get("args") {
            Some(raw) => object_text(raw, limits).map_err(|error| error.within("args"))?,
            None => JsonText::empty_object(),
        };
        let id = call.string("id")?.filter(|id| !id.is_empty());
        let id = id.unwrap_or_else(|| format!("call_{}", self.calls.len()));
        self.calls.push(KnownCall { id: id.clone(), name: name.clone(), is_answered: false });
        Ok(RequestPart::ToolCall(ToolCall { id, name, input }))
    }

    fn read_response(
        &mut self,
        response: &JsonFields<'_>,
        limits: &RequestLimits,
    ) -> Result<RequestPart, RequestError> {
        let id = response.string("id")?.filter(|id| !id.is_empty());
        let name = response.need_string("name")?;
        let is_meant = |call: &&mut KnownCall| {
            !call.is_answered && id.as_ref().map_or(call.name == name, |id| call.id == *id)
        };
        let known = self.calls.iter_mut().find(is_meant).map(|call| {
            call.is_answered = true;
            call.id.clone()
        });
        let Some(call) = known.or(id) else {
            return Err(RequestError::invalid("name", "There is no unanswered function call of this name"));
        };
        let (text, is_error) = match response.get("response") {
            Some(raw) => read_output(raw, limits).map_err(|error| error.within("response"))?,
            None => (String::new(), false),
        };
        let mut parts = Vec::new();
        if !text.is_empty() {
            parts.push(RequestPart::Text(text));
        }
        parts.extend(response.each("parts", limits, |raw| read_response_part(raw, limits))?);
        Ok(RequestPart::ToolResult { call, parts, is_error })
    }
}

/// The name of the one field that holds the content of a part; `None` if the part has only annotations.
fn content_name<'p>(part: &'p JsonFields<'_>) -> Result<Option<&'p str>, RequestError> {
    let mut names = part.iter().map(|(name, _)| name).filter(|name| !ANNOTATIONS.contains(name));
    let first = names.next();
    match (first, names.next()) {
        (None, _) if part.is_empty() => Err(RequestError::invalid("", "Part should have content")),
        (_, Some(_)) => Err(RequestError::invalid("", "Part should have only one kind of content")),
        (first, None) => Ok(first),
    }
}

/// An image or a document.
fn read_blob(blob: &JsonFields<'_>) -> Result<RequestPart, RequestError> {
    let name = MIME_TYPE.spelled_in(blob)?;
    let media_type = blob.need_string(name)?;
    let is_image = media_type.starts_with("image/");
    if !is_image && media_type != "application/pdf" {
        return Err(RequestError::untranslatable(name, "inline content other than images and PDF files"));
    }
    let content = Image::Base64 { media_type, content: blob.need_string("data")? };
    if is_image {
        return Ok(RequestPart::Image(content));
    }
    Ok(RequestPart::Document(Document { name: blob.string(DISPLAY_NAME.spelled_in(blob)?)?, content }))
}

fn read_response_part(raw: &RawValue, limits: &RequestLimits) -> Result<RequestPart, RequestError> {
    let part = JsonFields::of_value(raw, limits)?;
    let name = INLINE_DATA.spelled_in(&part)?;
    match part.object(name, limits)? {
        Some(blob) => read_blob(&blob).map_err(|error| error.within(name)),
        None => {
            Err(RequestError::untranslatable("", "parts of function responses other than inline content"))
        }
    }
}

/// The text of a function response, and whether it is an error. By the vendor's convention `output` holds the result
/// and `error` an error; without them the whole object is the result.
fn read_output(raw: &RawValue, limits: &RequestLimits) -> Result<(String, bool), RequestError> {
    let response = JsonFields::of_value(raw, limits)?;
    let mut fields = response.iter();
    let (text, is_error) = match (fields.next(), fields.next()) {
        (Some(("output", raw)), None) => (raw, false),
        (Some(("error", raw)), None) => (raw, true),
        _ => (raw, false),
    };
    Ok((if is_string(text) { string_of(text)? } else { text.get().to_owned() }, is_error))
}
