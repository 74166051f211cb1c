//! Writes a Converse request.

use super::shapes::{CachePoint, ConverseBlock, ImageSource, document_format_of, document_name, format_of};
use crate::RequestError;
use crate::anthropic::{ModelTraits, ReasoningFields};
use crate::bedrock::body::invalid;
use crate::bedrock::error_response::json;
use crate::chat::schema::closed;
use crate::chat::{
    CacheLifetime, CachePoints, ChatFeature, ChatRequest, Document, FeatureColumn, Image, JsonText,
    OutputFormat, RequestPart, Role, ToolChoice, ToolDefinition, Turn,
};
use bytes::Bytes;
use serde::Serialize;
use std::collections::BTreeMap;

/// Writes the body of a request. The model and the stream flag go into the path.
///
/// Fails if the service cannot express something that the model must see; the error names it.
///
/// ```
/// use seawall_wire::bedrock::write_chat_request;
/// use seawall_wire::chat::{ChatRequest, RequestPart, Role, Turn};
///
/// let turns = vec![Turn { role: Role::User, parts: vec![RequestPart::Text("hi".to_owned())] }];
/// let body = write_chat_request(&ChatRequest { turns, ..ChatRequest::default() })?;
/// assert_eq!(&body[..], br#"{"messages":[{"role":"user","content":[{"text":"hi"}]}]}"#);
/// # Ok::<(), seawall_wire::RequestError>(())
/// ```
pub fn write_chat_request(request: &ChatRequest) -> Result<Bytes, RequestError> {
    write_chat_request_for(request, &request.model)
}

/// Like [`write_chat_request`], but for another model than the one the caller named: thinking and `top_k` are fields of
/// the model itself, of which those of Anthropic's models are known here.
pub(super) fn write_chat_request_for(request: &ChatRequest, model: &str) -> Result<Bytes, RequestError> {
    request.refuse_unsupported(FeatureColumn::Converse)?;
    let has_call =
        |part: &RequestPart| matches!(part, RequestPart::ToolCall(_) | RequestPart::ToolResult { .. });
    let has_calls = request.turns.iter().any(|turn| turn.parts.iter().any(has_call));
    if has_calls && request.uses(ChatFeature::NoTool) {
        return Err(ChatFeature::NoTool.unsupported());
    }
    let marks = &cache_points_for(model, &request.settings.cache_points);
    // The service rejects empty texts here.
    let texts = request.system.iter().enumerate().filter(|(_, text)| !text.is_empty());
    let system = texts.flat_map(|(at, text)| {
        let mark = marks.system.get(&at).map(|lifetime| ConverseBlock::CachePoint(CachePoint::of(*lifetime)));
        [ConverseBlock::Text(text)].into_iter().chain(mark)
    });
    let inference = Inference {
        max_tokens: request.positive_max_output()?,
        temperature: request.temperature.filter(|number| number.is_finite()),
        top_p: request.top_p.filter(|number| number.is_finite()),
        stop_sequences: &request.stop,
    };
    let body = Body {
        messages: write_turns(&request.turns, marks)?,
        system: system.collect(),
        inference_config: (!inference.is_empty()).then_some(inference),
        tool_config: write_tools(request, marks),
        output_config: OutputConfig::of(&request.settings.output_format),
        additional_model_request_fields: AdditionalFields::of(request, model)?,
    };
    Ok(json(&body))
}

/// The cache marks that a model takes. The service rejects a mark for a model without prompt caching, so that none is written
/// for a model that is not known to have it, such as one behind an application inference profile.
fn cache_points_for(model: &str, points: &CachePoints) -> CachePoints {
    const NOVA: [&str; 4] = ["nova-micro", "nova-lite", "nova-pro", "nova-premier"];
    const OLD_CLAUDE: [&str; 6] = ["v2", "instant", "3-haiku", "3-sonnet", "3-opus", "3-5-sonnet"];
    if let Some((_, claude)) = model.split_once("anthropic.claude-") {
        let is_old = OLD_CLAUDE.iter().any(|old| claude.starts_with(old));
        return if is_old { CachePoints::default() } else { points.clone() };
    }
    let nova = model.split_once("amazon.").map_or("", |(_, name)| name);
    if !NOVA.iter().any(|known| nova.starts_with(known)) {
        return CachePoints::default();
    }
    // Nova caches neither tools nor for an hour.
    let mut points = CachePoints { tools: BTreeMap::new(), ..points.clone() };
    for lifetime in points.system.values_mut().chain(points.turns.values_mut()) {
        *lifetime = CacheLifetime::Default;
    }
    points
}

