//! Writes a request from the dialect-neutral form.

use crate::chat::schema::is_strict;
use crate::chat::{
    ChatRequest, DEFAULT_SCHEMA_NAME, Document, FeatureColumn, Image, JsonText, OutputFormat, OutputSchema,
    RequestPart, Role, ToolChoice, ToolDefinition, Turn, Verbosity,
};
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
/// - Tools with free text are written as functions with one text.
/// - Images in assistant turns and in tool results, tool calls outside of assistant turns, and features that the dialect
///   does not have are rejected.
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
    request.refuse_unsupported(FeatureColumn::OpenAi)?;
    let max_output = request.positive_max_output()?;
    let settings = &request.settings;
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
            tool_choice: if has_tools { Choice::of(request) } else { None },
            parallel_tool_calls: (has_tools && settings.single_tool_call).then_some(false),
            response_format: ResponseFormat::of(&settings.output_format),
            reasoning_effort: settings.reasoning.effort_name(),
            verbosity: settings.verbosity.map(Verbosity::name),
            seed: settings.seed,
            presence_penalty: finite(settings.presence_penalty),
            frequency_penalty: finite(settings.frequency_penalty),
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
            RequestPart::Document(document) => pieces.push(PartFields::file(document)),
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
            RequestPart::Document(_) => return Err("documents in assistant messages"),
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
    parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<ResponseFormat<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    verbosity: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    presence_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    frequency_penalty: Option<f64>,
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
    File { file: File<'a> },
}

impl<'a> PartFields<'a> {
    /// `None` for an empty text.
    fn text(text: &'a str) -> Option<Self> {
        (!text.is_empty()).then_some(Self::Text { text })
    }

    fn image(image: &'a Image) -> Self {
        Self::ImageUrl { image_url: ImageUrl { url: image.to_url() } }
    }

    fn file(document: &'a Document) -> Self {
        let filename = document.name.as_deref().unwrap_or(DEFAULT_FILE_NAME);
        Self::File { file: File { filename, file_data: document.content.to_url() } }
    }
}

/// The name of a document without one; the vendor requires a name.
pub(crate) const DEFAULT_FILE_NAME: &str = "document.pdf";

#[derive(Serialize)]
struct File<'a> {
    filename: &'a str,
    file_data: Cow<'a, str>,
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
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    strict: bool,
}

impl<'a> Tool<'a> {
    fn of(tool: &'a ToolDefinition) -> Self {
        let (name, description) = (tool.name.as_str(), tool.description.as_deref());
        let function = Function { name, description, parameters: &tool.schema, strict: tool.strict };
        Self { kind: "function", function }
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ResponseFormat<'a> {
    JsonObject,
    JsonSchema { json_schema: SchemaFields<'a> },
}

impl<'a> ResponseFormat<'a> {
    fn of(format: &'a OutputFormat) -> Option<Self> {
        match format {
            OutputFormat::Text => None,
            OutputFormat::Json => Some(Self::JsonObject),
            OutputFormat::Schema(schema) => Some(Self::JsonSchema { json_schema: SchemaFields::of(schema) }),
        }
    }
}

/// A named schema, in both of OpenAI's dialects.
#[derive(Serialize)]
pub(crate) struct SchemaFields<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    schema: &'a JsonText,
    strict: bool,
}

impl<'a> SchemaFields<'a> {
    /// OpenAI enforces only schemas of a certain form. Any other one is shown to the model without being enforced,
    /// because the vendor would reject the request.
    pub(crate) fn of(schema: &'a OutputSchema) -> Self {
        Self {
            name: schema.name.as_deref().unwrap_or(DEFAULT_SCHEMA_NAME),
            description: schema.description.as_deref(),
            schema: &schema.schema,
            strict: schema.is_enforced && is_strict(&schema.schema),
        }
    }
}

enum Choice<'a> {
    Name(&'a str),
    Function(&'a str),
    Allowed(&'static str, &'a [String]),
}

impl<'a> Choice<'a> {
    fn of(request: &'a ChatRequest) -> Option<Self> {
        let allowed = &request.settings.allowed_tools;
        match &request.tool_choice {
            ToolChoice::Auto if !allowed.is_empty() => Some(Self::Allowed("auto", allowed)),
            ToolChoice::Any if !allowed.is_empty() => Some(Self::Allowed("required", allowed)),
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
        #[derive(Serialize)]
        struct AllowedTools<'a> {
            #[serde(rename = "type")]
            kind: &'a str,
            allowed_tools: AllowedFields<'a>,
        }
        #[derive(Serialize)]
        struct AllowedFields<'a> {
            mode: &'a str,
            tools: Vec<Named<'a>>,
        }
        let named = |name| Named { kind: "function", function: OnlyName { name } };
        match *self {
            Self::Name(word) => word.serialize(serializer),
            Self::Function(name) => named(name).serialize(serializer),
            Self::Allowed(mode, names) => {
                let tools = names.iter().map(|name| named(name)).collect();
                AllowedTools { kind: "allowed_tools", allowed_tools: AllowedFields { mode, tools } }
                    .serialize(serializer)
            }
        }
    }
}
