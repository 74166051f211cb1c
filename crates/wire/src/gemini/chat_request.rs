//! Parses a whole request for conversion to another dialect.

use super::contents::ContentsReader;
use super::names::{
    ALLOWED_FUNCTION_NAMES, CACHED_CONTENT, CANDIDATE_COUNT, FUNCTION_CALLING_CONFIG, FUNCTION_DECLARATIONS,
    GENERATION_CONFIG, IMAGE_CONFIG, LOGPROBS, MAX_OUTPUT_TOKENS, PARAMETERS_JSON_SCHEMA,
    RESPONSE_JSON_SCHEMA, RESPONSE_MIME_TYPE, RESPONSE_MODALITIES, RESPONSE_SCHEMA, SPEECH_CONFIG,
    STOP_SEQUENCES, SYSTEM_INSTRUCTION, THOUGHT_SIGNATURE, TOOL_CONFIG, TOP_P,
};
use super::request::{no_contents, reject_model};
use super::schema::to_json_schema;
use crate::chat::{ChatRequest, JsonText, ToolChoice, ToolDefinition};
use crate::fields::{JsonFields, object_text, string_of};
use crate::request::{RequestLimits, check_text};
use crate::request_error::RequestError;
use serde_json::value::RawValue;

/// Parses a request into the dialect-neutral form; the model and the stream flag come from the path.
///
/// A part that has no neutral form is dropped if the answer stays the same kind of answer without it, and rejected if
/// the caller would receive something else than requested:
///
/// - Rejected: more than one answer (`candidateCount`), `responseLogprobs`, a response type, schema or modality other
///   than text, `speechConfig` and `imageConfig`, `cachedContent`, tools other than functions, allowing only some of
///   the functions, and parts other than text, inline images, function calls and function responses.
/// - Dropped: every other field that is not named here (`safetySettings`, `topK`, `seed`, penalties,
///   `thinkingConfig`, `labels`, …), thoughts and thought signatures, and the mode `VALIDATED`, which becomes `AUTO`.
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
        request.tool_choice =
            read_tool_choice(&config, &request.tools, limits).map_err(|error| error.within(name))?;
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
    let name = CANDIDATE_COUNT.spelled_in(config)?;
    if config.get(name).is_some_and(|raw| raw.get() != "1") {
        return refused(name, "a number of candidates other than 1");
    }
    let name = LOGPROBS.spelled_in(config)?;
    if config.boolean(name)? {
        return refused(name, "log probabilities");
    }
    let name = RESPONSE_MIME_TYPE.spelled_in(config)?;
    if config.string(name)?.is_some_and(|kind| !matches!(kind.as_str(), "" | "text/plain")) {
        return refused(name, "response types other than text/plain");
    }
    let name = RESPONSE_MODALITIES.spelled_in(config)?;
    if config.each(name, limits, string_of)?.iter().any(|modality| !modality.eq_ignore_ascii_case("text")) {
        return refused(name, "modalities other than text");
    }
    for (field, problem) in [
        (RESPONSE_SCHEMA, "response schemas"),
        (RESPONSE_JSON_SCHEMA, "response schemas"),
        (SPEECH_CONFIG, "audio output"),
        (IMAGE_CONFIG, "image output"),
    ] {
        if field.is_in(config)? {
            return refused(field.spelled_in(config)?, problem);
        }
    }
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
    Ok(ToolDefinition { name, description, schema: schema.unwrap_or_else(JsonText::empty_object) })
}

fn read_schema(raw: &RawValue, limits: &RequestLimits) -> Result<JsonText, RequestError> {
    object_text(raw, limits)?;
    let invalid = || RequestError::invalid("", "Input should be a valid schema");
    let schema = serde_json::from_str(raw.get()).map_err(|_| invalid())?;
    JsonText::new(to_json_schema(schema).to_string()).ok_or_else(invalid)
}

fn read_tool_choice(
    config: &JsonFields<'_>,
    tools: &[ToolDefinition],
    limits: &RequestLimits,
) -> Result<ToolChoice, RequestError> {
    let outer = FUNCTION_CALLING_CONFIG.spelled_in(config)?;
    let Some(calling) = config.object(outer, limits)? else { return Ok(ToolChoice::Auto) };
    let read = || {
        let name = ALLOWED_FUNCTION_NAMES.spelled_in(&calling)?;
        let mut allowed = calling.each(name, limits, string_of)?;
        let allows_all = allowed.is_empty() || tools.iter().all(|tool| allowed.contains(&tool.name));
        match calling.string("mode")?.unwrap_or_default().to_ascii_uppercase().as_str() {
            "NONE" => Ok(ToolChoice::None),
            "ANY" if allowed.len() == 1 => Ok(allowed.pop().map_or(ToolChoice::Any, ToolChoice::Named)),
            "ANY" if allows_all => Ok(ToolChoice::Any),
            "" | "MODE_UNSPECIFIED" | "AUTO" | "VALIDATED" if allows_all => Ok(ToolChoice::Auto),
            "" | "MODE_UNSPECIFIED" | "AUTO" | "VALIDATED" | "ANY" => {
                Err(RequestError::untranslatable(name, "allowing only some of the functions"))
            }
            _ => Err(RequestError::invalid("mode", "Input should be 'AUTO', 'ANY', 'NONE' or 'VALIDATED'")),
        }
    };
    read().map_err(|error: RequestError| error.within(outer))
}