/// Fields for the model itself.
#[derive(Serialize)]
struct AdditionalFields {
    #[serde(flatten)]
    reasoning: ReasoningFields,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<EffortFields>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_k: Option<u32>,
}

#[derive(Serialize)]
struct EffortFields {
    effort: &'static str,
}

impl AdditionalFields {
    fn of(request: &ChatRequest, model: &str) -> Result<Option<Self>, RequestError> {
        let settings = &request.settings;
        if !settings.reasoning.is_set() && settings.top_k.is_none() {
            return Ok(None);
        }
        if !model.contains("anthropic.") {
            let is_reasoning = settings.reasoning.is_set();
            let feature = if is_reasoning { ChatFeature::Reasoning } else { ChatFeature::TopK };
            return Err(feature.unsupported());
        }
        let max_output = request.max_output.unwrap_or(u32::MAX);
        let reasoning = ReasoningFields::of(&settings.reasoning, ModelTraits::of(model), max_output)?;
        let output_config = reasoning.effort.map(|effort| EffortFields { effort });
        Ok(Some(Self { reasoning, output_config, top_k: settings.top_k }))
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OutputConfig<'a> {
    text_format: TextFormat<'a>,
}

#[derive(Serialize)]
struct TextFormat<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    structure: FormatStructure<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FormatStructure<'a> {
    json_schema: JsonSchemaFields<'a>,
}

#[derive(Serialize)]
struct JsonSchemaFields<'a> {
    /// The service takes the schema as a string.
    schema: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
}

impl<'a> OutputConfig<'a> {
    fn of(format: &'a OutputFormat) -> Option<Self> {
        let OutputFormat::Schema(schema) = format else { return None };
        let json_schema = JsonSchemaFields {
            schema: closed(&schema.schema).get().to_owned(),
            name: schema.name.as_deref(),
            description: schema.description.as_deref(),
        };
        let structure = FormatStructure { json_schema };
        Some(Self { text_format: TextFormat { kind: "json_schema", structure } })
    }
}

/// Writes the turns. The service requires alternating roles, so consecutive turns of one role are merged.
fn write_turns<'a>(turns: &'a [Turn], marks: &CachePoints) -> Result<Vec<Message<'a>>, RequestError> {
    let mut messages: Vec<Message<'_>> = Vec::with_capacity(turns.len());
    for (at, turn) in turns.iter().enumerate() {
        let role = match turn.role {
            Role::User => "user",
            Role::Assistant => "assistant",
        };
        let content = write_parts(&turn.parts, &format!("messages.{at}.content"), false)?;
        let content = content.into_iter().enumerate().flat_map(|(part, block)| {
            let mark = marks.turns.get(&(at, part));
            let mark = mark.map(|lifetime| ConverseBlock::CachePoint(CachePoint::of(*lifetime)));
            [block].into_iter().chain(mark)
        });
        match messages.last_mut().filter(|last| last.role == role) {
            Some(last) => last.content.extend(content),
            None => messages.push(Message { role, content: content.collect() }),
        }
    }
    Ok(messages)
}

