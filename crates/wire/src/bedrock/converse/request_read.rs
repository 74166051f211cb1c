//! Parses a whole Converse request.

use super::shapes::BlockFields;
use crate::anthropic::read_reasoning;
use crate::bedrock::body::{invalid, missing, read_object};
use crate::bedrock::path::BedrockCall;
use crate::chat::{
    ChatRequest, JsonText, OutputFormat, OutputSchema, RequestPart, Role, ToolChoice, ToolDefinition, Turn,
};
use crate::fields::{JsonFields, object_of};
use crate::request::CowStr;
use crate::{RequestError, RequestLimits};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

/// Fields that change the answer and have no equivalent in another dialect. They are rejected.
const UNTRANSLATABLE_FIELDS: [&str; 2] = ["guardrailConfig", "promptVariables"];

/// Parses a request; the model and the stream flag come from the path.
///
/// ```
/// use seawall_wire::RequestLimits;
/// use seawall_wire::bedrock::{read_chat_request, read_path};
///
/// let call = read_path("/model/haiku/converse")?;
/// let body = br#"{"messages":[{"role":"user","content":[{"text":"hi"}]}],"inferenceConfig":{"maxTokens":9}}"#;
/// let request = read_chat_request(&call, body, &RequestLimits::default())?;
/// assert_eq!((request.model.as_str(), request.max_output, request.turns.len()), ("haiku", Some(9), 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn read_chat_request(
    call: &BedrockCall,
    body: &[u8],
    limits: &RequestLimits,
) -> Result<ChatRequest, RequestError> {
    let fields = JsonFields::read(body, limits)?;
    if let Some(promise) = UNTRANSLATABLE_FIELDS.into_iter().find(|name| fields.get(name).is_some()) {
        return Err(RequestError::untranslatable(promise, "guardrails and prompt templates of the service"));
    }
    let mut request = ChatRequest {
        model: call.model.clone(),
        stream: call.operation.is_stream(),
        // Streams of this dialect always end with usage.
        stream_usage: true,
        system: fields.get("system").map_or(Ok(Vec::new()), |raw| read_system(raw, limits.max_items))?,
        turns: read_turns(fields.get("messages").ok_or_else(|| missing("messages"))?, limits.max_items)?,
        ..ChatRequest::default()
    };
    if let Some(raw) = fields.get("inferenceConfig") {
        read_inference(raw, &mut request)?;
    }
    if let Some(raw) = fields.get("toolConfig") {
        read_tools(raw, &mut request, limits.max_items)?;
    }
    if let Some(config) = fields.object("outputConfig", limits)? {
        request.settings.output_format =
            read_format(&config, limits).map_err(|error| error.within("outputConfig"))?;
    }
    if let Some(additional) = fields.object(ADDITIONAL, limits)? {
        let read = || Ok((read_reasoning(&additional, limits)?, additional.count("top_k")?));
        let (reasoning, top_k) = read().map_err(|error: RequestError| error.within(ADDITIONAL))?;
        (request.settings.reasoning, request.settings.top_k) = (reasoning, top_k);
    }
    Ok(request)
}

/// Fields for the model itself; only those of Anthropic's models are known here.
const ADDITIONAL: &str = "additionalModelRequestFields";

fn read_format(config: &JsonFields<'_>, limits: &RequestLimits) -> Result<OutputFormat, RequestError> {
    let Some(format) = config.object("textFormat", limits)? else { return Ok(OutputFormat::Text) };
    let read = || {
        if format.need_string("type")? != "json_schema" {
            return Err(RequestError::untranslatable("type", "output formats other than json_schema"));
        }
        let structure = format.need_object("structure", limits)?;
        let schema = structure.need_object("jsonSchema", limits)?;
        // The service takes the schema as a string.
        let text = object_of(schema.need_string("schema")?, limits.max_depth);
        let text =
            text.ok_or_else(|| RequestError::invalid("structure", "The schema should be a JSON object"))?;
        Ok(OutputFormat::Schema(OutputSchema {
            name: schema.string("name")?,
            description: schema.string("description")?,
            schema: text,
            is_enforced: true,
        }))
    };
    read().map_err(|error: RequestError| error.within("textFormat"))
}

/// A list of at most `max` items.
fn read_list<'a>(raw: &'a RawValue, field: &str, max: usize) -> Result<Vec<&'a RawValue>, RequestError> {
    let list = serde_json::from_str(raw.get()).map_err(|_| invalid(field, "Input should be a valid list"))?;
    bounded(list, field, max)
}

fn bounded<'a>(list: Vec<&'a RawValue>, field: &str, max: usize) -> Result<Vec<&'a RawValue>, RequestError> {
    if list.len() > max {
        return Err(RequestError::TooMany { field: field.to_owned(), limit: max });
    }
    Ok(list)
}

fn read_system(raw: &RawValue, max: usize) -> Result<Vec<String>, RequestError> {
    let mut system = Vec::new();
    for (at, raw) in read_list(raw, "system", max)?.into_iter().enumerate() {
        let path = || format!("system.{at}");
        match read_part(raw, &path, max)? {
            Some(RequestPart::Text(text)) => system.push(text),
            Some(_) => return Err(invalid(path(), "Input should be a text block")),
            None => {}
        }
    }
    Ok(system)
}

#[derive(Deserialize)]
struct TurnFields<'a> {
    #[serde(borrow)]
    role: Option<CowStr<'a>>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

fn read_turns(raw: &RawValue, max: usize) -> Result<Vec<Turn>, RequestError> {
    let list = read_list(raw, "messages", max)?;
    if list.is_empty() {
        return Err(invalid("messages", "at least one message is required"));
    }
    list.into_iter().enumerate().map(|(at, raw)| read_turn(raw, at, max)).collect()
}

