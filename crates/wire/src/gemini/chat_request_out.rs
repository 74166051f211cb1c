//! Writes a request from the dialect-neutral form.

use super::settings::SettingsOut;
use super::shapes::{BlobOut, CallOut, GeminiPartOut, OutputOut, ResultOut};
use crate::chat::{
    ChatRequest, FeatureColumn, Image, JsonText, RequestPart, Role, ToolChoice, ToolDefinition, Turn,
};
use crate::json_out::put_json;
use crate::request_error::RequestError;
use bytes::BytesMut;
use serde::Serialize;
use std::collections::BTreeMap;

/// The vendor's documented value for a function call whose thought signature is not known, such as one that another
/// model made. Newer models reject a call without a signature.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// Appends the body of a request in this dialect. The model and the stream flag go into the path.
///
/// - Thought signatures are not part of the neutral form. Function calls are sent with the vendor's marker for calls
///   without one, so the model does not continue its earlier thoughts.
/// - A tool result has one text here: several texts are joined with line breaks. Its error flag selects the field.
/// - Empty texts and turns without parts are dropped, and the tool choice is dropped if there are no tools. Numbers
///   that JSON cannot represent are dropped.
/// - Tools with free text are functions with one text.
/// - Features that the dialect does not have, tool calls outside of assistant turns, tool results outside of user turns,
///   and results of unknown calls are rejected: the dialect needs the name of the function.
pub fn write_chat_request(out: &mut BytesMut, request: &ChatRequest) -> Result<(), RequestError> {
    write_chat_request_for(out, request, &request.model)
}

/// Like [`write_chat_request`], but for another model than the one the caller named: thinking is written as that model
/// takes it.
pub fn write_chat_request_for(
    out: &mut BytesMut,
    request: &ChatRequest,
    model: &str,
) -> Result<(), RequestError> {
    request.refuse_unsupported(FeatureColumn::Gemini)?;
    let mut calls = BTreeMap::new();
    let mut contents = Vec::with_capacity(request.turns.len());
    for (at, turn) in request.turns.iter().enumerate() {
        let content = write_turn(turn, &mut calls).map_err(|(part, problem)| {
            RequestError::untranslatable(format!("messages.{at}.content.{part}"), problem)
        })?;
        contents.extend(content);
    }
    let system: Vec<_> = request.system.iter().filter_map(|text| text_part(text)).collect();
    let finite = |number: Option<f64>| number.filter(|number| number.is_finite());
    let config = Config {
        max_output_tokens: request.positive_max_output()?,
        temperature: finite(request.temperature),
        top_p: finite(request.top_p),
        stop_sequences: &request.stop,
        settings: SettingsOut::of(&request.settings, model),
    };
    let has_tools = !request.tools.is_empty();
    let functions = Tool { function_declarations: request.tools.iter().map(Function::of).collect() };
    put_json(
        out,
        &Body {
            contents,
            system_instruction: (!system.is_empty()).then_some(Content { role: None, parts: system }),
            tools: if has_tools { vec![functions] } else { Vec::new() },
            tool_config: if has_tools { ToolConfig::of(request) } else { None },
            generation_config: (!config.is_empty()).then_some(config),
        },
    );
    Ok(())
}

/// Writes a turn; `None` if it is empty. `calls` holds the function names of the calls so far, by id. The error names
/// the part that cannot be written.
fn write_turn<'a>(
    turn: &'a Turn,
    calls: &mut BTreeMap<&'a str, &'a str>,
) -> Result<Option<Content<'a>>, (usize, &'static str)> {
    let (role, is_user) = match turn.role {
        Role::User => ("user", true),
        Role::Assistant => ("model", false),
    };
    let mut parts = Vec::with_capacity(turn.parts.len());
    for (at, part) in turn.parts.iter().enumerate() {
        let unsupported = |problem| (at, problem);
        match part {
            RequestPart::Text(text) => parts.extend(text_part(text)),
            RequestPart::Image(image) => parts.push(image_part(image).map_err(unsupported)?),
            RequestPart::Document(document) => {
                parts.push(image_part(&document.content).map_err(unsupported)?);
            }
            RequestPart::ToolCall(_) if is_user => {
                return Err(unsupported("tool calls outside of assistant messages"));
            }
            RequestPart::ToolCall(call) => {
                calls.insert(&call.id, &call.name);
                let (id, name, args) = (&call.id, &call.name, &call.input);
                let function_call = Some(CallOut { id, name, args });
                let thought_signature = Some(NO_SIGNATURE);
                parts.push(GeminiPartOut { function_call, thought_signature, ..GeminiPartOut::default() });
            }
            RequestPart::ToolResult { .. } if !is_user => {
                return Err(unsupported("tool results in assistant messages"));
            }
            RequestPart::ToolResult { call, parts: content, is_error } => {
                let name = calls.get(call.as_str()).ok_or("tool results without their tool call");
                let result = name.and_then(|name| result_part(call, name, content, *is_error));
                parts.push(result.map_err(unsupported)?);
            }
        }
    }
    Ok((!parts.is_empty()).then_some(Content { role: Some(role), parts: parts.into_iter().collect() }))
}

