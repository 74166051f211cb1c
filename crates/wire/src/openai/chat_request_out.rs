//! Writes a request from the dialect-neutral form.

use crate::chat::{ChatRequest, Image, JsonText, RequestPart, Role, ToolChoice, ToolDefinition, Turn};
use crate::json_out::put_json;
use crate::request_error::RequestError;
use bytes::BytesMut;
use seawall_core::vocabulary::OutputLimitField;
use serde::{Serialize, Serializer};
use std::borrow::Cow;

/// Appends a request in this dialect.
///
/// - In an assistant turn, texts come before tool calls, because a message has them in this order.
/// - The error flag of a tool result is dropped: the dialect has no field for it, and the text of the result shows the
///   error.
/// - Empty texts and turns without parts are dropped, and `tool_choice` is dropped if there are no tools. Numbers that
///   JSON cannot represent are dropped.
/// - Images in assistant turns and in tool results, and tool calls outside of assistant turns, are rejected.
pub fn write_chat_request(out: &mut BytesMut, request: &ChatRequest) -> Result<(), RequestError> {
    write_chat_request_for(out, request, &request.model, OutputLimitField::MaxCompletionTokens)
}

/// Like [`write_chat_request`], but for another model than the one the caller named, and with the output limit in this
/// field.
pub fn write_chat_request_for(
    out: &mut BytesMut,
    request: &ChatRequest,
    model: &str,
    limit_field: OutputLimitField,
) -> Result<(), RequestError> {
    let max_output = request.positive_max_output()?;
    let limit = |field| max_output.filter(|_| field == limit_field);
    let mut messages = Vec::new();
    let system: Vec<_> = request.system.iter().filter_map(|text| PartFields::text(text)).collect();
    if !system.is_empty() {
        messages.push(Message::new("system", Some(Content::of(system))));
    }
    for (at, turn) in request.turns.iter().enumerate() {
        let outcome = match turn.role {
            Role::User => put_user(&mut messages, turn),
            Role::Assistant => put_assistant(&mut messages, turn),
        };
        outcome.map_err(|problem| RequestError::untranslatable(format!("messages.{at}"), problem))?;
    }
    let has_tools = !request.tools.is_empty();
    let finite = |number: Option<f64>| number.filter(|number| number.is_finite());
    put_json(
        out,
        &Body {
            model,
            messages,
            tools: request.tools.iter().map(Tool::of).collect(),
            tool_choice: if has_tools { Choice::of(&request.tool_choice) } else { None },
            max_completion_tokens: limit(OutputLimitField::MaxCompletionTokens),
            max_tokens: limit(OutputLimitField::MaxTokens),
            temperature: finite(request.temperature),
            top_p: finite(request.top_p),
            stop: &request.stop,
            stream: request.stream,
            stream_options: (request.stream && request.stream_usage)
                .then_some(StreamOptions { include_usage: true }),
        },
    );
    Ok(())
}

/// Text and images become user messages, and each tool result becomes a message of its own, in order.
fn put_user<'a>(messages: &mut Vec<Message<'a>>, turn: &'a Turn) -> Result<(), &'static str> {
    let mut pieces = Vec::new();
    let flush = |messages: &mut Vec<Message<'a>>, pieces: &mut Vec<PartFields<'a>>| {
        if !pieces.is_empty() {
            messages.push(Message::new("user", Some(Content::of(std::mem::take(pieces)))));
        }
    };
    for part in &turn.parts {
        match part {
            RequestPart::Text(text) => pieces.extend(PartFields::text(text)),
            RequestPart::Image(image) => pieces.push(PartFields::image(image)),
            RequestPart::ToolCall(_) => return Err("tool calls outside of assistant messages"),
            RequestPart::ToolResult { call, parts, is_error: _ } => {
                flush(messages, &mut pieces);
                let texts = parts.iter().filter_map(|part| match part {
                    RequestPart::Text(text) => PartFields::text(text).map(Ok),
                    _ => Some(Err("tool results with content other than text")),
                });
                let content = Content::of(texts.collect::<Result<_, _>>()?);
                let tool_call_id = Some(call.as_str());
                messages.push(Message { tool_call_id, ..Message::new("tool", Some(content)) });
            }
        }
    }
    flush(messages, &mut pieces);
    Ok(())
}