fn read_turn(raw: &RawValue, at: usize, max: usize) -> Result<Turn, RequestError> {
    let path = |field: &str| format!("messages.{at}.{field}");
    let turn: TurnFields<'_> = read_object(raw).ok_or_else(|| {
        invalid(format!("messages.{at}"), "Input should be an object with role and content")
    })?;
    let CowStr(role) = turn.role.ok_or_else(|| missing(path("role")))?;
    let role = match &*role {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        _ => return Err(invalid(path("role"), "Input should be 'user' or 'assistant'")),
    };
    let content = turn.content.ok_or_else(|| missing(path("content")))?;
    let parts = read_list(content, &path("content"), max)?;
    Ok(Turn { role, parts: read_parts(parts, &path("content"), max)? })
}

fn read_parts(list: Vec<&RawValue>, path: &str, max: usize) -> Result<Vec<RequestPart>, RequestError> {
    let parts = list.into_iter().enumerate().map(|(at, raw)| read_part(raw, &|| format!("{path}.{at}"), max));
    parts.filter_map(Result::transpose).collect()
}

/// Parses a content block; `None` if it has no meaning outside this dialect.
fn read_part(
    raw: &RawValue,
    path: &dyn Fn() -> String,
    max: usize,
) -> Result<Option<RequestPart>, RequestError> {
    let mut block = BlockFields::read(raw).ok_or_else(|| invalid(path(), "Unknown content block"))?;
    if let Some(text) = block.text.take().or_else(|| block.annotated_text()) {
        return Ok(Some(RequestPart::Text(text)));
    }
    if let Some(image) = block.image {
        let problem = "Image should be png, jpeg, gif or webp with inline bytes";
        return image
            .into_image()
            .map(|image| Some(RequestPart::Image(image)))
            .ok_or_else(|| invalid(path(), problem));
    }
    if let Some(document) = block.document {
        let problem = "Document should have a name and inline bytes or text";
        return document.into_part().map(Some).ok_or_else(|| invalid(path(), problem));
    }
    if let Some(call) = block.tool_use {
        let problem = "toolUse should be a call of a client tool with an object as input";
        return call
            .into_call()
            .map(|call| Some(RequestPart::ToolCall(call)))
            .ok_or_else(|| invalid(path(), problem));
    }
    if let Some(result) = block.tool_result {
        let inside = format!("{}.toolResult.content", path());
        let parts = read_parts(bounded(result.content, &inside, max)?, &inside, max)?;
        let is_error = result.status.as_deref() == Some("error");
        return Ok(Some(RequestPart::ToolResult { call: result.tool_use_id, parts, is_error }));
    }
    if let Some(json) = block.json {
        return Ok(Some(RequestPart::Text(json.get().to_owned())));
    }
    if block.cache_point.is_some() || block.reasoning_content.is_some() {
        return Ok(None);
    }
    Err(invalid(path(), "Content block is not supported by the target model"))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InferenceFields {
    max_tokens: Option<u32>,
    temperature: Option<f64>,
    top_p: Option<f64>,
    stop_sequences: Option<Vec<String>>,
}

fn read_inference(raw: &RawValue, request: &mut ChatRequest) -> Result<(), RequestError> {
    let problem = "maxTokens, temperature and topP should be numbers and stopSequences a list of strings";
    let fields: InferenceFields = read_object(raw).ok_or_else(|| invalid("inferenceConfig", problem))?;
    if fields.max_tokens == Some(0) {
        return Err(invalid("inferenceConfig.maxTokens", "Input should be greater than or equal to 1"));
    }
    request.max_output = fields.max_tokens;
    request.temperature = fields.temperature;
    request.top_p = fields.top_p;
    request.stop = fields.stop_sequences.unwrap_or_default();
    Ok(())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolConfigFields<'a> {
    #[serde(borrow)]
    tools: Vec<&'a RawValue>,
    tool_choice: Option<ToolChoiceFields>,
}

#[derive(Deserialize)]
struct ToolChoiceFields {
    any: Option<IgnoredAny>,
    tool: Option<NamedTool>,
}

#[derive(Deserialize)]
struct NamedTool {
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolFields {
    tool_spec: Option<ToolSpec>,
    cache_point: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolSpec {
    name: String,
    description: Option<String>,
    input_schema: Schema,
    strict: Option<bool>,
}

#[derive(Deserialize)]
struct Schema {
    json: JsonText,
}

fn read_tools(raw: &RawValue, request: &mut ChatRequest, max: usize) -> Result<(), RequestError> {
    let config: ToolConfigFields<'_> = read_object(raw).ok_or_else(|| {
        invalid("toolConfig", "Input should be an object with tools and, optionally, toolChoice")
    })?;
    for (at, raw) in bounded(config.tools, "toolConfig.tools", max)?.into_iter().enumerate() {
        let problem = "Input should be a toolSpec with name and inputSchema.json";
        let tool: Option<ToolFields> = read_object(raw);
        match tool {
            Some(ToolFields { tool_spec: Some(tool), .. }) => request.tools.push(ToolDefinition {
                name: tool.name,
                description: tool.description,
                schema: tool.input_schema.json,
                strict: tool.strict.unwrap_or(false),
            }),
            Some(ToolFields { cache_point: Some(_), .. }) => {}
            _ => return Err(invalid(format!("toolConfig.tools.{at}"), problem)),
        }
    }
    request.tool_choice = match config.tool_choice {
        Some(ToolChoiceFields { tool: Some(tool), .. }) => ToolChoice::Named(tool.name),
        Some(ToolChoiceFields { any: Some(_), .. }) => ToolChoice::Any,
        _ => ToolChoice::Auto,
    };
    Ok(())
}
