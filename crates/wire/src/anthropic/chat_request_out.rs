//! Writes a request from the dialect-neutral form.

use super::model_traits::ModelTraits;
use super::settings::{OutputConfig, ReasoningFields, ThinkingFields, refuse_by_model};
use crate::chat::{
    CacheLifetime, CachePoints, ChatRequest, Document, FeatureColumn, Image, JsonText, RequestPart, Role,
    ToolChoice, ToolDefinition, Turn,
};
use crate::json_out::put_json;
use crate::request_error::RequestError;
use bytes::BytesMut;
use serde::Serialize;

/// The output limit written for a caller that set none, because the vendor requires one.
pub const DEFAULT_MAX_OUTPUT: u32 = 4_096;

/// Appends a request in this dialect.
///
/// - Without an output limit, it writes [`DEFAULT_MAX_OUTPUT`].
/// - A number that JSON cannot represent is dropped, and so are the defaults of sampling for models that accept nothing
///   else.
/// - Empty texts and turns without parts are dropped, and `tool_choice` is dropped if there are no tools.
/// - Only the tools that the model may call are offered, and tools with free text are functions with one text.
/// - Images in assistant turns, tool calls in user turns, tool calls in a tool result, and features that the dialect or
///   the model does not have are rejected.
pub fn write_chat_request(out: &mut BytesMut, request: &ChatRequest) -> Result<(), RequestError> {
    write_chat_request_for(out, request, &request.model)
}

/// Like [`write_chat_request`], but for another model than the one the caller named.
pub fn write_chat_request_for(
    out: &mut BytesMut,
    request: &ChatRequest,
    model: &str,
) -> Result<(), RequestError> {
    request.refuse_unsupported(FeatureColumn::Anthropic)?;
    let (settings, traits) = (&request.settings, ModelTraits::of(model));
    refuse_by_model(request, traits)?;
    let max_tokens = request.max_output.unwrap_or(DEFAULT_MAX_OUTPUT);
    let reasoning = ReasoningFields::of(&settings.reasoning, traits, max_tokens)?;
    let sampling = |number| finite(number).filter(|_| traits.takes_sampling);
    let marks = &settings.cache_points;
    let turns = request.turns.iter().enumerate().map(|(at, turn)| {
        let mark = |part: usize| marks.turns.get(&(at, part)).copied().map(CacheControl::of);
        Message::of(turn, mark)
            .map_err(|problem| RequestError::untranslatable(format!("messages.{at}"), problem))
    });
    let mut messages = turns.collect::<Result<Vec<_>, _>>()?;
    messages.retain(|message| !message.content.is_empty());
    let mut tools: Vec<_> = request.offered_tools().map(Tool::of).collect();
    // Of a subset of the tools the positions are others; what is cached is then the whole list.
    let last = tools.len().checked_sub(1);
    for (at, lifetime) in &marks.tools {
        let is_same = tools.len() == request.tools.len();
        let place = if is_same { Some(*at) } else { last };
        if let Some(tool) = place.and_then(|at| tools.get_mut(at)) {
            tool.cache_control = Some(CacheControl::of(*lifetime));
        }
    }
    let tool_choice = if tools.is_empty() { None } else { Choice::of(request) };
    put_json(
        out,
        &Body {
            model,
            max_tokens,
            system: System::of(&request.system, marks),
            messages,
            tools,
            tool_choice,
            thinking: reasoning.thinking,
            output_config: OutputConfig::of(&settings.output_format, reasoning.effort),
            temperature: sampling(request.temperature),
            top_p: sampling(request.top_p),
            top_k: settings.top_k,
            stop_sequences: &request.stop,
            stream: request.stream,
        },
    );
    Ok(())
}

fn finite(number: Option<f64>) -> Option<f64> {
    number.filter(|number| number.is_finite())
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<System<'a>>,
    messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Choice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<ThinkingFields>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_k: Option<u32>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    stop_sequences: &'a [String],
    stream: bool,
}