fn write_parts<'a>(
    parts: &'a [RequestPart],
    path: &str,
    in_result: bool,
) -> Result<Vec<ConverseBlock<'a>>, RequestError> {
    let write = |(at, part): (usize, &'a RequestPart)| match part {
        RequestPart::Text(text) => Ok(ConverseBlock::Text(text)),
        RequestPart::Image(image) => {
            write_image(image).map_err(|problem| invalid(format!("{path}.{at}"), problem))
        }
        RequestPart::Document(document) => {
            write_document(document).map_err(|problem| invalid(format!("{path}.{at}"), problem))
        }
        RequestPart::ToolCall(_) | RequestPart::ToolResult { .. } if in_result => {
            Err(invalid(format!("{path}.{at}"), "Tool results may contain only text and images"))
        }
        RequestPart::ToolCall(call) => Ok(call.into()),
        RequestPart::ToolResult { call, parts, is_error } => Ok(ConverseBlock::ToolResult {
            tool_use_id: call,
            content: write_parts(parts, &format!("{path}.{at}.toolResult.content"), true)?,
            status: if *is_error { "error" } else { "success" },
        }),
    };
    parts.iter().enumerate().map(write).collect()
}

fn write_image(image: &Image) -> Result<ConverseBlock<'_>, &'static str> {
    match image {
        Image::Url(_) => Err("Image URLs are not supported by the target model"),
        Image::Base64 { media_type, content } => {
            let format = format_of(media_type).ok_or("Image should be png, jpeg, gif or webp")?;
            Ok(ConverseBlock::Image { format, source: ImageSource { bytes: content } })
        }
    }
}

fn write_document(document: &Document) -> Result<ConverseBlock<'_>, &'static str> {
    match &document.content {
        Image::Url(_) => Err("Document URLs are not supported by the target model"),
        Image::Base64 { media_type, content } => {
            let format = document_format_of(media_type)
                .ok_or("Document should be of a format that the service reads")?;
            let name = document_name(document.name.as_deref().unwrap_or_default());
            Ok(ConverseBlock::Document { format, name, source: ImageSource { bytes: content } })
        }
    }
}

/// The tools. A tool choice of "none" is written by offering none.
fn write_tools<'a>(request: &'a ChatRequest, marks: &CachePoints) -> Option<ToolConfig<'a>> {
    let mut tools: Vec<_> = request.offered_tools().map(ToolEntry::from).collect();
    if tools.is_empty() || request.tool_choice == ToolChoice::None {
        return None;
    }
    // Of a subset of the tools the positions are others; what is cached is then the whole list.
    let is_same = tools.len() == request.tools.len();
    for (at, lifetime) in marks.tools.iter().rev() {
        let place = if is_same { at + 1 } else { tools.len() };
        if place <= tools.len() {
            tools.insert(place, ToolEntry::CachePoint(CachePoint::of(*lifetime)));
        }
        if !is_same {
            break;
        }
    }
    let tool_choice = match &request.tool_choice {
        ToolChoice::Auto | ToolChoice::None => None,
        ToolChoice::Any => Some(Choice::Any {}),
        ToolChoice::Named(name) => Some(Choice::Tool { name }),
    };
    Some(ToolConfig { tools, tool_choice })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<ConverseBlock<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inference_config: Option<Inference<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<ToolConfig<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    additional_model_request_fields: Option<AdditionalFields>,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: Vec<ConverseBlock<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Inference<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stop_sequences: &'a [String],
}

impl Inference<'_> {
    const fn is_empty(&self) -> bool {
        self.max_tokens.is_none()
            && self.temperature.is_none()
            && self.top_p.is_none()
            && self.stop_sequences.is_empty()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolConfig<'a> {
    tools: Vec<ToolEntry<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Choice<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Choice<'a> {
    Any {},
    Tool { name: &'a str },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum ToolEntry<'a> {
    ToolSpec(ToolSpec<'a>),
    CachePoint(CachePoint),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolSpec<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    input_schema: Schema<'a>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    strict: bool,
}

#[derive(Serialize)]
struct Schema<'a> {
    json: &'a JsonText,
}

impl<'a> From<&'a ToolDefinition> for ToolEntry<'a> {
    fn from(tool: &'a ToolDefinition) -> Self {
        // The service rejects an empty description.
        let description = tool.description.as_deref().filter(|text| !text.is_empty());
        Self::ToolSpec(ToolSpec {
            name: &tool.name,
            description,
            input_schema: Schema { json: &tool.schema },
            strict: tool.strict,
        })
    }
}