fn put_assistant<'a>(messages: &mut Vec<Message<'a>>, turn: &'a Turn) -> Result<(), &'static str> {
    let (mut pieces, mut tool_calls) = (Vec::new(), Vec::new());
    for part in &turn.parts {
        match part {
            RequestPart::Text(text) => pieces.extend(PartFields::text(text)),
            RequestPart::ToolCall(call) => tool_calls.push(Call {
                id: &call.id,
                kind: "function",
                function: CalledFunction { name: &call.name, arguments: call.input.get() },
            }),
            RequestPart::Image(_) => return Err("images in assistant messages"),
            RequestPart::ToolResult { .. } => return Err("tool results in assistant messages"),
        }
    }
    if !pieces.is_empty() || !tool_calls.is_empty() {
        let content = if pieces.is_empty() { None } else { Some(Content::of(pieces)) };
        messages.push(Message { tool_calls, ..Message::new("assistant", content) });
    }
    Ok(())
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Choice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    stop: &'a [String],
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
    content: Option<Content<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call<'a>>,
}

impl<'a> Message<'a> {
    const fn new(role: &'a str, content: Option<Content<'a>>) -> Self {
        Self { role, tool_call_id: None, content, tool_calls: Vec::new() }
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(&'a str),
    Parts(Vec<PartFields<'a>>),
}

impl<'a> Content<'a> {
    /// A single text is written as a string, which every compatible server accepts.
    fn of(pieces: Vec<PartFields<'a>>) -> Self {
        match *pieces {
            [] => Self::Text(""),
            [PartFields::Text { text }] => Self::Text(text),
            _ => Self::Parts(pieces),
        }
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum PartFields<'a> {
    Text { text: &'a str },
    ImageUrl { image_url: ImageUrl<'a> },
}

impl<'a> PartFields<'a> {
    /// `None` for an empty text.
    fn text(text: &'a str) -> Option<Self> {
        (!text.is_empty()).then_some(Self::Text { text })
    }

    fn image(image: &'a Image) -> Self {
        let url = match image {
            Image::Url(url) => Cow::Borrowed(url.as_str()),
            Image::Base64 { media_type, content } => {
                Cow::Owned(format!("data:{media_type};base64,{content}"))
            }
        };
        Self::ImageUrl { image_url: ImageUrl { url } }
    }
}

#[derive(Serialize)]
struct ImageUrl<'a> {
    url: Cow<'a, str>,
}

#[derive(Serialize)]
struct Call<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    kind: &'a str,
    function: CalledFunction<'a>,
}

#[derive(Serialize)]
struct CalledFunction<'a> {
    name: &'a str,
    arguments: &'a str,
}

#[derive(Serialize)]
struct Tool<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    parameters: &'a JsonText,
}

impl<'a> Tool<'a> {
    fn of(tool: &'a ToolDefinition) -> Self {
        let (name, description) = (tool.name.as_str(), tool.description.as_deref());
        Self { kind: "function", function: Function { name, description, parameters: &tool.schema } }
    }
}

enum Choice<'a> {
    Name(&'a str),
    Function(&'a str),
}

impl<'a> Choice<'a> {
    fn of(choice: &'a ToolChoice) -> Option<Self> {
        match choice {
            ToolChoice::Auto => None,
            ToolChoice::None => Some(Self::Name("none")),
            ToolChoice::Any => Some(Self::Name("required")),
            ToolChoice::Named(name) => Some(Self::Function(name)),
        }
    }
}

impl Serialize for Choice<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Named<'a> {
            #[serde(rename = "type")]
            kind: &'a str,
            function: OnlyName<'a>,
        }
        #[derive(Serialize)]
        struct OnlyName<'a> {
            name: &'a str,
        }
        match *self {
            Self::Name(word) => word.serialize(serializer),
            Self::Function(name) => {
                Named { kind: "function", function: OnlyName { name } }.serialize(serializer)
            }
        }
    }
}
