//! Parses a whole request for conversion to another dialect.

use super::contents::ContentsReader;
use super::names::{
    ALLOWED_FUNCTION_NAMES, CACHED_CONTENT, FUNCTION_CALLING_CONFIG, FUNCTION_DECLARATIONS,
    GENERATION_CONFIG, IMAGE_CONFIG, MAX_OUTPUT_TOKENS, PARAMETERS_JSON_SCHEMA, RESPONSE_MODALITIES,
    SPEECH_CONFIG, STOP_SEQUENCES, SYSTEM_INSTRUCTION, THOUGHT_SIGNATURE, TOOL_CONFIG, TOP_P,
};
use super::request::{no_contents, reject_model};
use super::settings::{read_schema, read_settings};
use crate::chat::{ChatRequest, JsonText, ToolChoice, ToolDefinition};
use crate::fields::{JsonFields, object_text, string_of};
use crate::request::{RequestLimits, check_text};
use crate::request_error::RequestError;
use serde_json::value::RawValue;

/// Parses a request into the dialect-neutral form; the model and the stream flag come from the path.
///
/// - Fields that are not named in the field rules of this dialect are not read; a translation refuses them.
/// - Rejected: a response type or modality other than text and JSON, `speechConfig` and `imageConfig`, `cachedContent`,
///   tools other than functions, and parts other than text, inline images and documents, function calls and function
///   responses.
/// - Thoughts and thought signatures are dropped. In the mode `VALIDATED` all functions are strict.
/// - Consecutive contents of one role are merged into one turn. Empty texts are dropped.
/// - A function call without an id gets one; a response without an id gets that of the oldest call of its function that
///   has no response yet. A response becomes the text of `output` or `error`, or else of the whole object.
/// - `parameters` of a function become JSON Schema.
pub fn read_chat_request(
    body: &[u8],
    model: &str,
    stream: bool,
    limits: &RequestLimits,
) -> Result<ChatRequest, RequestError> {
    let fields = JsonFields::of_body(check_text(body, limits)?, limits)?;
    reject_model(&fields)?;
    if CACHED_CONTENT.is_in(&fields)? {
        return Err(RequestError::untranslatable("cachedContent", "content cached at the vendor"));
    }
    let mut request = ChatRequest {
        model: model.to_owned(),
        stream,
        // Streams of this dialect always report usage.
        stream_usage: stream,
        system: read_system(&fields, limits)?,
        ..ChatRequest::default()
    };
    let name = GENERATION_CONFIG.spelled_in(&fields)?;
    if let Some(config) = fields.object(name, limits)? {
        read_config(&config, &mut request, limits).map_err(|error| error.within(name))?;
    }
    let tools = fields.each("tools", limits, |raw| read_tool(raw, limits))?;
    request.tools = tools.into_iter().flatten().collect();
    let name = TOOL_CONFIG.spelled_in(&fields)?;
    if let Some(config) = fields.object(name, limits)? {
        read_tool_choice(&config, &mut request, limits).map_err(|error| error.within(name))?;
    }
    fields.need("contents")?;
    let mut reader = ContentsReader::default();
    for (role, parts) in fields.each("contents", limits, |raw| reader.read(raw, limits))? {
        request.push_parts(role, parts);
    }
    if request.turns.is_empty() {
        return Err(no_contents());
    }
    Ok(request)
}

fn read_system(fields: &JsonFields<'_>, limits: &RequestLimits) -> Result<Vec<String>, RequestError> {
    let name = SYSTEM_INSTRUCTION.spelled_in(fields)?;
    let Some(content) = fields.object(name, limits)? else { return Ok(Vec::new()) };
    let read_text = |raw| {
        let part = JsonFields::of_value(raw, limits)?;
        match part.string("text")? {
            Some(text) => Ok(text),
            None if part.is_empty() || THOUGHT_SIGNATURE.is_in(&part)? => Ok(String::new()),
            None => Err(RequestError::untranslatable("", "system instructions other than text")),
        }
    };
    let texts = content.each("parts", limits, read_text).map_err(|error| error.within(name))?;
    Ok(texts.into_iter().filter(|text| !text.is_empty()).collect())
}