fn text_part(text: &str) -> Option<GeminiPartOut<'_>> {
    (!text.is_empty()).then(|| GeminiPartOut { text: Some(text), ..GeminiPartOut::default() })
}

fn image_part(image: &Image) -> Result<GeminiPartOut<'_>, &'static str> {
    match image {
        Image::Url(_) => Err("images by URL"),
        Image::Base64 { media_type, content } => {
            let inline_data = Some(BlobOut { mime_type: media_type, data: content });
            Ok(GeminiPartOut { inline_data, ..GeminiPartOut::default() })
        }
    }
}

fn result_part<'a>(
    id: &'a str,
    name: &'a str,
    content: &'a [RequestPart],
    is_error: bool,
) -> Result<GeminiPartOut<'a>, &'static str> {
    let (mut texts, mut parts) = (Vec::new(), Vec::new());
    for part in content {
        match part {
            RequestPart::Text(text) => texts.push(text.as_str()),
            RequestPart::Image(image) => parts.push(image_part(image)?),
            RequestPart::Document(document) => parts.push(image_part(&document.content)?),
            RequestPart::ToolCall(_) | RequestPart::ToolResult { .. } => {
                return Err("tool results with content other than text and images");
            }
        }
    }
    let text = texts.join("\n");
    let response = if is_error { OutputOut::Error(text) } else { OutputOut::Output(text) };
    let function_response = Some(ResultOut { id, name, response, parts });
    Ok(GeminiPartOut { function_response, ..GeminiPartOut::default() })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    contents: Vec<Content<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Content<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<ToolConfig<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation_config: Option<Config<'a>>,
}

#[derive(Serialize)]
struct Content<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    parts: Vec<GeminiPartOut<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Config<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    stop_sequences: &'a [String],
    #[serde(flatten)]
    settings: SettingsOut<'a>,
}

impl Config<'_> {
    const fn is_empty(&self) -> bool {
        self.max_output_tokens.is_none()
            && self.temperature.is_none()
            && self.top_p.is_none()
            && self.stop_sequences.is_empty()
            && self.settings.is_empty()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tool<'a> {
    function_declarations: Vec<Function<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Function<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    parameters_json_schema: &'a JsonText,
}

impl<'a> Function<'a> {
    fn of(tool: &'a ToolDefinition) -> Self {
        let (name, description) = (tool.name.as_str(), tool.description.as_deref());
        Self { name, description, parameters_json_schema: &tool.schema }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolConfig<'a> {
    function_calling_config: CallingConfig<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CallingConfig<'a> {
    mode: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    allowed_function_names: Option<&'a [String]>,
}

impl<'a> ToolConfig<'a> {
    /// The mode `VALIDATED` lets the model decide and enforces the schemas; `ANY` enforces them as well.
    fn of(request: &'a ChatRequest) -> Option<Self> {
        let allowed = Some(&request.settings.allowed_tools[..]).filter(|names| !names.is_empty());
        let is_strict = request.tools.iter().any(|tool| tool.strict);
        let (mode, allowed_function_names) = match &request.tool_choice {
            ToolChoice::Auto if allowed.is_none() && !is_strict => return None,
            ToolChoice::Auto => ("VALIDATED", allowed),
            ToolChoice::None => ("NONE", None),
            ToolChoice::Any => ("ANY", allowed),
            ToolChoice::Named(name) => ("ANY", Some(std::slice::from_ref(name))),
        };
        Some(Self { function_calling_config: CallingConfig { mode, allowed_function_names } })
    }
}