#[derive(Serialize)]
#[serde(untagged)]
enum System<'a> {
    Text(&'a str),
    Blocks(Vec<MarkedBlock<'a>>),
}

impl<'a> System<'a> {
    fn of(texts: &'a [String], marks: &CachePoints) -> Option<Self> {
        let mark = |at: usize| marks.system.get(&at).copied().map(CacheControl::of);
        let texts = texts.iter().map(String::as_str).enumerate().filter(|(_, text)| !text.is_empty());
        let texts: Vec<_> = texts.map(|(at, text)| (text, mark(at))).collect();
        match *texts {
            [] => None,
            [(text, None)] => Some(Self::Text(text)),
            _ => {
                let block =
                    |(text, cache_control)| MarkedBlock { block: Block::Text { text }, cache_control };
                Some(Self::Blocks(texts.into_iter().map(block).collect()))
            }
        }
    }
}

/// A block, and the mark up to which the vendor caches the prompt.
#[derive(Serialize)]
struct MarkedBlock<'a> {
    #[serde(flatten)]
    block: Block<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

#[derive(Clone, Copy, Serialize)]
struct CacheControl {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<&'static str>,
}

impl CacheControl {
    const fn of(lifetime: CacheLifetime) -> Self {
        Self { kind: "ephemeral", ttl: lifetime.ttl() }
    }
}

#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    input_schema: &'a JsonText,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    strict: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

impl<'a> Tool<'a> {
    fn of(tool: &'a ToolDefinition) -> Self {
        let (description, input_schema) = (tool.description.as_deref(), &tool.schema);
        Self { name: &tool.name, description, input_schema, strict: tool.strict, cache_control: None }
    }
}

#[derive(Serialize)]
struct Choice<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    disable_parallel_tool_use: bool,
}

impl<'a> Choice<'a> {
    fn of(request: &'a ChatRequest) -> Option<Self> {
        let is_single = request.settings.single_tool_call;
        let (kind, name) = match &request.tool_choice {
            ToolChoice::Auto if !is_single => return None,
            ToolChoice::Auto => ("auto", None),
            ToolChoice::None => ("none", None),
            ToolChoice::Any => ("any", None),
            ToolChoice::Named(name) => ("tool", Some(name.as_str())),
        };
        Some(Self { kind, name, disable_parallel_tool_use: is_single && kind != "none" })
    }
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'a str,
    content: Vec<MarkedBlock<'a>>,
}

impl<'a> Message<'a> {
    fn of(turn: &'a Turn, mark: impl Fn(usize) -> Option<CacheControl>) -> Result<Self, &'static str> {
        let role = match turn.role {
            Role::User => "user",
            Role::Assistant => "assistant",
        };
        let parts = turn.parts.iter().enumerate().filter_map(|(at, part)| {
            let block = Block::of(part, PartPosition::Turn(turn.role))?;
            Some(block.map(|block| MarkedBlock { block, cache_control: mark(at) }))
        });
        Ok(Self { role, content: parts.collect::<Result<_, _>>()? })
    }
}

/// The context of a part, which decides what types it may have.
#[derive(Clone, Copy, PartialEq)]
enum PartPosition {
    Turn(Role),
    Result,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block<'a> {
    Text {
        text: &'a str,
    },
    Image {
        source: Source<'a>,
    },
    Document {
        source: Source<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<&'a str>,
    },
    ToolUse {
        id: &'a str,
        name: &'a str,
        input: &'a JsonText,
    },
    ToolResult {
        tool_use_id: &'a str,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        content: Vec<Self>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

impl<'a> Block<'a> {
    /// `None` for an empty text.
    fn of(part: &'a RequestPart, position: PartPosition) -> Option<Result<Self, &'static str>> {
        Some(match (part, position) {
            (RequestPart::Text(text), _) if text.is_empty() => return None,
            (RequestPart::Text(text), _) => Ok(Self::Text { text }),
            (RequestPart::Image(_), PartPosition::Turn(Role::Assistant)) => {
                Err("images in assistant messages")
            }
            (RequestPart::Image(image), _) => Ok(Self::Image { source: Source::of(image) }),
            (RequestPart::Document(_), PartPosition::Turn(Role::Assistant)) => {
                Err("documents in assistant messages")
            }
            (RequestPart::Document(Document { name, content }), _) => {
                Ok(Self::Document { source: Source::of(content), title: name.as_deref() })
            }
            (RequestPart::ToolCall(call), PartPosition::Turn(Role::Assistant)) => {
                Ok(Self::ToolUse { id: &call.id, name: &call.name, input: &call.input })
            }
            (RequestPart::ToolCall(_), _) => Err("tool calls outside of assistant messages"),
            (RequestPart::ToolResult { call, parts, is_error }, PartPosition::Turn(Role::User)) => {
                let content = parts.iter().filter_map(|part| Self::of(part, PartPosition::Result));
                let content: Result<Vec<Self>, _> = content.collect();
                content.map(|content| Self::ToolResult { tool_use_id: call, content, is_error: *is_error })
            }
            (RequestPart::ToolResult { .. }, _) => Err("tool results outside of user messages"),
        })
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Source<'a> {
    Url { url: &'a str },
    Base64 { media_type: &'a str, data: &'a str },
}

impl<'a> Source<'a> {
    fn of(image: &'a Image) -> Self {
        match image {
            Image::Url(url) => Self::Url { url },
            Image::Base64 { media_type, content } => Self::Base64 { media_type, data: content },
        }
    }
}