fn read_config(
    config: &JsonFields<'_>,
    request: &mut ChatRequest,
    limits: &RequestLimits,
) -> Result<(), RequestError> {
    let refused = |name, problem| Err(RequestError::untranslatable(name, problem));
    let name = RESPONSE_MODALITIES.spelled_in(config)?;
    if config.each(name, limits, string_of)?.iter().any(|modality| !modality.eq_ignore_ascii_case("text")) {
        return refused(name, "modalities other than text");
    }
    for (field, problem) in [(SPEECH_CONFIG, "audio output"), (IMAGE_CONFIG, "image output")] {
        if field.is_in(config)? {
            return refused(field.spelled_in(config)?, problem);
        }
    }
    request.settings = read_settings(config, limits)?;
    request.max_output = config.max_output(MAX_OUTPUT_TOKENS.spelled_in(config)?)?;
    request.temperature = config.number("temperature")?;
    request.top_p = config.number(TOP_P.spelled_in(config)?)?;
    request.stop = config.each(STOP_SEQUENCES.spelled_in(config)?, limits, string_of)?;
    Ok(())
}

/// The functions of one entry of `tools`.
fn read_tool(raw: &RawValue, limits: &RequestLimits) -> Result<Vec<ToolDefinition>, RequestError> {
    let tool = JsonFields::of_value(raw, limits)?;
    let declarations = FUNCTION_DECLARATIONS.spelled_in(&tool)?;
    if let Some((other, _)) = tool.iter().find(|(name, _)| *name != declarations) {
        let name: String = other.chars().take(64).collect();
        return Err(RequestError::untranslatable(name, "tools other than functions"));
    }
    tool.each(declarations, limits, |raw| read_function(raw, limits))
}

fn read_function(raw: &RawValue, limits: &RequestLimits) -> Result<ToolDefinition, RequestError> {
    let function = JsonFields::of_value(raw, limits)?;
    let name = PARAMETERS_JSON_SCHEMA.spelled_in(&function)?;
    let schema = match (function.get("parameters"), function.get(name)) {
        (Some(_), Some(_)) => {
            return Err(RequestError::invalid(
                name,
                "Only one of parameters and parametersJsonSchema is allowed",
            ));
        }
        (None, Some(raw)) => Some(object_text(raw, limits).map_err(|error| error.within(name))?),
        (Some(raw), None) => Some(read_schema(raw, limits).map_err(|error| error.within("parameters"))?),
        (None, None) => JsonText::new(r#"{"type":"object","properties":{}}"#.to_owned()),
    };
    let (name, description) = (function.need_string("name")?, function.string("description")?);
    let schema = schema.unwrap_or_else(JsonText::empty_object);
    Ok(ToolDefinition { name, description, schema, strict: false })
}

fn read_tool_choice(
    config: &JsonFields<'_>,
    request: &mut ChatRequest,
    limits: &RequestLimits,
) -> Result<(), RequestError> {
    let outer = FUNCTION_CALLING_CONFIG.spelled_in(config)?;
    let Some(calling) = config.object(outer, limits)? else { return Ok(()) };
    let read = || {
        let name = ALLOWED_FUNCTION_NAMES.spelled_in(&calling)?;
        let mode = calling.string("mode")?.unwrap_or_default().to_ascii_uppercase();
        Ok((mode, calling.each(name, limits, string_of)?))
    };
    let (mode, mut allowed) = read().map_err(|error: RequestError| error.within(outer))?;
    if request.tools.iter().all(|tool| allowed.contains(&tool.name)) && allowed.len() != 1 {
        allowed.clear();
    }
    request.tool_choice = match mode.as_str() {
        "NONE" => ToolChoice::None,
        "ANY" if allowed.len() == 1 => {
            request.tool_choice = allowed.pop().map_or(ToolChoice::Any, ToolChoice::Named);
            return Ok(());
        }
        "ANY" => ToolChoice::Any,
        "" | "MODE_UNSPECIFIED" | "AUTO" => ToolChoice::Auto,
        "VALIDATED" => {
            request.tools.iter_mut().for_each(|tool| tool.strict = true);
            ToolChoice::Auto
        }
        _ => {
            let problem = "Input should be 'AUTO', 'ANY', 'NONE' or 'VALIDATED'";
            return Err(RequestError::invalid("mode", problem).within(outer));
        }
    };
    request.settings.allowed_tools = allowed;
    Ok(())
}
