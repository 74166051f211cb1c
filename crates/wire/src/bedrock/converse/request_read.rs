//! Parses a whole Converse request.

use super::shapes::BlockFields;
use crate::bedrock::body::{missing, read_object, wrong};
use crate::bedrock::path::BedrockCall;
use crate::chat::{ChatRequest, JsonText, Part, Role, ToolChoice, ToolDefinition, Turn};
use crate::fields::Fields;
use crate::request::Name;
use crate::{RequestError, RequestLimits};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

/// Fields that change the answer and have no equivalent in another dialect. They are refused.
const PROMISES: [&str; 3] = ["guardrailConfig", "outputConfig", "promptVariables"];

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
    let fields = Fields::read(body, limits)?;
    if let Some(promise) = PROMISES.into_iter().find(|name| fields.get(name).is_some()) {
        return Err(wrong(promise, "cannot be kept by the model that would answer"));
    }
    let mut request = ChatRequest {
        model: call.model.clone(),
        stream: call.operation.is_stream(),
        // Streams of this dialect always end with usage.
        stream_usage: true,
        system: fields.get("system").map_or(Ok(Vec::new()), |raw| read_system(raw, limits.members))?,
        turns: read_turns(fields.get("messages").ok_or_else(|| missing("messages"))?, limits.members)?,
        ..ChatRequest::default()
    };
    if let Some(raw) = fields.get("inferenceConfig") {
        read_inference(raw, &mut request)?;
    }
    if let Some(raw) = fields.get("toolConfig") {
        read_tools(raw, &mut request, limits.members)?;
    }
    Ok(request)
}

/// A list of at most `most` items.
fn read_list<'a>(raw: &'a RawValue, field: &str, most: usize) -> Result<Vec<&'a RawValue>, RequestError> {
    let list = serde_json::from_str(raw.get()).map_err(|_| wrong(field, "must be a list"))?;
    bounded(list, field, most)
}

fn bounded<'a>(list: Vec<&'a RawValue>, field: &str, most: usize) -> Result<Vec<&'a RawValue>, RequestError> {
    if list.len() > most {
        return Err(RequestError::TooMany { field: field.to_owned(), limit: most });
    }
    Ok(list)
}

fn read_system(raw: &RawValue, most: usize) -> Result<Vec<String>, RequestError> {
    let mut system = Vec::new();
    for (at, raw) in read_list(raw, "system", most)?.into_iter().enumerate() {
        let way = || format!("system.{at}");
        match read_part(raw, &way, most)? {
            Some(Part::Text(text)) => system.push(text),
            Some(_) => return Err(wrong(way(), "must be text")),
            None => {}
        }
    }
    Ok(system)
}

#[derive(Deserialize)]
struct TurnFields<'a> {
    #[serde(borrow)]
    role: Option<Name<'a>>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

fn read_turns(raw: &RawValue, most: usize) -> Result<Vec<Turn>, RequestError> {
    let list = read_list(raw, "messages", most)?;
    if list.is_empty() {
        return Err(wrong("messages", "must not be empty"));
    }
    list.into_iter().enumerate().map(|(at, raw)| read_turn(raw, at, most)).collect()
}

fn read_turn(raw: &RawValue, at: usize, most: usize) -> Result<Turn, RequestError> {
    let way = |field: &str| format!("messages.{at}.{field}");
    let turn: TurnFields<'_> = read_object(raw)
        .ok_or_else(|| wrong(format!("messages.{at}"), "must be an object with role and content"))?;
    let Name(role) = turn.role.ok_or_else(|| missing(way("role")))?;
    let role = match &*role {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        _ => return Err(wrong(way("role"), "must be user or assistant")),
    };
    let content = turn.content.ok_or_else(|| missing(way("content")))?;
    let parts = read_list(content, &way("content"), most)?;
    Ok(Turn { role, parts: read_parts(parts, &way("content"), most)? })
}

fn read_parts(list: Vec<&RawValue>, way: &str, most: usize) -> Result<Vec<Part>, RequestError> {
    let parts = list.into_iter().enumerate().map(|(at, raw)| read_part(raw, &|| format!("{way}.{at}"), most));
    parts.filter_map(Result::transpose).collect()
}

/// Parses a content block; `None` if it has no meaning outside this dialect.
fn read_part(raw: &RawValue, way: &dyn Fn() -> String, most: usize) -> Result<Option<Part>, RequestError> {
    let mut block =
        BlockFields::read(raw).ok_or_else(|| wrong(way(), "is no block that this dialect has"))?;
    if let Some(text) = block.text.take().or_else(|| block.marked_text()) {
        return Ok(Some(Part::Text(text)));
    }
    if let Some(image) = block.image {
        let problem = "must be png, jpeg, gif or webp and hold its bytes";
        return image.into_image().map(|image| Some(Part::Image(image))).ok_or_else(|| wrong(way(), problem));
    }
    if let Some(call) = block.tool_use {
        let problem = "must be a call to a tool of the caller, with an object as its input";
        return call.into_call().map(|call| Some(Part::ToolCall(call))).ok_or_else(|| wrong(way(), problem));
    }
    if let Some(result) = block.tool_result {
        let inside = format!("{}.toolResult.content", way());
        let parts = read_parts(bounded(result.content, &inside, most)?, &inside, most)?;
        let is_error = result.status.as_deref() == Some("error");
        return Ok(Some(Part::ToolResult { call: result.tool_use_id, parts, is_error }));
    }
    if let Some(json) = block.json {
        return Ok(Some(Part::Text(json.get().to_owned())));
    }
    if block.cache_point.is_some() || block.reasoning_content.is_some() {
        return Ok(None);
    }
    Err(wrong(way(), "cannot be shown to the model that would answer"))
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
    let problem = "must have maxTokens, temperature and topP as numbers and stopSequences as texts";
    let fields: InferenceFields = read_object(raw).ok_or_else(|| wrong("inferenceConfig", problem))?;
    if fields.max_tokens == Some(0) {
        return Err(wrong("inferenceConfig.maxTokens", "must be at least 1"));
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
}

#[derive(Deserialize)]
struct Schema {
    json: JsonText,
}

fn read_tools(raw: &RawValue, request: &mut ChatRequest, most: usize) -> Result<(), RequestError> {
    let config: ToolConfigFields<'_> = read_object(raw)
        .ok_or_else(|| wrong("toolConfig", "must have a list of tools and may have toolChoice"))?;
    for (at, raw) in bounded(config.tools, "toolConfig.tools", most)?.into_iter().enumerate() {
        let problem = "must be a toolSpec with name and inputSchema.json";
        let tool: Option<ToolFields> = read_object(raw);
        match tool {
            Some(ToolFields { tool_spec: Some(tool), .. }) => request.tools.push(ToolDefinition {
                name: tool.name,
                description: tool.description,
                schema: tool.input_schema.json,
            }),
            Some(ToolFields { cache_point: Some(_), .. }) => {}
            _ => return Err(wrong(format!("toolConfig.tools.{at}"), problem)),
        }
    }
    request.tool_choice = match config.tool_choice {
        Some(ToolChoiceFields { tool: Some(tool), .. }) => ToolChoice::Named(tool.name),
        Some(ToolChoiceFields { any: Some(_), .. }) => ToolChoice::Any,
        _ => ToolChoice::Auto,
    };
    Ok(())
}
