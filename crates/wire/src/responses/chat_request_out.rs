//! Writes a request from the dialect-neutral form.

use super::settings::{ReasoningOut, TextOut};
use crate::chat::{
    ChatRequest, Document, FeatureColumn, Image, JsonText, RequestPart, Role, ToolChoice, ToolDefinition,
    Turn,
};
use crate::json_out::put_json;
use crate::openai::DEFAULT_FILE_NAME;
use crate::request_error::RequestError;
use bytes::BytesMut;
use serde::Serialize;
use std::borrow::Cow;

/// Appends a request in this dialect. It sends `store: false`, because the caller's dialect has no stored responses.
///
/// - The error flag of a tool result is dropped: the dialect has no field for it, and the text of the result shows the
///   error.
/// - Tools that are not strict are sent with `strict: false`. The vendor's default would rewrite their schemas. Tools with
///   free text are functions with one text.
/// - Empty texts and turns without parts are dropped, and `tool_choice` is dropped if there are no tools. Numbers that
///   JSON cannot represent are dropped.
/// - Features that the dialect does not have, images in assistant turns, tool calls outside of assistant turns and tool
///   results in them are rejected.
pub fn write_chat_request(out: &mut BytesMut, request: &ChatRequest) -> Result<(), RequestError> {
    write_chat_request_for(out, request, &request.model)
}

/// Like [`write_chat_request`], but for another model than the one the caller named.
pub fn write_chat_request_for(
    out: &mut BytesMut,
    request: &ChatRequest,
    model: &str,
) -> Result<(), RequestError> {
    request.refuse_unsupported(FeatureColumn::Responses)?;
    let max_output_tokens = request.positive_max_output()?;
    let settings = &request.settings;
    let mut input = Vec::new();
    let mut system = request.system.iter().map(String::as_str).filter(|text| !text.is_empty());
    let instructions = match (system.next(), system.next()) {
        (only, None) => only,
        (first, second) => {
            let texts = first.into_iter().chain(second).chain(system).map(|text| Part::InputText { text });
            input.push(Item::message("system", Content::Parts(texts.collect())));
            None
        }
    };
    for (at, turn) in request.turns.iter().enumerate() {
        let outcome = match turn.role {
            Role::User => put_user(&mut input, turn),
            Role::Assistant => put_assistant(&mut input, turn),
        };
        outcome.map_err(|problem| RequestError::untranslatable(format!("messages.{at}"), problem))?;
    }
    let has_tools = !request.tools.is_empty();
    let finite = |number: Option<f64>| number.filter(|number| number.is_finite());
    put_json(
        out,
        &Body {
            model,
            instructions,
            input,
            tools: request.tools.iter().map(Tool::of).collect(),
            tool_choice: if has_tools { Choice::of(request) } else { None },
            parallel_tool_calls: (has_tools && settings.single_tool_call).then_some(false),
            reasoning: ReasoningOut::of(&settings.reasoning),
            text: TextOut::of(settings),
            max_output_tokens,
            temperature: finite(request.temperature),
            top_p: finite(request.top_p),
            store: false,
            stream: request.stream,
        },
    );
    Ok(())
}

/// Text and images become user messages, and each tool result becomes an item of its own, in order.
fn put_user<'a>(input: &mut Vec<Item<'a>>, turn: &'a Turn) -> Result<(), &'static str> {
    let mut pieces = Vec::new();
    let flush = |input: &mut Vec<Item<'a>>, pieces: &mut Vec<Part<'a>>| {
        if !pieces.is_empty() {
            input.push(Item::message("user", Content::of(std::mem::take(pieces))));
        }
    };
    for part in &turn.parts {
        if let RequestPart::ToolResult { call, parts, is_error: _ } = part {
            flush(input, &mut pieces);
            let parts =
                parts.iter().filter_map(|part| Part::of(part).transpose()).collect::<Result<_, _>>()?;
            input.push(Item::FunctionCallOutput { call_id: call, output: Content::of(parts) });
        } else {
            pieces.extend(Part::of(part)?);
        }
    }
    flush(input, &mut pieces);
    Ok(())
}

