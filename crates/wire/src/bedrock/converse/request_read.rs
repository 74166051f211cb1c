//! Parses a whole Converse request.

use super::shapes::{BlockFields, CachePointFields};
use crate::anthropic::read_reasoning;
use crate::bedrock::body::{invalid, missing, read_object};
use crate::bedrock::path::BedrockCall;
use crate::chat::{
    CacheLifetime, ChatRequest, JsonText, OutputFormat, OutputSchema, RequestPart, Role, ToolChoice,
    ToolDefinition, Turn,
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
        ..ChatRequest::default()
    };
    if let Some(raw) = fields.get("system") {
        read_system(raw, &mut request, limits.max_items)?;
    }
    let messages = fields.get("messages").ok_or_else(|| missing("messages"))?;
    read_turns(messages, &mut request, limits.max_items)?;
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

fn read_system(raw: &RawValue, request: &mut ChatRequest, max: usize) -> Result<(), RequestError> {
    let (system, marks) = (&mut request.system, &mut request.settings.cache_points.system);
    for (at, raw) in read_list(raw, "system", max)?.into_iter().enumerate() {
        let path = || format!("system.{at}");
        match read_part(raw, &path, max)? {
            ConversePart::Content(RequestPart::Text(text)) => system.push(text),
            ConversePart::Content(_) => return Err(invalid(path(), "Input should be a text block")),
            ConversePart::CachePoint(lifetime) => {
                marks.extend(system.len().checked_sub(1).map(|last| (last, lifetime)));
            }
            ConversePart::Meaningless => {}
        }
    }
    Ok(())
}

#[derive(Deserialize)]
struct TurnFields<'a> {
    #[serde(borrow)]
    role: Option<CowStr<'a>>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

fn read_turns(raw: &RawValue, request: &mut ChatRequest, max: usize) -> Result<(), RequestError> {
    let list = read_list(raw, "messages", max)?;
    if list.is_empty() {
        return Err(invalid("messages", "at least one message is required"));
    }
    for (at, raw) in list.into_iter().enumerate() {
        let (turn, marks) = read_turn(raw, at, max)?;
        request.turns.push(turn);
        let marks = marks.into_iter().map(|(part, lifetime)| ((at, part), lifetime));
        request.settings.cache_points.turns.extend(marks);
    }
    Ok(())
}

/// Cache marks by the part that they follow.
type Marks = Vec<(usize, CacheLifetime)>;

fn read_turn(raw: &RawValue, at: usize, max: usize) -> Result<(Turn, Marks), RequestError> {
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
    let (parts, marks) = read_parts(parts, &path("content"), max)?;
    Ok((Turn { role, parts }, marks))
}

fn read_parts(
    list: Vec<&RawValue>,
    path: &str,
    max: usize,
) -> Result<(Vec<RequestPart>, Marks), RequestError> {
    let (mut parts, mut marks) = (Vec::new(), Vec::new());
    for (at, raw) in list.into_iter().enumerate() {
        match read_part(raw, &|| format!("{path}.{at}"), max)? {
            ConversePart::Content(part) => parts.push(part),
            ConversePart::CachePoint(lifetime) => {
                marks.extend(parts.len().checked_sub(1).map(|last| (last, lifetime)));
            }
            ConversePart::Meaningless => {}
        }
    }
    Ok((parts, marks))
}

/// A content block as read.
enum ConversePart {
    Content(RequestPart),
    CachePoint(CacheLifetime),
    /// It has no meaning outside this dialect.
    Meaningless,
}

/// Parses a content block.
fn read_part(raw: &RawValue, path: &dyn Fn() -> String, max: usize) -> Result<ConversePart, RequestError> {
    let mut block = BlockFields::read(raw).ok_or_else(|| invalid(path(), "Unknown content block"))?;
    if let Some(text) = block.text.take().or_else(|| block.annotated_text()) {
        return Ok(ConversePart::Content(RequestPart::Text(text)));
    }
    if let Some(image) = block.image {
        let problem = "Image should be png, jpeg, gif or webp with inline bytes";
        return image
            .into_image()
            .map(|image| ConversePart::Content(RequestPart::Image(image)))
            .ok_or_else(|| invalid(path(), problem));
    }
    if let Some(document) = block.document {
        let problem = "Document should have a name and inline bytes or text";
        return document.into_part().map(ConversePart::Content).ok_or_else(|| invalid(path(), problem));
    }
    if let Some(call) = block.tool_use {
        let problem = "toolUse should be a call of a client tool with an object as input";
        return call
            .into_call()
            .map(|call| ConversePart::Content(RequestPart::ToolCall(call)))
            .ok_or_else(|| invalid(path(), problem));
    }
    if let Some(result) = block.tool_result {
        let inside = format!("{}.toolResult.content", path());
        let (parts, _) = read_parts(bounded(result.content, &inside, max)?, &inside, max)?;
        let is_error = result.status.as_deref() == Some("error");
        let call = result.tool_use_id;
        return Ok(ConversePart::Content(RequestPart::ToolResult { call, parts, is_error }));
    }
    if let Some(json) = block.json {
        return Ok(ConversePart::Content(RequestPart::Text(json.get().to_owned())));
    }
    if let Some(mark) = block.cache_point {
        return Ok(ConversePart::CachePoint(mark.lifetime()));
    }
    if block.reasoning_content.is_some() {
        return Ok(ConversePart::Meaningless);
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
    cache_point: Option<CachePointFields>,
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
            Some(ToolFields { cache_point: Some(mark), .. }) => {
                let last = request.tools.len().checked_sub(1);
                request.settings.cache_points.tools.extend(last.map(|last| (last, mark.lifetime())));
            }
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