/// Each text becomes a message and each tool call an item, in order.
fn put_assistant<'a>(input: &mut Vec<Item<'a>>, turn: &'a Turn) -> Result<(), &'static str> {
    for part in &turn.parts {
        match part {
            RequestPart::Text(text) if text.is_empty() => {}
            RequestPart::Text(text) => input.push(Item::message("assistant", Content::Text(text))),
            RequestPart::ToolCall(call) => input.push(Item::FunctionCall {
                call_id: &call.id,
                name: &call.name,
                arguments: call.input.get(),
            }),
            RequestPart::Image(_) => return Err("images in assistant messages"),
            RequestPart::Document(_) => return Err("documents in assistant messages"),
            RequestPart::ToolResult { .. } => return Err("tool results in assistant messages"),
        }
    }
    Ok(())
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<&'a str>,
    input: Vec<Item<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Choice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<ReasoningOut>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<TextOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    store: bool,
    stream: bool,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Item<'a> {
    Message { role: &'a str, content: Content<'a> },
    FunctionCall { call_id: &'a str, name: &'a str, arguments: &'a str },
    FunctionCallOutput { call_id: &'a str, output: Content<'a> },
}

impl<'a> Item<'a> {
    const fn message(role: &'a str, content: Content<'a>) -> Self {
        Self::Message { role, content }
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(&'a str),
    Parts(Vec<Part<'a>>),
}

impl<'a> Content<'a> {
    /// A single text is written as a string, which every compatible server accepts.
    fn of(pieces: Vec<Part<'a>>) -> Self {
        match *pieces {
            [] => Self::Text(""),
            [Part::InputText { text }] => Self::Text(text),
            _ => Self::Parts(pieces),
        }
    }
}

#[expect(clippy::enum_variant_names, reason = "the names are the types of the dialect")]
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    InputText { text: &'a str },
    InputImage { detail: &'a str, image_url: Cow<'a, str> },
    InputFile(InputFile<'a>),
}

#[derive(Serialize)]
struct InputFile<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    filename: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_data: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_url: Option<&'a str>,
}

impl<'a> Part<'a> {
    /// `None` for an empty text.
    fn of(part: &'a RequestPart) -> Result<Option<Self>, &'static str> {
        Ok(match part {
            RequestPart::Text(text) => (!text.is_empty()).then_some(Self::InputText { text }),
            RequestPart::Image(image) => Some(Self::InputImage { detail: "auto", image_url: image.to_url() }),
            RequestPart::Document(Document { name, content: Image::Url(url) }) => {
                let filename = name.as_deref();
                Some(Self::InputFile(InputFile { filename, file_data: None, file_url: Some(url) }))
            }
            RequestPart::Document(Document { name, content }) => {
                let filename = Some(name.as_deref().unwrap_or(DEFAULT_FILE_NAME));
                let file_data = Some(content.to_url());
                Some(Self::InputFile(InputFile { filename, file_data, file_url: None }))
            }
            RequestPart::ToolCall(_) => return Err("tool calls outside of assistant messages"),
            RequestPart::ToolResult { .. } => return Err("tool results within tool results"),
        })
    }
}

#[derive(Serialize)]
struct Tool<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    parameters: &'a JsonText,
    strict: bool,
}

impl<'a> Tool<'a> {
    fn of(tool: &'a ToolDefinition) -> Self {
        let (name, description) = (tool.name.as_str(), tool.description.as_deref());
        Self { kind: "function", name, description, parameters: &tool.schema, strict: tool.strict }
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Choice<'a> {
    Name(&'a str),
    Function {
        #[serde(rename = "type")]
        kind: &'a str,
        name: &'a str,
    },
    Allowed {
        #[serde(rename = "type")]
        kind: &'a str,
        mode: &'a str,
        tools: Vec<Self>,
    },
}

impl<'a> Choice<'a> {
    fn of(request: &'a ChatRequest) -> Option<Self> {
        let names = &request.settings.allowed_tools;
        let allowed = |mode| {
            let tools = names.iter().map(|name| Self::Function { kind: "function", name }).collect();
            Some(Self::Allowed { kind: "allowed_tools", mode, tools })
        };
        match &request.tool_choice {
            ToolChoice::Auto if !names.is_empty() => allowed("auto"),
            ToolChoice::Any if !names.is_empty() => allowed("required"),
            ToolChoice::Auto => None,
            ToolChoice::None => Some(Self::Name("none")),
            ToolChoice::Any => Some(Self::Name("required")),
            ToolChoice::Named(name) => Some(Self::Function { kind: "function", name }),
        }
    }
}
